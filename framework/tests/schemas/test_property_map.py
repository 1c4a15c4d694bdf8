"""Property maps: the schema they become, what is refused in them and in plain schemas, and what fits a schema."""

import json
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pegboard import PegboardError
from pegboard.schemas import UnsupportedSchema, check_schema, compile_parameters, compile_value, violations

TEXT = {"type": "string"}
NUMBER = {"type": "number"}
CLOSED = {"type": "object", "additionalProperties": False}


def refused(make: Callable[..., object], *arguments: Any) -> tuple[str, ...]:
    """Return what is said against a map or schema."""
    with pytest.raises(UnsupportedSchema) as caught:
        make(*arguments)
    return caught.value.violations


# -- what a map becomes


def test_a_map_becomes_an_open_object_whose_required_properties_are_listed_in_order() -> None:
    made = compile_parameters(
        {
            "path": {"type": "string", "required": True, "description": "Where."},
            "depth": {"type": "integer", "default": 2, "enum": [1, 2, 3]},
            "kind": {"const": "file", "type": "string", "required": True},
        }
    )

    assert made == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where."},
            "depth": {"type": "integer", "default": 2, "enum": [1, 2, 3]},
            "kind": {"type": "string", "const": "file"},
        },
        "required": ["path", "kind"],
    }


def test_a_map_of_nothing_is_an_object_of_anything() -> None:
    assert compile_parameters({}) == {"type": "object", "properties": {}}


