"""Rooms of one tool call that other tests pass by: what stands beside a result, who has the last word, who may object.

Bodies, timeouts and cancelling are in `test_tool_calls.py`, each hook by itself is in `test_hooks.py`.
"""

import asyncio
import dataclasses
import gc
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pegboard import (
    Accept,
    Agent,
    Answer,
    Ask,
    Block,
    CancelSignal,
    Deny,
    Enter,
    Entry,
    Event,
    Finish,
    GuardedCall,
    Host,
    Outcome,
    Reject,
    RunEnd,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    ToolRun,
    Touch,
    hookimpl,
    tool,
)
from pegboard.config.places import Places
from pegboard.events import Called, Returned
from pegboard.record.stores import MemoryStore
from pegboard.testing import ScriptedModel, call, recorded

FRONT_ENDS = '[interactions]\nfront_ends = ["phone"]'


class Pack(ModuleType):
    """A pack made of functions, each the implementation of the hook that it is named after."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        super().__init__("pack")
        marked = {name: f if hasattr(f, "pegboard_impl") else hookimpl(f) for name, f in functions.items()}
        vars(self).update(marked)


@dataclass
class Took:
    """A run that has ended."""

    host: Host
    agent: Agent
    end: RunEnd

    @property
    def events(self) -> list[Event]:
        """All that is recorded."""
        return recorded(self.agent, all_of_it=True)

    @property
    def returned(self) -> list[Returned]:
        """How its calls ended."""
        return [event for event in self.events if isinstance(event, Returned)]

    @property
    def codes(self) -> list[str | None]:
        """The kinds of failure, None for a success."""
        return [event.code for event in self.returned]

    @property
    def content(self) -> str:
        """What the model read of its one call."""
        (only,) = self.returned
        return only.content


def opened(folder: Path, config: str = "", **packs: object) -> Host:
    """Open a host of its own, with these packs, all of which are active."""
    folder.mkdir(exist_ok=True)
    places = Places(folder / "config.toml", folder / "state")
    places.config_file.write_text(config, "utf-8")
    host = Host.open(environ={}, distributions=[], packs=packs, places=places)
    assert [pack.reason for pack in host.packs if pack.state != "active"] == []
    return host


def ran(folder: Path, *turns: Any, config: str = "", allow_writes: bool = False, **packs: object) -> Took:
    """Let one run of a new agent go to its end, its model answering with these turns and then `done`."""

    async def main() -> Took:
        async with opened(folder, config, **{"bench": BENCH, **packs}) as host:
            agent = await host.create_agent(directory=folder, model=ScriptedModel(*turns, "done"))
            return Took(host, agent, await agent.followup("go", allow_writes=allow_writes).wait())

    return asyncio.run(main())


def reply(*calls: ToolCall) -> list[Any]:
    """Return one reply of a model with several calls."""
    return [*calls, Finish()]


bodies: list[str] = []


@pytest.fixture(autouse=True)
def no_bodies_yet() -> Iterator[None]:
    """Forget what the bodies of an earlier test did."""
    bodies.clear()
    yield
    bodies.clear()


@tool(effect="read")
async def peek(path: str = "") -> str:
    """Peek at a path."""
    bodies.append(f"peek {path}".strip())
    return f"peeked at {path}"


@tool(effect="write")
async def poke(path: str = "") -> str:
    """Poke at a path."""
    bodies.append(f"poke {path}".strip())
    return f"poked at {path}"


@tool(effect="read")
async def stumble() -> str:
    """Fail, always."""
    raise ToolError("a stone")


@tool(effect="read")
async def lie() -> int:
    """Promise a number."""
    return "five"  # type: ignore[return-value]


@tool(effect="read")
async def stop(ctx: ToolContext) -> str:
    """Wait until told to stop."""
    bodies.append("stop")
    return f"stopped: {await ctx.cancel.wait()}"


TOOLS = [peek, poke, stumble, lie, stop]
BENCH = Pack(register_tools=lambda: TOOLS)


def bench(*tools: Tool) -> Pack:
    """Return the usual tools and more."""
    return Pack(register_tools=lambda: [*TOOLS, *tools])


async def until(condition: Callable[[], object]) -> None:
    """Let the others go on until something is so; a test that waits for what never comes fails."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came")


# -- materialised once (T33, T42)


