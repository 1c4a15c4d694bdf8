"""A session: one identity with one directory, and what its record has come to so far."""

import asyncio
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from pathlib import Path

from pegboard.dispatch import Dispatcher, HookFailure, Misfit
from pegboard.entries import Entry
from pegboard.errors import Conflict, UsageError
from pegboard.events import (
    Asked,
    Event,
    Returned,
    RunEnd,
    RunStart,
    SessionStart,
    SnapshotTaken,
    StepEnd,
    output_name,
)
from pegboard.folds import Messages
from pegboard.messages import Message, Usage
from pegboard.scopes import Disposer, Scope
from pegboard.stores import SessionStore


class Session:
    """One live session. `messages` only ever grows; `directory` is real and never changes.

    `paused`: its last run waits for a person; `open_run` is the number of the one under way, or 0. `outputs` are the
    keys of what was kept whole, by the names that models know; `usage` is what its runs have used. A session is a
    draft, known to nobody else, until something of it is recorded.
    """

    __slots__ = (
        *("_directory", "_id", "_transcript", "asked", "depth", "in_doubt", "last", "lock"),
        *("moved_on", "open_run", "outputs", "parent", "paused", "runs", "snapshot_hash", "usage"),
    )

    def __init__(self, id_: str, directory: Path, *, parent: str | None = None, depth: int = 0) -> None:
        self._id = id_
        self._directory = directory
        self.parent = parent
        self.depth = depth
        self._transcript = Messages()
        self.last = self.runs = self.asked = self.open_run = 0
        self.snapshot_hash = ""
        self.paused = False
        self.outputs: dict[str, str] = {}
        self.usage = Usage()
        self.lock = asyncio.Lock()
        # What was being appended when it was interrupted, and may have come through; and whether it is another's now.
        self.in_doubt: list[Entry] = []
        self.moved_on = False

    def __repr__(self) -> str:
        return f"<Session {self._id} in {self._directory}>"

    @property
    def id(self) -> str:
        """Lower-case hex."""
        return self._id

    @property
    def directory(self) -> Path:
        """The real directory that the session works in, from its first moment to its last."""
        return self._directory

    @property
    def messages(self) -> list[Message]:
        """The transcript, append-only; the results of a reply stand in the order of its calls."""
        return self._transcript.all

    @property
    def draft(self) -> bool:
        """Whether nothing of it was recorded yet."""
        return self.last == 0

    @classmethod
    def new(cls, directory: Path, *, parent: str | None = None, depth: int = 0) -> "Session":
        """Begin a session in an existing directory.

        Raises:
            UsageError: the directory is missing or can't be entered.
        """
        return cls(secrets.token_hex(4), real_directory(directory), parent=parent, depth=depth)

    def take(self, entry: Entry) -> None:
        """Follow the record by one entry."""
        self.last = entry.id
        event = entry.event
        self._transcript.take(event)
        match event:
            case Returned(output=key) if key:
                self.outputs[output_name(key)] = key
            case StepEnd():
                self.usage += event.usage
            case RunStart():
                self.runs = self.open_run = event.run
                self.paused = False
            case RunEnd():
                self.open_run, self.paused = 0, event.reason == "paused"
            case Asked():
                self.asked = event.id
            case SnapshotTaken():
                self.snapshot_hash = event.hash


def real_directory(directory: Path) -> Path:
    """Return the real path of a directory that can be read.

    Raises:
        UsageError: it is missing, is none, or can't be entered.
    """
    try:
        real = directory.resolve(strict=True)
        if not real.is_dir():
            raise UsageError(f"{directory} is not a directory; a session needs one to work in")
        with os.scandir(real) as entries:  # not iterdir, which reads all of a large directory
            next(entries, None)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, before Python 3.13
        raise UsageError(f"the directory {directory} can't be read: {getattr(error, 'strerror', error)}") from None
    return real


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
