"""One tool call from the model's words to its result: look up, check, guard, run, render. Never raises for a tool.

`execute` walks a call through the rooms in order and returns exactly one result on every path.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pegboard.bodies import TIMEOUT, Ended, run_body
from pegboard.cancel import CancelSignal
from pegboard.dispatch import describe
from pegboard.errors import InvalidArguments, ToolError
from pegboard.guarding import Gate, GuardedCall, Refusal, resolve_touches
from pegboard.messages import ToolCall, ToolResult
from pegboard.snapshot import Offered, Snapshot
from pegboard.text import did_you_mean, one_line
from pegboard.tools import Tool, ToolContext

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


@dataclass(frozen=True, slots=True)
class Announced:
    """A call as it is recorded before its body runs; what the model's text did not tell is None."""

    call: ToolCall
    arguments: Mapping[str, Any] | None
    offered: Offered | None


@dataclass(frozen=True, slots=True)
class Settled:
    """The result of a call, who refused it if it was denied, and the body's wall time in milliseconds."""

    result: ToolResult
    refused_by: str | None = None
    ms: float = 0.0


@dataclass(frozen=True, slots=True)
class CallRoom:
    """What a run lends to each of its calls."""

    agent: "Agent"
    snapshot: Snapshot
    gate: Gate
    signal: CancelSignal
    allow_writes: bool
    announce: Callable[[Announced], None]


async def execute(call: ToolCall, room: CallRoom) -> Settled:
    """Take one call through the whole pipeline; it is announced once, whatever becomes of it."""
    offered = room.snapshot.get(call.name)
    written = _json_object(call.arguments)
    if offered is None:
        room.announce(Announced(call, written, None))
        known = [tool.name for tool in room.snapshot.tools]
        return _failed(call, UNKNOWN_TOOL, f'unknown tool "{one_line(call.name, 80)}"{did_you_mean(call.name, known)}')
    tool = offered.tool
    try:
        arguments = tool.arguments.parse(call.arguments)
    except InvalidArguments as error:
        room.announce(Announced(call, written, offered))
        return _failed(call, INVALID_ARGS, str(error))
    if room.signal.cancelled:
        room.announce(Announced(call, written, offered))
        return aborted_before_dispatch(call)
    shown = MappingProxyType(written or {})
    refusal = await _ask(call, offered, shown, room)
    room.announce(Announced(call, shown, offered))
    if isinstance(refusal, Refusal):
        return _denied(call, refusal)
    if room.signal.cancelled:
        return aborted_before_dispatch(call)
    return await _dispatch(call, tool, arguments, room)


async def _ask(call: ToolCall, offered: Offered, shown: Mapping[str, Any], room: CallRoom) -> Refusal | None:
    """Ask everyone twice, before the call is recorded and before its body: the touches must not have moved."""
    before: Any = None
    for phase in ("intent", "dispatch"):
        try:
            touches = resolve_touches(offered.tool, shown, room.agent.session.directory)
        except Exception as error:
            return Refusal(offered.pack, f"it can't be told what `{call.name}` would use: {describe(error)}")
        if before is not None and touches != before:
            return Refusal("pegboard", f"what `{call.name}` would use changed after it was allowed")
        before = touches
        asked = GuardedCall(room.agent, phase, call.id, call.name, offered.tool, offered.pack, shown, touches)
        if refusal := await room.gate.refusal(asked, allow_writes=room.allow_writes):
            return refusal
    return None


async def _dispatch(call: ToolCall, tool: Tool, arguments: dict[str, Any], room: CallRoom) -> Settled:
    signal = CancelSignal()
    unlink = room.signal.on_cancel(lambda: signal.cancel(room.signal.cause or "cancelled"))
    if tool.takes_context:
        session = room.agent.session
        arguments["ctx"] = ToolContext(session.directory, session.id, signal)
    began = time.perf_counter()
    try:
        ended = await run_body(tool, arguments, signal)
    finally:
        unlink()
    return Settled(_result(call, tool, ended, signal), ms=(time.perf_counter() - began) * 1000)


def _result(call: ToolCall, tool: Tool, ended: Ended, signal: CancelSignal) -> ToolResult:
    if ended.abandoned:
        text = f"`{call.name}` did not stop after {signal.cause}; whether it took effect is not known"
        return ToolResult(call.id, call.name, "indeterminate", text, "did not stop", INDETERMINATE)
    if ended.error is not None:
        if isinstance(ended.error, ToolError):
            return _failed(call, TOOL_FAILED, str(ended.error)).result
        if not signal.cancelled:
            return _failed(call, TOOL_FAILED, describe(ended.error)).result
    if signal.cause == TIMEOUT:
        return _failed(call, TIMED_OUT, f"`{call.name}` was stopped after its {tool.timeout:g} s").result
    if signal.cancelled:
        return ToolResult(call.id, call.name, "aborted", "tool call aborted", "aborted", ABORTED)
    try:
        value = tool.output.check(ended.value)
        return ToolResult(call.id, call.name, "ok", tool.output.render(value), tool.output.summarize(value))
    except Exception as error:
        text = f"`{call.name}` returned what it does not promise: {describe(error)}"
        return _failed(call, INVALID_TOOL_OUTPUT, text).result


def aborted_before_dispatch(call: ToolCall) -> Settled:
    """The result of a call whose body never started because the run was cancelled."""
    text = "tool call aborted before dispatch"
    return Settled(ToolResult(call.id, call.name, "aborted", text, "not started", ABORTED_BEFORE_DISPATCH))


def not_run(call: ToolCall, code: str, reason: str) -> Settled:
    """The result of a call that the run itself did not let begin, such as one over a limit."""
    return _failed(call, code, reason)


def _failed(call: ToolCall, code: str, text: str) -> Settled:
    return Settled(ToolResult(call.id, call.name, "error", f"Error: {text}", one_line(text, 120), code))


def _denied(call: ToolCall, refusal: Refusal) -> Settled:
    text = f"Error: denied by {refusal.pack}: {refusal.reason}"
    result = ToolResult(call.id, call.name, "denied", text, one_line(f"denied: {refusal.reason}", 160), DENIED)
    return Settled(result, refused_by=refusal.pack)


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
