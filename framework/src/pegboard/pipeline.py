"""One tool call from the model's words to its result: look up, check, guard, record, guard again, run, post, render.

`execute` walks a call through these rooms in order and returns exactly one result on every path.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from pegboard.answers import current_pack, describe
from pegboard.bodies import TIMEOUT, Ended, run_body
from pegboard.cancel import CancelSignal
from pegboard.dispatch import HookFailure, Misfit, Stop
from pegboard.errors import InvalidArguments, PegboardError
from pegboard.frozen import freeze, read_object
from pegboard.guarding import KERNEL, Gate, GuardedCall, Refusal, resolve_touches
from pegboard.messages import ToolCall, ToolResult
from pegboard.outcomes import Accept, Block, Outcome, ToolRun
from pegboard.processes import Process, ProcessSpec, complete
from pegboard.snapshot import Offered
from pegboard.streams import Completed
from pegboard.text import did_you_mean, one_line
from pegboard.tools import Tool, ToolContext, Touch

if TYPE_CHECKING:
    from pegboard.runs import Run

UNKNOWN_TOOL: Final = "UNKNOWN_TOOL"
INVALID_ARGS: Final = "INVALID_ARGS"
INVALID_TOOL_OUTPUT: Final = "INVALID_TOOL_OUTPUT"
DENIED: Final = "DENIED"
TIMED_OUT: Final = "TIMEOUT"
TOOL_FAILED: Final = "TOOL_FAILED"
ABORTED: Final = "ABORTED"
ABORTED_BEFORE_DISPATCH: Final = "ABORTED_BEFORE_DISPATCH"
INDETERMINATE: Final = "INDETERMINATE"
LIMIT: Final = "LIMIT"
WITHDRAWN: Final = "WITHDRAWN"
BLOCKED: Final = "BLOCKED"


@dataclass(frozen=True, slots=True)
class Announced:
    """A call as it is recorded, before its body runs; `arguments` are frozen, None if the text was no JSON object."""

    call: ToolCall
    arguments: Mapping[str, Any] | None = None
    offered: Offered | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """The result of a call, who refused it if it was denied, and the body's wall time in milliseconds."""

    result: ToolResult
    refused_by: str | None = None
    ms: float = 0.0


class _Stopped(Exception):
    """Ends the walk of a call early, with its outcome."""

    def __init__(self, outcome: Outcome, refused_by: str | None = None) -> None:
        self.outcome = outcome
        self.refused_by = refused_by
        super().__init__()


async def execute(
    call: ToolCall, run: "Run", gate: Gate, announce: Callable[[Announced], Awaitable[object]]
) -> Settled:
    """Take one call through the whole pipeline; it is announced once and has one result, whatever becomes of it."""
    walk = _Walk(call, run, gate, announce)
    try:
        outcome = await walk.through()
    except _Stopped as stopped:
        outcome, walk.refused_by = stopped.outcome, stopped.refused_by
    except (KeyboardInterrupt, RecordLost):
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
            task.uncancel()  # bodies are shielded: either nothing of the call has happened yet, or the body has ended
            run.signal.cancel("the run was cancelled")
            outcome = walk.outcome or _BEFORE_DISPATCH
        else:  # a schema or the like of a tool raised what it may not
            outcome = _failed(TOOL_FAILED, describe(error))
    await walk.announce()
    outcome = await walk.post(outcome)
    return Settled(_as_result(call, outcome), walk.refused_by, walk.ms)


class RecordLost(Exception):
    """The store could not keep an entry: the run must end, and a tool must not run unrecorded."""


