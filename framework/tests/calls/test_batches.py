"""The calls of one reply: which run beside each other, in what order they are committed, what a model reads of them."""

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pegboard import (
    Agent,
    Answer,
    Block,
    Definition,
    Deny,
    Entry,
    Event,
    Finish,
    GuardedCall,
    Host,
    Interaction,
    Limits,
    ModelEvent,
    NeedsApproval,
    Outcome,
    PegboardError,
    Run,
    RunEnd,
    TextDelta,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    ToolRun,
    hookimpl,
    tool,
)
from pegboard.config.places import Places
from pegboard.events import Called, Replied, Returned
from pegboard.record.stores import MemoryStore
from pegboard.testing import ScriptedModel, call, recorded

Body = Callable[[ToolContext, str], Awaitable[str]]


class Pack(ModuleType):
    """A pack made of functions, each the implementation of the hook that it is named after."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        super().__init__("pack")
        vars(self).update({name: hookimpl(function) for name, function in functions.items()})


@dataclass
class Took:
    """A run that has ended, its record, and what the model was shown."""

    end: RunEnd
    events: list[Event]
    model: ScriptedModel

    @property
    def called(self) -> list[Called]:
        """The calls, as they were recorded before their bodies ran."""
        return [event for event in self.events if isinstance(event, Called)]

    @property
    def returned(self) -> list[Returned]:
        """How they ended, in the order in which that was recorded."""
        return [event for event in self.events if isinstance(event, Returned)]

    @property
    def codes(self) -> list[str | None]:
        """The kinds of failure, None for a success."""
        return [event.code for event in self.returned]

    @property
    def contents(self) -> list[str]:
        """What is recorded as what the model reads."""
        return [event.content for event in self.returned]

    @property
    def read(self) -> list[ToolResult]:
        """The results that the model was shown with its last request."""
        return [message for message in self.model.requests[-1].messages if isinstance(message, ToolResult)]


async def take(
    folder: Path,
    tools: Sequence[Tool],
    *script: Any,
    allow_writes: bool = False,
    meanwhile: Callable[[Run], Coroutine[Any, Any, None]] | None = None,
    packs: dict[str, object] | None = None,
    front_ends: Sequence[str] = (),
    **limits: Any,
) -> Took:
    """Let a run go to its end, its model answering with these turns and then `over`; one that hangs is cancelled."""
    bench = Pack(register_tools=lambda: tools)
    places = Places(folder / "config.toml", folder / "state")
    places.config_file.write_text(f"[interactions]\nfront_ends = {json.dumps(list(front_ends))}\n", "utf-8")
    host = Host.open(environ={}, distributions=[], packs={"bench": bench, **(packs or {})}, places=places)
    assert [pack.reason for pack in host.packs if pack.state != "active"] == []
    async with host:
        model = ScriptedModel(*script, "over")
        agent = await host.create_agent(Definition(limits=Limits(**limits)), directory=folder, model=model)
        run = host.submit(agent, "go", allow_writes=allow_writes)
        rescue = asyncio.get_running_loop().call_later(8, run.cancel, "the test gave up waiting")
        beside = asyncio.ensure_future(meanwhile(run) if meanwhile else turns(0))
        end = await run.wait()
        rescue.cancel()
        await turns(1)
        if not beside.cancel():
            beside.result()
        return Took(end, [entry.event for entry in await host.entries(agent.id)], model)


def taken(folder: Path, tools: Sequence[Tool], *script: Any, **options: Any) -> Took:
    """See `take`, in an event loop of its own."""
    return asyncio.run(take(folder, tools, *script, **options))


def made(name: str, body: Body, **options: Any) -> Tool:
    """Make a tool whose body gets the parameter `tag`; a parallel one that reads unless `options` say otherwise."""

    @tool(name=name, **{"effect": "read", "concurrency": "parallel", **options})
    async def run_it(ctx: ToolContext, tag: str = "") -> str:
        """Do something for a test."""
        return await body(ctx, tag)

    return run_it


def reply(*calls: ToolCall, stop: Any = "end", text: str = "") -> list[ModelEvent]:
    """Return the events of one reply with these calls."""
    return [*([TextDelta(text)] if text else []), *calls, Finish(stop=stop)]


async def turns(number: int) -> None:
    """Let the others go on for so many turns of the loop."""
    for _ in range(number):
        await asyncio.sleep(0)


class Stage:
    """Counts the bodies that run at the same time; `log` is who went in (`+`) and out (`-`), by tag."""

    def __init__(self, stay: int = 5) -> None:
        self.stay = stay
        self.log: list[str] = []
        self.inside: list[str] = []
        self.most = 0

    async def body(self, ctx: ToolContext, tag: str) -> str:
        """Stay for a while."""
        self.log.append(f"+{tag}")
        self.inside.append(tag)
        self.most = max(self.most, len(self.inside))
        await turns(self.stay)
        self.inside.remove(tag)
        self.log.append(f"-{tag}")
        return f"did {tag}"

    def tools(self) -> list[Tool]:
        """Return `side`, which may run beside others, and `alone`, which may not."""
        return [made("side", self.body), made("alone", self.body, concurrency="exclusive")]


class Meeting:
    """A body that ends when so many of its kind have come: they never do unless they run beside each other."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.here: list[str] = []
        self.full = asyncio.Event()

    async def body(self, ctx: ToolContext, tag: str) -> str:
        """Wait for the others."""
        self.here.append(tag)
        if len(self.here) >= self.wanted:
            self.full.set()
        ctx.cancel.on_cancel(self.full.set)
        await self.full.wait()
        return f"{tag} of {len(self.here)}"


async def say(ctx: ToolContext, tag: str) -> str:
    """Return the tag."""
    return tag


# -- which run beside each other


