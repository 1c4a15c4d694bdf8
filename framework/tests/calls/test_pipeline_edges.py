"""Edges of a tool call where something was lost once: who withdrew a tool, who had the last word, what was told of it.

The rooms themselves are in `test_pipeline_cases.py`, whose packs and tools this file uses.
"""

import asyncio
import copy
import gc
import json
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pegboard import (
    Accept,
    Agent,
    Answer,
    Ask,
    AssistantMessage,
    Block,
    Deny,
    Finish,
    Host,
    ModelEvent,
    ModelRequest,
    NeedsApproval,
    Outcome,
    Output,
    PegboardError,
    PerTools,
    Prompt,
    RunEnd,
    Tool,
    ToolContext,
    ToolResult,
    ToolRun,
    UsageError,
    UserMessage,
    tool,
)
from pegboard.config.places import Places
from pegboard.events import SnapshotTaken
from pegboard.schemas import define_tool, output_of
from pegboard.testing import ScriptedModel, call
from pegboard.values.messages import Message, Transcript

from .test_pipeline_cases import (
    BENCH,
    FRONT_ENDS,
    Pack,
    Took,
    _raise,
    bench,
    bodies,
    ending,
    lines,
    opened,
    ran,
    reply,
    until,
    wrapping,
)
from .test_pipeline_cases import no_bodies_yet as no_bodies_yet

Drive = Callable[[Host, Agent], Awaitable[RunEnd]]


def driven(folder: Path, drive: Drive, *turns: Any, config: str = "", **packs: object) -> Took:
    """Let `drive` do something with a new agent, whose model answers with these turns and then `done`."""

    async def main() -> Took:
        async with opened(folder, config, **{"bench": BENCH, **packs}) as host:
            agent = await host.create_agent(directory=folder, model=ScriptedModel(*turns, "done"))
            return Took(host, agent, await drive(host, agent))

    return asyncio.run(main())


async def cancelled_when(condition: Callable[[], object], agent: Agent) -> RunEnd:
    """Begin a run, cancel it when something is so, and return its end."""
    run = agent.followup("go")
    await until(condition)
    run.cancel("enough")
    return await run.wait()


# -- withdrawn on the way (rule 3, T38)


@tool(effect="read")
async def mine() -> str:
    """Belong to one agent."""
    bodies.append("mine")
    return "ran"


@pytest.mark.parametrize("phase", ["intent", "dispatch"])
def test_a_tool_that_goes_while_a_guard_thinks_is_not_run(tmp_path: Path, phase: str) -> None:
    """Rule 3: narrowing is live up to the body's first moment."""

    async def drive(host: Host, agent: Agent) -> RunEnd:
        undo = [agent.tools.register(mine)]
        take = Pack(guard_tool_call=lambda call: undo.pop()() if call.phase == phase else None)
        agent.register(take)
        return await agent.followup("go").wait()

    took = driven(tmp_path, drive, call("mine"))

    assert (took.codes, took.end.reason, bodies) == (["WITHDRAWN"], "completed", [])
    assert took.content == "Error: `mine` was withdrawn: whoever brought it took it away"


def test_a_tool_that_goes_while_a_person_thinks_is_not_run_for_the_yes(tmp_path: Path) -> None:
    """Rules 3 and 7: a yes is for a call that may still be made."""

    async def drive(host: Host, agent: Agent) -> RunEnd:
        run = host.submit(agent, "go", on_ask="wait")
        await until(host.open_interactions)
        agent.restrict(deny=["poke"])
        await host.answer(agent.id, 1, Answer.yes())
        return await run.wait()

    took = driven(tmp_path, drive, call("poke"))

    assert (took.codes, took.end.reason, bodies) == (["WITHDRAWN"], "completed", [])
    assert took.content == "Error: `poke` was withdrawn: a restriction of this program hides it"


def test_a_tool_that_goes_inside_a_wrapper_is_not_run_and_the_pack_is_named(tmp_path: Path) -> None:
    """Rule 3: whose restriction it is, is told."""

    async def wrap(call: ToolRun, proceed: Callable[[], Awaitable[Outcome]]) -> Outcome:
        call.agent.restrict(deny=["peek"])
        return await proceed()

    took = ran(tmp_path, call("peek"), aa=Pack(wrap_tool_call=wrap))

    assert (took.codes, took.end.reason, bodies) == (["WITHDRAWN"], "completed", [])
    assert took.content == "Error: `peek` was withdrawn: a restriction of pack `aa` hides it"


