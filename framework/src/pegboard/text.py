"""Making text safe and short enough to show; suggesting the name that was probably meant."""

import re
from collections.abc import Iterable
from typing import Final

# Control, bidirectional, zero-width and tag characters, line separators and lone surrogates: whatever could move a
# cursor, reorder a line or hide in it. Tab and newline stay.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Return `text` with every character that a terminal could act on shown as an escape (rule 15)."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str, width: int = 200) -> str:
    """Return `text` printable, on one line, cut with an ellipsis after `width` characters."""
    flat = " ".join(printable(text[: width * 4]).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return `1 match` or `3 matches`: a number with its noun in the right form."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean `x`?` for the known name nearest to `word`, or an empty string."""
    import difflib

    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean `{near[0]}`?" if near else ""
