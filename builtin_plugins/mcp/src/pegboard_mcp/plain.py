"""JSON data from elsewhere: a copy of one's own, how deep and large it is, and how a place in it reads.

Nothing here recurses: what a server sends may be nested as deep as memory allows.
"""

import json
import math
import re
from collections.abc import Sequence
from typing import Any, Final

from pegboard import InvalidArguments, one_line

# Where something is: the place that it is in, and its key or index there; None is the root.
Place = tuple["Place | None", str | int]

MAX_DEPTH: Final = 100
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_$][\w$-]{0,79}")
_STEPS: Final = 12
_TOLD: Final = 10


def measure(value: Any) -> tuple[int, int]:
    """Return how deep JSON data is nested (a scalar is 0 deep), and its size: values and every 16 characters.

    What lies more than one level below `MAX_DEPTH` is not looked at.
    """
    depth, size, layer = -1, 0, [value]
    while layer and depth <= MAX_DEPTH:
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


def copied(value: Any) -> Any:
    """Return a copy of JSON data that is at most `MAX_DEPTH` deep.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except TypeError as error:
        raise ValueError(str(error)) from None


def read_object(text: str) -> dict[str, Any]:
    """Parse a JSON object strictly; an empty text means `{}`, NaN and infinities are refused.

    Raises:
        InvalidArguments: it is something else.
    """
    try:
        value = _STRICT.decode(text or "{}")
    except RecursionError:
        raise InvalidArguments([f"nested more than {MAX_DEPTH} levels deep"]) from None
    except ValueError as error:
        raise InvalidArguments([f"not JSON: {error}"]) from None
    if not isinstance(value, dict):
        raise InvalidArguments([f"a JSON object is wanted, not {type(value).__name__}"])
    return value


def where(place: Place | None, root: str = "", alone: str = "value") -> str:
    """Return a place as `root.items[3].name`, without its middle if it is long; `alone` is the root without a name."""
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(_step(step))
    if len(steps) > 2 * _STEPS:
        steps[_STEPS:-_STEPS] = ["…"]
    return (root + "".join(reversed(steps))).lstrip("." if not root else "") or alone


def told(lines: Sequence[str]) -> list[str]:
    """Return the first ten, and one line that counts the others."""
    more = len(lines) - _TOLD
    return [*lines[:_TOLD], *([f"and {more:,} more"] if more > 0 else [])]


def shown(value: Any) -> str:
    """Return a value as JSON, cut after 80 characters."""
    if isinstance(value, list | dict):
        noun = "item" if isinstance(value, list) else "key"
        kind = "an array" if isinstance(value, list) else "an object"
        return f"{kind} of {len(value):,} {noun}{'' if len(value) == 1 else 's'}"
    try:
        return one_line(json.dumps(value, ensure_ascii=False), 80)
    except ValueError:  # an integer of more digits than Python writes
        return "an integer"


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_KEY.fullmatch(step) else f'["{one_line(step, 60)}"]'


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a finite number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        _refuse(text[:40])
    return number


# Made once: json.loads would make one for every call that has options.
_STRICT: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
