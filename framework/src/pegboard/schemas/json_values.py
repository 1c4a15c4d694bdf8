"""JSON data as values: a plain copy of it, how deep and large it is, and what a schema has against it (T29-T31).

Nothing here recurses: data and schemas may be nested as deep as memory allows.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pegboard.base.text import count, one_line

# Where something is: the place that it is in, and its key or index there; None is the root.
Place = tuple["Place | None", str | int]

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_$][\w$-]{0,79}")
_COMMON: Final = frozenset({str, int, bool, type(None)})  # plain, immutable, and never lost
_STEPS: Final = 12
_TOLD: Final = 10
_NAMES: Final = {
    "string": "a string",
    "number": "a number",
    "integer": "an integer",
    "boolean": "a boolean",
    "null": "null",
    "array": "an array",
    "object": "an object",
}


def where(place: Place | None, root: str = "", alone: str = "value") -> str:
    """Return a place as `root.items[3].name`, without its middle if it is long; `alone` is the root without a name."""
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(_step(step))
    if len(steps) > 2 * _STEPS:
        steps[_STEPS:-_STEPS] = ["…"]
    return (root + "".join(reversed(steps))).lstrip("." if not root else "") or alone


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_KEY.fullmatch(step) else f'["{one_line(step, 60)}"]'


def told(violations: Sequence[str]) -> list[str]:
    """Return the first ten, and one line that counts the others."""
    more = len(violations) - _TOLD
    return [*violations[:_TOLD], *([f"and {more:,} more"] if more > 0 else [])]


def measure(value: Any) -> tuple[int, int]:
    """Return how deep JSON data is nested (a scalar is 0 deep), and its size: values and every 16 characters."""
    depth, size, layer = -1, 0, [value]
    while layer:
        depth += 1
        inner: list[Any] = []
        for item in layer:
            size += 1
            if isinstance(item, str):
                size += len(item) // 16
            elif isinstance(item, dict):
                size += sum(map(len, item)) // 16
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        layer = inner
    return depth, size


def detach(value: Any, root: str = "", *, negative_zero: bool = False) -> tuple[Any, list[str]]:
    """Return a copy of JSON data in fresh dicts and lists, and in order what of it is no JSON, None in the copy (T30).

    Tuples count as lists, any Mapping as an object. Numbers must be finite and, unless told otherwise, not -0.0 (T29).
    """
    lost: list[str] = []
    whole: list[Any] = [None]
    entered: set[int] = set()
    todo: list[tuple[Any, Place | None, Any, Any]] = [(value, None, whole, 0)]
    while todo:
        inner, place, into, step = todo.pop()
        if into is None:  # everything in this container is done
            entered.discard(inner)
        elif problem := "is circular" if id(inner) in entered else _no_json(inner, negative_zero):
            lost.append(f"{where(place, root)} {problem}")
        elif isinstance(inner, Mapping | list | tuple):
            entered.add(id(inner))
            todo.append((id(inner), None, None, None))
            copy, items = _emptied(inner)
            into[step] = copy
            later = []
            for key, item in items:
                if not isinstance(key, str | int) or (isinstance(copy, dict) and isinstance(key, int)):
                    lost.append(f"{where(place, root)} has the key {one_line(repr(key), 40)}, which is no string")
                elif type(item) in _COMMON:
                    copy[key] = item
                else:
                    copy[key] = None  # keeps its place in the order
                    later.append((item, (place, key), copy, key))
            todo.extend(reversed(later))
        else:
            into[step] = _plain(inner)
    return whole[0], lost


def _emptied(value: Any) -> tuple[Any, Iterable[tuple[Any, Any]]]:
    """Return what a copy of a container begins as, and its items by key or index."""
    if isinstance(value, Mapping):
        return {}, [(str.__str__(key) if isinstance(key, str) else key, item) for key, item in value.items()]
    return [None] * len(value), enumerate(value)


def _no_json(value: Any, negative_zero: bool) -> str:
    if isinstance(value, float):
        if not math.isfinite(value):
            return "is not a finite number"
        return "is negative zero" if _is_negative_zero(value) and not negative_zero else ""
    if value is None or isinstance(value, str | int | Mapping | list | tuple):
        return ""
    return f"is of type {one_line(type(value).__name__, 40)}, which is no JSON"


def _plain(value: Any) -> Any:
    """Return a scalar without what a subclass adds to it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    return int(value) if isinstance(value, int) else float(value)


def _is_negative_zero(value: float) -> bool:
    return value == 0 and math.copysign(1, value) < 0


