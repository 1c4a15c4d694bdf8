"""Looking after the file: is everything whole, how much is there, what may go."""

import re
import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pegboard import PegboardError

from pegboard_tape.heads import PAUSED, UNDER_WAY, heads
from pegboard_tape.manifest import is_touched_manifest
from pegboard_tape.redact import MASK
from pegboard_tape.rows import blob_of, entry_from, tags
from pegboard_tape.schema import NEVER_GOES, connect
from pegboard_tape.store import TapeStore
from pegboard_tape.words import indexed

_BATCH: Final = 1000
_KEY: Final = re.compile(rb"[0-9a-f]{64}")
# A blob is written before the entry that names it: one that is younger may be about to be named.
_SETTLED: Final = 3600.0


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
        if is_touched_manifest(entry.event):
            yield f"session {session}: entry {identity} is a manifest that was changed after it was made"
    if expected != last:
        yield f"session {session}: its last entry should be {last} and is {expected}"


def forget(connection: sqlite3.Connection, session: str, expect: int | None = None) -> int:
    """Delete a session whole, with what the index has of it; returns how many entries went. None do if the session's
    last entry is not `expect`, where that is given: it went on.

    The only way in which entries ever go: the triggers that forbid it are away for this transaction alone. If the
    session begins anew, it is another incarnation and counts from 1 (TP2).
    """
    chosen = "SELECT key FROM session WHERE id = ? AND last = coalesce(?, last)"
    found = connection.execute(chosen, (session, expect)).fetchone()
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


@dataclass(frozen=True, slots=True)
class Sweep:
    """What may go: `sessions` that ended long ago, `blobs` that no entry names; `bytes` of the blobs. `kept` are old
    sessions that stay because they are paused or have a run without an end.
    """

    sessions: tuple[str, ...]
    kept: tuple[str, ...]
    blobs: tuple[str, ...]
    bytes: int


async def find_rubbish(store: TapeStore, older_than: float | None = None) -> Sweep:
    """Return what may go; sessions only if their last entry is older than so many seconds."""
    old, kept = await _old_sessions(store, older_than)
    free = await _free_blobs(store, old)
    return Sweep(tuple(old), kept, tuple(free), sum(free.values()))


async def sweep(store: TapeStore, older_than: float | None = None) -> Sweep:
    """Delete what may go, and give the room back; returns what went.

    Raises:
        PegboardError: SQLite failed.
    """
    old, kept = await _old_sessions(store, older_than)
    gone = [one for one, last in old.items() if await store.write(partial(forget, session=one, expect=last))]
    free = await _free_blobs(store, ())  # only now: a session that went on meanwhile still names its own
    for key in free:
        store.blobs.remove(key)
    if gone:
        await store.look(lambda _: _vacuum(store))
    return Sweep(tuple(gone), kept, tuple(free), sum(free.values()))


async def _old_sessions(store: TapeStore, older_than: float | None) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the old sessions that may go, with their last entries, and those that may not."""
    if older_than is None:
        return {}, ()
    old = [one for one in await heads(store) if one["last"] < time.time() - older_than]
    kept = tuple(one["session"] for one in old if one["reason"] in (PAUSED, UNDER_WAY))
    return {one["session"]: one["entries"] for one in old if one["session"] not in kept}, kept


async def _free_blobs(store: TapeStore, leaving_out: Collection[str]) -> dict[str, int]:
    """Return the blobs that no entry names, with their sizes."""
    named = await store.look(lambda connection: _named_blobs(connection, store, leaving_out))
    return {key: at.st_size for key, at in store.blobs.kept() if key not in named and _is_settled(at.st_mtime)}


def _named_blobs(connection: sqlite3.Connection, store: TapeStore, leaving_out: Collection[str]) -> set[str]:
    """Return whatever looks like the key of a blob in what stays."""
    named: set[str] = set()
    rows = connection.execute("SELECT s.id, e.payload FROM session s JOIN entry e ON e.session = s.key")
    for session, payload in rows:
        if session in leaving_out:
            continue
        named.update(key.decode() for key in _KEY.findall(payload.encode()))
        if blob := blob_of(payload):
            with suppress(LookupError, PegboardError):
                named.update(key.decode() for key in _KEY.findall(store.blobs.get(blob)))
    return named


def _is_settled(changed: float) -> bool:
    return changed < time.time() - _SETTLED


def _vacuum(store: TapeStore) -> None:
    connection = connect(store.path)
    try:
        connection.execute("VACUUM")
    finally:
        connection.close()


def statistics(connection: sqlite3.Connection) -> dict[str, Any]:
    """Return how much is kept, which tokens were used, and how the tools did."""
    tools = connection.execute(
        "SELECT name, count(*), sum(json_extract(payload, '$.ms')), sum(json_extract(payload, '$.status') <> 'ok') "
        "FROM entry WHERE kind = 'tool_result' GROUP BY name ORDER BY 2 DESC, 1"
    )
    used = connection.execute(
        "SELECT total(json_extract(payload, '$.usage.input_tokens')), "
        "total(json_extract(payload, '$.usage.output_tokens')) FROM entry WHERE name = 'run_end' AND kind = 'event'"
    ).fetchone()
    (masked,) = connection.execute(
        "SELECT total((length(text) - length(replace(text, ?1, ''))) / length(?1)) FROM entry", (MASK,)
    ).fetchone()
    (sessions,) = connection.execute("SELECT count(*) FROM session").fetchone()
    return {
        "sessions": sessions,
        "entries": dict(connection.execute("SELECT kind, count(*) FROM entry GROUP BY kind").fetchall()),
        "masked": int(masked),
        "tokens": {"input": int(used[0]), "output": int(used[1])},
        "tools": [
            {"name": name, "calls": calls, "ms": ms or 0.0, "failed": failed or 0} for name, calls, ms, failed in tools
        ],
    }