def test_nested_nodes_become_nested_schemas() -> None:
    inner = {"type": "object", "additionalProperties": False, "properties": {"x": {**NUMBER, "required": True}}}
    made = compile_parameters({"many": {"type": "array", "items": {"oneOf": [inner, {"type": "null"}]}}})

    assert made["properties"]["many"]["items"]["oneOf"] == [
        {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"], "additionalProperties": False},
        {"type": "null"},
    ]


def test_json_is_a_schema_without_constraint() -> None:
    assert compile_value({"type": "json", "description": "Anything."}) == {"description": "Anything."}


def test_read_only_maps_and_nodes_that_stand_in_two_places_are_fine() -> None:
    node = MappingProxyType({"type": "string", "enum": ("a", "b")})

    made = compile_parameters(MappingProxyType({"one": node, "two": node}))

    assert made["properties"] == {name: {"type": "string", "enum": ["a", "b"]} for name in ("one", "two")}


def test_the_schema_is_detached_from_the_map() -> None:
    node: dict[str, Any] = {"type": "string", "enum": ["a"], "default": ["x"]}
    made = compile_parameters({"kind": node})

    node["enum"].append("b")
    node["default"].append("y")

    assert made["properties"]["kind"] == {"type": "string", "default": ["x"], "enum": ["a"]}


# -- what is refused in a map (T26, T28)


def test_a_full_schema_in_place_of_a_map_is_refused_by_the_name_of_its_type() -> None:
    """AC-T19."""
    full = {"type": "object", "properties": {"path": TEXT}, "required": ["path"]}

    assert refused(compile_parameters, full) == (
        "parameters.type must be a schema object",
        "parameters.properties.type must be string/number/integer/boolean/null/array/object/json, or use oneOf",
        "parameters.properties.path is not supported by the value schema DSL",
        "parameters.required must be a schema object",
    )


def test_keywords_that_are_not_checked_are_refused_at_their_place() -> None:
    """AC-T20."""
    node = {**TEXT, "minLength": 1, "format": "uri", "$comment": "x"}
    items = {"type": "array", "items": node}

    assert refused(compile_parameters, {"url": node, "urls": items}) == tuple(
        f"parameters.{path}.{key} is not supported by the value schema DSL"
        for path in ("url", "urls.items")
        for key in ("minLength", "format", "$comment")
    )


def test_a_node_has_a_type_or_branches_not_both() -> None:
    """AC-T21."""
    both = {"type": "string", "oneOf": [TEXT, NUMBER]}

    assert refused(compile_parameters, {"x": both}) == ("parameters.x cannot declare both type and oneOf",)
    assert refused(check_schema, both) == ("schema cannot declare both type and oneOf",)


@pytest.mark.parametrize("closed", [{}, {"additionalProperties": "no"}, {"additionalProperties": TEXT}])
def test_an_object_says_whether_further_properties_may_stand_in_it(closed: dict[str, Any]) -> None:
    """AC-T22."""
    assert refused(compile_parameters, {"x": {"type": "object", **closed}}) == (
        "parameters.x.additionalProperties must be explicitly true or false",
    )


@pytest.mark.parametrize("open_", [True, False])
def test_an_object_that_says_so_is_accepted(open_: bool) -> None:
    """AC-T22."""
    made = compile_value({"type": "object", "additionalProperties": open_})

    assert made == {"type": "object", "additionalProperties": open_}


DSL = "is not supported by the value schema DSL"


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ("string", " must be a schema object"),
        ([TEXT], " must be a schema object"),
        (None, " must be a schema object"),
        ({}, ".type must be string/number/integer/boolean/null/array/object/json, or use oneOf"),
        ({"type": "str"}, ".type must be string/number/integer/boolean/null/array/object/json, or use oneOf"),
        ({"type": ["string"]}, ".type must be string/number/integer/boolean/null/array/object/json, or use oneOf"),
        ({"type": "string", "required": False}, ".required must be true when present"),
        ({"type": "string", "required": 1}, ".required must be true when present"),
        ({**CLOSED, "required": ["x"]}, ".required must be true when present"),
        ({"type": "array", "items": {**TEXT, "required": True}}, f".items.required {DSL}"),
        ({"oneOf": [TEXT, {**NUMBER, "required": True}]}, f".oneOf[1].required {DSL}"),
        ({"oneOf": [TEXT]}, ".oneOf must be an array of at least two schemas"),
        ({"oneOf": {"a": TEXT, "b": TEXT}}, ".oneOf must be an array of at least two schemas"),
        ({"oneOf": [TEXT, NUMBER], "enum": ["a"]}, f".enum {DSL}"),
        ({"type": "string", "items": TEXT}, f".items {DSL}"),
        ({"type": "array", "enum": [[]]}, f".enum {DSL}"),
        ({"type": "json", "const": 1}, f".const {DSL}"),
        ({"type": "string", "enum": "abc"}, ".enum must be a non-empty array of scalar values"),
        ({"type": "string", "enum": []}, ".enum must be a non-empty array of scalar values"),
        ({"type": "string", "enum": [["a"]]}, ".enum must be a non-empty array of scalar values"),
        ({"type": "string", "enum": ["a", 1]}, ".enum must be a non-empty array of string values"),
        ({"type": "integer", "enum": [1, True]}, ".enum must be a non-empty array of integer values"),
        ({"type": "number", "const": -0.0}, ".const must be a number value"),
        ({"type": "string", "enum": ["a"], "const": "b"}, ".const must be one of enum when both are declared"),
        ({"type": "string", "description": 1}, ".description must be a string"),
        ({"type": "string", "default": {1}}, ".default must be lossless JSON"),
        ({"type": "number", "examples": [math.nan]}, ".examples must be lossless JSON"),
        ({**CLOSED, "properties": [TEXT]}, ".properties must be a schema object"),
        ({**CLOSED, "properties": {"a b": {}}}, '.properties["a b"].type must be'),
        ({**CLOSED, "properties": {1: TEXT}}, ".properties has the key 1, which is no string"),
    ],
)
def test_what_no_node_may_say_is_refused_at_its_place(node: Any, said: str) -> None:
    """T28, left column."""
    (violation,) = refused(compile_parameters, {"x": node})

    assert violation.startswith(f"parameters.x{said}")


def test_what_is_no_map_at_all_is_refused() -> None:
    assert refused(compile_parameters, [TEXT]) == ("parameters must be a schema object",)


def test_a_refusal_is_a_type_error_with_a_code_that_tells_everything_at_once() -> None:
    with pytest.raises(TypeError, match=r"^unsupported JSON schema: parameters\.a ") as caught:
        compile_parameters({"a": 1, "b": {"type": "string", "required": True}, "c": 2})  # type: ignore[dict-item]

    error = caught.value
    assert isinstance(error, PegboardError)
    assert isinstance(error, UnsupportedSchema)
    assert error.code == "UNSUPPORTED_SCHEMA"
    assert str(error) == f"unsupported JSON schema: {'; '.join(error.violations)}"
    assert len(error.violations) == 2


