"""Going on with a session whose last process died: what it left open gets its ends (rule 10)."""

import time
from collections.abc import Iterator, Sequence

from pegboard.base.errors import UsageError
from pegboard.record.folds import RunRecord, runs
from pegboard.record.paused_turn import OpenCall, TurnRecord, last_turn
from pegboard.record.process_identity import is_gone
from pegboard.values.codes import ABORTED_BEFORE_DISPATCH, INDETERMINATE
from pegboard.values.entries import Entry
from pegboard.values.events import Called, Event, Returned, RunEnd, StepEnd
from pegboard.values.messages import Status, Usage

_DIED = "the process that ran this ended before it was done"


def missing_ends(session: str, entries: Sequence[Entry]) -> tuple[Event, ...]:
    """Return what has to be recorded so that every call has a result and every run an end.

    Raises:
        UsageError: a run is under way in a process that lives.
    """
    turn = last_turn(entries)
    run = runs(entries).get(turn.run) if turn else None
    if turn is None or run is None or run.reason is not None:
        return ()
    if not is_gone(run.driver):
        pid = run.driver.partition(" ")[0]
        raise UsageError(f"session {session} has run {run.number} under way in process {pid}; wait for its end")
    return tuple(_ends_of(session, run, turn))


def _ends_of(session: str, run: RunRecord, turn: TurnRecord) -> Iterator[Event]:
    head = (session, run.number, time.time())
    for call in _without_results(turn):
        if call.called:
            text = f"{_DIED}; whether `{call.name}` took effect is not known"
            ended: tuple[Status, str, str] = ("indeterminate", INDETERMINATE, "its process died")
        else:
            yield Called(*head, call.step, call.id, call.name, call.arguments, None, None)
            text, ended = "tool call aborted before dispatch", ("aborted", ABORTED_BEFORE_DISPATCH, "not started")
        yield Returned(*head, call.step, call.id, call.name, *ended, text, None, 0.0)
    for open_step in run.open_steps:
        yield StepEnd(*head, open_step, Usage())
    yield RunEnd(*head, "interrupted", _DIED, run.usage, run.steps, len(run.calls), 0, 0.0)


def _without_results(turn: TurnRecord) -> Iterator[OpenCall]:
    """Yield the calls that have no result: those of the last reply that were not even recorded, too."""
    there = {call.id: call for call in turn.open}
    if turn.batches:
        last = turn.batches[-1]
        for call in last.calls:
            if call.id not in last.results and call.id not in there:
                there[call.id] = OpenCall(call.id, call.name, None, last.step)
    yield from there.values()