@pytest.mark.parametrize("effect", ["read", "write"])
def test_calls_of_parallel_tools_run_beside_each_other_whatever_their_effect(tmp_path: Path, effect: str) -> None:
    """B1 as adapted: the tool says so, in every mode."""
    tools = [made("meet", Meeting(3).body, effect=effect)]

    took = taken(tmp_path, tools, reply(*(call("meet", tag=tag) for tag in "abc")), allow_writes=True)

    assert took.contents == ["a of 3", "b of 3", "c of 3"]


def test_calls_of_exclusive_tools_run_one_after_the_other(tmp_path: Path) -> None:
    """B1: a tool that does not say so is exclusive."""
    stage = Stage()

    @tool(effect="read")
    async def plain(ctx: ToolContext, tag: str) -> str:
        """Stay for a while."""
        return await stage.body(ctx, tag)

    took = taken(tmp_path, [plain], reply(*(call("plain", tag=tag) for tag in "abc")))

    assert stage.log == ["+a", "-a", "+b", "-b", "+c", "-c"]
    assert took.contents == ["did a", "did b", "did c"]


def test_a_call_of_nobody_knows_what_is_a_barrier(tmp_path: Path) -> None:
    """B2, T45: only a tool that is known to be parallel is."""
    stage = Stage()

    took = taken(tmp_path, stage.tools(), reply(call("side", tag="a"), call("who"), call("side", tag="b")))

    assert stage.log == ["+a", "-a", "+b", "-b"]
    assert took.codes == [None, "UNKNOWN_TOOL", None]


def test_a_single_parallel_call_is_taken_like_any_other(tmp_path: Path) -> None:
    """B3."""
    took = taken(tmp_path, [made("say", say)], call("say", tag="x"))

    assert [(event.content, event.code) for event in took.returned] == [("x", None)]


def test_an_exclusive_call_overlaps_with_nothing_before_or_after_it(tmp_path: Path) -> None:
    """AC-T34."""
    stage = Stage()
    calls = [call("side", tag="p1"), call("alone", tag="e"), call("side", tag="p2")]

    took = taken(tmp_path, stage.tools(), reply(*calls))

    assert stage.log == ["+p1", "-p1", "+e", "-e", "+p2", "-p2"]
    assert [event.id for event in took.returned] == [asked.id for asked in calls]


def test_an_exclusive_call_stands_between_two_groups_that_each_run_beside_each_other(tmp_path: Path) -> None:
    """AC-T34, T45."""
    stage = Stage()
    calls = [*(call("side", tag=tag) for tag in "ab"), call("alone", tag="e"), *(call("side", tag=tag) for tag in "cd")]

    taken(tmp_path, stage.tools(), reply(*calls))

    assert stage.log == ["+a", "+b", "-a", "-b", "+e", "-e", "+c", "+d", "-c", "-d"]


def test_all_before_an_exclusive_call_is_committed_when_it_is_let_in_and_it_before_the_next(tmp_path: Path) -> None:
    """T45: it may build on what is recorded."""
    seen: list[tuple[str, str, int]] = []

    def guard(call: GuardedCall) -> None:
        committed = [message for message in call.agent.session.messages if isinstance(message, ToolResult)]
        seen.append((str(call.arguments["tag"]), call.phase, len(committed)))

    calls = [call("side", tag="a"), call("side", tag="b"), call("alone", tag="e"), call("side", tag="c")]
    taken(tmp_path, Stage().tools(), reply(*calls), packs={"watch": Pack(guard_tool_call=guard)})

    assert seen[:4] == [("a", "intent", 0), ("a", "dispatch", 0), ("b", "intent", 0), ("b", "dispatch", 0)]
    assert seen[4:] == [("e", "intent", 2), ("e", "dispatch", 2), ("c", "intent", 3), ("c", "dispatch", 3)]


@pytest.mark.parametrize(("parallel", "most"), [(1, 1), (2, 2), (3, 3), (50, 7)])
def test_no_more_bodies_run_at_once_than_the_limit_says(tmp_path: Path, parallel: int, most: int) -> None:
    """T45: 1 is serial."""
    stage = Stage()

    took = taken(tmp_path, stage.tools(), reply(*(call("side", tag=tag) for tag in "abcdefg")), parallel=parallel)

    assert (stage.most, took.contents) == (most, [f"did {tag}" for tag in "abcdefg"])


def test_ten_bodies_run_at_once_unless_a_limit_says_otherwise(tmp_path: Path) -> None:
    """T45."""
    stage, meeting = Stage(), Meeting(10)

    async def body(ctx: ToolContext, tag: str) -> str:
        await meeting.body(ctx, tag)
        return await stage.body(ctx, tag)

    took = taken(tmp_path, [made("meet", body)], reply(*(call("meet", tag=str(number)) for number in range(14))))

    assert (stage.most, took.codes) == (10, [None] * 14)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "many"])
def test_the_number_of_bodies_at_once_is_a_positive_integer(wrong: object) -> None:
    """T45."""
    with pytest.raises(ValueError, match="parallel"):
        Limits.model_validate({"parallel": wrong})


def test_a_body_that_is_called_again_after_a_persons_yes_takes_room_like_any_other(tmp_path: Path) -> None:
    """T45, rule 8."""
    stage = Stage(stay=50)

    async def body(ctx: ToolContext, tag: str) -> str:
        if tag == "a" and not ctx.approved:
            await turns(10)
            raise NeedsApproval("may I?")
        return await stage.body(ctx, tag)

    async def answer_yes(interaction: Interaction) -> Answer:
        return Answer.yes()

    phone = Pack(answer_interaction=answer_yes)
    calls = [call("ask", tag=tag) for tag in "abcdef"]
    took = taken(tmp_path, [made("ask", body)], reply(*calls), packs={"phone": phone}, front_ends=["phone"], parallel=2)

    assert took.contents == [f"did {tag}" for tag in "abcdef"]
    assert stage.most <= 2


# -- in which order


