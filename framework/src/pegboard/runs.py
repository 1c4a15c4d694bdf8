"""A run's life: from claiming an input to its one end record on every path, and the record in between."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from pegboard.agents import Agent
from pegboard.cancel import CancelSignal
from pegboard.dispatch import Dispatcher, HookFailure, describe
from pegboard.errors import PegboardError
from pegboard.events import Called, EndReason, Event, Returned, RunEnd, RunStart
from pegboard.guarding import Gate
from pegboard.messages import ToolCall, ToolResult, Usage
from pegboard.pipeline import (
    INDETERMINATE,
    LIMIT,
    Announced,
    CallRoom,
    Settled,
    aborted_before_dispatch,
    execute,
    failed,
)
from pegboard.sessions import Recorder
from pegboard.snapshot import Snapshot


class RunOver(Exception):
    """Leaves the loop from wherever it is, with the reason and the text of the end record."""

    def __init__(self, reason: EndReason, text: str) -> None:
        self.reason: EndReason = reason
        self.text = text
        super().__init__(text)


Drive = Callable[["Run"], Coroutine[Any, Any, str]]


class Run:
    """A run under way. `wait()` gives its end; `cancel()` asks it to stop, and it still ends with a record.

    `listener_error` is what a listener raised first, which stops the run; `stuck` tells that a body did not end.
    """

    def __init__(
        self,
        agent: Agent,
        dispatcher: Dispatcher,
        recorder: Recorder,
        snapshot: Snapshot,
        gate: Gate,
        allow_writes: bool,
    ) -> None:
        agent.session.runs += 1
        self.number = agent.session.runs
        self.agent = agent
        self.snapshot = snapshot
        self.signal = CancelSignal()
        self.listener_error: Exception | None = None
        self.stuck: str | None = None
        self.dispatcher = dispatcher
        self._recorder = recorder
        self._room = CallRoom(agent, snapshot, gate, self.signal, allow_writes, self._announce)
        self.usage = Usage()
        self.step = self._calls = self._denied = 0
        self._out_of_time = False
        self._interruptible = False
        self._task: asyncio.Task[RunEnd] | None = None

    # -- from outside

    def start(self, drive: Drive, said: str) -> "asyncio.Task[RunEnd]":
        """Begin, in a task of its own. `drive` is what the run does and returns the text of its end."""
        self._task = asyncio.get_running_loop().create_task(self._live(drive, said))
        return self._task

    async def wait(self) -> RunEnd:
        """Wait for the end. Being cancelled here cancels the run, awaits its end, and is then raised."""
        if self._task is None:
            raise RuntimeError("the run was not started")
        cancelled: asyncio.CancelledError | None = None
        while not self._task.done():
            try:
                await asyncio.wait({self._task})
            except asyncio.CancelledError as error:
                cancelled = error
                self.cancel("the caller was cancelled")
        if cancelled is not None:
            raise cancelled
        return self._task.result()

    def cancel(self, cause: str) -> None:
        """Ask the run to stop, for a cause; the first one counts.

        A model call is interrupted, a tool body is told and awaited.
        """
        self.signal.cancel(cause)
        if self._task is not None and self._interruptible and asyncio.current_task() is not self._task:
            self._task.cancel()

    # -- the life of a run

    async def _live(self, drive: Drive, said: str) -> RunEnd:
        began = time.perf_counter()
        limit = self.agent.definition.limits.seconds
        timer = asyncio.get_running_loop().call_later(limit, self._time_is_up)
        model = self.agent.model
        self.record(
            RunStart(
                *self.head(),
                agent=self.agent.name,
                model=self.agent.definition.model if model else "",
                label=model.label if model else "no model",
                directory=str(self.agent.session.directory),
                tools=tuple(tool.name for tool in self.snapshot.tools),
                packs=self.snapshot.packs,
                hash=self.snapshot.hash,
                input=said,
            )
        )
        reason, text = await self._end_of(drive)
        timer.cancel()
        end = RunEnd(
            *self.head(),
            reason=reason,
            text=text,
            usage=self.usage,
            steps=self.step,
            calls=self._calls,
            denied=self._denied,
            ms=(time.perf_counter() - began) * 1000,
        )
        self.record(end)
        return end

    async def _end_of(self, drive: Drive) -> tuple[EndReason, str]:
        """Do what the run does; whatever happens becomes a reason and a text."""
        try:
            self.check()
            self._interruptible = True
            text = await drive(self)
            self.check()
            return "completed", text
        except RunOver as over:
            return over.reason, over.text
        except asyncio.CancelledError:
            self.signal.cancel("the run was cancelled")
            if self._task is not None:
                self._task.uncancel()
            return self._cancelled()
        except (PegboardError, HookFailure) as error:
            return "error", str(error)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return "error", f"an error in Pegboard itself: {describe(error)} (--debug shows where)"
        finally:
            self._interruptible = False

    def check(self) -> None:
        """Leave the run if it was cancelled, a body of it did not end, or its calls are used up.

        Raises:
            RunOver: with the reason.
        """
        if self.stuck is not None:
            raise RunOver("error", self.stuck)
        if self.signal.cancelled:
            raise RunOver(*self._cancelled())
        if self._calls > (limit := self.agent.definition.limits.tool_calls):
            raise RunOver("limit", f"the run was stopped after {limit} tool calls")

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

    async def call(self, call: ToolCall) -> ToolResult:
        """Run one call and commit its result; over the limit or after a cancel it gets one without running."""
        self._calls += 1
        limit = self.agent.definition.limits.tool_calls
        self._interruptible = False
        if self.stuck is not None or self.signal.cancelled:
            settled = aborted_before_dispatch(call)
            self._announce(Announced(call))
        elif self._calls > limit:
            settled = failed(call, LIMIT, f"the run's limit of {limit} tool calls is reached")
            self._announce(Announced(call))
        else:
            settled = await execute(call, self._room)
        self._interruptible = True
        self._commit(settled)
        if settled.result.code == INDETERMINATE:
            self.stuck = settled.result.content
        return settled.result

    # -- the record

    def head(self) -> tuple[str, int, float]:
        return self.agent.session.id, self.number, time.time()

    def record(self, event: Event) -> None:
        self._heed(self._recorder.record(self.agent.session, event))

    def show(self, event: Event) -> None:
        self._heed(self._recorder.show(event))

    def _heed(self, error: Exception | None) -> None:
        if error is not None and self.listener_error is None:
            self.listener_error = error
            self.cancel("what watches the run failed")

    def _announce(self, announced: Announced) -> None:
        call, offered = announced.call, announced.offered
        self.record(
            Called(
                *self.head(),
                step=self.step,
                id=call.id,
                name=call.name,
                arguments=announced.arguments,
                effect=offered.tool.effect if offered else None,
                pack=offered.pack if offered else None,
            )
        )

    def _commit(self, settled: Settled) -> None:
        result = settled.result
        self._denied += result.status == "denied"
        self.agent.session.messages.append(result)
        self.record(
            Returned(
                *self.head(),
                step=self.step,
                id=result.call_id,
                name=result.name,
                status=result.status,
                code=result.code,
                summary=result.summary,
                content=result.content,
                pack=settled.refused_by,
                ms=settled.ms,
            )
        )
