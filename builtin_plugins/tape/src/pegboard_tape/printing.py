"""Text from a record made safe to print, and durations, sizes and moments as people read them."""

import unicodedata
from datetime import datetime
from typing import Final

# Letters that draw nothing, which Python takes for printable.
_FILLERS: Final = frozenset("\u115f\u1160\u17b4\u17b5\u3164\uffa0\u034f")


def safe(text: str) -> str:
    """Return a text with everything that a terminal could act on, or a reader miss, as an escape; lines stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if _is_plain(character) else _escaped(character) for character in text)


def one_line(text: str, width: int) -> str:
    """Return a text safe, on one line, cut with an ellipsis after so many characters."""
    flat = " ".join(safe(text[: width * 4]).split())
    return flat if len(flat) <= width and len(text) <= width * 4 else flat[: width - 1] + "…"


def duration(ms: float) -> str:
    """Return milliseconds as people say them."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.1f} s" if ms < 60_000 else f"{ms / 60_000:.0f} min"


def size(number: int) -> str:
    """Return a number of bytes as people say it."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= scale:
            return f"{number / scale:.1f} {unit}"
    return f"{number} bytes"


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 step`, `1,200 entries`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def clock(ts: float) -> str:
    """Return the local time of day, to a tenth of a second."""
    try:
        told = datetime.fromtimestamp(ts)
    except (OverflowError, ValueError, OSError):
        return "--:--:--.-"
    return f"{told:%H:%M:%S}.{told.microsecond // 100_000}"


def day(ts: float) -> str:
    """Return the local date and time, to a minute."""
    try:
        return f"{datetime.fromtimestamp(ts):%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return "????-??-?? ??:??"


def _is_plain(character: str) -> bool:
    if character in "\t\n":
        return True
    return character not in _FILLERS and (character.isprintable() or unicodedata.category(character) == "Zs")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
