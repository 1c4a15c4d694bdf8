"""`write` and `edit`: whole files and exact replacements, each done at once or not at all, and shown as a diff."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pegboard import Presentation, Tool, ToolContext, ToolError, tool

from pegboard_workspace.diffs import Change, change, render, summarize
from pegboard_workspace.marks import Marks
from pegboard_workspace.places import MAX_FILE_BYTES, Place, guarded, locate, read_bytes, touch
from pegboard_workspace.replacing import Edit, replaced, with_line_ends
from pegboard_workspace.text import UTF_8, Decoded, decode
from pegboard_workspace.writing import replace


def writing_tools(marks: Marks) -> Iterable[Tool]:
    """Make `write` and `edit`; they change only what the session knows as it stands."""

    @tool(
        effect="write",
        timeout=30,
        touches=lambda path, **_: touch(path, content=True),
        present=_present_write,
        render=render,
        summarize=summarize,
    )
    def write(path: str, content: str, ctx: ToolContext) -> Change:
        """Write a whole text file, replacing one that is there and was read; missing folders are made.

        Encoding and line ends of a replaced file are kept; new ones are UTF-8.

        Args:
            path: The file, relative to the working directory.
            content: The new content, all of it.
        """
        place = guarded(ctx, path)
        before = read_bytes(place) if os.path.lexists(place.path) else None
        if before is not None:
            marks.check(ctx, place, before)
        old, new, data = _rewritten(place, before, content)
        replace(place, data, before)
        marks.leave(ctx, place, data)
        return change(place.shown, old, new, created=before is None)

    @tool(
        effect="write",
        timeout=30,
        touches=lambda path, **_: touch(path, content=True),
        present=_present_edit,
        render=render,
        summarize=summarize,
    )
    def edit(path: str, edits: list[Edit], ctx: ToolContext) -> Change:
        """Replace exact pieces of a text file that was read; all of them, or none if one does not fit.

        Encoding and line ends of the file are kept.

        Args:
            path: The file, relative to the working directory.
            edits: The replacements; each `old` must stand in the file exactly once, and they must not overlap.
        """
        place = guarded(ctx, path)
        before = read_bytes(place)
        marks.check(ctx, place, before)
        decoded, after = _edited(place, before, edits)
        data = _encode(place, after, decoded)
        replace(place, data, before)
        marks.leave(ctx, place, data)
        return change(place.shown, decoded.text, after, created=False)

    return [write, edit]


def _present_write(directory: Path, path: str, content: str, **_: Any) -> Presentation:
    place = locate(directory, path)
    before = read_bytes(place) if os.path.lexists(place.path) else None
    old, new, _data = _rewritten(place, before, content)
    return _presented(change(place.shown, old, new, created=before is None), "create")


def _present_edit(directory: Path, path: str, edits: list[Edit], **_: Any) -> Presentation:
    place = locate(directory, path)
    decoded, after = _edited(place, read_bytes(place), edits)
    return _presented(change(place.shown, decoded.text, after, created=False), "edit")


def _presented(done: Change, verb: str) -> Presentation:
    head = f"{verb if done['created'] else 'change'} {done['path']} (+{done['added']} -{done['removed']})"
    return Presentation("edit", head, (done["path"],), done["diff"])


def _rewritten(place: Place, before: bytes | None, content: str) -> tuple[str, str, bytes]:
    """Return a file's old text, its new one in the same line ends, and this as bytes of the same kind."""
    old = decode(before) if before else None
    if old is None or old.encode(old.text) != before:
        return "", content, _encode(place, content, UTF_8)
    crlf = "\r\n" in old.text and old.text.count("\n") == old.text.count("\r\n")
    new = with_line_ends(content.removeprefix("\ufeff") if old.mark else content, crlf)
    return old.text, new, _encode(place, new, old)


def _edited(place: Place, before: bytes, edits: list[Edit]) -> tuple[Decoded, str]:
    decoded = decode(before)
    if decoded is None or decoded.encode(decoded.text) != before:
        raise ToolError(f"`{place.shown}` is binary or can't be edited without changing other bytes")
    return decoded, replaced(place.shown, decoded.text, edits)


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
