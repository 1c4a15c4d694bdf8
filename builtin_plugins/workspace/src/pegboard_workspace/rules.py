"""What `.gitignore` and `.ignore` files say about one entry of a folder, pattern by pattern through pathspec.

git judges every entry on its way down by itself, while pathspec judges whole paths: a pattern there also matches what
lies below a folder that it names. Such a match is told by the pattern's group `ps_d` and does not count here.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pegboard import ToolError

from pegboard_workspace.places import Place, read_bytes

if TYPE_CHECKING:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

IGNORE_FILES: Final = (".gitignore", ".ignore")
_CLASSES: Final = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": " \t", "digit": "0-9", "lower": "a-z", "upper": "A-Z",
    "punct": "!-,./:-@[-`{-~-", "space": " \t\n\r\f\v", "xdigit": "0-9A-Fa-f",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of an ignore file."""

    pattern: "GitIgnoreSpecPattern"
    folders_only: bool

    def says(self, path: str, *, folder: bool) -> bool | None:
        """Return whether the entry is ignored, or None if the rule does not speak of it."""
        if self.folders_only and not folder:
            return None
        found = self.pattern.match_file(path)
        if found is None or found.match.groupdict().get("ps_d"):
            return None
        return self.pattern.include


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one folder, which apply to what lies below it; `prefix` is the folder, with a final slash."""

    prefix: str
    rules: tuple[Rule, ...]


def ignored(path: str, levels: Sequence[Rules], *, folder: bool) -> bool:
    """Whether the last rule that speaks of an entry ignores it; deeper files speak later."""
    for level in reversed(levels):
        below = path[len(level.prefix) :]
        for rule in reversed(level.rules):
            verdict = rule.says(below, folder=folder)
            if verdict is not None:
                return verdict
    return False


def parse(prefix: str, lines: Sequence[str]) -> Rules:
    """Read the lines of an ignore file; one that is no pattern is passed over, as git does."""
    # Not before it is needed: packs are listed without it.
    from pathspec.patterns.gitignore.base import GitIgnorePatternError
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    rules: list[Rule] = []
    for line in lines:
        whole = re.sub(r"\[:(\w+):\]", lambda named: _CLASSES.get(named[1], named[0]), line.removesuffix("\r"))
        shown = whole.rstrip(" ") if not re.search(r"\\ +$", whole) else whole
        folders_only = shown.endswith("/")
        try:
            pattern = GitIgnoreSpecPattern(shown.removesuffix("/"))
        except (GitIgnorePatternError, ValueError, re.error):
            continue
        if pattern.include is not None:
            rules.append(Rule(pattern, folders_only))
    return Rules(prefix, tuple(rules))


def read_rules(place: Place, prefix: str, name: str) -> Rules | None:
    """Read an ignore file of a folder; None if it is no regular file or can't be read."""
    try:
        data = read_bytes(Place(place.root, tuple((prefix + name).split("/"))))
    except ToolError:
        return None
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    return parse(prefix, text.split("\n"))
