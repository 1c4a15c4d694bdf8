"""JSON Schema that came from elsewhere, made safe to check against: no reference leads out, no check takes for ever.

A check whose cost, known beforehand from `SchemaGraph`, is too high is refused. Patterns are matched in linear time;
one that can't be (look-around, back-references) is left to the server that sent the schema.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pegboard import one_line
from pegboard.schemas import UnsupportedSchema

from pegboard_mcp.plain import MAX_DEPTH, Place, copied, measure, shown, told, where
from pegboard_mcp.schema_graph import SchemaGraph

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

_LARGEST: Final = 50_000  # values and 16 characters each, far more than a model could be shown
_MOST: Final = 20_000_000  # schemas that the places of a value are held against, all in all: about a second
_MOST_FOR_ALL_ERRORS: Final = 200_000  # to collect all errors is far slower than to find the first
_REGEX_BYTES: Final = 1_000_000
_MASK: Final = "\0"


class ForeignSchema:
    """The schema of a foreign tool's parameters or output, checked once; `violations` holds values against it."""

    def __init__(self, schema: Any, root: str = "parameters") -> None:
        """Check the schema; `root` is what it is called in messages.

        Raises:
            UnsupportedSchema: it is no valid JSON Schema of an object, or can't be checked safely.
        """
        if not isinstance(schema, dict) or schema.get("type") != "object":
            raise UnsupportedSchema([f'{root} must be a JSON Schema whose type is "object"'])
        depth, size = measure(schema)
        if depth > MAX_DEPTH:
            raise UnsupportedSchema([f"{root} is nested more than {MAX_DEPTH} levels deep"])
        if size > _LARGEST:
            raise UnsupportedSchema([f"{root} is too large: {size:,} values, of at most {_LARGEST:,}"])
        try:
            self.schema: dict[str, Any] = copied(schema)
        except ValueError as error:
            raise UnsupportedSchema([f"{root} is no JSON: {one_line(str(error), 200)}"]) from None
        self._root = root
        try:
            self._costs, self._validator = self._compiled(lambda _pattern: True)
        except UnsupportedSchema:  # for the sake of a pattern, or of something else, which is then told
            self._costs, self._validator = self._compiled(_is_linear)

    def _compiled(self, is_linear: Callable[[str], bool]) -> "tuple[list[int], Validator]":
        checked = copied(self.schema)
        return SchemaGraph(checked, self._root, is_linear).costs(), _validator(checked, self._root)

    def violations(self, value: Any) -> list[str]:
        """Return what the schema has against plain JSON data, ten lines at most; empty if it fits. Never raises."""
        depth, size = measure(value)
        cost = size * self._costs[min(depth, len(self._costs) - 1)]
        if depth > MAX_DEPTH:
            return [f"nested more than {MAX_DEPTH} levels deep"]
        if cost > _MOST:
            return ["arguments of this size and depth would take too long to check against the schema"]
        try:
            if self._validator.is_valid(value):
                return []
            errors = self._validator.iter_errors(value) if cost <= _MOST_FOR_ALL_ERRORS else self._first(value)
            return told([_text(error) for error in errors])
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # what is no Unicode text, or a fault of the library, is no Exception there
            return [f"arguments can't be checked: {one_line(str(error))}"]

    def _first(self, value: Any) -> "Iterator[ValidationError]":
        from jsonschema_rs import ValidationError

        try:
            self._validator.validate(value)
        except ValidationError as error:
            yield error


def _validator(schema: Any, root: str) -> "Validator":
    import jsonschema_rs

    options = jsonschema_rs.RegexOptions(size_limit=_REGEX_BYTES, dfa_size_limit=_REGEX_BYTES)
    try:
        return jsonschema_rs.validator_for(
            schema, pattern_options=options, offline=True, validate_formats=False, mask=_MASK
        )
    except jsonschema_rs.ValidationError as error:
        raise UnsupportedSchema([_text(error, root)]) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise UnsupportedSchema([f"{root} can't be checked: {one_line(str(error))}"]) from None


def _is_linear(pattern: str) -> bool:
    try:
        _validator({"pattern": pattern}, "")
    except UnsupportedSchema:
        return False
    return True


def _text(error: "ValidationError", root: str = "") -> str:
    """Return a violation as a short line that begins with its place."""
    place: Place | None = None
    for step in error.instance_path:
        place = (place, step)
    message = error.message.replace(_MASK, shown(error.instance))
    match error.kind.name:
        case "required":
            return f"{where((place, error.kind.value), root)} is missing"
        case "anyOf" | "oneOf" if not root and (branches := getattr(error.kind, "context", None)):
            message += f" ({'; '.join(one_line(_why(branch[0]), 80) for branch in branches[:3] if branch)})"
    return f"{where(place, root, 'arguments')}: {one_line(message, 300)}"


def _why(error: "ValidationError") -> str:
    return error.message.replace(_MASK, shown(error.instance))
