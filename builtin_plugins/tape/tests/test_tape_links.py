"""Sessions of subagents: searched and read through links, never beyond what was there when they ended."""

import json
from typing import Any

import pytest
from pegboard import Agent, Definition, Entry, Host, tool
from pegboard.events import Note, Said, SessionStart
from pegboard.testing import ScriptedModel
from pegboard_tape.jsonl import export_lines, import_lines
from pegboard_tape.pack import Tape
from pegboard_tape.store import TapeStore
from pegboard_tape.upkeep import forget

TAPE = {"tape": Tape}


@pytest.fixture
def kept(host: Host) -> TapeStore:
    """The host's own store."""
    pack: Tape = host.pack_object("tape")
    return pack.store(host)


async def delegate(parent: Agent, *answers: str) -> list[Agent]:
    """Let the parent run a tool that lets one child after the other answer; returns the children."""
    children: list[Agent] = []

    async def work(ctx: Any) -> str:
        """Delegate."""
        for answer in answers:
            child = await parent.host.create_agent(Definition(), parent=parent, model=ScriptedModel(answer))
            await child.followup(f"say {answer}").wait()
            children.append(child)
        return "done"

    undo = parent.tools.register(tool(name="delegate", effect="read")(work))
    await parent.call_tool("delegate")
    undo()
    return children


async def told(agent: Agent, tool: str, **arguments: Any) -> Any:
    result = await agent.call_tool(tool, arguments)
    return json.loads(result.content) if result.status == "ok" else result.content


async def links(agent: Agent) -> list[dict[str, Any]]:
    entries = await agent.host.entries(agent.id)
    found = [entry.event for entry in entries if isinstance(entry.event, Note)]
    return [note.as_json()["data"] for note in found if note.name == "subagent/tape_linked"]


def sources(hits: Any) -> list[str]:
    return sorted({hit["sessionId"] for hit in hits})


@pytest.mark.pegboard(packs=TAPE)
async def test_a_child_is_linked_when_its_run_ends_and_nothing_of_it_is_copied(agent: Agent) -> None:
    """TP26."""
    (child,) = await delegate(agent, "a needle")
    (link,) = await links(agent)

    assert (link["childSessionId"], link["outcome"], link["resultSummary"]) == (child.id, "completed", "a needle")
    assert link["childHeadEntryId"] == len(await agent.host.entries(child.id))
    assert link["taskTitle"] == "say a needle"
    assert await told(agent, "tape_search", query="needle") == []


@pytest.mark.pegboard(packs=TAPE)
async def test_links_are_searched_together_under_one_limit(agent: Agent) -> None:
    """TP28: newest first, whichever session it is of."""
    first, second = await delegate(agent, "needle one", "needle two")

    await told(agent, "tape_handoff", state={"summary": "a needle"})
    both = await told(agent, "tape_search", query="needle", scope="linked_subagents")
    assert sources(both) == sorted([first.id, second.id])
    newest = await told(agent, "tape_search", query="needle", scope="linked_subagents", limit=2)
    assert [hit["sessionId"] for hit in newest] == [second.id, second.id]
    with_own = await told(agent, "tape_search", query="needle", scope="current_and_linked", kinds=["anchor", "message"])
    assert sources(with_own) == sorted([agent.id, first.id, second.id])
    around = await told(agent, "tape_context", entryIds=[both[-1]["entryId"]], sourceSessionId=both[-1]["sessionId"])
    assert around["sourceSessionId"] == first.id
    assert "needle one" in [entry["evidence"]["text"] for entry in around["entries"]]


@pytest.mark.pegboard(packs=TAPE)
async def test_what_a_child_said_later_is_not_seen(agent: Agent, kept: TapeStore) -> None:
    """TP27: neither found nor read, until its next run has ended."""
    (child,) = await delegate(agent, "needle")
    head = len(await kept.read(child.id))
    await kept.append(child.id, [Entry(head + 1, Said(child.id, 1, 1.0, 1, "a late needle"))], expect=head)

    hits = await told(agent, "tape_search", query="needle", scope="linked_subagents")
    assert max(hit["entryId"] for hit in hits) <= head
    late = await told(agent, "tape_context", entryIds=[head + 1, head], sourceSessionId=child.id)
    assert head + 1 not in late["matchedEntryIds"]


@pytest.mark.pegboard(packs=TAPE)
async def test_a_child_that_is_gone_or_another_one_is_unavailable(agent: Agent, kept: TapeStore) -> None:
    """TP30: the search fails as a whole; one of the same id and the same entries is not the one that was linked."""
    (child,) = await delegate(agent, "needle")
    lines = await export_lines(kept, child.id)
    await kept.write(lambda connection: forget(connection, child.id))

    for _ in range(2):  # gone, then there again
        for answer in (
            await told(agent, "tape_search", query="needle", scope="current_and_linked"),
            await told(agent, "tape_context", entryIds=[1], sourceSessionId=child.id),
        ):
            assert "linked_tape_unavailable" in answer
        await import_lines(kept, lines)


@pytest.mark.pegboard(packs=TAPE)
async def test_a_session_of_somebody_else_is_not_read_even_with_a_link(
    agent: Agent, host: Host, kept: TapeStore
) -> None:
    """TP30, TP32: the session's own first entry says who began it; a note that claims it changes nothing."""
    stranger = "0" * 8
    start = SessionStart(stranger, 0, 1.0, "/work", "main", "f" * 8, 1)
    await kept.append(stranger, [Entry(1, start), Entry(2, Said(stranger, 1, 1.0, 1, "needle"))], expect=0)

    assert "linked_tape_unauthorized" in await told(agent, "tape_context", entryIds=[2], sourceSessionId=stranger)
    claim = {"childSessionId": stranger, "childHeadEntryId": 2, "childTapeIdentity": "x"}
    last = len(await kept.read(agent.id))
    await host.dispose(agent)
    await kept.append(
        agent.id, [Entry(last + 1, Note(agent.id, 1, 1.0, "evil", "subagent/tape_linked", claim))], expect=last
    )
    again = await host.create_agent(session=await host.open_session(agent.id), model=ScriptedModel())
    assert "linked_tape_unauthorized" in await told(again, "tape_context", entryIds=[2], sourceSessionId=stranger)
    assert await told(again, "tape_search", query="needle", scope="linked_subagents") == []