# -- circles and depth (T28, T31)


def test_a_node_within_itself_is_circular() -> None:
    node: dict[str, Any] = {"type": "array"}
    node["items"] = node
    branches: dict[str, Any] = {"oneOf": [TEXT]}
    branches["oneOf"].append(branches)

    assert refused(compile_parameters, {"x": node}) == ("parameters.x.items is circular",)
    assert refused(compile_parameters, {"x": branches}) == ("parameters.x.oneOf[1] is circular",)
    assert refused(check_schema, node) == ("schema.items is circular",)


def nested(levels: int, innermost: Any) -> dict[str, Any]:
    """Return arrays in arrays."""
    node = innermost
    for _ in range(levels):
        node = {"type": "array", "items": node}
    return {"deep": node}


def test_a_map_nested_fifty_thousand_deep_compiles() -> None:
    """T31."""
    made = compile_parameters(nested(50_000, TEXT))

    check_schema(made)
    assert made["properties"]["deep"]["items"]["items"]["type"] == "array"


def test_a_mistake_fifty_thousand_deep_is_told_in_one_short_line() -> None:
    """T31."""
    (violation,) = refused(compile_parameters, nested(50_000, {**TEXT, "format": "uri"}))

    assert violation.startswith("parameters.deep.items.items.")
    assert violation.endswith(".items.items.format is not supported by the value schema DSL")
    assert len(violation) < 250


def test_a_value_nested_fifty_thousand_deep_is_checked() -> None:
    """T31."""
    schema = compile_parameters(nested(50_000, TEXT))
    value: Any = "x"
    for _ in range(50_000):
        value = [value]

    assert violations(schema, {"deep": value}) == []
    (violation,) = violations(schema, {"deep": [value]})
    assert violation.endswith("must be a string, not an array")


# -- what is refused in a plain schema (T27, T28)


@pytest.mark.parametrize("key", ["minLength", "format", "$comment", "$ref", "anyOf", "allOf", "pattern", "minimum"])
def test_keywords_outside_the_subset_are_refused(key: str) -> None:
    """T27."""
    assert refused(check_schema, {"type": "array", "items": {"type": "string", key: "x"}}) == (
        f"schema.items.{key} is not a supported keyword (subset: "
        "type/oneOf/properties/required/additionalProperties/items/enum/const + annotations)",
    )


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (True, " must be a schema object"),
        ({"type": "array", "items": False}, ".items must be a schema object"),
        ({"type": ["string", "null"]}, ".type must be a single type string (type arrays are not supported)"),
        ({"type": "json"}, ".type must be one of object/array/string/number/integer/boolean/null"),
        ({"type": None}, ".type must be one of object/array/string/number/integer/boolean/null"),
        ({"enum": ["a"]}, ".enum requires type or oneOf"),
        ({"properties": {}}, ".properties requires type or oneOf"),
        ({"type": "string", "items": {}}, '.items is not supported on type "string"'),
        ({"type": "object", "enum": [{}]}, '.enum is not supported on type "object"'),
        ({"oneOf": [TEXT, NUMBER], "const": 1}, ".const is not supported beside oneOf"),
        ({"oneOf": []}, ".oneOf must be an array of at least two schemas"),
        ({"type": "string", "enum": []}, ".enum must be a non-empty array of string values"),
        ({"type": "integer", "enum": [1, 1.5]}, ".enum must be a non-empty array of integer values"),
        ({"type": "boolean", "const": 1}, ".const must be a boolean value"),
        ({"type": "null", "enum": [None], "const": None, "title": 1}, ".title must be a string"),
        ({"type": "object", "required": "x"}, ".required must be an array of strings"),
        ({"type": "object", "required": [1]}, ".required must be an array of strings"),
        ({"type": "object", "required": ["x"]}, '.required names "x" which is not in properties'),
        ({"type": "object", "properties": []}, ".properties must be a schema object"),
        ({"type": "object", "additionalProperties": {}}, ".additionalProperties must be a boolean"),
        ({"default": b"x"}, ".default must be lossless JSON"),
    ],
)
def test_what_no_schema_of_the_subset_may_say_is_refused_at_its_place(schema: Any, said: str) -> None:
    """T28, right column."""
    assert refused(check_schema, schema) == (f"schema{said}",)