def test_results_are_committed_and_read_in_the_order_of_the_calls_when_the_bodies_end_in_reverse(
    tmp_path: Path,
) -> None:
    """B4."""
    ends = {tag: asyncio.Event() for tag in "abc"}
    order: list[str] = []

    async def body(ctx: ToolContext, tag: str) -> str:
        if later := {"a": "b", "b": "c"}.get(tag):
            await ends[later].wait()
        ends[tag].set()
        order.append(tag)
        return tag

    calls = [call("wait", tag=tag) for tag in "abc"]
    took = taken(tmp_path, [made("wait", body)], reply(*calls))

    assert order == ["c", "b", "a"]
    assert took.contents == [result.content for result in took.read] == ["a", "b", "c"]
    assert [event.id for event in took.returned] == [event.id for event in took.called] == [one.id for one in calls]


def test_guards_and_the_record_come_before_each_body_and_what_follows_it_in_the_order_of_the_calls(
    tmp_path: Path,
) -> None:
    """T45: only bodies overlap."""
    log: list[str] = []
    meeting = Meeting(2)

    async def guard(call: GuardedCall) -> None:
        log.append(f"{call.phase} {call.arguments['tag']}")
        await turns(3)

    async def body(ctx: ToolContext, tag: str) -> str:
        log.append(f"body {tag}")
        await meeting.body(ctx, tag)
        if tag == "a":
            await turns(9)
        return tag

    async def post(call: ToolRun, result: Outcome) -> None:
        log.append(f"post {result.content}")

    def observe(event: Event) -> None:
        if isinstance(event, Called | Returned):
            log.append(
                f"{event.type} {event.content if isinstance(event, Returned) else (event.arguments or {})['tag']}"
            )

    watch = Pack(guard_tool_call=guard, tool_post_execute=post, observe=observe)
    taken(tmp_path, [made("meet", body)], reply(*(call("meet", tag=tag) for tag in "ab")), packs={"watch": watch})

    in_order = ["intent a", "tool_call a", "dispatch a", "intent b", "tool_call b", "dispatch b"]
    in_order += ["post a", "tool_result a", "post b", "tool_result b"]
    assert [line for line in log if not line.startswith("body")] == in_order
    assert log.index("dispatch a") < log.index("body a") < log.index("post a")
    assert log.index("dispatch b") < log.index("body b") < log.index("post a")


def test_what_hits_one_of_several_parallel_calls_leaves_the_others_alone(tmp_path: Path) -> None:
    """B5: a denial, arguments that don't fit, an error, a guard that raises."""
    meeting = Meeting(3)

    async def body(ctx: ToolContext, tag: str) -> str:
        told = await meeting.body(ctx, tag)
        if tag == "raise":
            raise ToolError("it broke")
        return told

    def guard(call: GuardedCall) -> Deny | None:
        if call.arguments["tag"] == "upset":
            raise ValueError("the guard broke")
        return Deny("not this one") if call.arguments["tag"] == "deny" else None

    calls = [call("meet", tag=tag) for tag in ("a", "deny", "raise", "upset", "z")]
    calls.insert(2, call("meet", tags=1))
    took = taken(tmp_path, [made("meet", body)], reply(*calls), packs={"policy": Pack(guard_tool_call=guard)})

    assert took.codes == [None, "DENIED", "INVALID_ARGS", "TOOL_FAILED", "DENIED", None]
    assert (took.contents[0], took.contents[5], took.end.reason) == ("a of 3", "z of 3", "completed")
    assert sorted(meeting.here) == ["a", "raise", "z"]


def test_an_unknown_tool_is_an_error_and_the_other_calls_run(tmp_path: Path) -> None:
    """B6."""
    took = taken(tmp_path, [made("say", say)], reply(call("say", tag="a"), call("sey", tag="b"), call("say", tag="c")))

    assert (took.codes, took.contents[::2]) == ([None, "UNKNOWN_TOOL", None], ["a", "c"])


def test_arguments_that_are_no_json_are_an_error_that_the_model_reads_and_none_at_all_are_an_empty_object(
    tmp_path: Path,
) -> None:
    """T46."""
    calls = [ToolCall("a", "say", '{"tag": '), ToolCall("b", "say", "")]

    took = taken(tmp_path, [made("say", say)], reply(*calls))

    assert [(event.arguments, result.code) for event, result in zip(took.called, took.returned, strict=True)] == [
        (None, "INVALID_ARGS"),
        ({}, None),
    ]
    assert "not JSON" in took.read[0].content


# -- which are not run at all


@pytest.mark.parametrize("ids", [("",), ("", ""), ("x", "x"), ("x", "", "x"), ("1-1-2", "")])
def test_a_call_without_an_id_of_its_own_is_refused_and_the_others_run(tmp_path: Path, ids: tuple[str, ...]) -> None:
    """B28, B27: every result still names one call of the reply, which has no id twice."""
    stage, guarded = Stage(), Counter[str]()
    watch = Pack(guard_tool_call=lambda call: guarded.update([call.arguments["tag"]]))
    calls = [ToolCall(identity, "side", json.dumps({"tag": str(place)})) for place, identity in enumerate(ids)]
    good = [place for place, identity in enumerate(ids) if identity and identity not in ids[:place]]

    took = taken(tmp_path, stage.tools(), reply(*calls), packs={"watch": watch})

    assert took.codes == [None if place in good else "INVALID_CALL" for place in range(len(ids))]
    assert sorted(stage.log) == sorted(f"{sign}{place}" for place in good for sign in "+-")
    assert set(guarded) == {str(place) for place in good}
    (said,) = [event for event in took.events if isinstance(event, Replied) and event.calls]
    names = [one.id for one in said.calls]
    assert names == [event.id for event in took.called] == [event.id for event in took.returned]
    assert len(set(names)) == len(ids) and "" not in names


