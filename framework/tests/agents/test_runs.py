"""A run from its input to its end: one start, one end, one result a call, on every path; what a model is shown."""

import asyncio
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
from pegboard import (
    Agent,
    AssistantMessage,
    Definition,
    Enter,
    Event,
    Finish,
    Host,
    Limits,
    Message,
    ModelError,
    ModelEvent,
    ModelRequest,
    Output,
    PegboardError,
    Reject,
    Run,
    Session,
    Step,
    TextDelta,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    Usage,
    UsageError,
    UserMessage,
    hookimpl,
    tool,
)
from pegboard.testing import recorded

Record = list[dict[str, Any]]


class Hooks(ModuleType):
    """A module made of functions, each the implementation of the hook that it is named after."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        super().__init__("hooks")
        vars(self).update({name: hookimpl(function) for name, function in functions.items()})


class Turns:
    """A model that answers from a list and lets others run between two events; the last turn is repeated."""

    label = "turns of the test"

    def __init__(self, *turns: Sequence[ModelEvent | BaseException]) -> None:
        self.turns = list(turns)
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the next turn's events; raise those that are errors."""
        self.requests.append(request)
        for event in self.turns[min(len(self.requests), len(self.turns)) - 1]:
            await asyncio.sleep(0)
            if isinstance(event, BaseException):
                raise event
            yield event
            await asyncio.sleep(0)


class Ended(NamedTuple):
    """A run that is over."""

    end: dict[str, Any]
    record: Record
    messages: list[Message]


@tool(effect="read")
async def count(upto: int = 1) -> int:
    """Count slowly."""
    for _ in range(upto):
        await asyncio.sleep(0)
    return upto


@tool(effect="write")
def spoil() -> str:
    """Spoil something."""
    return "spoilt"


def called(*names: str) -> list[ToolCall]:
    """Return calls of these tools, without arguments."""
    return [ToolCall(f"c{index}", name, "") for index, name in enumerate(names)]


ANSWER: list[ModelEvent] = [TextDelta("It is "), TextDelta("done."), Finish(Usage(10, 2))]
TOOLS: tuple[Tool, ...] = (count, spoil)


@pytest.fixture
def open_with(open_host: Callable[..., Host], pack_folder: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Host]:
    """Open a host with these tools, in pack `bench`, and with the packs that are given by keyword."""

    def open_(*tools: Tool, **packs: object) -> Host:
        for name, pack in {"bench": Hooks(register_tools=lambda: tools or TOOLS), **packs}.items():
            monkeypatch.setitem(sys.modules, f"probe_{name}", SimpleNamespace(pack=pack))
            pack_folder.add(name, reference=f"probe_{name}:pack")
        host = open_host()
        assert [pack.reason for pack in host.packs if pack.state != "active"] == []
        return host

    return open_


async def under_way(
    host: Host, directory: Path, model: Any, *, limits: Limits | None = None, text: str = "go"
) -> tuple[Run, Agent]:
    """Begin a run of a new agent in a new session."""
    definition = Definition(limits=limits or Limits())
    agent = await host.create_agent(definition, session=Session.new(directory), model=model)
    return host.submit(agent, text), agent


def converse(host: Host, directory: Path, model: Any, **options: Any) -> Ended:
    """Let one run go to its end and check that its record is complete."""

    async def main() -> Ended:
        async with host:
            run, agent = await under_way(host, directory, model, **options)
            await run.wait()
        return complete(agent)

    return asyncio.run(main())


def complete(agent: Agent) -> Ended:
    """Check what holds on every path (rule 10, AC-L19) and return the record of the session's one run."""
    record = [event.as_json() for event in recorded(agent)]
    types = [event["type"] for event in record]
    assert (types[0], types.count("run_start")) == ("run_start", 1)
    assert (types[-1], types.count("run_end")) == ("run_end", 1)
    assert_paired(record, "step_start", "step_end", "step")
    assert_paired(record, "tool_call", "tool_result", "id")
    not_run = sum(event.get("code") in ("LIMIT", "TRUNCATED") for event in record)
    assert record[-1]["calls"] == types.count("tool_call") - not_run
    asked = [
        call.id for message in agent.session.messages if isinstance(message, AssistantMessage) for call in message.calls
    ]
    results = [message.call_id for message in agent.session.messages if isinstance(message, ToolResult)]
    assert results == asked
    json.dumps(record, allow_nan=False)
    return Ended(record[-1], record, agent.session.messages)


