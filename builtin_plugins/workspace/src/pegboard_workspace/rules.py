"""What `.gitignore` and `.ignore` files say about one entry of a folder.

As git does it, every entry is judged by itself on the way down: what lies in an ignored folder is never asked about.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pegboard import ToolError

from pegboard_workspace.globs import NoGlob, translate
from pegboard_workspace.places import Place, read_bytes

IGNORE_FILES: Final = (".gitignore", ".ignore")
MAX_RULES: Final = 5000


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of an ignore file."""

    pattern: "re.Pattern[str]"
    ignores: bool
    folders_only: bool


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
            if (folder or not rule.folders_only) and rule.pattern.fullmatch(below):
                return rule.ignores
    return False


def parse(prefix: str, lines: Sequence[str]) -> Rules:
    """Read the lines of an ignore file; what is no pattern is passed over, as git does, and so are those too many."""
    rules: list[Rule] = []
    for line in lines[:MAX_RULES]:
        if rule := _rule(line.removesuffix("\r")):
            rules.append(rule)
    return Rules(prefix, tuple(rules))


def _rule(line: str) -> Rule | None:
    text = line.rstrip(" ")
    if len(text) < len(line) and text.endswith("\\") and (len(text) - len(text.rstrip("\\"))) % 2:
        text += " "  # an escaped one stays
    if not text or text.startswith("#"):
        return None
    shown = text.removeprefix("!")
    pattern = shown.removesuffix("/")
    try:
        return Rule(translate(pattern), ignores=shown == text, folders_only=pattern != shown)
    except (NoGlob, re.error):
        return None


def read_rules(place: Place, prefix: str, name: str) -> Rules | None:
    """Read an ignore file of a folder; None if it is no regular file or can't be read."""
    try:
        data = read_bytes(Place.of(place.root, prefix + name))
    except ToolError:
        return None
    return parse(prefix, os.fsdecode(data).removeprefix("\ufeff").split("\n"))