def test_a_reply_over_the_limit_of_calls_is_not_run_at_all(tmp_path: Path) -> None:
    """4.6: checked before the batch."""
    stage, guarded = Stage(), list[str]()
    watch = Pack(guard_tool_call=lambda call: guarded.append(call.name))

    took = taken(
        tmp_path, stage.tools(), reply(*(call("side") for _ in range(3))), packs={"watch": watch}, tool_calls=2
    )

    assert (stage.log, guarded, took.codes) == ([], [], ["LIMIT"] * 3)
    assert (took.end.reason, took.end.calls, len(took.called)) == ("limit", 0, 3)


def test_the_limit_of_calls_counts_over_the_steps(tmp_path: Path) -> None:
    """B22, without a pause."""
    stage = Stage()
    script = [reply(call("side", tag="a"), call("side", tag="b")), call("side", tag="c"), call("side", tag="d")]

    took = taken(tmp_path, stage.tools(), *script, tool_calls=3)

    assert took.codes == [None, None, None, "LIMIT"]
    assert (took.end.reason, took.end.calls, "+d" in stage.log) == ("limit", 3, False)


def test_calls_of_a_reply_that_was_cut_off_are_refused_together_and_the_model_may_try_once_more(
    tmp_path: Path,
) -> None:
    """B19: no guard and no body, an error for each in order, none is counted."""
    stage, guarded = Stage(), list[str]()
    watch = Pack(guard_tool_call=lambda call: guarded.append(call.name))
    calls = [call("side", tag="a"), call("who"), ToolCall("cut", "alone", '{"tag": "b')]

    took = taken(tmp_path, stage.tools(), reply(*calls, stop="max-tokens"), packs={"watch": watch}, tool_calls=2)

    assert (stage.log, guarded) == ([], [])
    assert [(event.id, event.status, event.code) for event in took.returned] == [
        (one.id, "error", "TRUNCATED") for one in calls
    ]
    assert [event.id for event in took.called] == [one.id for one in calls]
    assert (took.end.reason, took.end.text, took.end.calls, len(took.model.requests)) == ("completed", "over", 0, 2)
    assert [result.code for result in took.read] == ["TRUNCATED"] * 3


def test_a_second_reply_that_was_cut_off_ends_the_run(tmp_path: Path) -> None:
    """B19: also when another one was in between."""
    cut = [reply(call("say", tag=tag), stop="max-tokens", text="I will") for tag in "ab"]

    took = taken(tmp_path, [made("say", say)], cut[0], call("say", tag="x"), cut[1])

    assert took.codes == ["TRUNCATED", None, "TRUNCATED"]
    assert (took.end.reason, took.end.text, took.end.calls) == ("max-tokens", "I will", 1)


def test_a_text_that_was_cut_off_ends_the_run_at_once(tmp_path: Path) -> None:
    """B19."""
    took = taken(tmp_path, [made("say", say)], reply(text="Once upon", stop="max-tokens"))

    assert (took.end.reason, took.end.text, len(took.model.requests)) == ("max-tokens", "Once upon", 1)


# -- what a model reads of them


def long(tag: str) -> str:
    """Return as many letters as a tag such as `a500` says."""
    return tag[0] * int(tag[1:])


def sizes(*tags: str, **options: Any) -> Any:
    """Return a tool that answers with so many letters, counting its calls in `ran`, and a reply that calls it."""
    ran = Counter[str]()

    async def body(ctx: ToolContext, tag: str) -> str:
        ran[tag] += 1
        return long(tag)

    return made("size", body, **options), reply(*(call("size", tag=tag) for tag in tags)), ran


def test_the_longest_prefix_of_results_that_fits_stays_as_it_is(tmp_path: Path) -> None:
    """B14, B17: what does not fit is an error that says that the call ran; nothing runs twice."""
    size, asked, ran = sizes("a60", "b900", "c10")

    took = taken(tmp_path, [size], asked, batch_chars=1000)

    assert took.contents[0] == long("a60")
    assert took.codes == [None, "DOES_NOT_FIT", "DOES_NOT_FIT"]
    assert [event.status for event in took.returned] == ["ok", "error", "error"]
    assert all("ran and must not be repeated" in result.content for result in took.read[1:])
    assert (ran, took.end.reason) == (Counter(["a60", "b900", "c10"]), "completed")


@pytest.mark.parametrize("first", range(700, 900, 20))
def test_what_is_said_of_a_result_that_does_not_fit_becomes_shorter_until_it_fits(tmp_path: Path, first: int) -> None:
    """B15 as adapted: it is never a reason to end the run."""
    size, asked, ran = sizes(f"a{first}", *(f"b{900 + number}" for number in range(4)))

    took = taken(tmp_path, [size], asked, batch_chars=1000)

    lengths = [len(content) for content in took.contents]
    assert lengths[1:] == sorted(lengths[1:], reverse=True)
    assert sum(lengths) <= 1000
    assert took.codes[1:] == ["DOES_NOT_FIT"] * 4
    assert (set(ran.values()), took.end.reason) == ({1}, "completed")


def test_a_failure_that_does_not_fit_keeps_its_own_code(tmp_path: Path) -> None:
    """B14: what did not run is not said to have run."""

    async def body(ctx: ToolContext, tag: str) -> str:
        raise ToolError("x" * 990)

    fail = made("fail", body)

    took = taken(tmp_path, [made("say", say), fail], reply(call("say", tag="a"), call("fail")), batch_chars=1000)

    assert took.codes == [None, "TOOL_FAILED"]
    assert "must not be repeated" not in took.contents[1] and len(took.contents[1]) < 990


def test_a_result_that_does_not_fit_is_told_to_observers_as_the_failure_that_the_model_reads(tmp_path: Path) -> None:
    """B14: one success, one failure; B16: what is shown of it is what is recorded."""
    seen: list[str | None] = []

    def observe(event: Event) -> None:
        if isinstance(event, Returned):
            seen.append(event.code)

    size, asked, _ = sizes("a60", "b990")
    taken(tmp_path, [size], asked, batch_chars=1000, packs={"watch": Pack(observe=observe)})

    assert seen == [None, "DOES_NOT_FIT"]


