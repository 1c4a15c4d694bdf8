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

    `called`: it is recorded, so its body may have begun.
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
    turn: TurnRecord | None = None
    for entry in entries:
        event = entry.event
        if isinstance(event, RunStart):
            going_on = turn is not None and event.resumes == turn.run
            before = (
                turn if turn is not None and going_on else TurnRecord(event.run, event.agent, event.model, event.input)
            )
            turn = replace(before, run=event.run, agent=event.agent, route=event.model or before.route, paused=False)
        elif turn is not None:
            turn = _followed(turn, event)
    return turn


def _followed(turn: TurnRecord, event: Event) -> TurnRecord:
    match event:
        case StepStart():
            return replace(turn, step=event.step)
        case Replied(calls=calls) if calls:
            return replace(turn, batches=(*turn.batches, BatchRecord(event.step, calls)), open=())
        case Called():
            opened = OpenCall(event.id, event.name, event.arguments, event.step)
            return _with(turn, replace(_open(turn, event.id) or opened, called=True))
        case Asked():
            opened = OpenCall(event.call, event.tool, event.arguments, turn.step)
            call = _open(turn, event.call) or opened
            return _with(turn, replace(call, asked=(*call.asked, InteractionRecord(event))))
        case Answered():
            return replace(turn, open=tuple(_answered(call, event) for call in turn.open))
        case Waits():
            waiting = _open(turn, event.call)
            return _with(turn, replace(waiting, waits=event)) if waiting else turn
        case Returned():
            return _settled(turn, event)
        case RunEnd():
            return replace(turn, paused=event.reason == "paused")
    return turn


def _open(turn: TurnRecord, identity: str) -> OpenCall | None:
    return next((call for call in turn.open if call.id == identity), None)


def _with(turn: TurnRecord, changed: OpenCall) -> TurnRecord:
    if _open(turn, changed.id) is None:
        return replace(turn, open=(*turn.open, changed))
    return replace(turn, open=tuple(changed if call.id == changed.id else call for call in turn.open))


def _answered(call: OpenCall, answer: Answered) -> OpenCall:
    """Put an answer to its question; of a second one nothing is kept."""
    asked = tuple(
        replace(one, answer=answer) if one.asked.id == answer.id and one.answer is None else one for one in call.asked
    )
    return replace(call, asked=asked)


def _settled(turn: TurnRecord, event: Returned) -> TurnRecord:
    left = tuple(call for call in turn.open if call.id != event.id)
    *earlier, last = turn.batches or (BatchRecord(event.step, ()),)
    if all(call.id != event.id for call in last.calls):
        return replace(turn, open=left)
    results = {**last.results, event.id: result_of(event)}
    conclusion = event.content if event.concludes and event.status == "ok" else last.conclusion
    return replace(turn, open=left, batches=(*earlier, replace(last, results=results, conclusion=conclusion)))
