"""Configuration: built-in, the user's file, the user's state, the project's file, the environment, the command line.

Nothing here imports pydantic or a pack: which packs are switched off must be known before anything of theirs runs.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from pegboard.base.errors import Problem
from pegboard.base.files import PrivateFileError
from pegboard.config.environment import read_environment
from pegboard.config.kernel_tables import shape_problems
from pegboard.config.layers import Config, Layer
from pegboard.config.places import Places
from pegboard.config.toml import read_toml
from pegboard.trust.project_rules import project_part
from pegboard.trust.state import NO_SETTINGS, State
from pegboard.values.project import Project


def load_config(
    packs: Iterable[str],
    disable: Iterable[str],
    environ: Mapping[str, str],
    *,
    places: Places | None = None,
    project: Project | None = None,
    policy: Collection[str] = (),
) -> Config:
    """Read all layers. `packs` are the installed packs' names, `disable` those named by `--disable`.

    `project` is the directory's own settings, of which little counts before it is trusted; `policy` are the packs that
    claim policy, which no project may touch. Nothing raises for a mistake: all of them are in `problems`, and a layer
    that can't be read is left out.
    """
    places = places or Places.default()
    installed = frozenset(packs)
    problems: list[Problem] = []
    layers = [
        layer for layer in (read_toml("user file", places.config_file, problems), _state(places, problems)) if layer
    ]
    unreadable = bool(problems)
    for layer in layers:
        problems.extend(shape_problems(layer, installed))
    config = _with_project(Config(tuple(layers), unreadable=unreadable), places, project, policy, installed)
    problems.extend(config.problems)

    above = [_environment(config, installed, environ, problems)]
    if off := {name: {"enabled": False} for name in disable}:
        above.append(Layer("command line", "--disable", {"packs": off}))
    for layer in above:
        problems.extend(shape_problems(layer, installed))
    return replace(config, layers=(*config.layers, *above), problems=tuple(problems))


def _state(places: Places, problems: list[Problem]) -> Layer | None:
    try:
        data, text = State(places).read()
    except PrivateFileError as error:
        problems.append(Problem(str(error.path), "", error.reason))
        return None
    settings = {key: value for key, value in data.items() if key not in NO_SETTINGS}
    return Layer("user state", str(places.state_file), settings, text) if settings else None


def _with_project(
    user: Config, places: Places, project: Project | None, policy: Collection[str], installed: Collection[str]
) -> Config:
    if project is None:
        return user
    from pegboard.trust.accepted import Trust

    trusted = Trust(places).trusts(project)
    part = project_part(project, trusted, user, policy, installed)
    return replace(
        user,
        layers=(*user.layers, part.layer) if part.layer else user.layers,
        problems=part.problems,
        unreadable=user.unreadable or part.unreadable,
        project=project,
        trusted=trusted,
        offered=part.offered,
        refused=part.refused,
    )


def _environment(
    config: Config, installed: Collection[str], environ: Mapping[str, str], problems: list[Problem]
) -> Layer:
    named = {name for layer in config.layers for name in _tables(layer, "packs")}
    agents = {name for layer in config.layers for name in _tables(layer, "agents")}
    return read_environment(environ, {"packs": {*installed, *named}, "agents": {"main", *agents}}, problems)


def _tables(layer: Layer, key: str) -> list[str]:
    value = layer.at((key,))
    return [name for name, table in value.items() if isinstance(table, dict)] if isinstance(value, dict) else []
