"""Bytes to text and back: which encoding a file has, and whether it is text at all."""

import codecs
from dataclasses import dataclass
from typing import Final

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# What a guess may be: with more candidates short texts are taken for scripts that nobody meant.
_GUESSES: Final = ["cp1252", "gb18030", "shift_jis", "euc_jp", "big5", "euc_kr", "cp1251", "koi8_r", "cp1250"]
_BINARY_PROBE: Final = 8192


@dataclass(frozen=True, slots=True)
class Decoded:
    """A file's text and the name of the codec that read it."""

    text: str
    encoding: str


def looks_binary(data: bytes) -> bool:
    """Whether the first 8 KiB hold a NUL byte and no byte order mark explains it."""
    return b"\0" in data[:_BINARY_PROBE] and _by_mark(data) is None


def decode(data: bytes) -> Decoded | None:
    """Return the text of a file, or None if it is binary or in no encoding that we can tell."""
    if looks_binary(data):
        return None
    encoding = _by_mark(data) or "utf-8"
    try:
        return Decoded(data.decode(encoding), encoding)
    except UnicodeDecodeError:
        return _guess(data)


def encode(text: str, encoding: str) -> bytes:
    """Return `text` as bytes of an encoding that `decode` named, byte order mark included.

    Raises:
        UnicodeEncodeError: the encoding has no such character.
    """
    return text.encode(encoding)


def _by_mark(data: bytes) -> str | None:
    return next((name for mark, name in _BOMS if data.startswith(mark)), None)


def _guess(data: bytes) -> Decoded | None:
    from charset_normalizer import from_bytes

    best = from_bytes(data, cp_isolation=_GUESSES).best()
    if best is None:
        return None
    # Several code pages often give the same text; then it is the common one.
    encoding = _GUESSES[0] if _GUESSES[0] in best.could_be_from_charset else best.encoding
    try:
        return Decoded(data.decode(encoding), encoding)
    except UnicodeDecodeError:
        return None
