"""What a call came to, in the words that a model and a person read, and the codes that name each kind of failure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, get_args

from pegboard.base.cancel import CancelSignal
from pegboard.base.errors import PegboardError
from pegboard.base.isolation import describe
from pegboard.base.slotted import direct_init
from pegboard.base.text import one_line
from pegboard.calls.body import Ended
from pegboard.calls.gate import Refusal
from pegboard.tools.snapshot import Offered
from pegboard.values.codes import (
    ABORTED,
    ABORTED_BEFORE_DISPATCH,
    DENIED,
    INDETERMINATE,
    INVALID_TOOL_OUTPUT,
    TIMED_OUT,
    TOOL_FAILED,
)
from pegboard.values.messages import Status, ToolCall, ToolResult
from pegboard.values.outcomes import Outcome
from pegboard.values.tool import Tool

_STATUSES: Final = get_args(Status)


@direct_init
@dataclass(frozen=True, slots=True)
class Announced:
    """A call as it is recorded, before its body runs; `arguments` are frozen, None if the text was no JSON object."""

    call: ToolCall
    arguments: Mapping[str, Any] | None = None
    offered: Offered | None = None


@direct_init
@dataclass(frozen=True, slots=True)
class Settled:
    """The result of a call, everyone who refused it if it was denied, and the body's wall time in milliseconds.

    `concludes`: its success is to end the run (T47).
    """

    result: ToolResult
    refusals: tuple[Refusal, ...] = ()
    ms: float = 0.0
    concludes: bool = False


BEFORE_DISPATCH: Final = Outcome("aborted", "tool call aborted before dispatch", "not started", ABORTED_BEFORE_DISPATCH)
ABORTED_CALL: Final = Outcome("aborted", "tool call aborted", "aborted", ABORTED)
RUNNING: Final = Outcome("error", "Error: the body is running", "the body is running", TOOL_FAILED)


def failed(code: str, text: str) -> Outcome:
    """Return a failure that the model can read."""
    return Outcome("error", f"Error: {text}", one_line(text, 120), code)


def denied(pack: str, reason: str) -> Outcome:
    """Return a refusal, with the pack (or the kernel) that refuses."""
    return Outcome(
        "denied", f"Error: denied by {pack or 'this program'}: {reason}", one_line(f"denied: {reason}", 160), DENIED
    )


def as_result(call: ToolCall, outcome: Outcome) -> ToolResult:
    """Return an outcome as what enters the transcript."""
    return ToolResult(call.id, call.name, outcome.status, outcome.content, outcome.summary, outcome.code)


def outcome_of(call: ToolCall, tool: Tool, ended: Ended, signal: CancelSignal) -> Outcome:
    """Return what a body's end comes to: an error that was there before a cancel is kept, a success after it is not."""
    if ended.abandoned:
        text = f"`{call.name}` did not stop after {signal.cause}; whether it took effect is not known"
        return Outcome("indeterminate", text, "did not stop", INDETERMINATE)
    if ended.told_to_stop and ended.timed_out:
        return failed(TIMED_OUT, f"`{call.name}` was stopped after its {tool.timeout:g} s")
    if isinstance(ended.error, PegboardError):
        return failed(TOOL_FAILED, str(ended.error))
    if isinstance(ended.error, Exception):
        return failed(TOOL_FAILED, describe(ended.error))
    if ended.told_to_stop:
        return ABORTED_CALL
    return check_output(call, tool, ended.value)


def check_output(call: ToolCall, tool: Tool, returned: Any) -> Outcome:
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
        return failed(INVALID_TOOL_OUTPUT, f"`{call.name}` returned what it does not promise: {describe(error)}")


def recheck(call: ToolCall, tool: Tool, outcome: Outcome) -> Outcome:
    """Hold what a wrapper made of a success to the contract; the texts that it chose stay, if the value is one."""
    if not (isinstance(outcome.content, str) and isinstance(outcome.summary, str)):
        return failed(TOOL_FAILED, f"a pack around `{call.name}` returned an Outcome whose content is no text")
    coded = outcome.code is None if outcome.status == "ok" else isinstance(outcome.code, str | None)
    if outcome.status not in _STATUSES or not coded:
        return failed(TOOL_FAILED, f"a pack around `{call.name}` returned an Outcome with an unknown status or code")
    outcome = replace(outcome, summary=one_line(outcome.summary))
    if outcome.status != "ok":
        return outcome
    again = check_output(call, tool, outcome.value)
    return again if outcome.fresh or again.status != "ok" else outcome