class Reading:
    """A tool that reads an output of the session by its name, as `read_output` does."""

    def __init__(self) -> None:
        self.read: list[str] = []

    async def body(self, ctx: ToolContext, tag: str) -> str:
        """Read it."""
        try:
            self.read.append(await ctx.output(tag))
        except LookupError as error:
            return str(error)
        return "it was read"

    def tool(self) -> Tool:
        """Return it."""
        return made("reread", self.body)


def test_a_long_result_is_cut_and_the_whole_of_it_can_be_read_under_the_name_that_it_is_given(tmp_path: Path) -> None:
    """B18: every tool, one cap."""
    text = "".join(f"line {number}\n" for number in range(500))
    reading = Reading()

    async def body(ctx: ToolContext, tag: str) -> str:
        return text

    tools = [made("tell", body), reading.tool()]
    first = taken(tmp_path, tools, call("tell"), result_chars=1000)
    name = first.returned[0].output[:12]
    taken(tmp_path, tools, call("tell"), call("reread", tag=name), result_chars=1000)

    (cut,) = first.returned
    assert (cut.status, len(name), name in cut.content, len(cut.content) <= 1000) == ("ok", 12, True, True)
    assert cut.content.startswith("line 0\nline 1\n") and f"{len(text):,}" in cut.content
    assert reading.read == [text]


def test_a_result_as_long_as_the_limit_is_not_cut_and_keeps_nothing(tmp_path: Path) -> None:
    """B18."""
    store, (size, asked, _) = MemoryStore(), sizes("a1000")

    took = taken(tmp_path, [size], asked, packs={"store": Pack(session_store=lambda: store)}, result_chars=1000)

    assert (took.contents, took.returned[0].output) == ([long("a1000")], "")
    with pytest.raises(LookupError):
        asyncio.run(store.get_blob(hashlib.sha256(long("a1000").encode()).hexdigest()))


@pytest.mark.parametrize("name", ["", "0" * 12, "../../etc/passwd", "x" * 10_000])
def test_a_name_that_no_output_of_the_session_has_finds_nothing(tmp_path: Path, name: str) -> None:
    """B18."""
    took = taken(tmp_path, [Reading().tool()], call("reread", tag=name))

    assert took.contents[0] != "it was read" and len(took.contents[0]) < 200


def test_an_output_of_another_session_is_not_read(tmp_path: Path) -> None:
    """B18, rule 2."""
    store, size = MemoryStore(), sizes("a5000")
    packs = {"store": Pack(session_store=lambda: store)}
    other = taken(tmp_path, [size[0]], size[1], packs=packs, result_chars=1000)
    name = other.returned[0].output[:12]

    took = taken(tmp_path, [Reading().tool()], call("reread", tag=name), packs=packs)

    assert (len(name), took.contents[0]) == (12, f"this session has no output {name}")


class ForgetfulStore(MemoryStore):
    """Keeps no blob that has `zzz` in it."""

    async def put_blob(self, data: bytes) -> str:
        """See `SessionStore.put_blob`."""
        if b"zzz" in data:
            raise PegboardError("the disk is full")
        return await super().put_blob(data)


def test_a_long_result_that_cannot_be_kept_is_an_error_and_no_part_of_it_is_read(tmp_path: Path) -> None:
    """B18: never the raw text, and never a second call."""
    size, asked, ran = sizes("z5000", "a10")
    store = Pack(session_store=lambda: ForgetfulStore())

    took = taken(tmp_path, [size], asked, packs={"store": store}, result_chars=1000)

    assert took.codes == ["OUTPUT_LOST", None]
    assert "zzz" not in took.contents[0] and "must not be repeated" in took.contents[0]
    assert (ran, took.end.reason) == (Counter(["z5000", "a10"]), "completed")


def test_what_is_kept_of_a_long_result_went_through_the_filters(tmp_path: Path) -> None:
    """B18, rule 15: nothing is recorded, kept or read unfiltered."""
    reading = Reading()

    async def body(ctx: ToolContext, tag: str) -> str:
        return "the secret is in here, " * 100

    def redact(entry: Any) -> Any:
        return entry.rewriting(lambda text: text.replace("secret", "******"))

    tools, packs = [made("tell", body), reading.tool()], {"redact": Pack(filter_entry=redact)}
    took = taken(tmp_path, tools, call("tell"), packs=packs, result_chars=1000)
    taken(
        tmp_path, tools, call("tell"), call("reread", tag=took.returned[0].output[:12]), packs=packs, result_chars=1000
    )

    assert reading.read == ["the ****** is in here, " * 100]
    assert "secret" not in took.contents[0]


# -- cancelled in the midst


