"""How the schemas within a foreign JSON Schema lead to each other, and what a check against it can cost.

JSON Schema allows what takes any validator exponentially long: references that double at each step, or schemas that
hold the same item against themselves twice. The graph gives an upper bound, for each depth of a value.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from pegboard import one_line
from pegboard.schemas import UnsupportedSchema

from pegboard_mcp.plain import MAX_DEPTH, Place, measure, where

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_HERE: Final = ("not", "if", "then", "else", "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies")
# Keywords that share a line look at different items of a value, those on different lines may look at the same.
_WITHIN: Final = (
    ("properties", "additionalProperties"),
    ("unevaluatedProperties",),
    ("propertyNames",),
    ("prefixItems", "items", "additionalItems"),
    ("contains",),
    ("unevaluatedItems",),
)
_APART: Final = ("$defs", "definitions", "contentSchema")
_NAMED: Final = ("properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions")

_MOST_AT_ONE_PLACE: Final = 100_000  # schemas that one place of a value may be held against
# Schemas within schemas: the validator recurses, and a thread may have no more than 512 KiB of stack.
_MOST_STEPS_AT_ONE_PLACE: Final = 100
_MOST_STEPS: Final = 600
_CAP: Final = 10**9


@dataclass(slots=True)
class _Node:
    """One schema within the whole: what else it holds the same value against, and what it holds that value's items."""

    place: Place | None
    weight: int
    steps: int = 1
    here: list[int] = field(default_factory=list)
    within: list[list[int]] = field(default_factory=list)


