"""A run's life: from claiming an input to its one end record on every path, and the record in between."""

import asyncio
import contextvars
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pegboard.agents.prompting import assemble_snapshot
from pegboard.base.cancel import CancelSignal
from pegboard.base.errors import PegboardError
from pegboard.base.frozen import freeze
from pegboard.base.isolation import being_cancelled, current_pack, describe
from pegboard.base.slotted import direct_init
from pegboard.base.text import count
from pegboard.calls.batch import Batch
from pegboard.calls.body import absorb_cancel
from pegboard.calls.environment import CallEnv
from pegboard.dispatch.dispatcher import HookFailure
from pegboard.record.journal import Journal, RecordLost
from pegboard.record.process_identity import this_driver
from pegboard.tools.snapshot import Snapshot
from pegboard.values.codes import LIMIT, TRUNCATED
from pegboard.values.events import Event, RunEnd, RunStart, SnapshotTaken
from pegboard.values.messages import EndReason, Usage, UserMessage
from pegboard.values.tool import OnAsk
from pegboard.values.verdicts import EndRun

if TYPE_CHECKING:
    from pegboard.agents.agent import Agent

DROPPED: Final = "the input was dropped"


@direct_init
@dataclass(frozen=True, slots=True)
class Step:
    """What `agent_pre_step` sees: the step about to begin and the messages that are new in it."""

    agent: "Agent"
    run: int
    number: int
    messages: tuple[UserMessage, ...]

    def may_enter(self, messages: object) -> bool:
        """Whether `Enter` may bring these messages: a tuple of UserMessages."""
        return isinstance(messages, tuple) and all(isinstance(message, UserMessage) for message in messages)

    def entering(self, messages: tuple[UserMessage, ...]) -> "Step":
        """Return the step with other new messages."""
        return replace(self, messages=messages)


RunScript = Callable[["Run"], Coroutine[Any, Any, str]]


