"""Nothing that somebody typed is overwritten unseen: marks of what was read, approvals bound to bytes, no lost edit."""

# ruff: noqa: ASYNC240 - the files are local, and small

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from pegboard import Agent, Answer, Deny, Finish, GuardedCall, Interaction, ToolResult, hooks, implements
from pegboard.testing import ScriptedModel, call

pytestmark = pytest.mark.pegboard(installed=["workspace"])


@pytest.fixture
def notes(workspace_dir: Path) -> Path:
    """A file that is there before anybody looked at it."""
    made = workspace_dir / "notes.txt"
    made.write_text("first\n")
    return made


async def told(agent: Agent, model: ScriptedModel, *calls: Any) -> list[ToolResult]:
    """Let a model make one call after another, with a yes to every write; returns the results of this run."""
    before = len(agent.session.messages)
    model.will(*calls, "Done.")
    end = await agent.followup("Go on.", allow_writes=True).wait()
    assert end.reason == "completed", end.text
    return [message for message in agent.session.messages[before:] if isinstance(message, ToolResult)]


def whole(content: str) -> Any:
    """The call that writes the whole file."""
    return call("write", path="notes.txt", content=content)


# -- what the session has seen


async def test_a_file_that_was_not_read_is_not_replaced_and_the_refusal_says_how_to_go_on(
    agent: Agent, scripted_model: ScriptedModel, notes: Path
) -> None:
    """Issue 25, case 4."""
    refused, _, written = await told(
        agent, scripted_model, whole("mine\n"), call("read", path="notes.txt"), whole("mine\n")
    )

    assert "read it first" in refused.content
    assert (written.status, notes.read_text()) == ("ok", "mine\n")


@pytest.mark.parametrize("change", [whole("mine\n"), call("edit", path="notes.txt", edits=[{"old": "f", "new": "F"}])])
async def test_what_a_person_typed_meanwhile_is_not_overwritten(
    agent: Agent, scripted_model: ScriptedModel, notes: Path, change: Any
) -> None:
    await told(agent, scripted_model, call("read", path="notes.txt"))
    notes.write_text("first, and what a person typed\n")

    (refused,) = await told(agent, scripted_model, change)

    assert "somebody changed it; read it again" in refused.content
    assert notes.read_text() == "first, and what a person typed\n"


async def test_what_the_session_wrote_itself_it_may_change_again(
    agent: Agent, scripted_model: ScriptedModel, workspace_dir: Path
) -> None:
    edit = call("edit", path="notes.txt", edits=[{"old": "one", "new": "two"}])

    results = await told(agent, scripted_model, whole("one\n"), edit, whole("three\n"))

    assert [result.status for result in results] == ["ok"] * 3
    assert (workspace_dir / "notes.txt").read_text() == "three\n"


async def test_marks_are_read_from_the_record_by_whoever_goes_on_with_the_session(
    agent: Agent, scripted_model: ScriptedModel, notes: Path
) -> None:
    await told(agent, scripted_model, call("read", path="notes.txt"))
    host, identity = agent.host, agent.id
    await host.dispose(agent)
    again = await host.create_agent(session=await host.open_session(identity), model=scripted_model)

    (written,) = await told(again, scripted_model, whole("mine\n"))

    assert (written.status, notes.read_text()) == ("ok", "mine\n")


# -- what a person said yes to


async def asked(agent: Agent, model: ScriptedModel) -> Interaction:
    """Let a model read the file and then want to write it; returns what a person is asked."""
    model.will(call("read", path="notes.txt"), whole("mine\n"), "Done.")
    assert (await agent.followup("Go on.", on_ask="pause").wait()).reason == "paused"
    (interaction,) = await agent.host.interactions(agent.id)
    return interaction


async def answered(agent: Agent, interaction: Interaction) -> str | None:
    """Say yes and let the run go on; returns the code of the last result."""
    run = await agent.host.answer(agent.id, interaction.id, Answer.yes())
    assert run is not None
    assert (await run.wait()).reason == "completed"
    return [message.code for message in agent.session.messages if isinstance(message, ToolResult)][-1]