class _Walk:
    """One call on its way."""

    def __init__(
        self, call: ToolCall, run: "Run", gate: Gate, announce: Callable[[Announced], Awaitable[object]]
    ) -> None:
        self.call = call
        self.run = run
        self.gate = gate
        self.offered = run.snapshot.get(call.name)
        self.shown: Mapping[str, Any] | None = None
        self.touches: tuple[Touch, ...] = ()
        self.signal = CancelSignal()
        self.outcome: Outcome | None = None
        self.refused_by: str | None = None
        self.ms = 0.0
        self._announce: Callable[[Announced], Awaitable[object]] | None = announce

    async def announce(self) -> None:
        if self._announce is not None:
            tell, self._announce = self._announce, None
            await tell(Announced(self.call, self.shown, self.offered))

    async def through(self) -> Outcome:
        run = self.run
        arguments, offered = self._check()
        self.touches = await self._ask(offered, "intent", None)
        await self.announce()
        await self._ask(offered, "dispatch", self.touches)
        if run.signal.cancelled:
            return _BEFORE_DISPATCH
        unlink = run.signal.on_cancel(lambda: self.signal.cancel(run.signal.cause or "cancelled"))
        if offered.tool.takes_context:
            arguments["ctx"] = self._context(offered)
        try:
            outcome = await self._around(offered.tool, arguments)
        except HookFailure as failure:
            return _failed(TOOL_FAILED, str(failure))
        finally:
            unlink()
        return outcome if outcome is self.outcome else _held(self.call, offered.tool, outcome)

    def _context(self, offered: Offered) -> ToolContext:
        session, run, loop = self.run.agent.session, self.run, asyncio.get_running_loop()
        return ToolContext(
            session.directory,
            session.id,
            self.signal,
            spawn=self._spawn,
            progress=lambda text: loop.call_soon_threadsafe(run.progress, text, offered.pack),
            wait=partial(_wait_in_thread, loop),
            note=run.note,
            run=self._run_process,
        )

    async def _spawn(self, spec: ProcessSpec) -> Process:
        pack, agent = self.offered.pack if self.offered else "", self.run.agent
        return await agent.kernel.spawn(replace(spec, owner=pack, session=agent.session.id))

    async def _run_process(self, spec: ProcessSpec, *, cap: int = 30_000) -> Completed:
        return await complete(await self._spawn(spec), self.signal, cap)

    async def _around(self, tool: Tool, arguments: dict[str, Any]) -> Outcome:
        """Run the body inside the packs' wrappers; it runs once, whatever these do."""
        dispatcher, scope = self.run.agent.kernel.dispatcher, self.run.agent.scope
        if not dispatcher.plan("wrap_tool_call", scope):
            return await self._body(tool, arguments)

        async def body(_running: ToolRun) -> Outcome:
            if self.outcome is not None:
                return _failed(TOOL_FAILED, "a pack asked for the body a second time; it runs once")
            return await self._body(tool, arguments)

        outcome: Outcome = await dispatcher.around("wrap_tool_call", scope, body, self._running(), wanted=Outcome)
        return outcome

    async def _body(self, tool: Tool, arguments: dict[str, Any]) -> Outcome:
        if self.signal.cancelled:  # while a pack's wrapper waited
            return _BEFORE_DISPATCH
        self.outcome = _RUNNING  # counts as begun from here on
        began = time.perf_counter()
        token = current_pack.set(self.offered.pack if self.offered else "")  # what the body registers is its pack's
        ended = await run_body(tool, arguments, self.signal, self.run.signal.cancel)
        current_pack.reset(token)
        self.ms = (time.perf_counter() - began) * 1000
        self.outcome = _outcome(self.call, tool, ended, self.signal)
        return self.outcome

    def _running(self) -> ToolRun:
        call, run, offered = self.call, self.run, self.offered
        tool, pack = (offered.tool, offered.pack) if offered else (None, None)
        shown = self.shown or {}
        return ToolRun(run.agent, run.number, call.id, call.name, tool, pack, shown, self.touches, self.signal)

    async def post(self, outcome: Outcome) -> Outcome:
        """Show a result, whatever it is, to the packs that may change or block it."""
        dispatcher, scope = self.run.agent.kernel.dispatcher, self.run.agent.scope
        if not dispatcher.plan("tool_post_execute", scope):
            return outcome
        try:
            after: Outcome = await dispatcher.fold("tool_post_execute", scope, outcome, self._accept, self._running())
        except HookFailure as failure:
            after = _failed(TOOL_FAILED, str(failure))
        # A refusal stays one, whatever it reads like after all.
        return replace(after, status="denied", code=DENIED) if outcome.status == "denied" else after

    def _accept(self, outcome: Outcome, answer: object) -> "Outcome | Stop":
        match answer:
            case Block(feedback) if isinstance(feedback, str):
                return Stop(Outcome("error", feedback, one_line(feedback, 120), BLOCKED))
            case Accept(content) if content is not None and answer.changes_value:
                raise Misfit("Accept with both content and value; it may change one of them")
            case Accept() if answer.changes_value and (outcome.status != "ok" or self.offered is None):
                raise Misfit("another value for a call that failed")
            case Accept() if answer.changes_value and self.offered is not None:
                return _checked(self.call, self.offered.tool, answer.value)
            case Accept(None):
                return outcome
            case Accept(str() as content):
                return outcome.saying(content)
            case Accept():
                raise Misfit("Accept whose content is no text")
            case Block():
                raise Misfit("Block whose feedback is no text")
        raise Misfit(f"{type(answer).__name__}, not Accept, Block or None")

    def _check(self) -> tuple[dict[str, Any], Offered]:
        """Look the tool up and check what was written for it."""
        call = self.call
        try:
            self.shown = freeze(read_object(call.arguments))
            unreadable = None
        except InvalidArguments as error:
            unreadable = error
        live = self.run.agent.view().get(call.name)
        if self.offered is None:
            known = self.run.snapshot.names
            near = " (available from the next message)" if live else did_you_mean(call.name, known)
            raise _Stopped(_failed(UNKNOWN_TOOL, f'unknown tool "{one_line(call.name, 80)}"{near}'))
        if live is None or live.tool is not self.offered.tool:
            raise _Stopped(_failed(WITHDRAWN, f"`{call.name}` was withdrawn after this run had begun"))
        if self.run.signal.cancelled:
            raise _Stopped(_BEFORE_DISPATCH)
        try:
            if unreadable:
                raise unreadable
            return self.offered.tool.arguments.parse(call.arguments), self.offered
        except InvalidArguments as error:
            raise _Stopped(_failed(INVALID_ARGS, str(error))) from None

    async def _ask(
        self, offered: Offered, phase: Literal["intent", "dispatch"], before: tuple[Touch, ...] | None
    ) -> tuple[Touch, ...]:
        """Ask everyone who may object, on the same touches both times; returns the touches."""
        call, agent, tool = self.call, self.run.agent, offered.tool
        shown = self.shown or {}
        try:
            touches = resolve_touches(tool, shown, agent.session.directory)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            reason = f"it can't be told what `{call.name}` would use: {describe(error)}"
            raise _denied(Refusal(offered.pack, reason)) from None
        if before is not None and touches != before:
            reason = f"what `{call.name}` would use changed after it was allowed"
            raise _denied(Refusal(KERNEL, reason))
        asked = GuardedCall(agent, phase, call.id, call.name, tool, offered.pack, shown, touches)
        if refusal := await self.gate.refusal(asked):
            raise _denied(refusal)
        return touches


