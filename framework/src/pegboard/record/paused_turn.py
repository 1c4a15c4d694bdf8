"""What the newest turn of a session has come to: a run and those that went on with it after its pauses.

A pure fold of the session's entries, so that a process that starts anew goes on as the one before it would have.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pegboard.record.folds import InteractionRecord, result_of
from pegboard.values.entries import Entry
from pegboard.values.events import (
    Answered,
    Asked,
    Called,
    Event,
    Replied,
    Returned,
    RunEnd,
    RunStart,
    StepStart,
    Waits,
)
from pegboard.values.messages import ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call without a result: it waits for a person's answers, or for other sessions that do.

    `called`: its `tool_call` event exists; after a crash the body may or may not have run.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] | None
    step: int
    called: bool = False
    asked: tuple[InteractionRecord, ...] = ()
    waits: Waits | None = None

    @property
    def unanswered(self) -> Asked | None:
        """What is still asked about it."""
        return next((one.asked for one in self.asked if one.answer is None), None)

    @property
    def refused(self) -> tuple[Asked, str] | None:
        """What a person said no to, and why."""
        for one in self.asked:
            if one.answer is not None and not (one.answer.approved or _is_told(one)):
                return one.asked, one.answer.text
        return None

    @property
    def approved(self) -> tuple[str, ...]:
        """The hashes that a person said yes to."""
        return tuple(one.asked.hash for one in self.asked if _is_approved(one))

    @property
    def body_approved(self) -> bool:
        """Whether a person said yes to what the body itself asked."""
        return any(one.asked.stage == "body" for one in self.asked if _is_approved(one))

    @property
    def answer(self) -> str | None:
        """What a person answered to the body's question."""
        return next((one.answer.text for one in self.asked if one.answer and _is_told(one)), None)

    @property
    def hash(self) -> str:
        """The hash of what was asked about last; "" if nothing was."""
        return self.asked[-1].asked.hash if self.asked else ""


def _is_approved(one: InteractionRecord) -> bool:
    return one.asked.kind == "permission" and one.answer is not None and one.answer.approved is True


def _is_told(one: InteractionRecord) -> bool:
    return one.asked.kind == "question" and one.answer is not None and one.answer.approved is not False


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """The calls of one reply, with the results that there are so far, and the text of one that is to end the run."""

    step: int
    calls: tuple[ToolCall, ...]
    results: Mapping[str, ToolResult] = field(default_factory=dict)
    conclusion: str | None = None

    @property
    def done(self) -> tuple[ToolResult, ...]:
        """The results in the order of the calls."""
        return tuple(self.results[call.id] for call in self.calls if call.id in self.results)

    @property
    def cut_off(self) -> bool:
        """Whether nothing of it ran because the reply was cut off."""
        return any(result.code == "TRUNCATED" for result in self.results.values())


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """`run` is the turn's newest run, `route` its model's, `input` what the first one claimed, `step` the last step;
    `paused` whether it may go on.

    `open` are the calls that wait, in call order.
    """

    run: int
    agent: str
    route: str
    input: str
    step: int = 0
    paused: bool = False
    batches: tuple[BatchRecord, ...] = ()
    open: tuple[OpenCall, ...] = ()

    @property
    def calls(self) -> int:
        """How many calls count for the limit: those that were given up because the reply was cut off do not."""
        return sum(len(batch.calls) for batch in self.batches if not batch.cut_off)

    @property
    def cut_off(self) -> bool:
        """Whether a reply with calls was cut off in this turn."""
        return any(batch.cut_off for batch in self.batches)


def last_turn(entries: Iterable[Entry]) -> TurnRecord | None:
    """Return the newest turn, or None if the session has had no run."""
    turn: _TurnSoFar | None = None
    for entry in entries:
        event = entry.event
        if isinstance(event, RunStart):
            if turn is None or event.resumes != turn.run:
                turn = _TurnSoFar(event)
            turn.begin(event)
        elif turn is not None:
            turn.take(event)
    return turn.record() if turn else None


class _TurnSoFar:
    """A turn while its entries are read."""

    def __init__(self, start: RunStart) -> None:
        self.run = start.run
        self._input = start.input
        self._agent = self._route = ""
        self._step = 0
        self._paused = False
        self._batches: list[BatchRecord] = []
        self._results: dict[str, ToolResult] = {}  # of the last reply, whose calls are wanted
        self._wanted: set[str] = set()
        self._open: dict[str, OpenCall] = {}

    def begin(self, start: RunStart) -> None:
        """Take the start of the first run, or of one that goes on after a pause."""
        self.run, self._agent, self._paused = start.run, start.agent, False
        self._route = start.model or self._route

    def record(self) -> TurnRecord:
        return TurnRecord(
            self.run,
            self._agent,
            self._route,
            self._input,
            self._step,
            self._paused,
            tuple(self._batches),
            tuple(self._open.values()),
        )

    def take(self, event: Event) -> None:
        match event:
            case StepStart():
                self._step = event.step
            case Replied(calls=calls) if calls:
                self._results = {}
                self._wanted = {call.id for call in calls}
                self._batches.append(BatchRecord(event.step, calls, self._results))
                self._open = {}
            case Called():
                opened = OpenCall(event.id, event.name, event.arguments, event.step)
                self._open[event.id] = replace(self._open.get(event.id, opened), called=True)
            case Asked():
                opened = OpenCall(event.call, event.tool, event.arguments, self._step)
                call = self._open.get(event.call, opened)
                self._open[event.call] = replace(call, asked=(*call.asked, InteractionRecord(event)))
            case Answered():
                self._open = {call.id: _answered(call, event) for call in self._open.values()}
            case Waits() if event.call in self._open:
                self._open[event.call] = replace(self._open[event.call], waits=event)
            case Returned():
                self._settle(event)
            case RunEnd():
                self._paused = event.reason == "paused"

    def _settle(self, event: Returned) -> None:
        self._open.pop(event.id, None)
        if event.id in self._wanted:
            self._results[event.id] = result_of(event)
            if event.concludes and event.status == "ok":
                self._batches[-1] = replace(self._batches[-1], conclusion=event.content)


def _answered(call: OpenCall, answer: Answered) -> OpenCall:
    """Put an answer to its question; of a second one nothing is kept."""
    asked = tuple(
        replace(one, answer=answer) if one.asked.id == answer.id and one.answer is None else one for one in call.asked
    )
    return replace(call, asked=asked)
