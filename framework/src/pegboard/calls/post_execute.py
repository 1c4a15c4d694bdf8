"""After a call: the packs see its result and may change or block it, then its tool has the last word on the text."""

import asyncio
from dataclasses import replace
from functools import partial

from pegboard.base.isolation import describe
from pegboard.base.text import one_line
from pegboard.calls.body import absorb_cancel, deadline_after_cancel
from pegboard.calls.environment import CallEnv
from pegboard.calls.extra_texts import ExtraTexts, are_texts
from pegboard.calls.pack_views import ToolRun
from pegboard.calls.results import check_output, failed
from pegboard.dispatch.dispatcher import HookFailure, Misfit, Stop
from pegboard.values.codes import BLOCKED, DENIED, INVALID_TOOL_OUTPUT, TOOL_FAILED
from pegboard.values.outcomes import Accept, Block, Outcome
from pegboard.values.tool import Tool


async def shown_to_packs(env: CallEnv, run: ToolRun, outcome: Outcome, extras: ExtraTexts) -> Outcome:
    """Show a result, whatever it is, to the packs that implement `tool_post_execute`; returns what they leave of it."""
    accept = partial(_accept, run, extras)
    try:
        with deadline_after_cancel(env.signal):
            after: Outcome = await env.dispatcher.fold("tool_post_execute", env.scope, outcome, accept, run)
    except HookFailure as failure:
        return failed(TOOL_FAILED, str(failure))
    except asyncio.CancelledError as error:
        absorb_cancel(error, env.signal)
        return failed(TOOL_FAILED, f"a pack did not finish with the result of `{run.name}` after a cancel")
    return after


def kept_honest(after: Outcome, ended: Outcome, of_body: Outcome | None) -> Outcome:
    """Return what the packs left of an outcome; what a body came to they can't make better."""
    if of_body is not None and of_body.status == "indeterminate":
        return replace(after, status=of_body.status, code=of_body.code)
    if of_body is not None and of_body.status == "aborted" and after.status == "ok":
        return of_body
    # A refusal stays one, whatever it reads like after all.
    return replace(after, status="denied", code=DENIED) if ended.status == "denied" else after


def finalized(tool: Tool, outcome: Outcome) -> Outcome:
    """Give the tool the last word about what the model reads."""
    finalize = tool.output.finalize
    if finalize is None or outcome.code == BLOCKED:
        return outcome
    try:
        content = finalize(outcome.content)
        if not isinstance(content, str):
            raise TypeError(f"`finalize` must return a string, not {type(content).__name__}")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return failed(INVALID_TOOL_OUTPUT, f"`{tool.name}` failed to finish its result: {describe(error)}")
    return outcome.saying(content)


def _accept(run: ToolRun, extras: ExtraTexts, outcome: Outcome, answer: object) -> Outcome | Stop:
    if isinstance(answer, Accept | Block) and not are_texts(answer.contexts):
        raise Misfit(f"{type(answer).__name__} whose contexts are no tuple of texts")
    accepted = _accepted(run.tool, extras, outcome, answer)
    if isinstance(answer, Accept | Block):
        extras.of_packs(answer.contexts)
    return accepted


def _accepted(tool: Tool | None, extras: ExtraTexts, outcome: Outcome, answer: object) -> Outcome | Stop:
    match answer:
        case Block(feedback) if isinstance(feedback, str):
            extras.drop_of_tool()
            return Stop(Outcome("error", feedback, one_line(feedback, 120), BLOCKED))
        case Accept(content) if content is not None and answer.changes_value:
            raise Misfit("Accept with both content and value; it may change one of them")
        case Accept() if answer.changes_value and (outcome.status != "ok" or tool is None):
            raise Misfit("another value for a call that failed")
        case Accept() if answer.changes_value and tool is not None:
            return check_output(tool, answer.value)
        case Accept(None):
            return outcome
        case Accept(str() as content):
            return outcome.saying(content)
        case Accept():
            raise Misfit("Accept whose content is no text")
        case Block():
            raise Misfit("Block whose feedback is no text")
    raise Misfit(f"{type(answer).__name__}, not Accept, Block or None")
