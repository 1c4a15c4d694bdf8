"""Links from a session to those of its children: how far one may be read, and how it is known to be the same.

Nothing is copied. A link is a note in the parent's record, made when a run of the child ends; only what the child's own
first entry says makes it readable: that it was begun by this parent, and is still the same one.
"""

import hashlib
import json
import sqlite3
from collections.abc import Callable
from typing import Any, Final

from pegboard import Agent, Event, Run, RunEnd, ToolError, hooks, implements

from pegboard_tape.facts import LINK_REF, LINKED
from pegboard_tape.store import TapeStore

_VERSION: Final = 2
_TITLE: Final = 500
_SUMMARY: Final = 2000
_OUTCOMES: Final = {"completed": "completed", "aborted": "cancelled", "interrupted": "cancelled"}
_UNAVAILABLE: Final = "linked_tape_unavailable"
_UNAUTHORIZED: Final = "linked_tape_unauthorized"


class ChildLink:
    """The implementation of one child agent: tells its parent's record how far it has come."""

    def __init__(self, child: Agent, store: Callable[[], TapeStore | None]) -> None:
        self._child = child
        self._store = store

    @implements(hooks.observe)
    def observe(self, event: Event) -> None:
        """Link when a run has ended for good; one that is paused goes on."""
        child, parent = self._child, self._child.parent
        if isinstance(event, RunEnd) and event.reason != "paused" and parent and parent.current_run:
            title = child.current_run.said[:_TITLE] if child.current_run else ""
            parent.start_task(self._link(parent.current_run, event, child.session.last, title))

    async def _link(self, run: Run, end: RunEnd, head: int, title: str) -> None:
        store, child = self._store(), self._child
        if store is None:
            return
        identity = await store.look(lambda connection: identity_of(connection, child.id))
        data = {
            "linkVersion": _VERSION,
            "childSessionId": child.id,
            "childHeadEntryId": head,
            "childEntryCount": head,
            "childTapeIdentity": identity,
            "runId": run.number,
            "taskId": f"{child.id}:{end.run}",
            "slotId": child.name,
            "taskTitle": title,
            "outcome": _OUTCOMES.get(end.reason, "error"),
            "resultSummary": end.text[:_SUMMARY] or None,
        }
        await run.note(LINKED, data)


def identity_of(connection: sqlite3.Connection, session: str) -> str | None:
    """Return what a session is known by: its first entry and its incarnation; None if there is none."""
    found = connection.execute(
        "SELECT s.incarnation, e.payload FROM session s JOIN entry e ON e.session = s.key AND e.id = 1 WHERE s.id = ?",
        (session,),
    ).fetchone()
    return hashlib.sha256("\n".join(found).encode()).hexdigest() if found else None


def linked(connection: sqlite3.Connection, session: str) -> dict[str, int]:
    """Return the children of a session that may be read, with the last entry that may be.

    Raises:
        ToolError: one is gone, or is not the one that was linked.
    """
    sources: dict[str, int] = {}
    for child, link in _newest_links(connection, session).items():
        if _parent_of(connection, child) in (session, None):
            sources[child] = _head(connection, child, link)
    return sources


def head_of(connection: sqlite3.Connection, session: str, child: str) -> int:
    """Return how far one child may be read.

    Raises:
        ToolError: it is no child of the session whose run has ended, or it is gone.
    """
    link = _newest_links(connection, session).get(child)
    if link is None or _parent_of(connection, child) not in (session, None):
        raise ToolError(f"{_UNAUTHORIZED}: {child[:40]!r} is no session that this one has linked; see tape_search")
    return _head(connection, child, link)


def _head(connection: sqlite3.Connection, child: str, link: dict[str, Any]) -> int:
    found = connection.execute("SELECT last FROM session WHERE id = ?", (child,)).fetchone()
    head = link.get("childHeadEntryId")
    same = found and identity_of(connection, child) == link.get("childTapeIdentity")
    if not same or not isinstance(head, int) or found[0] < head:
        raise ToolError(f"{_UNAVAILABLE}: session {child} was deleted or begun anew since it was linked")
    return head


def _newest_links(connection: sqlite3.Connection, session: str) -> dict[str, dict[str, Any]]:
    rows = connection.execute(
        "SELECT e.ref, e.payload FROM session s CROSS JOIN entry e ON e.session = s.key "
        "WHERE s.id = ? AND e.ref >= ? AND e.ref < ? ORDER BY e.id",
        (session, LINK_REF, LINK_REF + "\U0010ffff"),
    )
    return {ref.removeprefix(LINK_REF): json.loads(payload).get("data", {}) for ref, payload in rows}


def _parent_of(connection: sqlite3.Connection, session: str) -> str | None:
    row = connection.execute(
        "SELECT json_extract(e.payload, '$.parent') FROM session s JOIN entry e ON e.session = s.key AND e.id = 1 "
        "WHERE s.id = ?",
        (session,),
    ).fetchone()
    return row[0] if row else None
