"""`write` and `edit`: whole files and exact replacements, each done at once or not at all, and shown as a diff."""

import difflib
import os
import secrets
import stat
from contextlib import suppress
from itertools import pairwise
from typing import Final

from pegboard import ToolContext, ToolError, Touch, tool
from typing_extensions import TypedDict

from pegboard_workspace.places import MAX_FILE_BYTES, Place, explain, locate, open_beneath, open_folder, read_bytes
from pegboard_workspace.text import UTF_8, Decoded, decode

MAX_DIFF_LINES: Final = 200
MAX_DIFFED_LINES: Final = 4_000


class Edit(TypedDict):
    """One replacement: `old` must stand in the file exactly once."""

    old: str
    new: str


class Change(TypedDict):
    """What became of a file: lines added and removed, and the diff."""

    path: str
    created: bool
    added: int
    removed: int
    diff: str


def _render(value: Change) -> str:
    head = f"{'created' if value['created'] else 'changed'} {value['path']} (+{value['added']} -{value['removed']})"
    return f"{head}\n{value['diff']}" if value["diff"] else head


def _summarize(value: Change) -> str:
    return f"{'new, ' if value['created'] else ''}+{value['added']} -{value['removed']}"


@tool(effect="write", timeout=30, touches=lambda path, **_: [Touch.path(path)], render=_render, summarize=_summarize)
def write(path: str, content: str, ctx: ToolContext) -> Change:
    """Write a whole text file (UTF-8), replacing one that is there; missing folders are made.

    Args:
        path: The file, relative to the working directory.
        content: The new content, all of it.
    """
    place = locate(ctx.directory, path)
    before = read_bytes(place) if os.path.lexists(place.path) else None
    old = decode(before) if before else None
    _replace(place, _encode(place, content, UTF_8), before)
    return _change(place, old.text if old else "", content, created=before is None)


@tool(effect="write", timeout=30, touches=lambda path, **_: [Touch.path(path)], render=_render, summarize=_summarize)
def edit(path: str, edits: list[Edit], ctx: ToolContext) -> Change:
    """Replace exact pieces of a text file; all of them, or none if one does not fit.

    Encoding and line ends of the file are kept.

    Args:
        path: The file, relative to the working directory.
        edits: The replacements; each `old` must stand in the file exactly once, and they must not overlap.
    """
    place = locate(ctx.directory, path)
    before = read_bytes(place)
    decoded = decode(before)
    if decoded is None or decoded.encode(decoded.text) != before:
        raise ToolError(f"`{place.shown}` is binary or can't be edited without changing other bytes")
    after = _apply(place, decoded.text, edits)
    _replace(place, _encode(place, after, decoded), before)
    return _change(place, decoded.text, after, created=False)


def _apply(place: Place, text: str, edits: list[Edit]) -> str:
    if not edits:
        raise ToolError("there are no edits; give at least one {old, new}")
    crlf = "\r\n" in text and text.count("\n") == text.count("\r\n")
    spans: list[tuple[int, int, str]] = []
    for number, wanted in enumerate(edits, 1):
        old, new = (_with_line_ends(wanted[key], crlf) for key in ("old", "new"))
        if not old:
            raise ToolError(f"edit {number}: `old` is empty; quote the text to replace")
        found = text.count(old)
        if found != 1:
            remedy = "read the file again" if found == 0 else "quote more lines around it"
            raise ToolError(f"edit {number}: `old` stands {found} times in `{place.shown}`, not once; {remedy}")
        at = text.index(old)
        if text.find(old, at + 1) != -1:
            raise ToolError(f"edit {number}: `old` overlaps itself in `{place.shown}`; quote more lines around it")
        spans.append((at, at + len(old), new))
    spans.sort()
    for (_, end, _), (start, _, _) in pairwise(spans):
        if start < end:
            raise ToolError("two edits overlap; join them into one")
    pieces: list[str] = []
    at = 0
    for start, end, new in spans:
        pieces += [text[at:start], new]
        at = end
    return "".join([*pieces, text[at:]])


def _with_line_ends(text: str, crlf: bool) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n") if crlf else text


def _encode(place: Place, text: str, like: Decoded) -> bytes:
    try:
        data = like.encode(text)
    except UnicodeEncodeError as error:
        character = text[error.start : error.start + 1]
        told = f"`{place.shown}` is {like.encoding}, which has no {character!r}; nothing was written"
        raise ToolError(told) from None
    if len(data) > MAX_FILE_BYTES:
        raise ToolError(f"that is {len(data):,} bytes; files up to {MAX_FILE_BYTES:,} can be written")
    return data


def _replace(place: Place, data: bytes, before: bytes | None) -> None:
    """Put `data` in a file's place in one move, unless the file is no longer what it was.

    Raises:
        ToolError: it changed meanwhile, or may not be written; the old file is then still there.
    """
    if not place.parts:
        raise ToolError("the session's directory itself is not a file")
    try:
        folder = open_folder(place, create=True)
    except OSError as error:
        raise ToolError(explain(place, error)) from None
    name = place.parts[-1]
    temporary = f".{secrets.token_hex(8)}.tmp"
    try:
        mode = _mode(name, folder)
        new = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
        with os.fdopen(new, "wb") as file:
            if mode is not None:
                os.fchmod(new, mode)
            file.write(data)
            file.flush()
            os.fsync(new)
        if _current(place) != before:
            raise ToolError(f"`{place.shown}` changed while it was being edited; read it again")
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        raise ToolError(explain(place, error)) from None
    finally:
        with suppress(FileNotFoundError):  # it has become the file
            os.unlink(temporary, dir_fd=folder)
        os.close(folder)


def _mode(name: str, folder: int) -> int | None:
    try:
        return stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode) & 0o777
    except FileNotFoundError:
        return None


def _current(place: Place) -> bytes | None:
    try:
        with os.fdopen(open_beneath(place, os.O_RDONLY), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _change(place: Place, before: str, after: str, *, created: bool) -> Change:
    old, new = _split(before), _split(after)
    if len(old) + len(new) > MAX_DIFFED_LINES:
        diff = ["(too large for a diff)"]
        added, removed = max(len(new) - len(old), 0), max(len(old) - len(new), 0)
    else:
        diff = list(difflib.unified_diff(old, new, lineterm="", n=3))[2:]
        added = sum(line.startswith("+") for line in diff)
        removed = sum(line.startswith("-") for line in diff)
    if len(diff) > MAX_DIFF_LINES:
        diff = [*diff[:MAX_DIFF_LINES], f"({len(diff) - MAX_DIFF_LINES} more lines of diff)"]
    return Change(path=place.shown, created=created, added=added, removed=removed, diff="\n".join(diff))


def _split(text: str) -> list[str]:
    """Split into lines; a carriage return stays, and a missing end of the last line is told, so that both show."""
    lines = text.split("\n")
    return lines[:-1] if not lines[-1] else [*lines[:-1], f"{lines[-1]} (no line end)"]
