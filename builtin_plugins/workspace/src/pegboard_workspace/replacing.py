"""Exact replacements in a text: each `old` stands in it once, or the model is told what is nearest to it."""

import difflib
import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from pegboard import ToolError
from typing_extensions import TypedDict

_MAX_LINES_NAMED: Final = 10
_MAX_NEAR: Final = 200
_MAX_SEARCHED: Final = 5_000
# Quotation marks, dashes and blanks that a reader takes for the plain ones.
_LOOK_ALIKE: Final = str.maketrans(
    "\u2018\u2019\u201a\u201c\u201d\u201e\u2013\u2014\u2212\u00a0\u2011", "'''\"\"\"--- -"
)


class Edit(TypedDict):
    """One replacement: `old` must stand in the file exactly once."""

    old: str
    new: str


def replaced(shown: str, text: str, edits: Sequence[Edit]) -> str:
    """Return a text with all edits done; they are found in the text as it was.

    Raises:
        ToolError: one does not fit; then none is done.
    """
    if not edits:
        raise ToolError("there are no edits; give at least one {old, new}")
    crlf = "\r\n" in text and text.count("\n") == text.count("\r\n")
    spans = sorted(_span(number, edit, shown, text, crlf) for number, edit in enumerate(edits, 1))
    for (_, end, _), (start, _, _) in pairwise(spans):
        if start < end:
            raise ToolError("two edits overlap; join them into one")
    pieces: list[str] = []
    at = 0
    for start, end, new in spans:
        pieces += [text[at:start], new]
        at = end
    return "".join([*pieces, text[at:]])


def with_line_ends(text: str, crlf: bool) -> str:
    """Return a text with the line ends of a file in which all are CRLF, or as it is."""
    return text.replace("\r\n", "\n").replace("\n", "\r\n") if crlf else text


def _span(number: int, edit: Edit, shown: str, text: str, crlf: bool) -> tuple[int, int, str]:
    old, new = with_line_ends(edit["old"], crlf), with_line_ends(edit["new"], crlf)
    if not old:
        raise ToolError(f"edit {number}: `old` is empty; quote the text to replace")
    if old == new:
        raise ToolError(f"edit {number}: `old` and `new` are the same; nothing would change")
    found = text.count(old)
    if found == 0:
        raise ToolError(f"edit {number}: `old` stands 0 times in `{shown}`, not once; {_nearest(text, old)}")
    at = text.index(old)
    if found > 1:
        lines = _lines_of(text, old)
        told = f"at lines {lines}; quote more lines around the one you mean"
        raise ToolError(f"edit {number}: `old` stands {found} times in `{shown}`, not once, {told}")
    if text.find(old, at + 1) != -1:
        raise ToolError(f"edit {number}: `old` overlaps itself in `{shown}`; quote more lines around it")
    return at, at + len(old), new


def _lines_of(text: str, old: str) -> str:
    numbers: list[str] = []
    at, line = -len(old), 1
    counted = 0
    while (at := text.find(old, at + len(old))) != -1 and len(numbers) < _MAX_LINES_NAMED:
        line += text.count("\n", counted, at)
        counted = at
        numbers.append(str(line))
    return ", ".join(numbers) + (", ..." if at != -1 else "")


def _nearest(text: str, old: str) -> str:
    """Say where a text like `old` stands and in what it differs, as far as that can be told."""
    for what, alike in _DIFFERENCES:
        plain = alike(old)
        if plain.strip() and (at := alike(text).find(plain)) != -1:
            line = alike(text).count("\n", 0, at) + 1
            return f"at line {line} it differs in {what} only: {_quoted(text, line)}"
    lines = text.split("\n")[:_MAX_SEARCHED]
    first = next((line.strip() for line in old.split("\n") if line.strip()), "")
    near = difflib.get_close_matches(first[:_MAX_NEAR], [line.strip()[:_MAX_NEAR] for line in lines], 1, 0.6)
    if not near:
        return "read the file again"
    line = next(at for at, one in enumerate(lines, 1) if one.strip()[:_MAX_NEAR] == near[0])
    return f"the nearest is line {line}: {_quoted(text, line)}"


def _quoted(text: str, line: int) -> str:
    return repr(text.split("\n")[line - 1][:_MAX_NEAR])


def _unblanked(text: str) -> str:
    """A text without blanks and tabs, so that only these can make a difference."""
    return text.replace(" ", "").replace("\t", "").replace("\r", "")


_DIFFERENCES: Final[Sequence[tuple[str, Callable[[str], str]]]] = (
    ("line ends", lambda text: text.replace("\r", "")),
    ("blanks", _unblanked),
    ("letter case", lambda text: text.lower() if text.isascii() else text.casefold()),
    ("characters that look alike", lambda text: unicodedata.normalize("NFKC", text.translate(_LOOK_ALIKE))),
)
