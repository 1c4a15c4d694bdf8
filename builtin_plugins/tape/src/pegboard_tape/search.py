"""Searching the tape: newest first, by the index; by substring where the index can't help. A query is never syntax."""

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from pegboard_tape.facts import Kind
from pegboard_tape.rows import kind_tag, session_tag
from pegboard_tape.visible import Visible
from pegboard_tape.words import fold, match, may_be_parts, terms

SECONDS: Final = 2.0
RANKED: Final = 500
SCANNED: Final = 20_000
_COLUMNS: Final = "e.seq, s.id, e.id, e.kind, e.name, e.ref, e.ts, e.text"
_STEPS: Final = 10_000  # instructions of SQLite between two looks at the clock


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for. `start` and `end` are seconds since the epoch, inclusive; `ranked` puts the best of the
    newest 500 first; `substring` finds parts of words, in the newest 20,000 entries. `seconds` is how long it may take.
    """

    text: str
    limit: int = 20
    kinds: Sequence[Kind] = ()
    start: float | None = None
    end: float | None = None
    ranked: bool = False
    substring: bool = False
    seconds: float = SECONDS


@dataclass(frozen=True, slots=True)
class Hit:
    """One entry that was found; a lower `score` is better, and there is one only if it was asked for."""

    seq: int
    session: str
    id: int
    kind: Kind
    name: str
    ref: str | None
    ts: float
    text: str
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The hits, newest or best first. `substring`: they are parts of words; not `complete`: the time was over."""

    hits: tuple[Hit, ...]
    substring: bool = False
    complete: bool = True


# Sessions to search, each up to an entry or to its end; None stands for all.
Sources = Mapping[str, int | None]


def search(
    connection: sqlite3.Connection, get: Callable[[str], bytes], query: Query, sources: Sources | None = None
) -> Found:
    """Find the entries that have every term of the query in their text, whatever its case; `get` returns a blob."""
    wanted = terms(query.text)
    keys = None if sources is None else _keys(connection, sources)
    if not wanted or keys == {}:
        return Found(())
    looked = _Look(connection, Visible(connection, get), query, wanted, keys, sources or {})
    expression = match(wanted)
    if expression and not query.substring:
        found = looked.through(looked.by_index(expression))
        if found.hits or not found.complete or not may_be_parts(wanted):
            return found
    return replace(looked.through(looked.by_scan()), substring=True)


class _Look:
    """One search: candidates come newest first, and are compared with the terms themselves."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        visible: Visible,
        query: Query,
        wanted: Sequence[str],
        keys: Mapping[str, int] | None,
        heads: Sources,
    ) -> None:
        self._connection = connection
        self._query = query
        self._terms = wanted
        self._keys = keys
        self._heads = heads
        self._deadline = time.monotonic() + query.seconds
        self._visible = visible

    def through(self, candidates: Iterator[Hit]) -> Found:
        """Return what of the candidates is meant, as far as the time goes."""
        hits: list[Hit] = []
        wanted = RANKED if self._query.ranked else self._query.limit
        complete = True
        with _limited(self._connection, self._deadline):
            try:
                for hit in candidates:
                    if self._is_meant(hit):
                        hits.append(hit)
                    if len(hits) == wanted:
                        break
                    if time.monotonic() > self._deadline:
                        complete = False
                        break
            except sqlite3.OperationalError as error:
                if "interrupted" not in str(error):
                    raise
                complete = False
        if self._query.ranked:
            scored = [replace(hit, score=self._score(hit.text)) for hit in hits]
            hits = sorted(scored, key=lambda hit: (hit.score, -hit.seq))[: self._query.limit]
        return Found(tuple(hits), complete=complete)

    def by_index(self, expression: str) -> Iterator[Hit]:
        """Yield what the index has."""
        chosen = [f"{{text}} : ({expression})"]
        if self._keys is not None:
            chosen.append(_any_of(session_tag(key) for key in self._keys.values()))
        if self._query.kinds:
            chosen.append(_any_of(kind_tag(kind) for kind in self._query.kinds))
        where, values = self._times()
        # CROSS JOIN keeps SQLite from starting elsewhere than in the index, whose order is the newest first.
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM word CROSS JOIN entry e ON e.seq = word.rowid "  # noqa: S608 - constants
            f"CROSS JOIN session s ON s.key = e.session WHERE word MATCH ?{where} ORDER BY word.rowid DESC",
            (" AND ".join(chosen), *values),
        )
        return (Hit(*row) for row in rows)

    def by_scan(self) -> Iterator[Hit]:
        """Yield the newest entries."""
        where, values = self._times()
        if self._keys is not None:
            where += f" AND e.session IN ({','.join('?' * len(self._keys))})"
            values += list(self._keys.values())
        if self._query.kinds:
            where += f" AND e.kind IN ({','.join('?' * len(self._query.kinds))})"
            values += list(self._query.kinds)
        order = "e.id" if self._keys is not None and len(self._keys) == 1 else "e.seq"
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM entry e CROSS JOIN session s ON s.key = e.session "  # noqa: S608 - constants
            f"WHERE e.text <> ''{where} ORDER BY {order} DESC LIMIT {SCANNED}",
            values,
        )
        return (Hit(*row) for row in rows)

    def _times(self) -> tuple[str, list[float | int | str]]:
        values: list[float | int | str] = []
        where = ""
        for sign, bound in ((">=", self._query.start), ("<=", self._query.end)):
            if bound is not None:
                where += f" AND e.ts {sign} ?"
                values.append(bound)
        return where, values

    def _is_meant(self, hit: Hit) -> bool:
        head = self._heads.get(hit.session)
        if head is not None and hit.id > head:
            return False
        text = fold(hit.text)
        return all(term in text for term in self._terms) and self._visible.shows(hit)

    def _score(self, text: str) -> float:
        """Return how well a text fits: how often it has the terms, for its length."""
        folded = fold(text)
        often = sum(min(folded.count(term), 10) for term in self._terms)
        return -often / (1 + len(folded) / 1000)


def _any_of(words: Iterable[str]) -> str:
    return f"{{tag}} : ({' OR '.join(words)})"


def _keys(connection: sqlite3.Connection, sources: Iterable[str]) -> dict[str, int]:
    found = (connection.execute("SELECT id, key FROM session WHERE id = ?", (one,)).fetchone() for one in sources)
    return {row[0]: row[1] for row in found if row is not None}


@contextmanager
def _limited(connection: sqlite3.Connection, deadline: float) -> Iterator[None]:
    """Interrupt what SQLite does when the time is over."""
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)
