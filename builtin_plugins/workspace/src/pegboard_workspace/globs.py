"""The globs of `.gitignore` files as regular expressions that no pattern and no path can make slow.

A star takes the nearest place where the piece after it fits, and never comes back to it: with whole paths in segments
that finds whatever backtracking would find, in time that grows with pattern times path.
"""

import re
from collections.abc import Iterator
from typing import Final

_CLASSES: Final = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": " \\t", "digit": "0-9", "lower": "a-z", "upper": "A-Z",
    "punct": "!-\\/:-@\\[-`{-~", "space": "\\s", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_FOLDERS: Final = r"(?:[^/]+/)*"
_FEWEST_FOLDERS: Final = r"(?:[^/]+/)*?"
_ANYTHING: Final = r"[\s\S]+"
_MANY: Final = "**"


class NoGlob(ValueError):
    """A pattern that can match nothing, as git sees it."""


def translate(pattern: str, *, below: bool = False) -> "re.Pattern[str]":
    """Return what matches the whole path of an entry, relative to the folder that the pattern belongs to.

    `pattern` is one without its `!` and without a final slash. `below`: what lies in a folder that it matches, too.

    Raises:
        NoGlob: it can match nothing.
    """
    names = (f"s{number}" for number in range(len(pattern) + 2))
    parts = _split(pattern.removeprefix("/"))
    if "/" not in pattern:
        parts = [_MANY, "*"] if parts == [_MANY] else [_MANY, *parts]
    if not all(parts):
        raise NoGlob("an empty part")
    runs: list[list[str]] = [[]]
    for part in parts:
        if part != _MANY:
            runs[-1].append(_segment(part, names))
        elif runs[-1] or len(runs) == 1:
            runs.append([])
    first, *middle, last = runs if len(runs) > 1 else [[], *runs]
    text = "".join(f"{segment}/" for segment in first)
    text += "".join(_nearest(_FEWEST_FOLDERS + "".join(f"{one}/" for one in run), names) for run in middle)
    text += (_FOLDERS if len(runs) > 1 else "") + "/".join(last) if last else _ANYTHING
    return re.compile(text + (r"(?:/[\s\S]*)?" if below else ""))


def _split(pattern: str) -> list[str]:
    parts = pattern.split("/")
    # An escaped slash is a slash.
    return [part[:-1] if _ends_escaped(part) and at < len(parts) - 1 else part for at, part in enumerate(parts)]


def _ends_escaped(part: str) -> bool:
    return (len(part) - len(part.rstrip("\\"))) % 2 == 1


def _nearest(text: str, names: Iterator[str]) -> str:
    """Return what matches `text` at the first place it can and keeps to that, before Python had a word for it."""
    name = next(names)
    return f"(?=(?P<{name}>{text}))(?P={name})"


def _segment(part: str, names: Iterator[str]) -> str:
    """Translate what stands between two slashes; it matches at least one character."""
    pieces: list[str] = [""]
    at = 0
    while at < len(part):
        here = part[at]
        at += 1
        if here == "*":
            pieces.append("")
        elif here == "?":
            pieces[-1] += "[^/]"
        elif here == "[":
            text, at = _class(part, at)
            pieces[-1] += text
        elif here == "\\":
            if at == len(part):
                raise NoGlob("a backslash at the end")
            pieces[-1] += re.escape(part[at])
            at += 1
        else:
            pieces[-1] += re.escape(here)
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    if not any(pieces):
        return "[^/]+"
    return first + "".join(_nearest(f"[^/]*?{piece}", names) for piece in middle if piece) + f"[^/]*{last}"


def _class(part: str, at: int) -> tuple[str, int]:
    """Translate a class whose bracket stands before `at`; returns it and where it ends."""
    negated = part[at : at + 1] in ("!", "^") and bool(part[at : at + 1])
    at += negated
    begin, found = at, ""
    while at == begin or part[at : at + 1] != "]":
        if named := re.compile(r"\[:(\w+):\]").match(part, at):
            if named[1] not in _CLASSES:
                raise NoGlob(f"no class {named[1]}")
            found += _CLASSES[named[1]]
            at = named.end()
            continue
        low, at = _character(part, at)
        if part[at : at + 1] == "-" and part[at + 1 : at + 2] not in ("]", ""):
            high, at = _character(part, at + 1)
            found += f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
        else:
            found += re.escape(low)
    if negated:
        return f"[^/{found}]", at + 1
    return f"[{found}]" if found else "(?!)", at + 1


def _character(part: str, at: int) -> tuple[str, int]:
    at += part[at : at + 1] == "\\"
    if at >= len(part):
        raise NoGlob("a bracket without its end")
    return part[at], at + 1
