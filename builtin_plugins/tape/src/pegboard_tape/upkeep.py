"""Looking after the file: is everything whole, how much is there, what may go."""

import sqlite3
from collections.abc import Iterator
from typing import Final

from pegboard import PegboardError

from pegboard_tape.rows import blob_of, entry_from, tags
from pegboard_tape.schema import NEVER_GOES
from pegboard_tape.store import TapeStore
from pegboard_tape.words import indexed

_BATCH: Final = 1000


async def verify(store: TapeStore) -> list[str]:
    """Return what is wrong with the store, one line each; nothing if it is whole."""
    index = await store.write(_index_problems)
    return [*index, *await store.look(lambda connection: list(_problems(connection, store)))]


def _index_problems(connection: sqlite3.Connection) -> list[str]:
    try:
        connection.execute("INSERT INTO word(word) VALUES('integrity-check')")
    except sqlite3.DatabaseError as error:
        return [f"the index is damaged: {error}"]
    return []


def _problems(connection: sqlite3.Connection, store: TapeStore) -> Iterator[str]:
    for (told,) in connection.execute("PRAGMA integrity_check"):
        if told != "ok":
            yield f"the file is damaged: {told}"
    for key, session, last in connection.execute("SELECT key, id, last FROM session").fetchall():
        yield from _session_problems(connection, store, key, session, last)


def _session_problems(
    connection: sqlite3.Connection, store: TapeStore, key: int, session: str, last: int
) -> Iterator[str]:
    expected = 0
    for identity, payload in connection.execute("SELECT id, payload FROM entry WHERE session = ? ORDER BY id", (key,)):
        expected += 1
        if identity != expected:
            yield f"session {session}: entry {expected} is missing, {identity} comes next"
            expected = identity
        if (blob := blob_of(payload)) and not store.blobs.is_whole(blob):
            yield f"session {session}: entry {identity} is kept as blob {blob[:12]}, which is missing or damaged"
            continue
        try:
            entry = entry_from(identity, payload, store.blobs.get)
        except PegboardError as error:
            yield f"session {session}: {error}"
            continue
        if entry.session != session:
            yield f"session {session}: entry {identity} says that it is of session {entry.session}"
    if expected != last:
        yield f"session {session}: its last entry should be {last} and is {expected}"


def forget(connection: sqlite3.Connection, session: str) -> int:
    """Delete a session whole, with what the index has of it; returns how many entries went.

    The only way in which entries ever go: the triggers that forbid it are away for this transaction alone. If the
    session begins anew, it is another incarnation and counts from 1 (TP2).
    """
    found = connection.execute("SELECT key FROM session WHERE id = ?", (session,)).fetchone()
    if found is None:
        return 0
    rows = connection.execute("SELECT seq, kind, text FROM entry WHERE session = ? AND text <> ''", found)
    while batch := rows.fetchmany(_BATCH):
        gone = [(seq, indexed(text), tags(found[0], kind)) for seq, kind, text in batch]
        connection.executemany("INSERT INTO word(word, rowid, text, tag) VALUES('delete', ?, ?, ?)", gone)
    connection.execute("DROP TRIGGER entry_never_goes")
    count = connection.execute("DELETE FROM entry WHERE session = ?", found).rowcount
    connection.execute("DELETE FROM session WHERE key = ?", found)
    connection.execute(NEVER_GOES)
    return count
