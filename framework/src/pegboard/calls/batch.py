"""The tool calls of one reply: started in the model's order, parallel bodies beside each other, committed in order."""

import asyncio
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pegboard.calls.body import absorb_cancel
from pegboard.calls.call import PendingCall, as_call
from pegboard.calls.output_budget import OVERHEAD, OutputBudget, cut
from pegboard.calls.repeats import CORRECTION, Repeats
from pegboard.calls.results import Settled, failed
from pegboard.record.folds import result_of
from pegboard.values.codes import INDETERMINATE, INVALID_CALL
from pegboard.values.events import Returned
from pegboard.values.messages import ToolCall, ToolResult

if TYPE_CHECKING:
    from pegboard.agents.run import Run
    from pegboard.record.paused_turn import BatchRecord, OpenCall
    from pegboard.values.outcomes import Outcome

_CORRECTION: Final = f"\n\n{CORRECTION}"
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

    `waiting` are the calls that wait for a person, `conclusion` the content of a success that ends the run, `verdict`
    what is to be thought of a batch that is like those before it.
    """

    def __init__(
        self, run: "Run", pending: Sequence[PendingCall], repeats: Repeats, before: "BatchRecord | None" = None
    ) -> None:
        self.results: list[ToolResult] = []
        self.waiting: list[PendingCall] = []
        self.conclusion: str | None = before.conclusion if before else None
        self.verdict = ""
        self._run = run
        self._calls = pending
        self._repeats = repeats
        self._before = before
        self._under_way: deque[_UnderWay] = deque()
        spent = sum(len(result.content) + OVERHEAD for result in before.done) if before else 0
        self._budget = OutputBudget(run.agent.definition.limits.batch_chars - spent, len(pending), run.keep)

    @classmethod
    def by_program(cls, run: "Run", call: ToolCall) -> "Batch":
        """One call that no model made."""
        return cls(run, [PendingCall(run, call, by_program=True)], Repeats())

    @classmethod
    def of(cls, run: "Run", calls: Sequence[ToolCall], repeats: Repeats, given: Collection[str] = ()) -> "Batch":
        """The calls of a reply; those whose id was `given` to them are refused."""
        pending = [PendingCall(run, call) for call in calls]
        if given:
            for call in pending:
                if call.call.id in given:
                    call.refuse(failed(INVALID_CALL, NO_ID))
        return cls(run, pending, repeats)

    @classmethod
    def rejected(cls, run: "Run", calls: Iterable[ToolCall], outcome: "Outcome") -> "Batch":
        """A batch of which nothing runs."""
        pending = [PendingCall(run, call) for call in calls]
        for call in pending:
            call.refuse(outcome)
        return cls(run, pending, Repeats())

    @classmethod
    def taken_up(
        cls, run: "Run", calls: "Sequence[OpenCall]", repeats: Repeats, before: "BatchRecord | None"
    ) -> "Batch":
        """The calls that waited; `before` is what is committed of the same reply."""
        return cls(run, [PendingCall(run, as_call(call), call) for call in calls], repeats, before)

    async def run(self) -> None:
        """Take every call to its result, or to where it waits; what was started is awaited, whatever happens."""
        try:
            for place, call in enumerate(self._calls):
                await self._start(call, beside=self._is_parallel(place + 1))
            while self._under_way:
                await self._commit_first()
            if self.waiting and (self._run.signal.cancelled or self._run.body_never_ended):
                await self._give_up()
        except BaseException:
            self._run.signal.cancel("the run has failed")
            while running := self._running():
                await self._wait(running)
            raise

    def _is_parallel(self, place: int) -> bool:
        return place < len(self._calls) and self._calls[place].parallel

    async def _start(self, call: PendingCall, *, beside: bool) -> None:
        """Let a call in when its turn has come, and start its body; `beside`: the next one may run beside it."""
        if call.parallel:
            await self._make_room()
        else:
            while self._under_way:
                await self._commit_first()
        await self._commit_done()
        if self._run.signal.cancelled or self._run.body_never_ended:
            call.abort()
        await call.check()
        one = _UnderWay(call)
        self._under_way.append(one)
        if call.ready:
            if call.parallel and (beside or len(self._under_way) > 1):
                one.task = asyncio.create_task(call.body())
            else:
                await call.body()
        await self._commit_done()

    async def _commit_done(self) -> None:
        while self._under_way and self._under_way[0].done:
            await self._commit_first()

    async def _make_room(self) -> None:
        """Wait until one more body may run beside the others."""
        while len(running := self._running()) >= self._run.agent.definition.limits.parallel:
            await self._wait(running)

    def _running(self) -> "list[asyncio.Task[None]]":
        return [one.task for one in self._under_way if one.task and not one.done]

    async def _wait(self, tasks: "Sequence[asyncio.Task[None]]") -> None:
        """Wait for one of the bodies to end; being cancelled meanwhile tells all of them."""
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError as error:
            absorb_cancel(error, self._run.signal)

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
        while call.needs is not None:
            await call.satisfy()
            if call.ready:
                await self._make_room()
                await call.body()
        settled = await call.settle()
        if settled is None:
            self.waiting.append(call)
        else:
            await self._commit(settled)

    async def _give_up(self) -> None:
        """Give a result to those that wait for a person: the run ends otherwise, so they are never asked for again."""
        waiting, self.waiting = self.waiting, []
        for call in waiting:
            call.abort()
            if settled := await call.settle():
                await self._commit(settled)

    async def _commit(self, settled: Settled) -> None:
        run = self._run
        most = run.agent.definition.limits.result_chars
        returned = await cut(run.returned(settled), most, run.keep, spare=len(_CORRECTION))
        returned = await self._budget.fit(returned)
        if len(self.results) + 1 == len(self._calls):
            returned = self._judged(returned)
        result = await run.commit(returned)
        self.results.append(result)
        if settled.concludes and result.status == "ok":
            self.conclusion = result.content.removesuffix(_CORRECTION)
        if result.code == INDETERMINATE:
            run.body_never_ended = result.content

    def _judged(self, last: Returned) -> Returned:
        """Compare the whole batch with those before it; the model reads of a repetition with the last result."""
        calls = self._before.calls if self._before else [call.call for call in self._calls]
        there = {result.call_id: result for result in (*self.results, result_of(last))}
        if self._before:
            there |= self._before.results
        results = [there[call.id] for call in calls if call.id in there]
        self.verdict = self._repeats.take(calls, results)
        corrected = last.content + _CORRECTION
        limit = self._run.agent.definition.limits.result_chars
        if self.verdict != "correct" or len(corrected) > limit or not self._budget.has(len(_CORRECTION)):
            return last
        return replace(last, content=corrected)
