"""Calling hooks: in which order, what a failure does, and that guards can only ever refuse more."""

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pegboard import (
    Agent,
    Ask,
    Deny,
    Enter,
    Event,
    Finish,
    GuardedCall,
    Host,
    PegboardError,
    Reject,
    Session,
    Step,
    TextDelta,
    ToolCall,
    ToolResult,
    UserMessage,
    hookimpl,
    tool,
)
from pegboard.testing import ScriptedModel, recorded

HostWith = Callable[..., Host]


class Hooks(ModuleType):
    """A module made of functions, each the implementation of the hook that it is named after."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        super().__init__("hooks")
        marked = {name: f if hasattr(f, "pegboard_impl") else hookimpl(f) for name, f in functions.items()}
        vars(self).update(marked)


@pytest.fixture
def host_with(open_host: HostWith, pack_folder: Any, monkeypatch: pytest.MonkeyPatch) -> HostWith:
    """Open a host whose packs are these objects, each named by its keyword."""

    def open_(requires: dict[str, list[str]] | None = None, **packs: object) -> Host:
        for name, pack in packs.items():
            monkeypatch.setitem(sys.modules, f"probe_{name}", SimpleNamespace(pack=pack))
            needs = (requires or {}).get(name, ())
            pack_folder.add(name, reference=f"probe_{name}:pack", requires=needs)
        host = open_host()
        assert [pack.reason for pack in host.packs if pack.state != "active"] == []
        return host

    return open_


bodies_run: list[list[str]] = []


@tool(effect="read")
async def peek(paths: list[str] = []) -> str:  # noqa: B006
    """Peek at paths."""
    bodies_run.append(paths)
    return f"peeked at {paths}"


BENCH = Hooks(register_tools=lambda: [peek])


def call(host: Host, directory: Path, arguments: str = "{}") -> tuple[ToolResult, dict[str, Any]]:
    """Call `peek` once; returns its result and the `tool_result` of the record."""

    async def main() -> tuple[ToolResult, dict[str, Any]]:
        agent = await host.create_agent(session=Session.new(directory))
        run, results = host.submit_call(agent, ToolCall("c", "peek", arguments), allow_writes=True)
        await run.wait()
        returned = [event.as_json() for event in recorded(agent) if event.type == "tool_result"]
        assert len(returned) == len(results) == 1
        return results[0], returned[0]

    return asyncio.run(main())


def converse(host: Host, directory: Path, model: Any, text: str = "go") -> tuple[dict[str, Any], Agent]:
    """Let one run go to its end; returns the end as JSON and the agent."""

    async def main() -> tuple[dict[str, Any], Agent]:
        agent = await host.create_agent(session=Session.new(directory), model=model)
        return (await host.submit(agent, text).wait()).as_json(), agent

    return asyncio.run(main())


# -- order (DESIGN §3.1)


def heard(order: list[str], name: str) -> Callable[..., None]:
    """Return a hook body that notes who heard."""
    return lambda: order.append(name)


def test_guards_observers_and_agent_created_run_in_load_order_whatever_they_ask_for(
    host_with: HostWith, tmp_path: Path
) -> None:
    order: list[str] = []

    def pack(name: str, **marks: bool) -> Hooks:
        mark = hookimpl(**marks)
        hooks = ("agent_created", "guard_tool_call", "observe")
        return Hooks(**{hook: mark(heard(order, f"{hook} {name}")) for hook in hooks})

    packs = {"aa": pack("aa", trylast=True), "bb": pack("bb"), "cc": pack("cc", tryfirst=True)}
    call(host_with(bench=BENCH, **packs), tmp_path)

    assert [entry for entry in order if entry.startswith("agent_created")] == [
        f"agent_created {name}" for name in ("aa", "bb", "cc")
    ]
    for hook in ("guard_tool_call", "observe"):
        names = [entry.split()[1] for entry in order if entry.startswith(hook)]
        assert names == ["aa", "bb", "cc"] * (len(names) // 3)


def test_agent_disposed_runs_in_reverse_load_order(host_with: HostWith, tmp_path: Path) -> None:
    order: list[str] = []
    host = host_with(**{name: Hooks(agent_disposed=heard(order, name)) for name in ("aa", "bb", "cc")})

    async def main() -> None:
        async with host:
            await host.create_agent(session=Session.new(tmp_path))

    asyncio.run(main())

    assert order == ["cc", "bb", "aa"]


def test_what_a_pack_needs_is_asked_before_it(host_with: HostWith, tmp_path: Path) -> None:
    order: list[str] = []
    packs = {name: Hooks(guard_tool_call=heard(order, name)) for name in ("aa", "zz")}

    call(host_with(requires={"aa": ["zz"]}, bench=BENCH, **packs), tmp_path)

    assert order == ["zz", "aa", "zz", "aa"]


def test_folds_run_first_asked_first_then_last_loaded_first(host_with: HostWith, tmp_path: Path) -> None:
    order: list[str] = []
    marks: dict[str, dict[str, bool]] = {
        "aa": {}, "bb": {"trylast": True}, "cc": {}, "dd": {"tryfirst": True}, "ee": {},
    }  # fmt: skip
    packs = {name: Hooks(agent_pre_step=hookimpl(**mark)(heard(order, name))) for name, mark in marks.items()}

    converse(host_with(**packs), tmp_path, ScriptedModel([Finish()]))

    assert order == ["dd", "ee", "cc", "aa", "bb"]


def test_sync_and_async_implementations_of_one_hook_wait_for_each_other(host_with: HostWith, tmp_path: Path) -> None:
    order: list[str] = []

    async def slow(call: GuardedCall) -> None:
        order.append("slow begins")
        await asyncio.sleep(0.01)
        order.append("slow ends")

    call(host_with(bench=BENCH, cc=Hooks(guard_tool_call=slow), dd=Hooks(guard_tool_call=heard(order, "dd"))), tmp_path)

    assert order == ["slow begins", "slow ends", "dd"] * 2


# -- agent_created and agent_disposed


def test_a_veto_undoes_the_agent_for_those_who_were_told_in_reverse_and_only_for_them(
    host_with: HostWith, tmp_path: Path
) -> None:
    """AC-L03."""
    order: list[str] = []

    def pack(name: str) -> Hooks:
        return Hooks(
            agent_created=lambda agent: order.append(f"{name} created"),
            agent_disposed=lambda agent: order.append(f"{name} disposed"),
        )

    def refuse(agent: Agent) -> None:
        raise ValueError("not today")

    vetoing = Hooks(agent_created=refuse, agent_disposed=lambda agent: order.append("veto disposed"))
    host = host_with(aa=pack("aa"), bb=pack("bb"), cc=vetoing, dd=pack("dd"))

    async def main() -> None:
        async with host:
            with pytest.raises(PegboardError, match=r"agent_created of pack `cc` failed: ValueError: not today"):
                await host.create_agent(session=Session.new(tmp_path))

    asyncio.run(main())

    assert order == ["aa created", "bb created", "bb disposed", "aa disposed"]


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), GeneratorExit()])
def test_a_pack_that_exits_or_cancels_in_agent_created_vetoes(
    host_with: HostWith, tmp_path: Path, error: BaseException
) -> None:
    def refuse(agent: Agent) -> None:
        raise error

    host = host_with(aa=Hooks(agent_created=refuse))

    with pytest.raises(PegboardError, match="agent_created of pack `aa`"):
        asyncio.run(host.create_agent(session=Session.new(tmp_path)))


def test_every_agent_is_disposed_once_however_often_it_is_asked_for(host_with: HostWith, tmp_path: Path) -> None:
    """AC-L15, L6."""
    gone: list[Agent] = []
    host = host_with(aa=Hooks(agent_disposed=lambda agent: gone.append(agent)))

    async def main() -> list[Agent]:
        async with host:
            agents = [await host.create_agent(session=Session.new(tmp_path)) for _ in range(3)]
            await asyncio.gather(host.dispose(agents[1]), host.dispose(agents[1]))
            return agents

    first, second, third = asyncio.run(main())

    assert gone == [second, third, first]


# -- observers


def test_a_raising_observer_is_reported_with_its_pack_and_starves_no_other(host_with: HostWith, tmp_path: Path) -> None:
    """AC-L14, AC-T33."""
    seen: list[str] = []

    def fail(event: Event) -> None:
        raise SystemExit(f"at {event.type}")

    host = host_with(aa=Hooks(observe=fail), bb=Hooks(observe=lambda event: seen.append(event.type)))

    end, agent = converse(host, tmp_path, ScriptedModel([Finish()]))

    assert end["reason"] == "completed"
    assert seen == [event.type for event in recorded(agent, all_of_it=True)]
    assert [(fault.pack, fault.hook, fault.text) for fault in host.faults] == [
        ("aa", "observe", f"SystemExit: at {kind}") for kind in seen
    ]


def test_an_observer_that_returns_an_awaitable_is_reported(host_with: HostWith, tmp_path: Path) -> None:
    async def late() -> None:
        raise AssertionError("never awaited")

    host = host_with(aa=Hooks(observe=lambda event: late()))

    assert converse(host, tmp_path, ScriptedModel([Finish()]))[0]["reason"] == "completed"
    assert {fault.text for fault in host.faults} == {"it is async; this hook must be sync"}


def test_an_error_whose_text_cannot_be_shown_is_reported_all_the_same(host_with: HostWith, tmp_path: Path) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def fail(event: Event) -> None:
        raise Mute

    host = host_with(aa=Hooks(observe=fail))
    converse(host, tmp_path, ScriptedModel([Finish()]))

    assert {fault.text for fault in host.faults} == {"Mute: (its text can't be shown)"}


def test_an_observer_cannot_change_the_record(host_with: HostWith, tmp_path: Path) -> None:
    """DESIGN §3.1: events are frozen."""
    shown: list[Any] = []

    def vandalise(event: Any) -> None:
        if event.type == "tool_call":
            event.arguments["paths"].append("forged")
            event.arguments["more"] = 1

    def copy(event: Event) -> None:
        if event.type == "tool_call":
            shown.append(event.as_json()["arguments"])

    call(host_with(bench=BENCH, cc=Hooks(observe=vandalise), dd=Hooks(observe=copy)), tmp_path, '{"paths": ["a"]}')

    assert shown == [{"paths": ["a"]}]


# -- agent_pre_step


def test_each_pre_step_sees_what_the_one_before_it_returned(host_with: HostWith, tmp_path: Path) -> None:
    """AC-L12."""

    async def shout(step: Step) -> Enter:
        return Enter(tuple(UserMessage(message.text.upper()) for message in step.messages))

    def add(step: Step) -> Enter:
        return Enter((*step.messages, UserMessage("please")))

    model = ScriptedModel([Finish()])
    converse(host_with(aa=Hooks(agent_pre_step=shout), bb=Hooks(agent_pre_step=add)), tmp_path, model)

    assert list(model.requests[0].messages) == [UserMessage("GO"), UserMessage("PLEASE")]


def test_a_rejection_closes_the_run_and_asks_nobody_further(host_with: HostWith, tmp_path: Path) -> None:
    """AC-L10, L13."""
    asked: list[str] = []
    packs = {"aa": Hooks(agent_pre_step=heard(asked, "aa")), "bb": Hooks(agent_pre_step=lambda step: Reject("closed"))}
    model = ScriptedModel()

    end, agent = converse(host_with(**packs), tmp_path, model)

    assert (end["reason"], end["text"]) == ("blocked", "closed")
    assert (asked, model.requests, agent.session.messages) == ([], [], [])


def raising(error: BaseException) -> Callable[..., Any]:
    """Return a hook body that raises."""

    def fail() -> Any:
        raise error

    return fail


async def _refused_later() -> None:
    await asyncio.sleep(0)
    raise ValueError("later")


PRE_STEP_FAILURES: dict[str, tuple[Callable[..., Any], str]] = {
    "raises": (raising(ValueError("no")), "ValueError: no"),
    "raises later": (_refused_later, "ValueError: later"),
    "exits": (raising(SystemExit(3)), "SystemExit: 3"),
    "cancels": (raising(asyncio.CancelledError()), "CancelledError"),
    "wrong type": (lambda step: True, "it returned bool, not Enter, Reject or None"),
    "class, not a value": (lambda step: Reject, "it returned type, not Enter, Reject or None"),
    "text as messages": (lambda step: Enter("go"), "it returned Enter without a tuple of UserMessages"),  # type: ignore[arg-type]
    "nothing as messages": (lambda step: Enter(None), "it returned Enter without a tuple of UserMessages"),  # type: ignore[arg-type]
    "an iterator as messages": (lambda step: Enter(iter(step.messages)), "it returned Enter without a tuple"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("implementation", "told"), PRE_STEP_FAILURES.values(), ids=PRE_STEP_FAILURES)
def test_a_failing_pre_step_ends_the_run_and_names_pack_and_hook(
    host_with: HostWith, tmp_path: Path, implementation: Callable[..., Any], told: str
) -> None:
    """AC-L13, L14."""
    model = ScriptedModel()

    end, _ = converse(host_with(aa=Hooks(agent_pre_step=implementation)), tmp_path, model)

    assert end["reason"] == "error"
    assert end["text"].startswith("agent_pre_step of pack `aa` failed: ")
    assert told in end["text"]
    assert model.requests == []


def test_one_agents_failure_leaves_another_agent_and_its_own_next_run_alone(
    host_with: HostWith, tmp_path: Path
) -> None:
    """AC-L13."""

    def picky(step: Step) -> None:
        if step.messages and step.messages[0].text == "bad":
            raise ValueError("no")

    host = host_with(aa=Hooks(agent_pre_step=picky))

    async def main() -> list[str]:
        async with host:
            model = ScriptedModel([Finish()], [Finish()])
            one, two = [await host.create_agent(session=Session.new(tmp_path), model=model) for _ in range(2)]
            runs = [host.submit(one, "bad"), host.submit(two, "good")]
            ends = [await run.wait() for run in runs]
            return [*(end.reason for end in ends), (await host.submit(one, "good").wait()).reason]

    assert asyncio.run(main()) == ["error", "completed", "completed"]


# -- guards


def test_every_guard_is_asked_twice_with_both_phases_also_after_a_refusal(host_with: HostWith, tmp_path: Path) -> None:
    """Rule 7; DESIGN §6: all guards are asked."""
    asked: list[str] = []
    packs = {
        name: Hooks(guard_tool_call=lambda call, name=name: asked.append(f"{name} {call.phase}"))
        for name in ("cc", "dd")
    }
    call(host_with(bench=BENCH, **packs), tmp_path)
    assert asked == ["cc intent", "dd intent", "cc dispatch", "dd dispatch"]


def test_a_refusal_is_shown_and_recorded_with_its_pack_and_the_others_are_asked_too(
    host_with: HostWith, tmp_path: Path
) -> None:
    """AC-T15 and T23 in DESIGN §6: a refusal stops nobody else from being asked, and no body runs."""
    asked: list[str] = []
    refusing = Hooks(guard_tool_call=lambda call: Deny("not in my house"))
    bodies_run.clear()

    result, recorded = call(host_with(bench=BENCH, cc=refusing, dd=Hooks(guard_tool_call=heard(asked, "dd"))), tmp_path)

    assert (result.status, result.code, result.content) == ("denied", "DENIED", "Error: denied by cc: not in my house")
    assert (recorded["status"], recorded["code"], recorded["pack"]) == ("denied", "DENIED", "cc")
    assert (asked, bodies_run) == (["dd"], [])


def test_a_guard_that_agrees_at_intent_may_still_refuse_at_dispatch(host_with: HostWith, tmp_path: Path) -> None:
    """Rule 7, TS13: what is revoked between the two askings is not dispatched."""
    bodies_run.clear()
    late = Hooks(guard_tool_call=lambda call: Deny("too late") if call.phase == "dispatch" else None)

    result, recorded = call(host_with(bench=BENCH, cc=late), tmp_path)

    assert (result.status, recorded["pack"], bodies_run) == ("denied", "cc", [])


def test_a_denial_beats_a_question_and_the_first_denial_is_shown(host_with: HostWith, tmp_path: Path) -> None:
    verdicts = {"cc": Ask("sure?", person=True), "dd": Deny("first"), "ee": Deny("second")}
    packs = {name: Hooks(guard_tool_call=lambda call, v=verdict: v) for name, verdict in verdicts.items()}

    result, recorded = call(host_with(bench=BENCH, **packs), tmp_path)

    assert ("first" in result.content, recorded["pack"]) == (True, "dd")


async def _fails_later() -> Any:
    await asyncio.sleep(0)
    raise ValueError("later")


async def _cancels_later() -> Any:
    await asyncio.sleep(0)
    raise asyncio.CancelledError


async def _times_out_itself() -> Any:
    raise TimeoutError("its own")


async def _says_yes() -> Any:
    return True


GUARD_FAILURES: dict[str, tuple[Callable[..., Any], str]] = {
    "raises": (raising(ValueError("broken")), "ValueError: broken"),
    "raises later": (_fails_later, "ValueError: later"),
    "exits": (raising(SystemExit(0)), "SystemExit: 0"),
    "cancels": (raising(asyncio.CancelledError()), "CancelledError"),
    "cancels later": (_cancels_later, "CancelledError"),
    "stops a generator": (raising(GeneratorExit()), "GeneratorExit"),
    "times out itself": (_times_out_itself, "TimeoutError: its own"),
    "says True": (lambda call: True, "it returned bool, not Deny, Ask or None"),
    "says False": (lambda call: False, "it returned bool, not Deny, Ask or None"),
    "says yes later": (_says_yes, "it returned bool, not Deny, Ask or None"),
    "says text": (lambda call: "", "it returned str, not Deny, Ask or None"),
    "says a class": (lambda call: Deny, "it returned type, not Deny, Ask or None"),
    "says the word of another hook": (
        lambda call: Reject("no"),
        "it returned Reject, not Deny, Ask or None",
    ),
}


@pytest.mark.parametrize(("guard", "told"), GUARD_FAILURES.values(), ids=GUARD_FAILURES)
def test_a_guard_that_fails_or_lies_about_its_answer_denies(
    host_with: HostWith, tmp_path: Path, guard: Callable[..., Any], told: str
) -> None:
    """AC-T29 and T25 in DESIGN §6, rule 6."""
    bodies_run.clear()

    result, recorded = call(host_with(bench=BENCH, cc=Hooks(guard_tool_call=guard)), tmp_path)

    assert (result.status, recorded["pack"], bodies_run) == ("denied", "cc", [])
    assert f"denied by cc: the guard failed: {told}" in result.content


def test_an_async_guard_that_overruns_its_deadline_denies(
    host_with: HostWith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pegboard.dispatch.guards.GUARD_SECONDS", 0.02)

    async def ponder(call: GuardedCall) -> None:
        await asyncio.sleep(1)

    result, recorded = call(host_with(bench=BENCH, cc=Hooks(guard_tool_call=ponder)), tmp_path)

    assert (result.status, recorded["pack"]) == ("denied", "cc")
    assert "did not answer in 0.02 s" in result.content


def test_a_guard_that_swallows_its_deadline_and_abstains_denies(
    host_with: HostWith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pegboard.dispatch.guards.GUARD_SECONDS", 0.02)

    async def deaf(call: GuardedCall) -> None:
        try:
            await asyncio.sleep(1)
        except BaseException:
            return

    result, recorded = call(host_with(bench=BENCH, cc=Hooks(guard_tool_call=deaf)), tmp_path)

    assert (result.status, recorded["pack"]) == ("denied", "cc")


def test_a_guard_that_swallows_its_deadline_and_goes_on_does_not_hold_the_call(
    host_with: HostWith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DESIGN §3.1: an async guard is denied at the deadline."""
    monkeypatch.setattr("pegboard.dispatch.guards.GUARD_SECONDS", 0.02)
    order: list[str] = []

    async def stubborn(call: GuardedCall) -> None:
        for _ in range(15):
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue
        order.append("guard ended")

    packs = {"cc": Hooks(guard_tool_call=stubborn), "dd": Hooks(observe=lambda event: order.append(event.type))}

    result, recorded = call(host_with(bench=BENCH, **packs), tmp_path)

    assert (result.status, recorded["pack"]) == ("denied", "cc")
    assert "guard ended" not in order[: order.index("tool_result")]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_guard_that_blocks_beyond_its_deadline_is_denied_when_it_returns(
    host_with: HostWith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, colour: str
) -> None:
    """DESIGN §3.1: a sync one when it returns."""
    monkeypatch.setattr("pegboard.dispatch.guards.GUARD_SECONDS", 0.02)

    def block(call: GuardedCall) -> None:
        time.sleep(0.1)

    async def block_the_loop(call: GuardedCall) -> None:
        time.sleep(0.1)  # noqa: ASYNC251

    guard = Hooks(guard_tool_call=block if colour == "sync" else block_the_loop)

    result, recorded = call(host_with(bench=BENCH, cc=guard), tmp_path)

    assert (result.status, recorded["pack"]) == ("denied", "cc")