@pytest.mark.parametrize("arguments", ['{"path": ', "[1]", '{"path": NaN}', "\ud800"])
def test_no_policy_sees_a_call_whose_arguments_are_no_object_and_it_is_told_once(
    tmp_path: Path, arguments: str
) -> None:
    """T33, T42: observers still hear of it, and those who stand after the call."""
    heard: list[str] = []
    policy = Pack(
        guard_tool_call=lambda call: heard.append("guard"),
        wrap_tool_call=lambda call, proceed: heard.append("wrapper"),
        tool_post_execute=lambda result: heard.append(f"post {result.code}"),
        observe=lambda event: heard.append(event.type) if isinstance(event, Called | Returned) else None,
    )

    ran(tmp_path, ToolCall("c", "peek", arguments), policy=policy)

    assert heard == ["tool_call", "post INVALID_ARGS", "tool_result"]


def test_nobody_can_change_a_call_on_its_way(tmp_path: Path) -> None:
    """T33: id, name, arguments and signal are the same for all who see it, whatever each of them tries."""
    seen: list[tuple[str, str, Mapping[str, Any]]] = []

    def meddle(call: GuardedCall | ToolRun) -> None:
        for field, value in {"id": "x", "name": "poke", "arguments": {"path": "y"}}.items():
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(call, field, value)
        with pytest.raises(TypeError):
            call.arguments["path"] = "y"  # type: ignore[index]
        seen.append((call.id, call.name, dict(call.arguments)))

    async def around(call: ToolRun, proceed: Callable[[], Awaitable[Outcome]]) -> Outcome:
        meddle(call)
        return await proceed()

    asked = ToolCall("c", "peek", '{"path": "x"}')
    took = ran(tmp_path, asked, pack=Pack(guard_tool_call=meddle, wrap_tool_call=around, tool_post_execute=meddle))

    assert (took.content, seen) == ("peeked at x", [("c", "peek", {"path": "x"})] * 4)


def test_after_a_cancel_nobody_is_asked_and_nothing_runs_whatever_is_wrong_with_a_call(tmp_path: Path) -> None:
    """T33, AC-T31: each call that had not begun has the same result, and is told once."""
    heard: list[str] = []

    def wrap(call: ToolRun, proceed: Callable[[], Awaitable[Outcome]]) -> Awaitable[Outcome]:
        heard.append(f"wrapper {call.name}")
        return proceed()

    policy = Pack(
        guard_tool_call=lambda call: heard.append(f"guard {call.name}"),
        wrap_tool_call=wrap,
        observe=lambda event: heard.append(f"told {event.name}") if isinstance(event, Returned) else None,
    )

    @tool(effect="read")
    async def give_up() -> str:
        """Cancel the run."""
        agents[0].cancel("enough")
        return "gave up"

    agents: list[Agent] = []
    created = Pack(agent_created=lambda agent: agents.append(agent))
    turn = reply(call("give_up"), call("peek"), ToolCall("c", "peek", "{"), call("nobody"))

    took = ran(tmp_path, turn, bench=bench(give_up), created=created, policy=policy)

    assert took.codes == ["ABORTED", *["ABORTED_BEFORE_DISPATCH"] * 3]
    assert [one for one in heard if "give_up" not in one] == ["told peek", "told peek", "told nobody"]


def test_every_call_is_told_once_as_called_and_once_as_returned_on_every_path(tmp_path: Path) -> None:
    """T42, T43, rule 10."""
    told: list[tuple[str, str]] = []
    calls = {
        "ok": call("peek"),
        "denied": call("poke"),
        "failed": call("stumble"),
        "lied": call("lie"),
        "unknown": call("nobody"),
        "invalid": call("peek", path=3),
        "unreadable": ToolCall("call-u", "peek", "{"),
        "blocked": call("peek", path="blocked"),
        "refused": call("peek", path="refused"),
        "wrapper failed": call("peek", path="wrapped"),
    }

    def wrap(call: ToolRun, proceed: Callable[[], Awaitable[Outcome]]) -> Awaitable[Outcome]:
        if call.arguments["path"] == "wrapped":
            raise ValueError("no")
        return proceed()

    policy = Pack(
        guard_tool_call=lambda call: Deny("no") if call.arguments.get("path") == "refused" else None,
        wrap_tool_call=wrap,
        tool_post_execute=lambda call: Block("no") if call.arguments.get("path") == "blocked" else None,
        observe=lambda event: told.append((event.type, event.id)) if isinstance(event, Called | Returned) else None,
    )
    took = ran(tmp_path, reply(*calls.values()), policy=policy)

    assert told == [(kind, one.id) for one in calls.values() for kind in ("tool_call", "tool_result")]
    assert (took.end.reason, took.end.calls, took.end.denied) == ("completed", len(calls), 2)