async def test_the_person_who_is_asked_sees_the_diff(agent: Agent, scripted_model: ScriptedModel, notes: Path) -> None:
    interaction = await asked(agent, scripted_model)

    assert interaction.present["title"] == "change notes.txt (+1 -1)"
    assert interaction.present["diff"].split("\n")[1:] == ["-first", "+mine"]
    assert await answered(agent, interaction) is None
    assert notes.read_text() == "mine\n"


async def test_a_yes_is_bound_to_the_bytes_that_stood_there(
    agent: Agent, scripted_model: ScriptedModel, notes: Path
) -> None:
    """Issue 25, case 4: approved a while ago."""
    interaction = await asked(agent, scripted_model)
    notes.write_text("typed meanwhile\n")

    assert await answered(agent, interaction) == "STALE_APPROVAL"
    assert notes.read_text() == "typed meanwhile\n"


async def test_a_yes_is_bound_to_the_directory_itself(
    agent: Agent, scripted_model: ScriptedModel, notes: Path, workspace_dir: Path
) -> None:
    """Issue 25, case 18: a folder swapped for another of that name."""
    interaction = await asked(agent, scripted_model)
    workspace_dir.rename(workspace_dir.with_name("moved"))
    workspace_dir.mkdir()
    notes.write_text("first\n")

    assert await answered(agent, interaction) == "STALE_APPROVAL"
    assert notes.read_text() == "first\n"


# -- two at once


class Secrets:
    """Says no to whatever is in the folder `secrets`."""

    @implements(hooks.guard_tool_call)
    def guard(self, call: GuardedCall) -> Deny | None:
        """Look at where the paths really are."""
        return Deny("secret") if any("/secrets" in touch.value for touch in call.touches) else None


async def test_a_link_that_is_swapped_all_the_time_never_leads_past_a_guard(agent: Agent, workspace_dir: Path) -> None:
    """Issue 25, case 18: 129 of 2,500 reads came through."""
    for name in ("open", "secrets"):
        (workspace_dir / name).mkdir()
        (workspace_dir / name / "key.txt").write_text(f"from {name}\n")
    agent.register(Secrets())
    ended = threading.Event()

    def swap() -> None:
        while not ended.is_set():
            for target in ("open", "secrets"):
                (workspace_dir / "next").symlink_to(target)
                (workspace_dir / "next").replace(workspace_dir / "link")

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        results = [await agent.call_tool("read", {"path": "link/key.txt"}) for _ in range(300)]
        writes = [
            await agent.call_tool("write", {"path": f"link/new{n}", "content": "x"}, allow_writes=True)
            for n in range(150)
        ]
    finally:
        ended.set()
        swapping.join()

    assert any(result.status == "ok" for result in results)
    assert not [result for result in results if "from secrets" in result.content]
    assert any(result.status == "ok" for result in writes)
    assert sorted(path.name for path in (workspace_dir / "secrets").iterdir()) == ["key.txt"]


async def test_of_edits_made_at_once_none_that_was_acknowledged_is_lost(agent: Agent, workspace_dir: Path) -> None:
    """Issue 25, case 22: 19 of 800 were."""
    shared = workspace_dir / "shared.txt"
    shared.write_text("end\n")
    agents = [agent, *[await agent.host.create_agent(directory=workspace_dir) for _ in range(3)]]

    async def edit(number: int, mine: Agent) -> list[str]:
        done = []
        for turn in range(25):
            line = f"{number}-{turn}"
            edits = [{"old": "end\n", "new": f"{line}\nend\n"}]
            result = await mine.call_tool("edit", json.dumps({"path": "shared.txt", "edits": edits}), allow_writes=True)
            done += [line] * (result.status == "ok")
        return done

    acknowledged = await asyncio.gather(*(edit(number, mine) for number, mine in enumerate(agents)))

    lines = shared.read_text().split("\n")
    assert sorted(line for done in acknowledged for line in done) == sorted(lines[:-2])
    assert all(acknowledged)


async def test_a_batch_that_writes_and_edits_keeps_its_order(
    agent: Agent, scripted_model: ScriptedModel, workspace_dir: Path
) -> None:
    batch = (whole("one\n"), call("edit", path="notes.txt", edits=[{"old": "one", "new": "two"}]), Finish())

    results = await told(agent, scripted_model, batch)

    assert [result.status for result in results] == ["ok", "ok"]
    assert (workspace_dir / "notes.txt").read_text() == "two\n"