async def _by_a_pack(host: Host, agent: Agent) -> None:
    await host.load_pack("late", Pack(guard_tool_call=lambda call: call.agent.restrict(allow=["poke"]) and None))


async def _unloaded(host: Host, agent: Agent) -> None:
    async def take(call: ToolRun, proceed: Callable[[], Awaitable[Outcome]]) -> Outcome:
        await host.unload_pack("bench")
        return await proceed()

    agent.register(Pack(wrap_tool_call=take))


async def _shadowed(host: Host, agent: Agent) -> None:
    def shadow(call: ToolRun) -> None:
        call.agent.tools.register(replace(mine, name="peek"))

    await host.load_pack("late", Pack(guard_tool_call=lambda call: shadow(call) if call.phase == "intent" else None))


GONE: dict[str, tuple[Callable[[Host, Agent], Awaitable[None]], str]] = {
    "a pack restricts it": (_by_a_pack, "a restriction of pack `late` hides it"),
    "its pack is unloaded": (_unloaded, "whoever brought it took it away"),
    "a pack shadows it": (_shadowed, "pack `late` brought another tool of its name"),
}


@pytest.mark.parametrize("how", GONE)
def test_what_is_withdrawn_on_the_way_says_who_did_it(tmp_path: Path, how: str) -> None:
    """Rule 3, AC-T04: as at the beginning of a call."""
    take, told = GONE[how]

    async def drive(host: Host, agent: Agent) -> RunEnd:
        await take(host, agent)
        return await agent.followup("go").wait()

    took = driven(tmp_path, drive, call("peek"))

    assert (took.codes, bodies) == (["WITHDRAWN"], [])
    assert took.content == f"Error: `peek` was withdrawn: {told}"


def test_where_a_grant_hides_what_is_left_of_a_name_it_is_the_grant_that_is_named(tmp_path: Path) -> None:
    """Rules 1 and 11: the agent's own tool, which passed its grant, hid one of the host's that does not."""

    async def main() -> Took:
        async with opened(tmp_path, bench=BENCH) as host:
            undo: list[Callable[[], None]] = []
            agent = await host.create_agent(
                directory=tmp_path,
                model=ScriptedModel(call("poke"), "done"),
                grant=["peek"],
                setup=lambda agent: undo.append(agent.tools.register(replace(mine, name="poke"))),
            )
            agent.register(Pack(guard_tool_call=lambda call: undo.pop()() if undo else None))
            return Took(host, agent, await agent.followup("go").wait())

    took = asyncio.run(main())

    assert (took.codes, bodies) == (["WITHDRAWN"], [])
    assert took.content == "Error: `poke` was withdrawn: a grant leaves it out"


def test_a_tool_that_a_pack_omits_is_not_promised_for_the_next_message(tmp_path: Path) -> None:
    """AC-L09, rule 3: the hint is for what was registered since; what is omitted would be omitted again."""
    omit = Pack(assemble_prompt=lambda prompt: prompt.omitting(["peek"]) if prompt.phase == "snapshot" else None)

    took = ran(tmp_path, call("peek"), aa=omit)

    assert took.codes == ["UNKNOWN_TOOL"]
    assert took.content.startswith('Error: unknown tool "peek"') and "next message" not in took.content


# -- the snapshot


def test_a_name_that_a_pack_gives_twice_is_one_tool(tmp_path: Path) -> None:
    """T14, T15, rule 3: as many names as before, and all of them known, is still another list."""

    def twice(prompt: Prompt) -> Prompt | None:
        return replace(prompt, tools=("peek",) * len(prompt.tools)) if prompt.phase == "snapshot" else None

    model = ScriptedModel(call("poke"), "done")

    async def main() -> Took:
        async with opened(tmp_path, bench=BENCH, aa=Pack(assemble_prompt=twice)) as host:
            agent = await host.create_agent(directory=tmp_path, model=model)
            return Took(host, agent, await agent.followup("go", allow_writes=True).wait())

    assert asyncio.run(main()).codes == ["UNKNOWN_TOOL"]
    assert [[told.name for told in request.tools] for request in model.requests] == [["peek"], ["peek"]]