def is_a(kind: str, value: Any) -> bool:
    """Whether a value is of a JSON type; numbers as T29 has them, so a boolean is none."""
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "array":
            return isinstance(value, list | tuple)
        case "object":
            return isinstance(value, Mapping)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if isinstance(value, int):
        return True
    return math.isfinite(value) and not _is_negative_zero(value) and (kind == "number" or value.is_integer())


def shown(value: Any) -> str:
    """Return a value as JSON, cut after 80 characters."""
    if isinstance(value, list | tuple | Mapping):
        items = count(len(value), "item" if not isinstance(value, Mapping) else "key")
        return f"{'an object' if isinstance(value, Mapping) else 'an array'} of {items}"
    try:
        return one_line(json.dumps(value, ensure_ascii=False), 80)
    except (TypeError, ValueError):  # an integer of more digits than Python writes, or no JSON
        return _NAMES["integer"] if isinstance(value, int) else type(value).__name__


def violations(schema: Mapping[str, Any], value: Any) -> list[str]:
    """Return, in order, what a schema of the subset (`check_schema`) has against a value; empty if it fits (T30).

    Keys that a schema does not declare are refused only where it says so; defaults are never applied. Never raises.
    """
    return conform(schema, value)[1]


def conform(schema: Mapping[str, Any], value: Any) -> tuple[Any, list[str]]:
    """Return a value as plain JSON data of its own, and what a schema of the subset has against it."""
    plain, lost = detach(value)
    return plain, lost or _mismatches(schema, plain)


def _mismatches(schema: Mapping[str, Any], value: Any) -> list[str]:
    found: list[str] = []
    todo: list[_Task] = [(schema, value, None, found)]
    while todo:
        wanted, value, place, against = todo.pop()
        if isinstance(wanted, _Choice):
            against.extend(wanted.problems(place))
        elif against and against is not found:
            continue  # one violation is enough to rule a branch out
        elif branches := wanted.get("oneOf"):
            choice = _Choice([[] for _ in branches])
            todo.append((choice, value, place, against))
            todo.extend(
                [(branch, value, place, own) for branch, own in zip(branches, choice.against, strict=True)][::-1]
            )
        elif problem := _misfit(wanted, value):
            against.append(f"{where(place)} {problem}")
        elif isinstance(value, Mapping):
            against.extend(_keys(wanted, value, place))
            known = wanted.get("properties", {}).items()
            todo.extend([(inner, value[name], (place, name), against) for name, inner in known if name in value][::-1])
        elif isinstance(value, list | tuple) and "items" in wanted:
            todo.extend([(wanted["items"], item, (place, i), against) for i, item in enumerate(value)][::-1])
    return found


class _Choice:
    """A `oneOf` whose branches are being tried, with what each has against the value."""

    def __init__(self, against: list[list[str]]) -> None:
        self.against = against

    def problems(self, place: Place | None) -> list[str]:
        """Return what is wrong once all were tried: exactly one of them must fit."""
        fitting, branches = sum(not own for own in self.against), len(self.against)
        problem = f"{where(place)} must match exactly one of {branches} schemas, it matches {fitting}"
        return [] if fitting == 1 else [problem]


_Task = tuple[Mapping[str, Any] | _Choice, Any, Place | None, list[str]]


def _misfit(wanted: Mapping[str, Any], value: Any) -> str:
    """Return what a schema has against a value itself, whatever is in it."""
    kind = wanted.get("type")
    if kind is not None and not is_a(kind, value):
        return f"must be {_NAMES[kind]}, not {shown(value) if isinstance(value, float) else _kind_of(value)}"
    if "const" in wanted and value != wanted["const"]:
        return f"must be {shown(wanted['const'])}"
    if "enum" in wanted and value not in wanted["enum"]:
        options = ", ".join(told([shown(option) for option in wanted["enum"]]))
        return f"must be one of {options}"
    return ""


def _kind_of(value: Any) -> str:
    return next((name for kind, name in _NAMES.items() if kind != "number" and is_a(kind, value)), "no JSON")


def _keys(wanted: Mapping[str, Any], value: Mapping[str, Any], place: Place | None) -> Iterator[str]:
    """Yield what is missing, then what is not declared where only declared keys may stand."""
    known = wanted.get("properties", {})
    yield from (f"{where((place, name))} is missing" for name in wanted.get("required", ()) if name not in value)
    if wanted.get("additionalProperties") is False and (undeclared := [name for name in value if name not in known]):
        there_are = ", ".join(told([one_line(name, 60) for name in known])) or "none"
        yield from (f"{where((place, name))} is not a property (there are: {there_are})" for name in undeclared)