class Patient:
    """A body that tells when it has begun, and ends when it is told to stop or let go."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.told: list[str | None] = []

    async def body(self, ctx: ToolContext, tag: str) -> str:
        """Wait."""
        self.begun.set()
        ctx.cancel.on_cancel(self.go.set)
        await self.go.wait()
        self.told.append(ctx.cancel.cause)
        return "it took effect"


def test_a_cancel_in_the_midst_keeps_what_has_ended_awaits_what_runs_and_starts_nothing_more(tmp_path: Path) -> None:
    """B23: the body sees the cancel itself, with its cause."""
    stage, patient = Stage(), Patient()
    calls = [call("alone", tag="a"), call("wait"), call("alone", tag="b"), call("side", tag="c"), call("who")]

    async def cancel(run: Run) -> None:
        await patient.begun.wait()
        run.cancel("enough")

    took = taken(tmp_path, [*stage.tools(), made("wait", patient.body)], reply(*calls), meanwhile=cancel)

    assert took.codes == [None, "ABORTED", *["ABORTED_BEFORE_DISPATCH"] * 3]
    assert (stage.log, patient.told) == (["+a", "-a"], ["enough"])
    assert (took.end.reason, took.end.text, len(took.called)) == ("aborted", "enough", 5)


def test_of_parallel_calls_those_that_run_are_awaited_and_those_that_wait_for_room_never_start(tmp_path: Path) -> None:
    """B23, T45."""
    meeting, stage = Meeting(99), Stage()

    async def cancel(run: Run) -> None:
        await turns(60)
        assert meeting.here == ["a", "b"]
        run.cancel("enough")

    calls = [*(call("meet", tag=tag) for tag in "abcd"), call("alone", tag="e")]
    tools = [*stage.tools(), made("meet", meeting.body)]
    took = taken(tmp_path, tools, reply(*calls), meanwhile=cancel, parallel=2)

    assert (meeting.here, stage.log) == (["a", "b"], [])
    assert took.codes == ["ABORTED", "ABORTED", *["ABORTED_BEFORE_DISPATCH"] * 3]


def test_what_returned_before_the_cancel_is_committed_as_it_is(tmp_path: Path) -> None:
    """B24: also if the cancel comes while the packs look at it, or while its turn has not come."""
    patient, ended = Patient(), asyncio.Event()

    async def quick(ctx: ToolContext, tag: str) -> str:
        ended.set()
        return "the result"

    async def cancel(run: Run) -> None:
        await ended.wait()
        await patient.begun.wait()
        await turns(20)
        run.cancel("enough")

    tools = [made("wait", patient.body), made("quick", quick)]
    took = taken(tmp_path, tools, reply(call("wait"), call("quick")), meanwhile=cancel)

    assert [(event.code, event.content) for event in took.returned][1] == (None, "the result")
    assert took.end.reason == "aborted"


def test_a_cancel_while_the_packs_look_at_a_result_leaves_it_as_it_is(tmp_path: Path) -> None:
    """B24."""

    def post(call: ToolRun) -> None:
        assert call.agent.current_run is not None
        call.agent.current_run.cancel("enough")

    took = taken(
        tmp_path,
        [made("say", say)],
        reply(call("say", tag="a"), call("say", tag="b")),
        packs={"post": Pack(tool_post_execute=post)},
        parallel=1,
    )

    assert (took.codes, took.contents[0], took.end.reason) == ([None, "ABORTED_BEFORE_DISPATCH"], "a", "aborted")


@pytest.mark.parametrize("error", [asyncio.CancelledError("mine"), TimeoutError("mine"), SystemExit("mine")])
def test_a_body_that_gives_up_by_itself_has_failed_and_the_run_goes_on(tmp_path: Path, error: BaseException) -> None:
    """B25: it is no cancel of the run."""

    async def body(ctx: ToolContext, tag: str) -> str:
        raise error

    took = taken(
        tmp_path, [made("stop", body), made("say", say)], reply(call("stop"), call("say", tag="b"), call("stop"))
    )

    assert (took.codes, took.end.reason) == (["TOOL_FAILED", None, "TOOL_FAILED"], "completed")


def test_a_body_that_never_ends_is_given_up_and_what_ran_beside_it_keeps_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules 9 and 10."""
    monkeypatch.setattr("pegboard.calls.body.GRACE_SECONDS", 0.02)

    async def endless(ctx: ToolContext, tag: str) -> str:
        await asyncio.Event().wait()
        return ""

    tools = [made("endless", endless, timeout=0.02), made("say", say)]
    calls = [call("say", tag="a"), call("endless"), call("say", tag="b"), call("who"), call("say", tag="c")]
    took = taken(tmp_path, tools, reply(*calls))

    assert took.codes == [None, "INDETERMINATE", None, "ABORTED_BEFORE_DISPATCH", "ABORTED_BEFORE_DISPATCH"]
    assert (took.end.reason, "endless" in took.end.text) == ("error", True)


def test_a_program_that_ends_at_any_moment_of_a_batch_leaves_a_result_of_every_call(tmp_path: Path) -> None:
    """Rule 10: when the event loop is torn down, every task is cancelled, those of the bodies too."""
    reasons: list[str] = []

    async def main(moment: int) -> Agent:
        stage, model = Stage(), ScriptedModel(reply(*(call("side", tag=tag) for tag in "abcd"), call("alone")), "over")
        bench = Pack(register_tools=lambda: stage.tools())
        places = Places(tmp_path / "config.toml", tmp_path / "state")
        host = Host.open(environ={}, distributions=[], packs={"bench": bench}, places=places)
        await host.start()
        agent = await host.create_agent(Definition(limits=Limits(parallel=3)), directory=tmp_path, model=model)
        host.submit(agent, "go")
        await turns(moment)
        return agent

    while not reasons or reasons[-1] != "completed":
        events = recorded(asyncio.run(main(len(reasons))))
        called = [event.id for event in events if isinstance(event, Called)]
        assert called == [event.id for event in events if isinstance(event, Returned)], f"at moment {len(reasons)}"
        reasons += [event.reason for event in events if isinstance(event, RunEnd)] or ["dropped"]
        assert len(reasons) < 300

    assert {"aborted", "completed"} <= set(reasons)


class FullStore(MemoryStore):
    """Has no room for the result that says `b`."""

    async def append(self, session: str, entries: Sequence[Entry], *, expect: int) -> None:
        """See `SessionStore.append`."""
        if any(isinstance(entry.event, Returned) and entry.event.content == "b" for entry in entries):
            raise PegboardError("the disk is full")
        await super().append(session, entries, expect=expect)


