"""The tool calls of one reply: started in the model's order, parallel bodies beside each other, committed in order."""

import asyncio
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pegboard.calls.body import absorb_cancel
from pegboard.calls.call import PendingCall, as_call
from pegboard.calls.environment import CallEnv
from pegboard.calls.output_budget import OVERHEAD, OutputBudget, cut
from pegboard.calls.results import failed
from pegboard.record.folds import result_of
from pegboard.record.paused_turn import BatchRecord, OpenCall
from pegboard.values.codes import INDETERMINATE, INVALID_CALL
from pegboard.values.events import Returned
from pegboard.values.messages import ToolCall, ToolResult
from pegboard.values.outcomes import Outcome

NO_ID: Final = "the call had no id, or the id of another call of this reply, so it was not run; send it again"


def identified(calls: Sequence[ToolCall], prefix: str) -> tuple[tuple[ToolCall, ...], frozenset[str]]:
    """Give an id of its own to every call without one; returns the calls, and the ids that were given (B28)."""
    taken = {call.id for call in calls}
    if len(taken) == len(calls) and "" not in taken:
        return tuple(calls), frozenset()
    kept: list[ToolCall] = []
    given: set[str] = set()
    for place, call in enumerate(calls, 1):
        if not call.id or any(call.id == earlier.id for earlier in kept):
            identity = f"{prefix}-{place}"
            while identity in taken:
                identity += "-"
            given.add(identity)
            call = replace(call, id=identity)
        kept.append(call)
    return tuple(kept), frozenset(given)


@dataclass(slots=True)
class _UnderWay:
    """A call that was let in, and the task that its body runs in if it has one."""

    call: PendingCall
    task: "asyncio.Task[None] | None" = None

    @property
    def done(self) -> bool:
        return self.task is None or self.task.done()


class Batch:
    """The calls of one reply on their way. `results` are those that are committed, in call order.

    `waiting` are the calls that wait for a person, `conclusion` the content of a success that ends the run,
    `never_ended` what is to be said of a body that did not end: then the run can't go on.
    """

    def __init__(self, env: CallEnv, calls: Sequence[PendingCall], before: BatchRecord | None = None) -> None:
        self.results: list[ToolResult] = []
        self.waiting: list[PendingCall] = []
        self.conclusion: str | None = before.conclusion if before else None
        self.never_ended: str | None = None
        self._env = env
        self._calls = calls
        self._under_way: deque[_UnderWay] = deque()
        spent = sum(len(result.content) + OVERHEAD for result in before.done) if before else 0
        self._budget = OutputBudget(env.batch_chars - spent, len(calls), env.journal.keep)

    @classmethod
    def by_program(cls, env: CallEnv, call: ToolCall) -> "Batch":
        """One call that no model made."""
        return cls(env, [PendingCall(env, call, by_program=True)])

    @classmethod
    def of(cls, env: CallEnv, calls: Sequence[ToolCall], given: Collection[str] = ()) -> "Batch":
        """The calls of a reply; those whose id was `given` to them are refused."""
        pending = [PendingCall(env, call) for call in calls]
        for one in pending if given else ():
            if one.call.id in given:
                one.refuse(failed(INVALID_CALL, NO_ID))
        return cls(env, pending)

    @classmethod
    def rejected(cls, env: CallEnv, calls: Iterable[ToolCall], outcome: Outcome) -> "Batch":
        """A batch of which nothing runs."""
        pending = [PendingCall(env, call) for call in calls]
        for one in pending:
            one.refuse(outcome)
        return cls(env, pending)

    @classmethod
    def taken_up(cls, env: CallEnv, calls: Sequence[OpenCall], before: BatchRecord | None) -> "Batch":
        """The calls that waited; `before` is what is committed of the same reply."""
        return cls(env, [PendingCall(env, as_call(call), call) for call in calls], before)

    async def run(self) -> None:
        """Take every call to its result, or to where it waits; what was started is awaited, whatever happens."""
        try:
            for place, call in enumerate(self._calls):
                await self._start(call, beside=self._is_parallel(place + 1))
            while self._under_way:
                await self._commit_first()
            if self.waiting and self._is_ending:
                await self._give_up()
        except BaseException:
            self._env.signal.cancel("the run has failed")
            while running := self._running():
                await self._wait(running)
            raise

    @property
    def _is_ending(self) -> bool:
        """Whether no call may begin any more."""
        return self._env.signal.cancelled or self.never_ended is not None

    def _is_parallel(self, place: int) -> bool:
        return place < len(self._calls) and self._calls[place].parallel

    async def _start(self, call: PendingCall, *, beside: bool) -> None:
        """Let a call in when its turn has come, and start its body; `beside`: the next one may run beside it."""
        if self._under_way:
            await self._await_turn(call)
        if self._is_ending and call.state == "new":
            call.abort()
        await call.check()
        one = _UnderWay(call)
        self._under_way.append(one)
        if call.is_ready:
            if call.parallel and (beside or len(self._under_way) > 1):
                one.task = asyncio.create_task(call.run())
            else:
                await call.run()
        await self._commit_done()

    async def _await_turn(self, call: PendingCall) -> None:
        if call.parallel:
            await self._make_room()
        else:
            while self._under_way:
                await self._commit_first()
        await self._commit_done()

    async def _commit_done(self) -> None:
        while self._under_way and self._under_way[0].done:
            await self._commit_first()

    async def _make_room(self) -> None:
        """Wait until one more body may run beside the others."""
        while len(running := self._running()) >= self._env.parallel:
            await self._wait(running)

    def _running(self) -> "list[asyncio.Task[None]]":
        return [one.task for one in self._under_way if one.task and not one.done]

    async def _wait(self, tasks: "Sequence[asyncio.Task[None]]") -> None:
        """Wait for one of the bodies to end; being cancelled meanwhile tells all of them."""
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError as error:
            absorb_cancel(error, self._env.signal)

    async def _commit_first(self) -> None:
        """Wait for the body of the first call under way, and commit its result."""
        one = self._under_way[0]
        while one.task is not None and not one.task.done():
            await self._wait([one.task])
        self._under_way.popleft()
        call = one.call
        if one.task is not None and one.task.cancelled():
            call.stopped()
        elif one.task is not None:
            one.task.result()
        while call.state == "needs":
            await call.answer_needs()
            if call.is_ready:
                await self._make_room()
                await call.run()
        returned = await call.finish()
        if returned is None:
            self.waiting.append(call)
        else:
            await self._commit(returned)

    async def _give_up(self) -> None:
        """Give a result to those that wait for a person: the run ends otherwise, so they are never asked for again."""
        waiting, self.waiting = self.waiting, []
        for call in waiting:
            call.abort()
            if returned := await call.finish():
                await self._commit(returned)

    async def _commit(self, returned: Returned) -> None:
        """Filter a result, cut it to what a model may read, and record it."""
        journal = self._env.journal
        if journal.filters:
            returned = await journal.filtered(returned)
        if len(returned.content) > self._env.result_chars:
            returned = await cut(returned, self._env.result_chars, journal.keep)
        if not self._budget.takes(returned):
            returned = await self._budget.shorten(returned)
        await journal.record(returned, filtered=True)
        result = result_of(returned)
        self.results.append(result)
        if returned.concludes and result.status == "ok":
            self.conclusion = result.content
        if result.code == INDETERMINATE:
            self.never_ended = result.content
