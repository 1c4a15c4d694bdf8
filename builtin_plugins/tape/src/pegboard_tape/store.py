"""The session store: one SQLite file and a folder of blobs, for as many processes at once as there are."""

import asyncio
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from pegboard import Entry, Event, PegboardError, SessionHead
from pegboard.events import Answered, Asked

from pegboard_tape.blobs import Blobs
from pegboard_tape.rows import Row, entry_from, insert
from pegboard_tape.schema import BUSY_SECONDS, connect, open_file
from pegboard_tape.writer import Refused, Work, Writer

_T = TypeVar("_T")
_ID: Final = re.compile(r"[0-9a-f]{8,32}")
FILE: Final = "tape.db"


class TapeStore:
    """See `pegboard.SessionStore`. `folder` is made if need be; modes are 0700 and 0600.

    What was appended survives the death of the process; questions and answers, and with `durable` everything, a power
    cut too.
    """

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self.path = folder / FILE
        self.blobs = Blobs(folder / "blobs")
        self._writer = Writer(open_file(self.path), self._failed, durable)
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._closed = False

    async def append(self, session: str, entries: Sequence[Entry], *, expect: int) -> None:
        """See `SessionStore.append`."""
        check_id(session)
        for place, entry in enumerate(entries, expect + 1):
            if (entry.session, entry.id) != (session, place):
                raise ValueError(f"entry {entry.id} of session {entry.session} is not entry {place} of {session}")
        rows = [await self._row(entry.event) for entry in entries]
        durable = any(isinstance(entry.event, Asked | Answered) for entry in entries)
        await self.write(lambda connection: insert(connection, session, rows, expect), durable=durable)

    async def append_once(self, session: str, provenance: str, event: Event) -> tuple[int, bool]:
        """Append an event that has one origin; returns its id, and whether it was not there before.

        Raises:
            PegboardError: another event has that provenance.
        """
        check_id(session)
        row = await self._row(event, provenance)
        known = (
            "SELECT e.id, e.payload FROM entry e JOIN session s ON e.session = s.key "
            "WHERE s.id = ? AND e.provenance = ?"
        )

        def work(connection: sqlite3.Connection) -> tuple[int, bool]:
            found = connection.execute(known, (session, provenance)).fetchone()
            if found is None:
                return insert(connection, session, [row], None), True
            if found[1] != row.payload:
                told = f"session {session} has entry {found[0]} from {provenance} already, and it says something else"
                raise Refused(PegboardError(told))
            return found[0], False

        return await self.write(work)

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> Sequence[Entry]:
        """See `SessionStore.read`."""
        check_id(session)
        chosen = (
            "SELECT e.id, e.payload FROM entry e JOIN session s ON e.session = s.key "
            "WHERE s.id = ? AND e.id > ? ORDER BY e.id LIMIT ?"
        )

        def work(connection: sqlite3.Connection) -> list[Entry]:
            rows = connection.execute(chosen, (session, after, -1 if limit is None else limit))
            return [self._entry(session, identity, payload) for identity, payload in rows]

        return await self.look(work)

    async def sessions(self) -> Sequence[SessionHead]:
        """See `SessionStore.sessions`."""
        heads = (
            "SELECT s.id, s.last, e.payload FROM session s JOIN entry e ON e.session = s.key AND e.id = 1 "
            "ORDER BY e.ts DESC, s.key DESC"
        )

        def work(connection: sqlite3.Connection) -> list[SessionHead]:
            return [
                SessionHead(session, self._entry(session, 1, payload), last)
                for session, last, payload in connection.execute(heads)
            ]

        return await self.look(work)

    async def put_blob(self, data: bytes) -> str:
        """See `SessionStore.put_blob`."""
        return await asyncio.to_thread(self.blobs.put, data)

    async def get_blob(self, key: str) -> bytes:
        """See `SessionStore.get_blob`."""
        return await asyncio.to_thread(self.blobs.get, key)

    async def write(self, work: Work[_T], *, durable: bool = False) -> _T:
        """Do a piece of work in a transaction of the writing thread.

        Raises:
            PegboardError: SQLite failed; nothing of it was written.
        """
        return await self._writer.run(work, durable=durable)

    async def look(self, work: Work[_T]) -> _T:
        """Do a piece of work that only reads, beside the writing thread.

        Raises:
            PegboardError: SQLite failed, or the store is closed.
        """
        return await asyncio.to_thread(partial(self._look, work))

    def close(self) -> None:
        """Finish what waits, and close the file; once."""
        self._writer.close()
        with self._lock:
            self._closed = True
            for connection in self._idle:
                connection.close()
            self._idle.clear()

    async def _row(self, event: Event, provenance: str | None = None) -> Row:
        row = Row.of(event, provenance)
        return row.kept_as(await self.put_blob(row.payload.encode())) if row.is_large else row

    def _look(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        with self._reading() as connection:
            try:
                return work(connection)
            except sqlite3.Error as error:
                raise self._failed(error) from None

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._closed:
                raise PegboardError("the session store is closed; open it again")
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = connect(self.path)
            connection.execute("PRAGMA query_only=ON")
        try:
            yield connection
        finally:
            with self._lock:
                if self._closed:
                    connection.close()
                else:
                    self._idle.append(connection)

    def _entry(self, session: str, identity: int, payload: str) -> Entry:
        try:
            return entry_from(identity, payload, self.blobs.get)
        except PegboardError as error:
            raise PegboardError(f"{self.path}, session {session}: {error}; see `pegboard tape verify`") from None

    def _failed(self, error: sqlite3.Error) -> PegboardError:
        """Say what went wrong, where, and what to do."""
        text = str(error)
        if "disk is full" in text or "disk I/O" in text:
            return PegboardError(f"{self.path} can't be written: {text}; make room there. Nothing of it was kept")
        if "locked" in text:
            told = f"another process has been writing to it for {BUSY_SECONDS:.0f} s; wait for it, or end it"
            return PegboardError(f"{self.path} can't be written: {told}")
        return PegboardError(f"{self.path} can't be used: {text}; `pegboard tape verify` looks at it")


def check_id(session: str) -> None:
    """Refuse what is no session id before it becomes part of anything (case 21).

    Raises:
        ValueError: it is none.
    """
    if not _ID.fullmatch(session):
        raise ValueError(f"{session[:40]!r} is no session id; ids are 8 to 32 digits of lower-case hex")
