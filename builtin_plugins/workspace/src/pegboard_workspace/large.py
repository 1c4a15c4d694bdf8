"""A range of lines of a file too large to be held: what comes before is only counted, what comes after is not read."""

from typing import BinaryIO, Final

from pegboard import CancelSignal, ToolError

from pegboard_workspace.text import Decoded, decode

_CHUNK: Final = 1_000_000
_HEAD: Final = 65_536
_MORE: Final = " … (this line goes on)"


def read_range(
    file: BinaryIO, shown: str, start: int, end: int, width: int, signal: CancelSignal
) -> tuple[str, list[str], int | None]:
    """Return the encoding, the lines `start` to `end`, and how many there are in all if the end was reached.

    Raises:
        ToolError: it is binary, or in an encoding whose lines can't be counted by bytes.
    """
    kind = _kind(file.read(_HEAD), shown)
    file.seek(len(kind.mark))
    before = _skip(file, start - 1, signal)
    if before < start - 1:
        return kind.encoding, [], before
    lines: list[str] = []
    while start + len(lines) <= end and (line := file.readline(width * 4)):
        ended = line.endswith(b"\n")
        text = line.decode(kind.codec, "replace").removesuffix("\n").removesuffix("\r")
        whole = ended or not _skip_line(file, signal)
        lines.append(text if whole and len(text) <= width else text[: width - len(_MORE)] + _MORE)
    at_end = not file.read(1)
    return kind.encoding, lines, before + len(lines) if at_end else None


def _kind(head: bytes, shown: str) -> Decoded:
    cut = head.rfind(b"\n") + 1 or len(head) - 4  # a character may be cut at the end
    kind = decode(head[:cut])
    if kind is None or kind.codec.startswith(("utf-16", "utf-32")):
        raise ToolError(f"`{shown}` is binary, or in an encoding in which large files can't be read")
    return kind


def _skip(file: BinaryIO, lines: int, signal: CancelSignal) -> int:
    """Pass over lines; returns how many there were."""
    passed = 0
    ended = True
    while passed < lines and not signal.cancelled and (chunk := file.read(_CHUNK)):
        found = chunk.count(b"\n")
        if passed + found < lines:
            passed += found
            ended = chunk.endswith(b"\n")
            continue
        at = -1
        for _ in range(lines - passed):
            at = chunk.index(b"\n", at + 1)
        file.seek(at + 1 - len(chunk), 1)
        return lines
    return passed + (not ended)


def _skip_line(file: BinaryIO, signal: CancelSignal) -> bool:
    """Pass over the rest of a line; returns whether there was any."""
    rest = False
    while not signal.cancelled and (piece := file.readline(_CHUNK)):
        rest = rest or piece not in (b"\n", b"\r\n")
        if piece.endswith(b"\n"):
            break
    return rest
