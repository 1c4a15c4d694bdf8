"""JSON data that nobody can change on the way: mappings and tuples in place of dicts and lists, and back."""

import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pegboard.base.errors import InvalidArguments

MAX_DEPTH: Final = 100


def freeze(value: Any, depth: int = 0) -> Any:
    """Return JSON data with every dict as a read-only mapping and every list as a tuple.

    Raises:
        InvalidArguments: it is nested more than 100 levels deep.
    """
    if depth > MAX_DEPTH:
        raise InvalidArguments([f"nested more than {MAX_DEPTH} levels deep"])
    if isinstance(value, dict):
        return MappingProxyType({key: freeze(inner, depth + 1) for key, inner in value.items()})
    if isinstance(value, list):
        return tuple(freeze(inner, depth + 1) for inner in value)
    return value


def thaw(value: Any) -> Any:
    """Return frozen JSON data as fresh dicts and lists."""
    if isinstance(value, Mapping):
        return {key: thaw(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [thaw(inner) for inner in value]
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a finite number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        _refuse(text[:40])
    return number


# Made once: json.loads would make one for every call that has options.
_STRICT: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def read_object(text: str) -> dict[str, Any]:
    """Parse a JSON object strictly; an empty text means `{}` (T46), NaN and infinities are refused (T29).

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
