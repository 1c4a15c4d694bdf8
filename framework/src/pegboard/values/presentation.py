"""What a person is shown of a call before it runs."""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Presentation:
    """A call in a person's terms: what kind of thing it does, a title, the places it concerns, and a diff.

    `locations` are paths or URLs; `diff` is a unified diff without its head, "" if nothing is to be compared.
    """

    kind: Literal["read", "edit", "delete", "move", "search", "execute", "fetch", "other"]
    title: str
    locations: tuple[str, ...] = ()
    diff: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON data."""
        return {"kind": self.kind, "title": self.title, "locations": list(self.locations), "diff": self.diff}
