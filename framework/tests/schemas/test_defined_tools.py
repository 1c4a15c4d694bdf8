"""`define_tool` and `output_of`: what a definition must say, how its body is called, what is refused before that."""

import asyncio
import functools
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pegboard import Agent, Deny, GuardedCall, InvalidArguments, Output, Tool, ToolContext, Touch, hookimpl, tool
from pegboard.schemas import UnsupportedSchema, compile_value, define_tool, output_of

TEXT = output_of({"type": "string"}, str)


def defined(body: Callable[..., Any] = str, **options: Any) -> Tool:
    """Define a read tool, with what a test does not care about filled in."""
    standard: dict[str, Any] = {"name": "probe", "description": "A tool.", "parameters": {}, "output": TEXT}
    return define_tool(**{**standard, "effect": "read", "body": body, **options})


async def called(agent: Agent, made: Tool, arguments: str = "{}", **options: Any) -> tuple[str, str]:
    """Return the code and the content of one call of a tool."""
    agent.tools.register(made)
    result = await agent.call_tool(made.name, arguments, **options)
    return result.code or result.status, result.content


# -- what a definition must say (T8-T10)


@pytest.mark.parametrize(
    "output",
    [None, {}, {"schema": {}, "render": str}, output_of({}, None), replace(TEXT, summarize=1)],  # type: ignore[arg-type]
)
def test_a_definition_without_an_output_that_can_be_rendered_is_refused(output: Any) -> None:
    """AC-T06."""
    with pytest.raises(TypeError) as refused:
        defined(output=output)

    assert str(refused.value) == 'tool "probe" must declare output { schema, render, summarize? }'


@pytest.mark.parametrize("timeout", [0, -1, math.nan, math.inf, True, "1"])
def test_a_timeout_is_a_positive_finite_number(timeout: Any) -> None:
    """AC-T07."""
    with pytest.raises(TypeError) as refused:
        defined(timeout=timeout)

    assert str(refused.value) == 'tool "probe" timeout must be a positive finite number'


@pytest.mark.parametrize("timeout", [0.5, 1, None])
def test_such_a_timeout_is_kept(timeout: float | None) -> None:
    """AC-T07."""
    assert defined(timeout=timeout).timeout == timeout


def test_mistakes_are_told_in_order_output_then_its_schema_then_timeout_then_name() -> None:
    """T10."""
    mistakes: dict[str, Any] = {"output": None, "timeout": 0, "name": "mcp__x"}
    bad_schema = Output(lambda: {"format": "uri"}, str, str, str)

    steps: list[tuple[dict[str, Any], str]] = [
        ({}, "must declare output"),
        ({"output": bad_schema}, r"unsupported JSON schema: output\.schema\.format is not a supported keyword"),
        ({"output": TEXT}, "timeout must be"),
        ({"timeout": None}, "are those of servers' tools"),
    ]
    for mend, said in steps:
        mistakes.update(mend)
        with pytest.raises(TypeError, match=said):
            defined(**mistakes)


def test_an_outputs_schema_is_held_to_the_subset_at_once() -> None:
    """T8."""
    with pytest.raises(UnsupportedSchema, match=r"output\.schema\.items\.minLength is not a supported keyword"):
        output_of({"type": "array", "items": {"type": "string", "minLength": 1}}, str)


@pytest.mark.parametrize("name", ["mcp__x", "mcp__server__tool"])
def test_names_of_foreign_tools_are_refused_for_others(name: str) -> None:
    """DESIGN §3.2, rule 4."""
    made = defined()

    def function() -> str:
        """Do something."""
        return ""

    makers: list[Callable[[], Tool]] = [
        lambda: defined(name=name),
        lambda: replace(made, name=name),
        lambda: Tool(name, "x", made.arguments, TEXT, str, server="other"),
        lambda: tool(name=name)(function),
    ]
    for make in makers:
        with pytest.raises(TypeError, match="are those of servers' tools"):
            make()


async def test_a_foreign_tool_says_where_it_comes_from_and_is_another_one_with_another_generation(agent: Agent) -> None:
    """DESIGN §3.3: an approval is bound to the server's configuration too, through the definition's hash."""
    plain = defined(effect="write")
    made = replace(plain, name="mcp__docs__find", server="docs", source="server `docs` of pack `mcp`", generation="a")
    agent.tools.register(made)

    entry = agent.view().get("mcp__docs__find")
    assert entry is not None
    assert entry.as_json()["source"] == "server `docs` of pack `mcp`"
    hashes = {replace(made, generation=generation).hash for generation in ("", "a", "b")}
    assert len(hashes) == 3


