"""A session: one identity with one directory, and what its record has come to so far."""

import asyncio
import os
import secrets
from pathlib import Path
from typing import Final

from pegboard.base.errors import UsageError
from pegboard.record.folds import Messages
from pegboard.values.entries import Entry
from pegboard.values.events import (
    Asked,
    Called,
    Returned,
    RunEnd,
    RunStart,
    SnapshotTaken,
    StepEnd,
    StepStart,
    output_name,
)
from pegboard.values.messages import Message, Usage


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
        if type(event) in _PASSED_OVER:
            return
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


# What says nothing of the state of a session, and comes with every step.
_PASSED_OVER: Final = frozenset({StepStart, Called})


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