# -- guards (AC-T15, AC-T16, AC-T29, T23 to T25)


@pytest.mark.parametrize("allow_writes", [False, True])
@pytest.mark.parametrize("first", ["abstains", "asks a person who says yes", "lies that it may run"])
def test_nothing_that_stands_before_a_guard_undoes_its_refusal(tmp_path: Path, first: str, allow_writes: bool) -> None:
    """AC-T16: neither a guard that wants to be first, nor a yes of a person, nor the blanket yes."""
    answers: dict[str, Any] = {
        "abstains": None,
        "asks a person who says yes": Ask("sure?", person=True),
        "lies that it may run": Enter(()),
    }
    before = Pack(
        guard_tool_call=hookimpl(tryfirst=True)(lambda call: answers[first]), answer_interaction=lambda: Answer.yes()
    )
    after = Pack(guard_tool_call=lambda call: Deny("not in my house"))
    config = FRONT_ENDS.replace("phone", "aa")

    took = ran(tmp_path, call("poke"), config=config, allow_writes=allow_writes, aa=before, bb=after)

    assert (took.codes, took.returned[0].pack, bodies) == (["DENIED"], "aa" if "lies" in first else "bb", [])


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_guard_that_raises_is_a_refusal_that_is_shown_afterwards_and_told_once(tmp_path: Path, colour: str) -> None:
    """AC-T29 and T25 in DESIGN §6: it passes post like any other, and no wrapper and no body sees it."""
    heard: list[str] = []

    def broken(call: GuardedCall) -> None:
        raise ValueError("broken")

    async def broken_later(call: GuardedCall) -> None:
        await asyncio.sleep(0)
        raise ValueError("broken")

    policy = Pack(
        guard_tool_call=broken if colour == "sync" else broken_later,
        wrap_tool_call=lambda call, proceed: heard.append("wrapper"),
        tool_post_execute=lambda result: heard.append(f"post {result.status} {result.content}"),
        observe=lambda event: heard.append("told") if isinstance(event, Returned) else None,
    )

    took = ran(tmp_path, call("peek"), policy=policy)

    told = "Error: denied by policy: the guard failed: ValueError: broken"
    assert (heard, took.content, bodies) == ([f"post denied {told}", "told"], told, [])


def test_a_guard_that_a_running_guard_adds_is_asked_from_the_next_time_on(tmp_path: Path) -> None:
    """T24: and one that is taken away meanwhile does not save the call."""
    asked: list[str] = []

    def add(call: GuardedCall) -> None:
        asked.append(f"{call.phase}")
        if call.phase == "intent":
            call.agent.register(Pack(guard_tool_call=lambda call: asked.append(f"added {call.phase}")))

    ran(tmp_path, call("peek"), aa=Pack(guard_tool_call=add))

    assert asked == ["intent", "dispatch", "added dispatch"]


# -- questions (AC-T30, T35)


SILENCES: dict[str, tuple[str, Callable[..., Any] | None]] = {
    "nobody can be asked": ("", None),
    "a person says no": (FRONT_ENDS, lambda: Answer.no()),
    "a person says no and why": (FRONT_ENDS, lambda: Answer.no("not today")),
}


def test_each_way_in_which_nobody_says_yes_is_told_in_words_of_its_own(tmp_path: Path) -> None:
    """AC-T30, T35, B11, rule 6: every one of them is a denial, --allow-writes or not, and no body runs."""
    told: dict[str, str] = {}
    asking = Pack(guard_tool_call=lambda call: Ask("really?", person=True))
    for name, (config, answer) in SILENCES.items():
        phone = Pack(answer_interaction=answer) if answer else Pack()

        took = ran(tmp_path, call("peek"), config=config, allow_writes=True, phone=phone, asking=asking)

        assert (took.codes, took.end.denied, bodies) == (["DENIED"], 1, [])
        told[name] = took.content

    assert told == {
        "nobody can be asked": ("Error: denied by asking: really?; a person must answer and nobody can be asked here"),
        "a person says no": "Error: denied by asking: a person said no",
        "a person says no and why": "Error: denied by asking: a person said no: not today",
    }


