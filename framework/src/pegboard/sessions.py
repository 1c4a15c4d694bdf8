"""A session: one identity with one directory, its transcript and the record of what happened."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pegboard.dispatch import Dispatcher
from pegboard.errors import UsageError
from pegboard.events import Event
from pegboard.messages import Message


@dataclass(slots=True)
class Session:
    """Kept in memory. `messages` and `events` only ever grow; `directory` is real and never changes."""

    id: str
    directory: Path
    messages: list[Message] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    runs: int = 0

    @classmethod
    def new(cls, directory: Path) -> "Session":
        """Begin a session in an existing directory.

        Raises:
            UsageError: the directory is missing or can't be entered.
        """
        try:
            real = directory.resolve(strict=True)
            if not real.is_dir():
                raise UsageError(f"{directory} is not a directory; a session needs one to work in")
            next(real.iterdir(), None)
        except OSError as error:
            raise UsageError(f"the directory {directory} can't be read: {error.strerror}") from None
        return cls(secrets.token_hex(4), real)


Listener = Callable[[Event], object]


class Recorder:
    """The one place where events are appended to a session and shown to those who watch."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Show every event to `listener` as it happens, text deltas too; returns an idempotent disposer.

        Unlike an `observe` implementation a listener is part of the program: what it raises stops the run.
        """
        self._listeners.append(listener)

        def dispose() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return dispose

    def record(self, session: Session, event: Event) -> None:
        """Append an event to the session, then tell observers and listeners."""
        session.events.append(event)
        self._dispatcher.notify("observe", event)
        self.show(event)

    def show(self, event: Event) -> None:
        """Tell listeners of something that is not recorded: a text delta."""
        for listener in self._listeners:
            listener(event)
