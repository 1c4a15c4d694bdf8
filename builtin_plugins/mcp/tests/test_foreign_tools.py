"""`foreign_tool`: the name and the place it has, the schema as the server sent it, and that no schema can do harm."""

import copy
import hashlib
import json
import math
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pegboard import Agent, GuardedCall, InvalidArguments, Output, Tool, ToolContext, foreign_name, hooks, implements
from pegboard.schemas import UnsupportedSchema, define_tool
from pegboard_mcp.foreign import foreign_tool

ANYTHING: dict[str, Any] = {"type": "object"}
OUTPUT = Output(dict, lambda value: value, json.dumps, lambda _value: "done")


async def echo(arguments: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
    """Return the arguments and whether there is a session."""
    return {"got": arguments, "session": bool(ctx.session)}


def foreign(parameters: dict[str, Any] | None = None, **options: Any) -> Tool:
    """Make a foreign tool, with what a test does not care about filled in."""
    standard: dict[str, Any] = {"server": "docs", "name": "search", "description": "Search.", "output": OUTPUT}
    return foreign_tool(**{**standard, "parameters": parameters or ANYTHING, "call": echo, **options})


def refused(parameters: Any) -> str:
    """Return what is said against a schema."""
    with pytest.raises(UnsupportedSchema) as caught:
        foreign(parameters)
    (violation,) = caught.value.violations
    return violation


def against(parameters: dict[str, Any], arguments: Any) -> tuple[str, ...]:
    """Return what is said against arguments."""
    with pytest.raises(InvalidArguments) as caught:
        foreign({"type": "object", **parameters}).arguments.parse(json.dumps(arguments))
    return caught.value.violations


# -- its name and its place (DESIGN §3.2, rule 4)


def test_a_foreign_tool_bears_the_name_of_its_server() -> None:
    made = foreign(server="git-hub", name="create_Issue")

    assert (made.name, made.server) == ("mcp__git-hub__create_Issue", "git-hub")


def test_what_may_not_stand_in_a_name_becomes_an_underscore() -> None:
    assert foreign(server="a.b/c", name="what is\n\u202e\ud800 é").name == "mcp__a_b_c__what_is_____"


def test_a_long_name_is_cut_and_ends_with_a_hash_of_both_names() -> None:
    server, name = "s" * 10, "n" * 48
    digest = hashlib.sha256(f"{server}\0{name}".encode()).hexdigest()[:10]

    assert foreign(server=server, name=name[1:]).name == f"mcp__{server}__{name[1:]}"
    assert foreign(server=server, name=name).name == f"mcp__{server}__{'n' * 35}__{digest}"


@given(st.text(min_size=1, max_size=80), st.text(min_size=1, max_size=80))
def test_whatever_a_server_calls_itself_and_its_tools_there_is_a_name(server: str, name: str) -> None:
    made = foreign(server=server, name=name)

    assert made.name == foreign_name(server, name)
    assert made.name.startswith("mcp__")
    assert len(made.name) <= 64
    assert set(made.name) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


@pytest.mark.parametrize("wrong", [{"server": ""}, {"name": ""}, {"server": None}, {"name": 1}, {"description": None}])
def test_a_server_a_name_and_a_description_are_needed(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="needs a server, a name and a description"):
        foreign(**wrong)


def test_a_foreign_tool_is_write_exclusive_and_user_configurable_and_stays_so() -> None:
    made = foreign()

    assert (made.effect, made.concurrency, made.exposure) == ("write", "exclusive", "user-configurable")
    for change in ({"effect": "read"}, {"concurrency": "parallel"}, {"exposure": "system-model"}):
        with pytest.raises(TypeError, match="is foreign"):
            replace(made, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change", [{"name": "search"}, {"name": "mcp__other__search"}, {"server": "other"}, {"server": ""}]
)
def test_a_foreign_tool_cannot_pass_for_another_servers_or_for_a_packs(change: dict[str, str]) -> None:
    with pytest.raises(TypeError, match="are those of servers' tools"):
        replace(foreign(), **change)  # type: ignore[arg-type]


# -- the schema as it is


def test_a_model_is_shown_the_schema_as_the_server_sent_it() -> None:
    sent = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "q": {"type": ["string", "null"], "minLength": 1, "x-order": 1},
            "n": {"$ref": "#/definitions/n"},
        },
        "definitions": {"n": {"type": "integer", "default": -0.0}},
    }
    kept = copy.deepcopy(sent)
    made = foreign(sent)

    sent["properties"]["q"]["minLength"] = 5  # type: ignore[index]

    assert made.parameters == kept
    assert list(made.parameters) == list(kept)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (None, 'parameters must be a JSON Schema whose type is "object"'),
        ([], 'parameters must be a JSON Schema whose type is "object"'),
        ({}, 'parameters must be a JSON Schema whose type is "object"'),
        ({"type": "string"}, 'parameters must be a JSON Schema whose type is "object"'),
        ({"type": ["object"]}, 'parameters must be a JSON Schema whose type is "object"'),
        ({"type": "object", "properties": []}, "parameters.properties: an array of 0 items is not of type"),
        ({"type": "object", "properties": {"x": {"type": "strnig"}}}, 'parameters.properties.x.type: "strnig" is not'),
        ({"type": "object", "required": "x"}, 'parameters.required: "x" is not of type "array"'),
        ({"type": "object", "$schema": "https://example.com/own"}, "parameters: Unknown meta-schema"),
        ({"type": "object", "default": math.nan}, "parameters is no JSON: Out of range float values"),
        ({"type": "object", "default": b""}, "parameters is no JSON: Object of type bytes"),
    ],
)
def test_what_is_no_valid_schema_of_an_object_is_refused(schema: Any, said: str) -> None:
    with pytest.raises(UnsupportedSchema) as caught:
        foreign_tool(server="docs", name="x", description="", parameters=schema, call=echo, output=OUTPUT)

    assert str(caught.value).startswith(f"unsupported JSON schema: {said}")