@pytest.mark.parametrize("colour", ["guard", "front end"])
def test_a_run_that_is_cancelled_while_somebody_thinks_calls_nothing_and_leaves_no_task(
    tmp_path: Path, colour: str
) -> None:
    """TS19, AC-T30, AC-T31: and what a guard that was left behind raises later is nobody's unhandled error."""
    unhandled: list[Any] = []
    thinking: list[str] = []

    async def ponder() -> None:
        thinking.append("!")
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            raise ValueError("too late") from None

    async def main() -> Took:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unhandled.append(context))
        asking = Pack(guard_tool_call=lambda call: Ask("really?")) if colour == "front end" else Pack()
        phone = Pack(answer_interaction=ponder) if colour == "front end" else Pack(guard_tool_call=ponder)
        async with opened(tmp_path, FRONT_ENDS, bench=BENCH, asking=asking, phone=phone) as host:
            agent = await host.create_agent(directory=tmp_path, model=ScriptedModel(call("peek"), "done"))
            run = agent.followup("go")
            await until(lambda: thinking)
            run.cancel("enough")
            took = Took(host, agent, await run.wait())
        gc.collect()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return took

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pegboard.dispatch.guards.GUARD_SECONDS", 0.05)
        took = asyncio.run(main())

    assert (took.end.reason, took.end.text, bodies, unhandled) == ("aborted", "enough", [], [])
    assert [event.status for event in took.returned] != ["ok"]


# -- recorded before it runs (TS12)


def test_what_cannot_be_recorded_is_not_run(tmp_path: Path) -> None:
    """TS12, rule 10: guards have agreed, the store refuses the intent; the run ends and no body ran."""
    asked: list[str] = []

    class Full(MemoryStore):
        async def append(self, session: str, entries: Sequence[Entry], *, expect: int) -> None:
            if any(isinstance(entry.event, Called) for entry in entries):
                raise OSError("the disk is full")
            await super().append(session, entries, expect=expect)

    guard = Pack(guard_tool_call=lambda call: asked.append(call.phase))

    took = ran(tmp_path, call("peek"), guard=guard, store=Pack(session_store=lambda: Full()))

    assert (took.end.reason, asked, bodies) == ("error", ["intent"], [])
    assert "the disk is full" in took.end.text


# -- around the body (AC-T28, AC-T32, T37)


@pytest.mark.parametrize("how", ["for those further in", "in a task of its own"])
def test_no_wrapper_detaches_the_body_from_the_cancel_of_its_run(tmp_path: Path, how: str) -> None:
    """AC-T32, T37: a signal that is never given in the place of the call's own changes nothing."""

    async def detach(call: ToolRun, proceed: Callable[..., Awaitable[Outcome]]) -> Outcome:
        if how == "for those further in":
            return await proceed(replace(call, cancel=CancelSignal()))

        async def shielded() -> Outcome:
            return await proceed()

        return await asyncio.shield(asyncio.ensure_future(shielded()))

    async def main() -> Took:
        async with opened(tmp_path, bench=BENCH, aa=Pack(wrap_tool_call=detach)) as host:
            agent = await host.create_agent(directory=tmp_path, model=ScriptedModel(call("stop"), "done"))
            run = agent.followup("go")
            await until(lambda: bodies)
            run.cancel("enough")
            return Took(host, agent, await run.wait())

    took = asyncio.run(main())

    assert (took.codes, took.end.reason, took.end.text) == (["ABORTED"], "aborted", "enough")


def test_no_wrapper_gives_the_body_other_arguments_than_those_that_were_guarded(tmp_path: Path) -> None:
    """T33, T37, rule 7: whatever it goes on with."""

    async def forge(call: ToolRun, proceed: Callable[..., Awaitable[Outcome]]) -> Outcome:
        return await proceed(replace(call, arguments={"path": "forged"}, name="poke", tool=poke))

    took = ran(tmp_path, call("peek", path="x"), aa=Pack(wrap_tool_call=forge))

    assert (took.content, bodies) == ("peeked at x", ["peek x"])


# -- after the body (AC-T26, AC-T35, T38, T39)


def test_what_no_body_ran_for_is_shown_to_those_who_stand_after_it_with_its_name(tmp_path: Path) -> None:
    """AC-T35, T38: of an unknown tool they see the name, and that there is no tool."""
    seen: list[tuple[str, Tool | None, str | None, str | None]] = []

    def look(call: ToolRun, result: Outcome) -> None:
        seen.append((call.name, call.tool, call.pack, result.code))

    ran(tmp_path, call("nobody"), call("poke"), aa=Pack(tool_post_execute=look))

    assert seen == [("nobody", None, None, "UNKNOWN_TOOL"), ("poke", poke, "bench", "DENIED")]


