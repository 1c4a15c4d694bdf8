"""Anchors: where a session can be taken up from, with a summary of what lies before."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from pegboard import Entry, ToolError
from pegboard.events import Note, Replied, Said

from pegboard_tape.facts import RECONSTRUCTION, is_reconstruction_anchor

MANUAL: Final = "handoff/manual"
OVERFLOW: Final = "auto_handoff/context_overflow"
COMPACTION: Final = "compaction/auto"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A reconstruction anchor: `cursor` is the first entry that is kept whole, `summary` stands for those before."""

    entry: int
    name: str
    summary: str
    cursor: int


def checkpoint_of(entry: Entry) -> Checkpoint | None:
    """Return what an entry is as a checkpoint; None if it is none, or its data is not as it should be."""
    event = entry.event
    if not isinstance(event, Note) or not is_reconstruction_anchor(event):
        return None
    state = event.data.get("state")
    if not isinstance(state, Mapping):
        return None
    summary, cursor = state.get("summary"), state.get("cursorOrderSeq")
    if not isinstance(summary, str) or not summary.strip() or not _is_place(cursor):
        return None
    return Checkpoint(entry.id, event.name, summary, min(cursor, entry.id))


def last_checkpoint(entries: Iterable[Entry]) -> Checkpoint | None:
    """Return the newest checkpoint, from which the session is taken up (TPS 2.4)."""
    found: Checkpoint | None = None
    for entry in entries:
        found = checkpoint_of(entry) or found
    return found


def handoff_name(name: str) -> str:
    """Return the name of a handoff's anchor."""
    name = name.strip()
    if not name:
        return MANUAL
    return name if name.startswith(("handoff/", "auto_handoff/")) else f"handoff/{name}"


def handoff_data(state: Any, meta: Any, entries: Iterable[Entry]) -> dict[str, Any]:
    """Return the data of a handoff's anchor: the state with its cursor, its range and where it comes from.

    `entries` are those that count now. The order of a message is the id of its entry.

    Raises:
        ToolError: there is no summary.
    """
    summary = state.get("summary") if isinstance(state, Mapping) else None
    if not isinstance(summary, str) or not summary.strip():
        raise ToolError("Tape handoff requires a non-empty summary.")
    messages = [entry.id for entry in entries if isinstance(entry.event, Said | Replied)]
    given = state.get("cursorOrderSeq")
    cursor = given if _is_place(given) else max(messages, default=0) + 1
    before = [one for one in messages if one < cursor]
    sources = state.get("sourceMessageIds")
    good = isinstance(sources, list) and all(isinstance(one, int | str) for one in sources)
    return {
        "state": {
            **state,
            "summary": summary.strip(),
            "cursorOrderSeq": cursor,
            "range": {"fromOrderSeq": before[0], "toOrderSeq": before[-1]} if before else None,
            "sourceMessageIds": sources if good else before,
        },
        "meta": {**(meta if isinstance(meta, Mapping) else {}), "handoff": True},
    }


def cursor_of(connection: sqlite3.Connection, session: str) -> int:
    """Return the first entry that whoever takes a session up has to read; 1 if it was never summed up."""
    rows = connection.execute(
        "SELECT e.id, e.name, e.payload FROM session s CROSS JOIN entry e ON e.session = s.key "
        "WHERE s.id = ? AND e.kind = 'anchor' ORDER BY e.id DESC",
        (session,),
    )
    for identity, name, payload in rows:
        if name.startswith(RECONSTRUCTION):
            state = json.loads(payload).get("data", {}).get("state")
            cursor = state.get("cursorOrderSeq") if isinstance(state, dict) else None
            return min(cursor, identity) if _is_place(cursor) else 1
    return 1


def _is_place(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
