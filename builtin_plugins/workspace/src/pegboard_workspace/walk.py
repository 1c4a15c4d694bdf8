"""Walking the session's directory: regular files in order of their paths, without what is ignored.

Ignored is what `.gitignore` and `.ignore` files say, as git reads them, plus version control, virtual environments and
caches unless such a file brings them back. Links are not followed.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from pegboard import CancelSignal, ToolError

from pegboard_workspace.places import Place
from pegboard_workspace.rules import IGNORE_FILES, Rules, ignored, parse, read_rules

_MAX_BRACES: Final = 4
_NEVER: Final = frozenset({".git", ".hg", ".svn"})
_USUALLY_NOT: Final = (
    "node_modules/", "__pycache__/", ".venv/", ".tox/", ".nox/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/",
)  # fmt: skip


def files(place: Place, signal: CancelSignal) -> Iterator[str]:
    """Yield the paths of the files at or below `place`, relative to the session's directory and sorted.

    Stops early when the signal is given.
    """
    start = "/".join(place.parts)
    if place.path.is_file():
        yield start
        return
    levels = [parse("", _USUALLY_NOT), *_rules_above(place)]
    # A stack of its own: a tree may be deeper than Python's.
    stack = [_entries(place, f"{start}/" if start else "", levels)]
    while stack and not signal.cancelled:
        found = next(stack[-1], None)
        if found is None:
            stack.pop()
        elif isinstance(found, str):
            yield found
        else:
            stack.append(_entries(place, *found))


def matcher(pattern: str, place: Place) -> Callable[[str], bool]:
    """Return a test of paths against a glob as `.gitignore` and ripgrep understand it.

    `*.py` matches at any depth, `src/*.py` from the session's directory or from `place`, `**` any folders, `{a,b}`
    either; a leading `!` turns the test round.

    Raises:
        ToolError: it is no glob.
    """
    from pathspec import GitIgnoreSpec

    wanted = not pattern.startswith("!")
    globs = _braces(pattern.removeprefix("!"))
    try:
        spec = GitIgnoreSpec.from_lines(f"\\{glob}" if glob.startswith(("#", "!")) else glob for glob in globs)
    except ValueError:
        spec = None
    if spec is None or not pattern.strip("! "):
        raise ToolError(f"the pattern {pattern!r} is no glob; *.py or src/**/*.ts is one, * matches every file")
    strip = len("/".join(place.parts)) + 1 if place.parts and not place.path.is_file() else 0
    return lambda path: (spec.match_file(path) or spec.match_file(path[strip:])) is wanted


def _entries(place: Place, prefix: str, levels: Sequence[Rules]) -> Iterator[str | tuple[str, Sequence[Rules]]]:
    """Yield a folder's files as their paths and its folders as what to walk next, in the order of paths."""
    try:
        entries = list(os.scandir(place.root / prefix))
    except OSError:
        return  # a folder that may not be read holds nothing for us
    names = {entry.name for entry in entries}
    if "pyvenv.cfg" in names:
        return
    own = [rules for name in IGNORE_FILES if name in names and (rules := read_rules(place, prefix, name))]
    levels = [*levels, *own]
    # A folder sorts as its name with a slash, so that the paths themselves come out sorted.
    for entry in sorted(entries, key=lambda entry: entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "")):
        folder = entry.is_dir(follow_symlinks=False)
        if entry.name in _NEVER or not (folder or entry.is_file(follow_symlinks=False)):
            continue
        path = prefix + entry.name
        if not ignored(path, levels, folder=folder):
            yield (f"{path}/", levels) if folder else path


def _rules_above(place: Place) -> Iterator[Rules]:
    """Yield the rules that folders above the starting one contribute."""
    prefix = ""
    for part in place.parts:
        for name in IGNORE_FILES:
            if rules := read_rules(place, prefix, name):
                yield rules
        prefix += f"{part}/"


def _braces(pattern: str) -> list[str]:
    """Expand up to four `{a,b}` groups, innermost first; anything else stays as it is."""
    close = pattern.find("}")
    start = pattern.rfind("{", 0, close) if close >= 0 else -1
    if start < 0 or pattern.count("{") > _MAX_BRACES:
        return [pattern]
    options = pattern[start + 1 : close].split(",")
    return [whole for option in options for whole in _braces(pattern[:start] + option + pattern[close + 1 :])]
