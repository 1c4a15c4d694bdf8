"""Going on with a session whose last process died: what it left open gets its ends (rule 10)."""

import time
from collections.abc import Iterator, Sequence

from pegboard.drivers import is_gone
from pegboard.entries import Entry
from pegboard.errors import UsageError
from pegboard.events import Called, Event, Replied, Returned, RunEnd, StepEnd
from pegboard.folds import RunRecord, runs
from pegboard.messages import Usage
from pegboard.pipeline import ABORTED_BEFORE_DISPATCH, INDETERMINATE

_DIED = "the process that ran this ended before it was done"


def missing_ends(session: str, entries: Sequence[Entry]) -> tuple[Event, ...]:
    """Return what has to be recorded so that every call has a result and every run an end.

    Raises:
        UsageError: a run is under way in a process that lives.
    """
    events: list[Event] = []
    for run in runs(entries).values():
        if run.reason is None:
            if not is_gone(run.driver):
                pid = run.driver.partition(" ")[0]
                raise UsageError(f"session {session} has run {run.number} under way in process {pid}; wait for its end")
            events.extend(_ends_of(session, run, entries))
    return tuple(events)


def _ends_of(session: str, run: RunRecord, entries: Sequence[Entry]) -> Iterator[Event]:
    head = (session, run.number, time.time())
    step = run.open_steps[-1] if run.open_steps else run.steps
    for call in run.open_calls:
        text = f"{_DIED}; whether `{call.name}` took effect is not known"
        yield Returned(
            *head, step, call.id, call.name, "indeterminate", INDETERMINATE, "its process died", text, None, 0.0
        )
    for name, identity in _never_called(run, entries):
        yield Called(*head, step, identity, name, None, None, None)
        text = "tool call aborted before dispatch"
        yield Returned(*head, step, identity, name, "aborted", ABORTED_BEFORE_DISPATCH, "not started", text, None, 0.0)
    for open_step in run.open_steps:
        yield StepEnd(*head, open_step, Usage())
    yield RunEnd(*head, "interrupted", _DIED, run.usage, run.steps, len(run.calls), 0, 0.0)


def _never_called(run: RunRecord, entries: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    """Yield (name, id) of the calls in the run's last reply that were not even recorded."""
    replies = [e.event for e in entries if isinstance(e.event, Replied) and e.event.run == run.number]
    if not replies:
        return
    recorded = [call.id for call in run.calls if call.step == replies[-1].step]
    for call in replies[-1].calls:
        if call.id in recorded:
            recorded.remove(call.id)
        else:
            yield call.name, call.id