def test_a_schema_nested_a_hundred_levels_deep_is_the_deepest() -> None:
    def deep(levels: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object"}
        for _ in range(levels // 2):
            schema = {"type": "object", "properties": {"x": schema}}
        return schema

    assert len(foreign(deep(98)).hash) == 64
    assert refused(deep(102)) == "parameters is nested more than 100 levels deep"
    assert refused(deep(100_000)) == "parameters is nested more than 100 levels deep"


# -- arguments held against it


def test_violations_are_short_and_say_where() -> None:
    schema = {
        "properties": {
            "q": {"type": "string", "maxLength": 3},
            "list": {"items": {"properties": {"n": {"minimum": 1}}}},
        },
        "required": ["must"],
    }

    assert set(against(schema, {"q": "x" * 1000, "list": [{}, {"n": 0}]})) == {
        "must is missing",
        "list[1].n: 0 is less than the minimum of 1",
        f'q: "{"x" * 78}… is longer than 3 characters',
    }


def test_where_no_branch_fits_each_says_why() -> None:
    (said,) = against({"properties": {"x": {"anyOf": [{"type": "integer"}, {"maxLength": 1}]}}}, {"x": "ab"})

    assert said.startswith('x: "ab" is not valid under any of the schemas')
    assert said.endswith('("ab" is not of type "integer"; "ab" is longer than 1 character)')


def test_of_many_violations_ten_are_told_and_the_others_counted() -> None:
    said = against({"additionalProperties": {"type": "integer"}}, {f"k{i}": "x" for i in range(1000)})

    assert len(said) == 11
    assert said[-1] == "and 990 more"


def test_text_that_is_no_unicode_is_refused_and_does_not_raise() -> None:
    (said,) = against({"properties": {"x": {"type": "integer"}}}, {"\ud800": 1})

    assert said.startswith("arguments can't be checked: ")


@pytest.mark.parametrize("text", ["[]", "nonsense", '{"a": NaN}', '{"a": 1e999}', f'{{"a": {"[" * 200}{"]" * 200}}}'])
def test_what_is_no_json_object_or_too_deep_is_refused(text: str) -> None:
    with pytest.raises(InvalidArguments):
        foreign().arguments.parse(text)


def test_formats_and_patterns_with_look_around_are_left_to_the_server() -> None:
    made = foreign({"type": "object", "properties": {"x": {"format": "email", "pattern": "^(?!x)a", "minLength": 2}}})

    assert made.arguments.parse('{"x": "xx"}') == {"arguments": {"x": "xx"}}
    assert made.parameters["properties"]["x"]["pattern"] == "^(?!x)a"
    with pytest.raises(InvalidArguments, match=r"x: .* shorter than 2"):
        made.arguments.parse('{"x": "x"}')


def test_other_patterns_are_checked_beside_one_with_look_around() -> None:
    properties = {"^(?=a)": {"type": "string"}, "^b": {"type": "string"}}
    schema = {"patternProperties": properties, "additionalProperties": False, "properties": {"c": {"pattern": "^c"}}}

    assert set(against(schema, {"a": 1, "b": 1, "c": "x"})) == {
        'b: 1 is not of type "string"',
        'c: "x" does not match "^c"',
    }


def test_a_value_may_lead_back_into_its_schema() -> None:
    tree = {"properties": {"n": {"type": "integer"}, "left": {"$ref": "#"}, "right": {"$ref": "#"}}, "required": ["n"]}

    assert foreign({"type": "object", **tree}).arguments.parse('{"n": 1, "left": {"n": 2}}')
    assert against(tree, {"n": 1, "left": {"n": 2, "right": {}}}) == ("left.right.n is missing",)


# -- through the pipeline


async def test_a_call_gets_a_dict_in_which_any_name_may_stand_and_returns_any_json(agent: Agent) -> None:
    agent.tools.register(foreign())

    result = await agent.call_tool("mcp__docs__search", '{"ctx": 1, "self": [-0.0]}', allow_writes=True)

    assert json.loads(result.content) == {"got": {"ctx": 1, "self": [-0.0]}, "session": True}


async def test_arguments_are_checked_before_policy_is_asked(agent: Agent) -> None:
    asked: list[str] = []

    class Policy:
        @implements(hooks.guard_tool_call)
        def guard_tool_call(self, call: GuardedCall) -> None:
            asked.append(call.name)

    agent.register(Policy())
    agent.tools.register(foreign({"type": "object", "required": ["q"]}))

    assert (await agent.call_tool("mcp__docs__search", "{}", allow_writes=True)).code == "INVALID_ARGS"
    assert asked == []


async def test_a_foreign_tool_is_denied_without_a_persons_yes(agent: Agent) -> None:
    ran: list[object] = []

    async def run(arguments: dict[str, Any], ctx: ToolContext) -> None:
        ran.append(arguments)

    agent.tools.register(foreign(call=run))

    assert (await agent.call_tool("mcp__docs__search", "{}")).code == "DENIED"
    assert ran == []


async def test_a_server_that_uses_the_names_of_others_gets_names_of_its_own(agent: Agent) -> None:
    """TS1, TS2, TS3 as in DESIGN §6, rule 4: nothing is hidden and nothing stands in the place of anything."""
    mine = replace(
        define_tool(name="read", description="Mine.", parameters={}, output=OUTPUT, body=dict), effect="read"
    )
    agent.tools.register(mine)
    for name in ("read", "tape_search"):
        agent.tools.register(foreign(server="evil", name=name))

    assert agent.view().names == ("mcp__evil__read", "mcp__evil__tape_search", "read")
    assert (await agent.call_tool("read")).content == "{}"


def test_the_library_that_checks_schemas_is_imported_with_the_first_tool() -> None:
    code = "import sys, pegboard_mcp.foreign; print('jsonschema_rs' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# -- no schema can do harm


def test_no_reference_leads_out_and_none_is_followed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x.json"
        for schema in (
            {"$ref": url},
            {"$ref": f"{url}#/a"},
            {"properties": {"x": {"$ref": url}}},
            {"properties": {"x": {"$dynamicRef": f"{url}#a"}}},
            {"$id": url, "properties": {"x": {"$ref": "other.json"}}},
            {"properties": {"x": {"$ref": "file:///etc/passwd"}}},
        ):
            assert "leads out of the schema" in refused({"type": "object", **schema})
        assert "Unknown meta-schema" in refused({"type": "object", "$schema": url})
        assert "inside a schema is not supported" in refused({"type": "object", "items": {"$id": url}})
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": ""},
        {"$dynamicAnchor": "n", "allOf": [{"$dynamicRef": "#n"}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"},
        {"properties": {"x": {"$anchor": "x", "anyOf": [{"$ref": "#x"}, {"type": "null"}]}}},
        {"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveAnchor": True, "$recursiveRef": "#"},
    ],
)
def test_a_schema_that_leads_back_to_itself_is_refused(schema: dict[str, Any]) -> None:
    assert refused({"type": "object", **schema}).endswith("leads back to itself without going into the value")


def test_a_reference_to_nothing_is_refused_and_one_to_its_own_address_is_not() -> None:
    own = {"$id": "https://example.com/s", "properties": {"x": {"$ref": "https://example.com/s#/$defs/a~1b%20c"}}}
    schema = {"type": "object", "$defs": {"a/b c": {"type": "integer"}}, **own}

    assert refused({"type": "object", "$ref": "#/$defs/a"}) == "parameters.$ref leads nowhere: #/$defs/a"
    with pytest.raises(InvalidArguments, match='x: "1" is not of type "integer"'):
        foreign(schema).arguments.parse('{"x": "1"}')


HOSTILE = Path(__file__).with_name("hostile_schemas.py")


def test_hostile_schemas_and_arguments_neither_abort_nor_hang_the_process() -> None:
    """In a process of its own, whose stack is small: what overflows it would end this one too."""
    ended = subprocess.run([sys.executable, str(HOSTILE)], capture_output=True, text=True, timeout=120, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert dict(line.split(": ", 1) for line in ended.stdout.splitlines()) == {
        "properties without end": "refused",
        "doubling references": "refused",
        "a chain of references": "refused",
        "a chain of branches": "refused",
        "a chain of what is unevaluated": "refused",
        "recursion that doubles": "too long",
        "recursion a hundred deep": "fits",
        "long branches at each of a hundred levels": "too long",
        "a pattern that backtracks": "does not fit",
        "a pattern too large to compile": "fits",
        "parentheses in parentheses": "fits",
        "five megabytes of text": "does not fit",
        "five megabytes against a large pattern": "fits",
        "many patterns against five megabytes": "too long",
        "a huge integer": "does not fit",
        "a hundred thousand violations": "does not fit",
        "options without end": "too long",
    }


@st.composite
def schemas(draw: st.DrawFn) -> Any:
    """Something like a schema, whose parts often refer to each other."""
    references = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/x", "#a", "#/nothing", "x"])
    leaves = st.builds(lambda to: {"$ref": to}, references) | st.sampled_from(
        [True, {}, {"type": "string"}, {"pattern": "(?=a)"}, {"enum": [1]}, {"type": 1}, {"$anchor": "a"}]
    )

    def outer(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        single = st.sampled_from(["not", "if", "then", "items", "contains", "additionalProperties", "propertyNames"])
        several = st.sampled_from(["allOf", "anyOf", "oneOf", "prefixItems"])
        named = st.sampled_from(["properties", "patternProperties", "dependentSchemas", "$defs"])
        return (
            st.dictionaries(single, inner, max_size=3)
            | st.dictionaries(several, st.lists(inner, min_size=1, max_size=3), max_size=2)
            | st.dictionaries(named, st.dictionaries(st.sampled_from("abx"), inner, max_size=3), max_size=2)
        )

    return draw(st.recursive(leaves, outer, max_leaves=12))


@settings(max_examples=60)
@given(schemas(), st.recursive(st.none() | st.integers() | st.text(max_size=3), st.lists, max_leaves=5))
def test_whatever_the_schema_it_is_refused_or_arguments_are(schema: Any, value: Any) -> None:
    wanted = {"type": "object", "properties": {"x": schema}, "$defs": {"a": schema, "b": {"$ref": "#/$defs/a"}}}
    try:
        made = foreign(wanted)
        assert made.arguments.parse(json.dumps({"x": value})) == {"arguments": {"x": value}}
    except (UnsupportedSchema, InvalidArguments) as error:
        assert len(str(error)) < 5000
