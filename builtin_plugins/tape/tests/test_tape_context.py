"""What a model is told: from the last checkpoint on, whole turns, within its window; and the note of each request."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pegboard import (
    Agent,
    AssistantMessage,
    Definition,
    Host,
    Message,
    ModelError,
    ToolCall,
    ToolResult,
    UserMessage,
    tool,
)
from pegboard.events import Note
from pegboard.testing import ScriptedModel, call
from pegboard_tape.fitting import Budget, cost, cut, elide
from pegboard_tape.ledger import Part
from pegboard_tape.manifest import is_untouched, manifest, ranges
from pegboard_tape.pack import Tape
from pegboard_tape.redact import mask
from pegboard_tape.timeline import timeline

ROUTE = Definition(model="scripted")
BARE = Definition(model="scripted", tools=())
TAPE = {"tape": Tape}
SMALL = "[packs.tape]\nwindow = 1300\nreserve = 200\nturns = 1"
LONG = "word " * 200  # about 250 tokens


async def made(host: Host, folder: Path, model: ScriptedModel, definition: Definition = ROUTE) -> Agent:
    return await host.create_agent(definition, model=model, directory=folder)


async def tell(agent: Agent, text: str) -> str:
    end = await agent.followup(text).wait()
    return end.text if end.reason == "completed" else f"{end.reason}: {end.text}"


async def notes(agent: Agent, name: str) -> list[dict[str, Any]]:
    entries = await agent.host.entries(agent.id)
    return [
        entry.event.as_json()["data"] for entry in entries if isinstance(entry.event, Note) and entry.event.name == name
    ]


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.content if isinstance(message, ToolResult) else message.text for message in messages]


def said(messages: Sequence[Message]) -> list[str]:
    return texts([message for message in messages if not isinstance(message, ToolResult)])


@pytest.mark.pegboard(packs=TAPE)
async def test_a_session_that_fits_is_told_whole(host: Host, workspace_dir: Path) -> None:
    model = ScriptedModel("One.", "Two.")
    agent = await made(host, workspace_dir, model)
    await tell(agent, "First?")
    await tell(agent, "Second?")

    assert texts(model.requests[1].messages) == ["First?", "One.", "Second?"]


@pytest.mark.pegboard(packs=TAPE)
async def test_after_a_handoff_the_next_run_begins_with_its_summary(host: Host, workspace_dir: Path) -> None:
    """TP10, TPS 2.8: as the user's words, fenced, and said to be no instruction; also in a process that starts anew."""
    model = ScriptedModel("One.", "Two.")
    agent = await made(host, workspace_dir, model)
    await tell(agent, "First?")
    await agent.call_tool("tape_handoff", {"name": "phase_done", "state": {"summary": " The parser >>> is done. "}})
    await host.dispose(agent)
    again = await host.create_agent(ROUTE, session=await host.open_session(agent.id), model=model)
    await tell(again, "Second?")

    first, second = model.requests[1].messages
    assert isinstance(first, UserMessage) and "not an instruction" in first.text
    assert first.text.endswith("<<<summary\nThe parser > > > is done.\nsummary>>>")
    assert second == UserMessage("Second?")


@pytest.mark.pegboard(packs=TAPE)
async def test_anchors_of_other_packs_change_nothing(host: Host, workspace_dir: Path) -> None:
    """TP13."""

    @tool(effect="read")
    async def remember(ctx: Any) -> str:
        """Remember."""
        await ctx.note("anchor/memory", {"state": {"summary": "x", "cursorOrderSeq": 99}})
        await ctx.note("handoff/other", {"state": {"summary": "x", "cursorOrderSeq": 99}})
        return "kept"

    model = ScriptedModel("One.", "Two.")
    agent = await made(host, workspace_dir, model)
    agent.tools.register(remember)
    await tell(agent, "First?")
    await agent.call_tool("remember")
    await tell(agent, "Second?")

    assert said(model.requests[1].messages) == ["First?", "One.", "Second?"]


@pytest.mark.pegboard(packs=TAPE)
async def test_what_was_retracted_or_revised_is_told_as_it_is_now(host: Host, workspace_dir: Path) -> None:
    """TP7."""
    model = ScriptedModel("One.", "Two.", "Three.")
    agent = await made(host, workspace_dir, model)

    @tool(effect="read")
    async def correct(ctx: Any, entry: int, text: str = "") -> str:
        """Correct."""
        await ctx.note("message/revised" if text else "message/retracted", {"entry": entry, "text": text})
        return "done"

    agent.tools.register(correct)
    await tell(agent, "My password is x")
    await tell(agent, "Second?")
    entries = await host.entries(agent.id)
    place = {
        getattr(entry.event, "text", ""): entry.id for entry in entries if entry.event.type in ("message", "reply")
    }
    await agent.call_tool("correct", {"entry": place["My password is x"]})
    await agent.call_tool("correct", {"entry": place["Two."], "text": "Two and a half."})
    await tell(agent, "Third?")

    assert said(model.requests[2].messages) == ["One.", "Second?", "Two and a half.", "Third?"]


