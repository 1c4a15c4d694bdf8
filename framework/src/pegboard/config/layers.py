"""Layers of settings and what they come to; who set what is kept."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pegboard.base.errors import Problem
from pegboard.config.toml_lines import index_lines

if TYPE_CHECKING:
    from pegboard.values.project import Project

Table = dict[str, Any]
KeyPath = tuple[str, ...]


@dataclass(frozen=True)
class Layer:
    """One source of settings.

    `text` is the file's own, to find lines in; `names` maps key paths to variables, `raw` to what these hold.
    """

    kind: str
    where: str
    data: Table
    text: str = ""
    names: Mapping[KeyPath, str] = field(default_factory=dict)
    raw: Mapping[KeyPath, str] = field(default_factory=dict)

    @cached_property
    def _lines(self) -> Mapping[KeyPath, int]:
        return index_lines(self.text)

    def locate(self, path: KeyPath) -> str:
        """Say where this layer sets `path`: `FILE:LINE`, a variable's name, or an option."""
        for length in range(len(path), 0, -1):
            if name := self.names.get(path[:length]):
                return name
        for length in range(len(path) if self.text else 0, 0, -1):
            if line := self._lines.get(path[:length]):
                return f"{self.where}:{line}"
        return self.where

    def at(self, path: KeyPath) -> Any:
        """Return the layer's own value at `path`, or None."""
        value: Any = self.data
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value


@dataclass(frozen=True, slots=True)
class Setting:
    """A value with the layer that decided it."""

    value: Any
    layer: Layer
    path: KeyPath

    @property
    def where(self) -> str:
        """The file and line, variable or option that set the value."""
        return self.layer.locate(self.path)


@dataclass(slots=True)
class ProjectNotes:
    """What packs took of a project's file, and what they refused, noted while they are loaded."""

    taken: set[KeyPath] = field(default_factory=set)
    refused: dict[KeyPath, Problem] = field(default_factory=dict)

    def refuse(self, layer: Layer, path: KeyPath, text: str) -> None:
        """Note that what stands at `path`, or every value in the table there, has no effect."""
        value = layer.at(path)
        for inner in leaves(value, path) if isinstance(value, dict) else (path,):
            self.refused[inner] = Problem(layer.locate(inner), ".".join(inner), text)


@dataclass(frozen=True)
class Config:
    """All layers, weakest first, and what is wrong with them. Tables merge, everything else is replaced.

    `unreadable`: a file could not be read at all. Then nothing may be imported, it may have been switched off there.
    `project` is the directory's own with its files as they were read, `trusted` whether a person said so. `offered`
    is what its file sets of packs and only their narrowing settings may take; `refused` what has no effect at all.
    """

    layers: tuple[Layer, ...] = ()
    problems: tuple[Problem, ...] = ()
    unreadable: bool = False
    project: "Project | None" = None
    trusted: bool = False
    offered: Layer | None = None
    refused: tuple[Problem, ...] = ()
    notes: ProjectNotes = field(default_factory=ProjectNotes, compare=False, repr=False)

    def get(self, *path: str) -> Setting | None:
        """Return the strongest layer's value at `path`, or None if no layer sets it."""
        for layer in reversed(self.layers):
            if (value := layer.at(path)) is not None:
                return Setting(value, layer, path)
        return None

    def table(self, *path: str) -> Table:
        """Return the merged table at `path`; empty if no layer has one."""
        return merge_tables(layer.at(path) for layer in self.layers)

    def tools_off(self) -> dict[str, Setting]:
        """Return the tools that are switched off, each with the setting that did; all layers add up."""
        found: dict[str, Setting] = {}
        for layer in self.layers:
            names = layer.at(("tools", "off"))
            for name in names if isinstance(names, list) else ():
                found.setdefault(str(name), Setting(names, layer, ("tools", "off")))
        return found

    def settings(self) -> Iterator[Setting]:
        """Yield every effective value with its origin, in the order of key paths."""
        for path in sorted(leaves(self.table())):
            if path == ("tools", "off"):
                off = self.tools_off()
                where = ", ".join(dict.fromkeys(setting.where for setting in off.values()))
                yield Setting(list(off), Layer("several", where, {}), path)
            elif setting := self.get(*path):
                yield setting

    def problem(self, path: KeyPath, text: str) -> Problem:
        """Describe a mistake at `path`, with the place that set it or the nearest table that did."""
        for length in range(len(path), 1, -1):
            if setting := self.get(*path[:length]):
                return Problem(setting.where, ".".join(path), text)
            if self.trusted and self.offered and self.offered.at(path[:length]) is not None:
                return Problem(self.offered.locate(path[:length]), ".".join(path), text)
        return Problem("", ".".join(path), text)

    @property
    def ignored(self) -> tuple[Problem, ...]:
        """What the project's file sets without effect; complete once the packs are loaded."""
        found = [*self.refused, *self.notes.refused.values()]
        if self.offered:
            told = NEVER_FROM_A_PROJECT if self.trusted else NOT_TRUSTED
            waiting = (path for path in leaves(self.offered.data) if path not in self.notes.taken)
            found += [
                Problem(self.offered.locate(path), ".".join(path), told)
                for path in waiting
                if path not in self.notes.refused
            ]
        return tuple(sorted(found, key=_line))

    def project_files(self) -> Mapping[str, bytes]:
        """Return the project's files by their names in it, as they were when it was trusted; none before that."""
        return self.project.files if self.project and self.trusted else {}


NOT_TRUSTED = "not trusted yet"
NEVER_FROM_A_PROJECT = "never taken from a project"


def merge_tables(values: "Iterator[Any]") -> Table:
    """Return the tables among `values` as one, later ones over earlier ones; nothing is shared with any."""
    merged: Table = {}
    for value in values:
        if isinstance(value, dict):
            _merge(merged, value)
    return merged


def put(table: Table, path: KeyPath, value: Any) -> bool:
    """Set a value in nested tables; returns whether nothing else stands there."""
    for key in path[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            return False
    if path[-1] in table:
        return False
    table[path[-1]] = value
    return True


def leaves(table: Table, prefix: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the path of every value that is no table."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from leaves(value, (*prefix, key))
        else:
            yield (*prefix, key)


def _merge(into: Table, table: Table) -> None:
    for key, value in table.items():
        if isinstance(value, dict):
            inner = into.get(key)
            into[key] = inner if isinstance(inner, dict) else {}
            _merge(into[key], value)
        else:
            into[key] = value


def _line(problem: Problem) -> tuple[bool, int]:
    line = problem.where.rpartition(":")[2]
    return (False, int(line)) if line.isdecimal() else (True, 0)
