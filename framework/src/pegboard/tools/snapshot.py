"""Which tools an agent sees, and what one run may see and execute, fixed and hashed."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from pegboard.values.tool import Exposure, Tool

_SHOWN_TO_MODELS: Final[frozenset[Exposure]] = frozenset({"user-configurable", "system-model"})


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool with the pack that brought it ("" is the program). `granted`: a grant does not take it away."""

    tool: Tool
    pack: str
    granted: bool = False

    @property
    def source(self) -> str:
        """Where the tool comes from, for people."""
        return self.tool.source or (f"pack {self.pack}" if self.pack else "this program")

    @property
    def shown(self) -> bool:
        """Whether its exposure lets a model have it (rule 5)."""
        return self.tool.exposure in _SHOWN_TO_MODELS

    def passes(self, grant: Collection[str] | None) -> bool:
        """Whether a grant leaves it; None leaves everything (rule 13)."""
        return grant is None or self.granted or self.tool.name in grant

    def as_json(self) -> dict[str, Any]:
        """The stable shape of `pegboard tools --json`."""
        tool = self.tool
        return {
            "name": tool.name,
            "source": self.source,
            "pack": self.pack,
            "exposure": tool.exposure,
            "effect": tool.effect,
            "concurrency": tool.concurrency,
            "description": tool.description,
            "parameters": tool.parameters,
            "hash": tool.hash,
        }


@dataclass(frozen=True, slots=True)
class Restriction:
    """A filter over inherited tools: only those in `allow` unless it is None, none of those in `deny` (T17 to T20).

    `pack` made it ("" is the program), for `scope`; the agents below that one have it too.
    """

    allow: frozenset[str] | None
    deny: frozenset[str]
    pack: str = ""
    scope: str = ""

    def admits(self, name: str) -> bool:
        """Whether a tool of that name passes."""
        return (self.allow is None or name in self.allow) and name not in self.deny


@dataclass(frozen=True, slots=True)
class ToolFilters:
    """All tools of a scope before filtering, with the restrictions and the off-list; decides which are visible.

    `own` are those that no restriction reaches. A name that nobody has brought is treated as an inherited tool's.
    """

    known: Mapping[str, Offered] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    filters: tuple[Restriction, ...] = ()
    off: Collection[str] = ()

    def visible(self) -> Mapping[str, Offered]:
        """Return what is not hidden."""
        if not self.filters and not self.off:
            return self.known
        return {name: entry for name, entry in self.known.items() if not (self.restricting(name) or self.is_off(name))}

    def restricting(self, name: str) -> tuple[Restriction, ...]:
        """Return every restriction that hides the name."""
        return () if name in self.own else tuple(one for one in self.filters if not one.admits(name))

    def is_off(self, name: str) -> bool:
        """Whether the configuration hides the name; it reaches user-configurable tools only (rule 5)."""
        if name not in self.off:
            return False
        entry = self.known.get(name)
        return entry is None or entry.tool.exposure == "user-configurable"


class ToolView:
    """The tools that one agent has now (rule 1). Immutable; what is derived from it may be cached by its identity.

    `inherited` are the names that a restriction of its scope may name; `filtering` tells what hides the others.
    """

    def __init__(
        self, tools: Mapping[str, Offered], inherited: Collection[str] = (), filtering: ToolFilters | None = None
    ) -> None:
        self._tools = {name: tools[name] for name in sorted(tools)}
        self.inherited = inherited
        self.filtering = filtering or ToolFilters(self._tools)

    def get(self, name: str) -> Offered | None:
        """Return the tool of that name, or None."""
        return self._tools.get(name)

    @property
    def offered(self) -> tuple[Offered, ...]:
        """Every tool with its pack, by name."""
        return tuple(self._tools.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools, sorted."""
        return tuple(self._tools)

    def why_gone(self, name: str, tool: Tool | None) -> str | None:
        """Return why a tool that was there is not any more; None if it still is."""
        if (entry := self._tools.get(name)) is not None:
            return None if entry.tool is tool else f"{_named(entry.pack)} brought another tool of its name"
        if name not in self.filtering.known:
            return "whoever brought it took it away"
        for restriction in self.filtering.restricting(name):
            return f"a restriction of {_named(restriction.pack)} hides it"
        return "the configuration switches it off" if self.filtering.is_off(name) else "a grant leaves it out"

    def granting(self, names: Collection[str]) -> "ToolView":
        """Return the view that is left of this one under a grant."""
        kept = {name: entry for name, entry in self._tools.items() if entry.passes(names)}
        return ToolView(kept, self.inherited, self.filtering)

    @cached_property
    def snapshot(self) -> "Snapshot":
        """Everything of it that a model may be offered, without a prompt."""
        return Snapshot(tuple(entry for entry in self._tools.values() if entry.shown))


class Snapshot:
    """What one run may see and execute (rule 3). Immutable; what is derived from it may be cached by its identity."""

    def __init__(self, offered: tuple[Offered, ...], prompt: str = "", base: "Snapshot | None" = None) -> None:
        self.offered = offered
        self.prompt = prompt
        self.base = base
        same = base is not None and base.offered is offered
        self.tools: tuple[Tool, ...] = base.tools if base and same else tuple(entry.tool for entry in offered)
        self._by_name: dict[str, Offered] = (
            base._by_name if base and same else {entry.tool.name: entry for entry in offered}
        )

    def with_prompt(self, prompt: str, names: Sequence[str]) -> "Snapshot":
        """Return the snapshot with a prompt, and without the tools that are not among `names`."""
        kept = frozenset(names)
        if len(kept) == len(self.tools):
            return Snapshot(self.offered, prompt, self)
        return Snapshot(tuple(entry for entry in self.offered if entry.tool.name in kept), prompt, self)

    def get(self, name: str) -> Offered | None:
        """Return the tool of that name, or None: what is not in the snapshot can't be run."""
        return self._by_name.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools, sorted."""
        return tuple(self._by_name)

    @cached_property
    def packs(self) -> tuple[str, ...]:
        """The packs that brought at least one tool, by name."""
        return tuple(sorted({entry.pack for entry in self.offered if entry.pack}))

    @cached_property
    def hash(self) -> str:
        """SHA-256, in hex, over the prompt and the definitions in order, with whose they are."""
        if self.base is not None and self.base.offered is self.offered:
            tools = self.base.hash
        else:
            told = "".join(
                f"{entry.pack} {entry.tool.exposure} {entry.tool.concurrency} {entry.tool.hash}\n"
                for entry in self.offered
            )
            tools = hashlib.sha256(told.encode()).hexdigest()
        if not self.prompt:
            return tools
        return hashlib.sha256(tools.encode() + self.prompt.encode("utf-8", "surrogatepass")).hexdigest()

    @cached_property
    def definitions(self) -> bytes:
        """The whole definitions, the JSON of `pegboard tools --json`: what is kept of a snapshot besides its record."""
        if self.base is not None and self.base.offered is self.offered:
            return self.base.definitions
        return json.dumps([entry.as_json() for entry in self.offered], sort_keys=True).encode()

    def as_json(self) -> list[dict[str, Any]]:
        """What is recorded of the tools: name, source, effect and definition hash of each."""
        return [
            {"name": entry.tool.name, "pack": entry.pack, "effect": entry.tool.effect, "hash": entry.tool.hash}
            for entry in self.offered
        ]


def _named(pack: str) -> str:
    return f"pack `{pack}`" if pack else "this program"
