"""Which tools there are and who brought them; what one run may see and execute, fixed and hashed."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pegboard.errors import PackFailure
from pegboard.tools import Exposure, Tool

_SHOWN_TO_MODELS: Final[frozenset[Exposure]] = frozenset({"user-configurable", "system-model"})


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool with the pack that brought it."""

    tool: Tool
    pack: str

    def as_json(self) -> dict[str, Any]:
        """The stable shape of `pegboard tools --json`."""
        tool = self.tool
        return {
            "name": tool.name,
            "source": f"pack {self.pack}",
            "pack": self.pack,
            "exposure": tool.exposure,
            "effect": tool.effect,
            "concurrency": tool.concurrency,
            "description": tool.description,
            "parameters": tool.parameters,
            "hash": definition_hash(tool),
        }


class Snapshot:
    """What one run may see and execute (rule 3). Immutable; what is derived from it may be cached by its identity."""

    def __init__(self, offered: Mapping[str, Offered]) -> None:
        self._offered = {name: offered[name] for name in sorted(offered)}
        self.tools: tuple[Tool, ...] = tuple(entry.tool for entry in self._offered.values())

    def get(self, name: str) -> Offered | None:
        """Return the tool of that name, or None: what is not in the snapshot can't be run."""
        return self._offered.get(name)

    @property
    def offered(self) -> tuple[Offered, ...]:
        """Every tool with its pack, by name."""
        return tuple(self._offered.values())

    @cached_property
    def packs(self) -> tuple[str, ...]:
        """The packs that brought at least one tool, by name."""
        return tuple(sorted({entry.pack for entry in self._offered.values()}))

    @cached_property
    def hash(self) -> str:
        """SHA-256 over the definitions in order, as hex."""
        return hashlib.sha256("".join(definition_hash(tool) for tool in self.tools).encode()).hexdigest()


class ToolRegistry:
    """The tools of all active packs. The snapshot made from them is shared until a registration changes."""

    def __init__(self) -> None:
        self._tools: dict[str, Offered] = {}
        self._snapshot: Snapshot | None = None

    def add(self, tool: Tool, pack: str) -> None:
        """Add a pack's tool.

        Raises:
            PackFailure: another tool has the name (rule 4).
        """
        if holder := self._tools.get(tool.name):
            raise PackFailure(f"conflict: tool `{tool.name}` is taken by pack `{holder.pack}`")
        self._tools[tool.name] = Offered(tool, pack)
        self._snapshot = None

    def remove(self, pack: str) -> None:
        """Take away everything that a pack brought."""
        self._tools = {name: entry for name, entry in self._tools.items() if entry.pack != pack}
        self._snapshot = None

    def snapshot(self) -> Snapshot:
        """Return the tools that a model may be offered."""
        if self._snapshot is None:
            shown = {name: entry for name, entry in self._tools.items() if entry.tool.exposure in _SHOWN_TO_MODELS}
            self._snapshot = Snapshot(shown)
        return self._snapshot


def definition_hash(tool: Tool) -> str:
    """Return the SHA-256 of what a model and policy are told about a tool: name, description, parameters, effect."""
    told = [tool.name, tool.description, tool.parameters, tool.effect]
    return hashlib.sha256(json.dumps(told, sort_keys=True, allow_nan=False).encode()).hexdigest()
