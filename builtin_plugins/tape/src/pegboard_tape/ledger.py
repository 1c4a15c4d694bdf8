"""A session's messages with the entries they come from, followed as the record grows.

The transcript itself is the kernel's fold, so results stand in the order of their calls here as well.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import Any

from pegboard import AssistantMessage, Entry, Event, Message, ToolResult, UserMessage
from pegboard.events import Returned, RunStart
from pegboard.folds import Messages

from pegboard_tape.anchors import Checkpoint, checkpoint_of
from pegboard_tape.facts import RETRACTED, corrected

_PER_MESSAGE = 4  # tokens that a provider spends on the frame of a message


@dataclass(frozen=True, slots=True)
class Part:
    """One message as it may be sent: `entry` is where it is recorded, `tokens` about what it costs."""

    entry: int
    message: Message
    tokens: int
    digest: bytes

    @classmethod
    def of(cls, entry: int, message: Message) -> "Part":
        """Measure a message."""
        told = _told(message)
        return cls(
            entry, message, estimate(told) + _PER_MESSAGE, hashlib.sha256(told.encode("utf-8", "replace")).digest()
        )


class Ledger:
    """Follows one session, from an entry on. `last` is the newest entry that it knows, `turn` the one where the turn
    under way began: what is later is never given up. `first` and `newest` are the entries of the first and the last
    message so far, `tokens` what all of them cost.
    """

    def __init__(self, first: int = 1) -> None:
        self.last = first - 1
        self.turn = self.first = self.newest = self.tokens = 0
        self.checkpoint: Checkpoint | None = None
        self._messages = Messages()
        self._parts: list[Part] = []
        self._results: dict[str, int] = {}
        self._corrections: dict[int, Event] = {}
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str:
        """What stands for all messages so far."""
        return self._digest.hexdigest()

    def take(self, entries: Iterable[Entry]) -> None:
        """Follow the record."""
        for entry in entries:
            self._take(entry)

    def parts(self) -> list[Part]:
        """Return the messages since the checkpoint's cursor, corrected."""
        parts = list(dropwhile(lambda part: isinstance(part.message, ToolResult), self._parts))  # calls lie before
        return _corrected(parts, self._corrections) if self._corrections else parts

    @property
    def is_plain(self) -> bool:
        """Whether the parts are the whole transcript: nothing was summed up, and nothing corrected."""
        return self.checkpoint is None and not self._corrections

    def _take(self, entry: Entry) -> None:
        event = entry.event
        self.last = entry.id
        if checkpoint := checkpoint_of(entry):
            self.checkpoint = checkpoint
            self._parts = [part for part in self._parts if part.entry >= checkpoint.cursor]
        if isinstance(event, RunStart) and not event.resumes:
            self.turn = entry.id
        if isinstance(event, Returned):
            self._results[event.id] = entry.id
        if (target := corrected(event)) is not None:
            self._corrections[target] = event
        self._messages.take(event)
        for message in self._messages.all:
            source = self._results.get(message.call_id, entry.id) if isinstance(message, ToolResult) else entry.id
            self._add(Part.of(source, message))
        self._messages.all.clear()

    def _add(self, part: Part) -> None:
        self._parts.append(part)
        self._digest.update(part.digest)
        self.tokens += part.tokens
        self.first, self.newest = self.first or part.entry, part.entry


def estimate(text: str) -> int:
    """Return about how many tokens a text is: a quarter of its bytes, which is near enough in any script."""
    return len(text.encode("utf-8", "replace")) // 4 + 1


def _told(message: Message) -> str:
    match message:
        case AssistantMessage(text, calls):
            return text if not calls else json.dumps([text, [[call.name, call.arguments] for call in calls]])
        case ToolResult():
            return message.content
        case UserMessage(text):
            return text


def _corrected(parts: Iterable[Part], corrections: dict[int, Any]) -> list[Part]:
    """Return the parts without what was retracted, with what was revised in its place."""
    told: list[Part] = []
    gone: set[str] = set()
    for part in parts:
        message, correction = part.message, corrections.get(part.entry)
        if isinstance(message, AssistantMessage):
            gone -= {call.id for call in message.calls}  # ids are used again
        if isinstance(message, ToolResult):
            if message.call_id not in gone:
                told.append(part)
        elif correction is None:
            told.append(part)
        elif correction.name == RETRACTED:
            gone |= {call.id for call in message.calls} if isinstance(message, AssistantMessage) else set()
        else:
            told.append(Part.of(part.entry, replace(message, text=correction.data["text"])))
    return told
