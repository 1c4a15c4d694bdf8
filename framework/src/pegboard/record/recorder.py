"""The one place where entries are filtered, appended to a session's record, and shown to those who watch."""

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar

from pegboard.base.errors import Conflict, UsageError
from pegboard.base.scopes import Disposer, Scope
from pegboard.dispatch.dispatcher import Dispatcher, HookFailure, Misfit
from pegboard.record.session import Session
from pegboard.record.stores import SessionStore
from pegboard.values.entries import Entry
from pegboard.values.events import (
    Event,
    SessionStart,
)

# Set while a filter runs: it holds the session's lock, so recording from there would wait for ever.
_filtering: ContextVar[bool] = ContextVar("pegboard_filtering", default=False)


Listener = Callable[[Event], object]


# Gets every event with the id of its entry; of what is only shown, the id of the last one before it.
Follower = Callable[[Event, int], object]


class Recorder:
    """The one place where entries are filtered, appended to a session's record, and shown to those who watch."""

    def __init__(self, dispatcher: Dispatcher, report: Callable[[HookFailure], object]) -> None:
        self._dispatcher = dispatcher
        self._report = report
        self._listeners: dict[object, Listener] = {}
        self._followers: dict[object, Follower] = {}

    def listen(self, listener: Listener) -> Disposer:
        """Show every event to `listener` as it happens, text deltas too; returns an idempotent disposer.

        Unlike an `observe` implementation a listener is part of the program: what it raises stops the run.
        """
        key = object()
        self._listeners[key] = listener
        return lambda: void(self._listeners.pop(key, None))

    def follow(self, follower: Follower) -> Disposer:
        """The same for those that need the place in the record; a follower never raises."""
        key = object()
        self._followers[key] = follower
        return lambda: void(self._followers.pop(key, None))

    async def record(
        self, session: Session, scope: Scope, store: SessionStore, events: Sequence[Event], agent: str = ""
    ) -> tuple[list[Event], Exception | None]:
        """Filter events, append them, then tell observers and listeners.

        Returns the events as they were recorded, and what a listener raised first.

        Raises:
            Conflict: the session went on elsewhere.
            PegboardError: the store could not keep them; then nobody is told.
        """
        if _filtering.get():
            raise UsageError("a filter_entry implementation can't record anything itself")
        await session.lock.acquire()  # `async with` would be two more coroutines for every event
        try:
            if session.in_doubt:
                await self._resolve_doubt(session, scope, store)
            if session.moved_on:
                raise Conflict(f"session {session.id} went on elsewhere; open it again to go on with it")
            if session.last == 0:  # a draft
                began = events[0].ts if events else _now()
                start = SessionStart(session.id, 0, began, str(session.directory), agent, session.parent, session.depth)
                events = (start, *events)
            entries = [Entry(place, event) for place, event in enumerate(events, session.last + 1)]
            filtered = bool(self._dispatcher.plan("filter_entry", scope))
            if filtered:
                entries = [await self._filter(entry, scope) for entry in entries]
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
        return [entry.event for entry in entries] if filtered else list(events), raised

    async def catch_up(self, session: Session, scope: Scope, store: SessionStore) -> None:
        """Follow what another process recorded meanwhile, such as a person's answer."""
        async with session.lock:
            if session.in_doubt:
                await self._resolve_doubt(session, scope, store)
            if not session.draft:
                self._tell(session, scope, await store.read(session.id, session.last))
                session.moved_on = False

    async def filter(self, event: Event, session: Session, scope: Scope) -> Event:
        """Return an event as the filters would leave it, were it recorded next."""
        if not self._dispatcher.plan("filter_entry", scope):
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
        watched = self._followers or self._listeners
        for entry in entries:
            session.take(entry)
            self._dispatcher.notify("observe", entry.event, scope)
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
        """Tell followers and listeners, also of what is not recorded; returns what a listener raised first."""
        for follower in tuple(self._followers.values()):
            follower(event, seq)
        if not self._listeners:
            return None
        raised: Exception | None = None
        for listener in tuple(self._listeners.values()):
            try:
                listener(event)
            except Exception as error:
                raised = raised or error
        return raised


def _same_entry(entry: Entry, answer: object) -> Entry:
    if not isinstance(answer, Entry):
        raise Misfit(f"{type(answer).__name__}, not Entry or None")
    same = type(answer.event) is type(entry.event) and (answer.id, answer.session) == (entry.id, entry.session)
    if not same or answer.event.run != entry.event.run:
        raise Misfit("another entry; a filter may only change what it was given")
    return answer


def void(_value: object) -> None:
    """Let a lambda return nothing."""


def _now() -> float:
    import time

    return time.time()
