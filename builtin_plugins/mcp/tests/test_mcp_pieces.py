"""The pieces by themselves: lines out of bytes, definitions out of lists, servers out of settings, results as text."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pegboard import Output, UsageError
from pegboard_mcp import Server
from pegboard_mcp.listing import Listing
from pegboard_mcp.results import output_of, rendered
from pegboard_mcp.settings import Settings
from pegboard_mcp.stdio import Frames
from pydantic import ValidationError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
SCHEMAS = st.builds(
    lambda more: {"type": "object", **more}, st.dictionaries(st.sampled_from(["properties", "x"]), JSON)
)


# -- lines


@given(st.lists(st.binary(max_size=20), max_size=6), st.data())
def test_however_bytes_are_cut_they_give_the_same_lines(lines: list[bytes], data: st.DataObject) -> None:
    whole = b"\n".join(lines)
    frames, found = Frames(), []
    while whole:
        size = data.draw(st.integers(1, len(whole)))
        found += frames.feed(whole[:size])
        whole = whole[size:]

    assert found == b"\n".join(lines).split(b"\n")[:-1]
    assert not frames.too_long


@pytest.mark.parametrize("pieces", [[b"x" * 11], [b"x" * 6, b"x" * 5], [b"x" * 11 + b"\n"], [b"x" * 9, b"xx\nok\n"]])
def test_a_line_above_the_cap_is_noticed_before_or_at_its_end(pieces: list[bytes]) -> None:
    frames = Frames(10)
    noticed = []
    for piece in pieces:
        frames.feed(piece)
        noticed.append(frames.too_long)

    assert any(noticed)


# -- definitions


@given(
    st.lists(
        JSON
        | st.fixed_dictionaries(
            {"name": JSON, "inputSchema": JSON | SCHEMAS},
            optional={"description": JSON, "title": JSON, "outputSchema": JSON, "annotations": JSON, "icons": JSON},
        ),
        max_size=6,
    ),
    JSON,
)
def test_whatever_a_server_lists_the_sdk_can_read_what_is_left_of_it(tools: list[Any], cursor: Any) -> None:
    from mcp.types import ListToolsResult

    listing = Listing("docs")
    page = listing.page({"tools": tools, "nextCursor": cursor, "_meta": {}})
    read = ListToolsResult.model_validate(page, by_name=False)

    assert [tool.name for tool in read.tools] == list(listing.kept)
    assert all(len(one.hash) == 64 for one in listing.kept.values())
    assert len(listing.kept) + len(listing.dropped) >= len(tools)


def test_what_a_server_does_not_describe_is_described_by_its_title_or_by_its_name() -> None:
    listing = Listing("docs")
    schema = {"type": "object"}
    listing.page(
        {"tools": [{"name": "a", "title": "Anna", "inputSchema": schema}, {"name": "b", "inputSchema": schema}]}
    )

    assert [one.description for one in listing.kept.values()] == [
        "Anna",
        "`b` of server `docs`, which does not describe it.",
    ]


def test_of_very_many_that_are_dropped_the_rest_is_counted() -> None:
    listing = Listing("docs")
    listing.page({"tools": [None] * 5_000})

    assert len(listing.dropped) == 200
    assert listing.dropped[-1].reason == "4,801 more were dropped"


@pytest.mark.parametrize("part", ["description", "inputSchema", "outputSchema", "annotations"])
def test_a_definition_is_another_one_when_any_part_of_it_is(part: str) -> None:
    whole = {"name": "a", "description": "x", "inputSchema": {"type": "object"}}
    changed = {"description": "y", "annotations": {"readOnlyHint": True}}
    changed |= {key: {"type": "object", "title": "z"} for key in ("inputSchema", "outputSchema")}
    hashes = []
    for raw in (whole, {**whole, part: changed[part]}):
        listing = Listing("docs")
        listing.page({"tools": [raw]})
        hashes.append(listing.kept["a"].hash)

    assert hashes[0] != hashes[1]


# -- servers


@pytest.mark.parametrize("name", ["", "a__b", "_a", "a_", "a b", "a.b", "é", "a" * 41, "a-_b"])
def test_a_name_that_could_be_taken_for_anothers_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is no name of a server"):
        Server.stdio(name, "program")
    with pytest.raises(ValidationError):
        Settings.model_validate({"servers": {name: {"command": "program"}}})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "either `command` or `url` is needed"),
        ({"command": "x", "url": "http://x"}, "either `command` or `url` is needed"),
        ({"url": "ftp://x"}, "`url` begins with http"),
        ({"command": "x", "call_timeout": 0}, "greater than 0"),
        ({"url": "http://x", "transport": "carrier pigeon"}, "'http' or 'sse'"),
    ],
)
def test_a_server_that_cannot_be_reached_is_a_mistake_in_the_configuration(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Settings.model_validate({"servers": {"a": settings}})


def test_what_is_told_of_a_server_has_no_value_of_the_environment_a_header_or_a_query_in_it() -> None:
    started = Server.stdio("a", "program", "two words", env={"KEY": "secret"}, cwd="~/work")
    reached = Server.http("a", "https://example.com/mcp?key=secret", headers={"Authorization": "secret"})

    assert started.told() == "program 'two words' in ~/work env KEY"
    assert reached.told() == "https://example.com/mcp header Authorization"


def test_the_hash_of_a_server_is_that_of_all_that_decides_what_is_started() -> None:
    plain = Server.stdio("a", "program", "x", env={"K": "v"}, cwd="~")
    others = [
        Server.stdio("a", "other", "x", env={"K": "v"}, cwd="~"),
        Server.stdio("a", "program", "y", env={"K": "v"}, cwd="~"),
        Server.stdio("a", "program", "x", env={"K": "w"}, cwd="~"),
        Server.stdio("a", "program", "x", env={"K": "v"}),
        Server.http("a", "https://x"),
        Server.sse("a", "https://x"),
        Server.http("a", "https://x", headers={"K": "v"}),
    ]

    assert len({one.hash for one in (plain, *others)}) == 8
    assert Server.stdio("b", "program", "x", env={"K": "v"}, cwd="~").hash == plain.hash


# -- results


def value(*content: dict[str, Any], structured: Any = None) -> dict[str, Any]:
    """Return a result as data."""
    return {"content": list(content), "structured": structured, "left_out": 0}


def check(output: Output, structured: Any) -> Any:
    """Hold structured content against a contract."""
    return output.check(value(structured=structured))["structured"]


def test_structured_content_is_held_against_the_servers_own_schema() -> None:
    output, note = output_of({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})

    assert (check(output, {"n": 1}), note) == ({"n": 1}, "")
    for wrong, said in (
        ({"n": "x"}, "n: "),
        ({}, "n is missing"),
        (None, "no structured content"),
        ({"n": float("nan")}, "JSON compliant"),
    ):
        with pytest.raises(ValueError, match=said):
            check(output, wrong)


def test_structured_content_is_read_as_json_where_there_is_no_text() -> None:
    text, image = {"type": "text", "text": "one"}, {"type": "image", "data": "AA==", "mimeType": "image/png"}

    assert rendered(value(text, structured={"n": 1})) == "one"
    assert json.loads(rendered(value(structured={"n": 1}))) == {"n": 1}
    assert rendered(value(image, structured={"n": 1})).endswith('{\n "n": 1\n}')


def test_names_from_a_server_are_escaped_where_they_stand_in_a_line_of_ours() -> None:
    link = {"type": "resource_link", "uri": "x:\x1b[2J\n", "name": "\u202e", "mimeType": "a\x07"}

    assert rendered(value(link)) == "[link to a resource: x:\\x1b[2J, \\u202e, a\\x07]"
