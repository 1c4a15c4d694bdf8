"""The pack in a run (B26): what the model is told, when the run is stopped, and that a pause keeps the count."""

import itertools
import json
from collections.abc import Callable

import pytest
from pegboard import Agent, Answer, Finish, NeedsApproval, RunEnd, Tool, ToolContext, ToolResult, tool
from pegboard.testing import ScriptedModel, call
from pegboard_progress.pack import Progress
from pegboard_progress.repeats import CORRECTION

pytestmark = pytest.mark.pegboard(packs={"progress": Progress})


def reading(name: str, body: Callable[[], str]) -> Tool:
    """Make a tool that reads, and answers as `body` does."""

    @tool(name=name, effect="read")
    def made() -> str:
        """Look."""
        return body()

    return made


async def ended(agent: Agent, model: ScriptedModel, *turns: object) -> RunEnd:
    """Let a run go to its end, its model answering with these turns."""
    model.will(*turns)  # type: ignore[arg-type]
    return await agent.followup("Look.").wait()


def contents(agent: Agent) -> list[str]:
    """Return what the model read, in order."""
    return [message.content for message in agent.session.messages if isinstance(message, ToolResult)]


async def test_the_second_equal_batch_is_told_with_its_last_result_and_after_the_fourth_the_run_ends(
    agent: Agent, scripted_model: ScriptedModel
) -> None:
    for name in "xy":
        agent.tools.register(reading(name, lambda name=name: name))  # type: ignore[misc]
    batches = [(call("x"), call("y"), Finish()) for _ in range(5)]

    end = await ended(agent, scripted_model, *batches)

    assert contents(agent) == [*"xyx", f"y\n\n{CORRECTION}", *"xyxy"]
    assert (end.reason, end.calls, len(scripted_model.requests)) == ("limit", 8, 4)
    assert "repeats the same calls" in end.text


async def test_results_that_differ_in_their_time_only_are_the_same(agent: Agent, scripted_model: ScriptedModel) -> None:
    clock = itertools.count()
    agent.tools.register(reading("rows", lambda: json.dumps({"rows": 3, "timestamp": next(clock)})))

    assert (await ended(agent, scripted_model, *(call("rows") for _ in range(5)))).reason == "limit"


async def test_an_id_of_the_matter_itself_that_changes_is_progress(agent: Agent, scripted_model: ScriptedModel) -> None:
    orders = itertools.count()
    agent.tools.register(reading("order", lambda: json.dumps({"orderId": next(orders)})))

    end = await ended(agent, scripted_model, *(call("order") for _ in range(5)), "done")

    assert end.reason == "completed"
    assert not any(CORRECTION in content for content in contents(agent))


async def test_results_that_only_acknowledge_never_end_the_run(agent: Agent, scripted_model: ScriptedModel) -> None:
    agent.tools.register(reading("press", lambda: "ok"))

    end = await ended(agent, scripted_model, *(call("press") for _ in range(6)), "done")

    assert (end.reason, contents(agent)) == ("completed", ["ok", f"ok\n\n{CORRECTION}", *["ok"] * 4])


async def test_another_batch_in_between_begins_anew(agent: Agent, scripted_model: ScriptedModel) -> None:
    for name in ("say", "look"):
        agent.tools.register(reading(name, lambda name=name: name))  # type: ignore[misc]
    again = [call("say") for _ in range(6)]

    end = await ended(agent, scripted_model, *again[:3], call("look"), *again[3:], "done")

    told = ["say", f"say\n\n{CORRECTION}", "say"]
    assert (end.reason, contents(agent)) == ("completed", [*told, "look", *told])


async def test_the_same_denials_four_times_end_the_run(agent: Agent, scripted_model: ScriptedModel) -> None:
    @tool
    def write() -> str:
        """Write."""
        return "written"

    agent.tools.register(write)

    end = await ended(agent, scripted_model, *(call("write") for _ in range(5)))

    assert (end.reason, end.denied) == ("limit", 4)


async def test_a_new_input_begins_a_count_of_its_own(agent: Agent, scripted_model: ScriptedModel) -> None:
    agent.tools.register(reading("look", lambda: "seen"))

    for _ in range(3):
        await ended(agent, scripted_model, call("look"), call("look"), "done")

    assert contents(agent) == ["seen", f"seen\n\n{CORRECTION}"] * 3


async def test_the_count_goes_on_across_pauses(agent: Agent, scripted_model: ScriptedModel) -> None:
    """B22: each call waits for a person's yes, in a run of its own."""

    @tool(effect="read")
    async def ask_first(ctx: ToolContext) -> str:
        """Look, with a person's yes."""
        if not ctx.approved:
            raise NeedsApproval("may I?")
        return "seen"

    agent.tools.register(ask_first)
    progress: Progress = agent.host.pack_object("progress")
    scripted_model.will(*(call("ask_first") for _ in range(5)))

    run = agent.followup("Look.", on_ask="pause")
    while (end := await run.wait()).reason == "paused":
        progress.forget(agent)  # as after a restart: what is known is what the record says
        (asked,) = await agent.host.interactions(agent.id)
        resumed = await agent.host.answer(agent.id, asked.id, Answer.yes())
        assert resumed is not None
        run = resumed

    assert (end.reason, len(scripted_model.requests)) == ("limit", 4)
    assert contents(agent) == ["seen", f"seen\n\n{CORRECTION}", "seen", "seen"]
