"""What a call came to, in the words that a model and a person read."""

from dataclasses import replace
from typing import Any, Final, get_args

from pegboard.base.cancel import CancelSignal
from pegboard.base.errors import PegboardError
from pegboard.base.isolation import describe
from pegboard.base.text import one_line
from pegboard.calls.body import Ended
from pegboard.values.codes import (
    ABORTED,
    ABORTED_BEFORE_DISPATCH,
    DENIED,
    INDETERMINATE,
    INVALID_TOOL_OUTPUT,
    TIMED_OUT,
    TOOL_FAILED,
)
from pegboard.values.messages import Status
from pegboard.values.outcomes import Outcome
from pegboard.values.tool import Tool

_STATUSES: Final = get_args(Status)


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


def outcome_of(tool: Tool, ended: Ended, signal: CancelSignal) -> Outcome:
    """Return what a body's end comes to: an error that was there before a cancel is kept, a success after it is not."""
    if ended.abandoned:
        text = f"`{tool.name}` did not stop after {signal.cause}; whether it took effect is not known"
        return Outcome("indeterminate", text, "did not stop", INDETERMINATE)
    if ended.told_to_stop and ended.timed_out:
        return failed(TIMED_OUT, f"`{tool.name}` was stopped after its {tool.timeout:g} s")
    if isinstance(ended.error, PegboardError):
        return failed(TOOL_FAILED, str(ended.error))
    if isinstance(ended.error, Exception):
        return failed(TOOL_FAILED, describe(ended.error))
    if ended.told_to_stop:
        return ABORTED_CALL
    return check_output(tool, ended.value)


def check_output(tool: Tool, returned: Any) -> Outcome:
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
        return failed(INVALID_TOOL_OUTPUT, f"`{tool.name}` returned what it does not promise: {describe(error)}")


def recheck(tool: Tool, outcome: Outcome) -> Outcome:
    """Validate an outcome that a `wrap_tool_call` returned; its texts are kept if its value passes the output check."""
    if not (isinstance(outcome.content, str) and isinstance(outcome.summary, str)):
        return failed(TOOL_FAILED, f"a pack around `{tool.name}` returned an Outcome whose content is no text")
    coded = outcome.code is None if outcome.status == "ok" else isinstance(outcome.code, str | None)
    if outcome.status not in _STATUSES or not coded:
        return failed(TOOL_FAILED, f"a pack around `{tool.name}` returned an Outcome with an unknown status or code")
    outcome = replace(outcome, summary=one_line(outcome.summary))
    if outcome.status != "ok":
        return outcome
    again = check_output(tool, outcome.value)
    return again if outcome.fresh or again.status != "ok" else outcome
