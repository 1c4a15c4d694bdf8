"""After a call: the packs see its result and may change or block it, then its tool has the last word on the text."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pegboard.base.isolation import describe
from pegboard.base.text import one_line
from pegboard.calls.body import absorb_cancel, deadline_after_cancel
from pegboard.calls.extra_texts import ExtraTexts, are_texts
from pegboard.calls.results import check_output, failed
from pegboard.dispatch.dispatcher import HookFailure, Misfit, Stop
from pegboard.tools.snapshot import Offered
from pegboard.values.codes import BLOCKED, DENIED, INVALID_TOOL_OUTPUT, TOOL_FAILED
from pegboard.values.messages import ToolCall
from pegboard.values.outcomes import Accept, Block, Outcome, ToolRun

if TYPE_CHECKING:
    from pegboard.agents.run import Run


@dataclass(frozen=True, slots=True)
class Posting:
    """The last rooms of one call."""

    run: "Run"
    call: ToolCall
    offered: Offered | None
    contexts: ExtraTexts

    async def after(self, ended: Outcome, of_body: Outcome | None, running: Callable[[], ToolRun]) -> Outcome:
        """Return what the packs and the tool leave of an outcome; what a body came to they can't make better."""
        after = self._finalized(await self._post(ended, running), of_body)
        if of_body is not None and of_body.status == "indeterminate":
            return replace(after, status=of_body.status, code=of_body.code)
        if of_body is not None and of_body.status == "aborted" and after.status == "ok":
            return of_body
        # A refusal stays one, whatever it reads like after all.
        return replace(after, status="denied", code=DENIED) if ended.status == "denied" else after

    async def _post(self, outcome: Outcome, running: Callable[[], ToolRun]) -> Outcome:
        """Show a result, whatever it is, to the packs that may change or block it."""
        dispatcher, scope = self.run.agent.services.dispatcher, self.run.agent.scope
        if not dispatcher.plan("tool_post_execute", scope):
            return outcome
        try:
            with deadline_after_cancel(self.run.signal):
                after: Outcome = await dispatcher.fold("tool_post_execute", scope, outcome, self._accept, running())
        except HookFailure as failure:
            return failed(TOOL_FAILED, str(failure))
        except asyncio.CancelledError as error:
            absorb_cancel(error, self.run.signal)
            return failed(TOOL_FAILED, f"a pack did not finish with the result of `{self.call.name}` after a cancel")
        return after

    def _accept(self, outcome: Outcome, answer: object) -> "Outcome | Stop":
        if isinstance(answer, Accept | Block) and not are_texts(answer.contexts):
            raise Misfit(f"{type(answer).__name__} whose contexts are no tuple of texts")
        accepted = self._accepted(outcome, answer)
        if isinstance(answer, Accept | Block):
            self.contexts.of_packs(answer.contexts)
        return accepted

    def _accepted(self, outcome: Outcome, answer: object) -> "Outcome | Stop":
        match answer:
            case Block(feedback) if isinstance(feedback, str):
                self.contexts.drop_of_tool()
                return Stop(Outcome("error", feedback, one_line(feedback, 120), BLOCKED))
            case Accept(content) if content is not None and answer.changes_value:
                raise Misfit("Accept with both content and value; it may change one of them")
            case Accept() if answer.changes_value and (outcome.status != "ok" or self.offered is None):
                raise Misfit("another value for a call that failed")
            case Accept() if answer.changes_value and self.offered is not None:
                return check_output(self.call, self.offered.tool, answer.value)
            case Accept(None):
                return outcome
            case Accept(str() as content):
                return outcome.saying(content)
            case Accept():
                raise Misfit("Accept whose content is no text")
            case Block():
                raise Misfit("Block whose feedback is no text")
        raise Misfit(f"{type(answer).__name__}, not Accept, Block or None")

    def _finalized(self, outcome: Outcome, of_body: Outcome | None) -> Outcome:
        """Give the tool the last word about what the model reads, if its body ran (T41)."""
        finalize = self.offered.tool.output.finalize if self.offered else None
        if finalize is None or of_body is None or outcome.code == BLOCKED:
            return outcome
        try:
            content = finalize(outcome.content)
            if not isinstance(content, str):
                raise TypeError(f"`finalize` must return a string, not {type(content).__name__}")
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return failed(INVALID_TOOL_OUTPUT, f"`{self.call.name}` failed to finish its result: {describe(error)}")
        return outcome.saying(content)
