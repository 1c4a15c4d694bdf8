"""Configuration in layers: built-in, the user's file, the environment, the command line; who set what is kept.

Nothing here imports pydantic or a pack: which packs are switched off must be known before anything of theirs runs.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pegboard.errors import Problem
from pegboard.text import did_you_mean

Table = dict[str, Any]

_TOP_LEVEL: Final = ("agents", "packs")
_PREFIX: Final = "PEGBOARD_"
# Set in processes that Pegboard itself starts; never a setting.
_NOT_SETTINGS: Final = ("PEGBOARD_INSIDE",)
_KEY: Final = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_ASSIGNMENT: Final = re.compile(rf"({_KEY}(?:\s*\.\s*{_KEY})*)\s*=")


@dataclass(frozen=True, slots=True)
class Layer:
    """One source of settings. `text` is the file's own, to find lines in; `names` maps key paths to variables."""

    kind: str
    where: str
    data: Table
    text: str = ""
    names: Mapping[tuple[str, ...], str] = field(default_factory=dict)

    def locate(self, path: tuple[str, ...]) -> str:
        """Say where this layer sets `path`: `FILE:LINE`, a variable's name, or an option."""
        if name := self.names.get(path):
            return name
        line = _find_line(self.text, path) if self.text else None
        return f"{self.where}:{line}" if line else self.where


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
    """All layers, weakest first, and what is wrong with them. Tables merge, everything else is replaced."""

    layers: tuple[Layer, ...] = ()
    problems: tuple[Problem, ...] = ()

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
        for length in range(len(path), 0, -1):
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
    known = {*packs, *(name for layer in layers for name in _tables(layer.data, "packs"))}
    agents = {"main", *(name for layer in layers for name in _tables(layer.data, "agents"))}
    layers.append(_read_environment(environ, {"packs": known, "agents": agents}, problems))
    layers.append(Layer("command line", "--disable", {"packs": {name: {"enabled": False} for name in disable}}))
    config = Config(tuple(layers))
    problems.extend(_structural_problems(config))
    return Config(config.layers, tuple(problems))


def _read_file(path: Path, problems: list[Problem]) -> Layer | None:
    try:
        text = path.read_bytes().decode("utf-8-sig")
        return Layer("user file", str(path), tomllib.loads(text.replace("\r\n", "\n")), text)
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(Problem(str(path), "", f"can't be read: {error.strerror}"))
    except UnicodeDecodeError as error:
        problems.append(Problem(str(path), "", f"is not UTF-8 (byte {error.start}); save it as UTF-8"))
    except tomllib.TOMLDecodeError as error:
        found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error))
        where, text = (f"{path}:{found[2]}", found[1]) if found else (str(path), str(error))
        problems.append(Problem(where, "", f"is not valid TOML: {text}"))
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
            examples = [f"{_PREFIX}{group.upper()}_{_upper(name)}" for group in known for name in known[group]]
            near = did_you_mean("_".join(variable.split("_")[:3]), examples)
            problems.append(Problem("environment", variable, f"is no known setting{near}"))
            continue
        names[path] = variable
        table = data
        for key in path[:-1]:
            table = table.setdefault(key, {})
        table[path[-1]] = _variable_value(environ[variable])
    return Layer("environment", "environment", data, names=names)


def _variable_path(variable: str, known: Mapping[str, set[str]]) -> tuple[str, ...] | None:
    for group, names in known.items():
        for name in sorted(names, key=len, reverse=True):
            start = f"{_PREFIX}{group.upper()}_{_upper(name)}_"
            if variable.startswith(start) and len(variable) > len(start):
                return (group, name, *(key.lower() for key in variable[len(start) :].split("__")))
    return None


def _variable_value(text: str) -> Any:
    """Read true, 30, [1, 2] or {a = 1} as TOML does; anything else is the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _structural_problems(config: Config) -> Iterator[Problem]:
    for layer in config.layers:
        for key, value in layer.data.items():
            if key not in _TOP_LEVEL:
                text = f"no such table{did_you_mean(key, _TOP_LEVEL)}"
                yield Problem(layer.locate((key,)), key, text)
            elif not isinstance(value, dict):
                yield Problem(layer.locate((key,)), key, "must be a table")
            else:
                for name, table in value.items():
                    if not isinstance(table, dict):
                        yield Problem(layer.locate((key, name)), f"{key}.{name}", "must be a table")
                    elif key == "packs":
                        for flag in ("enabled", "required"):
                            if flag in table and not isinstance(table[flag], bool):
                                path = (key, name, flag)
                                yield Problem(layer.locate(path), ".".join(path), "must be true or false")


def _find_line(text: str, path: tuple[str, ...]) -> int | None:
    """Find the line that sets `path` in TOML text; a table's own header if the key itself is not on a line."""
    table: tuple[str, ...] = ()
    best: int | None = None
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if header := re.match(r"\[\[?([^\]]+)\]", stripped):
            table = _split_key(header[1])
            if table == path[: len(table)]:
                best = best or number
        elif setting := _ASSIGNMENT.match(stripped):
            key = table + _split_key(setting[1])
            if key == path:
                return number
            if key == path[: len(key)]:
                best = number
    return best


def _split_key(text: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in re.findall(_KEY, text))


def _merge(into: Table, table: Table) -> None:
    for key, value in table.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = dict(value) if isinstance(value, dict) else value


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