def named_same(text: str) -> Pack:
    """Return a pack with a tool that differs from another pack's in its body alone."""

    @tool(effect="read", name="same")
    async def same() -> str:
        """Say which it is."""
        return text

    return Pack(register_tools=lambda: [same])


def test_an_equal_tool_of_another_pack_is_another_snapshot(tmp_path: Path) -> None:
    """T16, rule 3: whose it is, is part of what is hashed and recorded."""

    async def drive(host: Host, agent: Agent) -> RunEnd:
        await agent.followup("one").wait()
        await host.unload_pack("one")
        await host.load_pack("two", named_same("2"))
        return await agent.followup("two").wait()

    took = driven(tmp_path, drive, "said", one=named_same("1"))

    taken = [event for event in took.events if isinstance(event, SnapshotTaken)]
    assert [[one["pack"] for one in event.tools if one["name"] == "same"] for event in taken] == [["one"], ["two"]]
    assert taken[0].hash != taken[1].hash


class ByHand:
    """Arguments with a schema that somebody wrote by hand."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema

    def parse(self, text: str) -> dict[str, Any]:
        return {}


def by_hand(schema: Mapping[str, Any]) -> Tool:
    """Return a tool with such arguments."""
    return Tool("odd", "By hand.", ByHand(schema), Output(dict, lambda value: value, str, str), lambda: "ran", "read")


@pytest.mark.parametrize("where", ["host", "agent"])
@pytest.mark.parametrize("schema", [{"enum": {1}}, {"default": float("nan")}], ids=["a set", "no number"])
def test_a_schema_that_is_no_json_is_refused_when_it_is_registered_and_ends_no_run(
    tmp_path: Path, where: str, schema: dict[str, Any]
) -> None:
    """T10, T14: late, too, and by name."""

    async def drive(host: Host, agent: Agent) -> RunEnd:
        tools = host.tools if where == "host" else agent.tools
        with pytest.raises(UsageError, match="tool `odd` has no schema that can be shown"):
            tools.register(by_hand({"type": "object", **schema}))
        return await agent.followup("go").wait()

    took = driven(tmp_path, drive, call("peek"))

    assert (took.end.reason, took.codes) == ("completed", [None])


# -- what a body is asked (T33, T40)


@pytest.mark.parametrize("what", [3, None, b"x"])
def test_a_body_that_adds_no_text_fails_alone(tmp_path: Path, what: Any) -> None:
    """T40, T43: a value of the wrong type is its failure, at the line that gave it."""

    @tool(effect="read")
    async def odd(ctx: ToolContext) -> str:
        """Add something."""
        ctx.add_context(what)
        return "x"

    took = ran(tmp_path, reply(call("odd"), call("peek")), bench=bench(odd))

    assert (took.codes, took.end.reason) == (["TOOL_FAILED", None], "completed")
    assert f"add_context takes a text, not {type(what).__name__}" in took.returned[0].content


def test_a_wrapper_that_adds_no_text_fails_each_call_and_not_the_run(tmp_path: Path) -> None:
    """T40, T43, DESIGN §3.1."""

    async def wrap(call: ToolRun, proceed: Callable[[], Awaitable[Outcome]]) -> Outcome:
        call.add_context(3)  # type: ignore[arg-type]
        return await proceed()

    took = ran(tmp_path, reply(call("peek"), call("peek")), aa=Pack(wrap_tool_call=wrap))

    assert (took.codes, took.end.reason, bodies) == (["TOOL_FAILED"] * 2, "completed", [])
    assert "wrap_tool_call of pack `aa` failed: TypeError" in took.returned[0].content


def test_texts_of_a_body_that_stopped_to_ask_are_those_of_the_body_that_went_on(tmp_path: Path) -> None:
    """T40, rule 8: nothing that either of them said comes twice."""

    @tool(effect="read")
    async def careful(ctx: ToolContext) -> str:
        """Ask first."""
        ctx.add_context("from the body")
        if not ctx.approved:
            raise NeedsApproval("may I?")
        return "did"

    phone = Pack(answer_interaction=lambda: Answer.yes())

    took = ran(tmp_path, call("careful"), config=FRONT_ENDS, bench=bench(careful), phone=phone, wrap=wrapping("wrap"))

    assert lines(took) == ["did", "from the body", "wrap before", "wrap after"]


def test_texts_of_an_answer_that_is_refused_are_not_shown(tmp_path: Path) -> None:
    """T40, AC-T27: nothing of it counts."""
    post = Pack(tool_post_execute=lambda: Accept(content="x", value="x", contexts=("ghost",)))

    took = ran(tmp_path, call("peek"), aa=post)

    assert took.codes == ["TOOL_FAILED"]
    assert "ghost" not in took.content


# -- what a body came to can't be made better (rules 8 and 9, T44)


@tool(effect="read", timeout=0.02)
async def endless() -> str:
    """Never end, whatever happens."""
    await asyncio.Event().wait()
    return ""


def _wrapped(answer: Callable[[], Any]) -> Callable[..., Awaitable[Any]]:
    async def wrap(call: ToolRun, proceed: Callable[[], Awaitable[Outcome]]) -> Any:
        await proceed()
        return answer()

    return wrap


IMPROVING: dict[str, dict[str, Any]] = {
    "post blocks": {"tool_post_execute": lambda: Block("no")},
    "post raises": {"tool_post_execute": lambda: _raise(ValueError("x"))},
    "post gives a value": {"tool_post_execute": lambda: Accept(value="x")},
    "post gives a text": {"tool_post_execute": lambda: Accept(content="all is well")},
    "a wrapper calls it late": {"wrap_tool_call": _wrapped(lambda: Outcome("error", "late", "late", "X"))},
    "a wrapper has another": {"wrap_tool_call": _wrapped(lambda: Outcome.of("cached"))},
    "a wrapper raises": {"wrap_tool_call": _wrapped(lambda: _raise(ValueError("x")))},
    "a wrapper gives nothing": {"wrap_tool_call": _wrapped(lambda: None)},
}


@pytest.mark.parametrize("how", IMPROVING)
def test_no_pack_hides_that_a_body_did_not_end(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 9, DESIGN §6 T44: it stays INDETERMINATE, nothing else of the reply runs, and the run ends."""
    monkeypatch.setattr("pegboard.calls.body.GRACE_SECONDS", 0.02)

    took = ran(tmp_path, reply(call("endless"), call("peek")), bench=bench(endless), aa=Pack(**IMPROVING[how]))

    endless_one, next_one = took.returned
    assert (endless_one.status, endless_one.code, next_one.status == "ok") == ("indeterminate", "INDETERMINATE", False)
    assert (took.end.reason, bodies) == ("error", [])


