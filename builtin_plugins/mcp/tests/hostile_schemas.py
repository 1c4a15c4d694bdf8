"""Holds hostile schemas and arguments against each other in a thread with a small stack; says what became of each."""

import threading
from collections.abc import Iterator
from typing import Any

from pegboard.schemas import UnsupportedSchema
from pegboard_mcp.foreign_schemas import ForeignSchema

STACK = 512 * 1024
MEGABYTES = "a" * 5_000_000


def chained(links: int, link: str, **more: Any) -> dict[str, Any]:
    """Return a schema that leads from one definition to the next."""

    def one(number: int) -> dict[str, Any]:
        to = {"$ref": f"#/$defs/{number + 1}"}
        return {**(to if link == "$ref" else {link: [to, {"type": "null"}]}), **more}

    definitions: dict[str, Any] = {str(number): one(number) for number in range(links)}
    return {"type": "object", "$defs": {**definitions, str(links): {"type": "integer"}}, "$ref": "#/$defs/0"}


def doubled(levels: int) -> dict[str, Any]:
    """Return a schema each of whose definitions leads to the next one twice."""
    definitions = {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(levels)}
    return {"type": "object", "$defs": {**definitions, str(levels): {}}, "$ref": "#/$defs/0"}


def nested(levels: int, innermost: Any) -> dict[str, Any]:
    """Return objects in objects."""
    value = innermost
    for _ in range(levels):
        value = {"c": value}
    return {"c": value}


def within(inner: Any) -> dict[str, Any]:
    """Return a schema of objects that are held against it again."""
    return {"type": "object", "$defs": {"n": inner}, "properties": {"c": {"$ref": "#/$defs/n"}}}


def of(x: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose property `x` is this."""
    return {"type": "object", "properties": {"x": x}}


def cases() -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Yield a name, a schema and arguments."""
    again = {"properties": {"c": {"$ref": "#/$defs/n"}}}
    yield "properties without end", {"type": "object", "properties": {f"p{n}": {} for n in range(100_000)}}, {}
    yield "doubling references", doubled(60), {}
    yield "a chain of references", chained(6_000, "$ref"), {}
    yield "a chain of branches", chained(3_000, "anyOf"), {}
    yield "a chain of what is unevaluated", chained(300, "$ref", unevaluatedProperties={}), {}
    yield "recursion that doubles", within({"allOf": [again, again]}), nested(60, {})
    yield "recursion a hundred deep", within(again), nested(98, {})
    branches: Any = again
    for _ in range(20):
        branches = {"anyOf": [{"type": "null"}, branches]}
    yield "long branches at each of a hundred levels", within(branches), nested(98, 1)
    yield "a pattern that backtracks", of({"pattern": "^((a|a)+)+$"}), {"x": MEGABYTES + "!"}
    yield "a pattern too large to compile", of({"pattern": "(((a{1000}){1000}){1000}){1000}"}), {"x": "a"}
    yield "parentheses in parentheses", of({"pattern": "(" * 100_000 + ")" * 100_000}), {"x": "a"}
    yield "five megabytes of text", of({"type": "integer"}), {"x": MEGABYTES}
    yield "five megabytes against a large pattern", of({"pattern": "[ab]*a[ab]{500}"}), {"x": MEGABYTES}
    yield "many patterns against five megabytes", of({"allOf": [{"pattern": "a.*b|c"}] * 1000}), {"x": MEGABYTES}
    yield "a huge integer", of({"maximum": 10, "multipleOf": 1e-300}), {"x": 10**4000}
    many = {f"k{number}": "x" for number in range(100_000)}
    yield "a hundred thousand violations", {"type": "object", "additionalProperties": {"type": "integer"}}, many
    yield "options without end", of({"items": {"enum": list(range(10_000))}}), {"x": ["a"] * 10_000}


def outcome(schema: dict[str, Any], arguments: Any) -> str:
    """Return what becomes of arguments under a schema, if it is not refused."""
    try:
        violations = ForeignSchema(schema).violations(arguments)
    except UnsupportedSchema:
        return "refused"
    if any("too long to check" in violation for violation in violations):
        return "too long"
    return "does not fit" if violations else "fits"


def main() -> None:
    """Print one line for each case."""
    for name, schema, arguments in cases():
        print(f"{name}: {outcome(schema, arguments)}", flush=True)


if __name__ == "__main__":
    threading.stack_size(STACK)
    thread = threading.Thread(target=main)
    thread.start()
    thread.join()
