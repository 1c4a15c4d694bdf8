"""What a project's file may set: next to nothing before it is trusted, and never what is for the user alone (§3.5)."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pegboard.base.errors import Problem
from pegboard.base.text import count
from pegboard.config.kernel_tables import OWN_KEYS, shape_problems
from pegboard.config.layers import NEVER_FROM_A_PROJECT, NOT_TRUSTED, Config, KeyPath, Layer, Table, leaves, put
from pegboard.config.toml import parse_toml
from pegboard.trust.project import FOLDER, LOCK_FILE
from pegboard.values.project import PROJECT_FILE, Project

# When a run ends as `limit`: model requests, tool calls, seconds.
DEFAULT_LIMITS: Final = {
    "steps": 200,
    "tool_calls": 128,
    "seconds": 3600,
    "parallel": 10,
    "result_chars": 40_000,
    "batch_chars": 200_000,
}
_LEAST: Final = {
    "steps": 1,
    "tool_calls": 0,
    "seconds": 0.001,
    "parallel": 1,
    "result_chars": 1000,
    "batch_chars": 1000,
}


@dataclass(frozen=True, slots=True)
class ProjectPart:
    """What is taken of a project's file as a layer, what is `offered` to narrowing settings, and what is refused."""

    layer: Layer | None = None
    offered: Layer | None = None
    refused: tuple[Problem, ...] = ()
    problems: tuple[Problem, ...] = ()
    unreadable: bool = False


def project_part(
    project: Project, trusted: bool, weaker: Config, policy: Collection[str], installed: Collection[str]
) -> ProjectPart:
    """Sort what a project's file sets. `weaker` are the user's layers, `policy` the packs that claim policy.

    A file that can't be understood is refused before trust, and a problem afterwards.
    """
    beside: tuple[Problem, ...] = ()
    if not trusted:
        named = beside_settings(project)
        beside = tuple(Problem(str(project.path / name), "", f"{told}, {NOT_TRUSTED}") for name, told in named)
    layer, wrong = _parse(project)
    if layer is None:
        return (
            ProjectPart(problems=wrong, unreadable=True) if trusted and wrong else ProjectPart(refused=wrong + beside)
        )
    if trusted:
        return _of_a_trusted(layer, policy, installed)
    return _of_an_untrusted(layer, weaker, beside)


def _parse(project: Project) -> tuple[Layer | None, tuple[Problem, ...]]:
    if (content := project.files.get(PROJECT_FILE)) is None:
        what = project.others.get(PROJECT_FILE)
        return None, (Problem(str(project.file), "", f"is a {what}; only a plain file is read"),) if what else ()
    problems: list[Problem] = []
    return parse_toml("project", project.file, content, problems), tuple(problems)


def _of_a_trusted(layer: Layer, policy: Collection[str], installed: Collection[str]) -> ProjectPart:
    refused: list[Problem] = []
    taken: list[KeyPath] = []
    offered: Table = {}
    for path in leaves(layer.data):
        if _is_for_users_only(path) or (path[0] == "packs" and path[1:2] and path[1] in policy and path[2:3] in _OWN):
            refused.append(_problem(layer, path, NEVER_FROM_A_PROJECT))
        elif len(path) > 2 and path[0] == "packs" and path[1] in policy:
            put(offered, path, layer.at(path))
        else:
            taken.append(path)
    # A policy pack's table goes whole: an empty one in it would stand in the place of a default.
    dropped = {*leaves(layer.data), *(("packs", name) for name in policy)} - set(taken)
    kept = Layer(layer.kind, layer.where, _without(layer.data, dropped), layer.text)
    problems = tuple(shape_problems(kept, installed))
    return ProjectPart(kept, _offer(layer, offered), tuple(refused), problems)


def _of_an_untrusted(layer: Layer, weaker: Config, beside: Iterable[Problem]) -> ProjectPart:
    refused: list[Problem] = []
    taken: Table = {}
    offered: Table = {}
    for path in leaves(layer.data):
        value = layer.at(path)
        if path == ("tools", "off") and _is_names(value):
            put(taken, path, value)
        elif len(path) == 4 and (path[0], path[2]) == ("agents", "limits"):
            if wrong := _why_not_lower(path, value, weaker):
                refused.append(_problem(layer, path, wrong))
            else:
                put(taken, path, value)
        elif len(path) > 2 and path[0] == "packs" and path[2] not in OWN_KEYS:
            put(offered, path, value)
        else:
            refused.append(_problem(layer, path, NEVER_FROM_A_PROJECT if _is_for_users_only(path) else NOT_TRUSTED))
    kept = Layer(layer.kind, layer.where, taken, layer.text)
    return ProjectPart(kept, _offer(layer, offered), (*refused, *beside))


_OWN: Final = [(key,) for key in OWN_KEYS]


def _is_for_users_only(path: KeyPath) -> bool:
    return path[0] in ("hooks", "interactions") or path[:2] in (("tools", "owner"), ("packs", "default"))


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _why_not_lower(path: KeyPath, value: Any, weaker: Config) -> str:
    """Return why an untrusted project may not set this limit, or nothing if it lowers one that the user has."""
    _, agent, _, limit = path
    if limit not in DEFAULT_LIMITS or (agent != "main" and agent not in weaker.table("agents")):
        return NOT_TRUSTED
    kinds = (int, float) if limit == "seconds" else (int,)
    if isinstance(value, bool) or not isinstance(value, kinds) or not value >= _LEAST[limit]:
        return f"{NOT_TRUSTED}; and this is no limit"
    setting = weaker.get(*path)
    now = setting.value if setting and isinstance(setting.value, int | float) else DEFAULT_LIMITS[limit]
    return "" if value <= now else f"{NOT_TRUSTED}; before that a project may only lower it (it is {now:g})"


def beside_settings(project: Project) -> Iterator[tuple[str, str]]:
    """Yield what a project brings besides its settings, folder by folder: (name in the project, how much)."""
    if LOCK_FILE in project.files or LOCK_FILE in project.others:
        yield LOCK_FILE, project.others.get(LOCK_FILE, "pins packs")
    folders: dict[str, list[str]] = {}
    for name in sorted([*project.files, *project.others]):
        if name == FOLDER or name.startswith(f"{FOLDER}/"):
            folders.setdefault("/".join(name.split("/")[:2]), []).append(name)
    for folder, names in folders.items():
        inner = {name.split("/")[2] for name in names if name.count("/") > 2}
        told = project.others.get(folder) or count(len(names), "file")
        yield folder, told + (f" in {count(len(inner), 'folder')}" if inner else "")


def _problem(layer: Layer, path: KeyPath, text: str) -> Problem:
    return Problem(layer.locate(path), ".".join(path), text)


def _offer(layer: Layer, offered: Table) -> Layer | None:
    return Layer(layer.kind, layer.where, offered, layer.text) if offered else None


def _without(table: Table, paths: set[KeyPath], above: KeyPath = ()) -> Table:
    """Return a table without what stands at `paths`; empty tables stay, they may mean something."""
    kept: Table = {}
    for key, value in table.items():
        if (*above, key) not in paths:
            kept[key] = _without(value, paths, (*above, key)) if isinstance(value, dict) else value
    return kept