class Run:
    """A run, queued or under way. `wait()` gives its end; `cancel()` asks it to stop, and it still ends with a record.

    One that ends `paused` waits for a person; the run that then goes on with it `resumes` its number. `number` is 0
    until it begins. `listener_error` is what a listener raised first, which stops the run; `body_never_ended` tells
    that a body did not end.
    """

    def __init__(
        self,
        agent: "Agent",
        drive: RunScript,
        said: str,
        *,
        allow_writes: bool = False,
        on_ask: OnAsk = "deny",
        asks_model: bool = True,
        resumes: int = 0,
    ) -> None:
        self.agent = agent
        self.said = said
        self.allow_writes = allow_writes
        self.on_ask: OnAsk = on_ask
        self.resumes = resumes
        self._asks_model = asks_model
        self.number = 0
        self.signal = CancelSignal()
        self.journal = Journal(agent.services.recorder, agent.session, agent.scope, agent.name, self._heed)
        self._env: CallEnv | None = None
        self.snapshot: Snapshot = agent.view().snapshot
        self.usage = Usage()
        self.listener_error: Exception | None = None
        self.body_never_ended: str | None = None
        self.task: asyncio.Future[RunEnd] = asyncio.get_running_loop().create_future()
        self._drive = drive
        self._calls = self._denied = 0
        self._out_of_time = self._interruptible = False
        self._taken_up = asyncio.Event()
        self._next: Run | None = None

    @property
    def step(self) -> int:
        """The step under way, or the last one; 0 before the first."""
        return self.journal.step

    # -- from outside

    def begin(self) -> "asyncio.Future[RunEnd]":
        """Begin, in a task of its own."""
        session = self.agent.session
        self.number = self.journal.run = session.runs = session.runs + 1
        self.journal.agent = self.agent.name  # another one if it was rebound meanwhile
        context = contextvars.copy_context()
        context.run(current_pack.set, "")  # what others do in it is not the doing of the pack that began it
        begun: asyncio.Task[RunEnd] = asyncio.get_running_loop().create_task(self._live(), context=context)
        waiters, self.task = self.task, begun
        begun.add_done_callback(lambda task: _pass_on(task, waiters))
        return begun

    def drop(self, cause: str) -> None:
        """Say that a queued run will never begin; whoever waits gets an end with run number 0."""
        if self.number == 0 and not self.task.done():
            self.signal.cancel(cause)
            end = RunEnd(self.agent.id, 0, time.time(), "aborted", f"{DROPPED}: {cause}", Usage(), 0, 0, 0, 0.0)
            self.task.set_result(end)

    async def wait(self) -> RunEnd:
        """Wait for the end. Being cancelled here cancels the run, awaits its end, and is then raised."""
        cancelled: asyncio.CancelledError | None = None
        while not (waited := self.task).done():
            try:
                await asyncio.wait({waited})
            except asyncio.CancelledError as error:
                cancelled = error
                self.cancel("the caller was cancelled")
        if cancelled is not None:
            raise cancelled
        return self.task.result()

    async def finish(self) -> RunEnd:
        """Wait for the end of the turn: that of this run, or of those that go on with it after its pauses."""
        run = self
        while (end := await run.wait()).reason == "paused":
            await run._taken_up.wait()
            if run._next is None:
                break
            run = run._next
        return end

    def taken_up_by(self, run: "Run | None") -> None:
        """Say which run goes on with this one, which has paused; None if none ever will."""
        self._next = run
        self._taken_up.set()

    def cancel(self, cause: str) -> None:
        """Ask the run to stop, for a cause; the first one counts. One that is queued is dropped.

        A model call is interrupted, a tool body is told and awaited.
        """
        if self.number == 0:
            self.agent.unqueue(self, cause)
            return
        self.signal.cancel(cause)
        interruptible = self._interruptible and not self.journal.writing
        if interruptible and isinstance(self.task, asyncio.Task) and asyncio.current_task() is not self.task:
            self.task.cancel()

    def progress(self, text: str) -> None:
        """Show a line to whoever watches, without recording it."""
        self.journal.progress(text)

    async def note(self, name: str, data: Mapping[str, Any]) -> None:
        """Record a pack's own fact with the session: JSON data under a name of the pack's."""
        await self.journal.note(name, data)

    # -- the life of a run

    async def _live(self) -> RunEnd:
        began = time.perf_counter()
        timer = asyncio.get_running_loop().call_later(self.agent.definition.limits.seconds, self._time_is_up)
        failure: BaseException | None = None
        try:
            await self.prepare()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            failure = error
            if isinstance(error, asyncio.CancelledError) and being_cancelled(error):
                absorb_cancel(error, self.signal)
                failure = None
        reason, text = await self._end_of(failure)
        timer.cancel()
        end = RunEnd(
            *self.journal.head(),
            reason=reason,
            text=text,
            usage=self.usage,
            steps=self.step,
            calls=self._calls,
            denied=self._denied,
            ms=(time.perf_counter() - began) * 1000,
        )
        try:
            (recorded,) = await self.journal.record(end)
        except RecordLost as lost:
            recorded = replace(end, reason="error", text=str(lost))
            self.agent.services.recorder.show(recorded, self.agent.session.last)
        return recorded if isinstance(recorded, RunEnd) else end

    async def prepare(self) -> Snapshot:
        """Let the packs connect and register, then fix what the run may see and execute; returns that.

        Raises:
            HookFailure: a pack failed while the prompt was assembled.
        """
        await self._start_packs()
        if not self.signal.cancelled:
            self._interruptible = True
            try:
                self.snapshot = await assemble_snapshot(self.agent, self.said)
            finally:
                self._interruptible = False
        return self.snapshot

    async def _give_up(self, failure: BaseException | None) -> None:
        """End a run that failed to start. If it resumes a paused turn, each open call gets an aborted result first.

        Raises:
            BaseException: the failure, or EndRun because the run was cancelled.
        """
        if self.resumes:
            self.signal.cancel("the run can't go on")
            with suppress(EndRun):
                await self._drive(self)
        if failure is not None:
            raise failure
        self.check()

    async def _record_start(self) -> EndRun | None:
        """Record what begins; returns why it can't go on, if its model can't be had."""
        agent, snapshot = self.agent, self.snapshot
        failure = ""
        try:
            model = agent.model() if self._asks_model else None
        except PegboardError as error:
            model, failure = None, str(error)
        start = RunStart(
            *self.journal.head(),
            agent=agent.name,
            model=agent.definition.model if model else "",
            label=model.label if model else "no model",
            directory=str(agent.session.directory),
            tools=snapshot.names,
            packs=snapshot.packs,
            hash=snapshot.hash,
            input="" if self.resumes else self.said,
            driver=this_driver(),
            resumes=self.resumes,
        )
        events: list[Event] = [start]
        if agent.session.snapshot_hash != snapshot.hash:
            events.append(await self._taken(snapshot))
        await self.journal.record(*events)
        return EndRun("error", failure) if failure else None

    async def _taken(self, snapshot: Snapshot) -> SnapshotTaken:
        try:
            key = await self.agent.services.recorder.keep(snapshot.definitions)
        except Exception as lost:
            raise RecordLost(f"the session can't be recorded: {describe(lost)}") from lost
        return SnapshotTaken(*self.journal.head(), snapshot.hash, snapshot.prompt, freeze(snapshot.as_json()), key)

    async def _start_packs(self) -> None:
        """Let every pack connect and register, all at once, until the deadline; what goes on belongs to the agent."""
        services, agent = self.agent.services, self.agent
        started = services.dispatcher.begin("run_starting", self, agent.scope)
        for task, one in started.items():
            agent.tasks.adopt(task, "run_starting", one.pack)
        if not started:
            return
        cancelled = asyncio.ensure_future(self.signal.wait())
        try:
            everyone = asyncio.ensure_future(asyncio.wait(started.keys()))
            await asyncio.wait(
                {everyone, cancelled}, timeout=services.starting_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            everyone.cancel()
        finally:
            cancelled.cancel()

    async def _end_of(self, failure: BaseException | None) -> tuple[EndReason, str]:
        """Do what the run does; whatever happens becomes a reason and a text."""
        try:
            failure = await self._record_start() or failure
            if failure is not None or self.signal.cancelled:
                await self._give_up(failure)
            self._interruptible = True
            text = await self._drive(self)
            self.check()
            return "completed", text
        except EndRun as over:
            return over.reason, over.text
        except asyncio.CancelledError:
            self.signal.cancel("the run was cancelled")
            if isinstance(self.task, asyncio.Task):
                self.task.uncancel()
            return self._cancelled()
        except (PegboardError, HookFailure, RecordLost) as error:
            return "error", str(error)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return "error", f"an error in Pegboard itself: {describe(error)} (--debug shows where)"
        finally:
            self._interruptible = False

    def check(self) -> None:
        """Leave the run if it was cancelled, or a body of it did not end.

        Raises:
            EndRun: with the reason.
        """
        if self.body_never_ended is not None:
            raise EndRun("error", self.body_never_ended)
        if self.signal.cancelled:
            raise EndRun(*self._cancelled())

    def _cancelled(self) -> tuple[EndReason, str]:
        if self.listener_error is not None:
            return "error", f"what watches the run failed: {describe(self.listener_error)}"
        if self._out_of_time:
            return "limit", f"the run was stopped after {self.agent.definition.limits.seconds:g} s"
        return "aborted", self.signal.cause or "cancelled"

    def _time_is_up(self) -> None:
        self._out_of_time = not self.signal.cancelled
        self.cancel("the run's time is up")

    # -- what a run does

    @property
    def calls_env(self) -> CallEnv:
        """What its calls need of it; fixed with the snapshot."""
        if self._env is None or self._env.snapshot is not self.snapshot:
            agent, limits = self.agent, self.agent.definition.limits
            self._env = CallEnv(
                agent=agent,
                dispatcher=agent.services.dispatcher,
                scope=agent.scope,
                session=agent.id,
                directory=agent.session.directory,
                signal=self.signal,
                journal=self.journal,
                snapshot=self.snapshot,
                view=agent.view,
                questions=agent.services.questions,
                spawn=agent.services.spawn,
                allow_writes=self.allow_writes,
                on_ask=self.on_ask,
                parallel=limits.parallel,
                result_chars=limits.result_chars,
                batch_chars=limits.batch_chars,
            )
        return self._env

    async def settle(self, batch: Batch) -> None:
        """Take a batch of calls to its results.

        Raises:
            EndRun: a call of it waits for a person, the run was cancelled, or a body did not end.
            RecordLost: the record can't be kept.
        """
        self._interruptible = False
        try:
            await batch.run()
        finally:
            for result in batch.results:
                self._denied += result.status == "denied"
                self._calls += result.code not in (TRUNCATED, LIMIT)
        self.body_never_ended = batch.never_ended
        self._interruptible = True
        self.check()
        if batch.waiting:
            raise EndRun("paused", f"{count(len(batch.waiting), 'call')} waiting for a person")

    def _heed(self, error: Exception) -> None:
        """Stop because what watches the run failed."""
        if self.listener_error is None:
            self.listener_error = error
            self.cancel("what watches the run failed")


def _pass_on(task: "asyncio.Task[RunEnd]", waiters: "asyncio.Future[RunEnd]") -> None:
    """Wake those who began to wait before the run began."""
    if waiters.done():
        return
    if task.cancelled():
        waiters.cancel()
    elif error := task.exception():
        waiters.set_exception(error)
    else:
        waiters.set_result(task.result())