def test_a_broken_promise_is_shown_afterwards_as_the_failure_that_it_is(tmp_path: Path) -> None:
    """AC-T26: and without a value that somebody could take for one."""
    seen: list[tuple[str, str | None, Any]] = []

    def look(result: Outcome) -> None:
        seen.append((result.status, result.code, result.value))

    took = ran(tmp_path, call("lie"), aa=Pack(tool_post_execute=look))

    assert (seen, took.codes) == ([("error", "INVALID_TOOL_OUTPUT", None)], ["INVALID_TOOL_OUTPUT"])


# -- texts beside a result (T40)


@tool(effect="read")
async def remark(ctx: ToolContext) -> str:
    """Say something and remark on it."""
    ctx.add_context("tool 1")
    ctx.add_context("tool 2")
    return "said"


@tool(effect="read")
def remark_in_a_thread(ctx: ToolContext) -> str:
    """The same in the other colour."""
    ctx.add_context("tool 1")
    ctx.add_context("tool 2")
    return "said"


def wrapping(text: str) -> Pack:
    """Return a wrapper that remarks before and after the body."""

    async def wrap(call: ToolRun, proceed: Callable[[], Awaitable[Outcome]]) -> Outcome:
        call.add_context(f"{text} before")
        outcome = await proceed()
        call.add_context(f"{text} after")
        return outcome

    return Pack(wrap_tool_call=wrap)


def lines(took: Took) -> list[str]:
    """Return what the model read of the one call, as its parts."""
    (message,) = [message for message in took.agent.session.messages if isinstance(message, ToolResult)]
    assert message.content == took.content
    return took.content.split("\n\n")


@pytest.mark.parametrize("name", ["remark", "remark_in_a_thread"])
def test_texts_beside_a_result_follow_it_the_tools_first_then_its_wrappers_then_those_after(
    tmp_path: Path, name: str
) -> None:
    """T40."""
    post = Pack(tool_post_execute=lambda: Accept(contexts=("post 1", "post 2")))

    took = ran(tmp_path, call(name), bench=bench(remark, remark_in_a_thread), post=post, wrap=wrapping("wrap"))

    assert lines(took) == ["said", "tool 1", "tool 2", "wrap before", "wrap after", "post 1", "post 2"]
    assert (took.returned[0].status, took.returned[0].summary) == ("ok", "1 line")


def test_texts_of_several_packs_come_in_the_order_in_which_these_are_called(tmp_path: Path) -> None:
    """T40, DESIGN §3.1: the last loaded is the outermost wrapper and the first to be asked afterwards."""
    packs: dict[str, Any] = {
        name: Pack(
            wrap_tool_call=vars(wrapping(name))["wrap_tool_call"],
            tool_post_execute=lambda name=name: Accept(contexts=(name,)),
        )
        for name in ("aa", "bb")
    }

    took = ran(tmp_path, call("peek"), **packs)

    assert lines(took)[1:] == ["bb before", "aa before", "aa after", "bb after", "bb", "aa"]


def test_texts_stay_beside_a_result_whose_content_or_value_was_replaced(tmp_path: Path) -> None:
    """T40."""
    for changed in (Accept(content="other", contexts=("why",)), Accept(value="other", contexts=("why",))):
        post = Pack(tool_post_execute=lambda changed=changed: changed)

        took = ran(tmp_path, call("remark"), bench=bench(remark), post=post)

        assert lines(took) == ["other", "tool 1", "tool 2", "why"]


def test_blocking_drops_the_texts_of_the_tool_and_keeps_those_of_the_packs(tmp_path: Path) -> None:
    """T40."""
    packs: dict[str, Any] = {
        "aa": Pack(tool_post_execute=lambda: Block("no", contexts=("blocked",))),
        "bb": Pack(tool_post_execute=lambda: Accept(contexts=("accepted",))),
        "cc": wrapping("wrap"),
    }

    took = ran(tmp_path, call("remark"), bench=bench(remark), **packs)

    assert (took.codes, lines(took)) == (["BLOCKED"], ["no", "wrap before", "wrap after", "accepted", "blocked"])


def test_texts_of_a_call_that_never_ran_are_those_of_the_packs_after_it(tmp_path: Path) -> None:
    """T40: a denial can say what would help, and stays one."""
    post = Pack(tool_post_execute=lambda: Accept(contexts=("ask your administrator",)))

    took = ran(tmp_path, call("poke"), post=post, wrap=wrapping("wrap"))

    assert (took.codes, lines(took)[1:], took.end.denied) == (["DENIED"], ["ask your administrator"], 1)


