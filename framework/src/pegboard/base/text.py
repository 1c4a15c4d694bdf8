"""Making text safe and short enough to show; suggesting the name that was probably meant."""

import re
from collections.abc import Iterable
from typing import Final

# Whatever could move a cursor, reorder a line, or stand in it unseen: control, format, bidirectional and tag
# characters, fillers and joiners that draw nothing, line separators, lone surrogates. Tab and newline stay.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Return `text` with every character that a terminal could act on or a reader miss as an escape (rule 15)."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str, width: int = 200) -> str:
    """Return `text` printable, on one line, cut with an ellipsis after `width` characters."""
    if len(text) <= width and text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()  # nearly every text that comes here
    start = text[: width * 4]
    flat = " ".join(printable(start).split())
    if len(flat) > width or len(start) < len(text):
        return flat[: width - 1] + "…"
    return flat


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return `1 match` or `3 matches`: a number with its noun in the right form."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean `x`?` for the known name nearest to `word`, or an empty string."""
    import difflib

    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean `{near[0]}`?" if near else ""
