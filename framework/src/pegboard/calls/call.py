"""One tool call from the model's words to its result: look up, check, guard, record, guard again, run, post, render.

A `PendingCall` takes a call through these rooms in order. It has exactly one result on every path, unless it waits
for a person whom another run asks: then that run takes it up again.
"""

import asyncio
import inspect
import json
import time
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pegboard.base.cancel import CancelSignal
from pegboard.base.errors import InvalidArguments
from pegboard.base.frozen import freeze, read_object, thaw
from pegboard.base.isolation import being_cancelled, current_pack, describe
from pegboard.base.text import did_you_mean, one_line
from pegboard.calls.body import absorb_cancel, deadline_after_cancel, run_body
from pegboard.calls.extra_texts import ExtraTexts
from pegboard.calls.gate import KERNEL_PACK, Gate, GuardedCall, Refusal, resolve_touches
from pegboard.calls.post_execute import Posting
from pegboard.calls.questions import Suspended
from pegboard.calls.results import (
    ABORTED_CALL,
    BEFORE_DISPATCH,
    RUNNING,
    Announced,
    Settled,
    as_result,
    denied,
    failed,
    outcome_of,
    recheck,
)
from pegboard.calls.tool_context import Surroundings
from pegboard.dispatch.dispatcher import HookFailure
from pegboard.record.paused_turn import OpenCall
from pegboard.tools.snapshot import Offered
from pegboard.values.codes import INVALID_ARGS, STALE_APPROVAL, TOOL_FAILED, UNANSWERED, UNKNOWN_TOOL, WITHDRAWN
from pegboard.values.interrupts import NeedsAnswer, NeedsApproval, NeedsPerson, WaitsForSessions
from pegboard.values.messages import ToolCall
from pegboard.values.outcomes import Outcome, ToolRun
from pegboard.values.tool import Tool, Touch

if TYPE_CHECKING:
    from pegboard.agents.run import Run


class RecordLost(Exception):
    """The store could not keep an entry: the run must end, and a tool must not run unrecorded."""


class _Stopped(Exception):
    """Ends the walk of a call early, with its outcome."""

    def __init__(self, outcome: Outcome, *refusals: Refusal) -> None:
        self.outcome = outcome
        self.refusals = refusals
        super().__init__()


class _Needs(BaseException):
    """Carries what a body needs out of the packs' wrappers, past those that catch every Exception."""

    def __init__(self, needed: NeedsPerson | WaitsForSessions) -> None:
        self.needed = needed
        super().__init__()


