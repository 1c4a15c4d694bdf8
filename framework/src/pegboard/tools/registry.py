"""Which tools there are, which of them an agent sees, and what one run may see and execute, fixed and hashed."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from pegboard.base.errors import UsageError
from pegboard.base.isolation import describe
from pegboard.base.scopes import Disposer, Layered, Scope
from pegboard.base.text import did_you_mean
from pegboard.tools.snapshot import Offered, Restriction, ToolFilters, ToolView, _owner
from pegboard.values.tool import Tool


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
        filtering = ToolFilters({**inherited, **ours}, frozenset(ours), filters, self._off)
        return ToolView(filtering.visible(), frozenset(inherited), filtering)


def _tools_of(entries: Iterable[Offered | Restriction]) -> dict[str, Offered]:
    """Return the tools by name; of several the last, which is nearest to whoever looks."""
    return {entry.tool.name: entry for entry in entries if isinstance(entry, Offered)}
