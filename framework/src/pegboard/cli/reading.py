"""What every command that shows or switches something reads first: configuration and packs, nothing imported."""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pegboard.base.errors import PegboardError, UsageError
from pegboard.base.text import did_you_mean
from pegboard.cli.group import Options
from pegboard.cli.installed import installed
from pegboard.config.layers import Config
from pegboard.host.load_config import load_config
from pegboard.packs.survey import Pack, survey
from pegboard.trust.project import read_project
from pegboard.values.project import Project

if TYPE_CHECKING:
    from pegboard.dispatch.dispatcher import Dispatcher
    from pegboard.packs.loading import Loader


def working_directory() -> Path | None:
    """Return the current directory, or None if it has been removed."""
    try:
        return Path.cwd()
    except OSError:
        return None


def policy_packs() -> frozenset[str]:
    """Return the names of the installed packs that claim policy."""
    return frozenset(found.pack[0] for found in installed() if found.pack and found.claims_policy)


def check_disabled_names(options: Options) -> list[str]:
    """Return the names of the installed packs; refuse a `--disable` of one that is not installed.

    Raises:
        UsageError: naming the nearest installed pack.
    """
    names = [distribution.pack[0] for distribution in installed() if distribution.pack]
    for name in options.disable:
        if name not in names:
            raise UsageError(f"--disable {name}: no pack of that name is installed{did_you_mean(name, names)}")
    return names


def read_packs(options: Options) -> tuple[Config, tuple[Pack, ...]]:
    """Return the configuration and every installed pack, from static metadata alone.

    Raises:
        UsageError: `--disable` names a pack that is not installed.
    """
    names = check_disabled_names(options)
    project = read_here()
    config = load_config(names, options.disable, os.environ, project=project, policy=policy_packs())
    return config, survey(installed(), config)


def read_here() -> Project | None:
    """Return what the current directory brings, or None."""
    directory = working_directory()
    return read_project(directory) if directory else None


def load_packs(config: Config, found: Iterable[Pack]) -> tuple[Pack, ...]:
    """Import the enabled packs and return all with what became of each; none if the configuration can't be read."""
    return tuple(found) if config.unreadable else load_with(config, found)[0]


def load_with(config: Config, found: Iterable[Pack]) -> "tuple[tuple[Pack, ...], Loader, Dispatcher]":
    """Import the enabled packs; returns them with what knows their settings and their hooks."""
    from pegboard.dispatch.dispatcher import Dispatcher
    from pegboard.packs.loading import Loader
    from pegboard.tools.registry import ToolRegistry

    faults: list[object] = []
    dispatcher = Dispatcher(faults.append)
    loader = Loader(config, dispatcher, ToolRegistry())
    with stdout_kept():
        return loader.load(tuple(found)), loader, dispatcher


@contextlib.contextmanager
def stdout_kept() -> Iterator[None]:
    """Let whatever is printed meanwhile, by Python, C or a child process, go to stderr: stdout belongs to answers."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def find_pack(found: Iterable[Pack], name: str) -> Pack:
    """Return the pack of that name.

    Raises:
        UsageError: there is none, naming the nearest.
    """
    known = {pack.name: pack for pack in found}
    if name not in known:
        raise UsageError(f"no pack `{name}` is installed{did_you_mean(name, known)}")
    return known[name]


def refuse_inside(command: str) -> None:
    """Refuse a command that decides what may run, where Pegboard itself started the process.

    Raises:
        PegboardError: `PEGBOARD_INSIDE` is set.
    """
    if os.environ.get("PEGBOARD_INSIDE"):
        raise PegboardError(f"`{command}` is for a person; it is refused in a process that an agent started")
