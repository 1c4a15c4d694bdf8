"""Which tools there are, which of them an agent sees, and what one run may see and execute, fixed and hashed."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from pegboard.answers import describe
from pegboard.errors import UsageError
from pegboard.scopes import Disposer, Layered, Scope
from pegboard.text import did_you_mean
from pegboard.tools import Exposure, Tool

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
class Sieve:
    """Every tool that stands in a scope's layers, and what hides some of them: the one place where that is decided.

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

    `inherited` are the names that a restriction of its scope may name; `sieve` tells what hides the others.
    """

    def __init__(
        self, tools: Mapping[str, Offered], inherited: Collection[str] = (), sieve: Sieve | None = None
    ) -> None:
        self._tools = {name: tools[name] for name in sorted(tools)}
        self.inherited = inherited
        self.sieve = sieve or Sieve(self._tools)

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
            return None if entry.tool is tool else f"{_owner(entry)} brought another tool of its name"
        if name not in self.sieve.known:
            return "whoever brought it took it away"
        for restriction in self.sieve.restricting(name):
            return f"a restriction of {_named(restriction.pack)} hides it"
        return "the configuration switches it off" if self.sieve.is_off(name) else "a grant leaves it out"

    def granting(self, names: Collection[str]) -> "ToolView":
        """Return the view that is left of this one under a grant."""
        kept = {name: entry for name, entry in self._tools.items() if entry.passes(names)}
        return ToolView(kept, self.inherited, self.sieve)

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


def _owner(entry: Offered) -> str:
    return _named(entry.pack)


def _named(pack: str) -> str:
    return f"pack `{pack}`" if pack else "this program"


def checked_tool(tool: Tool) -> Tool:
    """Return a tool whose schema a model can be shown; what is no Tool is for `register` to refuse.

    Raises:
        UsageError: its schema can't be made, or is no JSON.
    """
    if not isinstance(tool, Tool):
        return tool
    try:
        tool.hash  # noqa: B018  # made from the schema, once
    except Exception as error:
        raise UsageError(f"tool `{tool.name}` has no schema that can be shown: {describe(error)}") from error
    return tool


class ToolRegistry:
    """All tools and restrictions, by scope; one resolver for schemas, look-up and execution (T12).

    `off` are the names that the configuration switches off, `reserved` names with the pack that they belong to.
    """

    def __init__(self, off: Collection[str] = (), reserved: Mapping[str, str] | None = None) -> None:
        self._off = off
        self.reserved: Mapping[str, str] = reserved or {}
        self._layers: Layered[Offered | Restriction, ToolView] = Layered(self._resolve)
        self.on_change = self._layers.on_change

    def register(self, scope: Scope, tool: Tool, pack: str, *, granted: bool = False) -> Disposer:
        """Add a tool to a scope's layer; returns its idempotent disposer (T7).

        Raises:
            TypeError: it is no Tool.
            UsageError: the layer has a tool of that name, or the name is reserved by another pack (rule 4).
            Disposed: the scope is gone.
        """
        if not isinstance(tool, Tool):
            raise TypeError(f"{type(tool).__name__} is not a Tool; mark the function @tool")
        scope.check()
        if (owner := self.reserved.get(tool.name, pack)) != pack:
            raise UsageError(f"conflict: tool `{tool.name}` is reserved by pack `{owner}`")
        for entry in self._layers.own(scope):
            if isinstance(entry, Offered) and entry.tool.name == tool.name:
                instead = "" if scope.parent else "; to replace it for one agent, use agent.tools.register"
                raise UsageError(f"conflict: tool `{tool.name}` is taken by {_owner(entry)}{instead}")
        return self._layers.add(scope, Offered(tool, pack, granted))

    def restrict(
        self, scope: Scope, allow: Iterable[str] | None, deny: Iterable[str] | None, pack: str = ""
    ) -> Disposer:
        """Hide inherited tools from a scope and those below it; returns its idempotent disposer (T17 to T21).

        Raises:
            UsageError: it is the host's scope, both are missing, or a name is not one of the inherited tools.
            Disposed: the scope is gone.
        """
        if scope.parent is None:
            raise UsageError("only an agent can be restricted; to switch a tool off for all, use [tools] off")
        if allow is None and deny is None:
            raise UsageError("a restriction needs `allow` or `deny`; with neither it would do nothing")
        allowed, denied = (None if allow is None else frozenset(allow)), frozenset(deny or ())
        inherited = self._layers.view(scope).inherited
        own = {entry.tool.name for entry in self._layers.own(scope) if isinstance(entry, Offered)}
        for name in sorted((allowed or frozenset()) | denied):
            if name in own and name not in inherited:
                raise UsageError(f"tool `{name}` is the agent's own; a restriction filters inherited tools only")
            if name not in inherited:
                known = ", ".join(sorted(inherited)) or "(none)"
                raise UsageError(f"there is no inherited tool `{name}`{did_you_mean(name, inherited)}; known: {known}")
        return self._layers.add(scope, Restriction(allowed, denied, pack, scope.name))

    def impose(self, scope: Scope, restriction: Restriction) -> Disposer:
        """Add a parent's restriction to a child's scope, whatever names it has (rule 11)."""
        return self._layers.add(scope, restriction)

    def restrictions(self, scope: Scope) -> tuple[Restriction, ...]:
        """Return what restricts exactly this scope."""
        return tuple(entry for entry in self._layers.own(scope) if isinstance(entry, Restriction))

    def remove(self, pack: str) -> None:
        """Take away everything that a pack brought, on every scope."""
        self._layers.discard(lambda entry: entry.pack == pack)

    def view(self, scope: Scope) -> ToolView:
        """Return the tools that a scope has, before any grant."""
        return self._layers.view(scope)

    def _resolve(self, layers: Sequence[Sequence[Offered | Restriction]], own: bool) -> ToolView:
        above, mine = (layers[:-1], layers[-1]) if own else (layers, ())
        if own and len(layers) == 1:
            above, mine = layers, ()  # the host's view, which scopes without a layer share: all of it is inherited
        inherited = _tools_of(entry for layer in above for entry in layer)
        ours = _tools_of(mine)
        filters = tuple(entry for layer in layers for entry in layer if isinstance(entry, Restriction))
        sieve = Sieve({**inherited, **ours}, frozenset(ours), filters, self._off)
        return ToolView(sieve.visible(), frozenset(inherited), sieve)


def _tools_of(entries: Iterable[Offered | Restriction]) -> dict[str, Offered]:
    """Return the tools by name; of several the last, which is nearest to whoever looks."""
    return {entry.tool.name: entry for entry in entries if isinstance(entry, Offered)}
