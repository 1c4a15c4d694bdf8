"""A JSON Schema as model providers take it, equal in meaning: no references, no titles, no null that says nothing."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

_OF_ONE: Final = frozenset(
    "items additionalProperties propertyNames contains not if then else unevaluatedItems unevaluatedProperties".split()  # noqa: SIM905
)
_OF_MANY: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_BY_NAME: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_LEFT_OUT: Final = frozenset({"title", "discriminator", "$defs"})
_NOTES: Final = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
_NULL: Final = {"type": "null"}
_PREFIX: Final = "#/$defs/"


def inlined(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema without `$ref`, `$defs`, `title`, `const`, and without null for what may be left out.

    A property that may be left out and is null by default is one that may be left out: null need not be said of it.
    Only a type that contains itself keeps its `$ref`: it can't be written in any other way.
    """
    definitions = schema.get("$defs", {})
    inliner = _Inliner(definitions, frozenset(name for name in definitions if _contains_itself(name, definitions)))
    made = inliner.schema(schema)
    if inliner.kept:
        made["$defs"] = {name: inliner.schema(definitions[name]) for name in sorted(inliner.kept)}
    return made  # type: ignore[no-any-return]  # a mapping stays one


class _Inliner:
    """Rewrites the nodes of one schema. `kept` are the definitions that contain themselves."""

    def __init__(self, definitions: Mapping[str, Any], kept: frozenset[str]) -> None:
        self.kept = kept
        self._definitions = definitions

    def schema(self, node: Any) -> Any:
        """Return one node, with all in it, rewritten."""
        if not isinstance(node, Mapping):
            return node  # true and false are schemas, too
        if "$ref" in node:
            return self._followed(node)
        made: dict[str, Any] = {}
        for key, value in node.items():
            if key in _OF_ONE:
                made[key] = self.schema(value)
            elif key in _OF_MANY:
                made[key] = [self.schema(inner) for inner in value]
            elif key in _BY_NAME:
                made[key] = {name: self.schema(inner) for name, inner in value.items()}
            elif key not in _LEFT_OUT:
                made[key] = value
        if "const" in made and "enum" not in made:
            made["enum"] = [made.pop("const")]
        required = made.get("required", ())
        for name, inner in made.get("properties", {}).items():
            if name not in required:
                made["properties"][name] = _without_null(inner)
        return made

    def _followed(self, node: Mapping[str, Any]) -> Any:
        """Return what a reference stands for, with the notes beside it."""
        name = node["$ref"].removeprefix(_PREFIX).replace("~1", "/").replace("~0", "~")
        beside = self.schema({key: value for key, value in node.items() if key != "$ref"})
        if name in self.kept or name not in self._definitions:
            return {"$ref": node["$ref"], **beside}
        inner = self.schema(self._definitions[name])
        return {**inner, **beside} if beside.keys() <= _NOTES else {"allOf": [inner], **beside}


def _without_null(node: Any) -> Any:
    """Return a property that may be left out without its null, if null is what leaving it out means."""
    options = node.get("anyOf") if isinstance(node, Mapping) else None
    if not options or _NULL not in options or node.get("default", ...) is not None:
        return node
    rest = {key: value for key, value in node.items() if key not in ("anyOf", "default")}
    others = [option for option in options if option != _NULL]
    if len(others) == 1 and isinstance(others[0], Mapping) and rest.keys() <= _NOTES:
        return {**others[0], **rest}
    return {"anyOf": others, **rest}


def _contains_itself(name: str, definitions: Mapping[str, Any]) -> bool:
    seen: set[str] = set()
    todo = list(_references(definitions[name]))
    while todo:
        if (found := todo.pop()) == name:
            return True
        if found in definitions and found not in seen:
            seen.add(found)
            todo.extend(_references(definitions[found]))
    return False


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(_PREFIX).replace("~1", "/").replace("~0", "~")
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)
