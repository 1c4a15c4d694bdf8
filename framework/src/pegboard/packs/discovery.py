"""Which packs are installed: entry points read from disk, without importing anything that they name.

The files are read directly because importlib-metadata costs ten times as much before the first line of help; a test
proves that both see the same. Loading an entry point is importlib-metadata's work again (`packs.py`).
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

PACK_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_MAX_NAME: Final = 64
_TAKEN: Final = "default"
_TAKEN_REASON: Final = "`default` is no pack name: `[packs] default` is a setting"
_DEVICE: Final = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]")  # no file names on Windows
_SEPARATORS: Final = re.compile(r"[-_.]+")
_GROUP_PREFIX: Final = b"[pegboard."


@dataclass(frozen=True)
class Distribution:
    """What one installed distribution declares for Pegboard, from its static metadata alone.

    `pack` is its one entry point in `pegboard.packs` as (name, object reference); the mappings are name -> object
    reference. With a `problem` the rest may be empty. What stands in METADATA is read when it is first asked for.
    """

    name: str
    location: str
    pack: tuple[str, str] | None = None
    tools: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)
    claims_policy: bool = False
    problem: str | None = None

    @property
    def version(self) -> str:
        """The version, or an empty string if the metadata has none."""
        return self._header("version")

    @property
    def summary(self) -> str:
        """The one-line description, or an empty string."""
        return self._header("summary")

    @cached_property
    def requires(self) -> tuple[str, ...]:
        """The normalised names of the distributions that this one needs in any case."""
        return tuple(_named(line) for line in self._requirements if ";" not in line)

    @cached_property
    def orders_after(self) -> tuple[str, ...]:
        """The normalised names of the distributions that this one names under an extra or a marker."""
        return tuple(_named(line) for line in self._requirements if ";" in line)

    @cached_property
    def _requirements(self) -> list[str]:
        lines = [line for key, line in self._headers if key == "requires-dist"]
        return lines or list(_egg_requirements(_read(self.location, "requires.txt") or b""))

    def _header(self, name: str) -> str:
        return next((value for key, value in self._headers if key == name), "")

    @cached_property
    def _headers(self) -> list[tuple[str, str]]:
        return list(_headers(_read(self.location, "METADATA") or _read(self.location, "PKG-INFO") or b""))


def in_process(name: str, *, claims_policy: bool = False) -> Distribution:
    """Describe a pack that a program brings itself, without a distribution of its own."""
    problem = _TAKEN_REASON if name == _TAKEN else None
    return Distribution(
        f"in-process-{name}", "this program", pack=(name, ""), claims_policy=claims_policy, problem=problem
    )


def normalise(name: str) -> str:
    """Return a distribution name as packaging compares it: lower case, one dash for each run of `-_.`."""
    return _SEPARATORS.sub("-", name).lower()


def discover(path: Iterable[str] | None = None) -> tuple[Distribution, ...]:
    """Return every distribution on `path` (default `sys.path`) that declares something for Pegboard, by name.

    Of several copies of one distribution the first on the path wins. Costs about 5 ms for 200 distributions.
    """
    seen: dict[str, str] = {}
    found: list[Distribution] = []
    for folder in sys.path if path is None else path:
        for name, location in _metadata_folders(folder):
            if name in seen and _has_metadata(seen[name]):
                continue
            seen[name] = location
            entry_points = _read(location, "entry_points.txt")
            if entry_points and _GROUP_PREFIX in entry_points:
                found.extend(_describe(name, location, entry_points))
    return tuple(sorted(found, key=lambda distribution: distribution.name))


def _metadata_folders(folder: str) -> Iterator[tuple[str, str]]:
    """Yield (normalised name, metadata folder) for each distribution directly in one entry of `sys.path`."""
    try:
        children = os.listdir(folder or ".")
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return
    base = os.path.basename(folder)
    for child in children:
        low = child.lower()
        if low.endswith((".dist-info", ".egg-info")):
            stem = child
        elif low == "egg-info" and base.lower().endswith(".egg"):
            stem = base
        else:
            continue
        yield normalise(stem.rpartition(".")[0].partition("-")[0]), os.path.join(folder, child)


def _read(location: str, name: str) -> bytes | None:
    try:
        with open(f"{location}{os.sep}{name}", "rb", buffering=0) as file:  # a third faster than buffered
            return file.read()
    except OSError:
        return None


def _has_metadata(location: str) -> bool:
    """Whether a metadata folder is more than what an interrupted uninstall left behind."""
    return any(_read(location, name) is not None for name in ("METADATA", "PKG-INFO", "entry_points.txt"))


def _describe(name: str, location: str, entry_points: bytes) -> Iterator[Distribution]:
    try:
        groups = _sections(entry_points.decode("utf-8"))
    except UnicodeDecodeError:
        yield Distribution(name, location, problem="its entry_points.txt is not UTF-8")
        return
    if not any(group.startswith("pegboard.") and rows for group, rows in groups.items()):
        return
    packs = groups.get("pegboard.packs", [])
    yield Distribution(
        name=name,
        location=location,
        pack=packs[0] if packs else None,
        tools=dict(groups.get("pegboard.tools", [])),
        commands=dict(groups.get("pegboard.commands", [])),
        claims_policy=bool(groups.get("pegboard.policy")),
        problem=_problem(packs),
    )


def _problem(packs: list[tuple[str, str]]) -> str | None:
    if not packs:
        return "it has Pegboard entry points but none in group pegboard.packs"
    if len(packs) > 1:
        return f"it declares {len(packs)} packs ({', '.join(name for name, _ in packs)}); a distribution has one"
    name = packs[0][0]
    if len(name) > _MAX_NAME or not PACK_NAME.fullmatch(name) or _DEVICE.fullmatch(name):
        return f"{name[:_MAX_NAME]!r} is no pack name (lower-case letters, digits, single dashes; at most {_MAX_NAME})"
    return _TAKEN_REASON if name == _TAKEN else None


def _sections(text: str) -> dict[str, list[tuple[str, str]]]:
    """Parse entry_points.txt: sections of `name = value` lines, `#` lines are comments."""
    groups: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] = []
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            current = groups.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            current.append((name.strip(), value.strip()))
    return groups


def _headers(metadata: bytes) -> Iterator[tuple[str, str]]:
    """Yield (lower-case name, value) of the headers of METADATA, up to the blank line before the description."""
    for line in metadata.decode("utf-8", "replace").split("\n"):
        line = line.removesuffix("\r")
        if not line:
            return
        name, colon, value = line.partition(":")
        if colon and not line[0].isspace():
            yield name.lower(), value.strip(" \t")


def _egg_requirements(requires: bytes) -> Iterator[str]:
    """Yield the lines of an egg's requires.txt, those below a `[extra:marker]` header with a `;` as METADATA has it."""
    condition = ""
    for line in requires.decode("utf-8", "replace").splitlines():
        if line.startswith("["):
            condition = f"; {line.strip('[]')}"
        elif line.strip():
            yield line.strip() + condition


def _named(requirement: str) -> str:
    """Return the normalised distribution name that a Requires-Dist line begins with."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return normalise(found[0]) if found else requirement
