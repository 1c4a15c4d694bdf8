"""What a server says that its tools are: each definition held to what a tool needs, before anybody else reads it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pegboard import foreign_name, one_line

from pegboard_mcp.plain import MAX_DEPTH, measure

MAX_PAGES: Final = 100
MAX_TOOLS: Final = 1_000
MAX_NAME: Final = 128
MAX_DESCRIPTION: Final = 20_000
MAX_DEFINITION: Final = 200_000
MAX_DEFINITIONS: Final = 4_000_000
_MAX_DROPPED: Final = 200
_READ: Final = ("description", "inputSchema", "outputSchema", "annotations")


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool as its server defines it. The annotations are the server's own word: they are shown, and grant nothing."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    output: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return all of it, as it is kept to tell what changed."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.parameters,
            "outputSchema": self.output,
            "annotations": self.annotations,
        }

    @property
    def hash(self) -> str:
        """SHA-256, in hex, of all of it."""
        return hashlib.sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Dropped:
    """A tool that is not offered, and why."""

    name: str
    reason: str


class Listing:
    """One walk over the pages of `tools/list`: what was kept, by name, and what was dropped."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._names: dict[str, str] = {}
        self._more = 0
        self._size = 0
        self.kept: dict[str, Definition] = {}
        self.dropped: list[Dropped] = []

    def page(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Take the definitions of a page; returns the page with no more in it than the SDK needs and can't refuse."""
        tools = result.get("tools")
        if not isinstance(tools, list):
            self.drop("", "`tools/list` was answered without a list of tools")
        before = set(self.kept)
        for raw in tools if isinstance(tools, list) else ():
            self._take(raw)
        taken = [self._bare(one) for name, one in self.kept.items() if name not in before]
        kept = {key: value for key, value in result.items() if key not in ("tools", "nextCursor")}
        cursor = result.get("nextCursor")
        if cursor is not None and not isinstance(cursor, str):
            self.drop("", "the cursor to its next page is no text, so later pages are not read")
        return {**kept, "tools": taken, **({"nextCursor": cursor} if isinstance(cursor, str) else {})}

    def drop(self, name: str, reason: str) -> None:
        """Note what is not offered; of very many the last ones are only counted."""
        if len(self.dropped) < _MAX_DROPPED:
            self.dropped.append(Dropped(one_line(name, 80) or "(no name)", reason))
        else:
            self._more += 1
            self.dropped[-1] = Dropped("(others)", f"{self._more + 1:,} more were dropped")

    def keep_only(self, names: set[str]) -> None:
        """Drop what the SDK left out, which it does only for header annotations that the protocol forbids."""
        for name in [name for name in self.kept if name not in names]:
            del self.kept[name]
            self.drop(name, "its `x-mcp-header` annotations are not what the protocol allows")

    def _take(self, raw: Any) -> None:
        name = raw.get("name") if isinstance(raw, dict) else None
        reason = self._fault(raw)
        if reason is None and len(self.kept) >= MAX_TOOLS:
            reason = f"the server has more than {MAX_TOOLS:,} tools"
        if reason is not None:
            self.drop(name if isinstance(name, str) else "", reason)
            return
        self._names[foreign_name(self._server, raw["name"])] = raw["name"]
        self.kept[raw["name"]] = Definition(
            raw["name"],
            raw.get("description")
            or raw.get("title")
            or f"`{raw['name']}` of server `{self._server}`, which does not describe it.",
            raw["inputSchema"],
            raw.get("outputSchema"),
            raw["annotations"] if isinstance(raw.get("annotations"), dict) else {},
        )

    def _fault(self, raw: Any) -> str | None:
        """Return what is wrong with a definition, apart from what its schemas say."""
        if not isinstance(raw, dict):
            return "it is no object"
        name = raw.get("name")
        if not isinstance(name, str) or not name.strip():
            return "it has no name"
        if len(name) > MAX_NAME:
            return f"its name is longer than {MAX_NAME} characters"
        if name in self.kept:
            return "there is one of that name already; the first counts"
        if (other := self._names.get(foreign_name(self._server, name))) is not None:
            return f"its name can't be told from that of `{one_line(other, 80)}`"
        if any(not isinstance(raw.get(key), str | None) for key in ("description", "title")):
            return "its description is no text"
        if len(raw.get("description") or "") > MAX_DESCRIPTION:
            return f"its description is longer than {MAX_DESCRIPTION:,} characters"
        return _fault_of_schemas(raw) or self._fault_of_size(raw)

    def _fault_of_size(self, raw: dict[str, Any]) -> str | None:
        size = len(json.dumps([raw.get(key) for key in _READ]))
        if size > MAX_DEFINITION:
            return f"it is larger than {MAX_DEFINITION:,} characters"
        self._size += size
        if self._size > MAX_DEFINITIONS:
            return f"the definitions before it are larger than {MAX_DEFINITIONS:,} characters in all"
        return None

    def _bare(self, one: Definition) -> dict[str, Any]:
        return {"name": one.name, "description": one.description, "inputSchema": one.parameters}


def _fault_of_schemas(raw: dict[str, Any]) -> str | None:
    schema = raw.get("inputSchema")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return 'its `inputSchema` is no JSON Schema whose type is "object"'
    if not isinstance(raw.get("outputSchema"), dict | None):
        return "its `outputSchema` is no object"
    if any(measure(raw.get(key))[0] > MAX_DEPTH for key in _READ):
        return "it is nested too deeply"
    return None
