"""One tool call from the model's words to its result: look up, check, guard, record, guard again, run, post, render.

It has exactly one result on every path, unless it waits for a person whom another run asks: then that run takes it up.
"""

import asyncio
import inspect
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Literal

from pegboard.base.cancel import CancelSignal
from pegboard.base.errors import InvalidArguments
from pegboard.base.frozen import freeze, read_object, thaw
from pegboard.base.isolation import being_cancelled, current_pack, describe
from pegboard.base.text import one_line
from pegboard.calls.body import absorb_cancel, deadline_after_cancel, run_body
from pegboard.calls.environment import CallEnv
from pegboard.calls.extra_texts import OF_WRAPPERS, ExtraTexts
from pegboard.calls.gate import Gate, Refusal
from pegboard.calls.pack_views import GuardedCall, Phase, ToolRun
from pegboard.calls.policy import KERNEL_PACK
from pegboard.calls.post_execute import finalized, kept_honest, shown_to_packs
from pegboard.calls.questions import Suspended
from pegboard.calls.results import ABORTED_CALL, BEFORE_DISPATCH, RUNNING, denied, failed, outcome_of, recheck
from pegboard.calls.tool_context import make_context
from pegboard.calls.touching import RealPaths, resolve_touches
from pegboard.dispatch.dispatcher import HookFailure
from pegboard.dispatch.guards import ask_all
from pegboard.record.journal import RecordLost
from pegboard.record.paused_turn import OpenCall
from pegboard.tools.snapshot import Offered
from pegboard.tools.tool_names import unknown_tool
from pegboard.values.codes import INVALID_ARGS, STALE_APPROVAL, TOOL_FAILED, UNANSWERED, UNKNOWN_TOOL, WITHDRAWN
from pegboard.values.events import Called, Returned, Waits
from pegboard.values.interrupts import NeedsAnswer, NeedsApproval, NeedsPerson, WaitsForSessions
from pegboard.values.messages import ToolCall
from pegboard.values.outcomes import Outcome
from pegboard.values.tool import Tool, Touch
from pegboard.values.verdicts import Ask

State = Literal["new", "ready", "needs", "waits", "ended"]

# Which states follow on which: `check` leaves new, `run` leaves ready, `answer_needs` leaves needs. What waits is taken
# up by another run, or aborted. `finish` gives the result of what has ended.
WAYS: Final[Mapping[State, frozenset[State]]] = {
    "new": frozenset({"ready", "waits", "ended"}),
    "ready": frozenset({"needs", "ended"}),
    "needs": frozenset({"ready", "waits", "ended"}),
    "waits": frozenset({"ended"}),
    "ended": frozenset(),
}


class _Stopped(Exception):
    """Ends a call early, with its outcome."""

    def __init__(self, outcome: Outcome, *refusals: Refusal) -> None:
        self.outcome = outcome
        self.refusals = refusals
        super().__init__()


class _Needs(BaseException):
    """Carries what a body needs out of the packs' wrappers, past those that catch every Exception."""