def test_a_record_that_is_lost_in_the_midst_ends_the_run_after_what_runs(tmp_path: Path) -> None:
    """Rules 9 and 10: nothing starts unrecorded, nothing goes on unwatched."""
    log: list[str | None] = []
    stage = Stage()

    async def slow_to_stop(ctx: ToolContext, tag: str) -> str:
        await ctx.cancel.wait()
        await turns(50)
        log.append(ctx.cancel.cause)
        return "stopped"

    def observe(event: Event) -> None:
        if isinstance(event, RunEnd):
            log.append(event.reason)

    calls = [call("say", tag="a"), call("say", tag="b"), call("slow"), call("alone", tag="c")]
    tools = [*stage.tools(), made("say", say), made("slow", slow_to_stop)]
    packs = {"store": Pack(session_store=lambda: FullStore()), "watch": Pack(observe=observe)}
    took = taken(tmp_path, tools, reply(*calls), packs=packs)

    assert (log, stage.log) == (["the run has failed", "error"], [])
    assert "the disk is full" in took.end.text


# -- committed once


def test_a_result_is_in_the_record_before_anybody_is_told_and_who_fails_then_changes_nothing(tmp_path: Path) -> None:
    """B27: committed before projected; a failing projection does not run it again."""
    recorded: list[bool] = []
    ran = Counter[str]()

    class Store(MemoryStore):
        """Knows what it was given."""

        ids: set[str] = set()  # noqa: RUF012

        async def append(self, session: str, entries: Any, *, expect: int) -> None:
            """See `SessionStore.append`."""
            await super().append(session, entries, expect=expect)
            self.ids.update(entry.event.id for entry in entries if isinstance(entry.event, Returned))

    def observe(event: Event) -> None:
        if isinstance(event, Returned):
            recorded.append(event.id in Store.ids)
            raise ValueError("the page can't be drawn")

    async def body(ctx: ToolContext, tag: str) -> str:
        ran[tag] += 1
        return tag

    packs = {"store": Pack(session_store=lambda: Store()), "page": Pack(observe=observe)}
    took = taken(tmp_path, [made("say", body)], reply(call("say", tag="a"), call("say", tag="b")), packs=packs)

    assert (recorded, ran, took.contents) == ([True, True], Counter("ab"), ["a", "b"])
    assert took.end.reason == "completed"


# -- concluding


def concluding(name: str = "finish", **options: Any) -> Tool:
    """Make a tool whose success ends the run; the tag `fail` fails after it has said so."""

    async def body(ctx: ToolContext, tag: str) -> str:
        ctx.conclude()
        if tag == "fail":
            raise ToolError("it failed after all")
        return f"the end: {tag}"

    return made(name, body, **options)


def test_a_success_that_concludes_ends_the_run_with_its_content(tmp_path: Path) -> None:
    """T47."""
    took = taken(tmp_path, [concluding()], call("finish", tag="x"))

    assert (took.end.reason, took.end.text, len(took.model.requests)) == ("completed", "the end: x", 1)


def test_the_other_calls_of_a_reply_that_concludes_still_run(tmp_path: Path) -> None:
    """T47: the run ends when the batch is committed."""
    calls = [call("say", tag="a"), call("finish", tag="x"), call("say", tag="b")]

    took = taken(tmp_path, [made("say", say), concluding()], reply(*calls))

    assert (took.contents, took.end.text) == (["a", "the end: x", "b"], "the end: x")


@pytest.mark.parametrize("how", ["fails", "is blocked", "does not fit", "is denied"])
def test_what_is_no_committed_success_concludes_nothing(tmp_path: Path, how: str) -> None:
    """T47."""
    tag = {"fails": "fail", "does not fit": "x" * 990}.get(how, "x")
    blocking = Pack(tool_post_execute=lambda: Block("not yet"))

    took = taken(
        tmp_path,
        [concluding(effect="write" if how == "is denied" else "read")],
        call("finish", tag=tag),
        packs={"post": blocking} if how == "is blocked" else {},
        batch_chars=1000,
    )

    assert (took.end.reason, took.end.text, took.returned[0].status != "ok") == ("completed", "over", True)


def test_input_that_already_waits_for_the_next_step_still_runs_after_a_conclusion(tmp_path: Path) -> None:
    """T47."""

    async def body(ctx: ToolContext, tag: str) -> str:
        ctx.conclude()
        agents[0].steer("one more thing")
        return "the end"

    agents: list[Agent] = []
    watch = Pack(agent_created=lambda agent: agents.append(agent))
    took = taken(tmp_path, [made("finish", body)], call("finish"), packs={"watch": watch})

    assert (took.end.text, len(took.model.requests)) == ("over", 2)
    assert getattr(took.model.requests[1].messages[-1], "text", "") == "one more thing"


# -- whatever comes


@dataclass(frozen=True)
class Kind:
    """A kind of call: which tool, whether it runs beside others, whether its body runs, and the code of its end."""

    tool: str
    parallel: bool
    runs: bool
    code: str | None


KINDS = [
    Kind("side", True, True, None),
    Kind("side_fails", True, True, "TOOL_FAILED"),
    Kind("alone", False, True, None),
    Kind("alone_fails", False, True, "TOOL_FAILED"),
    Kind("side_denied", True, False, "DENIED"),
    Kind("alone_denied", False, False, "DENIED"),
    Kind("nobody", False, False, "UNKNOWN_TOOL"),
]


@dataclass
class Theatre:
    """Bodies that stay until they are let go; the tag of each is its place among the calls."""

    kinds: Sequence[Kind]
    inside: dict[int, asyncio.Event] = field(default_factory=dict)
    begun: Counter[int] = field(default_factory=Counter)
    ended: set[int] = field(default_factory=set)
    trouble: list[str] = field(default_factory=list)
    most: int = 0

    async def body(self, ctx: ToolContext, tag: str) -> str:
        """Stay, and see to it that nobody is here who must not be."""
        place = int(tag)
        if self.inside and not all(self.kinds[other].parallel for other in [*self.inside, place]):
            self.trouble.append(f"{place} overlaps with {sorted(self.inside)}")
        self.begun[place] += 1
        self.inside[place] = asyncio.Event()
        self.most = max(self.most, len(self.inside))
        await self.inside[place].wait()
        del self.inside[place]
        self.ended.add(place)
        if self.kinds[place].code:
            raise ToolError("it failed")
        return f"{place} took effect"

    def tools(self) -> list[Tool]:
        """Return a tool for each kind that has one."""
        return [
            made(kind.tool, self.body, concurrency="parallel" if kind.parallel else "exclusive")
            for kind in KINDS
            if kind.tool != "nobody"
        ]

    def expected(self, parallel: int) -> list[int]:
        """The places of the bodies that are under way when everybody has done what could be done."""
        running: list[int] = []
        for place, kind in enumerate(self.kinds):
            if len(running) >= (parallel if kind.parallel else 1):
                break
            if kind.runs and place not in self.ended:
                running.append(place)
                if not kind.parallel:
                    break
        return running