def _hide(call: GuardedCall) -> None:
    call.arguments["paths"].clear()


def _empty(call: GuardedCall) -> None:
    call.arguments.clear()  # type: ignore[attr-defined]


def _abstain(call: GuardedCall) -> None:
    return None


def _jealous(call: GuardedCall) -> Deny | None:
    return Deny("secret") if "secret" in call.arguments["paths"] else None


async def _abstain_later(call: GuardedCall) -> None:
    await asyncio.sleep(0)


BEHAVIOURS: list[Callable[..., Any]] = [
    _abstain,
    _abstain_later,
    lambda call: Deny("no"),
    lambda call: Ask("sure?"),
    lambda call: Ask("sure?", person=True),
    _jealous,
    lambda call: Deny("late") if call.phase == "dispatch" else None,
    raising(ValueError("broken")),
    raising(SystemExit(0)),
    lambda call: True,
    _hide,
    _empty,
]
slots = st.lists(st.sampled_from(BEHAVIOURS), min_size=3, max_size=3)


def test_adding_guards_never_lets_more_through(host_with: HostWith, tmp_path: Path) -> None:
    """T23, DESIGN §6 T34: adding guards can only refuse or ask more."""
    current: list[Callable[..., Any]] = []
    packs = {f"p{slot}": Hooks(guard_tool_call=lambda call, slot=slot: current[slot](call)) for slot in range(3)}
    host = host_with(bench=BENCH, **packs)

    def passes(behaviours: list[Callable[..., Any]]) -> bool:
        current[:] = behaviours
        return call(host, tmp_path, '{"paths": ["secret"]}')[0].status == "ok"

    @settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(slots, st.sets(st.integers(0, 2)))
    @example([_hide, _abstain, _jealous], {0})
    def fewer_guards_refuse_no_more(behaviours: list[Callable[..., Any]], absent: set[int]) -> None:
        fewer = [_abstain if slot in absent else one for slot, one in enumerate(behaviours)]

        assert passes(fewer) or not passes(behaviours)

    fewer_guards_refuse_no_more()


