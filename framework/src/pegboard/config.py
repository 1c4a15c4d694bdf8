"""Configuration in layers: built-in, the user's file, the environment, the command line; who set what is kept.

Nothing here imports pydantic or a pack: which packs are switched off must be known before anything of theirs runs.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pegboard.errors import Problem
from pegboard.text import did_you_mean
from pegboard.toml_lines import index_lines

Table = dict[str, Any]

_TOP_LEVEL: Final = ("agents", "packs")
_PREFIX: Final = "PEGBOARD_"
# Set in processes that Pegboard itself starts; never a setting.
_NOT_SETTINGS: Final = ("PEGBOARD_INSIDE",)


@dataclass(frozen=True)
class Layer:
    """One source of settings.

    `text` is the file's own, to find lines in; `names` maps key paths to variables, `raw` to what these hold.
    """

    kind: str
    where: str
    data: Table
    text: str = ""
    names: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    raw: Mapping[tuple[str, ...], str] = field(default_factory=dict)

    @cached_property
    def _lines(self) -> Mapping[tuple[str, ...], int]:
        return index_lines(self.text)

    def locate(self, path: tuple[str, ...]) -> str:
        """Say where this layer sets `path`: `FILE:LINE`, a variable's name, or an option."""
        for length in range(len(path), 0, -1):
            if name := self.names.get(path[:length]):
                return name
        for length in range(len(path) if self.text else 0, 0, -1):
            if line := self._lines.get(path[:length]):
                return f"{self.where}:{line}"
        return self.where


@dataclass(frozen=True, slots=True)
class Setting:
    """A value with the layer that decided it."""

    value: Any
    layer: Layer
    path: tuple[str, ...]

    @property
    def where(self) -> str:
        """The file and line, variable or option that set the value."""
        return self.layer.locate(self.path)


@dataclass(frozen=True)
class Config:
    """All layers, weakest first, and what is wrong with them. Tables merge, everything else is replaced.

    `unreadable`: a file could not be read at all. Then nothing may be imported, it may have been switched off there.
    """

    layers: tuple[Layer, ...] = ()
    problems: tuple[Problem, ...] = ()
    unreadable: bool = False

    def get(self, *path: str) -> Setting | None:
        """Return the strongest layer's value at `path`, or None if no layer sets it."""
        for layer in reversed(self.layers):
            value: Any = layer.data
            for key in path:
                value = value.get(key) if isinstance(value, dict) else None
            if value is not None:
                return Setting(value, layer, path)
        return None

    def table(self, *path: str) -> Table:
        """Return the merged table at `path`; empty if no layer has one."""
        merged: Table = {}
        for layer in self.layers:
            value: Any = layer.data
            for key in path:
                value = value.get(key) if isinstance(value, dict) else None
            if isinstance(value, dict):
                _merge(merged, value)
        return merged

    def settings(self) -> Iterator[Setting]:
        """Yield every effective value with its origin, in the order of key paths."""
        for path in sorted(_leaves(self.table())):
            if setting := self.get(*path):
                yield setting

    def problem(self, path: tuple[str, ...], text: str) -> Problem:
        """Describe a mistake at `path`, with the place that set it or the nearest table that did."""
        for length in range(len(path), 1, -1):
            if setting := self.get(*path[:length]):
                return Problem(setting.where, ".".join(path), text)
        return Problem("", ".".join(path), text)


def user_file() -> Path:
    """Return where the user's own configuration is read from."""
    import platformdirs

    return platformdirs.user_config_path("pegboard", appauthor=False) / "config.toml"


def load_config(packs: Iterable[str], disable: Iterable[str], environ: Mapping[str, str]) -> Config:
    """Read all layers. `packs` are the installed packs' names, `disable` those named by `--disable`.

    Nothing raises for a mistake: all of them are in `problems`, and a layer that can't be read is left out.
    """
    problems: list[Problem] = []
    layers = [layer for layer in [_read_file(user_file(), problems)] if layer]
    unreadable = bool(problems)
    known = {*packs, *(name for layer in layers for name in _tables(layer.data, "packs"))}
    agents = {"main", *(name for layer in layers for name in _tables(layer.data, "agents"))}
    layers.append(_read_environment(environ, {"packs": known, "agents": agents}, problems))
    if off := {name: {"enabled": False} for name in disable}:
        layers.append(Layer("command line", "--disable", {"packs": off}))
    problems.extend(problem for layer in layers for problem in _structural_problems(layer))
    return Config(tuple(layers), tuple(problems), unreadable)