def test_texts_are_kept_when_a_success_becomes_aborted(tmp_path: Path) -> None:
    """T40, T44."""

    @tool(effect="read")
    async def give_up(ctx: ToolContext) -> str:
        """Write half of it."""
        ctx.add_context("half of it is written")
        bodies.append("began")
        await ctx.cancel.wait()
        ctx.add_context("the rest is not")
        return "done"

    async def main() -> Took:
        async with opened(tmp_path, bench=bench(give_up), wrap=wrapping("wrap")) as host:
            agent = await host.create_agent(directory=tmp_path, model=ScriptedModel(call("give_up"), "done"))
            run = agent.followup("go")
            await until(lambda: bodies)
            run.cancel("enough")
            return Took(host, agent, await run.wait())

    took = asyncio.run(main())

    told = ["tool call aborted", "half of it is written", "the rest is not", "wrap before", "wrap after"]
    assert (took.codes, lines(took)) == (["ABORTED"], told)


def test_texts_of_a_call_stand_beside_no_other_one(tmp_path: Path) -> None:
    """T40."""
    took = ran(tmp_path, reply(call("remark"), call("peek"), call("remark")), bench=bench(remark))

    contents = [event.content for event in took.returned]
    assert contents == ["said\n\ntool 1\n\ntool 2", "peeked at ", "said\n\ntool 1\n\ntool 2"]


NO_TEXTS: dict[str, Any] = {
    "a number among them": (3,),
    "one text": "why",
    "a list": ["why"],
    "nothing": None,
    "bytes": (b"why",),
}


@pytest.mark.parametrize("answer", [Accept, lambda contexts: Block("no", contexts)], ids=["Accept", "Block"])
@pytest.mark.parametrize("contexts", NO_TEXTS.values(), ids=NO_TEXTS)
def test_what_is_no_tuple_of_texts_is_that_packs_failure(tmp_path: Path, answer: Any, contexts: Any) -> None:
    """T40, DESIGN §3.1: a value of the wrong type is a failure under the hook's policy."""
    made = answer(contexts=contexts) if answer is Accept else answer(contexts)

    took = ran(tmp_path, call("peek"), aa=Pack(tool_post_execute=lambda: made))

    assert (took.codes, took.end.reason) == (["TOOL_FAILED"], "completed")
    assert "tool_post_execute of pack `aa` failed" in took.content


# -- the tool's last word (T41)


def ending(change: Callable[[str], Any], *, name: str = "last", says: str = "body", error: str = "") -> Tool:
    """Make a tool that finalizes its content."""

    @tool(name=name, effect="read")
    async def body() -> str:
        """Say something."""
        if error:
            raise ToolError(error)
        return says

    return replace(body, output=replace(body.output, finalize=change))


def test_the_tool_has_the_last_word_about_its_content_after_the_packs(tmp_path: Path) -> None:
    """T41: and about the content only."""
    post = Pack(tool_post_execute=lambda result: Accept(content=f"{result.content}, shown"))

    took = ran(tmp_path, call("last"), bench=bench(ending(lambda content: f"[{content}]")), post=post)

    (result,) = took.returned
    assert (result.content, result.status, result.code, result.summary) == ("[body, shown]", "ok", None, "1 line")


def test_the_last_word_is_that_of_the_tool_as_the_call_began(tmp_path: Path) -> None:
    """T41: a tool that took its place meanwhile has no say."""

    async def main() -> Took:
        async with opened(tmp_path, bench=BENCH) as host:
            agent = await host.create_agent(directory=tmp_path, model=ScriptedModel(call("last"), "done"))
            undo = [agent.tools.register(ending(lambda content: f"old {content}"))]

            def replace_it(call: ToolRun) -> None:
                undo.pop()()
                agent.tools.register(ending(lambda content: f"new {content}"))

            agent.register(Pack(tool_post_execute=replace_it))
            return Took(host, agent, await agent.followup("go").wait())

    assert asyncio.run(main()).content == "old body"


@pytest.mark.parametrize("turn", ["denied", "invalid", "unknown"])
def test_a_tool_has_no_last_word_about_a_call_that_did_not_reach_its_body(tmp_path: Path, turn: str) -> None:
    """T41, T36: a refusal reads as it was refused."""
    name = "nobody" if turn == "unknown" else "last"
    asked = call(name, extra=1) if turn == "invalid" else call(name)
    guard = Pack(guard_tool_call=lambda call: Deny("no"))

    took = ran(tmp_path, asked, bench=bench(ending(lambda content: "all is well")), guard=guard)

    assert took.codes == [{"denied": "DENIED", "invalid": "INVALID_ARGS", "unknown": "UNKNOWN_TOOL"}[turn]]
    assert "all is well" not in took.content


def _raise(error: BaseException) -> Any:
    raise error


