"""Authoring maps of properties become JSON Schema, and JSON Schema is held to the subset that is checked (T26-T28).

Nothing here recurses: maps and schemas may be nested as deep as memory allows.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pegboard.base.errors import UnsupportedSchema
from pegboard.base.text import one_line
from pegboard.schemas.json_values import Place, detach, is_a, where

_SCALARS: Final = ("string", "number", "integer", "boolean", "null")
_ANNOTATIONS: Final = ("description", "title", "default", "examples")
_STRUCTURAL: Final = ("properties", "required", "additionalProperties", "items", "enum", "const")
_OF_TYPE: Final = {
    **dict.fromkeys(_SCALARS, ("enum", "const")),
    "array": ("items",),
    "object": ("properties", "required", "additionalProperties"),
}
_SUBSET: Final = "subset: type/oneOf/properties/required/additionalProperties/items/enum/const + annotations"

Node = Mapping[str, Any]


def compile_parameters(properties: Mapping[str, Node]) -> dict[str, Any]:
    """Turn a map of property name to node into the JSON Schema of a tool's parameters.

    A node is `{"type": T}` with T one of string, number, integer, boolean, null (these may have `enum` and `const`),
    array (`items`), object (`additionalProperties`, true or false, and `properties`) or json (anything), or
    `{"oneOf": [node, node, ...]}`; beside them `description`, `title`, `default`, `examples` and, on a property,
    `"required": True`. Keys that the map does not name are allowed.

    Raises:
        UnsupportedSchema: with every violation, in order.
    """
    compiler = _Compiler("parameters")
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    if isinstance(properties, Mapping):
        compiler.take_properties(properties, None, schema)
        compiler.run()
    else:
        compiler.say(None, "must be a schema object")
    return compiler.done(schema)


def compile_value(node: Node, root: str = "value") -> dict[str, Any]:
    """Turn one node into JSON Schema, as for a tool's output; `root` is how violations name it.

    Raises:
        UnsupportedSchema: with every violation, in order.
    """
    compiler = _Compiler(root)
    schema: dict[str, Any] = {}
    compiler.add(node, None, schema)
    compiler.run()
    return compiler.done(schema)


def check_schema(schema: Mapping[str, Any], root: str = "schema") -> None:
    """Hold JSON Schema to the subset; `root` is how violations name it.

    Raises:
        UnsupportedSchema: with every violation, in order.
    """
    checker = _Checker(root)
    checker.add(schema, None)
    checker.run()
    checker.done({})


class _Walker:
    """Visits nodes within nodes, outer ones first, in their order; says what is wrong with them."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._violations: list[str] = []
        self._entered: set[int] = set()
        self._todo: list[tuple[Any, Place | None, Any, bool]] = []
        self._next: list[tuple[Any, Place | None, Any, bool]] = []

    def say(self, place: Place | None, text: str, key: str = "") -> None:
        """Note a violation of a node, or of one key of it."""
        dot = "." if key else " "
        self._violations.append(f"{where(place, self._root)}{dot}{key}{' ' if key else ''}{text}")

    def add(self, node: Any, place: Place | None, into: Any = None, is_property: bool = False) -> None:
        """Have a node visited after those that were added before it."""
        self._next.append((node, place, into, is_property))

    def run(self) -> None:
        """Visit all nodes."""
        while self._next or self._todo:
            self._todo.extend(reversed(self._next))
            self._next = []
            node, place, into, is_property = self._todo.pop()
            if isinstance(node, _Done):
                self._entered.discard(node.node)
            elif not isinstance(node, Mapping):
                self.say(place, "must be a schema object")
            elif id(node) in self._entered:
                self.say(place, "is circular")
            else:
                self._entered.add(id(node))
                self._todo.append((_Done(id(node)), None, None, False))
                self.visit(node, place, into, is_property)

    def visit(self, node: Node, place: Place | None, into: Any, is_property: bool) -> None:
        """Check one node and add those in it."""
        raise NotImplementedError

    def done(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return what was made of the nodes."""
        if self._violations:
            raise UnsupportedSchema(self._violations)
        return schema

    def annotations(self, node: Node, place: Place | None) -> Iterator[tuple[str, Any]]:
        """Yield a node's annotations, checked and detached."""
        for key in _ANNOTATIONS:
            if key in node:
                value, lost = detach(node[key])
                if lost:
                    self.say(place, "must be lossless JSON", key)
                elif key in ("description", "title") and not isinstance(value, str):
                    self.say(place, "must be a string", key)
                yield key, value

    def scalars(self, kind: str, node: Node, place: Place | None) -> Iterator[tuple[str, Any]]:
        """Yield the `enum` and `const` of a node of a scalar type, checked and detached."""
        options = node.get("enum", ())
        if "enum" in node:
            if not _is_array(options) or not options or not all(is_a(kind, option) for option in options):
                self.say(place, f"must be a non-empty array of {kind} values", "enum")
            yield "enum", detach(options)[0]
        if "const" in node:
            if not is_a(kind, node["const"]):
                self.say(place, f"must be a {kind} value", "const")
            elif "enum" in node and _is_array(options) and node["const"] not in options:
                self.say(place, "must be one of enum when both are declared", "const")
            yield "const", detach(node["const"])[0]

    def branches(self, node: Node, place: Place | None) -> Sequence[Any]:
        """Return the nodes of `oneOf`."""
        branches: Sequence[Any] = node["oneOf"]
        if _is_array(branches) and len(branches) >= 2:
            return branches
        self.say(place, "must be an array of at least two schemas", "oneOf")
        return ()


class _Done:
    """Stands where a node and all within it have been visited."""

    def __init__(self, node: int) -> None:
        self.node = node


class _Compiler(_Walker):
    """Writes the schema of each node of an authoring map."""

    def visit(self, node: Node, place: Place | None, into: dict[str, Any], is_property: bool) -> None:
        kind = self._kind(node, place)
        constraints = {"json": (), "oneOf": ("oneOf",), "": ("oneOf", *_STRUCTURAL)}.get(kind, _OF_TYPE.get(kind, ()))
        allowed = {"type", *_ANNOTATIONS, *constraints} - {"required"} | ({"required"} if is_property else set())
        for key in node:
            if key not in allowed:
                self.say((place, key), "is not supported by the value schema DSL")
        if is_property and "required" in node and node["required"] is not True:
            self.say(place, "must be true when present", "required")
        if kind not in ("json", "oneOf", ""):
            into["type"] = kind
        into.update(self.annotations(node, place))
        if kind in _SCALARS:
            self._scalars(kind, node, place, into)
        elif kind == "array" and "items" in node:
            into["items"] = {}
            self.add(node["items"], (place, "items"), into["items"])
        elif kind == "object":
            self._object(node, place, into)
        elif kind == "oneOf":
            branches = self.branches(node, place)
            into["oneOf"] = [{} for _ in branches]
            for number, branch in enumerate(branches):
                self.add(branch, ((place, "oneOf"), number), into["oneOf"][number])

    def _kind(self, node: Node, place: Place | None) -> str:
        kind = node.get("type")
        if "oneOf" in node and "type" in node:
            self.say(place, "cannot declare both type and oneOf")
            return ""
        if "oneOf" in node:
            return "oneOf"
        if isinstance(kind, str) and (kind in _OF_TYPE or kind == "json"):
            return kind
        self.say(place, "must be string/number/integer/boolean/null/array/object/json, or use oneOf", "type")
        return ""

    def _scalars(self, kind: str, node: Node, place: Place | None, into: dict[str, Any]) -> None:
        options = node.get("enum", (None,))
        scalar = _is_array(options) and options and not any(isinstance(o, Mapping | list | tuple) for o in options)
        if not scalar:
            self.say(place, "must be a non-empty array of scalar values", "enum")
            node = {key: value for key, value in node.items() if key != "enum"}
        into.update(self.scalars(kind, node, place))

    def _object(self, node: Node, place: Place | None, into: dict[str, Any]) -> None:
        if not isinstance(node.get("additionalProperties"), bool):
            self.say(place, "must be explicitly true or false", "additionalProperties")
        properties = node.get("properties", {})
        if not isinstance(properties, Mapping):
            self.say((place, "properties"), "must be a schema object")
        elif "properties" in node:
            into["properties"] = {}
            self.take_properties(properties, (place, "properties"), into)
        into["additionalProperties"] = node.get("additionalProperties")

    def take_properties(self, properties: Mapping[str, Any], place: Place | None, into: dict[str, Any]) -> None:
        """Have the nodes of a map of properties visited, and list those that are required."""
        required = [
            name for name, node in properties.items() if isinstance(node, Mapping) and node.get("required") is True
        ]
        if required:
            into["required"] = required
        for name, node in properties.items():
            if isinstance(name, str):
                into["properties"][name] = {}
                self.add(node, (place, name), into["properties"][name], is_property=True)
            else:
                self.say(place, f"has the key {one_line(repr(name), 40)}, which is no string")


class _Checker(_Walker):
    """Checks each schema within a schema against the subset."""

    def visit(self, node: Node, place: Place | None, into: Any, is_property: bool) -> None:
        for key in node:
            if key not in ("type", "oneOf", *_STRUCTURAL, *_ANNOTATIONS):
                self.say((place, key), f"is not a supported keyword ({_SUBSET})")
        for _ in self.annotations(node, place):
            pass
        present = [key for key in _STRUCTURAL if key in node]
        if "oneOf" in node:
            self._one_of(node, place, present)
        elif "type" not in node:
            for key in present:
                self.say(place, "requires type or oneOf", key)
        elif (kind := self._kind(node["type"], place)) is not None:
            for key in present:
                if key not in _OF_TYPE[kind]:
                    self.say(place, f'is not supported on type "{kind}"', key)
            self._constraints(kind, node, place)

    def _one_of(self, node: Node, place: Place | None, present: Sequence[str]) -> None:
        if "type" in node:
            self.say(place, "cannot declare both type and oneOf")
        for key in present:
            self.say(place, "is not supported beside oneOf", key)
        for number, branch in enumerate(self.branches(node, place)):
            self.add(branch, ((place, "oneOf"), number))

    def _kind(self, kind: Any, place: Place | None) -> str | None:
        if isinstance(kind, str) and kind in _OF_TYPE:
            return kind
        if _is_array(kind):
            self.say(place, "must be a single type string (type arrays are not supported)", "type")
        else:
            self.say(place, "must be one of object/array/string/number/integer/boolean/null", "type")
        return None

    def _constraints(self, kind: str, node: Node, place: Place | None) -> None:
        if kind in _SCALARS:
            for _ in self.scalars(kind, node, place):
                pass
        elif kind == "array" and "items" in node:
            self.add(node["items"], (place, "items"))
        elif kind == "object":
            self._object(node, place)

    def _object(self, node: Node, place: Place | None) -> None:
        properties, required = node.get("properties", {}), node.get("required", ())
        if not isinstance(properties, Mapping):
            self.say(place, "must be a schema object", "properties")
            properties = {}
        if not _is_array(required) or not all(isinstance(name, str) for name in required):
            self.say(place, "must be an array of strings", "required")
        else:
            for name in required:
                if name not in properties:
                    self.say(place, f'names "{name}" which is not in properties', "required")
        if not isinstance(node.get("additionalProperties", True), bool):
            self.say(place, "must be a boolean", "additionalProperties")
        for name, inner in properties.items():
            self.add(inner, ((place, "properties"), name))


def _is_array(value: Any) -> bool:
    return isinstance(value, list | tuple)
