"""Whether one row of the file counts, without reading its whole session: the same answer as `view.effective`."""

import sqlite3
from collections.abc import Callable
from typing import Final, Protocol

from pegboard_tape.rows import readable
from pegboard_tape.view import effective

_CORRECTIONS: Final = "entry:"


class Placed(Protocol):
    """A row with its place."""

    @property
    def session(self) -> str:
        """The session's id."""

    @property
    def id(self) -> int:
        """The entry's id in the session."""

    @property
    def kind(self) -> str:
        """See `facts.Kind`."""

    @property
    def ref(self) -> str | None:
        """See `facts.Fact`."""


class Visible:
    """Answers for rows of any session; what it read of one it keeps for as long as a search lasts."""

    def __init__(self, connection: sqlite3.Connection, get: Callable[[str], bytes]) -> None:
        self._connection = connection
        self._get = get  # a blob
        self._views: dict[str, frozenset[int] | None] = {}

    def shows(self, row: Placed) -> bool:
        """Whether the row counts."""
        if row.session not in self._views:
            self._views[row.session] = self._view(row.session)
        if (view := self._views[row.session]) is not None:
            return row.id in view
        if row.kind not in ("tool_call", "tool_result"):
            return True
        next_of_it = self._connection.execute(
            "SELECT e.kind FROM entry e JOIN session s ON e.session = s.key "
            "WHERE s.id = ? AND e.ref = ? AND e.id > ? ORDER BY e.id LIMIT 1",
            (row.session, row.ref, row.id),
        ).fetchone()
        has_result = next_of_it is not None and next_of_it[0] == "tool_result"
        return has_result if row.kind == "tool_call" else not has_result

    def _view(self, session: str) -> frozenset[int] | None:
        """Return what counts of a session, or None where nothing was corrected, which is nearly always so."""
        of_session = "FROM entry e JOIN session s ON e.session = s.key WHERE s.id = ?"
        corrected = self._connection.execute(
            f"SELECT 1 {of_session} AND e.ref >= ? AND e.ref < ? LIMIT 1",
            (session, _CORRECTIONS, _CORRECTIONS + "\U0010ffff"),
        ).fetchone()
        if corrected is None:
            return None
        rows = self._connection.execute(f"SELECT e.id, e.payload {of_session}", (session,))
        return frozenset(entry.id for entry in effective(readable(rows, self._get)))