def test_a_guard_cannot_hide_nested_arguments_from_the_next_guard(host_with: HostWith, tmp_path: Path) -> None:
    seen: list[Any] = []
    packs = {
        "cc": Hooks(guard_tool_call=_hide),
        "dd": Hooks(guard_tool_call=lambda call: seen.append(list(call.arguments["paths"]))),
    }
    call(host_with(bench=BENCH, **packs), tmp_path, '{"paths": ["secret"]}')

    assert {tuple(paths) for paths in seen} == {("secret",)}


def test_a_guard_may_leave_out_the_arguments_it_does_not_need(host_with: HostWith, tmp_path: Path) -> None:
    result, _ = call(host_with(bench=BENCH, cc=Hooks(guard_tool_call=lambda: Deny("whatever"))), tmp_path)

    assert result.status == "denied"


def test_cancelling_the_run_while_a_guard_thinks_leaves_one_result(host_with: HostWith, tmp_path: Path) -> None:
    """AC-T31: cancelled during the guards is before dispatch."""
    thinking = asyncio.Event()

    async def ponder(call: GuardedCall) -> None:
        thinking.set()
        await asyncio.sleep(0.01)

    bodies_run.clear()
    host = host_with(bench=BENCH, cc=Hooks(guard_tool_call=ponder))

    async def main() -> tuple[str, list[ToolResult]]:
        agent = await host.create_agent(session=Session.new(tmp_path))
        run, results = host.submit_call(agent, ToolCall("c", "peek", "{}"))
        await thinking.wait()
        run.cancel("enough")
        await run.wait()
        return recorded(agent)[-1].type, results

    last, results = asyncio.run(main())

    assert (last, [result.code for result in results], bodies_run) == ("run_end", ["ABORTED_BEFORE_DISPATCH"], [])


def test_the_text_of_a_model_may_be_streamed_past_observers(host_with: HostWith, tmp_path: Path) -> None:
    """DESIGN §3.1: text deltas only if asked for."""
    observed: list[str] = []
    listened: list[str] = []
    host = host_with(aa=Hooks(observe=lambda event: observed.append(event.type)))
    host.listen(lambda event: listened.append(event.type))

    converse(host, tmp_path, ScriptedModel([TextDelta("a"), TextDelta("b"), Finish()]))

    assert "text" not in observed
    assert [kind for kind in listened if kind != "text"] == observed
    assert listened.count("text") == 2