BAD_ENDS: dict[str, Callable[[str], Any]] = {
    "raises": lambda content: _raise(ValueError("no")),
    "exits": lambda content: _raise(SystemExit(1)),
    "cancels": lambda content: _raise(asyncio.CancelledError()),
    "gives nothing": lambda content: None,
    "gives a number": lambda content: 5,
}


@pytest.mark.parametrize("change", BAD_ENDS.values(), ids=BAD_ENDS)
def test_a_last_word_that_fails_is_one_error_result_of_a_run_that_goes_on(
    tmp_path: Path, change: Callable[[str], Any]
) -> None:
    """T41, T43."""
    took = ran(tmp_path, reply(call("last"), call("peek")), bench=bench(ending(change)))

    assert (took.codes, took.end.reason, took.end.text) == (["INVALID_TOOL_OUTPUT", None], "completed", "done")


# -- one result, whatever the packs do (T43)


async def _passed(call: ToolRun, proceed: Callable[[], Awaitable[Outcome]]) -> Outcome:
    return await proceed()


async def _cached(call: ToolRun, proceed: Callable[[], Awaitable[Outcome]]) -> Outcome:
    return Outcome.of("cached")


async def _wrong(call: ToolRun, proceed: Callable[[], Awaitable[Outcome]]) -> Outcome:
    return Outcome.of(7)


async def _twice(call: ToolRun, proceed: Callable[[], Awaitable[Outcome]]) -> Outcome:
    await proceed()
    return await proceed()


async def _swallows(call: ToolRun, proceed: Callable[[], Awaitable[Outcome]]) -> Outcome:
    await proceed()
    raise KeyError("swallowed")


GUARDS = (lambda: None, lambda: Deny("no"), lambda: Ask("sure?"), lambda: _raise(ValueError("no")), lambda: True)
WRAPS = (_passed, _cached, _wrong, _twice, _swallows, lambda: _raise(SystemExit(0)), lambda: "text")
POSTS = (
    lambda: None,
    lambda: Accept(content="seen", contexts=("why",)),
    lambda: Accept(value=7),
    lambda: Accept(content="x", value="x"),
    lambda: Block("no"),
    lambda: _raise(GeneratorExit()),
    lambda: Deny("no"),
)
CALLS = (
    ("peek", "{}"),
    ("poke", "{}"),
    ("stumble", "{}"),
    ("lie", "{}"),
    ("nobody", "{}"),
    ("peek", '{"path": 3}'),
    ("peek", "{"),
)


def some(what: Sequence[Any], size: int) -> st.SearchStrategy[list[Any]]:
    """Return a strategy of up to so many of them."""
    return st.lists(st.sampled_from(what), max_size=size)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    calls=st.lists(st.sampled_from(CALLS), min_size=1, max_size=4),
    guards=some(GUARDS, 2),
    wraps=some(WRAPS, 3),
    posts=some(POSTS, 3),
)
def test_whatever_the_packs_do_each_call_has_one_result_and_its_body_ran_at_most_once(
    tmp_path: Path, calls: Sequence[tuple[str, str]], guards: Sequence[Any], wraps: Sequence[Any], posts: Sequence[Any]
) -> None:
    """T43, rules 8 and 10: the run completes, refusals stay refusals, and no body ran for them."""
    bodies.clear()
    packs: dict[str, Any] = {f"guard{n}": Pack(guard_tool_call=one) for n, one in enumerate(guards)}
    packs |= {f"wrap{n}": Pack(wrap_tool_call=one) for n, one in enumerate(wraps)}
    packs |= {f"post{n}": Pack(tool_post_execute=one) for n, one in enumerate(posts)}
    asked = [ToolCall(f"c{n}", *one) for n, one in enumerate(calls)]

    took = ran(tmp_path, reply(*asked), **packs)

    told = [(event.type, event.id) for event in took.events if isinstance(event, Called | Returned)]
    assert told == [(kind, one.id) for one in asked for kind in ("tool_call", "tool_result")]
    assert (took.end.reason, took.end.denied) == ("completed", took.codes.count("DENIED"))
    could = [name for name, _ in calls if name in ("peek", "poke")]
    assert len(bodies) <= len(could)
    if any(guard in GUARDS[1:] for guard in guards):
        assert bodies == []


# -- adding guards never lets more through (T23)


def _now(verdict: Any) -> Callable[..., Any]:
    return lambda call: verdict


def _later(verdict: Any) -> Callable[..., Any]:
    async def guard(call: GuardedCall) -> Any:
        await asyncio.sleep(0)
        return verdict

    return guard


