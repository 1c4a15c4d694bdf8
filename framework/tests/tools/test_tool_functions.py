"""`@tool`: what a typed function tells a model, which arguments it refuses, and what its body is given."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pegboard import InvalidArguments, Tool, ToolContext, Touch, tool
from pydantic import BaseModel
from typing_extensions import TypedDict


@tool(effect="read")
def look(path: str, ctx: ToolContext, depth: int = 2, ratio: float = 0.5, kind: Literal["file", "any"] = "any") -> str:
    """Look at a path.

    More about looking.

    Args:
        path: Where to look,
            relative to the session's directory.
        depth (int): How deep: 0 is the path itself.

    Returns:
        ratio: not a parameter's description.
    """
    return f"{path} {depth} {ratio} {kind} {ctx.session}"


@tool(effect="read")
def echo(value: Any = None) -> Any:
    """Return the value."""
    return value


def violations(made: Tool, text: str) -> tuple[str, ...]:
    """Return what the tool says against the arguments."""
    with pytest.raises(InvalidArguments) as refused:
        made.arguments.parse(text)
    return refused.value.violations


# -- what a model is told


def test_the_description_is_the_docstring_before_its_arguments() -> None:
    assert (look.name, look.description) == ("look", "Look at a path. More about looking.")


def test_the_schema_comes_from_annotations_defaults_and_the_docstring() -> None:
    properties = look.parameters["properties"]

    assert properties["path"] == {
        "type": "string",
        "description": "Where to look, relative to the session's directory.",
    }
    assert properties["depth"] == {"type": "integer", "default": 2, "description": "How deep: 0 is the path itself."}
    assert properties["ratio"] == {"type": "number", "default": 0.5}
    assert properties["kind"] == {"type": "string", "enum": ["file", "any"], "default": "any"}
    assert look.parameters["required"] == ["path"]
    assert look.parameters["additionalProperties"] is False


def test_the_context_is_no_parameter_and_a_model_cannot_send_it() -> None:
    assert "ctx" not in look.parameters["properties"]
    assert violations(look, '{"path": "a", "ctx": {}}') == (
        "ctx is not a parameter (there are: path, depth, ratio, kind)",
    )


def test_a_tool_without_parameters_is_an_object_without_properties() -> None:
    @tool
    def now() -> str:
        """Tell the time."""
        return "noon"

    assert now.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert violations(now, '{"zone": 1}') == ("zone is not a parameter (there are: none)",)


def test_a_tool_is_a_write_that_runs_alone_unless_it_says_otherwise() -> None:
    @tool
    def quiet() -> str:
        """Say nothing about itself."""
        return ""

    assert (quiet.effect, quiet.concurrency, quiet.exposure) == ("write", "exclusive", "user-configurable")
    assert (quiet.timeout, quiet.inline, tuple(quiet.touches())) == (None, False, ())


def test_an_async_function_and_a_name_of_its_own_are_kept() -> None:
    @tool(name="fetch_page", touches=lambda url: [Touch.url(url)], examples=["fetch the page"])
    async def fetch(url: str) -> str:
        """Fetch a page."""
        return url

    assert (fetch.name, fetch.is_async, fetch.examples) == ("fetch_page", True, ("fetch the page",))
    assert list(fetch.touches(url="x")) == [Touch("url", "x")]


DEFAULTS: dict[str, Any] = {"paths": [Path("a")], "odd": math.nan, "many": (1, 2), "thing": {"k": {1}}}


def test_a_default_that_is_not_json_leaves_the_schema_json() -> None:
    @tool
    def walk(
        paths: list[Path] = DEFAULTS["paths"],
        odd: float = DEFAULTS["odd"],
        many: tuple[int, int] = DEFAULTS["many"],
        thing: Any = DEFAULTS["thing"],
    ) -> str:
        """Walk."""
        return f"{paths}{odd}{many}{thing}"

    json.dumps(walk.parameters, allow_nan=False)


# -- what a body is given


def test_what_is_missing_keeps_the_default_of_python() -> None:
    @tool
    def repeat(word: str, times: int = 3) -> str:
        """Repeat a word."""
        return word * times

    assert repeat.body(**repeat.arguments.parse('{"word": "ab"}')) == "ababab"
    assert repeat.body(**repeat.arguments.parse('{"word": "ab", "times": 1}')) == "ab"


def test_empty_arguments_mean_an_empty_object() -> None:
    """TS11, T46 in DESIGN §6."""
    assert echo.arguments.parse("") == {}


class Box(BaseModel):
    """A pydantic model as a parameter."""

    size: int


@dataclass
class Crate:
    """A dataclass as a parameter."""

    size: int


class Bag(TypedDict):
    """A typed dictionary as a parameter."""

    size: int


@tool
def pack_all(
    count: int = 0, share: float = 0.0, sizes: list[int] = [], box: Box | None = None,  # noqa: B006
    crate: Crate | None = None, bag: Bag | None = None, boxes: dict[str, Box] = {},  # noqa: B006
) -> str:  # fmt: skip
    """Pack."""
    return f"{count}{share}{sizes}{box}{crate}{bag}{boxes}"


NUMBERS = [
    ("count", "{}"), ("share", "{}"), ("sizes", "[{}]"), ("box", '{{"size": {}}}'), ("crate", '{{"size": {}}}'),
    ("bag", '{{"size": {}}}'), ("boxes", '{{"a": {{"size": {}}}}}'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shape"), NUMBERS, ids=[name for name, _ in NUMBERS])
@pytest.mark.parametrize("wrong", ["true", '"1"'], ids=["boolean", "text"])
def test_neither_a_boolean_nor_text_is_taken_for_a_number(name: str, shape: str, wrong: str) -> None:
    """T29, DESIGN §3.4, also inside nested values."""
    assert pack_all.arguments.parse(f'{{"{name}": {shape.format(1)}}}')

    assert violations(pack_all, f'{{"{name}": {shape.format(wrong)}}}')


def test_a_whole_number_is_taken_for_a_float_and_nothing_else_is_converted() -> None:
    assert pack_all.arguments.parse('{"share": 1}') == {"share": 1.0}
    assert violations(pack_all, '{"count": 1.0}')
    assert violations(look, '{"path": 5}')
    assert violations(look, '{"path": null}')


@pytest.mark.parametrize("name", ["bag", "crate"])
def test_an_unknown_key_inside_a_value_is_refused_without_naming_keys_of_another_place(name: str) -> None:
    (violation,) = violations(pack_all, f'{{"{name}": {{"size": 1, "sise": 2}}}}')

    assert f"{name}.sise" in violation
    assert "count" not in violation


def test_every_violation_is_named_in_order_and_the_error_says_them_all() -> None:
    """AC-T23, T32."""
    found = violations(look, '{"depth": "deep", "dept": 1}')

    assert [text.split()[0] for text in found] == ["path", "depth:", "dept"]
    assert found[0] == "path is missing"
    assert str(InvalidArguments(found)) == "invalid arguments: " + "; ".join(found)


# -- what is no JSON object

MALFORMED = {
    "truncated": '{"value": 1',
    "trailing comma": '{"value": 1,}',
    "single quotes": "{'value': 1}",
    "two documents": "{} {}",
    "byte order mark": "\ufeff{}",
    "blank": "  ",
    "comment": "{} // none",
    "raw newline in a string": '{"value": "a\nb"}',
    "list": "[]",
    "null": "null",
    "text": '"value"',
    "number": "1",
    "10,000 levels": '{"value": ' + "[" * 10_000 + "]" * 10_000 + "}",
    "10,000 levels, open": "[" * 10_000,
    "10,000 objects": '{"value":' * 10_000 + "1" + "}" * 10_000,
    "an integer of 5,000 digits": '{"value": ' + "9" * 5_000 + "}",
    "a lone surrogate": '{"value": "\ud800"}',
    "an escaped lone surrogate": '{"value": "\\ud800"}',
    "a lone surrogate alone": "\udcff",
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_malformed_arguments_are_a_named_violation_and_never_an_empty_object(text: str) -> None:
    """DESIGN §3.4, T46."""
    (violation,) = violations(echo, text)

    assert len(violation) > len("arguments")
    assert len(violation) < 300


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_a_number_that_json_does_not_have_is_refused(number: str) -> None:
    """T29: numbers are finite; a NaN would also make the `--json` record unreadable."""
    assert violations(pack_all, f'{{"share": {number}}}')
    assert violations(echo, f'{{"value": [{number}]}}')


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=150)
@given(json_values, st.booleans())
def test_what_json_says_is_what_the_body_gets(value: Any, ascii_only: bool) -> None:
    text = json.dumps({"value": value}, ensure_ascii=ascii_only)

    assert echo.arguments.parse(text) == {"value": value}


@settings(deadline=None, max_examples=150)
@given(st.text(st.characters(exclude_categories=[])) | json_values.map(lambda value: json.dumps({"value": value})[:-1]))
def test_any_text_is_arguments_or_invalid_arguments_and_nothing_else(text: str) -> None:
    try:
        parsed = echo.arguments.parse(text)
    except InvalidArguments as refused:
        assert refused.violations
    else:
        assert parsed == json.loads(text or "{}")


# -- refused at definition


@pytest.mark.parametrize("timeout", [0, -1, math.nan, math.inf, -math.inf])
def test_a_timeout_that_is_not_positive_and_finite_is_refused(timeout: float) -> None:
    """T9, AC-T07."""
    with pytest.raises(TypeError, match=r'^tool "nap" timeout must be a positive finite number$'):

        @tool(timeout=timeout)
        def nap() -> str:
            """Sleep."""
            return ""


@pytest.mark.parametrize("timeout", [0.5, 1])
def test_a_positive_finite_timeout_is_accepted(timeout: float) -> None:
    """AC-T07."""

    @tool(timeout=timeout)
    def nap() -> str:
        """Sleep."""
        return ""

    assert nap.timeout == timeout


def test_a_timeout_that_is_no_number_is_refused_in_the_same_words() -> None:
    """T9."""
    timeout: Any = "5"

    with pytest.raises(TypeError, match="timeout must be a positive finite number"):

        @tool(timeout=timeout)
        def nap() -> str:
            """Sleep."""
            return ""


def test_a_function_without_docstring_is_refused() -> None:
    with pytest.raises(TypeError, match='tool "silent": write a docstring'):

        @tool
        def silent() -> str:
            return ""


def test_a_parameter_without_annotation_is_refused_by_name() -> None:
    def vague(path: str, depth=1) -> str:  # type: ignore[no-untyped-def]
        """Be vague."""
        return f"{path}{depth}"

    with pytest.raises(TypeError, match='tool "vague": parameter `depth` has no type annotation'):
        tool(vague)


def test_parameters_that_cannot_be_named_are_refused() -> None:
    def many(*paths: str) -> str:
        """Take many."""
        return str(paths)

    def options(**paths: str) -> str:
        """Take options."""
        return str(paths)

    def first(path: str, /) -> str:
        """Take the first."""
        return path

    for function in (many, options, first):
        wrong = f'tool "{function.__name__}": parameter `paths?` must be usable by keyword'
        with pytest.raises(TypeError, match=wrong):
            tool(function)


@pytest.mark.parametrize("name", ["Read", "1st", "_x", "a-b", "a.b", "a b", "a\n", "é", "a" * 65])
def test_a_name_that_is_no_tool_name_is_refused(name: str) -> None:
    def fine() -> str:
        """Be fine."""
        return ""

    with pytest.raises(TypeError, match="a name is a lower-case letter"):
        tool(name=name)(fine)


@pytest.mark.parametrize("name", ["a", "a1_b", "a" * 64])
def test_a_tool_name_is_up_to_64_letters_digits_and_underscores(name: str) -> None:
    def fine() -> str:
        """Be fine."""
        return ""

    assert tool(name=name)(fine).name == name


@pytest.mark.parametrize("option", ["effect", "concurrency", "exposure"])
def test_an_option_that_is_none_of_its_words_is_refused(option: str) -> None:
    """Rule 6: an effect that nobody knows must not run as if it were a read."""
    misspelt: Any = {option: "raed"}

    with pytest.raises(TypeError, match=option):

        @tool(**misspelt)
        def fine() -> str:
            """Be fine."""
            return ""


def test_one_function_makes_independent_tools() -> None:
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    first, second = tool(effect="read")(double), tool(name="twice")(double)

    assert (first.name, first.effect, second.name, second.effect) == ("double", "read", "twice", "write")
    assert double(4) == first.body(number=4) == 8


def test_a_whole_number_that_becomes_another_one_as_a_float_is_shown_as_the_body_gets_it() -> None:
    """Issue 25, case 19: a guard saw 9999999999999999999 where the body got 1e19."""

    @tool
    def share(of: float, rest: list[float]) -> str:
        """Share.

        Args:
            of: What.
            rest: And what.
        """
        return ""

    text = '{"of": 9999999999999999999, "rest": [1, 9007199254740993]}'
    read = json.loads(text)

    taken = share.arguments.parse(text, read)

    assert read == taken == {"of": 1e19, "rest": [1, 9007199254740992.0]}


def test_a_null_for_what_may_be_left_out_is_nothing_to_a_guard_either() -> None:
    """Issue 25, case 9."""

    @tool
    def look(path: str = ".") -> str:
        """Look.

        Args:
            path: Where.
        """
        return path

    read = {"path": None}

    assert look.arguments.parse('{"path": null}', read) == read == {}