# -- what fits (T29, T30)


def test_what_is_missing_comes_before_what_is_wrong() -> None:
    schema = compile_parameters({"a": {**TEXT, "required": True}, "b": {"type": "integer"}})

    assert violations(schema, {"b": "1"}) == ["a is missing", "b must be an integer, not a string"]
    assert violations(schema, {"a": None, "b": 1}) == ["a must be a string, not null"]


@pytest.mark.parametrize("value", [True, False, math.nan, math.inf, -math.inf, -0.0, "1", None, [1]])
def test_these_are_no_numbers(value: Any) -> None:
    """T29."""
    assert len(violations(NUMBER, value)) == 1
    assert len(violations({"type": "integer"}, value)) == 1


def test_an_integer_is_integral_however_it_is_written_or_large() -> None:
    """T29."""
    assert [violations({"type": "integer"}, value) for value in (3.0, 10**400, -(10**400), 0)] == [[], [], [], []]
    assert violations({"type": "integer"}, 1.5) == ["value must be an integer, not 1.5"]
    assert violations(TEXT, 10**5000) == ["value must be a string, not an integer"]


def test_a_value_must_match_exactly_one_branch() -> None:
    """AC-T25."""
    schema = compile_value({"oneOf": [NUMBER, {"type": "integer"}, TEXT]})

    assert violations(schema, 1) == ["value must match exactly one of 3 schemas, it matches 2"]
    assert violations(schema, None) == ["value must match exactly one of 3 schemas, it matches 0"]
    assert violations(schema, 1.5) == violations(schema, "x") == []


def test_branches_within_branches_count_by_themselves() -> None:
    inner = {"oneOf": [NUMBER, {"type": "integer"}]}
    schema = compile_parameters({"x": {"type": "array", "items": {"oneOf": [inner, TEXT]}}})

    assert violations(schema, {"x": [1.5, "a", 1]}) == ["x[2] must match exactly one of 2 schemas, it matches 0"]


def test_undeclared_keys_are_refused_only_where_the_schema_says_so() -> None:
    schema = compile_parameters({"shut": {**CLOSED, "properties": {"a": TEXT}}})

    assert violations(schema, {"more": 1, "shut": {"a": "x"}}) == []
    assert violations(schema, {"shut": {"b": 1}}) == ["shut.b is not a property (there are: a)"]


def test_options_and_constants_are_told() -> None:
    schema = compile_parameters({"kind": {**TEXT, "enum": ["a", "b"]}, "one": {"type": "integer", "const": 1}})

    assert violations(schema, {"kind": "c", "one": 2}) == ['kind must be one of "a", "b"', "one must be 1"]


def test_defaults_are_never_applied() -> None:
    schema = compile_parameters({"a": {**TEXT, "default": "x", "required": True}})

    assert violations(schema, {}) == ["a is missing"]


class Opaque:
    """Something that is no JSON."""


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": {1}}, "a is of type set, which is no JSON"),
        ([b"x"], "[0] is of type bytes, which is no JSON"),
        (Opaque(), "value is of type Opaque, which is no JSON"),
        ({1: "x"}, "value has the key 1, which is no string"),
        ({"a": {True: 1}}, "a has the key True, which is no string"),
        ([1, [math.nan]], "[1][0] is not a finite number"),
        ({"a": -0.0}, "a is negative zero"),
    ],
)
def test_what_would_be_lost_as_json_is_refused_even_where_anything_may_stand(value: Any, said: str) -> None:
    """T30."""
    assert violations(compile_value({"type": "json"}), value) == [said]


def test_tuples_are_lists_and_any_mapping_an_object() -> None:
    schema = compile_parameters({"x": {"type": "array", "items": CLOSED}})

    assert violations(schema, MappingProxyType({"x": (MappingProxyType({}), {})})) == []