class SchemaGraph:
    """All schemas within one, and how they lead to each other; takes patterns out that `is_linear` refuses.

    Raises:
        UnsupportedSchema: a reference leads out of the schema, or nowhere, or round in a circle.
    """

    def __init__(self, schema: dict[str, Any], root: str, is_linear: Callable[[str], bool]) -> None:
        self._schema = schema
        self._root = root
        self._is_linear = is_linear
        self._id = "id" if "draft-04" in str(schema.get("$schema")) else "$id"
        self._nodes: list[_Node] = []
        self._numbers: dict[int, int] = {}
        self._anchors: dict[str, dict[str, Any]] = {}
        self._todo: list[dict[str, Any]] = []
        self._references: list[tuple[_Node, str, str]] = []
        self._number(schema, None)
        while self._todo or self._references:
            if self._todo:
                self._visit(self._todo.pop())
            else:
                node, key, reference = self._references.pop()
                if (target := self._resolve(node, key, reference)) is not None:
                    node.here.append(target)

    def costs(self) -> list[int]:
        """Return, for each depth of a value, how many schemas one path through it is held against; the last holds on.

        Raises:
            UnsupportedSchema: a schema leads to itself, or to too many others, without going into the value.
        """
        order = self._order()
        here = self._deeper(order, [(0, 0)] * len(self._nodes))
        if here[0][0] > _MOST_AT_ONE_PLACE or max(steps for _, steps in here) > _MOST_STEPS_AT_ONE_PLACE:
            raise UnsupportedSchema([f"{self._root}: its schemas lead to too many others to be checked"])
        costs = [here[0][0]]
        while len(costs) <= MAX_DEPTH:
            before, here = here, self._deeper(order, here)
            checks, steps = here[0]
            costs.append(checks if steps <= _MOST_STEPS else _CAP)
            if here == before:
                break
        return costs

    def _deeper(self, order: list[int], before: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return, of each node, checks and the most steps within each other for values one deeper than `before`."""
        now = [(0, 0)] * len(self._nodes)
        for number in order:
            node = self._nodes[number]
            here = [now[other] for other in node.here]
            within = [[before[other] for other in group] for group in node.within]
            checks = node.weight + sum(c for c, _ in here) + sum(max(c for c, _ in group) for group in within)
            steps = max((s for _, s in [*here, *(pair for group in within for pair in group)]), default=0)
            now[number] = min(checks, _CAP), node.steps + steps
        return now

    def _order(self) -> list[int]:
        """Return all nodes, those that a node leads to before it."""
        order: list[int] = []
        entered, left = set[int](), set[int]()
        todo = list(range(len(self._nodes)))
        while todo:
            number = todo[-1]
            if number in entered:
                todo.pop()
                if number not in left:
                    left.add(number)
                    order.append(number)
                continue
            entered.add(number)
            for other in self._nodes[number].here:
                if other in entered and other not in left:
                    place = where(self._nodes[other].place, self._root)
                    raise UnsupportedSchema([f"{place} leads back to itself without going into the value"])
                todo.append(other)
        return order

    def _number(self, schema: dict[str, Any], place: Place | None) -> int:
        number = self._numbers.setdefault(id(schema), len(self._nodes))
        if number == len(self._nodes):
            weight = 1 + sum(measure(schema[key])[1] for key in ("enum", "const") if key in schema)
            self._nodes.append(_Node(place, weight))
            self._todo.append(schema)
        return number

    def _visit(self, schema: dict[str, Any]) -> None:
        node = self._nodes[self._numbers[id(schema)]]
        self._name(schema, node)
        self._leave_patterns(schema)
        for key in _REFERENCES:
            if isinstance(schema.get(key), str):
                self._references.append((node, key, schema[key]))
        node.here = [number for key in _HERE for number in self._held(schema, key, node.place)]
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            node.here *= 2  # what is unevaluated is found by going through them once more
            node.steps = 3
        groups = [[number for key in keys for number in self._held(schema, key, node.place)] for keys in _WITHIN]
        groups += [[number] for number in self._held(schema, "patternProperties", node.place)]
        node.within = [group for group in groups if group]
        for key in _APART:
            list(self._held(schema, key, node.place))

    def _held(self, schema: dict[str, Any], key: str, place: Place | None) -> Iterator[int]:
        """Yield the schemas that one keyword holds."""
        value, at = schema.get(key), (place, key)
        if isinstance(value, list):
            yield from (self._number(inner, (at, i)) for i, inner in enumerate(value) if isinstance(inner, dict))
        elif isinstance(value, dict) and key in _NAMED:
            yield from (self._number(inner, (at, name)) for name, inner in value.items() if isinstance(inner, dict))
        elif isinstance(value, dict):
            yield self._number(value, at)

    def _name(self, schema: dict[str, Any], node: _Node) -> None:
        """Note the names by which references may mean a schema."""
        own = schema.get(self._id)
        if isinstance(own, str) and own.startswith("#"):
            self._anchors[own[1:]] = schema
        elif isinstance(own, str) and schema is not self._schema:
            raise UnsupportedSchema([f"{where(node.place, self._root)}.{self._id} inside a schema is not supported"])
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(key), str):
                self._anchors[schema[key]] = schema

    def _leave_patterns(self, schema: dict[str, Any]) -> None:
        """Take out what can't be matched in linear time; the server checks it."""
        if isinstance(pattern := schema.get("pattern"), str) and not self._is_linear(pattern):
            del schema["pattern"]
        patterns = schema.get("patternProperties")
        if isinstance(patterns, dict) and (odd := [p for p in patterns if not self._is_linear(p)]):
            schema.pop("additionalProperties", None)  # which properties are additional depends on the pattern
            for pattern in odd:
                del patterns[pattern]

    def _resolve(self, node: _Node, key: str, reference: str) -> int | None:
        """Return the schema that a reference means; None if it is true or false."""
        base, _, fragment = reference.partition("#")
        place = f"{where(node.place, self._root)}.{key}"
        if base and base != str(self._schema.get(self._id)).rstrip("#"):
            raise UnsupportedSchema(
                [f"{place} leads out of the schema, to {one_line(reference, 80)}; nothing is fetched"]
            )
        target: Any = self._anchors.get(fragment) if fragment else self._schema
        at: Place | None = None
        if fragment.startswith("/"):
            target = self._schema
            for step in unquote(fragment)[1:].split("/"):
                name = step.replace("~1", "/").replace("~0", "~")
                at = (at, name)
                target = _item(target, name)
        if isinstance(target, bool):
            return None
        if not isinstance(target, dict):
            raise UnsupportedSchema([f"{place} leads nowhere: {one_line(reference, 80)}"])
        return self._number(target, at)


def _item(value: Any, name: str) -> Any:
    if isinstance(value, list) and name.isdecimal() and len(name) < 10 and int(name) < len(value):
        return value[int(name)]
    return value.get(name) if isinstance(value, dict) else None