@pytest.mark.parametrize("description", ["", "  ", None])
def test_a_definition_without_a_description_is_refused(description: Any) -> None:
    with pytest.raises(TypeError, match='tool "probe" needs a description'):
        defined(description=description)


@pytest.mark.parametrize("body", ["text", lambda: "", lambda a, b, c: ""])
def test_a_body_that_cannot_be_called_with_one_dict_is_refused(body: Any) -> None:
    with pytest.raises(TypeError, match=r'tool "probe".* body'):
        defined(body)


@pytest.mark.parametrize("levels", [200, 50_000])
def test_a_definition_too_deep_to_be_written_is_refused_in_one_line(levels: int) -> None:
    node: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        node = {"type": "array", "items": node}

    for make in (lambda: defined(parameters={"deep": node}), lambda: output_of(node, str)):
        with pytest.raises(UnsupportedSchema, match=r"nested more than 100 levels deep$"):
            make()


# -- what a model and policy are told


def test_a_definition_is_a_write_that_runs_alone_unless_it_says_otherwise() -> None:
    made = define_tool(name="probe", description="A tool.", parameters={}, output=TEXT, body=str)

    assert (made.effect, made.concurrency, made.exposure) == ("write", "exclusive", "user-configurable")
    assert (made.inline, made.examples, made.takes_context, tuple(made.touches())) == (False, (), False, ())


def test_the_compiled_schema_is_what_a_model_is_shown_and_what_is_hashed() -> None:
    made = defined(parameters={"path": {"type": "string", "required": True}})
    same = defined(parameters={"path": {"required": True, "type": "string"}})

    assert made.parameters == {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    assert made.hash == same.hash != defined().hash


async def test_touches_get_the_arguments_as_one_dict(agent: Agent) -> None:
    touched: list[tuple[Touch, ...]] = []

    class Policy:
        @hookimpl
        def guard_tool_call(self, call: GuardedCall) -> Deny:
            touched.append(call.touches)
            return Deny("no")

    agent.register(Policy())
    made = defined(parameters={"self": {"type": "string"}}, touches=lambda given: [Touch.url(given["self"])])

    assert (await called(agent, made, '{"self": "a"}'))[0] == "DENIED"
    assert touched == [(Touch.url("a"),)]


# -- how a body is called


async def in_a_loop(arguments: dict[str, Any]) -> str:
    """Return the arguments, from the event loop."""
    await asyncio.sleep(0)
    return json.dumps(arguments)


async def in_a_loop_with_context(arguments: dict[str, Any], context: ToolContext) -> str:
    """Return the arguments and the session, from the event loop."""
    return json.dumps([arguments, bool(context.session)])


class Server:
    """Something whose methods are bodies, and which is one itself."""

    async def __call__(self, arguments: dict[str, Any], /, ctx: ToolContext) -> str:
        return json.dumps([arguments, bool(ctx.session)])

    def plain(self, arguments: dict[str, Any]) -> str:
        """Return the arguments."""
        return json.dumps(arguments)


@pytest.mark.parametrize("body", [json.dumps, in_a_loop, Server().plain, functools.partial(json.dumps, indent=None)])
async def test_a_body_gets_one_dict_whatever_colour_it_has(agent: Agent, body: Callable[..., Any]) -> None:
    assert await called(agent, defined(body), '{"ctx": 1, "self": 2}') == ("ok", '{"ctx": 1, "self": 2}')


@pytest.mark.parametrize("body", [in_a_loop_with_context, Server(), lambda a, c: json.dumps([a, bool(c.session)])])
async def test_a_body_that_takes_a_second_argument_gets_the_context(agent: Agent, body: Callable[..., Any]) -> None:
    assert await called(agent, defined(body), '{"ctx": 1}') == ("ok", '[{"ctx": 1}, true]')


async def test_an_inline_body_runs_in_the_event_loop(agent: Agent) -> None:
    def body(_arguments: dict[str, Any]) -> str:
        return str(asyncio.get_running_loop().is_running())

    assert await called(agent, defined(body, inline=True)) == ("ok", "True")


def test_every_call_gets_a_dict_of_its_own() -> None:
    made = defined()
    first, second = (made.arguments.parse('{"a": {"b": []}}')["arguments"] for _ in range(2))

    assert first == second
    assert first["a"] is not second["a"]


# -- what is refused before the body (T32)


async def test_what_is_missing_and_what_is_wrong_are_told_in_order_and_the_body_is_not_called(agent: Agent) -> None:
    """AC-T23."""
    ran: list[object] = []
    made = defined(ran.append, parameters={"a": {"type": "string", "required": True}, "b": {"type": "integer"}})

    assert await called(agent, made, '{"b": "x"}') == (
        "INVALID_ARGS",
        "Error: invalid arguments: a is missing; b must be an integer, not a string",
    )
    assert ran == []


async def test_further_keys_pass_and_defaults_are_not_filled_in(agent: Agent) -> None:
    """AC-T24."""
    made = defined(json.dumps, parameters={"a": {"type": "integer", "default": 1}})

    assert await called(agent, made, '{"more": true}') == ("ok", '{"more": true}')


@pytest.mark.parametrize("text", ["[]", "nonsense", '{"a": NaN}', '{"a": 1e999}', "[" * 100_000])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidArguments, match=r"^invalid arguments: "):
        defined().arguments.parse(text)


