"""Following a host's events from outside, at one's own pace: bounded, and what is recorded is never lost."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pegboard.base.scopes import Disposer
from pegboard.values.events import Event

if TYPE_CHECKING:
    from pegboard.record.recorder import Watcher
    from pegboard.record.stores import SessionStore


@dataclass(frozen=True, slots=True)
class FeedItem:
    """An event with its place. Recorded: `seq` is the id of its entry, `part` is 0. Only shown live, such as text
    deltas and progress: `seq` is the id of the last entry before it, `part` counts 1, 2, ...
    """

    seq: int
    part: int
    event: Event


class Feed(AsyncIterator[FeedItem]):
    """Events of one session, or of all, in order. A reader that lags behind `limit` events misses live ones only: what
    is recorded is read from the store again. Ends when the host stops, or with `close()`.
    """

    def __init__(
        self,
        watch: "Callable[[Watcher], Disposer]",
        store: "Callable[[], Awaitable[SessionStore]]",
        session: str | None,
        after: int | None,
        limit: int,
    ) -> None:
        self._store = store
        self._session = session
        self._limit = limit
        self._seen: dict[str, int] = {}
        self._behind: set[str] = set()
        if session is not None and after is not None:
            self._seen[session] = after
            self._behind.add(session)
        self._parts: dict[str, int] = {}
        self._live: deque[tuple[Event, int]] = deque()
        self._ready: deque[FeedItem] = deque()
        self._woken = asyncio.Event()
        self._idle = asyncio.Event()
        self._closed = False
        self._unwatch = watch(self._take)
        self._forget: Disposer = self._unwatch

    def close(self) -> None:
        """Stop following; what was not read yet is still handed out."""
        self._unwatch()
        self._forget()
        self._closed = True
        self._woken.set()

    async def caught_up(self) -> None:
        """Wait until whoever reads the feed has had everything there is so far, and waits for more or has left."""
        await self._idle.wait()

    async def __aenter__(self) -> "Feed":
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.close()
        self._idle.set()  # whoever left it reads no more

    def on_close(self, forget: Disposer) -> None:
        """Call `forget` when the feed is closed."""
        self._forget = forget

    def _take(self, event: Event, seq: int) -> None:
        if self._session not in (None, event.session):
            return
        self._seen.setdefault(event.session, seq - 1 if event.recorded else seq)
        if len(self._live) >= self._limit:
            self._behind.update(lost.session for lost, _ in self._live)
            self._behind.add(event.session)
            self._live.clear()
        else:
            self._live.append((event, seq))
        self._idle.clear()
        self._woken.set()

    async def __anext__(self) -> FeedItem:
        while not self._ready:
            if self._behind:
                await self._catch_up(self._behind.pop())
            elif self._live:
                self._hand_out(*self._live.popleft())
            elif self._closed:
                self._idle.set()
                raise StopAsyncIteration
            else:
                self._woken.clear()
                self._idle.set()
                await self._woken.wait()
        return self._ready.popleft()

    async def _catch_up(self, session: str) -> None:
        """Read up to `limit` entries that were missed; more is read when these are handed out."""
        store = await self._store()
        entries = await store.read(session, self._seen.get(session, 0), self._limit)
        for entry in entries:
            self._hand_out(entry.event, entry.id)
        if len(entries) == self._limit:
            self._behind.add(session)

    def _hand_out(self, event: Event, seq: int) -> None:
        seen = self._seen.get(event.session, 0)
        if not event.recorded:
            if seq == seen:
                self._parts[event.session] = part = self._parts.get(event.session, 0) + 1
                self._ready.append(FeedItem(seq, part, event))
        elif seq == seen + 1:
            self._seen[event.session] = seq
            self._parts.pop(event.session, None)
            self._ready.append(FeedItem(seq, 0, event))
        elif seq > seen:
            self._behind.add(event.session)
