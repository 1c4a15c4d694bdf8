"""`ask_user` and `read_output`: a person answers, and what was too long is paged, in the session it belongs to."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pegboard import Answer, Host, Session, ToolResult
from pegboard.testing import ScriptedModel, call

Open = Callable[[], Host]


def one_question(open_: Open, project: Path, answer: Answer, **asked: Any) -> tuple[ToolResult, Any]:
    """Let a model ask, pause, and answer; returns the result and the interaction."""

    async def main() -> tuple[ToolResult, Any]:
        async with open_() as host:
            model = ScriptedModel(call("ask_user", **asked), "thanks")
            agent = await host.create_agent(session=Session.new(project), model=model)
            run = host.submit(agent, "go", on_ask="pause")
            assert (await run.wait()).reason == "paused"
            (question,) = await host.interactions(agent.id)
            await host.answer(question.session, question.id, answer)
            assert (await run.finish()).reason == "completed"
            results = [message for message in agent.session.messages if isinstance(message, ToolResult)]
            return results[0], question

    return asyncio.run(main())


def test_what_the_person_says_is_what_the_model_reads(workspace_host: Open, project: Path) -> None:
    """B7, B20: the run pauses, and a new one goes on with the answer."""
    result, question = one_question(
        workspace_host, project, Answer.say("the red one"), question="Which?", options=["red", "blue"]
    )

    assert (question.kind, question.reason, question.options) == ("question", "Which?", ("red", "blue"))
    assert (result.status, result.content) == ("ok", "The user answers: the red one")


def test_a_person_may_refuse_to_answer(workspace_host: Open, project: Path) -> None:
    result, _ = one_question(workspace_host, project, Answer.no("ask somebody else"), question="Which?")

    assert (result.status, result.code) == ("error", "UNANSWERED")
    assert "ask somebody else" in result.content


def test_where_nobody_can_be_asked_the_model_is_told_at_once(call: Any) -> None:
    result = call("ask_user", question="Which?")

    assert (result.status, result.code) == ("error", "UNANSWERED")
    assert result.content == "Error: nobody can be asked here; go on without, and say what you assumed"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"question": " "}, "the question is empty"),
        ({"question": "x" * 2001}, "2,001 characters"),
        ({"question": "Which?", "options": ["a"] * 2}, "two options are the same"),
        ({"question": "Which?", "options": [str(number) for number in range(11)]}, "11 options"),
        ({"question": "Which?", "options": ["a", ""]}, "an option is empty"),
        ({"question": "Which?", "options": ["x" * 201]}, "longer than 200"),
    ],
)
def test_a_question_that_is_none_is_an_error_that_the_model_can_mend(call: Any, asked: Any, told: str) -> None:
    """B7: and nobody is asked."""
    result = call("ask_user", **asked)

    assert (result.status, result.code) == ("error", "TOOL_FAILED")
    assert told in result.content


def test_a_long_output_is_paged_without_a_gap_or_a_second_call(workspace_host: Open, project: Path) -> None:
    """B17, B18: the whole is there, in pages that are not cut themselves."""
    (project / "many.txt").write_text("".join(f"{number}\n" for number in range(40_000)), "utf-8")

    async def main() -> list[str]:
        async with workspace_host() as host:
            agent = await host.create_agent(session=Session.new(project))
            shown = await agent.call_tool("shell", {"command": "cat many.txt; echo x >> runs"}, allow_writes=True)
            (name,) = re.findall(r"kept as output ([0-9a-f]{12})\]", shown.content)
            pages, offset = [], 0
            while True:
                page = await agent.call_tool("read_output", {"output": name, "offset": offset})
                text, _, foot = page.content.rpartition("\n[characters ")
                pages.append(text)
                found = re.search(r"go on at offset (\d+)", foot)
                if found is None:
                    return pages
                offset = int(found[1])

    pages = asyncio.run(main())

    whole = (project / "many.txt").read_text("utf-8")
    assert len(pages) > 2
    assert "".join(pages).removeprefix("exit 0\n").rstrip("\n") == whole.rstrip("\n")
    assert (project / "runs").read_text("utf-8") == "x\n"


@pytest.mark.parametrize("asked", [{"output": "0" * 12}, {"output": ""}, {"output": "../evil"}])
def test_an_output_that_the_session_does_not_have_is_refused(call: Any, asked: Any) -> None:
    """Rule 2."""
    result = call("read_output", **asked)

    assert (result.status, result.code) == ("error", "TOOL_FAILED")
    assert "this session has no output" in result.content


@pytest.mark.parametrize(
    ("asked", "told"), [({"offset": -1}, "outside"), ({"offset": 10**9}, "outside"), ({"limit": 0}, "at least 1")]
)
def test_a_place_outside_an_output_is_refused_and_another_sessions_output_is_not_there(
    workspace_host: Open, project: Path, asked: Any, told: str
) -> None:
    async def main() -> tuple[ToolResult, ToolResult]:
        async with workspace_host() as host:
            agent = await host.create_agent(session=Session.new(project))
            other = await host.create_agent(session=Session.new(project))
            shown = await agent.call_tool("shell", {"command": "seq 20000"}, allow_writes=True)
            (name,) = re.findall(r"kept as output ([0-9a-f]{12})\]", shown.content)
            return (
                await agent.call_tool("read_output", {"output": name, **asked}),
                await other.call_tool("read_output", {"output": name}),
            )

    outside, elsewhere = asyncio.run(main())

    assert told in outside.content
    assert "this session has no output" in elsewhere.content
