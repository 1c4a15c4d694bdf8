"""A session as JSON lines and back: the same bytes after any number of round trips."""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from pegboard import Entry, Event, PegboardError, UsageError

from pegboard_tape.store import TapeStore, check_id

_PLAIN: Final[dict[Any, tuple[type, ...]]] = {int: (int,), float: (int, float), str: (str,), bool: (bool,)}
# A key in an entry: of a blob if there is one under it, else just 64 digits.
_KEY: Final = re.compile(r"[0-9a-f]{64}")


async def export_lines(store: TapeStore, session: str) -> list[bytes]:
    """Return the lines: each entry, and before the first one that names it, each blob.

    Raises:
        PegboardError: an entry can't be read.
    """
    lines: list[bytes] = []
    known: set[str] = set()
    for entry in await store.read(session):
        for key in _keys_in(entry.as_json()):
            if key not in known:
                known.add(key)
                lines += await _blob_line(store, key)
        lines.append(_line(entry.as_json()))
    return lines


async def import_lines(store: TapeStore, lines: Iterable[bytes]) -> tuple[str, int]:
    """Keep what an export holds; returns the session, and how many entries were not there before (TP38).

    Raises:
        UsageError: it is no export, or the session is there and says something else.
    """
    entries, blobs = _read(lines)
    session = entries[0].session
    there = list(await store.read(session))
    if there != entries[: len(there)]:
        told = f"session {session} is kept here already and is not the beginning of what the file holds"
        raise UsageError(f"{told}; nothing was added")
    for data in blobs:
        await store.put_blob(data)
    new = entries[len(there) :]
    await store.append(session, new, expect=len(there))
    return session, len(new)


async def _blob_line(store: TapeStore, key: str) -> list[bytes]:
    try:
        data = await store.get_blob(key)
    except LookupError:
        return []
    return [_line({"blob": key, "base64": base64.b64encode(data).decode("ascii")})]


def _read(lines: Iterable[bytes]) -> tuple[list[Entry], list[bytes]]:
    entries: list[Entry] = []
    blobs: list[bytes] = []
    for number, line in enumerate(lines, 1):
        try:
            shape = json.loads(line)
            if "blob" in shape and "base64" in shape:
                blobs.append(_checked_blob(shape))
            else:
                entries.append(Entry.from_json(shape))
                _check_place(entries)
                _check_fields(entries[-1].event)
        except (ValueError, TypeError, AttributeError, RecursionError, PegboardError) as error:
            raise UsageError(f"line {number} is not of a session's export: {error}; nothing was added") from None
    if not entries:
        raise UsageError("there is no session in it; `pegboard tape export` writes what can be read")
    return entries, blobs


def _check_place(entries: Sequence[Entry]) -> None:
    last = entries[-1]
    check_id(last.session)
    if (last.session, last.id) != (entries[0].session, len(entries)):
        raise ValueError(
            f"entry {last.id} of session {last.session} is not entry {len(entries)} of {entries[0].session}"
        )


def _check_fields(event: Event) -> None:
    """Refuse an entry that a program could have written and Pegboard could not: whoever shows it relies on that."""
    for field in fields(event):
        given, wanted = getattr(event, field.name), field.type
        if wanted in _PLAIN and not isinstance(given, _PLAIN[wanted]):
            raise ValueError(f"its {field.name} is {type(given).__name__}")


def _checked_blob(shape: Mapping[str, Any]) -> bytes:
    data = base64.b64decode(shape["base64"], validate=True)
    if hashlib.sha256(data).hexdigest() != shape["blob"]:
        raise ValueError(f"the bytes are not those of blob {str(shape['blob'])[:12]}")
    return data


def _line(shape: Mapping[str, Any]) -> bytes:
    text = json.dumps(shape, ensure_ascii=False)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can hold
        return json.dumps(shape).encode() + b"\n"


def _keys_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) == 64 and _KEY.fullmatch(value):
            yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _keys_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys_in(inner)
