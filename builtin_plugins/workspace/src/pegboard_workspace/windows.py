"""The part of a long line that is shown of a match."""

from collections.abc import Callable
from typing import Final

from typing_extensions import TypedDict

MAX_LINE: Final = 400
_BEFORE: Final = 150
_SECONDS: Final = 1.0


class Window(TypedDict):
    """The text to show, and the 1-based column of the hit if it is not the whole line, else 0."""

    text: str
    column: int


def windows(pattern: str, ignore_case: bool) -> Callable[[str], Window]:
    """Return what cuts a line to the part round its first hit."""

    def window(line: str) -> Window:
        if len(line) <= MAX_LINE:
            return Window(text=line, column=0)
        at = _first_hit(pattern, ignore_case, line)
        start = min(max(at - _BEFORE, 0), len(line) - MAX_LINE)
        end = start + MAX_LINE
        before = f"({start:,} characters before) … " if start else ""
        after = f" … ({len(line) - end:,} more characters)" if end < len(line) else ""
        return Window(text=f"{before}{line[start:end]}{after}", column=at + 1)

    return window


def _first_hit(pattern: str, ignore_case: bool, line: str) -> int:
    import regex

    try:
        found = regex.search(pattern, line, regex.IGNORECASE if ignore_case else 0, timeout=_SECONDS)
    except (regex.error, TimeoutError):
        return 0
    return found.start() if found else 0