def test_of_many_violations_ten_are_told_and_the_others_counted() -> None:
    made = defined(parameters={"many": {"type": "array", "items": {"type": "string"}}})

    with pytest.raises(InvalidArguments) as refused:
        made.arguments.parse(json.dumps({"many": [1] * 5000}))

    assert len(refused.value.violations) == 11
    assert refused.value.violations[9:] == ("many[9] must be a string, not an integer", "and 4,990 more")


# -- what a body returns (T39)


async def test_a_value_that_the_output_does_not_promise_is_refused(agent: Agent) -> None:
    """AC-T26."""
    promised = output_of({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, str)
    made = defined(lambda _arguments: {"n": "1"}, output=promised)

    code, content = await called(agent, made)

    assert code == "INVALID_TOOL_OUTPUT"
    assert "n must be an integer, not a string" in content


@pytest.mark.parametrize("value", [{1}, b"x", math.nan, {1: 2}, -0.0, object()])
async def test_a_value_that_is_no_json_is_refused_even_where_anything_is_promised(agent: Agent, value: Any) -> None:
    """AC-T26."""
    made = defined(lambda _arguments: value, output=output_of(compile_value({"type": "json"}), str))

    assert (await called(agent, made))[0] == "INVALID_TOOL_OUTPUT"


async def test_render_and_summarize_get_plain_data_and_finalize_the_last_word(agent: Agent) -> None:
    """T39, T41."""
    schema = compile_value({"type": "array", "items": {"type": "integer"}})
    output = output_of(schema, json.dumps, lambda value: f"{value[0]}!", lambda content: f"<{content}>")
    made = defined(lambda _arguments: (1, 2), output=output)

    agent.tools.register(made)
    result = await agent.call_tool("probe")

    assert (result.content, result.summary) == ("<[1, 2]>", "1!")


@pytest.mark.parametrize(
    ("value", "said"), [("a\nb", "2 lines"), ("", "0 lines"), ([1], "1 item"), ({}, "done"), (None, "done")]
)
def test_a_result_without_summary_of_its_own_is_summed_up(value: Any, said: str) -> None:
    assert output_of({}, str).summarize(value) == said


def test_changing_the_schema_later_changes_nothing() -> None:
    schema: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
    output = output_of(schema, str)

    schema["items"]["type"] = "integer"

    assert output.check(["a"]) == ["a"]
    assert output.schema() == {"type": "array", "items": {"type": "string"}}


# -- the page about it


async def test_the_tools_of_the_how_to_work(agent: Agent) -> None:
    page = Path(__file__).parents[3] / "docs" / "how-to" / "define-tools.md"
    (code,) = re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    made: dict[str, Any] = {}
    exec(code, made)

    assert await called(agent, made["double"], '{"number": 2}') == ("ok", "4")
    assert await called(agent, made["search"], '{"word": "a", "limit": 2, "kind": null}') == ("ok", "a\na")
