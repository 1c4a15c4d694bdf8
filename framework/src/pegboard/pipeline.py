"""One tool call from the model's words to its result: look up, check, guard, record, guard again, run, render.

`execute` walks a call through these rooms in order and returns exactly one result on every path.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from pegboard.bodies import TIMEOUT, Ended, run_body
from pegboard.cancel import CancelSignal
from pegboard.dispatch import describe
from pegboard.errors import InvalidArguments, ToolError
from pegboard.frozen import freeze, read_object
from pegboard.guarding import KERNEL, Gate, GuardedCall, Refusal, resolve_touches
from pegboard.messages import ToolCall, ToolResult
from pegboard.snapshot import Offered, Snapshot
from pegboard.text import did_you_mean, one_line
from pegboard.tools import Tool, ToolContext, Touch

if TYPE_CHECKING:
    from pegboard.agents import Agent

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


@dataclass(frozen=True, slots=True)
class CallRoom:
    """What a run lends to each of its calls. `announce` records the call; it is called once, by `execute`."""

    agent: "Agent"
    snapshot: Snapshot
    gate: Gate
    signal: CancelSignal
    allow_writes: bool
    announce: Callable[[Announced], None]


class _Stopped(Exception):
    """Ends the walk of a call early, with its result."""

    def __init__(self, settled: Settled) -> None:
        self.settled = settled
        super().__init__()


async def execute(call: ToolCall, room: CallRoom) -> Settled:
    """Take one call through the whole pipeline; it is announced once and has one result, whatever becomes of it."""
    walk = _Walk(call, room)
    try:
        return await walk.through()
    except _Stopped as stopped:
        settled = stopped.settled
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
            task.uncancel()  # bodies are shielded, so nothing of the call has happened yet
            room.signal.cancel("the run was cancelled")
            settled = aborted_before_dispatch(call)
        else:  # a schema or the like of a tool raised what it may not
            settled = failed(call, TOOL_FAILED, describe(error))
    walk.announce()
    return settled


class _Walk:
    """One call on its way."""

    def __init__(self, call: ToolCall, room: CallRoom) -> None:
        self.call = call
        self.room = room
        self.offered = room.snapshot.get(call.name)
        self.shown: Mapping[str, Any] | None = None
        self._announced = False

    def announce(self) -> None:
        if not self._announced:
            self._announced = True
            self.room.announce(Announced(self.call, self.shown, self.offered))

    async def through(self) -> Settled:
        call, room = self.call, self.room
        arguments, offered = self._check()
        touches = await self._ask(offered, "intent", None)
        self.announce()
        await self._ask(offered, "dispatch", touches)
        if room.signal.cancelled:
            return aborted_before_dispatch(call)
        signal = CancelSignal()
        unlink = room.signal.on_cancel(lambda: signal.cancel(room.signal.cause or "cancelled"))
        if offered.tool.takes_context:
            session = room.agent.session
            arguments["ctx"] = ToolContext(session.directory, session.id, signal)
        began = time.perf_counter()
        ended = await run_body(offered.tool, arguments, signal, room.signal.cancel)
        unlink()
        return Settled(_result(call, offered.tool, ended, signal), ms=(time.perf_counter() - began) * 1000)

    def _check(self) -> tuple[dict[str, Any], Offered]:
        """Look the tool up and check what was written for it."""
        call = self.call
        try:
            self.shown = freeze(read_object(call.arguments))
            unreadable = None
        except InvalidArguments as error:
            unreadable = error
        if self.offered is None:
            known = [tool.name for tool in self.room.snapshot.tools]
            near = did_you_mean(call.name, known)
            raise _Stopped(failed(call, UNKNOWN_TOOL, f'unknown tool "{one_line(call.name, 80)}"{near}'))
        if self.room.signal.cancelled:
            raise _Stopped(aborted_before_dispatch(call))
        try:
            if unreadable:
                raise unreadable
            return self.offered.tool.arguments.parse(call.arguments), self.offered
        except InvalidArguments as error:
            raise _Stopped(failed(call, INVALID_ARGS, str(error))) from None

    async def _ask(
        self, offered: Offered, phase: Literal["intent", "dispatch"], before: tuple[Touch, ...] | None
    ) -> tuple[Touch, ...]:
        """Ask everyone who may object, on the same touches both times; returns the touches."""
        call, room, tool = self.call, self.room, offered.tool
        shown = self.shown or {}
        try:
            touches = resolve_touches(tool, shown, room.agent.session.directory)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            reason = f"it can't be told what `{call.name}` would use: {describe(error)}"
            raise _Stopped(_denied(call, Refusal(offered.pack, reason))) from None
        if before is not None and touches != before:
            reason = f"what `{call.name}` would use changed after it was allowed"
            raise _Stopped(_denied(call, Refusal(KERNEL, reason)))
        asked = GuardedCall(room.agent, phase, call.id, call.name, tool, offered.pack, shown, touches)
        if refusal := await room.gate.refusal(asked, allow_writes=room.allow_writes):
            raise _Stopped(_denied(call, refusal))
        return touches


def _result(call: ToolCall, tool: Tool, ended: Ended, signal: CancelSignal) -> ToolResult:
    if ended.abandoned:
        text = f"`{call.name}` did not stop after {signal.cause}; whether it took effect is not known"
        return ToolResult(call.id, call.name, "indeterminate", text, "did not stop", INDETERMINATE)
    if ended.told_to_stop and signal.cause == TIMEOUT:
        return failed(call, TIMED_OUT, f"`{call.name}` was stopped after its {tool.timeout:g} s").result
    if isinstance(ended.error, ToolError):
        return failed(call, TOOL_FAILED, str(ended.error)).result
    if isinstance(ended.error, Exception):
        return failed(call, TOOL_FAILED, describe(ended.error)).result
    if ended.told_to_stop:
        return ToolResult(call.id, call.name, "aborted", "tool call aborted", "aborted", ABORTED)
    try:
        value = tool.output.check(ended.value)
        content, summary = tool.output.render(value), tool.output.summarize(value)
        if not (isinstance(content, str) and isinstance(summary, str)):
            raise TypeError("`render` and `summarize` must return strings")
        return ToolResult(call.id, call.name, "ok", content, one_line(summary))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = f"`{call.name}` returned what it does not promise: {describe(error)}"
        return failed(call, INVALID_TOOL_OUTPUT, text).result


def aborted_before_dispatch(call: ToolCall) -> Settled:
    """The result of a call whose body never started because the run was cancelled."""
    text = "tool call aborted before dispatch"
    return Settled(ToolResult(call.id, call.name, "aborted", text, "not started", ABORTED_BEFORE_DISPATCH))


def failed(call: ToolCall, code: str, text: str) -> Settled:
    """The result of a call that failed for a reason that the model can read."""
    return Settled(ToolResult(call.id, call.name, "error", f"Error: {text}", one_line(text, 120), code))


def _denied(call: ToolCall, refusal: Refusal) -> Settled:
    text = f"Error: denied by {refusal.pack}: {refusal.reason}"
    result = ToolResult(call.id, call.name, "denied", text, one_line(f"denied: {refusal.reason}", 160), DENIED)
    return Settled(result, refused_by=refusal.pack)