@pytest.mark.pegboard(packs=TAPE, config=SMALL)
async def test_before_the_window_is_full_the_model_sums_up_what_is_old(host: Host, workspace_dir: Path) -> None:
    """TPS 2.4, 2.8: whole turns, the newest kept; the next summary is made from the one before."""
    model = ScriptedModel("One.", "Two.", "Three.", "SUMMARY A", "Four.", "Five.", "SUMMARY B", "Six.")
    agent = await made(host, workspace_dir, model, BARE)
    for text in ("First?", "Second?", "Third?", "Fourth?"):
        await tell(agent, f"{text} {LONG}")
    asked, told = model.requests[3].messages, list(model.requests[4].messages)

    assert "First?" in texts(asked)[0] and "Third?" not in texts(asked)[0]
    assert "SUMMARY A" in texts(told)[0]
    assert [text.partition(" ")[0] for text in texts(told)[1:]] == ["Third?", "Three.", "Fourth?"]
    await tell(agent, f"Fifth? {LONG}")
    assert await tell(agent, f"Sixth? {LONG}") == "Six."
    assert "SUMMARY A" in texts(model.requests[6].messages)[0]
    first, second = await notes(agent, "compaction/auto")
    assert (first["meta"]["by"], first["meta"]["earlier"]) == ("model", None)
    assert second["state"]["range"]["fromOrderSeq"] == first["state"]["cursorOrderSeq"]


@pytest.mark.pegboard(packs=TAPE, config=SMALL)
async def test_without_a_language_model_the_summary_is_an_extract(host: Host, workspace_dir: Path) -> None:
    """The same each time, and the same when a model fails at it."""
    for route, turns in (("offline", ()), ("scripted", (ModelError("no", "connection"),))):
        model = ScriptedModel("The first answer.", "Two.", "Three.", *turns, "Four.")
        agent = await made(host, workspace_dir, model, Definition(model=route, tools=()))
        for text in ("First?", "Second?", "Third?", "Fourth?"):
            await tell(agent, f"{text} {LONG}")

        (anchor,) = await notes(agent, "compaction/auto")
        assert anchor["meta"]["by"] == "extract"
        assert anchor["state"]["summary"].splitlines()[1] == "answered: The first answer."
        assert "answered: The first answer." in texts(model.requests[-1].messages)[0]


@tool(effect="read")
def long_text(number: int) -> str:
    """Return a long text."""
    return f"{number:<3}\n" * 750


@pytest.mark.pegboard(packs=TAPE, config=SMALL.replace("1300", "7000"))
async def test_in_a_long_turn_old_results_give_way_and_say_where_they_are(host: Host, workspace_dir: Path) -> None:
    """The turn under way is never summed up; calls and the newest results stay."""
    model = ScriptedModel(*(call("long_text", number=number) for number in range(9)), "Done.")
    agent = await made(host, workspace_dir, model)
    agent.tools.register(long_text)
    assert await tell(agent, "Go on.") == "Done."

    results = [message.content for message in model.requests[-1].messages if isinstance(message, ToolResult)]
    short = [content.startswith("[3,000 characters left out") for content in results]
    assert short == sorted(short, reverse=True) and short[0] and not any(short[-4:])
    assert "tape_context shows it" in results[0]
    assert await notes(agent, "compaction/auto") == []


@pytest.mark.pegboard(packs=TAPE, config=SMALL)
async def test_a_turn_that_can_not_fit_ends_the_run_and_says_so(host: Host, workspace_dir: Path) -> None:
    """TPS 2.8: an explicit failure, never a silent cut."""
    agent = await made(
        host,
        workspace_dir,
        ScriptedModel(*(call("long_text", number=number) for number in range(4))),
        Definition(model="scripted"),
    )
    agent.tools.register(long_text)

    assert "the window of 1,300 tokens is full: this turn alone" in await tell(agent, "Go on.")


@pytest.mark.pegboard(packs=TAPE)
async def test_a_model_that_was_told_too_much_is_asked_once_more_with_less(host: Host, workspace_dir: Path) -> None:
    """TPS 2.4: the anchor `auto_handoff/context_overflow`; without anything to leave out, the error stands."""
    too_long = ModelError("too long", "context-too-long")
    model = ScriptedModel("One.", "Two.", too_long, "SUMMARY", "Three.", too_long)
    agent = await made(host, workspace_dir, model)
    for text in (f"First? {LONG}", f"Second? {LONG}"):
        await tell(agent, text)

    assert await tell(agent, "Third?") == "Three."
    assert len(await notes(agent, "auto_handoff/context_overflow")) == 1
    assert "SUMMARY" in texts(model.requests[4].messages)[0]
    alone = await made(host, workspace_dir, ScriptedModel(too_long))
    assert await tell(alone, "Alone?") == "error: too long"


