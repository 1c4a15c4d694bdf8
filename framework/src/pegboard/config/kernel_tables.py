"""The shape of the kernel's own tables, checked without pydantic: it must be known before any pack is imported."""

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from pegboard.base.errors import Problem
from pegboard.base.text import did_you_mean
from pegboard.config.layers import Layer, Table

TOP_LEVEL: Final = ("agents", "packs", "tools", "hooks", "interactions")
# What a pack's table holds beside the pack's own settings.
OWN_KEYS: Final = ("enabled", "required")
_KEYS: Final = {"tools": ("off", "owner"), "hooks": ("order",), "interactions": ("front_ends",)}

_Report = Callable[..., Problem]


def shape_problems(layer: Layer, installed: Collection[str]) -> Iterator[Problem]:
    """Yield what no reader of the configuration could make sense of; `installed` are the packs' names."""

    def problem(text: str, *path: str) -> Problem:
        return Problem(layer.locate(path), ".".join(path), text)

    for key, value in layer.data.items():
        if key not in TOP_LEVEL:
            yield problem(f"no such table{did_you_mean(key, TOP_LEVEL)}", key)
        elif not isinstance(value, dict):
            yield problem("must be a table", key)
        elif key in _KEYS:
            yield from _kernel_table(key, value, installed, problem)
        else:
            yield from _named_tables(key, value, problem)


def _named_tables(key: str, tables: Table, problem: _Report) -> Iterator[Problem]:
    for name, table in tables.items():
        if (key, name) == ("packs", "default"):
            if table not in ("on", "off"):
                yield problem('must be "on" or "off"', key, name)
        elif not isinstance(table, dict):
            yield problem("must be a table", key, name)
        else:
            for flag in OWN_KEYS if key == "packs" else ():
                if flag in table and not isinstance(table[flag], bool):
                    yield problem("must be true or false", key, name, flag)


def _kernel_table(key: str, table: Table, installed: Collection[str], problem: _Report) -> Iterator[Problem]:
    for name, value in table.items():
        match key, name, value:
            case ("tools", "off", _):
                yield from _names(value, None, problem, key, name)
            case ("interactions", "front_ends", _):
                yield from _names(value, installed, problem, key, name)
            case ("tools", "owner", dict()):
                for tool, pack in value.items():
                    yield from _names([pack], installed, problem, key, name, tool)
            case ("hooks", "order", dict()):
                for hook, order in value.items():
                    yield from _names(order, {*installed, "*"}, problem, key, name, hook)
            case _ if name in _KEYS[key]:
                yield problem("must be a table", key, name)
            case _:
                yield problem(f"no such setting{did_you_mean(name, _KEYS[key])}", key, name)


def _names(value: Any, known: Collection[str] | None, problem: _Report, *path: str) -> Iterator[Problem]:
    if not isinstance(value, list):
        yield problem('must be a list of names, such as ["one", "other"]', *path)
        return
    for index, name in enumerate(value):
        if not isinstance(name, str):
            yield problem(f"{name!r} is no name; a name is a text", *path)
        elif known is not None and name not in known and (near := did_you_mean(name, known)):
            # Without a near one it is a pack that was uninstalled: what is set for it stays, and stops nothing.
            yield problem(f"no pack `{name}` is installed{near}", *path)
        elif name in value[:index] and path[0] == "hooks":
            yield problem(f"names `{name}` twice", *path)
