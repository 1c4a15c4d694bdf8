"""Walking the session's directory: regular files in order of their paths, without what is ignored.

Ignored is what `.gitignore` and `.ignore` files say, as git reads them, plus version control, virtual environments and
caches unless such a file brings them back. Links are not followed.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pegboard_workspace.places import Place

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_IGNORE_FILES: Final = (".gitignore", ".ignore")
_MAX_BRACES: Final = 4
_NEVER: Final = frozenset({".git", ".hg", ".svn"})
_USUALLY_NOT: Final = (
    "node_modules/", "__pycache__/", ".venv/", ".tox/", ".nox/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rules:
    """Ignore rules of one folder, which apply to paths below it; `prefix` is the folder, with a final slash."""

    prefix: str
    spec: "GitIgnoreSpec"


def files(place: Place, cancelled: Callable[[], bool]) -> Iterator[str]:
    """Yield the paths of the files at or below `place`, relative to the session's directory and sorted.

    Stops early when `cancelled` says so.
    """
    root = str(place.root)
    start = "/".join(place.parts)
    if place.path.is_file():
        yield start
        return
    rules = [Rules("", _spec(_USUALLY_NOT)), *_rules_above(place)]
    yield from _below(root, f"{start}/" if start else "", rules, cancelled)


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a test of paths against a glob as `.gitignore` and ripgrep understand it.

    `*.py` matches at any depth, `src/*.py` from the directory itself, `**` any folders, `{a,b}` either; a leading `!`
    turns the test round.
    """
    wanted = not pattern.startswith("!")
    lines = [f"\\{glob}" if glob.startswith(("#", "!")) else glob for glob in _braces(pattern.removeprefix("!"))]
    spec = _spec(lines)
    return lambda path: spec.match_file(path) is wanted


def _below(root: str, prefix: str, rules: Sequence[Rules], cancelled: Callable[[], bool]) -> Iterator[str]:
    if cancelled():
        return
    try:
        entries = list(os.scandir(os.path.join(root, prefix)))
    except OSError:
        return  # a folder that may not be read holds nothing for us
    names = {entry.name for entry in entries}
    if "pyvenv.cfg" in names:
        return
    own = [rule for name in _IGNORE_FILES if name in names and (rule := _read_rules(root, prefix, name))]
    rules = [*rules, *own]
    # A folder sorts as its name with a slash, so that the paths themselves come out sorted.
    for entry in sorted(entries, key=lambda entry: entry.name + ("/" if _is_folder(entry) else "")):
        path = prefix + entry.name
        if _is_folder(entry):
            if entry.name not in _NEVER and not _ignored(path + "/", rules):
                yield from _below(root, path + "/", rules, cancelled)
        elif _is_file(entry) and not _ignored(path, rules):
            yield path


def _ignored(path: str, rules: Sequence[Rules]) -> bool:
    """Whether the last rule that says anything about a path ignores it; deeper files speak later."""
    for rule in reversed(rules):
        verdict = rule.spec.check_file(path[len(rule.prefix) :]).include
        if verdict is not None:
            return verdict
    return False


def _rules_above(place: Place) -> Iterator[Rules]:
    """Yield the rules that folders above the starting one contribute, up to the repository's top."""
    prefix = ""
    for part in place.parts:
        for name in _IGNORE_FILES:
            if rule := _read_rules(str(place.root), prefix, name):
                yield rule
        prefix += f"{part}/"


def _read_rules(root: str, prefix: str, name: str) -> Rules | None:
    try:
        text = Path(root, prefix, name).read_text("utf-8", "replace")
        return Rules(prefix, _spec(text.splitlines()))
    except (OSError, ValueError):
        return None


def _spec(lines: Iterable[str]) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec  # not before it is needed: packs are listed without it

    return GitIgnoreSpec.from_lines(lines)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    return entry.is_dir(follow_symlinks=False)


def _is_file(entry: "os.DirEntry[str]") -> bool:
    return entry.is_file(follow_symlinks=False)


def _braces(pattern: str) -> list[str]:
    """Expand up to four `{a,b}` groups, innermost first; anything else stays as it is."""
    close = pattern.find("}")
    start = pattern.rfind("{", 0, close) if close >= 0 else -1
    if start < 0 or pattern.count("{") > _MAX_BRACES:
        return [pattern]
    options = pattern[start + 1 : close].split(",")
    return [whole for option in options for whole in _braces(pattern[:start] + option + pattern[close + 1 :])]