def deny(call: GuardedCall) -> Deny | None:
    """Refuse the calls that are to be refused."""
    return Deny("no") if call.name.endswith("denied") else None


batches = st.lists(st.sampled_from(KINDS), min_size=1, max_size=12)
choices = st.lists(st.integers(0, 11), min_size=12, max_size=12)


def played(
    folder: Path, kinds: Sequence[Kind], order: Sequence[int], parallel: int, cancel_at: int | None, settle: int
) -> tuple[Theatre, Took, list[bool]]:
    """Let the bodies of a batch go one by one in an order, and cancel the run before one of them or not at all.

    Also returns whether, each time, exactly those bodies were under way that could be.
    """
    theatre = Theatre(kinds)
    as_expected: list[bool] = []

    async def conduct(run: Run) -> None:
        for number in range(1000):
            await turns(settle)
            if number == cancel_at:
                run.cancel("enough")
            elif not run.signal.cancelled:
                as_expected.append(sorted(theatre.inside) == theatre.expected(parallel))
            if theatre.inside:
                here = sorted(theatre.inside)
                theatre.inside[here[order[number % len(order)] % len(here)]].set()
        raise AssertionError("the run does not end")

    calls = [ToolCall(f"c{place}", kind.tool, json.dumps({"tag": str(place)})) for place, kind in enumerate(kinds)]
    took = taken(
        folder, theatre.tools(), reply(*calls), meanwhile=conduct, packs={"policy": Pack(guard_tool_call=deny)},
        parallel=parallel,
    )  # fmt: skip
    return theatre, took, as_expected


def check_record(kinds: Sequence[Kind], theatre: Theatre, took: Took, parallel: int) -> None:
    """What holds for every batch: each body at most once, one Called before one Returned, in call order (rule 10)."""
    ids = [f"c{place}" for place in range(len(kinds))]
    assert [event.id for event in took.called] == ids
    assert [event.id for event in took.returned] == ids
    assert [result.call_id for result in took.read] == ([] if len(took.model.requests) == 1 else ids)
    for one in ids:
        pair = [event.type for event in took.events if isinstance(event, Called | Returned) and event.id == one]
        assert pair == ["tool_call", "tool_result"]
    assert set(theatre.begun.values()) <= {1}
    assert theatre.begun.keys() == theatre.ended
    assert (theatre.trouble, theatre.most <= parallel) == ([], True)


@given(batches, choices, st.integers(1, 4))
def test_in_every_batch_all_that_may_run_does_and_each_ends_as_it_would_alone(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[Kind], order: list[int], parallel: int
) -> None:
    """T45, B1 to B6, AC-T34, rule 10."""
    theatre, took, as_expected = played(tmp_path_factory.getbasetemp(), kinds, order, parallel, None, settle=60)

    check_record(kinds, theatre, took, parallel)
    assert took.codes == [kind.code for kind in kinds]
    assert all(as_expected)
    assert theatre.ended == {place for place, kind in enumerate(kinds) if kind.runs}
    assert took.end.reason == "completed"


@given(batches, choices, st.integers(1, 4), st.integers(0, 12), st.integers(1, 9))
def test_a_cancel_at_any_moment_leaves_one_end_of_every_call_and_starts_nothing_more(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[Kind], order: list[int], parallel: int, at: int, pace: int
) -> None:
    """B23, B24, T44, T45, rules 9 and 10."""
    theatre, took, _ = played(tmp_path_factory.getbasetemp(), kinds, order, parallel, at, settle=pace)

    check_record(kinds, theatre, took, parallel)
    started = [place in theatre.begun for place in range(len(kinds))]
    for kind, code, ran in zip(kinds, took.codes, started, strict=True):
        assert code in ({kind.code, "ABORTED"} if ran and kind.code is None else {kind.code, "ABORTED_BEFORE_DISPATCH"})
        assert ran or code is not None
    never = [code == "ABORTED_BEFORE_DISPATCH" for code in took.codes]
    assert never == sorted(never), "a call was let in after one that was not"
    assert took.end.reason in ("aborted", "completed")
    assert took.end.reason == "aborted" or took.codes == [kind.code for kind in kinds]


@given(st.lists(st.integers(0, 700), min_size=1, max_size=12), st.integers(1000, 3000))
def test_of_results_of_any_length_a_prefix_stays_and_nothing_is_longer_than_it_may_be(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], batch_chars: int
) -> None:
    """B14 to B17."""
    tags = [f"{chr(97 + place)}{length}" for place, length in enumerate(lengths)]
    size, asked, ran = sizes(*tags)

    took = taken(tmp_path_factory.getbasetemp(), [size], asked, batch_chars=batch_chars)

    kept = [
        content == long(tag) and code is None
        for content, code, tag in zip(took.contents, took.codes, tags, strict=True)
    ]
    assert kept == sorted(kept, reverse=True)
    assert [code for code, whole in zip(took.codes, kept, strict=True) if not whole] == ["DOES_NOT_FIT"] * kept.count(
        False
    )
    assert sum(map(len, took.contents)) <= batch_chars
    assert all(kept) or sum(lengths) + 100 * len(lengths) > batch_chars
    assert (ran, took.end.reason) == (Counter(tags), "completed")