@pytest.mark.parametrize("last", [lambda content: _raise(ValueError("x")), lambda content: "all is well"])
def test_a_tool_does_not_hide_that_its_body_did_not_end_either(
    tmp_path: Path, last: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 9, T41."""
    monkeypatch.setattr("pegboard.calls.body.GRACE_SECONDS", 0.02)
    hiding = replace(endless, output=replace(endless.output, finalize=last))

    took = ran(tmp_path, reply(call("endless"), call("peek")), bench=bench(hiding))

    assert (took.codes, took.end.reason) == (["INDETERMINATE", "ABORTED_BEFORE_DISPATCH"], "error")


AFTER_ALL: dict[str, dict[str, Any]] = {
    "a cached value": {"wrap_tool_call": _wrapped(lambda: Outcome.of("cached"))},
    "a success of its own": {"wrap_tool_call": _wrapped(lambda: Outcome("ok", "x", "x", value="x"))},
    "another text": {"tool_post_execute": lambda: Accept(content="all is well")},
}


@pytest.mark.parametrize("how", AFTER_ALL)
def test_no_pack_makes_a_success_after_a_cancel_one_after_all(tmp_path: Path, how: str) -> None:
    """T44, AC-T31: the body was told to stop, so what it did is not known to be whole."""
    took = driven(
        tmp_path,
        lambda host, agent: cancelled_when(lambda: bodies, agent),
        call("stop"),
        aa=Pack(**AFTER_ALL[how]),
    )

    assert ([(one.status, one.code) for one in took.returned], took.end.reason) == ([("aborted", "ABORTED")], "aborted")


def test_a_tool_has_no_last_word_about_what_a_pack_blocked(tmp_path: Path) -> None:
    """T41, T40: the feedback is what the model reads."""
    stop_it = Pack(tool_post_execute=lambda: Block("Stop: secret found"))

    took = ran(tmp_path, call("last"), bench=bench(ending(lambda content: "all is well")), aa=stop_it)

    assert (took.codes, took.content) == (["BLOCKED"], "Stop: secret found")


@pytest.mark.parametrize("where", ["wrap_tool_call", "tool_post_execute"])
def test_a_pack_that_hangs_around_a_call_is_interrupted_some_time_after_a_cancel(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules 9 and 10: the call has its result, the run its end."""
    monkeypatch.setattr("pegboard.calls.body.GRACE_SECONDS", 0.05)
    began: list[str] = []

    async def hang(call: ToolRun) -> None:
        began.append(call.name)
        await asyncio.Event().wait()

    async def around(call: ToolRun, proceed: Callable[[], Awaitable[Outcome]]) -> None:
        await hang(call)

    async def drive(host: Host, agent: Agent) -> RunEnd:
        run = agent.followup("go")
        await until(lambda: began)
        run.cancel("enough")
        await asyncio.wait({run.task}, timeout=20)
        interrupted = run.task.done()
        run.task.cancel()  # one that still hangs must not hold up the tests
        assert interrupted
        return await run.wait()

    hanging = Pack(**{where: around if where == "wrap_tool_call" else hang})

    took = driven(tmp_path, drive, call("peek"), aa=hanging)

    assert (took.end.reason, took.end.text, began, len(took.returned)) == ("aborted", "enough", ["peek"], 1)
    assert took.returned[0].status != "ok"


# -- who objected, and why (AC-T15, AC-T30, T35)


def test_every_refusal_is_recorded_with_its_pack_and_the_first_is_shown(tmp_path: Path) -> None:
    """AC-T15, T23 in DESIGN §6: all guards are asked."""
    aa, bb = (Pack(guard_tool_call=lambda name=name: Deny(f"{name} says no")) for name in ("aa", "bb"))

    took = ran(tmp_path, call("peek"), asking=Pack(guard_tool_call=lambda: Ask("sure?")), bb=bb, aa=aa)

    (result,) = took.returned
    assert [dict(one) for one in result.refusals] == [
        {"pack": "aa", "reason": "aa says no"},
        {"pack": "bb", "reason": "bb says no"},
    ]
    assert (result.pack, result.content) == ("aa", "Error: denied by aa: aa says no")
    assert json.loads(json.dumps(result.as_json()))["refusals"][1]["reason"] == "bb says no"


def test_what_nobody_refused_has_no_refusals(tmp_path: Path) -> None:
    """AC-T15: a failure is none, a person's no is one of the pack that asked."""
    no = Pack(answer_interaction=lambda: Answer.no("never"))

    def ask(call: ToolRun) -> Ask | None:
        return Ask("sure?") if call.name == "peek" else None

    took = ran(
        tmp_path, reply(call("stumble"), call("peek")), config=FRONT_ENDS, phone=no, aa=Pack(guard_tool_call=ask)
    )

    assert [[dict(one) for one in result.refusals] for result in took.returned] == [
        [],
        [{"pack": "aa", "reason": "a person said no: never"}],
    ]


def test_a_guard_of_the_program_is_named_as_such(tmp_path: Path) -> None:
    """AC-T16: it is no pack, and the text has no gap where a pack's name would be."""

    async def drive(host: Host, agent: Agent) -> RunEnd:
        agent.register(Pack(guard_tool_call=lambda: Deny("no")))
        return await agent.followup("go").wait()

    took = driven(tmp_path, drive, call("peek"))

    assert (took.codes, took.content) == (["DENIED"], "Error: denied by this program: no")


def test_a_question_that_a_cancel_cut_short_is_not_told_as_if_nobody_could_be_asked(tmp_path: Path) -> None:
    """AC-T30, T35."""

    async def drive(host: Host, agent: Agent) -> RunEnd:
        run = host.submit(agent, "go", on_ask="wait")
        await until(host.open_interactions)
        run.cancel("enough")
        return await run.wait()

    took = driven(tmp_path, drive, call("peek"), aa=Pack(guard_tool_call=lambda: Ask("really?", person=True)))

    told = "Error: denied by aa: really?; the run was cancelled before anybody answered"
    assert (took.content, took.end.reason, bodies) == (told, "aborted", [])


@pytest.mark.parametrize("person", [True, False])
def test_a_question_that_was_asked_and_not_answered_is_told_as_that(tmp_path: Path, person: bool) -> None:
    """AC-T30, T35: --allow-writes is no way to a person's own yes."""
    asking = Pack(guard_tool_call=lambda: Ask("really?", person=person))

    took = ran(tmp_path, call("peek"), config=FRONT_ENDS, phone=Pack(answer_interaction=lambda: None), aa=asking)

    mend = "a person must answer and nobody answered" if person else "--allow-writes says yes for one run"
    assert took.content == f"Error: denied by aa: really?; {mend}"


# -- by a program, without a model (rule 5)


@pytest.mark.parametrize("exposure", ["diagnostic", "runtime-only"])
def test_a_program_reaches_a_tool_that_no_model_is_shown_and_a_models_call_does_not(
    tmp_path: Path, exposure: Any
) -> None:
    """Rule 5, T38: the same agent, the same tool."""

    @tool(effect="read", exposure=exposure)
    async def inner() -> str:
        """Look inside."""
        bodies.append("inner")
        return "all is well"

    results: list[ToolResult] = []

    async def drive(host: Host, agent: Agent) -> RunEnd:
        end = await agent.followup("go").wait()
        assert bodies == []
        results.append(await agent.call_tool("inner"))
        return end

    took = driven(tmp_path, drive, call("inner"), bench=bench(inner))

    assert [one.code for one in took.returned] == ["UNKNOWN_TOOL", None]
    assert "next message" not in took.returned[0].content
    assert (results[0].status, results[0].content, bodies) == ("ok", "all is well", ["inner"])


def test_a_program_passes_the_guards_grants_and_restrictions_like_a_model(tmp_path: Path) -> None:
    """Rules 1, 5 and 6: exposure is all that is lifted for it."""

    @tool(effect="write", exposure="runtime-only")
    async def inner() -> str:
        """Change something."""
        bodies.append("inner")
        return "changed"

    async def main() -> list[str | None]:
        async with opened(tmp_path, bench=bench(inner)) as host:
            free = await host.create_agent(directory=tmp_path)
            bare = await host.create_agent(directory=tmp_path, grant=["peek"])
            denied = (await free.call_tool("inner")).code
            free.restrict(deny=["inner"])
            return [denied, (await free.call_tool("inner")).code, (await bare.call_tool("inner")).code]

    assert (asyncio.run(main()), bodies) == (["DENIED", "UNKNOWN_TOOL", "UNKNOWN_TOOL"], [])


# -- what a model is told of a tool (T14 to T16, AC-T36)


@tool(effect="write", timeout=3.0, examples=["find it"], concurrency="parallel")
async def search(query: str, among: list[str] | None = None) -> list[str]:
    """Search among texts.

    Args:
        query: What to look for.
    """
    return [query, *(among or ())]


DEFINED: dict[str, Callable[[], Tool]] = {
    "a function's": lambda: search,
    "an explicit one": lambda: define_tool(
        name="explicit",
        description="Defined.",
        parameters={"path": {"type": "string", "enum": ["a", "b"], "required": True}},
        body=lambda arguments: "",
        output=output_of({"type": "string"}, str),
    ),
    "a foreign one": lambda: replace(
        by_hand({"type": "object"}), name="mcp__docs__search", server="docs", effect="write"
    ),
    "by hand": lambda: by_hand({"type": "object", "properties": {"deep": {"enum": [["x"]]}}}),
}


def _empty(value: Any) -> None:
    """Take everything out of JSON data, from the leaves on."""
    for inner in list(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()):
        _empty(inner)
    if isinstance(value, dict | list):
        value.clear()


@pytest.mark.parametrize("kind", DEFINED)
def test_the_definition_of_a_tool_is_its_name_description_and_parameters_and_nobodys_to_change(kind: str) -> None:
    """T14, AC-T36: whoever empties one empties a copy, down to the last list."""
    made = DEFINED[kind]()
    first, before = made.definition, made.hash
    kept = copy.deepcopy(first)

    _empty(first)

    assert sorted(kept) == ["description", "name", "parameters"]
    assert (kept["name"], kept["description"], kept["parameters"]) == (made.name, made.description, made.parameters)
    assert (made.definition, replace(made).hash) == (kept, before)
    assert json.loads(json.dumps(kept)) == kept


def test_a_models_definitions_are_sorted_by_name_whatever_the_order_of_registering(tmp_path: Path) -> None:
    """AC-T36, T15, T16: and the same each time, to the byte."""
    tools = [replace(mine, name=name) for name in ("z", "a", "m")]
    model = ScriptedModel("one", "two")

    async def main() -> None:
        async with opened(tmp_path, names=Pack(register_tools=lambda: tools)) as host:
            agent = await host.create_agent(directory=tmp_path, model=model)
            await agent.followup("one").wait()
            await agent.followup("two").wait()

    asyncio.run(main())

    told = [[one.definition for one in request.tools] for request in model.requests]
    assert [one["name"] for one in told[0]] == ["a", "m", "z"]
    assert json.dumps(told[0]) == json.dumps(told[1])


# -- what an adapter makes of the tools (`PerTools`)


class Wiring:
    """A model that sends its tools in a form of its own, made with `PerTools`; it calls `peek` in every other reply."""

    label = "wiring"

    def __init__(self) -> None:
        self.made: list[int] = []
        self.sent: list[list[dict[str, Any]]] = []
        self._wire = PerTools(self._make)

    def _make(self, tools: tuple[Tool, ...]) -> list[dict[str, Any]]:
        self.made.append(len(tools))
        return [told.definition for told in tools]

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.sent.append(self._wire(request.tools))
        if len(self.sent) % 2:
            yield call("peek")
        yield Finish()


def test_what_an_adapter_makes_of_a_thousand_tools_it_makes_once_for_all_steps_and_runs(tmp_path: Path) -> None:
    """Rule 1: views are identity-stable, so the wire form of the tools is cached by that; and made anew for others."""
    model = Wiring()
    many = Pack(register_tools=lambda: [*(replace(mine, name=f"t{n}") for n in range(999)), search])

    async def main() -> None:
        async with opened(tmp_path, bench=BENCH, many=many) as host:
            agent = await host.create_agent(directory=tmp_path, model=model)
            for _ in range(3):
                await agent.followup("go").wait()
            undo = agent.restrict(deny=["search"])
            await agent.followup("go").wait()
            undo()
            other = await host.create_agent(directory=tmp_path, model=model)
            await other.followup("go").wait()

    asyncio.run(main())

    assert (len(model.sent), model.made[:2]) == (10, [1005, 1004])
    assert all(sent is model.sent[0] for sent in model.sent[:6])
    assert model.sent[6] is model.sent[7] is not model.sent[0]


def test_two_agents_with_the_same_tools_share_what_an_adapter_makes_of_them(tmp_path: Path) -> None:
    """Rule 1: agents without tools of their own have the host's view."""
    model = Wiring()

    async def main() -> None:
        async with opened(tmp_path, bench=BENCH) as host:
            for _ in range(3):
                agent = await host.create_agent(directory=tmp_path, model=model)
                await agent.followup("go").wait()

    asyncio.run(main())

    assert (len(model.sent), model.made) == (6, [5])


class Made:
    """Something made of tools."""


def test_what_an_adapter_made_of_tools_that_are_gone_is_let_go() -> None:
    """No leak: at most `keep` are kept, and equal tools of another identity are others."""
    makes: list[tuple[Tool, ...]] = []

    def make(tools: tuple[Tool, ...]) -> Made:
        makes.append(tools)
        return Made()

    per_tools = PerTools(make, keep=3)
    of_each = [(replace(mine),) for _ in range(10)]

    left = [weakref.ref(per_tools(tools)) for tools in of_each]
    gc.collect()

    assert [one() is not None for one in left] == [False] * 7 + [True] * 3
    assert (per_tools(of_each[9]) is left[9](), len(makes)) == (True, 10)
    assert (per_tools(of_each[0]) is per_tools(of_each[0]), len(makes)) == (True, 11)


# -- the transcript of a request


def test_each_request_sees_the_transcript_of_its_moment_and_none_is_a_copy(tmp_path: Path) -> None:
    """DESIGN §4: a step costs the same after 1,000 steps, because nothing is copied."""
    model = ScriptedModel(call("peek"), reply(call("peek"), call("peek")), "done", "again")

    async def main() -> list[Message]:
        async with opened(tmp_path, bench=BENCH) as host:
            agent = await host.create_agent(directory=tmp_path, model=model)
            await agent.followup("go").wait()
            await agent.followup("go on").wait()
            return agent.session.messages

    messages = asyncio.run(main())

    seen = [list(request.messages) for request in model.requests]
    assert [len(one) for one in seen] == [1, 3, 6, 8] and len(messages) == 9
    assert seen == [messages[: len(one)] for one in seen]
    for request in model.requests:
        assert isinstance(request.messages, Transcript)
        assert any(one is messages for one in gc.get_referents(request.messages))


MESSAGES: list[Message] = [UserMessage("1"), AssistantMessage("2"), UserMessage("3"), AssistantMessage("4")]
places = st.none() | st.integers(-7, 7)


@given(length=st.integers(0, 4), index=st.builds(slice, places, places, places.filter(lambda step: step != 0)))
def test_a_transcript_is_read_like_a_list_of_its_moment(length: int, index: slice) -> None:
    """It is a sequence: slices, negative places and places beyond its end are those of that list."""
    shared = MESSAGES[:length]
    view: Sequence[Message] = Transcript(shared)
    shared += [UserMessage("later")] * 3

    then = MESSAGES[:length]
    assert (list(view), len(view), list(reversed(view)), bool(view)) == (then, length, then[::-1], bool(then))
    assert list(view[index]) == then[index]
    assert [view[place] for place in range(-length, length)] == then * 2
    assert UserMessage("later") not in view
    for beyond in (length, -length - 1):
        with pytest.raises(IndexError):
            view[beyond]


# -- looking while a required pack is missing (rule 6)


def failing_at_start(host: Host) -> None:
    """Fail when the host is up."""
    raise RuntimeError("no luck")


@pytest.mark.parametrize("require", [True, False])
def test_a_required_pack_that_is_missing_stops_a_host_that_runs_and_not_one_that_looks(
    tmp_path: Path, require: bool
) -> None:
    """Rule 6: both when it is opened and when it starts; the reason is there to be read."""
    places = Places(tmp_path / "config.toml", tmp_path / "state")

    def open_(config: str, packs: Mapping[str, object]) -> Host:
        places.config_file.write_text(config, "utf-8")
        return Host.open(environ={}, distributions=[], packs=packs, places=places, require=require)

    async def main() -> str:
        host = open_("[packs.aa]\nrequired = true", {"aa": Pack(host_started=failing_at_start), "bench": BENCH})
        async with host:
            offered = (await host.create_agent(directory=tmp_path)).view().names
            return f"{next(pack for pack in host.packs if pack.name == 'aa').state} {'peek' in offered}"

    if not require:
        assert asyncio.run(main()) == "failed True"
        assert open_("[packs.ghost]\nrequired = true", {}).packs == ()
        return
    with pytest.raises(PegboardError, match=r"pack `aa` is failed \(.*no luck\) but required: `required = true`"):
        asyncio.run(main())
    with pytest.raises(PegboardError, match="pack `ghost` is not installed but required"):
        open_("[packs.ghost]\nrequired = true", {})


LOOKING = (["why", "look"], ["tools"], ["hooks", "observe"])
RUNNING = (["run", "-m", "offline", "Look."], ["call", "look"])


def test_commands_that_look_work_while_a_required_pack_is_missing_and_those_that_run_do_not(
    pegboard: Any, pack_folder: Any, home: Any
) -> None:
    """Rule 6: whoever has to mend it can ask what is wrong."""
    source = "from pegboard import hookimpl, tool\n@tool(effect='read')\ndef look() -> str:\n    '''Look.'''\n"
    source += "    return 'seen'\nclass Pack:\n    @hookimpl\n    def register_tools(self):\n        return [look]\n"
    pack_folder.add("eyes", source)
    home.config("[packs.ghost]\nrequired = true\n")

    why, tools, hooks = (pegboard(*command) for command in LOOKING)
    stopped = [pegboard(*command) for command in RUNNING]

    assert [one.returncode for one in (why, tools, hooks)] == [0, 0, 0]
    assert why.stdout.startswith("look is offered to `main`") and "look " in tools.stdout
    assert [(one.returncode, "seen" in one.stdout) for one in stopped] == [(1, False)] * len(RUNNING)
    assert all("pack `ghost` is not installed but required: " in one.stderr for one in stopped)