def _read_file(path: Path, problems: list[Problem]) -> Layer | None:
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            problems.append(Problem(str(path), "", "can't be read: it is a pipe, socket or device"))
            return None
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(Problem(str(path), "", f"can't be read: {error.strerror}"))
        return None
    except UnicodeDecodeError as error:
        problems.append(Problem(str(path), "", f"is not UTF-8 (byte {error.start}); save it as UTF-8"))
        return None
    import tomllib  # not before there is something to read

    try:
        return Layer("user file", str(path), tomllib.loads(text), text)
    except RecursionError:
        problems.append(Problem(str(path), "", "is not valid TOML: nested too deeply"))
    except ValueError as error:
        found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error))
        where, told = (f"{path}:{found[2]}", found[1]) if found else (str(path), str(error))
        problems.append(Problem(where, "", f"is not valid TOML: {told}"))
    return None


def _read_environment(environ: Mapping[str, str], known: Mapping[str, set[str]], problems: list[Problem]) -> Layer:
    """Turn `PEGBOARD_PACKS_<PACK>_<KEY>` and `PEGBOARD_AGENTS_<AGENT>_<KEY>` into a table.

    The longest known name wins, then comes the key; `__` nests.
    """
    data: Table = {}
    names: dict[tuple[str, ...], str] = {}
    for variable in sorted(environ):
        if not variable.startswith(_PREFIX) or variable in _NOT_SETTINGS:
            continue
        path = _variable_path(variable, known)
        if path is None:
            groups = {f"{_PREFIX}{group.upper()}_{_upper(name)}" for group in known for name in known[group]}
            near = did_you_mean("_".join(variable.split("_")[:3]), groups - {variable.rstrip("_")})
            problems.append(Problem("environment", variable, f"is no known setting{near}"))
        elif not all(path):
            problems.append(Problem("environment", variable, "has an empty key; `__` stands between two keys"))
        elif not _put(data, path, _variable_value(environ[variable])):
            problems.append(Problem("environment", variable, "contradicts a variable that sets all of its table"))
        else:
            names[path] = variable
    raw = {path: environ[variable] for path, variable in names.items()}
    return Layer("environment", "environment", data, names=names, raw=raw)


def _variable_path(variable: str, known: Mapping[str, set[str]]) -> tuple[str, ...] | None:
    for group, names in known.items():
        for name in sorted(names, key=len, reverse=True):
            start = f"{_PREFIX}{group.upper()}_{_upper(name)}_"
            if variable.startswith(start) and len(variable) > len(start):
                return (group, name, *(key.lower().strip("_") for key in variable[len(start) :].split("__")))
    return None


def _variable_value(text: str) -> Any:
    """Read true, 30, [1, 2] or {a = 1} as TOML does; anything else is the text itself."""
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except (ValueError, RecursionError):
        return text


def _put(table: Table, path: tuple[str, ...], value: Any) -> bool:
    """Set a value in nested tables; returns whether nothing else stands there."""
    for key in path[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            return False
    if path[-1] in table:
        return False
    table[path[-1]] = value
    return True


def _structural_problems(layer: Layer) -> Iterator[Problem]:
    """Yield what no reader of the configuration could make sense of."""

    def problem(text: str, *path: str) -> Problem:
        return Problem(layer.locate(path), ".".join(path), text)

    for key, value in layer.data.items():
        if key not in _TOP_LEVEL:
            yield problem(f"no such table{did_you_mean(key, _TOP_LEVEL)}", key)
            continue
        if not isinstance(value, dict):
            yield problem("must be a table", key)
            continue
        for name, table in value.items():
            if not isinstance(table, dict):
                yield problem("must be a table", key, name)
                continue
            for flag in ("enabled", "required") if key == "packs" else ():
                if flag in table and not isinstance(table[flag], bool):
                    yield problem("must be true or false", key, name, flag)


def _merge(into: Table, table: Table) -> None:
    """Merge a table into another; nothing of it is shared afterwards."""
    for key, value in table.items():
        if isinstance(value, dict):
            inner = into.get(key)
            into[key] = inner if isinstance(inner, dict) else {}
            _merge(into[key], value)
        else:
            into[key] = value


def _leaves(table: Table, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*prefix, key))
        else:
            yield (*prefix, key)


def _tables(data: Table, key: str) -> list[str]:
    value = data.get(key)
    return list(value) if isinstance(value, dict) else []


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")
