"""The effective view: what of a session's entries counts now. A pure function; corrections are entries themselves.

- A message counts until a later `message/retracted` or `message/revised` note names its entry; the newest of these
  notes decides, so a revision after a retraction brings a message back.
- A call counts when its result follows, and of several results the last; both only while the reply that asked for them
  is not retracted. Models use the ids of calls again: what counts is the next fact of the same id.
- Anchors always count; events do if they say something.
"""

from collections.abc import Iterable, Mapping, Sequence

from pegboard import Entry
from pegboard.events import Called, Replied, Returned

from pegboard_tape.facts import RETRACTED, corrected, fact_of


def effective(entries: Iterable[Entry], *, pending: bool = False) -> tuple[Entry, ...]:
    """Return the entries that count, in order; with `pending` also calls that have no result yet."""
    rows = sorted(entries, key=lambda entry: entry.id)
    corrections = {target: entry for entry in rows if (target := corrected(entry.event)) is not None}
    settled = _settled(rows, pending)
    return tuple(entry for entry in _without_retracted(rows, corrections) if _counts(entry, corrections, settled))


def _settled(rows: Sequence[Entry], pending: bool) -> set[int]:
    """Return the entries of calls and results that the next fact of the same call leaves standing."""
    found: set[int] = set()
    has_result: dict[str, bool] = {}  # whether the next fact of a call is a result
    for entry in reversed(rows):
        match entry.event:
            case Called(id=call):
                if has_result.get(call, False) or (pending and call not in has_result):
                    found.add(entry.id)
                has_result[call] = False
            case Returned(id=call):
                if not has_result.get(call, False):
                    found.add(entry.id)
                has_result[call] = True
    return found


def _without_retracted(rows: Iterable[Entry], corrections: Mapping[int, Entry]) -> Iterable[Entry]:
    """Yield all but the calls and results of retracted replies."""
    owners: dict[str, int] = {}
    for entry in rows:
        event = entry.event
        if isinstance(event, Replied):
            owners.update((call.id, entry.id) for call in event.calls)
        if isinstance(event, Called | Returned):
            correction = corrections.get(owners.get(event.id, 0))
            if correction is not None and getattr(correction.event, "name", "") == RETRACTED:
                continue
        yield entry


def _counts(entry: Entry, corrections: Mapping[int, Entry], settled: set[int]) -> bool:
    if isinstance(entry.event, Called | Returned):
        return entry.id in settled
    fact = fact_of(entry.event)
    if (target := corrected(entry.event)) is not None:
        return corrections[target] is entry and bool(fact.text)
    return entry.id not in corrections if fact.kind == "message" else bool(fact.text)
