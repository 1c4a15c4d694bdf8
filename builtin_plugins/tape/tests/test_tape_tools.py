"""The tools as models and the runtime meet them: who is offered which, their limits, their errors, their budgets."""

import json
from pathlib import Path
from typing import Any

import pytest
from pegboard import Agent, Host, SessionStore, ToolResult, hooks, implements
from pegboard.record.stores import MemoryStore
from pegboard.testing import ScriptedModel, call
from pegboard_tape.pack import Tape
from pegboard_tape.windows import cut

TAPE = {"tape": Tape}


class Elsewhere:
    """A pack that keeps the sessions itself."""

    @implements(hooks.session_store)
    def session_store(self, host: Host) -> SessionStore:
        return MemoryStore()


async def told(agent: Agent, tool: str, **arguments: Any) -> Any:
    """Call a tool; returns its value, or its error."""
    result = await agent.call_tool(tool, arguments)
    return json.loads(result.content) if result.status == "ok" else result.content


async def talk(agent: Agent, model: ScriptedModel, *texts: str) -> None:
    for text in texts:
        model.will(f"Answer to {text}")
        await agent.followup(text).wait()


@pytest.mark.pegboard(packs=TAPE)
async def test_models_are_offered_the_pair_and_nothing_else(
    host: Host, agent: Agent, scripted_model: ScriptedModel
) -> None:
    """TP31, TP33: a diagnostic or runtime-only tool is unknown to a model, and does nothing."""
    scripted_model.will(call("tape_handoff", state={"summary": "x"}), call("tape_info"), "Done.")
    await agent.followup("go").wait()

    assert [tool.name for tool in scripted_model.requests[0].tools] == ["tape_context", "tape_search"]
    results = [message for message in agent.session.messages if isinstance(message, ToolResult)]
    assert [result.code for result in results] == ["UNKNOWN_TOOL", "UNKNOWN_TOOL"]
    assert (await told(agent, "tape_info"))["anchors"] == 1


@pytest.mark.pegboard(packs={"tape": Tape, "elsewhere": Elsewhere})
async def test_where_another_pack_keeps_the_sessions_there_is_no_recall(
    agent: Agent, scripted_model: ScriptedModel
) -> None:
    """TP31: neither of the two is offered, and another pack's store comes first; called all the same, it says so."""
    scripted_model.will("Done.")
    await agent.followup("go").wait()

    assert scripted_model.requests[0].tools == ()
    assert "Tape recall tools are not available for this conversation." in await told(agent, "tape_search", query="go")


@pytest.mark.pegboard(packs=TAPE)
async def test_a_model_searches_its_own_session(agent: Agent, scripted_model: ScriptedModel) -> None:
    """TPS 2.5: what is told of a hit is never its payload; the call that searches does not find itself."""
    await talk(agent, scripted_model, "the retry policy", "something else")
    scripted_model.will(call("tape_search", query="RETRY", kinds=["message"], limit=1), "Done.")
    await agent.followup("look").wait()
    (result,) = [message for message in agent.session.messages if isinstance(message, ToolResult)]

    (hit,) = json.loads(result.content)
    assert result.summary == "Found 1 tape entries."
    assert set(hit) == {"sessionId", "entryId", "kind", "name", "createdAt", "summary", "refs"}
    assert (hit["sessionId"], hit["summary"], hit["refs"]) == (
        agent.id,
        "Answer to the retry policy",
        {"role": "assistant"},
    )


@pytest.mark.pegboard(packs=TAPE)
@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"query": "   "}, "query"),
        ({}, "query is missing"),
        ({"query": "a", "limit": 0}, "limit"),
        ({"query": "a", "limit": 51}, "limit"),
        ({"query": "a", "limit": "5"}, "limit"),
        ({"query": "a", "kinds": ["thought"]}, "kinds"),
        ({"query": "a", "scope": "everything"}, "scope"),
        ({"query": "a", "sessionId": "0000"}, "sessionId is not a parameter"),
        (
            {"query": "a", "start": "yesterday"},
            "`start` must be an ISO date-time such as 2026-01-31T09:00:00Z, or milliseconds",
        ),
        ({"query": "a", "start": "--5"}, "`start` must be"),
        ({"query": "a", "start": "9" * 400}, "`start` must be"),
        ({"query": "a", "end": "1e5"}, "`end` must be"),
    ],
)
async def test_a_search_with_wrong_parameters_is_refused(agent: Agent, arguments: dict[str, Any], wrong: str) -> None:
    """TP5, TP32."""
    assert wrong in await told(agent, "tape_search", **arguments)


@pytest.mark.pegboard(packs=TAPE)
async def test_times_are_iso_or_milliseconds_and_inclusive(agent: Agent, scripted_model: ScriptedModel) -> None:
    """TP3."""
    await talk(agent, scripted_model, "question")
    moment = next(entry.event.ts for entry in await agent.host.entries(agent.id) if entry.event.type == "message")
    exact = str(int(moment * 1000) + 1)

    assert [
        hit["refs"]["role"] for hit in await told(agent, "tape_search", query="question", end=exact, kinds=["message"])
    ][-1:] == ["user"]
    assert await told(agent, "tape_search", query="question", end="2001-01-01") == []
    assert (
        await told(agent, "tape_search", query="question", start="2001-01-01T00:00:00Z", end="2001-01-02T00:00+02:00")
        == []
    )


