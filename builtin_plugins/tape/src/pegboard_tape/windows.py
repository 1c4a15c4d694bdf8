"""What stood around entries of a session, within budgets of entries and bytes; what was asked for comes first."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pegboard_tape.facts import Kind
from pegboard_tape.visible import Visible

_ELLIPSIS: Final = "..."
_SUMMARY: Final = 1200
_SHORT: Final = 120  # beside the text itself
_SELECT: Final = (
    "SELECT s.id, e.id, e.kind, e.name, e.ref, e.ts, e.text, e.payload "
    "FROM session s CROSS JOIN entry e ON e.session = s.key"
)
_NAMED: Final = ("path", "file", "files", "paths", "command")


@dataclass(frozen=True, slots=True)
class Window:
    """What is wanted around each entry; the limits are those of the tool `tape_context`."""

    before: int = 2
    after: int = 2
    limit: int = 50
    per_entry: int = 2048
    total: int = 16_384


@dataclass(frozen=True, slots=True)
class Shown:
    """An entry that counts, as a row of the file."""

    session: str
    id: int
    kind: Kind
    name: str
    ref: str | None
    ts: float
    text: str
    payload: str

    def as_json(self, room: int) -> dict[str, Any]:
        """Return what a model is given, with at most `room` bytes of its text."""
        text = cut(self.text, room)
        whole = len(self.text.encode())
        return {
            "entryId": self.id,
            "kind": self.kind,
            "name": self.name,
            "summary": summary_of(self.text, _SHORT),
            "refs": refs_of(self.payload),
            "evidence": {"text": text, "truncated": text != self.text, "bytes": whole},
            "createdAt": moment(self.ts),
        }


def around(
    connection: sqlite3.Connection,
    get: Callable[[str], bytes],
    session: str,
    wanted: Iterable[int],
    window: Window,
    head: int | None = None,
) -> tuple[list[int], list[dict[str, Any]]]:
    """Return which of the wanted entries count, and them with their neighbours; never beyond `head`."""
    rows = _Rows(connection, Visible(connection, get), session, head)
    asked = sorted(set(wanted))
    matched = {row.id: row for identity in asked if (row := rows.at(identity)) is not None}
    neighbours: dict[int, Shown] = {}
    for identity in matched:
        for row in (*rows.before(identity, window.before), *rows.after(identity, window.after)):
            neighbours.setdefault(row.id, row)
    first = list(matched.values())
    others = [row for identity, row in sorted(neighbours.items()) if identity not in matched]
    return list(matched), _within([*first, *others][: window.limit], window)


def _within(rows: Sequence[Shown], window: Window) -> list[dict[str, Any]]:
    """Share out the bytes in this order; an entry for which none are left is dropped."""
    left, told = window.total, []
    for row in rows:
        room = min(window.per_entry, left)
        taken = len(cut(row.text, room).encode())
        if taken:
            told.append(row.as_json(room))
            left -= taken
    return sorted(told, key=lambda one: one["entryId"])


class _Rows:
    """The rows of one session that count."""

    def __init__(self, connection: sqlite3.Connection, visible: Visible, session: str, head: int | None) -> None:
        self._connection = connection
        self._visible = visible
        self._session = session
        self._head = head

    def at(self, identity: int) -> Shown | None:
        return next(self._counting("=", identity, "ASC"), None)

    def before(self, identity: int, number: int) -> list[Shown]:
        return _first(self._counting("<", identity, "DESC"), number)

    def after(self, identity: int, number: int) -> list[Shown]:
        return _first(self._counting(">", identity, "ASC"), number)

    def _counting(self, sign: str, identity: int, order: str) -> Iterator[Shown]:
        rows = self._connection.execute(
            f"{_SELECT} WHERE s.id = ? AND e.id {sign} ? AND e.id <= ? AND e.text <> '' ORDER BY e.id {order}",
            (self._session, identity, 2**62 if self._head is None else self._head),
        )
        return (shown for row in rows if self._visible.shows(shown := Shown(*row)))


def _first(rows: Iterator[Shown], number: int) -> list[Shown]:
    return [row for _, row in zip(range(number), rows, strict=False)]


def cut(text: str, room: int) -> str:
    """Return at most `room` bytes of a text, valid UTF-8; what is cut ends with `...` (TP16)."""
    data = text.encode()
    if len(data) <= room:
        return text
    if room < len(_ELLIPSIS):
        return ""
    return data[: room - len(_ELLIPSIS)].decode("utf-8", "ignore") + _ELLIPSIS


def summary_of(text: str, width: int = _SUMMARY) -> str:
    """Return the beginning of a text on one line."""
    flat = " ".join(text[: width * 4].split())
    return flat if len(flat) <= width and len(text) <= width * 4 else flat[: width - 1] + "…"


def refs_of(payload: str) -> dict[str, Any]:
    """Return what an entry refers to: the call, its tool, how it ended, files and commands it names."""
    shape = json.loads(payload)
    match shape.get("type"):
        case "tool_call":
            named = {key: shape["arguments"][key] for key in _NAMED if key in (shape.get("arguments") or {})}
            return {"toolCallId": shape.get("id"), "toolName": shape.get("name"), **named}
        case "tool_result":
            refs = {"toolCallId": shape.get("id"), "toolName": shape.get("name"), "status": shape.get("status")}
            return {**refs, "errorCode": shape["code"]} if shape.get("code") else refs
        case "message":
            return {"role": "user"}
        case "reply":
            return {"role": "assistant"}
        case "note":
            return {"pack": shape.get("pack")}
    return {}


def moment(ts: float) -> str:
    """Return a time as ISO 8601, in UTC."""
    try:
        return datetime.fromtimestamp(ts, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return ""
