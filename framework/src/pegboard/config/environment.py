"""Settings from the environment: `PEGBOARD_*` variables as a layer of the configuration."""

from collections.abc import Mapping
from typing import Any, Final

from pegboard.base.errors import Problem
from pegboard.base.text import did_you_mean
from pegboard.config.layers import KeyPath, Layer, Table, put

_PREFIX: Final = "PEGBOARD_"
# Set in processes that Pegboard itself starts; never a setting.
_NOT_SETTINGS: Final = ("PEGBOARD_INSIDE",)
_WHOLE: Final[Mapping[str, KeyPath]] = {
    "PEGBOARD_PACKS_DEFAULT": ("packs", "default"),
    "PEGBOARD_TOOLS_OFF": ("tools", "off"),
    "PEGBOARD_INTERACTIONS_FRONT_ENDS": ("interactions", "front_ends"),
}
_ONE_KEY: Final[Mapping[str, KeyPath]] = {
    "PEGBOARD_TOOLS_OWNER_": ("tools", "owner"),
    "PEGBOARD_HOOKS_ORDER_": ("hooks", "order"),
}
_LISTS: Final = (("tools", "off"), ("interactions", "front_ends"), ("hooks", "order"))


def read_environment(environ: Mapping[str, str], known: Mapping[str, set[str]], problems: list[Problem]) -> Layer:
    """Turn `PEGBOARD_PACKS_<PACK>_<KEY>`, `PEGBOARD_AGENTS_<AGENT>_<KEY>` and the kernel's own into a table.

    `known` are the names of packs and agents. The longest that fits wins, then comes the key; `__` nests.
    """
    data: Table = {}
    names: dict[KeyPath, str] = {}
    for variable in sorted(environ):
        if not variable.startswith(_PREFIX) or variable in _NOT_SETTINGS:
            continue
        path = _path(variable, known)
        if path is None:
            problems.append(Problem("environment", variable, f"is no known setting{_near(variable, known)}"))
        elif not all(path):
            problems.append(Problem("environment", variable, "has an empty key; `__` stands between two keys"))
        elif not put(data, path, _value(environ[variable], path)):
            problems.append(Problem("environment", variable, "contradicts a variable that sets all of its table"))
        else:
            names[path] = variable
    raw = {path: environ[variable] for path, variable in names.items()}
    return Layer("environment", "environment", data, names=names, raw=raw)


def split_names(text: str) -> list[str]:
    """Return the parts of a comma-separated text, without the space around them."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _path(variable: str, known: Mapping[str, set[str]]) -> KeyPath | None:
    if variable in _WHOLE:
        return _WHOLE[variable]
    for start, path in _ONE_KEY.items():
        if variable.startswith(start) and len(variable) > len(start):
            return (*path, variable[len(start) :].lower())
    for group, names in known.items():
        for name in sorted(names, key=len, reverse=True):
            start = f"{_PREFIX}{group.upper()}_{_upper(name)}_"
            if variable.startswith(start) and len(variable) > len(start):
                return (group, name, *(key.lower().strip("_") for key in variable[len(start) :].split("__")))
    return None


def _near(variable: str, known: Mapping[str, set[str]]) -> str:
    import difflib

    if near := difflib.get_close_matches(variable, _WHOLE, n=1, cutoff=0.85):
        return f"; did you mean `{near[0]}`?"
    starts = {f"{_PREFIX}{group.upper()}_{_upper(name)}" for group in known for name in known[group]}
    return did_you_mean("_".join(variable.split("_")[:3]), starts - {variable.rstrip("_")})


def _value(text: str, path: KeyPath) -> Any:
    """Read true, 30, [1, 2] or {a = 1} as TOML does; anything else is the text itself, or a list of names."""
    import tomllib

    try:
        value = tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except (ValueError, RecursionError):
        value = text
    if path[:2] in _LISTS and not isinstance(value, list):
        return split_names(value if isinstance(value, str) else text)
    return value


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")