def test_a_value_within_itself_is_refused_and_one_that_stands_twice_is_not() -> None:
    inner: list[Any] = []
    loop: dict[str, Any] = {"again": [inner, inner]}
    assert violations({}, loop) == []

    inner.append(loop)
    assert violations({}, loop) == ["again[0][0] is circular", "again[1][0] is circular"]


# -- for any map and any value

NAMES = st.text(st.characters(codec="utf-8"), max_size=4)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x != 0 or math.copysign(1, x) > 0)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=5),
    "number": st.integers() | FLOATS,
    "integer": st.integers() | st.integers(-1000, 1000).filter(bool).map(float),
    "boolean": st.booleans(),
    "null": st.none(),
}


@st.composite
def scalar_nodes(draw: st.DrawFn) -> dict[str, Any]:
    """A node of a scalar type, perhaps with options or a constant."""
    kind = draw(st.sampled_from(sorted(SCALARS)))
    node: dict[str, Any] = {"type": kind}
    if draw(st.booleans()):
        node["enum"] = draw(st.lists(SCALARS[kind], min_size=1, max_size=4))
        if draw(st.booleans()):
            node["const"] = draw(st.sampled_from(node["enum"]))
    if draw(st.booleans()):
        node["description"] = draw(st.text(max_size=5))
    return node


@st.composite
def property_maps(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    """A map of properties, some of them required."""
    found = draw(st.dictionaries(NAMES, inner, max_size=4))
    return {name: {**node, "required": True} if draw(st.booleans()) else node for name, node in found.items()}


def outer_nodes(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Nodes that hold others; the branches of a `oneOf` are told apart by their type."""
    objects = st.builds(
        lambda properties, open_: {"type": "object", "properties": properties, "additionalProperties": open_},
        property_maps(inner),
        st.booleans(),
    )
    arrays = inner.map(lambda node: {"type": "array", "items": node})
    texts = st.just({"type": "string"})
    either = st.tuples(texts, objects, arrays).flatmap(lambda branches: st.permutations(branches))
    return objects | arrays | either.map(lambda branches: {"oneOf": list(branches)})


NODES = st.recursive(scalar_nodes() | st.just({"type": "json"}), outer_nodes, max_leaves=8)
PLAIN = JSON.filter(lambda value: violations({}, value) == [])


@st.composite
def fitting(draw: st.DrawFn, schema: Mapping[str, Any]) -> Any:
    """A value made to fit a compiled schema."""
    if "oneOf" in schema:
        return draw(fitting(draw(st.sampled_from(schema["oneOf"]))))
    kind = schema.get("type")
    if kind == "array":
        return [draw(fitting(schema.get("items", {}))) for _ in range(draw(st.integers(0, 3)))]
    if kind == "object":
        value = {} if schema.get("additionalProperties") is False else draw(st.dictionaries(NAMES, PLAIN, max_size=2))
        known = schema.get("properties", {})
        value = {name: item for name, item in value.items() if name not in known}
        wanted = [name for name in known if name in schema.get("required", ()) or draw(st.booleans())]
        return {**value, **{name: draw(fitting(known[name])) for name in wanted}}
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else draw(st.sampled_from(schema["enum"]))
    return draw(SCALARS[kind] if kind else PLAIN)


@given(property_maps(NODES), st.data())
def test_a_value_made_to_fit_a_compiled_schema_has_nothing_against_it(
    properties: dict[str, Any], data: st.DataObject
) -> None:
    schema = compile_parameters(properties)

    assert violations(schema, data.draw(fitting(schema))) == []


@given(NODES, JSON)
def test_no_json_whatever_makes_the_check_raise(node: dict[str, Any], value: Any) -> None:
    assert all(isinstance(violation, str) for violation in violations(compile_value(node), value))


@given(property_maps(NODES))
def test_the_same_map_always_becomes_the_same_bytes_and_they_are_of_the_subset(properties: dict[str, Any]) -> None:
    schema = compile_parameters(properties)
    again = compile_parameters({name: dict(reversed(node.items())) for name, node in properties.items()})

    assert json.dumps(schema) == json.dumps(again)
    check_schema(json.loads(json.dumps(schema)))
