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
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, before Python 3.13
            raise UsageError(f"the directory {directory} can't be read: {getattr(error, 'strerror', error)}") from None
        return cls(secrets.token_hex(4), real)


Listener = Callable[[Event], object]


class Recorder:
    """The one place where events are appended to a session and shown to those who watch."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._listeners: dict[object, Listener] = {}

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Show every event to `listener` as it happens, text deltas too; returns an idempotent disposer.

        Unlike an `observe` implementation a listener is part of the program: what it raises stops the run.
        """
        key = object()
        self._listeners[key] = listener

        def dispose() -> None:
            self._listeners.pop(key, None)

        return dispose

    def record(self, session: Session, event: Event) -> Exception | None:
        """Append an event to the session, then tell observers and listeners; returns what a listener raised first."""
        session.events.append(event)
        self._dispatcher.notify("observe", event)
        return self.show(event)

    def show(self, event: Event) -> Exception | None:
        """Tell listeners, also of what is not recorded, a text delta; returns what one of them raised first."""
        if not self._listeners:
            return None
        raised: Exception | None = None
        for listener in tuple(self._listeners.values()):
            try:
                listener(event)
            except Exception as error:
                raised = raised or error
        return raised