class PendingCall:
    """One call on its way: `check`, `body` when it is `ready`, `satisfy` what that `needs`, then `settle`.

    It `waits` if a person must answer first, in another run.

    `taken_up` is what an earlier run left of it. A call `by_program` may use what is never shown to a model (rule 5).
    """

    def __init__(
        self, run: "Run", call: ToolCall, taken_up: OpenCall | None = None, *, by_program: bool = False
    ) -> None:
        self.run = run
        self.call = call
        self.ready = self.waits = False
        self.needs: NeedsPerson | WaitsForSessions | None = None
        self._taken_up = taken_up
        # A call that was taken up keeps to its old definition: the hash of its approval holds it to that.
        self._offered = (run.agent.view() if taken_up or by_program else run.snapshot).get(call.name)
        self._gate = Gate(run, taken_up.approved if taken_up else ())
        self._shown: Mapping[str, Any] | None = None
        self._arguments: dict[str, Any] = {}
        self._touches: tuple[Touch, ...] = ()
        self._signal = CancelSignal()
        self._ended: Outcome | None = None  # how the call ended
        self._of_body: Outcome | None = None  # how its body did; RUNNING from its beginning
        self._refusals: tuple[Refusal, ...] = ()
        self._announced = taken_up is not None and taken_up.called
        self._approved = taken_up is not None and taken_up.body_approved
        self._answer = taken_up.answer if taken_up else None
        self._contexts = ExtraTexts()
        self._delegated = taken_up is not None and taken_up.waits is not None  # its body has had effects
        self._concludes = False
        self._needed: NeedsPerson | WaitsForSessions | None = None
        self._body_ended: asyncio.Event | None = None
        self._ms = 0.0

    @property
    def parallel(self) -> bool:
        """Whether its body may run beside others; what is not known may not (T45)."""
        return self._offered is not None and self._offered.tool.concurrency == "parallel"

    def refuse(self, outcome: Outcome) -> None:
        """End it without asking anybody: `check` then only announces it."""
        self._ended = outcome

    def stopped(self) -> None:
        """End it because its task was cancelled before it began."""
        self._ended = self._ended or self._of_body or BEFORE_DISPATCH

    def abort(self) -> None:
        """End it because its run ends; one that waited for a person will never be asked for again."""
        self.waits = False
        self._ended = ABORTED_CALL if self._delegated else BEFORE_DISPATCH

    # -- the rooms

    async def check(self) -> None:
        """Let it pass everyone who may object, and record it; afterwards it is `ready`, `waits`, or has ended."""
        if self._ended is None:
            await self._take(self._check_and_record())
        if self._ended is not None:
            await self._announce()

    async def body(self) -> None:
        """Run the body inside the packs' wrappers; afterwards it has ended, or `needs` somebody."""
        self.ready = False
        await self._take(self._run_body())

    async def satisfy(self) -> None:
        """Get what the body needs; afterwards it is `ready` to be called again, `waits`, or has ended."""
        needs, self.needs = self.needs, None
        if needs is not None:
            await self._take(self._satisfy(needs))

    async def settle(self) -> Settled | None:
        """Show the result to the packs, and return it; None while it waits for a person."""
        if self.waits:
            return None
        await self._announce()
        posting = Posting(self.run, self.call, self._offered, self._contexts)
        outcome = await posting.after(self._ended or BEFORE_DISPATCH, self._of_body, self._running)
        outcome = self._contexts.beside(outcome)
        return Settled(as_result(self.call, outcome), self._refusals, self._ms, self._concludes)

    async def _take(self, work: Coroutine[Any, Any, None]) -> None:
        """Do a part of the way; whatever stops it there becomes the call's outcome."""
        try:
            await work
        except _Stopped as stopped:
            self._ended, self._refusals = stopped.outcome, stopped.refusals
        except Suspended:
            self.waits = True
        except (KeyboardInterrupt, RecordLost):
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and being_cancelled(error):
                # Bodies are shielded: nothing has happened yet, or the body has ended.
                absorb_cancel(error, self.run.signal)
                self._ended = self._of_body or BEFORE_DISPATCH
            else:  # a schema or the like of a tool raised what it may not
                self._ended = failed(TOOL_FAILED, describe(error))

    async def _announce(self) -> None:
        if not self._announced:
            self._announced = True
            await self.run.announce(Announced(self.call, self._shown, self._offered))

    async def _check_and_record(self) -> None:
        self._arguments, offered = self._check()
        if not self._delegated:
            self._heed_answers()
            self._touches = await self._ask(offered, "intent", None)
            await self._announce()
            await self._ask(offered, "dispatch", self._touches)
        if self.run.signal.cancelled:
            raise _Stopped(BEFORE_DISPATCH)
        self.ready = True

    def _check(self) -> tuple[dict[str, Any], Offered]:
        """Look the tool up and check what was written for it."""
        call = self.call
        try:
            self._shown = freeze(read_object(call.arguments))
            unreadable = None
        except InvalidArguments as error:
            unreadable = error
        if self._offered is None and self._taken_up is None:
            snapshot, live = self.run.snapshot, self.run.agent.view().snapshot.get(call.name)
            is_new = live is not None and (snapshot.base or snapshot).get(call.name) is None
            near = " (available from the next message)" if is_new else did_you_mean(call.name, snapshot.names)
            raise _Stopped(failed(UNKNOWN_TOOL, f'unknown tool "{one_line(call.name, 80)}"{near}'))
        if self._offered is None:
            why = self.run.agent.view().why_gone(call.name, None)
            told = f"`{one_line(call.name, 80)}` was withdrawn while the call waited: {why}"
            raise _Stopped(failed(WITHDRAWN, told))
        if gone := self._gone(self._offered.tool):
            raise _Stopped(gone)
        if self.run.signal.cancelled:
            raise _Stopped(BEFORE_DISPATCH)
        try:
            if unreadable:
                raise unreadable
            return self._offered.tool.arguments.parse(call.arguments), self._offered
        except InvalidArguments as error:
            raise _Stopped(failed(INVALID_ARGS, str(error))) from None

    def _gone(self, tool: Tool) -> Outcome | None:
        """Narrowing is live: a tool that is not there any more is not run, whatever the snapshot says (rule 3)."""
        why = self.run.agent.view().why_gone(tool.name, tool)
        return None if why is None else failed(WITHDRAWN, f"`{tool.name}` was withdrawn: {why}")

    def _heed_answers(self) -> None:
        """A person's no to what an earlier run asked ends the call."""
        refused = self._taken_up.refused if self._taken_up else None
        if refused is not None:
            asked, text = refused
            raise self._said_no(asked.kind, asked.pack, text)

    def _said_no(self, kind: str, pack: str, text: str) -> _Stopped:
        told = f": {text}" if text else ""
        if kind == "question":
            return _Stopped(failed(UNANSWERED, f"the person did not answer{told}"))
        return self._refused(Refusal(pack, f"a person said no{told}"))

    async def _ask(
        self, offered: Offered, phase: Literal["intent", "dispatch"], before: tuple[Touch, ...] | None
    ) -> tuple[Touch, ...]:
        """Ask everyone who may object, on the same touches both times; returns the touches."""
        asked = self._guarded(offered, phase)
        if before is not None and asked.touches != before:
            raise self._refused(Refusal(KERNEL_PACK, f"what `{self.call.name}` would use changed after it was allowed"))
        if phase == "intent" and self._taken_up is not None and self._taken_up.hash not in ("", asked.hash):
            text = f"`{self.call.name}`, its arguments or what it would use is not what was asked about; call it again"
            raise _Stopped(failed(STALE_APPROVAL, text))
        approvals = self._gate.approvals
        if refusals := await self._gate.refusals(asked):
            raise self._refused(*refusals)
        if self._gate.approvals != approvals and self._guarded(offered, phase).touches != asked.touches:
            raise self._refused(Refusal(KERNEL_PACK, f"what `{self.call.name}` would use changed after it was allowed"))
        return asked.touches

    def _guarded(self, offered: Offered, phase: Literal["intent", "dispatch"]) -> GuardedCall:
        call, agent, shown = self.call, self.run.agent, self._shown or {}
        try:
            touches = resolve_touches(offered.tool, shown, agent.session.directory)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            reason = f"it can't be told what `{call.name}` would use: {describe(error)}"
            raise self._refused(Refusal(offered.pack, reason)) from None
        return GuardedCall(agent, phase, call.id, call.name, offered.tool, offered.pack, shown, touches)

    def _refused(self, *refusals: Refusal) -> _Stopped:
        return _Stopped(denied(refusals[0].pack, refusals[0].reason), *refusals)

    # -- the body

    async def _run_body(self) -> None:
        run, offered = self.run, self._offered
        if offered is None:
            return
        tool, arguments = offered.tool, self._arguments
        self._arguments = {}  # the body may change them; a second attempt reads them anew
        if self._taken_up is not None and self._taken_up.waits is not None:
            tool, arguments = _taking_up(tool, self._taken_up.waits.job)
        if tool.takes_context:
            around = Surroundings(run, offered.pack, self._signal, self._contexts)
            arguments["ctx"] = around.context(self._conclude, approved=self._approved, answer=self._answer)
        unlink = run.signal.on_cancel(lambda: self._signal.cancel(run.signal.cause or "cancelled"))
        try:
            outcome = await self._around(tool, arguments)
        except _Needs:
            outcome = RUNNING
        except HookFailure as failure:
            outcome = failed(TOOL_FAILED, str(failure))
        finally:
            await self._left_behind()
            unlink()
        if self._needed is not None:  # whatever the wrappers made of it
            self.needs, self._needed, self._of_body, self._concludes = self._needed, None, None, False
            self._contexts.drop()
            return
        self._ended = outcome if outcome is self._of_body else recheck(self.call, offered.tool, outcome)

    async def _left_behind(self) -> None:
        """Await a body that its wrappers did not wait for: it is told to stop, and has its grace (rule 9)."""
        if self._body_ended is not None and not self._body_ended.is_set():
            self._signal.cancel("a pack around it did not wait")
            await self._body_ended.wait()

    async def _around(self, tool: Tool, arguments: dict[str, Any]) -> Outcome:
        """Run the body inside the packs' wrappers; it runs once, whatever these do."""
        dispatcher, scope = self.run.agent.services.dispatcher, self.run.agent.scope
        if not dispatcher.plan("wrap_tool_call", scope):
            return await self._bare_body(tool, arguments)

        async def body(_running: ToolRun) -> Outcome:
            if self._of_body is not None:
                return failed(TOOL_FAILED, "a pack asked for the body a second time; it runs once")
            self._body_ended = asyncio.Event()
            try:
                return await self._bare_body(tool, arguments, wrapped=True)
            finally:
                self._body_ended.set()

        with deadline_after_cancel(self.run.signal):
            outcome: Outcome = await dispatcher.around("wrap_tool_call", scope, body, self._running(), wanted=Outcome)
        return outcome

    async def _bare_body(self, tool: Tool, arguments: dict[str, Any], *, wrapped: bool = False) -> Outcome:
        if self._signal.cancelled:  # while a pack's wrapper waited
            return BEFORE_DISPATCH
        if self._offered and (gone := self._gone(self._offered.tool)):
            return gone
        self._of_body = RUNNING  # counts as begun from here on
        began = time.perf_counter()
        token = current_pack.set(self._offered.pack if self._offered else "")  # what the body registers is its pack's
        # Inside a wrapper a cancellation may be the wrapper's own timeout: it is passed on when the body has ended.
        interrupt = self._signal.cancel if wrapped else self.run.signal.cancel
        ended = await run_body(tool, arguments, self._signal, interrupt, uncancel=not wrapped)
        current_pack.reset(token)
        self._ms = (time.perf_counter() - began) * 1000
        if isinstance(ended.error, NeedsPerson | WaitsForSessions) and not ended.told_to_stop:
            self._needed = ended.error
            raise _Needs(ended.error)
        self._of_body = outcome_of(self.call, tool, ended, self._signal)
        if wrapped and (task := asyncio.current_task()) and task.cancelling():
            raise asyncio.CancelledError
        return self._of_body

    async def _satisfy(self, needs: NeedsPerson | WaitsForSessions) -> None:
        offered, run = self._offered, self.run
        if offered is None or run.signal.cancelled:
            raise _Stopped(ABORTED_CALL)
        if isinstance(needs, WaitsForSessions):
            if offered.tool.resume is None:
                raise _Stopped(failed(TOOL_FAILED, f"`{self.call.name}` waits for others and could not be taken up"))
            if run.on_ask != "pause":
                raise _Stopped(failed(UNANSWERED, f"`{self.call.name}` waits for a person, whom nobody can ask here"))
            await run.wait_for(self.call, needs)
            self._delegated = True
            raise Suspended
        again = self._approved if isinstance(needs, NeedsApproval) else self._answer is not None
        if again:
            raise _Stopped(failed(TOOL_FAILED, f"`{self.call.name}` asks again for what it was given"))
        kind: Literal["permission", "question"] = "question" if isinstance(needs, NeedsAnswer) else "permission"
        options = needs.options if isinstance(needs, NeedsAnswer) else ()
        answer = await self._gate.ask_for_body(self._guarded(offered, "dispatch"), kind, str(needs), options)
        if answer is None and kind == "question":
            raise _Stopped(failed(UNANSWERED, "nobody can be asked here; go on without, and say what you assumed"))
        if answer is None:
            silence = self._gate.silence
            raise self._refused(Refusal(offered.pack, f"{needs}; a person must answer and {silence}"))
        if answer.approved is False or (kind == "permission" and not answer.approved):
            raise self._said_no(kind, offered.pack, answer.text)
        if kind == "permission":
            self._approved = True
        else:
            self._answer = answer.text
        await self._ask(offered, "dispatch", self._touches)  # a person may take long
        self._arguments = offered.tool.arguments.parse(self.call.arguments)
        self.ready = True

    def _conclude(self) -> None:
        self._concludes = True

    def _running(self) -> ToolRun:
        call, run, offered, shown = self.call, self.run, self._offered, self._shown or {}
        tool, pack = (offered.tool, offered.pack) if offered else (None, None)
        touches, signal, add = self._touches, self._signal, self._contexts.add_of_wrapper
        return ToolRun(run.agent, run.number, call.id, call.name, tool, pack, shown, touches, signal, add)


def _taking_up(tool: Tool, job: str) -> tuple[Tool, dict[str, Any]]:
    """Return what is called in place of a body that waited for other sessions."""
    if tool.resume is None:
        raise _Stopped(failed(TOOL_FAILED, f"`{tool.name}` can't be taken up again; its work is in job {job}"))
    is_async = inspect.iscoroutinefunction(tool.resume)
    return replace(tool, body=tool.resume, is_async=is_async, inline=False, takes_context=True), {"job": job}


def as_call(taken_up: OpenCall) -> ToolCall:
    """Return a call as an earlier run recorded it."""
    return ToolCall(taken_up.id, taken_up.name, json.dumps(thaw(taken_up.arguments)))
