"""The pack under check, in the process that checks it: its metadata, its modules and files, and hosts to try it in."""

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from importlib_metadata import EntryPoint, PathDistribution

from pegboard import Host, Places, Tool
from pegboard.dispatch.plans import marked
from pegboard.packs.discovery import Distribution, discover


@dataclass
class Specimen:
    """A pack, found on the path by the name of its distribution.

    `target` is its object once that is imported, `instance` what is made of it, `tools` what it handed over,
    `registered` what agents had of it, `run_ms` how long the newest run took.
    """

    distribution: str
    declared: bool
    target: Any = None
    instance: Any = None
    tools: tuple[Tool, ...] = ()
    registered: list[Tool] = field(default_factory=list)
    run_ms: float | None = None
    places: Places = field(default_factory=lambda: Places(Path.home() / "config.toml", Path.home() / "state"))

    @cached_property
    def distributions(self) -> tuple[Distribution, ...]:
        """Its distribution first, then those of the packs that it needs."""
        installed = {found.name: found for found in discover()}
        needed = [self.distribution]
        for name in needed:
            requires = installed[name].requires
            needed += [other for other in requires if other in installed and other not in needed]
        return tuple(installed[name] for name in needed)

    @property
    def own(self) -> Distribution:
        """Its own distribution."""
        return self.distributions[0]

    def open(self, *, disable: tuple[str, ...] = (), packs: Mapping[str, object] | None = None) -> Host:
        """Open a host with this pack, the packs it needs, and `packs` beside it; no configuration is read."""
        return self._open(self.distributions, disable, packs)

    def open_without(self) -> Host:
        """Open a host with the packs that it needs, as if it were not installed."""
        return self._open(self.distributions[1:])

    def _open(
        self,
        distributions: Sequence[Distribution],
        disable: tuple[str, ...] = (),
        packs: Mapping[str, object] | None = None,
    ) -> Host:
        return Host.open(
            environ={}, disable=disable, distributions=distributions, packs=packs, places=self.places, require=False
        )

    # -- what it declares

    def entry_points(self, group: str) -> dict[str, str]:
        """Return the entry points of its distribution in one group: name -> object reference."""
        found = PathDistribution(Path(self.own.location)).entry_points
        return {entry.name: entry.value for entry in found.select(group=group)}

    def load(self, reference: str) -> Any:
        """Import what an entry point refers to."""
        return EntryPoint(name=self.name, value=reference, group="pegboard.packs").load()

    @property
    def name(self) -> str:
        """The pack's name, from its entry point."""
        return self.own.pack[0] if self.own.pack else ""

    @property
    def reference(self) -> str:
        """What its entry point refers to."""
        return self.own.pack[1] if self.own.pack else ""

    # -- its code

    @cached_property
    def packages(self) -> tuple[str, ...]:
        """The modules that are its own, each with everything below it; of a shared namespace only its part."""
        references = [self.reference, *self.own.tools.values(), *self.own.commands.values()]
        return tuple(dict.fromkeys(_own_package(reference.partition(":")[0]) for reference in references))

    def is_own(self, module: str) -> bool:
        """Whether a module is the pack's own."""
        return any(module == package or module.startswith(f"{package}.") for package in self.packages)

    @cached_property
    def sources(self) -> tuple[Path, ...]:
        """Its Python files."""
        return tuple(dict.fromkeys(file for package in self.packages for file in _files(package)))

    def modules(self) -> list[ModuleType]:
        """Return its modules that are imported."""
        return [module for name, module in sorted(sys.modules.items()) if self.is_own(name)]

    def classes(self) -> Iterator[type]:
        """Yield the classes that its imported modules define."""
        for module in self.modules():
            yield from (kind for kind in vars(module).values() if _defined_in(kind, module))

    def show(self, file: str | Path, line: int = 0) -> str:
        """Return a place in its code, as short as it can be: `acme_tickets/pack.py:12`."""
        path = Path(file)
        roots = [Path(entry) for entry in sys.path if entry]
        inside = [path.relative_to(root) for root in roots if path.is_relative_to(root)]
        shown = min((str(short) for short in inside), key=len, default=str(path))
        return f"{shown}:{line}" if line else shown

    def place_of(self, thing: Any) -> str:
        """Return where a class, a function or a tool is defined; the pack's reference if that can't be told."""
        thing = thing.body if isinstance(thing, Tool) else thing
        try:
            return self.show(inspect.getsourcefile(thing) or "", inspect.getsourcelines(thing)[1])
        except (OSError, TypeError):
            return self.reference

    def implementations(self, hook: str) -> list[Any]:
        """Return its own bound functions for a hook."""
        return [getattr(self.instance, name) for name, marked_hook, _ in marked(self.instance) if marked_hook == hook]


def _own_package(module: str) -> str:
    """Return the widest package around a module that is nobody else's: namespaces are shared, so is Pegboard."""
    parts = module.split(".")
    if parts[0] == "pegboard":
        return module
    for depth in range(1, len(parts)):
        name = ".".join(parts[:depth])
        spec = find_spec(name)  # imports what is above it: nothing, or namespaces without code
        if spec is not None and spec.origin is not None:
            return name
    return module


def _files(package: str) -> list[Path]:
    try:
        spec = find_spec(package)
    except Exception:  # a parent that can't be imported is told about by the rule `import`
        return []
    if spec is None or spec.origin is None:
        return []
    folders = spec.submodule_search_locations
    return sorted(file for folder in folders for file in Path(folder).rglob("*.py")) if folders else [Path(spec.origin)]


def _defined_in(kind: Any, module: ModuleType) -> bool:
    return isinstance(kind, type) and kind.__module__ == module.__name__
