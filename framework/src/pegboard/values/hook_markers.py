"""The marks on hooks: what a specification says of its hook, and what makes a function an implementation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, Final, Literal, ParamSpec, Protocol, TypeVar, overload

import pluggy

if TYPE_CHECKING:
    pass


PROJECT: Final = "pegboard"


hookimpl = pluggy.HookimplMarker(PROJECT)
"""pluggy's own mark of an implementation, untyped; packs use `implements`."""


_hookspec = pluggy.HookspecMarker(PROJECT)


Kind = Literal["collect", "first", "in order", "observers", "concurrent", "fold", "around", "all asked", "race"]


FailurePolicy = Literal[
    "pack inactive",
    "stops the command",
    "veto",
    "contained",
    "ends the run",
    "deny",
    "error result",
    "refuse",
    "text withheld",
    "raised",
]


Order = Literal["load", "reversed", "pluggy"]


_Spec = TypeVar("_Spec", bound=Callable[..., object])


_P = ParamSpec("_P")


_R = TypeVar("_R")


_Self = TypeVar("_Self")


@dataclass(frozen=True, slots=True)
class Policy:
    """How the answers to one hook combine, what a failure does, in which order, and whether it must be sync.

    `load` order: what a pack builds on comes first, the agent's own last. `pluggy`: `tryfirst`, then the last
    registered first, then `trylast`; the agent's own before all of them.
    """

    kind: Kind
    failure: FailurePolicy
    sync: bool
    order: Order


def hookspec(
    kind: Kind, failure: FailurePolicy | None = None, *, sync: bool = False, order: Order | None = None
) -> Callable[[_Spec], _Spec]:
    """Mark a method as the specification of a hook, with its policy. Hand the class over with `register_hookspecs`.

    For `first`, `fold` and `around` the order is pluggy's and a failure is `raised` where the hook is called; for all
    others it is load order, and a failure is contained. Both may be given.
    """
    threads = kind in ("first", "fold", "around")
    order = order or ("pluggy" if threads else "load")
    policy = Policy(kind, failure or ("raised" if threads else "contained"), sync, order)

    def mark(function: _Spec) -> _Spec:
        function.pegboard_policy = policy  # type: ignore[attr-defined]
        return _hookspec(function)

    return mark


class _Implementing(Protocol[_P, _R]):
    """Takes a method or a function with exactly the hook's arguments, and returns it."""

    @overload
    def __call__(self, function: Callable[Concatenate[_Self, _P], _R], /) -> Callable[Concatenate[_Self, _P], _R]: ...
    @overload
    def __call__(self, function: Callable[_P, _R], /) -> Callable[_P, _R]: ...


def implements(
    hook: Callable[Concatenate[Any, _P], _R],
    /,
    *,
    tryfirst: bool = False,
    trylast: bool = False,
    optional: bool = False,
) -> _Implementing[_P, _R]:
    """Mark a function as the implementation of a hook: the typed form of `@hookimpl`.

    A type checker compares names, types and colour with the specification: `@implements(hooks.guard_tool_call)`. The
    function may have another name than the hook. `optional`: do nothing where no active pack brings the hook.
    """
    return pluggy.HookimplMarker(PROJECT)(
        specname=hook.__name__, tryfirst=tryfirst, trylast=trylast, optionalhook=optional
    )


def policy_of(hook: Callable[..., object]) -> Policy:
    """Return the policy in the marker of a specification."""
    policy: Policy = hook.pegboard_policy  # type: ignore[attr-defined]
    return policy
