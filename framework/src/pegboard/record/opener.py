"""The sessions that a host keeps: in the store that a pack brings, in memory if none does."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pegboard.base.errors import PegboardError, UsageError
from pegboard.base.text import one_line
from pegboard.dispatch.dispatcher import Dispatcher, HookFailure
from pegboard.record.folds import start_of
from pegboard.record.recorder import Recorder
from pegboard.record.recovery import missing_ends
from pegboard.record.session import Session, real_directory
from pegboard.record.stores import SESSION_ID, MemoryStore, SessionStore
from pegboard.values.entries import Entry

if TYPE_CHECKING:
    from pegboard.hookspecs import Host


class SessionOpener:
    """Opens the store once, and sessions from it."""

    def __init__(self, host: "Host", dispatcher: Dispatcher) -> None:
        self._host = host
        self._dispatcher = dispatcher
        self._store: SessionStore | None = None
        self._opening = asyncio.Lock()
        self._problem = ""

    async def store(self) -> SessionStore:
        """Return where sessions are kept. The packs are asked once; a store that can't be had stays so.

        Raises:
            PegboardError: a pack's store can't be had; there is no fall-back.
        """
        if self._store is not None:
            return self._store
        async with self._opening:
            if self._store is None and not self._problem:
                await self._open()
            if self._store is None:
                raise PegboardError(self._problem)
            return self._store

    async def _open(self) -> None:
        try:
            answer = await self._dispatcher.first("session_store", self._host)
        except HookFailure as failure:
            self._problem = f"sessions can't be kept: {failure}"
            return
        if answer is None:
            self._store = MemoryStore()
        elif missing := [name for name in _METHODS if not callable(getattr(answer[1], name, None))]:
            self._problem = (
                f"sessions can't be kept: session_store of pack `{answer[0]}` returned {type(answer[1]).__name__}, "
                f"which has no `{missing[0]}`"
            )
        else:
            self._store = answer[1]

    async def entries(self, session: str, after: int, limit: int | None) -> Sequence[Entry]:
        """Return what is recorded of a session after an entry's id, in order."""
        return await (await self.store()).read(_checked(session), after, limit)

    async def open(self, identity: str, recorder: Recorder) -> Session:
        """Return a session as its record left it; a run whose process died gets its ends first.

        Raises:
            UsageError: there is none of that id, or it has a run under way in a process that lives.
        """
        store = await self.store()
        entries = await store.read(_checked(identity))
        start = start_of(entries)
        if start is None:
            raise UsageError(f"there is no session {identity}")
        ends = missing_ends(identity, entries)
        session = Session(identity, real_directory(Path(start.directory)), parent=start.parent, depth=start.depth)
        for entry in entries:
            session.take(entry)
        if ends:
            await recorder.record(session, self._dispatcher.host, ends)
        return session


_METHODS = ("append", "read", "sessions", "put_blob", "get_blob")


def _checked(identity: str) -> str:
    """Refuse what is no session id before it becomes part of a path or a query (case 21)."""
    if not SESSION_ID.fullmatch(identity):
        raise UsageError(f"`{one_line(identity, 40)}` is no session id; ids are lower-case hex")
    return identity
