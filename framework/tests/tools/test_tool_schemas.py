"""The schemas of `@tool` are as providers take them, equal in meaning to pydantic's, and cheap for plain types."""

import inspect
import json
from dataclasses import dataclass
from typing import Any, Literal, NotRequired

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pegboard import InvalidArguments, Tool, tool
from pegboard.tools.inlining import inlined
from pegboard.tools.plain_types import plain_schema
from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict


class Leaf(BaseModel):
    """A model whose property has the name of a keyword."""

    title: str
    size: int = Field(default=1, ge=0)


class Pair(TypedDict):
    """A typed dictionary that refers to a model twice, and that tells null from absent."""

    one: Leaf
    other: Leaf
    note: NotRequired[str | None]


@dataclass
class Crate:
    """A dataclass in which a thing may be left out."""

    pair: Pair | None = None
    kind: Literal["box"] = "box"


class Tree(BaseModel):
    """A model that contains itself."""

    leaf: Leaf
    under: "list[Tree]" = []


PLAIN = st.recursive(
    st.sampled_from([str, int, float, bool, Any, Literal["a", "b"], Literal["only"]]),
    lambda inner: inner.map(lambda one: list[one]) | inner.map(lambda one: dict[str, one]),  # type: ignore[valid-type]
    max_leaves=3,
)
RICH = st.sampled_from([Leaf, Pair, Crate, Tree])
TYPES = st.recursive(
    PLAIN | RICH,
    lambda inner: (
        inner.map(lambda one: list[one])  # type: ignore[valid-type]
        | inner.map(lambda one: dict[str, one])  # type: ignore[valid-type]
        | st.tuples(inner, inner).map(lambda two: two[0] | two[1] if Any not in two else two[0])
    ),
    max_leaves=3,
)
NAMES = ["title", "size", "one", "other", "note", "pair", "kind", "leaf", "under"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.5, "a", "b", "only", "box"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner),
    max_leaves=6,
)


def tool_with(annotation: Any, default: Any = inspect.Parameter.empty) -> Tool:
    """Return a tool with one parameter, `value`."""

    def body(value: Any) -> str:
        """Take a value.

        Args:
            value: What is taken.
        """
        return str(value)

    body.__annotations__["value"] = annotation
    body.__defaults__ = None if default is inspect.Parameter.empty else (default,)
    return tool(body)


def keywords(node: Any) -> set[str]:
    """Return every keyword of a schema, without the names of properties and definitions."""
    if isinstance(node, list):
        return set().union(*map(keywords, node))
    if not isinstance(node, dict):
        return set()
    found = set(node)
    for key, value in node.items():
        found |= keywords(list(value.values()) if key in ("properties", "$defs") else value)
    return found


# -- what a provider is shown


@settings(max_examples=200)
@given(TYPES.filter(lambda one: "Tree" not in str(one)))
def test_a_schema_has_no_references_titles_or_constants(annotation: Any) -> None:
    assert not keywords(tool_with(annotation).parameters) & {"$ref", "$defs", "title", "const"}


@settings(max_examples=300)
@given(TYPES, st.lists(JSON, min_size=4, max_size=8))
def test_the_schema_means_what_pydantics_schema_means(annotation: Any, values: list[Any]) -> None:
    jsonschema_rs = pytest.importorskip("jsonschema_rs")
    pydantics = TypeAdapter(annotation).json_schema()
    before, after = jsonschema_rs.validator_for(pydantics), jsonschema_rs.validator_for(inlined(pydantics))

    for value in values:
        if after.is_valid(value):
            assert before.is_valid(value)
        assert after.is_valid(_without(value, "pair")) == before.is_valid(_without(value, "pair"))


def _without(value: Any, name: str) -> Any:
    """Return JSON data without the nulls of one property: where null means that it is left out."""
    if isinstance(value, list):
        return [_without(inner, name) for inner in value]
    if isinstance(value, dict):
        return {key: _without(inner, name) for key, inner in value.items() if not (key == name and inner is None)}
    return value


@settings(max_examples=200)
@given(PLAIN, st.sampled_from([inspect.Parameter.empty, None, "a", 1, [], {}]))
def test_a_plain_types_schema_made_by_hand_is_what_pydantic_would_have_made(annotation: Any, default: Any) -> None:
    made = tool_with(annotation | None if default is None and annotation is not Any else annotation, default)
    arguments: Any = made.arguments

    assert plain_schema(annotation) is not None
    assert arguments.schema == arguments._schema_by_pydantic()


def test_making_a_plain_schema_makes_nothing_of_pydantic() -> None:
    made = tool_with(list[dict[str, int]])

    assert made.parameters["properties"]["value"]["type"] == "array"
    assert "_adapter" not in vars(made.arguments)


def test_a_type_that_contains_itself_keeps_its_reference_and_only_that() -> None:
    schema = tool_with(Tree).parameters

    assert schema["properties"]["value"]["$ref"] == "#/$defs/Tree"
    assert list(schema["$defs"]) == ["Tree"]
    assert schema["$defs"]["Tree"]["properties"]["leaf"]["properties"]["title"] == {"type": "string"}


def test_null_is_not_told_of_what_may_be_left_out_unless_it_says_something() -> None:
    assert tool_with(int | None, None).parameters["properties"]["value"] == {
        "type": "integer",
        "description": "What is taken.",
    }
    assert {"type": "null"} in tool_with(int | None, 5).parameters["properties"]["value"]["anyOf"]
    assert {"type": "null"} in tool_with(int | None).parameters["properties"]["value"]["anyOf"]
    assert "anyOf" in tool_with(Pair).parameters["properties"]["value"]["properties"]["note"]


# -- what models send for what they leave out


@pytest.mark.parametrize("default", [5, None])
def test_null_for_a_parameter_with_a_default_means_that_it_is_left_out(default: int | None) -> None:
    assert tool_with(int, default).arguments.parse('{"value": null}') == {}


def test_null_that_the_parameter_takes_stays_null() -> None:
    assert tool_with(int | None, 5).arguments.parse('{"value": null}') == {"value": None}
    assert tool_with(Any, 5).arguments.parse('{"value": null}') == {"value": None}


def test_null_for_a_parameter_without_default_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="value"):
        tool_with(int).arguments.parse('{"value": null}')


def test_beside_a_null_that_means_nothing_every_violation_is_still_told() -> None:
    @tool
    def many(first: int, second: int = 2, third: list[int] = []) -> str:  # noqa: B006
        """Take many."""
        return f"{first}{second}{third}"

    with pytest.raises(InvalidArguments) as refused:
        many.arguments.parse('{"first": "x", "second": null, "third": [null], "fourth": null}')

    assert [told.split()[0].rstrip(":") for told in refused.value.violations] == ["first", "third.0", "fourth"]


@settings(max_examples=200)
@given(TYPES, JSON)
def test_what_a_body_would_be_given_is_what_the_schema_lets_pass(annotation: Any, value: Any) -> None:
    """Strict checking may refuse more than a schema can say, never take what the schema forbids."""
    jsonschema_rs = pytest.importorskip("jsonschema_rs")
    made = tool_with(annotation)
    text = json.dumps({"value": _without(value, "pair")})

    try:
        made.arguments.parse(text)
    except InvalidArguments:
        return
    assert jsonschema_rs.validator_for(made.parameters).is_valid(json.loads(text))
