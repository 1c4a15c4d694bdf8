"""One line of a session's record: an event with its place in it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pegboard.base.slotted import direct_init
from pegboard.values.events import Event, event_from_json


@direct_init
@dataclass(frozen=True, slots=True)
class Entry:
    """An event with its `id` in the session's record: dense, from 1."""

    id: int
    event: Event

    @property
    def session(self) -> str:
        """The session whose record this is part of."""
        return self.event.session

    def rewriting(self, change: Callable[[str], str]) -> "Entry":
        """Return the entry with `change` applied to every free text in it: what `filter_entry` is for."""
        return replace(self, event=self.event.rewriting(change))

    def as_json(self) -> dict[str, Any]:
        """The event's JSON shape with the entry's id before it, as `seq`: some events have an `id` of their own."""
        return {"seq": self.id, **self.event.as_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Entry":
        """Read an entry back.

        Raises:
            ValueError: it is none.
        """
        identity = data.get("seq")
        if not isinstance(identity, int) or isinstance(identity, bool) or identity < 1:
            raise ValueError(f"no entry: its seq is {identity!r}")
        return cls(identity, event_from_json({key: value for key, value in data.items() if key != "seq"}))
