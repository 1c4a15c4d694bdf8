"""The hooks of the kernel: where a pack's code goes, what it may change, and what its failure does.

Each hook has a `kind` (how answers combine) and a `failure` policy (what a raising or lying implementation does); both
are carried out by `dispatch/dispatcher.py`. `agent_created`, `agent_disposed`, `observe` and `register_*` are sync, the
rest may be either. A pack's own hooks are marked with `hookspec` and handed over with `register_hookspecs`.
"""

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, Final

from pegboard.values.hook_markers import hookspec

if TYPE_CHECKING:
    from pegboard.agents.agent import Agent as Agent
    from pegboard.agents.run import Run, Step
    from pegboard.calls.pack_views import GuardedCall, ToolRun
    from pegboard.host.host import Host as Host
    from pegboard.process.spec import ProcessSpec
    from pegboard.record.stores import SessionStore
    from pegboard.values.entries import Entry
    from pegboard.values.events import Event
    from pegboard.values.interactions import Answer, Interaction
    from pegboard.values.models import ModelProvider, ModelReply, ModelRequest, ProceedModel
    from pegboard.values.outcomes import Accept, Block, Outcome, ProceedTool
    from pegboard.values.prompts import Prompt
    from pegboard.values.tool import Tool
    from pegboard.values.verdicts import Deny, Enter, Reject, Verdict


