"""Scopes and what they contribute: an identity with one parent, a layer per registry, everything undone with its owner.

The rules are T1 to T7 of the runtime specification. A registry's view is made once and shared until a layer on its
chain changes; versions come from one clock that never repeats, so an old view is never taken for a new one.
"""

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from pegboard.base.errors import Disposed

Disposer = Callable[[], None]

_Entry = TypeVar("_Entry")
_View = TypeVar("_View")


class Scope:
    """An owner of registrations: the host, a pack's share of it, or one agent.

    What is registered through a scope is undone when the scope is disposed, once, newest first (T4).
    """

    __slots__ = ("_effects", "chain", "disposed", "name", "parent", "seen")

    def __init__(self, name: str, parent: "Scope | None" = None) -> None:
        self.name = name
        self.parent = parent
        self.chain: tuple[Scope, ...] = (*parent.chain, self) if parent else (self,)
        self.disposed = False
        self._effects: dict[object, Disposer] = {}
        # What the scope last saw of each registry, with the registry's version then.
        self.seen: dict[object, tuple[int, Any]] = {}

    def __repr__(self) -> str:
        return f"<Scope {self.name}>"

    def check(self) -> None:
        """Raise unless the scope is alive.

        Raises:
            Disposed: nothing can be registered through it any more.
        """
        if self.disposed:
            raise Disposed(f"{self.name} was disposed; nothing can be registered through it")

    def effect(self, undo: Disposer) -> Disposer:
        """Own something: `undo` runs once, when the returned disposer is called or the scope is disposed.

        Raises:
            Disposed: the scope is gone; `undo` is not kept.
        """
        self.check()
        key = object()
        self._effects[key] = undo

        def dispose() -> None:
            if key in self._effects:
                self._effects.pop(key)()

        return dispose

    def dispose(self) -> None:
        """Undo everything, newest first, even if some of it raises; the first error is raised at the end."""
        self.disposed = True
        raised: BaseException | None = None
        while self._effects:
            try:
                self._effects.popitem()[1]()
            except BaseException as error:
                raised = raised or error
        if raised is not None:
            raise raised


class _Layer(Generic[_Entry, _View]):
    """What one scope contributed to one registry."""

    __slots__ = ("entries", "version", "views")

    def __init__(self) -> None:
        self.entries: dict[object, _Entry] = {}
        self.version = 0
        # What its own scope sees, and what scopes below without a layer see, each with the versions it was made from.
        self.views: dict[bool, tuple[tuple[int, ...], _View]] = {}


class Layered(Generic[_Entry, _View]):
    """A registry of entries by scope, and the view that each scope has of them.

    `resolve(layers, own)` makes a view from the layers of a whole chain, the farthest first, empty for a scope that
    contributed nothing; `own` tells whether the last one is the viewing scope's. Reading never makes a layer, and an
    empty layer is given up (T1). Scopes without a layer of their own share one view.
    """

    def __init__(self, resolve: Callable[[Sequence[Sequence[_Entry]], bool], _View]) -> None:
        self._resolve = resolve
        self._layers: dict[Scope, _Layer[_Entry, _View]] = {}
        self._clock = itertools.count(1)
        self._version = 0
        self._bare: _View | None = None  # what is seen where nobody has contributed anything
        self._listeners: dict[object, Callable[[], object]] = {}
        self._undo: dict[tuple[Scope, object], Disposer] = {}

    def add(self, scope: Scope, entry: _Entry, name: str | None = None) -> Disposer:
        """Contribute an entry to a scope's layer; returns its idempotent disposer. A `name` must be free there.

        If a listener raises, the entry is taken back and the error raised (T5).

        Raises:
            Disposed: the scope is gone.
        """
        scope.check()
        key = object() if name is None else name
        layer = self._layers.get(scope)
        if layer is None:
            layer = self._layers[scope] = _Layer()
        layer.entries[key] = entry
        try:
            self._touch(layer)
            undo = self._undo[scope, key] = scope.effect(lambda: self._remove(scope, key))  # refused if disposed
        except BaseException:
            with suppress(Exception):
                self._remove(scope, key)
            raise
        return undo

    def _remove(self, scope: Scope, key: object) -> None:
        self._undo.pop((scope, key), None)
        layer = self._layers[scope]
        del layer.entries[key]
        if not layer.entries:
            del self._layers[scope]
        self._touch(layer)

    def discard(self, unwanted: Callable[[_Entry], bool]) -> None:
        """Take every entry away, in all layers, that `unwanted` names; its disposer does nothing from then on."""
        for scope, layer in list(self._layers.items()):
            for key in [key for key, entry in layer.entries.items() if unwanted(entry)]:
                self._undo[scope, key]()

    def _touch(self, layer: _Layer[_Entry, _View]) -> None:
        """Make the views anew and tell every listener, even if one raises; the first error is raised at the end."""
        layer.version = self._version = next(self._clock)
        raised: Exception | None = None
        for listener in tuple(self._listeners.values()):
            try:
                listener()
            except Exception as error:
                raised = raised or error
        if raised is not None:
            raise raised

    def own(self, scope: Scope) -> tuple[_Entry, ...]:
        """Return what exactly this scope contributed, in order."""
        layer = self._layers.get(scope)
        return tuple(layer.entries.values()) if layer else ()

    def named(self, scope: Scope, name: str) -> _Entry | None:
        """Return what exactly this scope contributed under a name."""
        layer = self._layers.get(scope)
        return layer.entries.get(name) if layer else None

    def view(self, scope: Scope) -> _View:
        """Return what the scope sees; the same object until something on its chain changes."""
        seen = scope.seen.get(self)
        if seen is not None and seen[0] == self._version:
            known: _View = seen[1]
            return known
        nearest, own = scope, True
        while nearest.parent is not None and nearest not in self._layers:
            nearest, own = nearest.parent, False
        own = own or nearest.parent is None  # nobody is below the root's own layer: all share its view
        view = self._current_view(nearest, own)
        scope.seen[self] = (self._version, view)
        return view

    def _current_view(self, scope: Scope, own: bool) -> _View:
        nearest = self._layers.get(scope)
        if nearest is None:
            if self._bare is None:
                self._bare = self._resolve((), False)
            return self._bare
        layers = [self._layers.get(above) for above in scope.chain]
        stamp = tuple(layer.version if layer else 0 for layer in layers)
        known = nearest.views.get(own)
        if known is None or known[0] != stamp:
            known = nearest.views[own] = (
                stamp,
                self._resolve([tuple(layer.entries.values()) if layer else () for layer in layers], own),
            )
        return known[1]

    def on_change(self, listener: Callable[[], object]) -> Disposer:
        """Call `listener` after every change in any layer; returns an idempotent disposer."""
        key = object()
        self._listeners[key] = listener

        def dispose() -> None:
            self._listeners.pop(key, None)

        return dispose

    def __len__(self) -> int:
        return len(self._layers)
