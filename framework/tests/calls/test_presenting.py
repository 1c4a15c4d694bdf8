"""What a person is shown of a call before it runs, and what guards are asked about paths that a body finds."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pegboard import Ask, Deny, GuardedCall, Host, Interaction, Presentation, Tool, ToolContext, hookimpl, tool
from pegboard.calls.presenting import MAX_DIFF
from pegboard.cli.sessions import show_question
from pegboard.events import Asked
from pegboard.testing import ScriptedModel, call, recorded


class Asking:
    """Wants a person's yes to everything."""

    @hookimpl
    def guard_tool_call(self, call: GuardedCall) -> Ask:
        return Ask("is it wanted?", person=True)


def asked_about(host: Host, folder: Path, present: Callable[..., Any]) -> Asked:
    """Let a model call a tool that is presented so, and return the question that comes up."""

    @tool(present=present)
    def change(path: str) -> str:
        """Change a file."""
        return "changed"

    async def main() -> Asked:
        async with host:
            agent = await host.create_agent(directory=folder, model=ScriptedModel(call("change", path="a"), "done"))
            agent.tools.register(change)
            agent.register(Asking())
            run = agent.followup("go", on_ask="wait")
            await host.next_interaction()
            run.cancel("enough seen")
            await run.wait()
            (asked,) = [event for event in recorded(agent, all_of_it=True) if isinstance(event, Asked)]
            return asked

    return asyncio.run(main())


def test_a_question_carries_what_the_call_would_do(host: Host, tmp_path: Path) -> None:
    def present(directory: Path, path: str) -> Presentation:
        return Presentation("edit", f"change {path} in {directory.name}", (path,), "-old\n+new")

    asked = asked_about(host, tmp_path, present)

    told = {"kind": "edit", "title": f"change a in {tmp_path.name}", "locations": ["a"], "diff": "-old\n+new"}
    assert asked.as_json()["present"] == told


def test_a_tool_that_can_not_say_what_it_would_do_is_asked_about_all_the_same(host: Host, tmp_path: Path) -> None:
    def present(directory: Path, path: str) -> Presentation:
        raise OSError("the disk is gone")

    title = asked_about(host, tmp_path, present).present["title"]

    assert title == "it can't be shown what the call would do: OSError: the disk is gone"


def test_a_giant_diff_is_capped_in_the_question(host: Host, tmp_path: Path) -> None:
    shown = asked_about(host, tmp_path, lambda directory, path: Presentation("edit", "t", (), "+" * 1_000_000)).present

    assert len(shown["diff"]) < MAX_DIFF + 50
    assert shown["diff"].endswith("(980,000 more characters)")


def test_a_person_sees_the_diff_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    present = {"kind": "edit", "title": "change a", "locations": [], "diff": "@@ -1 +1 @@\n-  old\n+\x1b[31mnew"}
    asked = Interaction(*("s", "s", 1, 1, "permission", "c", "edit", "p", "why", True, {}, (), "h"), present=present)  # type: ignore[call-overload,unused-ignore]

    show_question(asked)

    shown = capsys.readouterr().out
    assert "change a" in shown and "    -  old\n" in shown and "\x1b[31m" not in shown


def finding(paths: list[str]) -> Tool:
    """A tool that finds these paths while it runs, and asks for them."""

    @tool(effect="read")
    async def find(ctx: ToolContext) -> str:
        """Find things."""
        return "\n".join(f"{path} {why}" for path, why in (await ctx.may_touch(paths)).items())

    return find


def test_a_body_asks_for_what_it_finds_and_links_are_seen_where_they_lead(host: Host, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/key").touch()
    (tmp_path / "link").symlink_to("secrets/key")
    (tmp_path / "way").symlink_to("secrets")

    class Guard:
        @hookimpl
        def guard_tool_call(self, call: GuardedCall) -> Deny | None:
            within = any(touch.value.startswith(f"{tmp_path}/secrets/") for touch in call.touches)
            return Deny("not for you") if within else None

    async def main() -> str:
        async with host:
            agent = await host.create_agent(directory=tmp_path)
            agent.register(Guard())
            agent.tools.register(finding(["a", "secrets/key", "link", "way/key", "way/../a", "secrets/.."]))
            return (await agent.call_tool("find")).content

    refused = [line.split()[0] for line in asyncio.run(main()).splitlines()]
    assert refused == ["secrets/key", "link", "way/key"]
