"""What a project's file has no effect on, told in a few lines."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from pegboard.base.errors import Problem, aligned
from pegboard.base.text import count, one_line
from pegboard.config.kernel_tables import OWN_KEYS
from pegboard.config.layers import NOT_TRUSTED, Config, Table, leaves
from pegboard.config.places import Places
from pegboard.config.toml import parse_toml
from pegboard.trust.project_rules import beside_settings
from pegboard.values.project import PROJECT_FILE, Project

_MAX_ROWS: Final = 12


def notes(config: Config, places: Places) -> Iterator[str]:
    """Yield the lines that say what the project sets without effect, and what to do about it; none if all counts."""
    project, ignored = config.project, config.ignored
    if project is None or not ignored:
        return
    if config.trusted:
        yield "this project sets what no project may; running without it:"
        yield from rows(project, ignored)
        return
    yield f"this directory brings settings that {_why_not(project, places)}; running without them:"
    yield from rows(project, ignored)
    if project.problems:
        yield f"  it can't be trusted: {one_line('; '.join(project.problems), 300)}"
    else:
        yield "  look and decide: pegboard trust"


def rows(project: Project, problems: Iterable[Problem]) -> Iterator[str]:
    """Yield a line for each problem, files named as in the project, cut after a dozen."""
    start = f"{project.path}/".replace("\\", "/")
    shown = [
        replace(
            problem,
            where=problem.where.replace("\\", "/").removeprefix(start),
            text=problem.text.removesuffix(f", {NOT_TRUSTED}").removeprefix(NOT_TRUSTED).removeprefix("; "),
        )
        for problem in problems
    ]
    yield from (f"  {line}" for line in aligned(shown[:_MAX_ROWS]))
    if len(shown) > _MAX_ROWS:
        yield f"  ... and {len(shown) - _MAX_ROWS} more"


def brings(project: Project) -> dict[str, str]:
    """Return what a project brings: file or folder, and how much is in it."""
    found: dict[str, str] = {}
    if PROJECT_FILE in project.files:
        layer = parse_toml("project", project.file, project.files[PROJECT_FILE], [])
        found[PROJECT_FILE] = ", ".join(_counted(layer.data)) or "nothing" if layer else "can't be understood"
    elif PROJECT_FILE in project.others:
        found[PROJECT_FILE] = project.others[PROJECT_FILE]
    return {**found, **dict(beside_settings(project))}


def _counted(data: Table) -> Iterator[str]:
    packs = {name: table for name, table in _table(data, "packs").items() if isinstance(table, dict)}
    for flag, word in ((True, "on"), (False, "off")):
        if switched := [name for name, table in packs.items() if table.get("enabled") is flag]:
            yield f"{count(len(switched), 'pack')} switched {word}"
    for name, table in packs.items():
        if own := [path for path in leaves(table) if path[0] not in OWN_KEYS]:
            yield f"{count(len(own), 'setting')} of {one_line(name, 40)}"
    if agents := _table(data, "agents"):
        yield count(len(agents), "agent")
    off = _table(data, "tools").get("off")
    if isinstance(off, list) and off:
        yield f"{count(len(off), 'tool')} switched off"
    others = [path for path in leaves(data) if path[0] not in ("packs", "agents") and path != ("tools", "off")]
    if others:
        yield count(len(others), "other setting")


def _table(data: Table, key: str) -> Table:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _why_not(project: Project, places: Places) -> str:
    from pegboard.trust.accepted import Trust

    return "changed since you trusted them" if Trust(places).was_trusted(project.path) else "are not trusted yet"
