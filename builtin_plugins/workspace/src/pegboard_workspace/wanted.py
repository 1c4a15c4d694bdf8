"""Which paths a glob of a model matches, and why it matches none."""

import os
import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Final

from pegboard import CancelSignal, ToolError

from pegboard_workspace.globs import NoGlob, translate
from pegboard_workspace.places import Place, meant, show
from pegboard_workspace.walk import Walk

MAX_PATTERN: Final = 1000
_MAX_GLOBS: Final = 64
_MAX_LOOKED_AT: Final = 50_000
Matches = Callable[[str], bool]


def matcher(pattern: str, place: Place) -> Matches:
    """Return a test of paths against a glob as `.gitignore` and ripgrep understand it.

    `*.py` matches at any depth, `src/*.py` from the session's directory or from `place`, `**` any folders, `{a,b}`
    either; a leading `!` turns the test round. `./`, `~` and absolute paths inside
    the session's directory may begin it.

    Raises:
        ToolError: it is no glob, or leads outside.
    """
    wanted = not pattern.startswith("!")
    globs = [_relative(glob, place.root) for glob in _braces(meant(pattern).removeprefix("!"))]
    try:
        compiled = [translate(glob.rstrip("/"), below=True) for glob in globs if glob.strip("/ ")]
    except (NoGlob, re.error):
        compiled = []
    if not compiled:
        raise ToolError(f"the pattern {pattern!r} is no glob; *.py or src/**/*.ts is one, * matches every file")
    strip = len("/".join(place.parts)) + 1 if place.parts and not place.path.is_file() else 0

    def matches(path: str) -> bool:
        below = path[strip:]
        return any(one.fullmatch(path) or (strip and one.fullmatch(below)) for one in compiled) is wanted

    return matches


def why_none(pattern: str, place: Place, signal: CancelSignal) -> str:
    """Say why no file matches, as far as that can be told; "" if there is simply none."""
    if ".." in pattern.split("/"):
        return "a path that is matched has no .. in it; name the folder with `path`"
    if "[" in pattern and os.path.lexists(place.path / pattern):
        return f"[ ] is a class of characters; write {_literal(pattern)} for the file of that name"
    if pattern.startswith("/") and os.path.exists(f"/{pattern.split('/')[1]}"):
        return "a leading / is the session's directory; what is outside it is not listed"
    matches = matcher(pattern, place)
    walk = Walk(place, signal, everything=True)
    found = [name for name in islice(walk.files(), _MAX_LOOKED_AT) if matches(name)]
    if found:
        told = "1 file matches but is" if len(found) == 1 else f"{len(found):,} files match but are"
        return f"{told} left out (ignored, a cache or a virtual environment), such as {show(found[0])}"
    return ""


def _relative(glob: str, root: Path) -> str:
    """Return a glob that begins with `./`, `~` or the session's directory as one from this directory."""
    while glob.startswith("./"):
        glob = glob[1:] if "/" not in glob[2:] else glob[2:]
    at_home = glob == "~" or glob.startswith("~/")
    whole = os.path.expanduser(glob) if at_home else glob
    start = str(root).rstrip("/")
    if whole == start or whole.startswith(f"{start}/"):
        return whole[len(start) :].rstrip("/") or "**"
    if at_home:
        raise ToolError(f"`{glob}` is outside the session's directory; only what is inside it can be listed")
    return glob


def _braces(pattern: str) -> list[str]:
    """Expand `{a,b}` groups, innermost first.

    Raises:
        ToolError: that makes too many patterns.
    """
    if len(pattern) > MAX_PATTERN:
        raise ToolError(f"the pattern has {len(pattern):,} characters; at most {MAX_PATTERN:,} are taken")
    done: list[str] = []
    left = [pattern]
    while left:
        one = left.pop()
        close = one.find("}")
        start = one.rfind("{", 0, close) if close >= 0 else -1
        if start < 0:
            done.append(one)
        else:
            left += [one[:start] + option + one[close + 1 :] for option in one[start + 1 : close].split(",")]
        if len(done) + len(left) > _MAX_GLOBS:
            raise ToolError(f"the pattern stands for more than {_MAX_GLOBS} with all its braces; use fewer of them")
    return done


def _literal(pattern: str) -> str:
    return pattern.replace("[", "\\[")