class Hooks:
    """Implement any of these in a pack, marked `@implements(hooks.NAME)` or, untyped, `@hookimpl`."""

    # -- what a pack brings

    @hookspec("collect", "pack inactive", sync=True)
    def register_hookspecs(self) -> Iterable[type] | None:
        """Hand over classes whose methods are marked `@hookspec(...)`: hooks of this pack for other packs.

        Asked before the hooks of any pack are checked. `await host.call_hook(name, ...)` asks their implementations.
        """

    @hookspec("collect", "pack inactive", sync=True)
    def register_tools(self) -> "Iterable[Tool] | None":
        """Hand over the pack's tools, once, when the pack is loaded.

        Every agent of the host sees them. A name that another pack holds makes the later pack failed(conflict).
        """

    @hookspec("collect", "pack inactive", sync=True)
    def register_models(self) -> "Iterable[ModelProvider] | None":
        """Hand over model routes, once, when the pack is loaded."""

    @hookspec("first", "stops the command")
    def session_store(self, host: "Host") -> "SessionStore | Awaitable[SessionStore | None] | None":
        """Return the place where sessions are kept; the first that is not None is taken.

        Asked once, before something is recorded. A failure stops what was to be recorded: there is no silent fall-back
        to memory, which is used only when no implementation returns a store.
        """

    # -- the host

    @hookspec("in order", "pack inactive")
    def host_started(self, host: "Host") -> Awaitable[None] | None:
        """The host is up, no agent exists yet.

        Start tasks with `host.start_task`, register with `host.tools.register`, `host.on_stop`: all of it belongs to
        the pack and is undone when the host stops. Raising makes the pack inactive.
        """

    @hookspec("in order", "contained", order="reversed")
    def host_stopping(self, host: "Host") -> Awaitable[None] | None:
        """The host is about to stop: all agents are gone, the pack's tasks and registrations are still there."""

    # -- agents

    @hookspec("in order", "veto", sync=True)
    def agent_created(self, agent: "Agent") -> None:
        """An agent is about to be published; raising vetoes it, and those already told get `agent_disposed`.

        `agent.register`, `agent.tools.register` and `agent.restrict` add what only this agent sees.
        """

    @hookspec("observers", "contained", sync=True, order="reversed")
    def agent_disposed(self, agent: "Agent") -> None:
        """An agent is gone, what was registered on it too; exactly once for each `agent_created` that was told."""

    # -- a run

    @hookspec("concurrent", "contained")
    def run_starting(self, run: "Run") -> Awaitable[None] | None:
        """An input was claimed; connect and register here. All implementations go on at once, under one deadline.

        The snapshot is made when all have ended or the deadline (20 s, 2 s in a chat) is over. What is unfinished
        goes on as a task of the agent; what it registers then appears with the next message.
        """

    @hookspec("fold", "ends the run")
    def assemble_prompt(self, agent: "Agent", prompt: "Prompt") -> "Prompt | Awaitable[Prompt | None] | None":
        """Change what the model is told.

        Once a run with `prompt.phase` `snapshot`: add or drop sections (`prompt.adding`), omit tools
        (`prompt.omitting`), never add any. Before each request with phase `step`: replace the history that is sent
        (`prompt.telling`), without the input that is new in this step; the record stays as it is.
        """

    @hookspec("fold", "ends the run")
    def agent_pre_step(self, step: "Step") -> "Enter | Reject | Awaitable[Enter | Reject | None] | None":
        """Before each model request, after the prompt is assembled.

        Return `Reject` to close the run as blocked, `Enter(messages)` to replace the new messages of this step, None
        to leave it. Each implementation sees what the one before it returned. Tools, prompt and model stay.
        """

    @hookspec("around", "ends the run")
    def wrap_model_call(self, request: "ModelRequest", proceed: "ProceedModel") -> "Awaitable[ModelReply]":
        """Around one model request: retry, fall back (`replace(request, route=...)`), cache, budget, spans.

        `request.usage` is what the root agent and all its descendants have used so far. `EndRun(reason, text)` ends
        the run with that reason; anything else that is raised is an error.
        """
        raise NotImplementedError

    # -- a tool call

    @hookspec("all asked", "deny")
    def guard_tool_call(self, call: "GuardedCall") -> "Verdict | Awaitable[Verdict | None] | None":
        """Object to a tool call: `Deny(reason)` or `Ask(reason)`; None abstains, nothing grants.

        Asked twice for every call, `call.phase` is `intent` and then `dispatch`. All guards are asked, deny beats ask.
        Raising, a wrong type, or more than 5 s is a denial.
        """

    @hookspec("around", "error result")
    def wrap_tool_call(self, call: "ToolRun", proceed: "ProceedTool") -> "Awaitable[Outcome]":
        """Around a tool's body: spans, timeouts (`call.cancel.cancel("too slow")`), a cached `Outcome.of(value)`.

        A second `proceed()` is refused: a body never runs twice. What is returned is checked against the tool's output
        contract again.
        """
        raise NotImplementedError

    @hookspec("fold", "error result")
    def tool_post_execute(
        self, call: "ToolRun", result: "Outcome"
    ) -> "Accept | Block | Awaitable[Accept | Block | None] | None":
        """After a call, also a denied one: `Accept(content=...)` or `Accept(value=...)` changes it, not both.

        `Block(feedback)` turns it into a failure whose content is the feedback.
        """

    @hookspec("fold", "refuse")
    def prepare_process(
        self, spec: "ProcessSpec"
    ) -> "ProcessSpec | Deny | Awaitable[ProcessSpec | Deny | None] | None":
        """Before every process that a pack starts: return another specification (a sandbox), or `Deny` to refuse."""

    # -- the record

    @hookspec("fold", "text withheld")
    def filter_entry(self, entry: "Entry") -> "Entry | Awaitable[Entry | None] | None":
        """Change an entry before it is recorded, and before the model or an observer sees it: `entry.rewriting(f)`.

        It stays an entry of its kind. If an implementation fails, the entry's texts are withheld, and say so. Where a
        pack filters, what was not filtered is not shown live: a model's text comes when its reply is whole, and
        progress not at all. A system prompt is recorded filtered, and sent as `assemble_prompt` left it.
        """

    @hookspec("in order", "contained")
    def run_stopping(self, run: "Run") -> Awaitable[None] | None:
        """The model owes nothing more: `run.agent.steer(text)` makes it go on, otherwise the run ends."""

    @hookspec("race", "contained")
    def answer_interaction(self, interaction: "Interaction") -> "Answer | Awaitable[Answer | None] | None":
        """Answer for a person: front ends are asked concurrently, the first answer wins, the others are cancelled.

        Only packs that the user's own configuration names in `[interactions] front_ends` are asked at all.
        """

    @hookspec("observers", "contained", sync=True)
    def observe(self, event: "Event") -> None:
        """Something was recorded. Events are frozen and come in order; text deltas are not among them."""


hooks = Hooks
"""The kernel's hooks by name, for `@implements(hooks.NAME)`; the page of hooks says what each does."""
KERNEL_HOOKS: Final = frozenset(name for name in vars(Hooks) if not name.startswith("_"))
