"""One run: from claiming an input to its one end record, on every path."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from pegboard.agents import Agent
from pegboard.cancel import CancelSignal
from pegboard.dispatch import Dispatcher, HookFailure, describe
from pegboard.errors import ModelError, PegboardError
from pegboard.events import Called, EndReason, Returned, RunEnd, RunStart, StepEnd, StepStart, Text
from pegboard.guarding import Gate
from pegboard.messages import AssistantMessage, ToolCall, ToolResult, Transcript, Usage, UserMessage
from pegboard.models import Finish, ModelRequest, TextDelta
from pegboard.pipeline import INDETERMINATE, Announced, CallRoom, Settled, aborted_before_dispatch, execute, not_run
from pegboard.sessions import Recorder
from pegboard.snapshot import Snapshot
from pegboard.verdicts import Reject


@dataclass(frozen=True, slots=True)
class Step:
    """What `agent_pre_step` sees: the step about to begin and the messages that are new in it."""

    agent: Agent
    run: int
    number: int
    messages: tuple[UserMessage, ...]

    def entering(self, messages: tuple[UserMessage, ...]) -> "Step":
        """Return the step with other new messages.

        Raises:
            TypeError: something in `messages` is not a UserMessage.
        """
        if not all(isinstance(message, UserMessage) for message in messages):
            raise TypeError("Enter takes UserMessage values")
        return replace(self, messages=tuple(messages))


class RunOver(Exception):
    """Leaves the loop from wherever it is, with the reason and the text of the end record."""

    def __init__(self, reason: EndReason, text: str) -> None:
        self.reason: EndReason = reason
        self.text = text
        super().__init__(text)


class Run:
    """A run under way. `wait()` gives its end; `cancel()` asks it to stop, and it still ends with a record."""

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
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._room = CallRoom(agent, snapshot, gate, self.signal, allow_writes, self._announce)
        self._usage = Usage()
        self._step = self._calls = self._denied = 0
        self._out_of_time = False
        self._interruptible = False
        self._task: asyncio.Task[RunEnd] | None = None

    # -- from outside

    def start(self, drive: Callable[["Run"], Coroutine[Any, Any, str]], said: str) -> None:
        """Begin, in a task of its own. `drive` is what the run does and returns the text of its end."""
        self._task = asyncio.get_running_loop().create_task(self._live(drive, said))

    async def wait(self) -> RunEnd:
        """Wait for the end. Being cancelled here cancels the run, which is then awaited all the same."""
        if self._task is None:
            raise RuntimeError("the run was not started")
        while True:
            try:
                return await asyncio.shield(self._task)
            except asyncio.CancelledError:
                if self._task.cancelled():
                    raise
                self.cancel("the caller was cancelled")

    def cancel(self, cause: str) -> None:
        """Ask the run to stop, for a cause; the first one counts.

        A model call is interrupted, a tool body is told and awaited.
        """
        self.signal.cancel(cause)
        if self._task is not None and self._interruptible:
            self._task.cancel()

    # -- the life of a run

    async def _live(self, drive: Callable[["Run"], Coroutine[Any, Any, str]], said: str) -> RunEnd:
        began = time.perf_counter()
        limit = self.agent.definition.limits.seconds
        timer = asyncio.get_running_loop().call_later(limit, self._time_is_up)
        model = self.agent.model
        self._record(
            RunStart(
                *self._head(),
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
            *self._head(),
            reason=reason,
            text=text,
            usage=self._usage,
            steps=self._step,
            calls=self._calls,
            denied=self._denied,
            ms=(time.perf_counter() - began) * 1000,
        )
        self._record(end)
        return end

    async def _end_of(self, drive: Callable[["Run"], Coroutine[Any, Any, str]]) -> tuple[EndReason, str]:
        """Do what the run does; whatever happens becomes a reason and a text."""
        if self.signal.cancelled:
            return self._cancelled()
        try:
            self._interruptible = True
            return "completed", await drive(self)
        except RunOver as over:
            return over.reason, over.text
        except asyncio.CancelledError:
            return self._cancelled()
        except (PegboardError, HookFailure) as error:
            return "error", str(error)
        except Exception as error:
            return "error", f"an error in Pegboard itself: {describe(error)} (--debug shows where)"
        finally:
            self._interruptible = False

    def _cancelled(self) -> tuple[EndReason, str]:
        if self._out_of_time:
            return "limit", f"the run was stopped after {self.agent.definition.limits.seconds:g} s"
        return "aborted", self.signal.cause or "cancelled"

    def _time_is_up(self) -> None:
        self._out_of_time = True
        self.cancel("the run's time is up")

    # -- what a run does

    async def converse(self, text: str) -> str:
        """Ask the model, run its calls, and so on until it answers."""
        limits = self.agent.definition.limits
        messages: tuple[UserMessage, ...] = (UserMessage(text),)
        while self._step < limits.steps:
            self._step += 1
            step = await self._dispatcher.fold_step(Step(self.agent, self.number, self._step, messages))
            if isinstance(step, Reject):
                raise RunOver("blocked", step.reason)
            if not step.messages and self._step == 1:
                return ""
            self.agent.session.messages.extend(step.messages)
            messages = ()
            reply = await self._take_step()
            if not reply.calls:
                return reply.text
            if self.signal.cancelled:
                raise RunOver(*self._cancelled())
            if self._calls > limits.tool_calls:
                raise RunOver("limit", f"the run was stopped after {limits.tool_calls} tool calls")
        raise RunOver("limit", f"the run was stopped after {limits.steps} steps")

    async def _take_step(self) -> AssistantMessage:
        """One model request and its tool calls, between a step's start and its end record."""
        self._record(StepStart(*self._head(), self._step))
        before = self._usage
        try:
            reply = await self._ask_model()
            self.agent.session.messages.append(reply)
            for call in reply.calls:
                await self.call(call)
            return reply
        finally:
            self._record(StepEnd(*self._head(), self._step, self._usage - before))

    async def _ask_model(self) -> AssistantMessage:
        """Make one request and show its text as it comes.

        Raises:
            ModelError: from the model, or because its stream had no end.
        """
        model = self.agent.model
        if model is None:
            raise ModelError("this agent has no model", "route")
        request = ModelRequest(
            self.agent.definition.prompt, Transcript(self.agent.session.messages), self.snapshot.tools
        )
        text: list[str] = []
        calls: list[ToolCall] = []
        finish: Finish | None = None
        async with aclosing(model.stream(request)) as events:  # type: ignore[type-var]
            async for event in events:
                match event:
                    case TextDelta(delta):
                        text.append(delta)
                        self._recorder.show(Text(*self._head(), self._step, delta))
                    case ToolCall():
                        calls.append(event)
                    case Finish():
                        finish = event
        if finish is None:
            raise ModelError("the model's reply was cut off; run it again", "response")
        self._usage += finish.usage
        if finish.stop == "max-tokens":
            raise RunOver("max-tokens", "".join(text))
        return AssistantMessage("".join(text), tuple(calls))

    async def call(self, call: ToolCall) -> ToolResult:
        """Run one call and commit its result; over the limit or after a cancel it gets one without running."""
        self._calls += 1
        limit = self.agent.definition.limits.tool_calls
        self._interruptible = False
        if self.signal.cancelled:
            self._announce(Announced(call, None, None))
            settled = aborted_before_dispatch(call)
        elif self._calls > limit:
            self._announce(Announced(call, None, None))
            settled = not_run(call, "LIMIT", f"the run's limit of {limit} tool calls is reached")
        else:
            settled = await execute(call, self._room)
        self._interruptible = True
        self._commit(settled)
        if settled.result.code == INDETERMINATE:
            raise RunOver("error", settled.result.content)
        return settled.result

    # -- the record

    def _head(self) -> tuple[str, int, float]:
        return self.agent.session.id, self.number, time.time()

    def _record(self, event: RunStart | StepStart | StepEnd | Called | Returned | RunEnd) -> None:
        self._recorder.record(self.agent.session, event)

    def _announce(self, announced: Announced) -> None:
        call, offered = announced.call, announced.offered
        self._record(
            Called(
                *self._head(),
                step=self._step,
                id=call.id,
                name=call.name,
                arguments=dict(announced.arguments) if announced.arguments is not None else None,
                effect=offered.tool.effect if offered else None,
                pack=offered.pack if offered else None,
            )
        )

    def _commit(self, settled: Settled) -> None:
        result = settled.result
        self._denied += result.status == "denied"
        self.agent.session.messages.append(result)
        self._record(
            Returned(
                *self._head(),
                step=self._step,
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
