"""Bytes to text and back: which encoding a file has, and whether it is text at all."""

import codecs
from dataclasses import dataclass
from typing import Final

# mark, codec of what follows it, the encoding's name
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8", "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "utf-16"),
)
# What a guess may be, the likelier first: with more candidates short texts are taken for scripts that nobody meant.
_GUESSES: Final = ["cp1252", "gb18030", "shift_jis", "euc_jp", "big5", "euc_kr", "cp1251", "koi8_r", "cp1250"]
BINARY_PROBE: Final = 8192


@dataclass(frozen=True, slots=True)
class Decoded:
    """A file's text, the name of its encoding, and what gives its bytes back: the codec and the byte order mark."""

    text: str
    encoding: str
    codec: str
    mark: bytes = b""

    def encode(self, text: str) -> bytes:
        """Return another text as bytes of the same kind.

        Raises:
            UnicodeEncodeError: the encoding has no such character.
        """
        return self.mark + text.encode(self.codec)


UTF_8: Final = Decoded("", "utf-8", "utf-8")


def looks_binary(data: bytes) -> bool:
    """Whether the first 8 KiB hold a NUL byte and no byte order mark explains it."""
    return b"\0" in data[:BINARY_PROBE] and not any(data.startswith(mark) for mark, _, _ in _MARKS)


def decode(data: bytes) -> Decoded | None:
    """Return the text of a file, or None if it is binary or in no encoding that we can tell."""
    if looks_binary(data):
        return None
    marked = next(((mark, codec, name) for mark, codec, name in _MARKS if data.startswith(mark)), None)
    mark, codec, name = marked or (b"", "utf-8", "utf-8")
    try:
        return Decoded(data[len(mark) :].decode(codec), name, codec, mark)
    except UnicodeDecodeError:
        return _guess(data)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, as `read` counts and `grep` searches them, without their ends (LF or CRLF)."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _guess(data: bytes) -> Decoded | None:
    from charset_normalizer import from_bytes

    found = list(from_bytes(data, cp_isolation=_GUESSES))
    if not found:
        return None
    codec = min(found, key=lambda guess: (guess.chaos, -guess.coherence, _GUESSES.index(guess.encoding))).encoding
    try:
        return Decoded(data.decode(codec), codec, codec)
    except UnicodeDecodeError:
        return None
