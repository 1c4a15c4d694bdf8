"""Where sessions are kept: the interface that a pack implements with `session_store`, and the store in memory."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pegboard.base.errors import Conflict
from pegboard.values.entries import Entry

SESSION_ID: Final = re.compile(r"[0-9a-f]{8,32}")


@dataclass(frozen=True, slots=True)
class SessionHead:
    """What a list of sessions shows of one: its first entry, a `session_start`, and the id of its last."""

    id: str
    start: Entry
    last: int


class SessionStore(Protocol):
    """An append-only record for each session. `pegboard.testing.StoreContract` tests an implementation.

    Session ids are lower-case hex; anything else is to be refused (ValueError) before it becomes a path or a query.
    """

    async def append(self, session: str, entries: Sequence[Entry], *, expect: int) -> None:
        """Add entries, all or none; `expect` is the id of the last entry that the caller knows, 0 for none.

        Returns when they are as durable as the store makes them.

        Raises:
            Conflict: the session's last id is another one.
            PegboardError: they can't be stored (a full disk, no permission); nothing was.
        """

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> Sequence[Entry]:
        """Return the entries after an id, in order, at most `limit`; none for an unknown session."""

    async def sessions(self) -> Sequence[SessionHead]:
        """Return every session, the one that began last first."""

    async def put_blob(self, data: bytes) -> str:
        """Keep bytes; returns their SHA-256 in hex, by which they are found again."""

    async def get_blob(self, key: str) -> bytes:
        """Return the bytes kept under a key.

        Raises:
            LookupError: there are none.
        """


class MemoryStore:
    """Keeps everything in this process, for as long as it lives: what is used when no pack brings a store."""

    def __init__(self) -> None:
        self._sessions: dict[str, list[Entry]] = {}
        self._blobs: dict[str, bytes] = {}

    async def append(self, session: str, entries: Sequence[Entry], *, expect: int) -> None:
        """See `SessionStore.append`."""
        kept = self._sessions.get(session)
        if kept is None:
            _check(session)
            kept = []
        if len(kept) != expect:
            raise Conflict(f"session {session} has {len(kept)} entries, not {expect}: it went on elsewhere")
        kept.extend(entries)
        self._sessions[session] = kept

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> Sequence[Entry]:
        """See `SessionStore.read`."""
        _check(session)
        return self._sessions.get(session, [])[after : None if limit is None else after + limit]

    async def sessions(self) -> Sequence[SessionHead]:
        """See `SessionStore.sessions`."""
        heads = [SessionHead(name, kept[0], len(kept)) for name, kept in self._sessions.items() if kept]
        return heads[::-1]

    async def put_blob(self, data: bytes) -> str:
        """See `SessionStore.put_blob`."""
        key = hashlib.sha256(data).hexdigest()
        self._blobs[key] = bytes(data)
        return key

    async def get_blob(self, key: str) -> bytes:
        """See `SessionStore.get_blob`."""
        try:
            return self._blobs[key]
        except KeyError:
            raise LookupError(f"there is no blob {key[:80]}") from None


def _check(session: str) -> None:
    if not SESSION_ID.fullmatch(session):
        raise ValueError(f"{session[:40]!r} is no session id; ids are 8 to 32 digits of lower-case hex")