class PendingCall:
    """One call on its way; `state` tells what is next, in the ways of `WAYS`.

    `taken_up` is what an earlier run left of it. A call `by_program` may use what is never shown to a model (rule 5).
    `concludes`: its success is to end the run (T47).
    """

    def __init__(
        self, env: CallEnv, call: ToolCall, taken_up: OpenCall | None = None, *, by_program: bool = False
    ) -> None:
        self.call = call
        self.state: State = "new"
        self.concludes = False
        self._env = env
        self._taken_up = taken_up
        self._by_program = by_program
        # A call that was taken up keeps to its old definition: the hash of its approval holds it to that.
        self._offered = (env.view() if taken_up or by_program else env.snapshot).get(call.name)
        self._gate = Gate(env, taken_up.approved if taken_up else ())
        self._shown: Mapping[str, Any] | None = None
        self._arguments: dict[str, Any] = {}
        self._touches: tuple[Touch, ...] = ()
        self._signal = CancelSignal()
        self._ended: Outcome = BEFORE_DISPATCH  # how the call ended
        self._of_body: Outcome | None = None  # how its body did; RUNNING from its beginning
        self._refusals: tuple[Refusal, ...] = ()
        self._announced = taken_up is not None and taken_up.called
        self._approved = taken_up is not None and taken_up.body_approved
        self._answer = taken_up.answer if taken_up else None
        self._extras = ExtraTexts()
        self._delegated = taken_up is not None and taken_up.waits is not None  # its body has had effects
        self._needed: NeedsPerson | WaitsForSessions | None = None
        self._body_ended: asyncio.Event | None = None
        self._ms = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether its body may run now."""
        return self.state == "ready"

    @property
    def parallel(self) -> bool:
        """Whether its body may run beside others; what is not known may not (T45)."""
        return self._offered is not None and self._offered.tool.concurrency == "parallel"

    def refuse(self, outcome: Outcome) -> None:
        """End it without asking anybody: `check` then only announces it."""
        self._end(outcome)

    def stopped(self) -> None:
        """End it because its task was cancelled before it began."""
        if self.state != "ended":
            self._end(self._of_body or BEFORE_DISPATCH)

    def abort(self) -> None:
        """End it because its run ends; one that waited for a person will never be asked for again."""
        self._end(ABORTED_CALL if self._delegated else BEFORE_DISPATCH)

    def _become(self, state: State) -> None:
        if state not in WAYS[self.state]:
            raise RuntimeError(f"a call that is {self.state} can't become {state}")
        self.state = state

    def _end(self, outcome: Outcome, refusals: tuple[Refusal, ...] = ()) -> None:
        self._become("ended")
        self._ended, self._refusals = outcome, refusals

    def _stopped_by(self, error: BaseException) -> None:
        """Take what stopped a part of the way for the call's outcome.

        Raises:
            KeyboardInterrupt, RecordLost: these end the run.
        """
        if isinstance(error, _Stopped):
            self._end(error.outcome, error.refusals)
        elif isinstance(error, Suspended):
            self._become("waits")
        elif isinstance(error, KeyboardInterrupt | RecordLost):
            raise error
        elif isinstance(error, asyncio.CancelledError) and being_cancelled(error):
            # Bodies are shielded: nothing has happened yet, or the body has ended.
            absorb_cancel(error, self._env.signal)
            self._end(self._of_body or BEFORE_DISPATCH)
        else:  # a schema or the like of a tool raised what it may not
            self._end(failed(TOOL_FAILED, describe(error)))

    # -- new: everyone who may object

    async def check(self) -> None:
        """Let it pass everyone who may object, and record it; afterwards it is ready, waits, or has ended."""
        if self.state == "new":
            try:
                await self._check_and_record()
            except BaseException as error:
                self._stopped_by(error)
        if self.state == "ended":
            await self._announce()

    async def _check_and_record(self) -> None:
        offered = self._look_up()
        if not self._delegated:
            self._heed_answers()
            self._touches = await self._pass_guards(offered, "intent", None)
            await self._announce()
            await self._pass_guards(offered, "dispatch", self._touches)
        if self._env.signal.cancelled:
            raise _Stopped(BEFORE_DISPATCH)
        self._become("ready")

    def _look_up(self) -> Offered:
        """Find the tool and check what was written for it."""
        env, call = self._env, self.call
        unreadable: InvalidArguments | None = None
        read: dict[str, Any] | None = None
        try:
            read = read_object(call.arguments)
            self._shown = freeze(read)
        except InvalidArguments as error:
            unreadable = error
        offered = self._offered
        if offered is None:
            raise self._unknown() if self._taken_up is None else self._withdrawn_meanwhile()
        if gone := self._gone(offered.tool):
            raise _Stopped(gone)
        if env.signal.cancelled:
            raise _Stopped(BEFORE_DISPATCH)
        try:
            if unreadable:
                raise unreadable
            self._arguments = offered.tool.arguments.parse(call.arguments, read)
            if read is not None:
                self._shown = freeze(read)  # as the tool takes it: guards and body see the same
        except InvalidArguments as error:
            raise _Stopped(failed(INVALID_ARGS, str(error))) from None
        return offered

    def _unknown(self) -> _Stopped:
        snapshot, name = self._env.snapshot, self.call.name
        live = self._env.view().snapshot.get(name)
        is_new = live is not None and (snapshot.base or snapshot).get(name) is None
        told = (
            f'unknown tool "{name}" (available from the next message)' if is_new else unknown_tool(name, snapshot.names)
        )
        return _Stopped(failed(UNKNOWN_TOOL, told))

    def _withdrawn_meanwhile(self) -> _Stopped:
        why = self._env.view().why_gone(self.call.name, None)
        told = f"`{one_line(self.call.name, 80)}` was withdrawn while the call waited: {why}"
        return _Stopped(failed(WITHDRAWN, told))

    def _gone(self, tool: Tool) -> Outcome | None:
        """Narrowing is live: a tool that is not there any more is not run, whatever the snapshot says (rule 3)."""
        why = self._env.view().why_gone(tool.name, tool)
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

    async def _pass_guards(self, offered: Offered, phase: Phase, before: tuple[Touch, ...] | None) -> tuple[Touch, ...]:
        """Ask everyone who may object, on the same touches both times; returns the touches."""
        asked = self._guarded(offered, phase)
        if before is not None and asked.touches != before:
            raise self._refused(self._changed())
        if phase == "intent" and self._taken_up is not None and self._taken_up.hash not in ("", asked.hash):
            text = f"`{self.call.name}`, its arguments or what it would use is not what was asked about; call it again"
            raise _Stopped(failed(STALE_APPROVAL, text))
        approvals = self._gate.approvals
        if refusals := await self._gate.refusals(asked):
            raise self._refused(*refusals)
        if self._gate.approvals != approvals and self._guarded(offered, phase).touches != asked.touches:
            raise self._refused(self._changed())
        return asked.touches

    def _changed(self) -> Refusal:
        return Refusal(KERNEL_PACK, f"what `{self.call.name}` would use changed after it was allowed")

    def _guarded(self, offered: Offered, phase: Phase) -> GuardedCall:
        env, call, shown = self._env, self.call, self._shown or {}
        try:
            touches = resolve_touches(offered.tool, shown, env.directory)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            reason = f"it can't be told what `{call.name}` would use: {describe(error)}"
            raise self._refused(Refusal(offered.pack, reason)) from None
        return GuardedCall(env.agent, phase, call.id, call.name, offered.tool, offered.pack, shown, touches)

    def _refused(self, *refusals: Refusal) -> _Stopped:
        return _Stopped(denied(refusals[0].pack, refusals[0].reason), *refusals)

    async def _announce(self) -> None:
        """Record that the tool was asked for."""
        if self._announced:
            return
        self._announced = True
        journal, call, offered = self._env.journal, self.call, self._offered
        effect, pack = (offered.tool.effect, offered.pack) if offered else (None, None)
        await journal.record(Called(*journal.head(), journal.step, call.id, call.name, self._shown, effect, pack))

    # -- ready: the body

    async def run(self) -> None:
        """Run the body inside the packs' wrappers; afterwards it has ended, or needs somebody."""
        try:
            await self._run_body()
        except BaseException as error:
            self._stopped_by(error)

    async def _run_body(self) -> None:
        env, offered = self._env, self._offered
        assert offered is not None  # noqa: S101  # what is ready was found
        tool, arguments = offered.tool, self._arguments
        self._arguments = {}  # the body may change them; a second attempt reads them anew
        if self._taken_up is not None and self._taken_up.waits is not None:
            tool, arguments = _taking_up(tool, self._taken_up.waits.job)
        if tool.takes_context:
            arguments["ctx"] = make_context(
                env,
                offered.pack,
                self._signal,
                self._extras,
                touches=self._touches,
                may_touch=self._may_touch,
                conclude=self._conclude,
                approved=self._approved,
                answer=self._answer,
                by_program=self._by_program,
            )
        unlink = env.signal.on_cancel(lambda: self._signal.cancel(env.signal.cause or "cancelled"))
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
            self._of_body, self.concludes = None, False
            self._extras.drop()
            self._become("needs")
        else:
            self._end(outcome if outcome is self._of_body else recheck(offered.tool, outcome))

    async def _left_behind(self) -> None:
        """Await a body that its wrappers did not wait for: it is told to stop, and has its grace (rule 9)."""
        if self._body_ended is not None and not self._body_ended.is_set():
            self._signal.cancel("a pack around it did not wait")
            await self._body_ended.wait()

    async def _around(self, tool: Tool, arguments: dict[str, Any]) -> Outcome:
        """Run the body inside the packs' wrappers; it runs once, whatever these do."""
        env = self._env
        if not env.dispatcher.plan("wrap_tool_call", env.scope):
            return await self._bare_body(tool, arguments)

        async def body(_running: ToolRun) -> Outcome:
            if self._of_body is not None:
                return failed(TOOL_FAILED, "a pack asked for the body a second time; it runs once")
            self._body_ended = asyncio.Event()
            try:
                return await self._bare_body(tool, arguments, wrapped=True)
            finally:
                self._body_ended.set()

        with deadline_after_cancel(env.signal):
            outcome: Outcome = await env.dispatcher.around(
                "wrap_tool_call", env.scope, body, self._as_seen(), wanted=Outcome
            )
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
        interrupt = self._signal.cancel if wrapped else self._env.signal.cancel
        ended = await run_body(tool, arguments, self._signal, interrupt, uncancel=not wrapped)
        current_pack.reset(token)
        self._ms = (time.perf_counter() - began) * 1000
        if isinstance(ended.error, NeedsPerson | WaitsForSessions) and not ended.told_to_stop:
            self._needed = ended.error
            raise _Needs
        self._of_body = outcome_of(tool, ended, self._signal)
        if wrapped and (task := asyncio.current_task()) and task.cancelling():
            raise asyncio.CancelledError
        return self._of_body

    def _conclude(self) -> None:
        self.concludes = True

    async def _may_touch(self, paths: Iterable[str]) -> Mapping[str, str]:
        """Ask the guards for each path that the body found; returns those that it must leave alone, and why."""
        env, call, offered = self._env, self.call, self._offered
        assert offered is not None  # noqa: S101  # its body runs
        plan = env.dispatcher.plan("guard_tool_call", env.scope)
        refused: dict[str, str] = {}
        real = RealPaths(env.directory)
        for place, path in enumerate(paths if plan else (), 1):
            touches = (Touch.path(real.of(path)),)
            asked = GuardedCall(
                env.agent, "dispatch", call.id, call.name, offered.tool, offered.pack, self._shown or {}, touches
            )
            for pack, verdict in await ask_all(plan, asked):
                if not (isinstance(verdict, Ask) and env.allow_writes and not verdict.person):
                    refused[path] = f"{pack or 'this program'}: {verdict.reason}"
                    break
            if place % 256 == 0:
                await asyncio.sleep(0)  # others have their turn
        return refused

    # -- needs: somebody else

    async def answer_needs(self) -> None:
        """Get what the body needs; afterwards it is ready to be called again, waits, or has ended."""
        needed, self._needed = self._needed, None
        assert needed is not None  # noqa: S101  # so says the state
        try:
            if isinstance(needed, WaitsForSessions):
                await self._wait_for_sessions(needed)
            else:
                await self._ask_person(needed)
        except BaseException as error:
            self._stopped_by(error)

    async def _wait_for_sessions(self, needed: WaitsForSessions) -> None:
        env, offered, name = self._env, self._offered, self.call.name
        if offered is None or env.signal.cancelled:
            raise _Stopped(ABORTED_CALL)
        if offered.tool.resume is None:
            raise _Stopped(failed(TOOL_FAILED, f"`{name}` waits for others and could not be taken up"))
        if env.on_ask != "pause":
            raise _Stopped(failed(UNANSWERED, f"`{name}` waits for a person, whom nobody can ask here"))
        event = Waits(*env.journal.head(), call=self.call.id, job=needed.job, sessions=needed.sessions)
        await env.journal.record(event)
        self._delegated = True
        raise Suspended

    async def _ask_person(self, needed: NeedsPerson) -> None:
        env, offered, call = self._env, self._offered, self.call
        if offered is None or env.signal.cancelled:
            raise _Stopped(ABORTED_CALL)
        again = self._approved if isinstance(needed, NeedsApproval) else self._answer is not None
        if again:
            raise _Stopped(failed(TOOL_FAILED, f"`{call.name}` asks again for what it was given"))
        kind: Literal["permission", "question"] = "question" if isinstance(needed, NeedsAnswer) else "permission"
        options = needed.options if isinstance(needed, NeedsAnswer) else ()
        answer = await self._gate.ask_for_body(self._guarded(offered, "dispatch"), kind, str(needed), options)
        if answer is None and kind == "question":
            raise _Stopped(failed(UNANSWERED, "nobody can be asked here; go on without, and say what you assumed"))
        if answer is None:
            raise self._refused(Refusal(offered.pack, f"{needed}; a person must answer and {self._gate.silence}"))
        if answer.approved is False or (kind == "permission" and not answer.approved):
            raise self._said_no(kind, offered.pack, answer.text)
        if kind == "permission":
            self._approved = True
        else:
            self._answer = answer.text
        await self._pass_guards(offered, "dispatch", self._touches)  # a person may take long
        self._arguments = offered.tool.arguments.parse(call.arguments)
        self._become("ready")

    # -- ended: the result

    async def finish(self) -> Returned | None:
        """Show the result to the packs, and return it as it would be recorded; None while it waits for a person."""
        if self.state == "waits":
            return None
        self.stopped()
        await self._announce()
        env, outcome = self._env, self._ended
        if env.dispatcher.plan("tool_post_execute", env.scope):
            outcome = await shown_to_packs(env, self._as_seen(), outcome, self._extras)
        if self._offered is not None and self._of_body is not None:
            outcome = finalized(self._offered.tool, outcome)
        outcome = self._extras.after(kept_honest(outcome, self._ended, self._of_body))
        return self._returned(outcome)

    def _returned(self, outcome: Outcome) -> Returned:
        journal, call, refusals = self._env.journal, self.call, self._refusals
        return Returned(
            *journal.head(),
            journal.step,
            call.id,
            call.name,
            outcome.status,
            outcome.code,
            outcome.summary,
            outcome.content,
            refusals[0].pack if refusals else None,
            self._ms,
            concludes=self.concludes,
            refusals=tuple(freeze({"pack": one.pack, "reason": one.reason}) for one in refusals) if refusals else (),
        )

    def _as_seen(self) -> ToolRun:
        env, call, offered = self._env, self.call, self._offered
        return ToolRun(
            env.agent,
            env.journal.run,
            call.id,
            call.name,
            offered.tool if offered else None,
            offered.pack if offered else None,
            self._shown or {},
            self._touches,
            self._signal,
            self._extras.adder(OF_WRAPPERS),
        )


def _taking_up(tool: Tool, job: str) -> tuple[Tool, dict[str, Any]]:
    """Return what is called in place of a body that waited for other sessions."""
    if tool.resume is None:
        raise _Stopped(failed(TOOL_FAILED, f"`{tool.name}` can't be taken up again; its work is in job {job}"))
    is_async = inspect.iscoroutinefunction(tool.resume)
    return replace(tool, body=tool.resume, is_async=is_async, inline=False, takes_context=True), {"job": job}


def as_call(taken_up: OpenCall) -> ToolCall:
    """Return a call as an earlier run recorded it."""
    return ToolCall(taken_up.id, taken_up.name, json.dumps(thaw(taken_up.arguments)))
