"""What is to be checked: an installed pack, a project's folder, or an object; all of them become a name on a path."""

import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from pegboard import UsageError
from pegboard.base.text import did_you_mean
from pegboard.packs.discovery import discover, normalise
from pegboard.testing.packs import PackFolder

_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*")  # a folder gets this name and version
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")


@dataclass(frozen=True, slots=True)
class Subject:
    """A pack's name, its distribution's, and the path on which that and what it needs are found.

    Not `declared`: it has no distribution of its own, so it declares nothing that could be compared.
    """

    name: str
    distribution: str
    path: tuple[str, ...]
    declared: bool = True


def subject_of(target: object, folder: Path) -> Subject:
    """Return what a name, a path or an object stands for; metadata that is missing is written to `folder`.

    Raises:
        UsageError: there is no such pack, or no pack in that folder.
    """
    if isinstance(target, Path):
        return _of_project(target, folder)
    if not isinstance(target, str):
        return _of_object(target, folder)
    installed = {found.pack[0]: found.name for found in discover() if found.pack}
    if target in installed:
        return Subject(target, installed[target], _path())
    if Path(target).is_dir():
        return _of_project(Path(target), folder)
    raise UsageError(
        f"no pack `{target}` is installed, and there is no such folder{did_you_mean(target, installed)}"
        " · `pegboard packs` lists the installed ones"
    )


def _of_project(project: Path, folder: Path) -> Subject:
    """Describe a source tree as its wheel would be, so that it can be checked without being installed."""
    try:
        declared = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]
        groups: dict[str, dict[str, str]] = declared["entry-points"]
        (pack, *_) = groups["pegboard.packs"]
        rows = {group: [f"{name} = {value}" for name, value in rows.items()] for group, rows in groups.items()}
        headers = [("Name", str(declared["name"])), ("Version", str(declared.get("version", "0")))]
        headers += [("Requires-Dist", str(requirement)) for requirement in declared.get("dependencies", ())]
        if not all(_FILE_NAME.fullmatch(value) for _, value in headers[:2]):
            raise ValueError(f"{headers[0][1]!r} {headers[1][1]!r} are no name and version")
    except (OSError, KeyError, ValueError, TypeError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise UsageError(f"{project}: no pyproject.toml with an entry point in `pegboard.packs` ({what})") from None
    entry_points = "\n".join(line for group, lines in rows.items() for line in (f"[{group}]", *lines))
    metadata = "".join(f"{name}: {value}\n" for name, value in headers)
    PackFolder(folder).write_metadata(headers[0][1], headers[1][1], f"{entry_points}\n", f"{metadata}\n")
    sources = project / "src" if (project / "src").is_dir() else project
    return Subject(pack, normalise(headers[0][1]), _path(folder, sources))


def _of_object(target: object, folder: Path) -> Subject:
    name: str | None = target.__name__ if isinstance(target, type | ModuleType) else None
    reference = f"{target.__module__}:{target.__qualname__}" if isinstance(target, type) else name
    if name is None or reference is None or "<" in reference:
        raise UsageError(f"{target!r} can't be checked: give a pack's name, or a class or module that can be imported")
    name = _WORDS.sub("-", name.rpartition(".")[2]).lower()
    PackFolder(folder).add(name, distribution=f"checked-{name}", reference=reference)
    return Subject(name, f"checked-{name}", _path(folder), declared=False)


def _path(*first: Path) -> tuple[str, ...]:
    return tuple(str(Path(entry).resolve()) for entry in (*map(str, first), *sys.path))
