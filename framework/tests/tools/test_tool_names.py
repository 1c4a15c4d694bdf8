"""A tool that is not there: what was meant is told, what was sent is not sent back if it can't be shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pegboard.base.text import one_line
from pegboard.tools.tool_names import near_tool, unknown_tool

KNOWN = ("ask_user", "edit", "glob", "grep", "read", "shell", "write")


@pytest.mark.parametrize("name", ["functions.read", "default_api:read", "tools/read", "a.b.read", "Read", "read_file"])
def test_a_prefix_and_another_word_for_a_tool_are_seen_through(name: str) -> None:
    assert unknown_tool(name, KNOWN) == f'unknown tool "{name}"; did you mean `read`?'


def test_a_shell_by_any_name_is_the_tool_that_is_there() -> None:
    assert near_tool("bash", KNOWN) == near_tool("functions.bash", KNOWN) == "; did you mean `shell`?"
    assert near_tool("bash", ["sh"]) == "; did you mean `sh`?"
    assert near_tool("bash", ["read"]) == ""


def test_the_nearest_name_is_told_where_there_is_no_better_one() -> None:
    assert near_tool("functions.grpe", KNOWN) == "; did you mean `grep`?"
    assert near_tool("flux_capacitor", KNOWN) == ""


@pytest.mark.parametrize("name", ["x" * 5_000, "\x1b[2Jread", "re\nad", "re\u202ead", "", " read"])
def test_what_cannot_be_shown_is_not_sent_back(name: str) -> None:
    told = unknown_tool(name, KNOWN)

    assert told.startswith("unknown tool")
    assert not name or name not in told
    assert len(told) < 120


@given(st.text(st.characters(exclude_categories=[])))
def test_whatever_is_called_the_answer_is_one_short_line(name: str) -> None:
    told = unknown_tool(name, KNOWN)

    assert one_line(told) == told