def assert_paired(record: Record, begin: str, end: str, key: str) -> None:
    """Every `begin` is followed by exactly one `end` of the same key, before the next `begin`."""
    seen = [(event["type"], event[key]) for event in record if event["type"] in (begin, end)]
    assert [kind for kind, _ in seen] == [begin, end] * (len(seen) // 2)
    assert [value for _, value in seen[::2]] == [value for _, value in seen[1::2]]


def types(ended: Ended) -> list[str]:
    """Return the types of the record."""
    return [event["type"] for event in ended.record]


# -- the record of a run that goes well


def test_a_run_without_calls_is_one_step_and_its_text_is_the_answer(open_with: Any, tmp_path: Path) -> None:
    ended = converse(open_with(), tmp_path, Turns(ANSWER))

    assert types(ended) == ["run_start", "step_start", "step_end", "run_end"]
    assert (ended.end["reason"], ended.end["text"]) == ("completed", "It is done.")
    assert ended.messages == [UserMessage("go"), AssistantMessage("It is done.")]


def test_calls_are_committed_in_order_between_the_start_and_the_end_of_their_step(
    open_with: Any, tmp_path: Path
) -> None:
    ended = converse(open_with(), tmp_path, Turns([*called("count", "nobody"), Finish()], ANSWER))

    assert types(ended) == [
        "run_start",
        *["step_start", "tool_call", "tool_result", "tool_call", "tool_result", "step_end"],
        *["step_start", "step_end", "run_end"],
    ]
    assert [type(message).__name__ for message in ended.messages] == [
        *["UserMessage", "AssistantMessage", "ToolResult", "ToolResult", "AssistantMessage"]
    ]


SHAPES = {
    "run_start": {"agent", "model", "label", "directory", "tools", "packs", "hash", "input"},
    "step_start": {"step"},
    "text": {"step", "text"},
    "tool_call": {"step", "id", "name", "arguments", "effect", "pack"},
    "tool_result": {"step", "id", "name", "status", "code", "summary", "content", "pack", "ms"},
    "step_end": {"step", "usage"},
    "run_end": {"reason", "text", "usage", "steps", "calls", "denied", "ms"},
}


def test_every_event_has_the_stable_json_shape(open_with: Any, tmp_path: Path) -> None:
    """DESIGN §3.6."""
    host = open_with()
    shown: Record = []
    host.listen(lambda event: shown.append(json.loads(json.dumps(event.as_json()))))

    ended = converse(host, tmp_path, Turns([*called("count", "spoil"), Finish(Usage(3, 4))], ANSWER))

    assert {event["type"] for event in shown} == set(SHAPES) | {"session_start", "snapshot", "message", "reply"}
    for event in shown[1:]:
        assert list(event)[:5] == ["v", "type", "session", "run", "ts"]
        assert SHAPES.get(event["type"], set()) <= set(event)
        assert (event["v"], event["run"], event["session"]) == (1, 1, shown[0]["session"])
    assert shown[-1] == json.loads(json.dumps(ended.end))


def test_the_start_names_what_the_run_was_given(open_with: Any, tmp_path: Path) -> None:
    start = converse(open_with(), tmp_path, Turns(ANSWER), text="what now?").record[0]

    assert (start["input"], start["label"], start["agent"]) == ("what now?", "turns of the test", "main")
    assert (start["tools"], start["packs"]) == (["count", "spoil"], ["bench"])
    assert (start["directory"], len(start["hash"])) == (str(tmp_path.resolve()), 64)


def test_usage_is_told_by_step_and_summed_at_the_end(open_with: Any, tmp_path: Path) -> None:
    ended = converse(open_with(), tmp_path, Turns([*called("count"), Finish(Usage(3, 4))], ANSWER))

    assert [event["usage"] for event in ended.record if event["type"] == "step_end"] == [
        {"input_tokens": 3, "output_tokens": 4},
        {"input_tokens": 10, "output_tokens": 2},
    ]
    assert ended.end["usage"] == {"input_tokens": 13, "output_tokens": 6}


def test_a_denied_call_is_counted_and_the_run_goes_on_and_completes(open_with: Any, tmp_path: Path) -> None:
    ended = converse(open_with(), tmp_path, Turns([*called("spoil", "count"), Finish()], ANSWER))

    results = [event for event in ended.record if event["type"] == "tool_result"]
    assert [(event["status"], event["pack"]) for event in results] == [("denied", "pegboard"), ("ok", None)]
    assert (ended.end["reason"], ended.end["denied"]) == ("completed", 1)


def test_the_runs_of_a_session_are_numbered_and_share_its_transcript(open_with: Any, tmp_path: Path) -> None:
    model = Turns(ANSWER)

    async def main() -> tuple[list[int], Counter[str]]:
        async with open_with() as host:
            run, agent = await under_way(host, tmp_path, model)
            await run.wait()
            await host.submit(agent, "and then?").wait()
            events = recorded(agent)
            return [event.run for event in events], Counter(event.type for event in events)

    runs, kinds = asyncio.run(main())

    assert (sorted(runs) == runs, set(runs), kinds["run_end"]) == (True, {1, 2}, 2)
    assert [message.text for message in model.requests[1].messages] == ["go", "It is done.", "and then?"]


# -- what a model is shown


def test_the_messages_of_a_request_do_not_grow_when_the_session_does(open_with: Any, tmp_path: Path) -> None:
    model = Turns([*called("count"), Finish()], ANSWER)

    converse(open_with(), tmp_path, model)

    first, second = (request.messages for request in model.requests)
    assert (list(first), len(first), first[-1], first[:]) == ([UserMessage("go")], 1, UserMessage("go"), [first[0]])
    assert len(list(second)) == len(second) == 3
    with pytest.raises(IndexError):
        first[1]


def test_the_tools_of_a_run_are_one_sorted_tuple_for_all_its_steps_and_runs(open_with: Any, tmp_path: Path) -> None:
    """Rule 3, T15, T16."""
    model = Turns([*called("count"), Finish()], [*called("count"), Finish()], ANSWER)

    async def main() -> None:
        async with open_with(spoil, count) as host:
            run, agent = await under_way(host, tmp_path, model)
            await run.wait()
            await host.submit(agent, "again").wait()

    asyncio.run(main())

    assert [tool.name for tool in model.requests[0].tools] == ["count", "spoil"]
    assert all(request.tools is model.requests[0].tools for request in model.requests)
    assert len(model.requests) == 4


def test_a_tool_that_no_model_may_see_is_neither_shown_nor_run(open_with: Any, tmp_path: Path) -> None:
    """Rule 5, rule 2, TS5."""

    @tool(effect="read", exposure="runtime-only")
    def hidden() -> str:
        """Hide."""
        return "found"

    model = Turns([*called("hidden"), Finish()], ANSWER)

    ended = converse(open_with(hidden, count), tmp_path, model)

    assert [tool.name for tool in model.requests[0].tools] == ["count"]
    assert next(event for event in ended.record if event["type"] == "tool_result")["code"] == "UNKNOWN_TOOL"


def test_a_model_may_stream_from_any_async_iterator(open_with: Any, tmp_path: Path) -> None:
    """The protocol asks for an AsyncIterator, which has no `aclose`."""

    class Plain:
        label = "plain"

        def __init__(self) -> None:
            self.events = list(ANSWER)

        def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            return self

        def __aiter__(self) -> AsyncIterator[ModelEvent]:
            return self

        async def __anext__(self) -> ModelEvent:
            if not self.events:
                raise StopAsyncIteration
            return self.events.pop(0)

    assert converse(open_with(), tmp_path, Plain()).end["reason"] == "completed"


# -- other ends


def test_entering_with_nothing_at_the_first_step_completes_without_asking_the_model(
    open_with: Any, tmp_path: Path
) -> None:
    """AC-L11, L13."""
    model = Turns(ANSWER)

    ended = converse(open_with(cc=Hooks(agent_pre_step=lambda step: Enter(()))), tmp_path, model)

    assert (types(ended), ended.end["reason"]) == (["run_start", "run_end"], "completed")
    assert (model.requests, ended.messages) == ([], [])


def test_entering_with_nothing_at_a_later_step_goes_on(open_with: Any, tmp_path: Path) -> None:
    model = Turns([*called("count"), Finish()], ANSWER)
    seen: list[tuple[int, int]] = []

    def enter(step: Step) -> Enter:
        seen.append((step.number, len(step.messages)))
        return Enter(step.messages)

    ended = converse(open_with(cc=Hooks(agent_pre_step=enter)), tmp_path, model)

    assert (seen, ended.end["text"]) == ([(1, 1), (2, 0)], "It is done.")


def test_a_later_step_may_be_given_messages_that_the_model_then_sees(open_with: Any, tmp_path: Path) -> None:
    """L15, AC-L12."""
    model = Turns([*called("count"), Finish()], ANSWER)

    def hint(step: Step) -> Enter | None:
        return Enter((UserMessage("hurry"),)) if step.number == 2 else None

    converse(open_with(cc=Hooks(agent_pre_step=hint)), tmp_path, model)

    assert model.requests[1].messages[-1] == UserMessage("hurry")


def test_a_rejected_step_ends_the_run_as_blocked(open_with: Any, tmp_path: Path) -> None:
    """AC-L10, L13."""
    ended = converse(open_with(cc=Hooks(agent_pre_step=lambda step: Reject("closed"))), tmp_path, Turns(ANSWER))

    assert (types(ended), ended.end["reason"], ended.end["text"]) == (["run_start", "run_end"], "blocked", "closed")
    assert ended.messages == []


@pytest.mark.parametrize("answer", [Enter(()), Reject("closed"), None], ids=["empty", "rejected", "failed"])
def test_a_step_that_was_never_entered_is_not_counted(
    open_with: Any, tmp_path: Path, answer: Enter | Reject | None
) -> None:
    """L13: no step."""
    ended = converse(open_with(cc=Hooks(agent_pre_step=lambda step: answer or 1 / 0)), tmp_path, Turns(ANSWER))

    assert ended.end["steps"] == types(ended).count("step_start") == 0


def test_a_later_step_may_be_rejected_too(open_with: Any, tmp_path: Path) -> None:
    reject = Hooks(agent_pre_step=lambda step: Reject("enough") if step.number == 2 else None)

    ended = converse(open_with(cc=reject), tmp_path, Turns([*called("count"), Finish()], ANSWER))

    assert (ended.end["reason"], types(ended).count("step_end")) == ("blocked", 1)


def test_a_hook_that_raises_before_a_step_ends_the_run_with_an_error(open_with: Any, tmp_path: Path) -> None:
    """AC-L13, L14."""
    ended = converse(open_with(cc=Hooks(agent_pre_step=lambda step: 1 / 0)), tmp_path, Turns(ANSWER))

    assert ended.end["reason"] == "error"
    assert ended.end["text"] == "agent_pre_step of pack `cc` failed: ZeroDivisionError: division by zero"


class Unspeakable(Exception):
    """An error without text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


MODEL_FAILURES: dict[str, tuple[list[Any], str]] = {
    "a classified error": ([ModelError("the key is refused; set KEY", "auth")], "the key is refused; set KEY"),
    "after some text": ([TextDelta("It"), ModelError("gone", "connection")], "gone"),
    "after a call": ([*called("count"), ModelError("gone", "connection")], "gone"),
    "an error of its own": ([ValueError("broken")], "broken"),
    "an error without text": ([Unspeakable()], "Unspeakable"),
    "an exit": ([SystemExit(3)], "SystemExit"),
    "a cancellation that nobody asked for": ([asyncio.CancelledError()], "CancelledError"),
    "the end of a generator": ([GeneratorExit()], "GeneratorExit"),
    "no finish": ([TextDelta("It is")], "cut off"),
    "no finish after a call": (called("count"), "cut off"),
    "nothing at all": ([], "cut off"),
}


@pytest.mark.parametrize(("turn", "told"), MODEL_FAILURES.values(), ids=MODEL_FAILURES)
def test_a_model_that_fails_ends_the_run_with_an_error_and_none_of_its_calls_runs(
    open_with: Any, tmp_path: Path, turn: list[Any], told: str
) -> None:
    """L18; a stream without Finish counts as cut off."""
    ended = converse(open_with(), tmp_path, Turns(turn))

    assert types(ended) == ["run_start", "step_start", "step_end", "run_end"]
    assert ended.end["reason"] == "error"
    assert told in ended.end["text"]


@pytest.mark.parametrize("turn", [[GeneratorExit()], [SystemExit(3)]], ids=["stopped", "exits"])
def test_a_model_that_cannot_even_begin_ends_the_run_with_an_error(
    open_with: Any, tmp_path: Path, turn: list[BaseException]
) -> None:
    class Rude:
        label = "rude"

        def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            raise turn[0]

    assert converse(open_with(), tmp_path, Rude()).end["reason"] == "error"


def test_an_agent_without_a_model_ends_its_run_with_an_error(open_with: Any, tmp_path: Path) -> None:
    ended = converse(open_with(), tmp_path, None)

    assert ended.end["reason"] == "error"
    assert ended.end["text"].startswith("no active pack provides the model route `offline`")


def test_a_reply_that_hit_its_token_limit_ends_the_run_with_the_text_so_far(open_with: Any, tmp_path: Path) -> None:
    """L18."""
    ended = converse(open_with(), tmp_path, Turns([TextDelta("It is"), Finish(Usage(1, 2), "max-tokens")]))

    assert (ended.end["reason"], ended.end["text"], ended.end["calls"]) == ("max-tokens", "It is", 0)
    assert ended.end["usage"] == {"input_tokens": 1, "output_tokens": 2}


# -- limits


def test_a_run_makes_no_more_model_requests_than_its_limit(open_with: Any, tmp_path: Path) -> None:
    model = Turns([*called("count"), Finish()])

    ended = converse(open_with(), tmp_path, model, limits=Limits(steps=3))

    assert (len(model.requests), ended.end["reason"], ended.end["steps"]) == (3, "limit", 3)
    assert ended.end["text"] == "the run was stopped after 3 steps"


def test_an_answer_in_the_last_allowed_step_completes(open_with: Any, tmp_path: Path) -> None:
    model = Turns([*called("count"), Finish()], ANSWER)

    assert converse(open_with(), tmp_path, model, limits=Limits(steps=2)).end["reason"] == "completed"


def test_nothing_of_a_batch_that_goes_over_the_limit_is_run_and_the_run_ends(open_with: Any, tmp_path: Path) -> None:
    model = Turns([*called(*["count"] * 100), Finish()], [*called(*["count"] * 30), Finish()], ANSWER)

    ended = converse(open_with(), tmp_path, model)

    codes = [event["code"] for event in ended.record if event["type"] == "tool_result"]
    assert codes == [None] * 100 + ["LIMIT"] * 30
    assert (ended.end["reason"], len(model.requests)) == ("limit", 2)
    assert ended.end["text"] == "the run was stopped: 128 tool calls are its limit"


def test_a_run_may_use_all_of_its_calls_and_still_answer(open_with: Any, tmp_path: Path) -> None:
    model = Turns([*called(*["count"] * 128), Finish()], ANSWER)

    assert converse(open_with(), tmp_path, model).end["reason"] == "completed"


def test_a_run_that_may_call_nothing_still_answers_and_refuses_every_call(open_with: Any, tmp_path: Path) -> None:
    limits = Limits(tool_calls=0)
    host = open_with()

    async def main() -> list[Ended]:
        async with host:
            ended = []
            for model in (Turns(ANSWER), Turns([*called("count"), Finish()])):
                run, agent = await under_way(host, tmp_path, model, limits=limits)
                await run.wait()
                ended.append(complete(agent))
            return ended

    answered, refused = asyncio.run(main())

    assert (answered.end["reason"], refused.end["reason"]) == ("completed", "limit")
    assert [event["code"] for event in refused.record if event["type"] == "tool_result"] == ["LIMIT"]


class Silent:
    """A model that never says anything."""

    label = "silent"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Wait for ever."""
        await asyncio.Event().wait()
        yield Finish()


def test_a_run_ends_when_its_wall_time_is_up_while_the_model_thinks(open_with: Any, tmp_path: Path) -> None:
    ended = converse(open_with(), tmp_path, Silent(), limits=Limits(seconds=0.03))

    assert (ended.end["reason"], ended.end["text"]) == ("limit", "the run was stopped after 0.03 s")
    assert types(ended) == ["run_start", "step_start", "step_end", "run_end"]


@tool(effect="read")
async def until_cancelled(ctx: ToolContext) -> str:
    """Wait for the cancel signal and a little more."""
    await ctx.cancel.wait()
    await asyncio.sleep(0.1)
    return "done"


def test_a_run_ends_when_its_wall_time_is_up_while_a_body_runs(open_with: Any, tmp_path: Path) -> None:
    model = Turns([*called("until_cancelled", "count"), Finish()], ANSWER)

    ended = converse(open_with(until_cancelled, count), tmp_path, model, limits=Limits(seconds=0.03))

    codes = [event["code"] for event in ended.record if event["type"] == "tool_result"]
    assert codes == ["ABORTED", "ABORTED_BEFORE_DISPATCH"]
    assert (ended.end["reason"], len(model.requests)) == ("limit", 1)


def test_a_person_who_cancelled_before_the_time_was_up_is_the_reason(open_with: Any, tmp_path: Path) -> None:
    """L19: the first cause wins."""

    async def main() -> Ended:
        async with open_with(until_cancelled) as host:
            model = Turns([*called("until_cancelled"), Finish()])
            run, agent = await under_way(host, tmp_path, model, limits=Limits(seconds=0.06))
            await asyncio.sleep(0.02)
            run.cancel("enough")
            await run.wait()
            return complete(agent)

    end = asyncio.run(main()).end

    assert (end["reason"], end["text"]) == ("aborted", "enough")


def test_a_call_without_a_model_is_a_run_with_the_same_limits(open_with: Any, tmp_path: Path) -> None:
    """DESIGN §3.6: each `call` is one run without a model."""

    async def main() -> Ended:
        async with open_with(until_cancelled) as host:
            definition = Definition(limits=Limits(seconds=0.03))
            agent = await host.create_agent(definition, session=Session.new(tmp_path))
            run, _ = host.submit_call(agent, ToolCall("c", "until_cancelled", ""))
            await run.wait()
            return Ended(recorded(agent)[-1].as_json(), [], agent.session.messages)

    ended = asyncio.run(main())

    assert ended.end["reason"] == "limit"


# -- cancelling


def busy() -> Turns:
    """Return a model whose run has a little of everything."""
    return Turns(
        [TextDelta("Let me see. "), ToolCall("a", "count", '{"upto": 2}'), ToolCall("b", "spoil", ""), Finish()],
        [*called("count", "nobody", "count"), Finish()],
        ANSWER,
    )


async def ponder() -> None:
    """Think as a guard or a hook."""
    await asyncio.sleep(0)


def hooked(open_with: Any) -> Host:
    """Open a host whose hooks take their time."""
    host: Host = open_with(cc=Hooks(guard_tool_call=ponder, agent_pre_step=ponder))
    return host


def at_every_moment(cancelled_at: Callable[[int], str]) -> list[str]:
    """Cancel a run at its 1st, 2nd, ... moment until it completes before that; return the reasons of the ends."""
    reasons: list[str] = []
    while len(reasons) < 500:
        reasons.append(cancelled_at(len(reasons) + 1))
        if reasons[-1] == "completed":
            return reasons
    raise AssertionError("no run completed")


async def moments(number: int) -> None:
    """Let everything else run that often."""
    for _ in range(number):
        await asyncio.sleep(0)


def test_cancelling_at_any_moment_leaves_a_complete_record(open_with: Any, tmp_path: Path) -> None:
    """Rule 10, AC-L19, AC-T31."""
    host = hooked(open_with)

    async def main(moment: int) -> str:
        run, agent = await under_way(host, tmp_path, busy())
        await moments(moment)
        run.cancel("enough")
        run.cancel("again")
        end = await run.wait()
        assert complete(agent).end == end.as_json()
        assert end.text == {"aborted": "enough", "completed": "It is done."}[end.reason]
        return end.reason

    assert set(at_every_moment(lambda moment: asyncio.run(main(moment)))) == {"aborted", "completed"}


def test_cancelling_who_waits_at_any_moment_leaves_a_complete_record(open_with: Any, tmp_path: Path) -> None:
    host = hooked(open_with)

    async def main(moment: int) -> str:
        run, agent = await under_way(host, tmp_path, busy())
        waiting = asyncio.ensure_future(run.wait())
        await moments(moment)
        waiting.cancel()
        await asyncio.wait([waiting])
        return str(complete(agent).end["reason"])

    assert set(at_every_moment(lambda moment: asyncio.run(main(moment)))) == {"aborted", "completed"}


def test_a_program_that_ends_at_any_moment_leaves_a_complete_record(open_with: Any, tmp_path: Path) -> None:
    """When the event loop is torn down every task is cancelled, the run's too."""
    host = hooked(open_with)

    async def main(moment: int) -> Agent:
        _, agent = await under_way(host, tmp_path, busy())
        await moments(moment)
        return agent

    reasons = at_every_moment(lambda moment: str(complete(asyncio.run(main(moment))).end["reason"]))

    assert set(reasons) == {"aborted", "completed"}


def test_cancelling_with_an_observer_that_cancels_too_leaves_a_complete_record(open_with: Any, tmp_path: Path) -> None:
    """AC-T33: an observer is sync, so its CancelledError is its own failure, whenever it comes."""

    def cancel(event: Event) -> None:
        raise asyncio.CancelledError

    host = open_with(cc=Hooks(observe=cancel))

    async def main(moment: int) -> str:
        run, agent = await under_way(host, tmp_path, busy())
        await moments(moment)
        run.cancel("enough")
        waiting = asyncio.ensure_future(run.wait())
        await asyncio.wait([waiting])
        assert not waiting.cancelled(), f"nobody cancelled who waits, at moment {moment}"
        return str(complete(agent).end["reason"])

    assert set(at_every_moment(lambda moment: asyncio.run(main(moment)))) == {"aborted", "completed"}


def test_a_program_that_ends_while_a_body_runs_does_not_ask_the_model_again(open_with: Any, tmp_path: Path) -> None:
    """Rule 9: the body is told and awaited, then the run ends."""
    model = Turns([*called("until_cancelled"), Finish()], ANSWER)
    agents: list[Agent] = []

    async def main() -> None:
        _, agent = await under_way(open_with(until_cancelled), tmp_path, model)
        agents.append(agent)
        await asyncio.sleep(0.02)

    asyncio.run(main())

    ended = complete(agents[0])
    assert [event["code"] for event in ended.record if event["type"] == "tool_result"] == ["ABORTED"]
    assert (ended.end["reason"], len(model.requests)) == ("aborted", 1)


def test_a_listener_may_cancel_the_run_at_any_event(open_with: Any, tmp_path: Path) -> None:
    """A budget does this: it sees the usage of a step and stops the run."""
    host = hooked(open_with)

    async def main(moment: int) -> str:
        seen: list[str] = []
        run, agent = await under_way(host, tmp_path, busy())

        def listen(event: Event) -> None:
            seen.append(event.type)
            if len(seen) == moment:
                run.cancel("too dear")

        dispose = host.listen(listen)
        waiting = asyncio.ensure_future(run.wait())
        await asyncio.wait([waiting])
        dispose()
        assert not waiting.cancelled(), f"nobody cancelled who waits, at event {moment} ({seen[moment - 1]})"
        return str(complete(agent).end["reason"])

    assert set(at_every_moment(lambda moment: asyncio.run(main(moment)))) == {"aborted", "completed"}


def test_cancelling_before_the_run_has_begun_starts_nothing(open_with: Any, tmp_path: Path) -> None:
    """AC-T31."""
    model = Turns(ANSWER)

    async def main() -> Ended:
        async with open_with() as host:
            run, agent = await under_way(host, tmp_path, model)
            run.cancel("at once")
            await run.wait()
            return complete(agent)

    ended = asyncio.run(main())

    assert (types(ended), ended.end["reason"], ended.end["text"]) == (["run_start", "run_end"], "aborted", "at once")
    assert model.requests == []


def test_cancelling_a_run_that_is_over_changes_nothing(open_with: Any, tmp_path: Path) -> None:
    async def main() -> list[str]:
        async with open_with() as host:
            run, agent = await under_way(host, tmp_path, Turns(ANSWER))
            first = await run.wait()
            run.cancel("late")
            again = await run.wait()
            return [first.reason, again.reason, *(event.type for event in recorded(agent))]

    assert asyncio.run(main()) == ["completed", "completed", "run_start", "step_start", "step_end", "run_end"]


def test_the_calls_after_a_body_that_never_ends_get_a_result_too(
    open_with: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules 9 and 10."""
    monkeypatch.setattr("pegboard.calls.body.GRACE_SECONDS", 0.02)

    @tool(effect="read", timeout=0.02)
    async def endless() -> str:
        """Never end."""
        await asyncio.Event().wait()
        return ""

    ended = converse(open_with(endless, count), tmp_path, Turns([*called("endless", "count", "count"), Finish()]))

    results = [event for event in ended.record if event["type"] == "tool_result"]
    assert [event["status"] for event in results] == ["indeterminate", "aborted", "aborted"]
    assert ended.end["reason"] == "error"


# -- whatever a part of the run does


def _raise(error: BaseException) -> Any:
    raise error


class Own:
    """The arguments of a tool made by hand."""

    def __init__(self, parse: Callable[[str], Any], schema: Any = None) -> None:
        self.parse = parse
        self.schema = schema or {"type": "object"}


def by_hand(**changes: Any) -> Tool:
    """Make a tool without `@tool`, with one part exchanged."""
    output = Output(dict, lambda value: value, str, str)
    parts: dict[str, Any] = {
        "arguments": Own(lambda text: {}),
        "output": output,
        "body": lambda: "ran",
        "effect": "read",
    }
    return Tool("odd", "Made by hand.", **{**parts, **changes})


ODD_TOOLS: dict[str, Callable[[], Tool]] = {
    "check raises": lambda: by_hand(arguments=Own(lambda text: _raise(ValueError("no")))),
    "check exits": lambda: by_hand(arguments=Own(lambda text: _raise(SystemExit(1)))),
    "check cancels": lambda: by_hand(arguments=Own(lambda text: _raise(asyncio.CancelledError()))),
    "check gives nothing": lambda: by_hand(arguments=Own(lambda text: None)),
    "touches exit": lambda: by_hand(touches=lambda: _raise(SystemExit(1))),
    "touches cancel": lambda: by_hand(touches=lambda: _raise(asyncio.CancelledError())),
    "body exits": lambda: by_hand(body=lambda: _raise(SystemExit(1))),
    "body cancels": lambda: by_hand(body=lambda: _raise(asyncio.CancelledError()), inline=True),
    "body takes other arguments": lambda: by_hand(body=lambda more: "ran"),
    "output check exits": lambda: by_hand(output=Output(dict, lambda value: _raise(SystemExit(1)), str, str)),
    "render cancels": lambda: by_hand(
        output=Output(dict, lambda value: value, lambda value: _raise(asyncio.CancelledError()), str)
    ),
}


@pytest.mark.parametrize("made", ODD_TOOLS.values(), ids=ODD_TOOLS)
def test_nothing_that_a_tool_does_ends_the_run_or_leaves_a_call_without_result(
    open_with: Any, tmp_path: Path, made: Callable[[], Tool]
) -> None:
    """T43, rule 10."""
    ended = converse(open_with(made(), count), tmp_path, Turns([*called("odd", "count"), Finish()], ANSWER))

    statuses = [event["status"] for event in ended.record if event["type"] == "tool_result"]
    assert (statuses[0] in ("error", "denied"), statuses[1:]) == (True, ["ok"])
    assert (ended.end["reason"], ended.end["text"]) == ("completed", "It is done.")


ODD_SCHEMAS: dict[str, Callable[[], Tool]] = {
    "a set in its schema": lambda: by_hand(arguments=Own(lambda text: {}, {"type": "object", "enum": {1}})),
    "a lone surrogate in its schema": lambda: by_hand(arguments=Own(lambda text: {}, {"description": "\ud800"})),
}


@pytest.mark.parametrize("made", ODD_SCHEMAS.values(), ids=ODD_SCHEMAS)
def test_a_tool_that_cannot_be_hashed_costs_its_pack_and_not_every_run(
    open_host: Any, pack_folder: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, made: Callable[[], Tool]
) -> None:
    """DESIGN §3.1: register_tools fails the pack."""
    for name, tools in {"bench": [count], "odd": [made()]}.items():
        pack = Hooks(register_tools=lambda tools=tools: tools)
        monkeypatch.setitem(sys.modules, f"probe_{name}", SimpleNamespace(pack=pack))
        pack_folder.add(name, reference=f"probe_{name}:pack")
    host = open_host()

    ended = converse(host, tmp_path, Turns(ANSWER))

    assert ended.end["reason"] == "completed"


def test_a_raising_observer_is_reported_and_changes_no_run(open_with: Any, tmp_path: Path) -> None:
    """AC-T33, AC-L14."""
    host = open_with(cc=Hooks(observe=lambda event: 1 / 0))

    ended = converse(host, tmp_path, Turns([*called("count"), Finish()], ANSWER))

    assert ended.end["reason"] == "completed"
    assert {(fault.pack, fault.hook) for fault in host.faults} == {("cc", "observe")}
    assert len(host.faults) > len(ended.record)  # what --json does not show is observed too


@pytest.mark.parametrize("moment", range(1, 12))
def test_a_listener_that_raises_stops_the_run_whose_record_is_complete_all_the_same(
    open_with: Any, tmp_path: Path, moment: int
) -> None:
    """Rule 10; the screen of the command line raises like this when its pipe is closed."""
    host = open_with()
    seen: list[str] = []

    def listen(event: Event) -> None:
        seen.append(event.type)
        if len(seen) >= moment:
            raise BrokenPipeError("nobody reads")

    async def main() -> Agent:
        run, agent = await under_way(host, tmp_path, busy())
        host.listen(listen)
        waiting = asyncio.ensure_future(run.wait())
        await asyncio.wait([waiting])
        waiting.exception()
        return agent

    assert complete(asyncio.run(main())).end["reason"] == "error"


def test_a_listener_that_leaves_at_its_first_event_takes_none_from_the_next(open_with: Any, tmp_path: Path) -> None:
    host = open_with()
    seen: list[str] = []

    def leave(event: Event) -> None:
        dispose()

    dispose = host.listen(leave)
    host.listen(lambda event: seen.append(event.type) if event.streamed else None)

    converse(host, tmp_path, Turns(ANSWER))

    assert seen == ["run_start", "step_start", "text", "text", "step_end", "run_end"]


def test_a_listener_that_was_disposed_twice_leaves_an_equal_one_alone(open_with: Any, tmp_path: Path) -> None:
    """AC-T17, rule 14."""
    host = open_with()
    seen: list[str] = []

    def listen(event: Event) -> None:
        if event.streamed:
            seen.append(event.type)

    dispose = host.listen(listen)
    host.listen(listen)
    dispose()
    dispose()

    converse(host, tmp_path, Turns([Finish()]))

    assert seen == ["run_start", "step_start", "step_end", "run_end"]


# -- agents, hosts and sessions


def test_leaving_the_host_ends_its_runs_before_the_packs_are_told(open_with: Any, tmp_path: Path) -> None:
    """L6: cancel, wait, then agent_disposed."""
    order: list[str] = []
    watch = Hooks(
        observe=lambda event: order.append(event.type) if event.streamed else None,
        agent_disposed=lambda agent: order.append("disposed"),
    )

    async def main() -> str:
        async with open_with(cc=watch) as host:
            run, _ = await under_way(host, tmp_path, Silent())
            await asyncio.sleep(0.01)
        run.cancel("the test gave up")
        return (await run.wait()).text

    assert asyncio.run(main()) != "the test gave up"
    assert order == ["run_start", "step_start", "step_end", "run_end", "disposed"]


def test_a_vetoed_agent_is_not_disposed_a_second_time_when_the_host_ends(open_with: Any, tmp_path: Path) -> None:
    """AC-L03."""
    order: list[str] = []
    first = Hooks(
        agent_created=lambda agent: order.append("created"), agent_disposed=lambda agent: order.append("disposed")
    )
    host = open_with(cc=first, dd=Hooks(agent_created=lambda agent: 1 / 0))

    async def main() -> None:
        async with host:
            with pytest.raises(PegboardError, match="agent_created of pack `dd`"):
                await host.create_agent(session=Session.new(tmp_path))

    asyncio.run(main())

    assert order == ["created", "disposed"]


def test_a_session_works_in_the_real_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    session = Session.new(tmp_path / "link" / ".." / "link")

    assert session.directory == (tmp_path / "real").resolve()


def test_two_sessions_of_one_directory_have_names_of_their_own(tmp_path: Path) -> None:
    assert Session.new(tmp_path).id != Session.new(tmp_path).id


def unusable(path: Path) -> dict[str, Path]:
    """Make what a session can't work in."""
    (path / "file").write_text("")
    (path / "loop").symlink_to("loop")
    (path / "dangling").symlink_to("nowhere")
    return {name: path / name for name in ("file", "loop", "dangling", "missing", "file/below")}


@pytest.mark.parametrize("name", ["file", "loop", "dangling", "missing", "file/below"])
def test_a_session_needs_a_directory_that_can_be_entered(tmp_path: Path, name: str) -> None:
    place = unusable(tmp_path)[name]

    with pytest.raises(UsageError, match=name):
        Session.new(place)


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_a_directory_without_permission_is_refused(tmp_path: Path, without_rights: Any) -> None:
    (tmp_path / "closed").mkdir(mode=0)

    with without_rights(), pytest.raises(UsageError, match="can't be read: Permission denied"):
        Session.new(tmp_path / "closed")


def test_a_sync_body_that_outlives_the_loop_disturbs_nobody(
    open_with: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 9: an abandoned body may end at any time."""
    monkeypatch.setattr("pegboard.calls.body.GRACE_SECONDS", 0.01)
    released, over = threading.Event(), threading.Event()

    @tool(effect="read", timeout=0.01)
    def late() -> str:
        """End late."""
        released.wait(5)
        over.set()
        return "late"

    ended = converse(open_with(late), tmp_path, Turns([*called("late"), Finish()]))
    released.set()

    assert over.wait(5)
    assert [event["code"] for event in ended.record if event["type"] == "tool_result"] == ["INDETERMINATE"]
