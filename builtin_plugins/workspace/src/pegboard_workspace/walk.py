"""Walking the session's directory: regular files in order of their paths, without what is ignored.

Ignored is what `.gitignore` and `.ignore` files say, as git reads them, plus version control, virtual environments and
caches unless such a file brings them back. Links are not followed.
"""

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from pegboard import CancelSignal, ToolError

from pegboard_workspace.places import Place, open_beneath
from pegboard_workspace.rules import IGNORE_FILES, Rules, ignored, parse, read_rules

SECONDS: Final = 20.0
# What `write` and `edit` put beside a file before it takes its place; a process that is killed leaves it there.
UNFINISHED: Final = re.compile(r"\.pegboard-[0-9a-f]{16}\.tmp")
_NEVER: Final = frozenset({".git", ".hg", ".svn"})
_USUALLY_NOT: Final = (
    "node_modules/", "__pycache__/", ".venv/", ".tox/", ".nox/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/",
)  # fmt: skip


@dataclass(slots=True)
class Walk:
    """One walk from a place: it ends with the signal, and after 20 s.

    `unread` counts the folders that could not be read. `everything`: what is ignored counts, too.
    """

    place: Place
    signal: CancelSignal
    everything: bool = False
    unread: int = 0
    _until: float = field(default_factory=lambda: time.monotonic() + SECONDS)

    def files(self) -> Iterator[str]:
        """Yield the paths of the files at or below the place, relative to the session's directory and sorted.

        Raises:
            ToolError: it took too long.
        """
        start = "/".join(self.place.parts)
        if self.place.path.is_file() and not self.place.path.is_symlink():
            yield start
            return
        levels = [] if self.everything else [parse("", _USUALLY_NOT), *self._rules_above()]
        # A stack of its own: a tree may be deeper than Python's.
        stack = [self._entries(f"{start}/" if start else "", levels)]
        while stack and not self.signal.cancelled:
            self.check_time()
            found = next(stack[-1], None)
            if found is None:
                stack.pop()
            elif isinstance(found, str):
                yield found
            else:
                stack.append(self._entries(*found))

    def check_time(self) -> None:
        """Refuse to go on when the time is up.

        Raises:
            ToolError: it is.
        """
        if time.monotonic() > self._until:
            raise ToolError(f"the search took more than {SECONDS:g} s; simplify the pattern or narrow the path")

    def _entries(self, prefix: str, levels: Sequence[Rules]) -> Iterator[str | tuple[str, Sequence[Rules]]]:
        """Yield a folder's files as their paths and its folders as what to walk next, in the order of paths."""
        try:
            entries = _listed(Place.of(self.place.root, prefix.rstrip("/")) if prefix else Place(self.place.root, ()))
        except OSError:
            self.unread += 1
            return
        names = {name.rstrip("/") for name in entries}
        if "pyvenv.cfg" in names and not self.everything:
            return
        if not self.everything:
            wanted = (name for name in IGNORE_FILES if name in names)
            levels = [*levels, *(rules for name in wanted if (rules := read_rules(self.place, prefix, name)))]
        for entry in entries:
            self.check_time()  # rules that somebody wrote to be slow are slow for one entry, not for all
            name, folder = entry.removesuffix("/"), entry.endswith("/")
            if name in _NEVER or UNFINISHED.fullmatch(name):
                continue
            if not ignored(prefix + name, levels, folder=folder):
                yield (prefix + entry, levels) if folder else prefix + name

    def _rules_above(self) -> Iterator[Rules]:
        """Yield the rules that folders above the starting one contribute."""
        prefix = ""
        for part in self.place.parts:
            for name in IGNORE_FILES:
                if rules := read_rules(self.place, prefix, name):
                    yield rules
            prefix += f"{part}/"


def _listed(place: Place) -> list[str]:
    """Return a folder's files and folders, these with a slash: so the paths themselves come out sorted.

    Raises:
        OSError: it can't be read, or is not where it was.
    """
    folder = open_beneath(place, os.O_RDONLY)
    try:
        found: list[str] = []
        with os.scandir(folder if os.scandir in os.supports_fd else place.path) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        found.append(f"{entry.name}/")
                    elif entry.is_file(follow_symlinks=False):
                        found.append(entry.name)
        return sorted(found)
    finally:
        os.close(folder)
