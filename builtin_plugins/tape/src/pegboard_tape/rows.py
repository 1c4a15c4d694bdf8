"""Entries as rows and back: what is written for one, in which order, and what of a row can be read."""

import json
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pegboard import Conflict, Entry, Event, PegboardError

from pegboard_tape.facts import Fact, fact_of
from pegboard_tape.words import clean, indexed
from pegboard_tape.writer import Refused

LARGEST: Final = 256 * 1024  # characters of JSON; what is larger is kept as a blob
_BLOB: Final = "blob"
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_INSERT: Final = (
    "INSERT INTO entry(session, id, kind, name, ref, ts, provenance, text, payload) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


@dataclass(frozen=True, slots=True)
class Row:
    """An entry that is ready to be written; `payload` is its JSON, or says where that is kept."""

    ts: float
    fact: Fact
    payload: str
    provenance: str | None = None

    @classmethod
    def of(cls, event: Event, provenance: str | None = None) -> "Row":
        """Return an event as a row.

        Raises:
            ValueError, TypeError: it holds something that is no JSON.
        """
        return cls(event.ts, fact_of(event), _json(event.as_json()), provenance)

    @property
    def is_large(self) -> bool:
        """Whether its JSON is to be kept as a blob."""
        return len(self.payload) > LARGEST

    def kept_as(self, key: str) -> "Row":
        """Return the row with the key of the blob that its JSON is kept as."""
        return replace(self, payload=json.dumps({_BLOB: key}))


def insert(connection: sqlite3.Connection, session: str, rows: Sequence[Row], expect: int | None) -> int:
    """Write rows after the last one of a session, with what the index needs; returns the id of the last.

    Raises:
        Refused: with a Conflict, if `expect` is not the id of the session's last entry.
    """
    key, last = _make_room(connection, session, len(rows), expect)
    for identity, row in enumerate(rows, last - len(rows) + 1):
        fact, text = row.fact, clean(row.fact.text)
        values = (key, identity, fact.kind, clean(fact.name), fact.ref and clean(fact.ref), row.ts, row.provenance)
        seq = connection.execute(_INSERT, (*values, text, row.payload)).lastrowid
        if text:
            told_of = (seq, indexed(text), tags(key, fact.kind))
            connection.execute("INSERT INTO word(rowid, text, tag) VALUES(?, ?, ?)", told_of)
    return last


def _make_room(connection: sqlite3.Connection, session: str, count: int, expect: int | None) -> tuple[int, int]:
    """Count rows that are about to be written; returns the session's key, and the id that the last of them has."""
    grown: tuple[int, int] | None = connection.execute(
        "UPDATE session SET last = last + ?1 WHERE id = ?2 AND last = coalesce(?3, last) RETURNING key, last",
        (count, session, expect),
    ).fetchone()
    if grown is not None:
        return grown
    found = connection.execute("SELECT last FROM session WHERE id = ?", (session,)).fetchone()
    if found or expect:
        there = found[0] if found else 0
        told = f"session {session} has {there} entries, not {expect}: it went on elsewhere; open it again"
        raise Refused(Conflict(told))
    if not count:
        return 0, 0
    begin = "INSERT INTO session(id, incarnation, last) VALUES(?, ?, ?) RETURNING key, last"
    begun: tuple[int, int] = connection.execute(begin, (session, uuid.uuid4().hex, count)).fetchone()
    return begun


def tags(session: Any, kind: str) -> str:
    """Return the words by which the index knows a row's session and kind."""
    return f"{session_tag(session)} {kind_tag(kind)}"


def session_tag(session: Any) -> str:
    """Return the word that stands in the index for a session's key."""
    return f"s{session}"


def kind_tag(kind: str) -> str:
    """Return the word that stands in the index for a kind."""
    return f"k{kind.replace('_', '')}"


def entry_from(identity: int, payload: str, get: Callable[[str], bytes]) -> Entry:
    """Read a row back.

    Raises:
        PegboardError: it is no row of an entry, or its blob is gone.
    """
    try:
        shape = json.loads(payload)
        if set(shape) == {_BLOB}:
            shape = json.loads(get(shape[_BLOB]))
        return Entry.from_json({**shape, "seq": identity})
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError, PegboardError) as error:
        raise PegboardError(f"entry {identity} can't be read: {error}") from None


def readable(rows: Iterable[tuple[int, str]], get: Callable[[str], bytes]) -> Iterator[Entry]:
    """Yield those rows that can be read: for whom a damaged one is no reason to stop."""
    for identity, payload in rows:
        try:
            yield entry_from(identity, payload, get)
        except PegboardError:
            continue


def blob_of(payload: str) -> str | None:
    """Return the key under which a row's JSON is kept, if it is."""
    shape = json.loads(payload) if payload.startswith(f'{{"{_BLOB}"') else {}
    return shape[_BLOB] if set(shape) == {_BLOB} else None


def _json(shape: Any) -> str:
    text = _ENCODER.encode(shape)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can hold
        return json.dumps(shape, allow_nan=False)
    return text
