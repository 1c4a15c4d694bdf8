"""A session in a few words, from its first and last entries: what lists show."""

import sqlite3
from typing import Any, Final

from pegboard import Event, PegboardError, RunEnd
from pegboard.events import RunStart, SessionStart

from pegboard_tape.rows import entry_from
from pegboard_tape.store import TapeStore

PAUSED: Final = "paused"
UNDER_WAY: Final = "under way"
_NAMED: Final = (
    "SELECT e.id, e.payload FROM session s CROSS JOIN entry e ON e.session = s.key WHERE s.id = ? AND e.name = ? "
    "AND e.kind IN ('event', 'anchor')"
)


async def heads(store: TapeStore, limit: int | None = None) -> list[dict[str, Any]]:
    """Describe the sessions, those that began last first."""
    newest = (await store.sessions())[:limit]
    return await store.look(lambda connection: [_head(connection, store, one.id) for one in newest])


def _head(connection: sqlite3.Connection, store: TapeStore, session: str) -> dict[str, Any]:
    def find(name: str, order: str) -> Event | None:
        row = connection.execute(f"{_NAMED} ORDER BY e.id {order} LIMIT 1", (session, name)).fetchone()
        try:
            return entry_from(row[0], row[1], store.blobs.get).event if row else None
        except PegboardError:
            return None

    start, first = find("session/start", "ASC"), find("run_start", "ASC")
    newest, ended = find("run_start", "DESC"), find("run_end", "DESC")
    last, ts = connection.execute(
        "SELECT s.last, e.ts FROM session s JOIN entry e ON e.session = s.key AND e.id = s.last WHERE s.id = ?",
        (session,),
    ).fetchone()
    over = isinstance(ended, RunEnd) and isinstance(newest, RunStart) and ended.run == newest.run
    return {
        "session": session,
        "began": start.ts if isinstance(start, SessionStart) else ts,
        "last": ts,
        "entries": last,
        "runs": newest.run if isinstance(newest, RunStart) else 0,
        "reason": ended.reason if over and isinstance(ended, RunEnd) else UNDER_WAY if newest else "no run",
        "input": first.input if isinstance(first, RunStart) else "",
        "directory": start.directory if isinstance(start, SessionStart) else "",
        "parent": start.parent if isinstance(start, SessionStart) else None,
    }