@pytest.mark.pegboard(packs=TAPE)
@pytest.mark.parametrize(
    "arguments",
    [
        {"entryIds": []},
        {"entryIds": [0]},
        {"entryIds": list(range(1, 22))},
        {"entryIds": [1], "before": 21},
        {"entryIds": [1], "after": -1},
        {"entryIds": [1], "limit": 101},
        {"entryIds": [1], "maxBytesPerEntry": 8193},
        {"entryIds": [1], "maxTotalBytes": 65_537},
        {"entryIds": [1], "sourceSessionId": ""},
    ],
)
async def test_a_context_with_wrong_parameters_is_refused(agent: Agent, arguments: dict[str, Any]) -> None:
    """TP32, TPS 2.6."""
    assert "invalid arguments" in await told(agent, "tape_context", **arguments)


@pytest.mark.pegboard(packs=TAPE)
async def test_what_was_asked_for_comes_before_its_neighbours(agent: Agent, scripted_model: ScriptedModel) -> None:
    """TP14: windows merge, machinery is passed over, and unknown entries are not an error."""
    await talk(agent, scripted_model, "one", "two " * 50, "three")
    hits = await told(agent, "tape_search", query="two", kinds=["message"])
    wanted = hits[-1]["entryId"]

    around = await told(agent, "tape_context", entryIds=[wanted, wanted, 9999], before=1, after=1)
    assert (around["requestedEntryIds"], around["matchedEntryIds"]) == ([wanted, 9999], [wanted])
    assert [entry["name"] for entry in around["entries"]] == ["assistant", "user", "assistant"]
    tight = await told(agent, "tape_context", entryIds=[wanted], before=5, after=5, maxTotalBytes=60)
    assert [entry["entryId"] for entry in tight["entries"]] == [wanted]
    assert tight["entries"][0]["evidence"] == {"text": ("two " * 50)[:57] + "...", "truncated": True, "bytes": 200}
    few = await told(agent, "tape_context", entryIds=[wanted], before=5, after=5, limit=2)
    assert len(few["entries"]) == 2 and wanted in [entry["entryId"] for entry in few["entries"]]
    assert (await told(agent, "tape_context", entryIds=[wanted], maxBytesPerEntry=0))["entries"] == []


@pytest.mark.parametrize("text", ["abc", "日本語の文", "🙂🙂🙂", "é" * 9])
def test_what_is_cut_is_still_utf_8(text: str) -> None:
    """TP16: whatever the number of bytes; the mark is within them."""
    for room in range(len(text.encode()) + 2):
        short = cut(text, room)
        assert len(short.encode()) <= room
        assert short == text if room >= len(text.encode()) else short == "" or short.endswith("...")


@pytest.mark.pegboard(packs=TAPE)
async def test_a_handoff_keeps_where_it_comes_from(agent: Agent, scripted_model: ScriptedModel, tmp_path: Path) -> None:
    """TP10 to TP12: the order of a message is the id of its entry."""
    await talk(agent, scripted_model, "u1")
    messages = [entry.id for entry in await agent.host.entries(agent.id) if entry.event.type in ("message", "reply")]
    before = len(await agent.host.entries(agent.id))

    for state in (None, {}, {"summary": "  "}, {"summary": 5}):
        assert "Tape handoff requires a non-empty summary." in await told(agent, "tape_handoff", name="x", state=state)
    kinds = [entry.event.type for entry in await agent.host.entries(agent.id, before)]
    assert "note" not in kinds
    kept = await told(
        agent, "tape_handoff", name="phase_done", state={"summary": "  done  ", "next": "tests"}, meta={"by": "me"}
    )
    assert kept["name"] == "handoff/phase_done"
    assert kept["state"] == {
        "summary": "done",
        "next": "tests",
        "cursorOrderSeq": messages[-1] + 1,
        "range": {"fromOrderSeq": messages[0], "toOrderSeq": messages[-1]},
        "sourceMessageIds": messages,
    }
    assert kept["meta"] == {"by": "me", "handoff": True}
    await told(agent, "tape_handoff", state={"summary": "more", "cursorOrderSeq": 2, "sourceMessageIds": ["a"]})
    info = await told(agent, "tape_info")
    assert (info["anchors"], info["lastAnchor"], info["migrationState"]) == (3, "handoff/manual", "ready")
    newest = await told(agent, "tape_anchors", limit=2)
    assert [anchor["name"] for anchor in newest] == ["handoff/phase_done", "handoff/manual"]
    assert newest[1]["payload"]["data"]["state"]["cursorOrderSeq"] == 2
    assert "limit" in await told(agent, "tape_anchors", limit=101)
