"""Marks that a pack's author puts on fields of a settings model, and where in a model they stand."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

# The way to a field: a key, or None for every key of a table and every item of a list.
Pattern = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class FieldRule:
    """A mark in `Annotated[..., mark]`; it changes who may set a field, never what the field accepts."""

    name: str


narrowing: Final = FieldRule("narrowing")
"""`deny: Annotated[list[str], narrowing] = []`: what each layer lists adds up, and a project may add before it is
trusted. Only for lists of which every further item can only forbid or ask more."""

user_only: Final = FieldRule("user_only")
"""`base_url: Annotated[str, user_only] = ""`: never taken from a project, trusted or not.
For keys, endpoints, modes."""


# Each agent's definition is checked when it is created; a model's fields never change.
@cache
def marked_fields(model: "type[BaseModel]", mark: FieldRule) -> tuple[Pattern, ...]:
    """Return where in a settings model, and in the models inside it, the mark stands."""
    return tuple(dict.fromkeys(path for path, found in _of_type(model, (), ()) if found == mark))


def _of_type(annotation: Any, path: Pattern, inside: tuple[Any, ...]) -> Iterator[tuple[Pattern, FieldRule]]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if hasattr(annotation, "__value__"):  # `type X = ...`
        yield from _of_type(annotation.__value__, path, inside)
    elif origin is Annotated:
        yield from ((path, mark) for mark in arguments[1:] if isinstance(mark, FieldRule))
        yield from _of_type(arguments[0], path, inside)
    elif origin is not None:
        yield from _of_generic(origin, arguments, path, inside)
    elif isinstance(annotation, type) and annotation not in inside:
        for key, kind, marks in _fields(annotation):
            yield from (((*path, key), mark) for mark in marks if isinstance(mark, FieldRule))
            yield from _of_type(kind, (*path, key), (*inside, annotation))


def _of_generic(
    origin: Any, arguments: tuple[Any, ...], path: Pattern, inside: tuple[Any, ...]
) -> Iterator[tuple[Pattern, FieldRule]]:
    import types
    from collections.abc import Mapping

    if hasattr(origin, "__value__"):
        yield from _of_type(origin.__value__, path, inside)
    elif hasattr(origin, "model_fields") or origin in (Union, types.UnionType):
        for argument in arguments if origin in (Union, types.UnionType) else (origin,):
            yield from _of_type(argument, path, inside)
    else:
        is_table = isinstance(origin, type) and issubclass(origin, Mapping)
        for argument in arguments[1:] if is_table else arguments:
            yield from _of_type(argument, (*path, None), inside)


def _fields(kind: type) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """Yield (key in a file, annotation, marks) of each field of a model, a dataclass or a typed dictionary."""
    import dataclasses
    from typing import is_typeddict

    if hasattr(kind, "model_fields"):
        for name, field in kind.model_fields.items():
            for key in field_keys(name, field):
                yield key, field.annotation, tuple(field.metadata)
    elif dataclasses.is_dataclass(kind) or is_typeddict(kind):
        for name, annotation in get_type_hints(kind, include_extras=True).items():
            yield name, annotation, ()


def field_keys(name: str, field: "FieldInfo") -> list[str]:
    """Return every key that may set a field: its name and its aliases."""
    alias = field.validation_alias
    choices = getattr(alias, "choices", [alias])
    first = [getattr(choice, "path", [choice])[0] for choice in choices]
    return list(dict.fromkeys([name, *(str(key) for key in [field.alias, *first] if isinstance(key, str))]))
