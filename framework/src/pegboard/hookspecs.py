"""The hooks of the kernel: where a pack's code goes, what it may change, and what its failure does.

Each hook has a `kind` (how answers combine) and a `failure` policy (what a raising or lying implementation does); both
are enforced by `dispatch.py`. `agent_created`, `agent_disposed` and `observe` are sync, the rest may be either.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import pluggy

if TYPE_CHECKING:
    from pegboard.agents import Agent
    from pegboard.events import Event
    from pegboard.guarding import GuardedCall
    from pegboard.loop import Step
    from pegboard.models import ModelProvider
    from pegboard.tools import Tool
    from pegboard.verdicts import Enter, Reject, Verdict

PROJECT: Final = "pegboard"

hookimpl = pluggy.HookimplMarker(PROJECT)
_hookspec = pluggy.HookspecMarker(PROJECT)

Kind = Literal["collect", "in order", "observers", "fold", "all asked"]
FailurePolicy = Literal["pack inactive", "veto", "contained", "ends the run", "deny"]

_Spec = TypeVar("_Spec", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Policy:
    """How the answers to one hook combine, what a failure does, and whether implementations must be sync."""

    kind: Kind
    failure: FailurePolicy
    sync: bool


def _spec(kind: Kind, failure: FailurePolicy, *, sync: bool = False) -> Callable[[_Spec], _Spec]:
    def mark(function: _Spec) -> _Spec:
        function.pegboard_policy = Policy(kind, failure, sync)  # type: ignore[attr-defined]
        return _hookspec(function)

    return mark


def policy_of(hook: str) -> Policy:
    """Return the policy in the marker of the kernel's hook of that name."""
    policy: Policy = getattr(Hooks, hook).pegboard_policy
    return policy


class Hooks:
    """Implement any of these in a pack, marked `@hookimpl`; leave out arguments that you don't need."""

    @_spec("collect", "pack inactive", sync=True)
    def register_tools(self) -> "Iterable[Tool] | None":
        """Hand over the pack's tools, once, when the pack is loaded.

        Every agent of the host sees them. A name that another pack holds makes the later pack failed(conflict).
        """

    @_spec("collect", "pack inactive", sync=True)
    def register_models(self) -> "Iterable[ModelProvider] | None":
        """Hand over model routes, once, when the pack is loaded."""

    @_spec("in order", "veto", sync=True)
    def agent_created(self, agent: "Agent") -> None:
        """An agent is about to be published; raising vetoes it, and those already told get `agent_disposed`."""

    @_spec("observers", "contained", sync=True)
    def agent_disposed(self, agent: "Agent") -> None:
        """An agent is gone; asked in reverse order, exactly once for each `agent_created` that was told."""

    @_spec("fold", "ends the run")
    def agent_pre_step(self, step: "Step") -> "Enter | Reject | Awaitable[Enter | Reject | None] | None":
        """Before each model request, after the prompt is assembled.

        Return `Reject` to close the run as blocked, `Enter(messages)` to replace the new messages of this step, None
        to leave it. Each implementation sees what the one before it returned. Tools, prompt and model stay.
        """

    @_spec("all asked", "deny")
    def guard_tool_call(self, call: "GuardedCall") -> "Verdict | Awaitable[Verdict | None] | None":
        """Object to a tool call: `Deny(reason)` or `Ask(reason)`; None abstains, nothing grants.

        Asked twice for every call, `call.phase` is `intent` and then `dispatch`. All guards are asked, deny beats ask.
        Raising, a wrong type, or more than 5 s is a denial.
        """

    @_spec("observers", "contained", sync=True)
    def observe(self, event: "Event") -> None:
        """Something was recorded. Events are frozen and come in order; text deltas are not among them."""
