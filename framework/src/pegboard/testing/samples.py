"""Events to try a store or a front end with, of every type a full one and an empty one; and how to compare entries."""

# ruff: noqa: S101 - a comparison is an assertion

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from pegboard.base.frozen import freeze
from pegboard.values.entries import Entry
from pegboard.values.events import EVENTS, Event, Said, SessionStart

# What JSON allows and columns of a table don't: booleans beside numbers, large numbers, empty and foreign keys.
_DATA: Final = {
    "": None,
    "true": True,
    "one": 1,
    "large": 2**70,
    "small": -1.5e-7,
    "ключ 'k' \"q\"": ["text", [], {}, {"inner": [False, 0, ""]}],
}


def every_event(session: str) -> tuple[Event, ...]:
    """Return two events of each type, with values of every field's own type."""

    return tuple(_event(kind, session, full) for kind in EVENTS for full in (True, False))


def session_start(session: str, ts: float = 1000.0) -> Entry:
    """Return the first entry of a session that began at `ts`, in seconds since the epoch."""
    return Entry(1, SessionStart(session, 0, ts, "/somewhere", "main", None, 0))


def said(session: str, first: int, *texts: str) -> list[Entry]:
    """Return one entry for each text, numbered from `first`."""
    return [Entry(place, Said(session, 1, 1000.0 + place, 1, text)) for place, text in enumerate(texts, first)]


def numbered(events_: Sequence[Event], first: int = 1) -> list[Entry]:
    """Return entries of these events, numbered from `first`."""
    return [Entry(place, event) for place, event in enumerate(events_, first)]


def texts_of(entries: Sequence[Entry]) -> list[str]:
    """Return the texts of what was said."""
    return [entry.event.text for entry in entries if isinstance(entry.event, Said)]


def check_dense(entries: Sequence[Entry]) -> None:
    """Check that the entries are numbered from 1 without a gap."""
    ids = [entry.id for entry in entries]
    assert ids == list(range(1, len(ids) + 1)), f"the ids are not dense from 1: {ids}"


def check_same(found: Sequence[Entry], wanted: Sequence[Entry]) -> None:
    """Compare the values, and their JSON, which tells True from 1 and 1.0 from 1."""
    ids = [entry.id for entry in found], [entry.id for entry in wanted]
    assert ids[0] == ids[1], f"the entries {ids[0]} came back, not {ids[1]}"
    for one, other in zip(found, wanted, strict=True):
        texts = [json.dumps(entry.event.as_json(), sort_keys=True) for entry in (one, other)]
        same = one == other and type(one.event) is type(other.event) and texts[0] == texts[1]
        assert same, f"entry {other.id} came back changed: {texts[0][:500]}, not {texts[1][:500]}"


def _event(kind: type[Event], session: str, full: bool) -> Event:
    hints = get_type_hints(kind)
    given = {f.name: _value(hints[f.name], f.name, place, full) for place, f in enumerate(fields(kind), 2)}
    return kind(**{**given, "session": session})


def _value(hint: Any, name: str, place: int, full: bool) -> Any:
    """Make a value; those of two fields differ, so that fields which change places are noticed."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType) and NoneType in inner:
        return _value(next(one for one in inner if one is not NoneType), name, place, full) if full else None
    if origin is Literal:
        return inner[-1 if full else 0]
    if origin is tuple:
        return tuple(_value(inner[0], f"{name} {number}", place, full) for number in (1, 2)) if full else ()
    if origin is Mapping:
        return freeze({**_DATA, "name": name}) if full else freeze({})
    if is_dataclass(hint) and isinstance(hint, type):
        own = get_type_hints(hint)
        return hint(**{f.name: _value(own[f.name], f.name, place + n, full) for n, f in enumerate(fields(hint))})
    full_and_empty = {str: (f"{name}: \t'\"\\\r\n é 😀", ""), int: (place, 0), float: (place + 0.1, 0.0)}
    full_and_empty[bool] = (True, False)
    return full_and_empty[hint][0 if full else 1]
