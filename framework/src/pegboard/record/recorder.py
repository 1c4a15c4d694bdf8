"""The one place where entries are filtered, appended to a session's record, and shown to those who watch."""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import ContextVar

from pegboard.base.errors import Conflict, UsageError
from pegboard.base.scopes import Disposer, Scope
from pegboard.dispatch.dispatcher import Dispatcher, HookFailure, Misfit
from pegboard.record.session import Session
from pegboard.record.stores import SessionStore
from pegboard.values.entries import Entry
from pegboard.values.events import Event, SessionStart

# Set while a filter runs: it holds the session's lock, so recording from there would wait for ever.
_filtering: ContextVar[bool] = ContextVar("pegboard_filtering", default=False)


# Gets every event with the id of its entry; of what is only shown, the id of the last one before it.
Watcher = Callable[[Event, int], object]


class Recorder:
    """The one place where entries are filtered, appended to a session's record, and shown to those who watch."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        store: Callable[[], Awaitable[SessionStore]],
        report: Callable[[HookFailure], object],
    ) -> None:
        self._dispatcher = dispatcher
        self._open_store = store
        self._store: SessionStore | None = None
        self._report = report
        self._watchers: dict[object, Watcher] = {}

    def watch(self, watcher: Watcher) -> Disposer:
        """Show every event to `watcher` as it happens, text deltas too; returns an idempotent disposer.

        Unlike an `observe` implementation a watcher is part of the program: what it raises stops the run.
        """
        key = object()
        self._watchers[key] = watcher

        def dispose() -> None:
            self._watchers.pop(key, None)

        return dispose

    async def store(self) -> SessionStore:
        """Return where sessions are kept; it is opened once.

        Raises:
            PegboardError: it can't be had.
        """
        if self._store is None:
            self._store = await self._open_store()
        return self._store

    async def record(
        self, session: Session, scope: Scope, events: Sequence[Event], agent: str = "", *, filtered: bool = False
    ) -> tuple[Sequence[Event], Exception | None]:
        """Filter events unless they are `filtered` already, append them, then tell observers and those who watch.

        Returns the events as they were recorded, and what a watcher raised first. `agent` is the definition's name,
        for the beginning of a draft.

        Raises:
            Conflict: the session went on elsewhere.
            PegboardError: the store could not keep them; then nobody is told.
        """
        if _filtering.get():
            raise UsageError("a filter_entry implementation can't record anything itself")
        store = self._store or await self.store()
        await session.lock.acquire()  # `async with` would be two more coroutines for every event
        try:
            if session.in_doubt:
                await self._resolve_doubt(session, scope, store)
            if session.moved_on:
                raise Conflict(f"session {session.id} went on elsewhere; open it again to go on with it")
            draft = session.last == 0
            begun = (_beginning(session, events, agent), *events) if draft else events
            entries = [Entry(place, event) for place, event in enumerate(begun, session.last + 1)]
            if not filtered and self.filters(scope):
                entries = [await self._filter(entry, scope) for entry in entries]
                events = [entry.event for entry in entries[draft:]]
            session.in_doubt = entries
            try:
                await store.append(session.id, entries, expect=session.last)
            except Conflict:
                session.moved_on = True
                raise
            session.in_doubt = []
            raised = self._tell(session, scope, entries)
        finally:
            session.lock.release()
        return events, raised

    async def catch_up(self, session: Session, scope: Scope) -> None:
        """Follow what another process recorded meanwhile, such as a person's answer."""
        store = self._store or await self.store()
        async with session.lock:
            if session.in_doubt:
                await self._resolve_doubt(session, scope, store)
            if not session.draft:
                self._tell(session, scope, await store.read(session.id, session.last))
                session.moved_on = False

    def filters(self, scope: Scope) -> bool:
        """Whether a pack filters what is recorded there."""
        return bool(self._dispatcher.plan("filter_entry", scope))

    async def filter(self, event: Event, session: Session, scope: Scope) -> Event:
        """Return an event as the filters would leave it, were it recorded next."""
        if not self.filters(scope):
            return event
        return (await self._filter(Entry(session.last + 1, event), scope)).event

    async def _resolve_doubt(self, session: Session, scope: Scope, store: SessionStore) -> None:
        """Find out what became of an append that was interrupted: came through, did not, or somebody else went on."""
        found = list(await store.read(session.id, session.last))
        if found and found != session.in_doubt:
            session.moved_on = True
        else:
            self._tell(session, scope, found)
        session.in_doubt = []

    def _tell(self, session: Session, scope: Scope, entries: Iterable[Entry]) -> Exception | None:
        raised: Exception | None = None
        notify, watched = self._dispatcher.notify, self._watchers
        for entry in entries:
            session.take(entry)
            notify("observe", entry.event, scope)
            if watched:
                raised = raised or self.show(entry.event, entry.id)
        return raised

    async def _filter(self, entry: Entry, scope: Scope) -> Entry:
        token = _filtering.set(True)
        try:
            filtered: Entry = await self._dispatcher.fold("filter_entry", scope, entry, _same_entry)
        except HookFailure as failure:
            self._report(failure)
            told = f"[withheld: {failure.fault.hook} of pack `{failure.fault.pack}` failed]"
            return entry.rewriting(lambda text: told if text else text)
        finally:
            _filtering.reset(token)
        return filtered

    def show(self, event: Event, seq: int) -> Exception | None:
        """Tell those who watch, also of what is not recorded; returns what one of them raised first."""
        raised: Exception | None = None
        for watcher in tuple(self._watchers.values()):
            try:
                watcher(event, seq)
            except Exception as error:
                raised = raised or error
        return raised

    async def keep(self, data: bytes) -> str:
        """Keep bytes with the sessions; returns their key.

        Raises:
            PegboardError: they can't be kept.
        """
        return await (await self.store()).put_blob(data)

    async def kept(self, key: str) -> bytes:
        """Return kept bytes.

        Raises:
            LookupError: there are none under that key.
        """
        return await (await self.store()).get_blob(key)


def _beginning(session: Session, events: Sequence[Event], agent: str) -> SessionStart:
    began = events[0].ts if events else time.time()
    return SessionStart(session.id, 0, began, str(session.directory), agent, session.parent, session.depth)


def _same_entry(entry: Entry, answer: object) -> Entry:
    if not isinstance(answer, Entry):
        raise Misfit(f"{type(answer).__name__}, not Entry or None")
    same = type(answer.event) is type(entry.event) and (answer.id, answer.session) == (entry.id, entry.session)
    if not same or answer.event.run != entry.event.run:
        raise Misfit("another entry; a filter may only change what it was given")
    return answer