def _in_phase(phase: str, guard: Callable[..., Any]) -> Callable[..., Any]:
    return lambda call: guard(call) if call.phase == phase else None


def _about(path: str, guard: Callable[..., Any]) -> Callable[..., Any]:
    return lambda call: guard(call) if call.arguments.get("path") == path else None


async def _raises_later(call: GuardedCall) -> None:
    await asyncio.sleep(0)
    raise RuntimeError("later")


VERDICTS = (None, Deny("no"), Ask("sure?"), Ask("you there?", person=True), True, "yes", Deny, Reject("no"))
FAILING = (lambda call: _raise(ValueError("no")), lambda call: _raise(SystemExit(0)), _raises_later)
plain_guards = st.one_of(
    st.builds(_now, st.sampled_from(VERDICTS)),
    st.builds(_later, st.sampled_from(VERDICTS)),
    st.sampled_from(FAILING),
)
guards_of_all_kinds = st.one_of(
    plain_guards,
    st.builds(_in_phase, st.sampled_from(["intent", "dispatch"]), plain_guards),
    st.builds(_about, st.sampled_from(["a", "b"]), plain_guards),
)
PEOPLE: dict[str, Callable[..., Any] | None] = {
    "nobody": None,
    "one who says yes": lambda: Answer.yes(),
    "one who says no": lambda: Answer.no("never"),
    "one who says something": lambda: Answer.say("hm"),
    "one who is silent": lambda: None,
    "one who fails": lambda: _raise(OSError("no line")),
}
ASKED = [call(name, path=path) for name in ("peek", "poke", "edit") for path in ("a", "b", ".git/hooks/pre-commit")]


@tool(effect="write", touches=lambda path: [Touch.path(path)])
async def edit(path: str) -> str:
    """Edit a path."""
    bodies.append(f"edit {path}")
    return "edited"


@dataclass(frozen=True)
class Guard:
    """A guard, whether it is on the agent or a pack's, and whether it is only among the more numerous ones."""

    asks: Callable[..., Any]
    on_agent: bool
    added: bool


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    guards=st.lists(st.builds(Guard, guards_of_all_kinds, st.booleans(), st.booleans()), max_size=5),
    person=st.sampled_from(sorted(PEOPLE)),
    claims_policy=st.booleans(),
)
@example([Guard(_now(Deny("no")), False, False), Guard(_now(None), True, True)], "one who says yes", True)
@example([Guard(_now(Ask("sure?")), False, True)], "nobody", False)
def test_adding_guards_of_any_kind_anywhere_never_lets_more_through(
    tmp_path: Path, guards: Sequence[Guard], person: str, claims_policy: bool
) -> None:
    """T23, DESIGN §6 T34, rule 6: with --allow-writes and without, whatever a person answers."""
    fewer = [guard for guard in guards if not guard.added]
    passed = {
        (many, allow): _passing(tmp_path, chosen, person, claims_policy, allow)
        for many, chosen in ((False, fewer), (True, list(guards)))
        for allow in (False, True)
    }

    for allow in (False, True):
        assert passed[True, allow] <= passed[False, allow]
    for many in (False, True):
        assert passed[many, False] <= passed[many, True]


def _passing(
    tmp_path: Path, guards: Sequence[Guard], person: str, claims_policy: bool, allow_writes: bool
) -> frozenset[str]:
    """Return which bodies run, of all calls, under these guards."""
    bodies.clear()
    packs: dict[str, object] = {"bench": bench(edit), "policy": Pack(guard_tool_call=lambda: None)}
    packs |= {f"g{n}": Pack(guard_tool_call=one.asks) for n, one in enumerate(guards) if not one.on_agent}
    answer = PEOPLE[person]
    packs |= {"phone": Pack(answer_interaction=answer)} if answer else {}
    places = Places(tmp_path / "config.toml", tmp_path / "state")
    places.config_file.write_text(FRONT_ENDS if answer else "", "utf-8")

    async def main() -> None:
        policy = ("policy",) if claims_policy else ()
        async with Host.open(environ={}, distributions=[], packs=packs, policy=policy, places=places) as host:
            agent = await host.create_agent(directory=tmp_path, model=ScriptedModel(reply(*ASKED), "done"))
            for one in guards:
                if one.on_agent:
                    agent.register(Pack(guard_tool_call=one.asks))
            end = await agent.followup("go", allow_writes=allow_writes).wait()
            assert (end.reason, end.calls - end.denied) == ("completed", len(bodies))

    asyncio.run(main())
    return frozenset(bodies)