def _wait_in_thread(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any]) -> Any:
    """Let the event loop do something async for a body in a worker thread, and wait for it there."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run_coroutine_threadsafe(work, loop).result()
    work.close()
    raise RuntimeError("`ctx.wait` is for sync bodies in a worker thread; an async body awaits")


def _outcome(call: ToolCall, tool: Tool, ended: Ended, signal: CancelSignal) -> Outcome:
    if ended.abandoned:
        text = f"`{call.name}` did not stop after {signal.cause}; whether it took effect is not known"
        return Outcome("indeterminate", text, "did not stop", INDETERMINATE)
    if ended.told_to_stop and signal.cause == TIMEOUT:
        return _failed(TIMED_OUT, f"`{call.name}` was stopped after its {tool.timeout:g} s")
    if isinstance(ended.error, PegboardError):
        return _failed(TOOL_FAILED, str(ended.error))
    if isinstance(ended.error, Exception):
        return _failed(TOOL_FAILED, describe(ended.error))
    if ended.told_to_stop:
        return Outcome("aborted", "tool call aborted", "aborted", ABORTED)
    return _checked(call, tool, ended.value)


def _checked(call: ToolCall, tool: Tool, returned: Any) -> Outcome:
    """Hold a value to the tool's output contract and render it (T39)."""
    try:
        value = tool.output.check(returned)
        content, summary = tool.output.render(value), tool.output.summarize(value)
        if not (isinstance(content, str) and isinstance(summary, str)):
            raise TypeError("`render` and `summarize` must return strings")
        return Outcome("ok", content, one_line(summary), value=value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _failed(INVALID_TOOL_OUTPUT, f"`{call.name}` returned what it does not promise: {describe(error)}")


def _held(call: ToolCall, tool: Tool, outcome: Outcome) -> Outcome:
    """Hold what a wrapper made of a success to the contract; the texts that it chose stay, if the value is one."""
    if not (isinstance(outcome.content, str) and isinstance(outcome.summary, str)):
        return _failed(TOOL_FAILED, f"a pack around `{call.name}` returned an Outcome whose content is no text")
    if outcome.status != "ok":
        return outcome
    checked = _checked(call, tool, outcome.value)
    return checked if outcome.fresh or checked.status != "ok" else outcome


_BEFORE_DISPATCH: Final = Outcome(
    "aborted", "tool call aborted before dispatch", "not started", ABORTED_BEFORE_DISPATCH
)
_RUNNING: Final = Outcome("error", "Error: the body is running", "the body is running", TOOL_FAILED)


def aborted_before_dispatch(call: ToolCall) -> Settled:
    """The result of a call whose body never started because the run was cancelled."""
    return Settled(_as_result(call, _BEFORE_DISPATCH))


def failed(call: ToolCall, code: str, text: str) -> Settled:
    """The result of a call that failed for a reason that the model can read."""
    return Settled(_as_result(call, _failed(code, text)))


def _failed(code: str, text: str) -> Outcome:
    return Outcome("error", f"Error: {text}", one_line(text, 120), code)


def _denied(refusal: Refusal) -> _Stopped:
    text = f"Error: denied by {refusal.pack}: {refusal.reason}"
    summary = one_line(f"denied: {refusal.reason}", 160)
    return _Stopped(Outcome("denied", text, summary, DENIED), refusal.pack)


def _as_result(call: ToolCall, outcome: Outcome) -> ToolResult:
    return ToolResult(call.id, call.name, outcome.status, outcome.content, outcome.summary, outcome.code)