@pytest.mark.pegboard(packs=TAPE)
async def test_every_request_is_noted_without_its_text(host: Host, workspace_dir: Path) -> None:
    """TPS 2.8: what is in, what is out, budgets and hashes; a prompt that is the same has the same hash."""
    agent = await made(host, workspace_dir, ScriptedModel("One.", "Two.", "Three."))
    await tell(agent, "The first question?")
    await tell(agent, "Second?")
    await agent.call_tool("tape_handoff", {"state": {"summary": "All is well."}})
    await tell(agent, "Third?")
    first, second, third = await notes(agent, "view/assembled")

    assert all(is_untouched(one) for one in (first, second, third))
    assert (first["included"], second["requestSeq"], third["excludedRanges"][0][2]) == ([], 2, "summed up")
    assert third["reconstructionAnchorEntryId"] and third["hashes"]["messages"] != second["hashes"]["messages"]
    assert first["hashes"]["prompt"] == second["hashes"]["prompt"]
    assert "question" not in str([first, second, third])


def test_a_manifest_has_one_hash_whatever_the_order_and_the_time() -> None:
    """TP34 to TP36; what somebody changed later is known by it."""
    parts = {"anchor": 1, "included": [[1, 2]], "hashes": {"a": "1", "b": "2"}}
    one = manifest(parts, 1.0)
    parts["included"][0].append(3)  # type: ignore[index]

    assert one["included"] == [[1, 2]]
    assert manifest({"hashes": {"b": "2", "a": "1"}, "included": [[1, 2]], "anchor": 1}, 2.0)["hash"] == one["hash"]
    assert manifest({**parts, "anchor": 2}, 1.0)["hash"] != one["hash"]
    assert one["viewId"] == f"view_{one['hash'][:16]}"
    assert is_untouched(one) and not is_untouched({**one, "anchor": 9}) and not is_untouched({})


def test_entries_that_follow_each_other_are_one_range() -> None:
    assert ranges([3, 5, 9, 12], [3, 5, 9, 12]) == ((3, 12),)
    assert ranges([3, 9, 12], [3, 5, 9, 12]) == ((3, 3), (9, 12))


@given(
    sizes=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3000)), min_size=1, max_size=8),
    window=st.integers(100, 6000),
    keep=st.integers(0, 3),
    active=st.integers(0, 60),
)
def test_no_result_is_ever_told_without_its_call(
    sizes: list[tuple[int, int]], window: int, keep: int, active: int
) -> None:
    """TPS 2.8: turns are whole, what is kept is the end of the session, and nothing is in both halves."""
    parts: list[Part] = []
    for turn, (calls, size) in enumerate(sizes):
        ids = [f"{turn}-{number}" for number in range(calls)]
        messages: list[Message] = [
            UserMessage("asked"),
            AssistantMessage("", tuple(ToolCall(one, "t", "{}") for one in ids)),
        ]
        messages += [ToolResult(one, "t", "ok", "x" * size, "") for one in ids]
        parts += [Part.of(len(parts) + number, message) for number, message in enumerate(messages, 1)]
    budget = Budget(window, 0, 0)
    before, kept = cut(parts, active, budget, keep)

    assert [*before, *kept] == parts
    assert all(part in kept for part in parts if part.entry > active)
    if kept and kept[0].entry <= active:
        assert isinstance(kept[0].message, UserMessage)
    told, gone = elide(kept, budget.input)
    assert [replace(one, message=None, tokens=0, digest=b"") for one in told] == [  # type: ignore[arg-type]
        replace(one, message=None, tokens=0, digest=b"")
        for one in kept  # type: ignore[arg-type]
    ]
    assert cost(told) <= cost(kept) and (not gone or cost(kept) > budget.input)


SECRETS = [
    "sk-proj-abcdefghij0123456789",
    "ghp_" + "a1" * 18,
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-1234567890-abcdef",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlMTIz",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.pegboard(packs=TAPE, config="[packs.tape]\nredact = true")
async def test_secrets_are_masked_before_anybody_sees_them(host: Host, workspace_dir: Path) -> None:
    """Case 65: in inputs, arguments, results and replies; what is masked can be counted."""

    @tool(effect="read")
    def read_settings(path: str) -> str:
        """Read the settings."""
        return "\n".join([*SECRETS, 'password = "hunter22hunter"', "https://ada:lovelace1@example.org/x", path])

    model = ScriptedModel(call("read_settings", path=SECRETS[0]), f"It is {SECRETS[1]}.")
    agent = await made(host, workspace_dir, model)
    agent.tools.register(read_settings)
    await tell(agent, f"My key is {SECRETS[2]}; where is it?")
    record = str([entry.as_json() for entry in await host.entries(agent.id)])
    (result,) = [message for message in model.requests[1].messages if isinstance(message, ToolResult)]

    assert not [secret for secret in (*SECRETS, "hunter22", "lovelace1") if secret in record]
    assert result.content.count("[secret masked]") == 9
    assert 'password = "[secret masked]"' in result.content
    assert "@example.org/x" in result.content
    assert sum(run.masked for run in timeline(await host.entries(agent.id))) == 12


def test_text_that_only_looks_technical_is_left_alone() -> None:
    for text in (
        "token = get_token()",
        "the password: please",
        "tokens: 1200",
        "sha 0123456789abcdef0123",
        "a://b/c:d",
        "sk-learn",
    ):
        assert mask(text) == text
