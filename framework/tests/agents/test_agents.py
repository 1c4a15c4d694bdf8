"""An agent's life: created as a transaction, announced, driven, and ended in one order; parents and children."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pegboard import (
    Agent,
    Answer,
    Ask,
    Definition,
    Deny,
    Enter,
    Event,
    Finish,
    GuardedCall,
    Host,
    Limits,
    ModelEvent,
    ModelProvider,
    ModelRequest,
    PegboardError,
    ProcessSpec,
    Reject,
    Run,
    RunEnd,
    Session,
    Step,
    TextDelta,
    Tool,
    ToolCall,
    Usage,
    UsageError,
    UserMessage,
    hookimpl,
    tool,
)
from pegboard.base.errors import Disposed
from pegboard.config.places import Places
from pegboard.events import Called, Dropped, Rebound, Returned, RunStart, Said, StepEnd, StepStart
from pegboard.testing import ScriptedModel, call, recorded

Main = Callable[[Host], Awaitable[None]]


class Hooks(ModuleType):
    """A pack made of functions, each the implementation of the hook that it is named after."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        super().__init__("hooks")
        vars(self).update({name: hookimpl(function) for name, function in functions.items()})


class Gated:
    """A model that answers `done` once its gate is open, and takes a few turns of the loop to be interrupted."""

    label = "gated"

    def __init__(self) -> None:
        self.asked, self.gate = asyncio.Event(), asyncio.Event()
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Wait for the gate, then answer."""
        self.requests.append(request)
        self.asked.set()
        try:
            await self.gate.wait()
        finally:
            await turns(5)
        yield TextDelta("done")
        yield Finish(Usage(1, 1))


def named(name: str, says: str = "", effect: Any = "read") -> Tool:
    """Return a tool of that name whose body returns `says`."""

    @tool(name=name, effect=effect)
    async def body() -> str:
        """Say something."""
        return says or name

    return body


def live(tmp_path: Path, main: Main, *tools: str, **packs: object) -> None:
    """Run `main(host)` in a host whose agents see `tools` and which has these packs, and see that nothing is left."""

    async def lived() -> None:
        host = opened(tmp_path, packs)
        async with host:
            for name in tools:
                host.tools.register(named(name))
            await main(host)
        assert (host.agents, layers(host)) == ((), (0, 0))
        await turns(3)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(lived())


def opened(
    tmp_path: Path, packs: Mapping[str, object] | None = None, *, starting_seconds: float = 20.0, config: str = ""
) -> Host:
    """Open a host with these packs of the program's own, all of which are active."""
    places = Places(tmp_path / "config.toml", tmp_path / "state")
    places.config_file.write_text(config, "utf-8")
    host = Host.open(environ={}, distributions=[], packs=packs, places=places, starting_seconds=starting_seconds)
    assert [pack.reason for pack in host.packs if pack.state != "active"] == []
    return host


def layers(host: Host) -> tuple[int, int]:
    """Return how many scopes have tools or restrictions, and how many have hooks: what is left is nobody's business."""
    return len(host._services.tools._layers), len(host._services.dispatcher._layers)


async def turns(number: int) -> None:
    """Let the others go on for so many turns of the loop."""
    for _ in range(number):
        await asyncio.sleep(0)


def told(agent: Agent, *kinds: type[Event]) -> list[Any]:
    """Return what is recorded of these kinds."""
    return [event for event in recorded(agent, all_of_it=True) if isinstance(event, kinds)]


def offered(request: ModelRequest) -> list[str]:
    """Return the names of the tools in a request."""
    return [tool.name for tool in request.tools]


def said(request: ModelRequest) -> list[str]:
    """Return the user's texts in a request."""
    return [message.text for message in request.messages if isinstance(message, UserMessage)]


def raising(error: BaseException) -> Callable[[], Any]:
    """Return a function that raises; as an implementation it takes none of its hook's arguments."""

    def raise_() -> Any:
        raise error

    return raise_


# -- creation is a transaction (L1, L2, L4)


def test_what_setup_registers_is_there_before_anybody_sees_the_agent(tmp_path: Path) -> None:
    """AC-L01."""
    order: list[Any] = []
    watch = Hooks(
        agent_created=lambda agent: order.append(("created", agent.view().names, len(agent.host.agents))),
        observe=lambda event: order.append(event.type),
    )

    async def main(host: Host) -> None:
        async def setup(agent: Agent) -> Callable[[], object]:
            agent.tools.register(named("s"))
            await turns(2)
            order.append(("set up", host.agents))
            return lambda: order.append("committed")

        model = ScriptedModel("done")
        agent = await host.create_agent(setup=setup, model=model, directory=tmp_path)
        await agent.followup("go").wait()

        assert order[:5] == [("set up", ()), "committed", ("created", ("s",), 1), "session_start", "run_start"]
        assert offered(model.requests[0]) == ["s"]

    live(tmp_path, main, watch=watch)


async def _setup_raises(agent: Agent) -> None:
    await asyncio.sleep(0)
    raise ValueError("no")


async def _commit_raises(agent: Agent) -> Callable[[], object]:
    return raising(ValueError("no"))


SETUPS: dict[str, Callable[[Agent], Any]] = {
    "setup raises": lambda _agent: raising(ValueError("no"))(),
    "setup raises later": _setup_raises,
    "commit raises": _commit_raises,
    "commit of a sync setup raises": lambda _agent: raising(ValueError("no")),
    "setup exits": lambda _agent: raising(SystemExit("no"))(),
}


@pytest.mark.parametrize("how", SETUPS)
def test_a_creation_that_fails_leaves_nothing_and_tells_nobody(tmp_path: Path, how: str) -> None:
    """AC-L02: registry, session store and scopes are as before, and the id may be used again."""
    heard: list[str] = []
    watch = Hooks(
        agent_created=lambda agent: heard.append("created"), agent_disposed=lambda agent: heard.append("gone")
    )

    async def main(host: Host) -> None:
        session, before = Session.new(tmp_path), layers(host)

        def setup(agent: Agent) -> Any:
            agent.tools.register(named("s"))
            agent.register(Hooks(observe=lambda event: None))
            agent.restrict(deny=["h"])
            agent.inject("never")
            agent.tasks.start(asyncio.Event().wait())
            return SETUPS[how](agent)

        with pytest.raises((ValueError, SystemExit), match="no"):
            await host.create_agent(session=session, setup=setup)

        assert (heard, host.agents, layers(host), await host.entries(session.id)) == ([], (), before, [])
        assert (await (await host.store()).sessions(), session.draft) == ([], True)
        assert (await host.create_agent(session=session)).view().names == ("h",)

    live(tmp_path, main, "h", watch=watch)


def test_an_agent_does_not_run_before_it_is_published(tmp_path: Path) -> None:
    """L2: setup composes, never drives."""

    async def main(host: Host) -> None:
        model = ScriptedModel("done")
        refused: list[str] = []

        def setup(agent: Agent) -> None:
            for drive in (agent.followup, agent.steer, partial(host.submit, agent)):
                with pytest.raises(UsageError) as caught:
                    drive("too early")
                refused.append(str(caught.value))
            agent.inject("in time")

        agent = await host.create_agent(setup=setup, model=model, directory=tmp_path)
        await turns(3)

        assert (len(refused), model.requests) == (3, [])
        await agent.followup("go").wait()
        assert said(model.requests[0]) == ["in time", "go"]

    live(tmp_path, main)


def test_a_cancelled_creation_leaves_nothing(tmp_path: Path) -> None:
    """AC-L02, L2."""
    heard: list[str] = []

    async def main(host: Host) -> None:
        before = layers(host)

        async def setup(agent: Agent) -> None:
            agent.tools.register(named("s"))
            await asyncio.Event().wait()

        creating = asyncio.create_task(host.create_agent(setup=setup, directory=tmp_path))
        await turns(3)
        creating.cancel()

        with pytest.raises(asyncio.CancelledError):
            await creating
        assert (heard, host.agents, layers(host)) == ([], (), before)

    live(tmp_path, main, watch=Hooks(agent_created=lambda agent: heard.append("created")))


def test_a_creation_that_is_cancelled_again_while_it_is_undone_leaves_nothing_either(tmp_path: Path) -> None:
    """L2: whoever is impatient must not keep the undoing from its end."""

    async def slow_to_go() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await turns(6)

    async def main(host: Host) -> None:
        before = layers(host)

        async def setup(agent: Agent) -> None:
            agent.tools.register(named("s"))
            agent.tasks.start(slow_to_go())
            await asyncio.Event().wait()

        creating = asyncio.create_task(host.create_agent(setup=setup, directory=tmp_path))
        await turns(3)
        for _ in range(3):
            creating.cancel()
            await turns(2)

        with pytest.raises(asyncio.CancelledError):
            await creating
        assert (host.agents, layers(host)) == ((), before)
        await turns(9)

    live(tmp_path, main)


@pytest.mark.parametrize("owner", ["parent", "host"])
def test_an_agent_whose_owner_goes_away_while_it_is_set_up_is_never_published(tmp_path: Path, owner: str) -> None:
    """L2: disposal of the owner rolls back."""
    heard: list[Agent] = []
    watch = Hooks(agent_created=lambda agent: heard.append(agent))

    async def main(host: Host) -> None:
        parent = await host.create_agent(directory=tmp_path)
        going = asyncio.Event()

        async def setup(agent: Agent) -> None:
            agent.tools.register(named("s"))
            await going.wait()

        owned = {"parent": parent} if owner == "parent" else {"directory": tmp_path}
        creating = asyncio.create_task(host.create_agent(setup=setup, **owned))
        await turns(3)
        await (parent.dispose() if owner == "parent" else host.stop())
        going.set()

        with pytest.raises(Disposed):
            await creating
        assert (heard, host.agents, parent.children, layers(host)[0]) == ([parent], (), [], 0)

    live(tmp_path, main, watch=watch)


def test_an_agent_that_is_ready_while_its_host_stops_is_never_published(tmp_path: Path) -> None:
    """L2: nobody would dispose of it any more."""
    going, ready = asyncio.Event(), asyncio.Event()

    async def wait(agent: Agent) -> None:
        await going.wait()
        ready.set()

    async def stopping(host: Host) -> None:
        going.set()
        await ready.wait()
        await turns(3)

    async def main(host: Host) -> None:
        creating = asyncio.create_task(host.create_agent(setup=wait, directory=tmp_path))
        await turns(3)
        await host.stop()

        with pytest.raises(Disposed):
            await creating

    live(tmp_path, main, pack=Hooks(host_stopping=stopping))


def test_a_session_has_one_agent_and_a_second_one_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """L4."""

    async def main(host: Host) -> None:
        model = ScriptedModel("done")
        agent = await host.create_agent(directory=tmp_path, model=model)

        with pytest.raises(UsageError, match=f"session {agent.id} has an agent already"):
            await host.create_agent(session=agent.session, setup=lambda second: void(second.restrict(deny=["h"])))

        assert (host.agents, agent.view().names, agent.id) == ((agent,), ("h",), agent.session.id)
        assert (await host.submit(agent.id, "go").wait()).text == "done"

    live(tmp_path, main, "h")


def void(_value: object) -> None:
    """Return nothing."""


def test_a_refused_second_agent_leaves_the_processes_of_the_first_alone(tmp_path: Path) -> None:
    """L4, rule 14: processes belong to a session, and its driver is the first."""

    async def main(host: Host) -> None:
        agent = await host.create_agent(directory=tmp_path)
        process = await host.spawn(ProcessSpec(("sleep", "60"), tmp_path, session=agent.id))

        with pytest.raises(UsageError, match="has an agent already"):
            await host.create_agent(session=agent.session)
        alive = process.returncode
        await agent.dispose()

        assert (alive, process.returncode is not None) == (None, True)

    live(tmp_path, main)


def test_of_agents_created_for_one_session_at_once_exactly_one_is(tmp_path: Path) -> None:
    """L4: decided when they enter, whoever asked first."""

    async def main(host: Host) -> None:
        session = Session.new(tmp_path)

        async def setup(agent: Agent) -> None:
            await asyncio.sleep(0)

        made = await asyncio.gather(
            *(host.create_agent(session=session, setup=setup) for _ in range(5)), return_exceptions=True
        )

        assert [type(one) for one in made].count(UsageError) == 4
        assert [one for one in made if isinstance(one, Agent)] == list(host.agents)

    live(tmp_path, main)


def test_disposing_of_an_agent_again_leaves_a_later_one_of_its_session_alone(tmp_path: Path) -> None:
    """L4: a stale disposer never removes a later agent of the same id."""

    async def main(host: Host) -> None:
        first = await host.create_agent(directory=tmp_path)
        await first.dispose()
        second = await host.create_agent(session=first.session, model=ScriptedModel("done"))

        await asyncio.gather(first.dispose(), host.dispose(first))

        assert (host.agents, second.status) == ((second,), "idle")
        assert (await second.followup("go").wait()).text == "done"

    live(tmp_path, main)


# -- the announcement (L3, L5)


def lives(heard: list[str], name: str) -> Hooks:
    """Return a pack that notes whose beginning and end it was told."""
    return Hooks(
        agent_created=lambda agent: heard.append(f"{name} created {agent in agent.host.agents}"),
        agent_disposed=lambda agent: heard.append(f"{name} gone {agent in agent.host.agents}"),
    )


def test_a_veto_undoes_the_agent_and_those_who_were_told_hear_of_its_end_once(tmp_path: Path) -> None:
    """AC-L03: the id may be used again."""
    heard: list[str] = []
    vetoes = [True]

    def listener2(agent: Agent) -> None:
        if vetoes.pop():
            raise ValueError("not this one")

    async def main(host: Host) -> None:
        session, before = Session.new(tmp_path), layers(host)
        with pytest.raises(PegboardError, match="agent_created of pack `b` failed: ValueError: not this one"):
            await host.create_agent(session=session, setup=lambda agent: void(agent.tools.register(named("s"))))
        assert (heard, host.agents, layers(host)) == (["a created True", "a gone False"], (), before)

        heard.clear()
        vetoes.append(False)
        await host.create_agent(session=session)
        assert heard == ["a created True", "c created True"]

    live(tmp_path, main, a=lives(heard, "a"), b=Hooks(agent_created=listener2), c=lives(heard, "c"))


def test_what_was_registered_and_begun_on_a_vetoed_agent_is_undone(tmp_path: Path) -> None:
    """L3: also input that came with the announcement."""
    model, ended = ScriptedModel("done"), []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("task")

    def first(agent: Agent) -> None:
        agent.tools.register(named("s"))
        agent.tasks.start(work())
        agent.followup("never")

    async def main(host: Host) -> None:
        before = layers(host)
        creating = host.create_agent(directory=tmp_path, model=model)
        with pytest.raises(PegboardError, match="no more"):
            await creating
        assert (model.requests, layers(host), host.faults) == ([], before, [])

    live(tmp_path, main, a=Hooks(agent_created=first), b=Hooks(agent_created=raising(ValueError("no more"))))


def test_a_vetoed_child_leaves_its_parent_without_a_child(tmp_path: Path) -> None:
    """L3."""

    def only_roots(agent: Agent) -> None:
        if agent.parent:
            raise ValueError("roots only")

    async def main(host: Host) -> None:
        parent = await host.create_agent(directory=tmp_path)
        with pytest.raises(PegboardError, match="roots only"):
            await host.create_agent(parent=parent)
        assert (parent.children, host.agents, parent.status) == ([], (parent,), "idle")

    live(tmp_path, main, a=Hooks(agent_created=only_roots))


def test_an_async_agent_created_is_refused_when_its_pack_is_loaded(tmp_path: Path) -> None:
    """AC-L04 does not arise: `agent_created` is sync, so there is no late rejection to tell about."""

    async def later(agent: Agent) -> None:
        """Too late for a veto."""

    async def main(host: Host) -> None:
        with pytest.raises(PegboardError, match="pack `late` is failed: `agent_created` must be a plain function"):
            await host.load_pack("late", Hooks(agent_created=later))
        assert not host.is_active("late")

    live(tmp_path, main)


def test_an_agent_created_that_returns_an_awaitable_vetoes(tmp_path: Path) -> None:
    """AC-L04: one that hides its colour until it is called is a failure, and nobody awaits it."""

    async def later() -> None:
        """Never awaited."""

    async def main(host: Host) -> None:
        with pytest.raises(PegboardError, match="it is async; this hook must be sync"):
            await host.create_agent(directory=tmp_path)
        assert host.agents == ()

    live(tmp_path, main, late=Hooks(agent_created=lambda agent: later()))


def test_an_agent_disposed_of_during_its_announcement_is_live_for_every_listener(tmp_path: Path) -> None:
    """AC-L05: `disposed` follows `created`, for each of them, in reverse order."""
    heard: list[str] = []
    ends: list[asyncio.Future[None]] = []
    killer = Hooks(agent_created=lambda agent: ends.append(asyncio.ensure_future(agent.dispose())))

    async def main(host: Host) -> None:
        await host.create_agent(directory=tmp_path)
        await asyncio.gather(*ends)

        assert heard == ["a created True", "c created True", "c gone False", "a gone False"]
        assert host.agents == ()

    live(tmp_path, main, a=lives(heard, "a"), b=killer, c=lives(heard, "c"))


# -- the end (L6)


def test_two_who_dispose_at_once_wait_for_the_same_end_and_it_is_told_once(tmp_path: Path) -> None:
    """AC-L15: after the scope was unwound."""
    heard: list[Any] = []
    watch = Hooks(
        agent_disposed=lambda agent: heard.append(
            (agent.status, agent.view().names, agent in agent.host.agents, layers(agent.host))
        )
    )

    async def main(host: Host) -> None:
        before = layers(host)
        agent = await host.create_agent(directory=tmp_path)
        agent.tools.register(named("x"))
        agent.register(Hooks(guard_tool_call=lambda call: None, observe=lambda event: None))

        async def dispose(name: str) -> None:
            await agent.dispose()
            heard.append(name)

        await asyncio.gather(dispose("first"), dispose("second"), host.dispose(agent))

        assert heard == [("disposed", ("h",), False, before), "first", "second"]

    live(tmp_path, main, "h", watch=watch)


def test_an_end_cancels_then_waits_then_undoes_then_leaves_then_tells(tmp_path: Path) -> None:
    """L6."""
    order: list[str] = []
    watch = Hooks(
        observe=lambda event: order.append(f"run ended: {event.text}") if isinstance(event, RunEnd) else None,
        agent_disposed=lambda agent: order.append("told"),
    )

    async def main(host: Host) -> None:
        model = Gated()
        agent = await host.create_agent(directory=tmp_path, model=model)
        agent.scope.effect(lambda: order.append(f"undone, in the registry: {agent in host.agents}"))
        run = agent.followup("go")
        await model.asked.wait()

        await agent.dispose()

        assert order == ["run ended: the agent was disposed of", "undone, in the registry: True", "told"]
        assert ((await run.wait()).reason, host.agents) == ("aborted", ())

    live(tmp_path, main, watch=watch)


def test_a_caller_who_is_cancelled_does_not_stop_the_end_for_the_others(tmp_path: Path) -> None:
    """L6, AC-L15: every announced agent is disposed of, whoever loses patience."""
    heard: list[str] = []

    async def main(host: Host) -> None:
        model = Gated()
        agent = await host.create_agent(directory=tmp_path, model=model)
        agent.followup("go")
        await model.asked.wait()
        impatient, patient = [asyncio.create_task(agent.dispose()) for _ in range(2)]
        await turns(2)
        impatient.cancel()

        await patient

        with pytest.raises(asyncio.CancelledError):
            await impatient
        assert (host.agents, agent.status, heard[-1]) == ((), "disposed", "a gone False")

    live(tmp_path, main, a=lives(heard, "a"))


@pytest.mark.parametrize("hook", ["run_starting", "agent_pre_step", "run_stopping"])
def test_a_pack_may_dispose_of_the_agent_that_it_is_called_for(tmp_path: Path, hook: str) -> None:
    """L6: awaiting one's own end is no deadlock; the run ends as aborted and the agent is gone."""
    heard: list[str] = []

    async def kill(run: Run) -> None:
        await run.agent.dispose()

    async def kill_before_a_step(step: Step) -> None:
        await step.agent.dispose()

    kills = {"agent_pre_step": kill_before_a_step}.get(hook, kill)

    async def main(host: Host) -> None:
        agent = await host.create_agent(directory=tmp_path, model=ScriptedModel("done"))

        end = await agent.followup("go").wait()
        await agent.dispose()

        assert (end.reason, end.text) == ("aborted", "the agent was disposed of")
        assert (heard, host.agents) == (["a created True", "a gone False"], ())

    live(tmp_path, main, a=lives(heard, "a"), killer=Hooks(**{hook: kills}))


def test_an_undo_that_raises_is_reported_and_the_rest_is_undone(tmp_path: Path) -> None:
    """L6, T4."""
    heard: list[str] = []

    async def main(host: Host) -> None:
        before = layers(host)
        agent = await host.create_agent(directory=tmp_path)
        agent.tools.register(named("x"))
        agent.scope.effect(raising(ValueError("body_never_ended")))

        await agent.dispose()

        assert (layers(host), host.agents, heard[-1]) == (before, (), "a gone False")
        assert [fault.text for fault in host.faults] == ["ValueError: body_never_ended"]

    live(tmp_path, main, a=lives(heard, "a"))


def test_the_tasks_of_an_agent_have_ended_before_what_it_registered_is_undone(tmp_path: Path) -> None:
    """L6, rule 14."""
    order: list[str] = []

    async def work(agent: Agent) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await turns(3)
            order.append(f"task ended, sees {agent.view().names}")

    async def main(host: Host) -> None:
        agent = await host.create_agent(directory=tmp_path)
        agent.tools.register(named("x"))
        agent.tasks.start(work(agent))
        await turns(1)

        await agent.dispose()

        assert order == ["task ended, sees ('x',)"]

    live(tmp_path, main)


# -- who sees what of a run (L7, L11 to L15, L18)


def test_a_packs_listener_hears_every_agent_and_an_agents_own_only_that_one(tmp_path: Path) -> None:
    """AC-L06, L7."""
    heard: list[str] = []

    def hears(name: str) -> Hooks:
        return Hooks(agent_pre_step=lambda step: heard.append(f"{name} hears {step.agent.name}"))

    async def main(host: Host) -> None:
        a, b = [await host.create_agent(name=n, directory=tmp_path, model=ScriptedModel("done")) for n in "ab"]
        a.register(hears("a's"))
        for agent in (a, b):
            await agent.followup("go").wait()

        assert sorted(heard) == ["a's hears a", "pack hears a", "pack hears b"]

    live(tmp_path, main, pack=hears("pack"))


def test_a_tool_registered_before_a_step_is_in_no_request_of_that_run_and_in_the_next_ones_first(
    tmp_path: Path,
) -> None:
    """AC-L07, AC-L08, AC-L09, rule 3."""

    def add(step: Step) -> None:
        if (step.run, step.number) == (1, 1):
            step.agent.tools.register(named("n"))

    async def main(host: Host) -> None:
        model = ScriptedModel(call("n"), "one", call("n"), "two")
        agent = await host.create_agent(directory=tmp_path, model=model)
        await agent.followup("first").wait()
        await agent.followup("second").wait()

        assert [offered(request) for request in model.requests] == [["h"], ["h"], ["h", "n"], ["h", "n"]]
        early, late = told(agent, Returned)
        assert (early.code, early.content) == (
            "UNKNOWN_TOOL",
            'Error: unknown tool "n" (available from the next message)',
        )
        assert (late.status, late.content) == ("ok", "n")

    live(tmp_path, main, "h", pack=Hooks(agent_pre_step=add))


@pytest.mark.parametrize("replaced", [False, True])
def test_a_tool_that_is_taken_away_or_replaced_during_a_run_fails_at_the_call(tmp_path: Path, replaced: bool) -> None:
    """Rule 3: narrowing is live, and another tool of the name is not what the run was shown (AC-T04)."""

    async def main(host: Host) -> None:
        model = ScriptedModel(call("t"), call("t"), "one", call("t"), "two")
        agent = await host.create_agent(directory=tmp_path, model=model)
        undo = agent.tools.register(named("t", "own"))
        if replaced:
            host.tools.register(named("t", "host's"))
        agent.register(Hooks(agent_pre_step=lambda step: undo() if step.number == 2 else None))
        await agent.followup("first").wait()
        await agent.followup("second").wait()

        results = [event.content if event.status == "ok" else event.code for event in told(agent, Returned)]
        assert results == ["own", "WITHDRAWN", "host's" if replaced else "UNKNOWN_TOOL"]

    live(tmp_path, main)


def test_a_rejected_message_is_gone_and_the_one_queued_behind_it_runs(tmp_path: Path) -> None:
    """AC-L10, L13: neither put back nor in the transcript; what was staged after the claim stays."""

    def reject(step: Step) -> Reject | None:
        if step.run == 1:
            step.agent.inject("staged")
            return Reject("not this")
        return None

    async def main(host: Host) -> None:
        model = ScriptedModel("done")
        agent = await host.create_agent(directory=tmp_path, model=model)
        agent.inject("claimed")
        ends = [await run.wait() for run in (agent.followup("first"), agent.followup("second"))]

        assert [(end.reason, end.text, end.steps) for end in ends] == [
            ("blocked", "not this", 0),
            ("completed", "done", 1),
        ]
        assert [said(request) for request in model.requests] == [["staged", "second"]]

    live(tmp_path, main, pack=Hooks(agent_pre_step=reject))


def test_entering_with_nothing_completes_the_run_without_a_model_call(tmp_path: Path) -> None:
    """AC-L11."""

    async def main(host: Host) -> None:
        model = ScriptedModel()
        agent = await host.create_agent(directory=tmp_path, model=model)
        end = await agent.followup("go").wait()

        assert (end.reason, model.requests, told(agent, Said)) == ("completed", [], [])

    live(tmp_path, main, pack=Hooks(agent_pre_step=lambda step: Enter(())))


def test_rewritten_messages_are_what_is_recorded_and_nothing_else_changes(tmp_path: Path) -> None:
    """AC-L12."""

    async def main(host: Host) -> None:
        model = ScriptedModel("done")
        agent = await host.create_agent(Definition(prompt="You are."), directory=tmp_path, model=model)
        await agent.followup("go").wait()

        assert [event.text for event in told(agent, Said)] == said(model.requests[0]) == ["rewritten"]
        assert (model.requests[0].prompt, offered(model.requests[0])) == ("You are.", ["h"])

    live(tmp_path, main, "h", pack=Hooks(agent_pre_step=lambda step: Enter((UserMessage("rewritten"),))))


def test_a_raising_pre_step_ends_that_agents_run_only_and_its_next_message_runs(tmp_path: Path) -> None:
    """AC-L13, L14."""

    def break_first(step: Step) -> None:
        if step.run == 1:
            raise ValueError("broken")

    async def main(host: Host) -> None:
        a, b = [await host.create_agent(directory=tmp_path, model=ScriptedModel("done")) for _ in "ab"]
        a.register(Hooks(agent_pre_step=break_first))
        first, second, other = a.followup("first"), a.followup("second"), b.followup("go")

        failed = await first.wait()

        assert (failed.reason, "agent_pre_step" in failed.text, "ValueError: broken" in failed.text) == (
            "error",
            True,
            True,
        )
        assert [(await run.wait()).reason for run in (second, other)] == ["completed", "completed"]

    live(tmp_path, main)


def test_a_raising_observer_is_contained_and_the_others_hear_all(tmp_path: Path) -> None:
    """AC-L14, L8."""
    heard: list[str] = []

    async def main(host: Host) -> None:
        agent = await host.create_agent(directory=tmp_path, model=ScriptedModel("done"))
        end = await agent.followup("go").wait()

        assert (end.reason, heard[0], heard[-1]) == ("completed", "session_start", "run_end")
        assert {(fault.pack, fault.text) for fault in host.faults} == {("a", "ValueError: no")}
        assert len(host.faults) == len(heard)

    live(
        tmp_path,
        main,
        a=Hooks(observe=raising(ValueError("no"))),
        b=Hooks(observe=lambda event: heard.append(event.type)),
    )


@pytest.mark.parametrize("steering_first", [False, True])
def test_a_listener_that_steers_at_the_end_makes_one_more_step_whatever_the_order(
    tmp_path: Path, steering_first: bool
) -> None:
    """AC-L18, L17: data decides, order cannot."""
    asked: list[str] = []

    async def steer_once(run: Run) -> None:
        asked.append("steers")
        if asked.count("steers") == 1:
            run.agent.steer("one more")

    steering, other = Hooks(run_stopping=steer_once), Hooks(run_stopping=lambda run: asked.append("other"))
    packs = {"a": steering, "b": other} if steering_first else {"a": other, "b": steering}

    async def main(host: Host) -> None:
        model = ScriptedModel("first", "second")
        agent = await host.create_agent(directory=tmp_path, model=model)
        end = await agent.followup("go").wait()

        assert ((end.text, end.steps), said(model.requests[1])) == (("second", 2), ["go", "one more"])
        assert sorted(asked) == ["other", "other", "steers", "steers"]

    live(tmp_path, main, **packs)


def test_every_run_has_one_end_every_step_one_and_every_call_one_result_however_it_ended(tmp_path: Path) -> None:
    """AC-L19, L18."""

    def reject(step: Step) -> Reject | None:
        return Reject("no") if step.messages == (UserMessage("block"),) else None

    async def main(host: Host) -> None:
        gated = Gated()
        agent = await host.create_agent(
            directory=tmp_path, model=ScriptedModel(call("h"), "done", ValueError("broken"))
        )
        runs = [agent.followup(text) for text in ("complete", "block", "fail")]
        await agent.settled()
        agent._model = gated
        runs.append(agent.followup("abort"))
        await gated.asked.wait()
        agent.cancel("enough")

        assert [(await run.wait()).reason for run in runs] == ["completed", "blocked", "error", "aborted"]
        events = [
            (event.type, event.run) for event in told(agent, RunStart, RunEnd, StepStart, StepEnd, Called, Returned)
        ]
        ended = [("run_end", 1), ("run_start", 2), ("run_end", 2), ("run_start", 3), ("step_start", 3), ("step_end", 3)]
        assert [event for event in events if event[1] == 1][:5] == [
            (kind, 1) for kind in ("run_start", "step_start", "tool_call", "tool_result", "step_end")
        ]
        assert events[7:13] == ended
        assert events[13:] == [("run_end", 3), *[(k, 4) for k in ("run_start", "step_start", "step_end", "run_end")]]

    live(tmp_path, main, "h", pack=Hooks(agent_pre_step=reject))


# -- delivery (L19)


def test_followups_run_one_after_another_each_in_a_run_of_its_own(tmp_path: Path) -> None:
    """L19."""

    async def main(host: Host) -> None:
        model = ScriptedModel("one", "two", "three")
        agent = await host.create_agent(directory=tmp_path, model=model)
        runs = [agent.followup(text) for text in "abc"]
        numbers = [run.number for run in runs]

        assert [(await run.wait()).text for run in runs] == ["one", "two", "three"]
        assert (numbers, [run.number for run in runs], agent.status) == ([1, 0, 0], [1, 2, 3], "idle")
        assert [said(request) for request in model.requests] == [["a"], ["a", "b"], ["a", "b", "c"]]

    live(tmp_path, main)


def test_what_is_steered_enters_the_nearest_step_of_the_run_under_way(tmp_path: Path) -> None:
    """L19: before what was queued earlier."""

    async def main(host: Host) -> None:
        model = ScriptedModel(call("steers"), "one", "two")
        agent = await host.create_agent(directory=tmp_path, model=model)
        returned: list[Run] = []

        @tool(effect="read", inline=True)
        def steers() -> str:
            """Steer."""
            returned.append(agent.steer("now"))
            return "steered"

        agent.tools.register(steers)
        first, second = agent.followup("first"), agent.followup("second")
        await second.wait()

        assert [said(request) for request in model.requests] == [
            ["first"],
            ["first", "now"],
            ["first", "now", "second"],
        ]
        assert returned == [first]

    live(tmp_path, main)


def test_what_is_steered_during_the_last_reply_makes_the_run_go_on(tmp_path: Path) -> None:
    """L19."""

    async def main(host: Host) -> None:
        model = Gated()
        agent = await host.create_agent(directory=tmp_path, model=model)
        run = agent.followup("go")
        await model.asked.wait()
        agent.steer("more")
        model.gate.set()

        assert ((await run.wait()).steps, said(model.requests[1])) == (2, ["go", "more"])

    live(tmp_path, main)


def test_steering_an_idle_agent_begins_a_run(tmp_path: Path) -> None:
    """L19."""

    async def main(host: Host) -> None:
        agent = await host.create_agent(directory=tmp_path, model=ScriptedModel("done"))
        assert (await agent.steer("go").wait()).text == "done"

    live(tmp_path, main)


def test_what_is_steered_too_late_for_its_run_gets_one_of_its_own(tmp_path: Path) -> None:
    """L19: input never vanishes between two runs."""

    async def main(host: Host) -> None:
        model = ScriptedModel("one", "two")
        agent = await host.create_agent(directory=tmp_path, model=model)

        def late(event: Event) -> None:
            if isinstance(event, RunEnd) and event.run == 1:
                agent.inject("and mind this")
                agent.steer("too late")

        host.listen(late)
        await agent.followup("go").wait()
        await agent.settled()

        assert said(model.requests[1]) == ["go", "and mind this", "too late"]
        assert [event.run for event in told(agent, RunEnd)] == [1, 2]

    live(tmp_path, main)


def test_what_is_injected_into_an_idle_agent_waits_for_the_next_run(tmp_path: Path) -> None:
    """AC-L16."""

    async def main(host: Host) -> None:
        model = ScriptedModel("done")
        agent = await host.create_agent(directory=tmp_path, model=model)
        agent.inject("by the way")
        await turns(5)
        before = (agent.status, told(agent, Event))

        await agent.followup("go").wait()

        assert (before, said(model.requests[0])) == (("idle", []), ["by the way", "go"])

    live(tmp_path, main)


def test_what_is_injected_during_the_last_reply_does_not_make_the_run_go_on(tmp_path: Path) -> None:
    """L19: it never wakes; the next run gets it."""

    async def main(host: Host) -> None:
        model = Gated()
        agent = await host.create_agent(directory=tmp_path, model=model)
        run = agent.followup("go")
        await model.asked.wait()
        agent.inject("by the way")
        model.gate.set()
        first = await run.wait()
        await turns(5)
        idle = agent.status
        await agent.followup("next").wait()

        assert (first.steps, idle, said(model.requests[1])) == (1, "idle", ["go", "by the way", "next"])

    live(tmp_path, main)


def test_cancelling_drops_what_is_queued_and_records_it_and_the_first_cause_counts(tmp_path: Path) -> None:
    """L19."""

    async def main(host: Host) -> None:
        model = Gated()
        agent = await host.create_agent(directory=tmp_path, model=model)
        runs = [agent.followup(text) for text in ("a", "b", "c")]
        await model.asked.wait()
        agent.steer("now")
        agent.inject("later")

        agent.cancel("enough")
        agent.cancel("more than enough")

        ends = [await run.wait() for run in runs]
        assert [(end.reason, end.text, end.run) for end in ends] == [
            ("aborted", "enough", 1),
            ("aborted", "the input was dropped: enough", 0),
            ("aborted", "the input was dropped: enough", 0),
        ]
        await agent.settled()
        assert [(event.inputs, event.cause) for event in told(agent, Dropped)] == [
            (("now", "later", "b", "c"), "enough")
        ]
        assert (agent.status, len(model.requests)) == ("idle", 1)

    live(tmp_path, main)


def test_cancelling_with_the_inbox_kept_ends_only_the_run_under_way(tmp_path: Path) -> None:
    """L19."""

    async def main(host: Host) -> None:
        model = Gated()
        agent = await host.create_agent(directory=tmp_path, model=model)
        first, second = agent.followup("a"), agent.followup("b")
        await model.asked.wait()
        agent.inject("mind this")

        agent.cancel("enough", keep_inbox=True)
        model.gate.set()

        assert [(await run.wait()).reason for run in (first, second)] == ["aborted", "completed"]
        assert (said(model.requests[1]), told(agent, Dropped)) == (["a", "mind this", "b"], [])

    live(tmp_path, main)


def test_one_queued_run_may_be_cancelled_and_the_others_run(tmp_path: Path) -> None:
    """L19."""

    async def main(host: Host) -> None:
        model = ScriptedModel("one", "two")
        agent = await host.create_agent(directory=tmp_path, model=model)
        runs = [agent.followup(text) for text in "abc"]
        waiting = asyncio.create_task(runs[1].wait())

        runs[1].cancel("changed my mind")
        runs[1].cancel("again")

        assert [(await run.wait()).run for run in runs] == [1, 0, 2]
        assert ((await waiting).text, runs[1].signal.cause) == (
            "the input was dropped: changed my mind",
            "changed my mind",
        )
        assert [(event.inputs, event.cause) for event in told(agent, Dropped)] == [(("b",), "changed my mind")]

    live(tmp_path, main)


@pytest.mark.parametrize("busy", [False, True])
def test_what_waits_for_an_agent_that_is_disposed_of_is_recorded_as_dropped(tmp_path: Path, busy: bool) -> None:
    """L6, L19: also when it was idle, so that no input vanishes without a trace."""

    async def main(host: Host) -> None:
        model = Gated()
        agent = await host.create_agent(directory=tmp_path, model=model)
        runs = [agent.followup("first"), agent.followup("second")] if busy else []
        if busy:
            await model.asked.wait()
        agent.inject("by the way")

        await agent.dispose()

        dropped = [event.inputs for event in told(agent, Dropped)]
        assert dropped == [("by the way", "second") if busy else ("by the way",)]
        assert [(await run.wait()).reason for run in runs] == ["aborted"] * len(runs)

    live(tmp_path, main)


def test_an_agent_that_is_going_takes_no_input(tmp_path: Path) -> None:
    """L6, L19: refused rather than lost."""

    async def main(host: Host) -> None:
        model = Gated()
        agent = await host.create_agent(directory=tmp_path, model=model)
        agent.followup("go")
        await model.asked.wait()
        going = asyncio.create_task(agent.dispose())
        await turns(2)
        assert not going.done()

        for verb in (agent.followup, agent.steer, agent.inject):
            with pytest.raises(Disposed):
                verb("too late")
        await going

    live(tmp_path, main)


# -- roots, and packs that follow agents (L20, L21)


def test_a_root_is_an_agent_that_no_agent_created_whatever_its_session_descends_from(tmp_path: Path) -> None:
    """AC-L20, L20."""

    async def main(host: Host) -> None:
        a = await host.create_agent(directory=tmp_path)
        child = await host.create_agent(parent=a, session=Session.new(tmp_path))
        fork = await host.create_agent(session=Session.new(tmp_path, parent=a.id, depth=3))

        assert (host.roots(), host.agents) == ((a, fork), (a, child, fork))
        assert [(agent.root, agent.depth) for agent in (a, child, fork)] == [(a, 0), (a, 1), (fork, 0)]
        assert (child.session.parent, fork.session.parent) == (None, a.id)

    live(tmp_path, main)


def test_a_pack_that_comes_late_serves_the_agents_there_are_and_leaves_with_all_it_gave(tmp_path: Path) -> None:
    """AC-L17, L21."""

    class Guest:
        @hookimpl
        def host_started(self, host: Host) -> None:
            for agent in host.agents:
                self.agent_created(agent)

        @hookimpl
        def agent_created(self, agent: Agent) -> None:
            agent.tools.register(named("gift"))

    async def main(host: Host) -> None:
        def served() -> int:
            return sum("gift" in agent.view().names for agent in host.agents)

        counts: list[int] = []
        first, _second = [await host.create_agent(directory=tmp_path) for _ in range(2)]
        await host.load_pack("guest", Guest())
        counts.append(served())
        await host.create_agent(directory=tmp_path)
        counts.append(served())
        await first.dispose()
        counts.append(served())
        await host.unload_pack("guest")
        await host.create_agent(directory=tmp_path)

        assert [*counts, served()] == [2, 3, 2, 0]
        assert layers(host) == (0, 1)

    live(tmp_path, main)


# -- children (rule 11)


def test_a_child_starts_bare(tmp_path: Path) -> None:
    """Rule 11: the parent's own tools, listeners and prompt sections are not inherited."""
    heard: list[str] = []

    async def main(host: Host) -> None:
        parent = await host.create_agent(directory=tmp_path)
        parent.tools.register(named("own"))
        parent.register(
            Hooks(
                observe=lambda event: heard.append("event"),
                agent_pre_step=lambda step: Enter(()),
                assemble_prompt=lambda agent, prompt: (
                    prompt.adding("mine", "section") if prompt.phase == "snapshot" else None
                ),
                agent_created=lambda agent: heard.append("created"),
            )
        )
        model = ScriptedModel(call("own"), "done")
        child = await host.create_agent(Definition(prompt="P"), parent=parent, model=model)
        end = await child.followup("go").wait()

        assert (child.view().names, end.text, heard) == (("h",), "done", [])
        assert (model.requests[0].prompt, told(child, Returned)[0].code) == ("P", "UNKNOWN_TOOL")

    live(tmp_path, main, "h")


GRANTS: dict[str, tuple[list[str] | None, tuple[str, ...] | None, tuple[str, ...]]] = {
    "without one it has what the parent sees": (None, None, ("a", "b")),
    "the one given": (["b", "c"], None, ("b",)),
    "the definition's tools": (None, ("a", "later"), ("a", "later")),
    "the one given before the definition's": (["b"], ("a",), ("b",)),
    "none is not absent": ([], None, ()),
    "none in the definition is not absent": (None, (), ()),
}


@pytest.mark.parametrize("how", GRANTS)
def test_a_child_sees_what_it_was_granted_of_what_there_is(tmp_path: Path, how: str) -> None:
    """Rule 11, rule 13, TS18: names need not exist yet; what comes later and was not granted stays hidden."""
    grant, tools, seen = GRANTS[how]

    async def main(host: Host) -> None:
        parent = await host.create_agent(directory=tmp_path)
        parent.restrict(deny=["c"])
        child = await host.create_agent(Definition(tools=tools), parent=parent, grant=grant)
        host.tools.register(named("later"))

        assert child.view().names == seen
        assert "later" in parent.view().names

    live(tmp_path, main, "a", "b", "c")


def test_a_grant_never_exceeds_the_parents(tmp_path: Path) -> None:
    """Rule 1: nothing widens, through however many generations."""

    async def main(host: Host) -> None:
        root = await host.create_agent(Definition(tools=("a", "b")), directory=tmp_path)
        child = await host.create_agent(parent=root, grant=["b", "c"])
        grandchild = await host.create_agent(parent=child, grant=["a", "b", "c"])
        undefined = await host.create_agent(Definition(tools=("c", "a", "b")), parent=child)

        assert [agent.view().names for agent in (root, child, grandchild, undefined)] == [
            ("a", "b"),
            ("b",),
            ("b",),
            ("b",),
        ]

    live(tmp_path, main, "a", "b", "c")


def test_what_the_delegation_adds_in_setup_is_exempt_from_the_grant_and_nothing_else_is(tmp_path: Path) -> None:
    """Rule 1."""

    async def main(host: Host) -> None:
        parent = await host.create_agent(directory=tmp_path)
        child = await host.create_agent(
            parent=parent, grant=["a"], setup=lambda agent: void(agent.tools.register(named("report")))
        )
        child.tools.register(named("smuggled"))

        assert child.view().names == ("a", "report")
        assert (await child.call_tool("smuggled")).code == "UNKNOWN_TOOL"

    live(tmp_path, main, "a", "b")


def test_a_view_under_a_grant_is_the_same_object_until_something_changes(tmp_path: Path) -> None:
    """Rule 1."""

    async def main(host: Host) -> None:
        agent = await host.create_agent(Definition(tools=("a",)), directory=tmp_path)
        before = agent.view()
        same = agent.view()
        host.tools.register(named("b"))

        assert same is before
        assert (agent.view().names, agent.view() is agent.view()) == (("a",), True)

    live(tmp_path, main, "a")


def test_the_parents_restrictions_at_creation_bind_the_child_for_life_and_later_ones_while_they_live(
    tmp_path: Path,
) -> None:
    """Rule 11."""

    async def main(host: Host) -> None:
        parent = await host.create_agent(directory=tmp_path)
        early = parent.restrict(deny=["a"])
        child = await host.create_agent(parent=parent, grant=["a", "b", "c"])
        grandchild = await host.create_agent(parent=child, grant=["a", "b", "c"])
        late = parent.restrict(deny=["b"])
        family = (parent, child, grandchild)
        both = [agent.view().names for agent in family]

        late()
        early()

        assert both == [("c",)] * 3
        assert [agent.view().names for agent in family] == [("a", "b", "c"), ("b", "c"), ("b", "c")]

    live(tmp_path, main, "a", "b", "c")


def test_the_parents_guards_at_creation_bind_the_child_for_life_and_later_ones_while_they_live(
    tmp_path: Path,
) -> None:
    """Rule 11: they are asked about the child's call."""
    asked: list[str] = []

    def guard(name: str) -> Hooks:
        def deny(call: GuardedCall) -> Deny | None:
            if call.phase == "intent":
                asked.append(f"{name} about {call.agent.name}")
            return None

        return Hooks(guard_tool_call=deny)

    async def main(host: Host) -> None:
        parent = await host.create_agent(name="parent", directory=tmp_path)
        early = parent.register(guard("early"))
        child = await host.create_agent(name="child", parent=parent)
        grandchild = await host.create_agent(name="grandchild", parent=child)
        late = parent.register(guard("late"))
        await grandchild.call_tool("a")
        late()
        early()
        early()
        for agent in (parent, child, grandchild):
            await agent.call_tool("a")

        assert asked == [
            "early about grandchild",
            "late about grandchild",
            "early about child",
            "early about grandchild",
        ]

    live(tmp_path, main, "a")


def test_a_parents_guard_refuses_for_its_child_and_a_childs_own_guard_for_nobody_else(tmp_path: Path) -> None:
    """Rule 11, AC-T18."""

    def no(name: str) -> Hooks:
        return Hooks(guard_tool_call=lambda call: Deny(f"{name} says no"))

    async def main(host: Host) -> None:
        parent = await host.create_agent(directory=tmp_path)
        child, sibling = [await host.create_agent(parent=parent) for _ in range(2)]
        child.register(no("child"))

        assert [(await agent.call_tool("a")).status for agent in (parent, child, sibling)] == ["ok", "denied", "ok"]
        parent.register(no("parent"))
        results = [(await agent.call_tool("a")).content for agent in (parent, child, sibling)]
        assert [text.rpartition(": ")[2] for text in results] == ["parent says no", "child says no", "parent says no"]

    live(tmp_path, main, "a")


def test_a_guard_registered_twice_and_disposed_of_once_still_refuses(tmp_path: Path) -> None:
    """AC-T17."""
    guard = Hooks(guard_tool_call=lambda call: Deny("no"))

    async def main(host: Host) -> None:
        agent = await host.create_agent(directory=tmp_path)
        first, second = agent.register(guard), agent.register(guard)
        first()
        first()
        refused = (await agent.call_tool("a")).status
        second()

        assert (refused, (await agent.call_tool("a")).status) == ("denied", "ok")

    live(tmp_path, main, "a")


def test_what_a_child_uses_counts_for_all_above_it_and_for_no_sibling(tmp_path: Path) -> None:
    """DESIGN §3.1: usage rolls up along `parent`; a request is told what root and descendants used before it."""

    async def main(host: Host) -> None:
        def model(tokens: int) -> ScriptedModel:
            return ScriptedModel([TextDelta("done"), Finish(Usage(tokens, 1))])

        root = await host.create_agent(directory=tmp_path, model=model(1))
        child = await host.create_agent(parent=root, model=model(10))
        grandchild = await host.create_agent(parent=child, model=(last := model(100)))
        sibling = await host.create_agent(parent=root)
        for agent in (root, child, grandchild):
            await agent.followup("go").wait()

        used = [agent.usage.input_tokens for agent in (root, child, grandchild, sibling)]
        assert (used, last.requests[0].usage) == ([111, 110, 100, 0], Usage(11, 2))
        await grandchild.dispose()
        assert root.usage == Usage(111, 3)

    live(tmp_path, main)


def test_cancelling_a_parent_reaches_all_below_it_and_nobody_beside(tmp_path: Path) -> None:
    """DESIGN §3.1: cancellation rolls down along `parent`."""

    async def main(host: Host) -> None:
        models = [Gated() for _ in range(4)]
        root = await host.create_agent(directory=tmp_path, model=models[0])
        child = await host.create_agent(parent=root, model=models[1])
        grandchild = await host.create_agent(parent=child, model=models[2])
        beside = await host.create_agent(directory=tmp_path, model=models[3])
        runs = [agent.followup("go") for agent in (root, child, grandchild, beside)]
        await asyncio.gather(*(model.asked.wait() for model in models))

        child.cancel("enough")
        models[0].gate.set()
        models[3].gate.set()

        assert [(await run.wait()).text for run in runs] == ["done", "enough", "enough", "done"]

    live(tmp_path, main)


@pytest.mark.parametrize("keep", [False, True])
def test_cancelling_an_idle_parent_reaches_its_children_and_what_they_have_queued(tmp_path: Path, keep: bool) -> None:
    """L19, rule 9."""

    async def main(host: Host) -> None:
        root = await host.create_agent(directory=tmp_path)
        child = await host.create_agent(parent=root, model=(model := Gated()))
        first, second = child.followup("a"), child.followup("b")
        await model.asked.wait()

        root.cancel("enough", keep_inbox=keep)
        model.gate.set()

        assert [(await run.wait()).reason for run in (first, second)] == ["aborted", "completed" if keep else "aborted"]
        assert [event.inputs for event in told(child, Dropped)] == ([] if keep else [("b",)])

    live(tmp_path, main)


def test_cancelling_a_parents_run_cancels_the_runs_of_its_children_for_the_same_cause(tmp_path: Path) -> None:
    """Rule 9: cancel reaches children."""

    async def main(host: Host) -> None:
        models = [Gated() for _ in range(3)]
        root = await host.create_agent(directory=tmp_path, model=models[0])
        child = await host.create_agent(parent=root, model=models[1])
        grandchild = await host.create_agent(parent=child, model=models[2])
        runs = [agent.followup("go") for agent in (root, child, grandchild)]
        await asyncio.gather(*(model.asked.wait() for model in models))

        runs[0].cancel("enough")

        assert [((end := await run.wait()).reason, end.text) for run in runs] == [("aborted", "enough")] * 3

    live(tmp_path, main)


def test_a_childs_run_that_begins_under_a_cancelled_run_is_cancelled_too(tmp_path: Path) -> None:
    """Rule 9: a delegating body that goes on after the cancel starts no new work."""
    ends: list[RunEnd] = []

    async def main(host: Host) -> None:
        model = ScriptedModel("done")
        root = await host.create_agent(directory=tmp_path, model=ScriptedModel(call("delegate"), "done"))
        child = await host.create_agent(parent=root, model=model)

        @tool(effect="read")
        async def delegate() -> str:
            """Delegate, although the run was cancelled."""
            root.cancel("enough")
            ends.append(await child.followup("go").wait())
            return "delegated"

        root.tools.register(delegate)
        await root.followup("go").wait()

        assert ([(end.reason, end.text) for end in ends], model.requests) == ([("aborted", "enough")], [])
        await child.followup("later").wait()
        assert len(model.requests) == 1

    live(tmp_path, main)


def test_the_questions_of_a_tree_are_one_queue_and_only_its_first_can_be_answered(tmp_path: Path) -> None:
    """DESIGN §3.1, §3.3: interactions roll up along `parent`."""
    ask = Hooks(guard_tool_call=lambda call: Ask("may it?", person=True))

    async def main(host: Host) -> None:
        root = await host.create_agent(directory=tmp_path)
        child = await host.create_agent(parent=root)
        other = await host.create_agent(directory=tmp_path)
        runs = []
        for agent in (child, root, other):
            runs.append(host.submit_call(agent, ToolCall("c", "h", ""), on_ask="wait"))
            await turns(20)

        first, second = host.open_interactions(root.id)
        assert [(one.session, one.root) for one in (first, second)] == [(child.id, root.id), (root.id, root.id)]
        with pytest.raises(UsageError, match=f"interaction 1 of session {child.id} comes first"):
            await host.answer(root.id, second.id, Answer(True))
        for agent, (run, _) in zip((child, root, other), runs, strict=True):
            await host.answer(agent.id, 1, Answer(True))
            await run.wait()
        assert [results[0].status for _, results in runs] == ["ok"] * 3

    live(tmp_path, main, "h", pack=ask)


def test_the_end_of_a_parent_is_the_end_of_its_children_first_and_of_the_newest_first(tmp_path: Path) -> None:
    """L6, rule 11."""
    gone: list[str] = []
    watch = Hooks(agent_disposed=lambda agent: gone.append(agent.name))

    async def main(host: Host) -> None:
        root = await host.create_agent(name="root", directory=tmp_path)
        older = await host.create_agent(name="older", parent=root)
        await host.create_agent(name="newer", parent=root)
        model = Gated()
        busy = await host.create_agent(name="grandchild", parent=older, model=model)
        run = busy.followup("go")
        await model.asked.wait()

        await root.dispose()

        assert (gone, host.agents, root.children) == (["newer", "grandchild", "older", "root"], (), [])
        assert ((await run.wait()).reason, [event.type for event in told(busy, RunEnd)]) == ("aborted", ["run_end"])

    live(tmp_path, main, watch=watch)


def test_the_end_of_a_child_leaves_its_parent_as_it_was(tmp_path: Path) -> None:
    """L6."""

    async def main(host: Host) -> None:
        parent = await host.create_agent(directory=tmp_path, model=ScriptedModel("done"))
        child, other = [await host.create_agent(parent=parent) for _ in range(2)]
        guard = parent.register(Hooks(guard_tool_call=lambda call: None))

        await child.dispose()
        guard()

        assert (parent.children, host.agents) == ([other], (parent, other))
        assert (await parent.followup("go").wait()).text == "done"

    live(tmp_path, main)


# -- another definition, the same directory


def providers(**models: Any) -> Hooks:
    """Return a pack that provides these models under the names of their routes."""

    def provider(name: str) -> ModelProvider:
        return ModelProvider(name, "of the test", lambda _argument: models[name])

    return Hooks(register_models=lambda: map(provider, models))


def test_a_session_goes_on_with_another_definition_from_its_next_run(tmp_path: Path) -> None:
    """DESIGN §3.1 `host.rebind`."""
    old, new = ScriptedModel("old"), ScriptedModel("new")

    async def main(host: Host) -> None:
        agent = await host.create_agent(Definition(prompt="Old.", model="old"), directory=tmp_path)
        await agent.followup("one").wait()

        await host.rebind(agent, Definition(prompt="New.", model="new", tools=("b",)), "other")
        end = await agent.followup("two").wait()

        assert ((end.text, agent.name), new.requests[0].prompt) == (("new", "other"), "New.")
        assert (offered(old.requests[0]), offered(new.requests[0]), said(new.requests[0])) == (
            ["a", "b"],
            ["b"],
            ["one", "two"],
        )
        assert [(event.agent, event.definition["prompt"]) for event in told(agent, Rebound)] == [("other", "New.")]
        assert [(event.agent, event.model) for event in told(agent, RunStart)] == [("main", "old"), ("other", "new")]

    live(tmp_path, main, "a", "b", pack=providers(old=old, new=new))


def test_a_run_under_way_keeps_the_definition_that_it_began_with(tmp_path: Path) -> None:
    """DESIGN §3.1 `host.rebind`: model, prompt and limits."""
    old, new = ScriptedModel(call("rebinds"), call("rebinds"), "old"), ScriptedModel("new")

    async def main(host: Host) -> None:
        agent = await host.create_agent(Definition(prompt="Old.", model="old"), directory=tmp_path)

        @tool(effect="read")
        async def rebinds() -> str:
            """Rebind the session that this runs in."""
            await host.rebind(agent, Definition(prompt="New.", model="new", limits=Limits(steps=1, tool_calls=0)))
            return "rebound"

        agent.tools.register(rebinds)
        ends = [await agent.followup(text).wait() for text in ("one", "two")]

        assert [(end.reason, end.text) for end in ends] == [("completed", "old"), ("completed", "new")]
        assert [request.prompt for request in (*old.requests, *new.requests)] == ["Old."] * 3 + ["New."]

    live(tmp_path, main, pack=providers(old=old, new=new))


def test_rebinding_to_a_definition_of_the_configuration_goes_by_its_name(tmp_path: Path) -> None:
    """DESIGN §3.1 `host.rebind`."""

    async def main() -> None:
        async with opened(tmp_path, config='[agents.critic]\nprompt = "Doubt it."\n') as host:
            agent = await host.create_agent(directory=tmp_path, model=(model := ScriptedModel("done")))
            with pytest.raises(UsageError, match="no agent `critik` is defined; did you mean `critic`"):
                await host.rebind(agent, "critik")
            with pytest.raises(UsageError, match="has no live agent"):
                await host.rebind("abcdef01", "critic")
            unchanged = agent.name
            await host.rebind(agent.id, "critic")
            await agent.followup("go").wait()
        assert (unchanged, agent.name, model.requests[0].prompt) == ("main", "critic", "Doubt it.")

    asyncio.run(main())


def test_rebinding_a_child_does_not_widen_its_grant(tmp_path: Path) -> None:
    """Rule 1, rule 11."""

    async def main(host: Host) -> None:
        root = await host.create_agent(directory=tmp_path)
        child = await host.create_agent(parent=root, grant=["a"])
        await host.rebind(child, Definition(tools=("a", "b")))
        assert child.view().names == ("a",)

    live(tmp_path, main, "a", "b")


def test_rebinding_does_not_widen_the_grant_that_a_program_gave(tmp_path: Path) -> None:
    """Rule 1: nothing widens; a definition's list is one limit, the program's grant another."""

    async def main(host: Host) -> None:
        agent = await host.create_agent(directory=tmp_path, grant=["a"])
        await host.rebind(agent, Definition(tools=("a", "b")))
        narrower = agent.view().names
        await host.rebind(agent, Definition())
        assert (narrower, agent.view().names) == (("a",), ("a",))

    live(tmp_path, main, "a", "b")


def test_an_agent_stays_in_the_directory_that_its_session_began_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DESIGN §1: a session has one immutable directory, and its real path."""
    there, link = tmp_path / "there", tmp_path / "link"
    there.mkdir()
    link.symlink_to(there)

    async def main(host: Host) -> None:
        monkeypatch.chdir(there)
        here = await host.create_agent()
        monkeypatch.chdir(tmp_path)
        linked = await host.create_agent(directory=link)
        child = await host.create_agent(parent=linked)
        link.unlink()

        assert [agent.session.directory for agent in (here, linked, child)] == [there.resolve()] * 3
        for name in ("directory", "id"):
            with pytest.raises(AttributeError):
                setattr(here.session, name, tmp_path)

    live(tmp_path, main)


# -- connecting before a run (run_starting)


def test_all_packs_connect_at_once_and_what_they_register_is_in_this_run(tmp_path: Path) -> None:
    """DESIGN §3.1 `run_starting`: each of these waits for the other; a sync one takes part."""
    met = asyncio.Event(), asyncio.Event()

    async def meet(run: Run, mine: int) -> None:
        met[mine].set()
        await met[1 - mine].wait()
        run.agent.tools.register(named(f"t{mine}"))

    async def main(host: Host) -> None:
        model = ScriptedModel(call("t0"), "done")
        agent = await host.create_agent(directory=tmp_path, model=model)
        await agent.followup("go").wait()

        assert offered(model.requests[0]) == list(told(agent, RunStart)[0].tools) == ["t0", "t1", "t2"]
        assert told(agent, Returned)[0].status == "ok"

    live(
        tmp_path,
        main,
        a=Hooks(run_starting=lambda run: meet(run, 0)),
        b=Hooks(run_starting=lambda run: meet(run, 1)),
        c=Hooks(run_starting=lambda run: void(run.agent.tools.register(named("t2")))),
    )


def test_what_connects_too_late_appears_with_the_next_message(tmp_path: Path) -> None:
    """DESIGN §3.1 `run_starting`: the deadline lets the run begin, the rest goes on."""
    connected = asyncio.Event()

    async def connect(run: Run) -> None:
        if run.number == 1:
            await connected.wait()
            run.agent.tools.register(named("late"))

    async def main() -> None:
        host = opened(tmp_path, {"slow": Hooks(run_starting=connect)}, starting_seconds=0.001)
        async with host:
            model = ScriptedModel("one", "two")
            agent = await host.create_agent(directory=tmp_path, model=model)
            await agent.followup("first").wait()
            connected.set()
            await turns(5)
            await agent.followup("second").wait()

            assert [offered(request) for request in model.requests] == [[], ["late"]]
            assert agent.view().offered[0].pack == "slow"

    asyncio.run(main())


def test_a_pack_that_fails_to_connect_is_reported_and_the_run_goes_on(tmp_path: Path) -> None:
    """DESIGN §3.1 `run_starting`: contained."""

    async def fails(run: Run) -> None:
        await asyncio.sleep(0)
        raise OSError("unreachable")

    async def main(host: Host) -> None:
        model = ScriptedModel("done")
        agent = await host.create_agent(directory=tmp_path, model=model)

        assert ((await agent.followup("go").wait()).text, offered(model.requests[0])) == ("done", ["c"])
        assert sorted((fault.pack, fault.hook, fault.text) for fault in host.faults) == [
            ("a", "run_starting", "OSError: unreachable"),
            ("b", "run_starting", "SystemExit: 3"),
        ]

    live(
        tmp_path,
        main,
        a=Hooks(run_starting=fails),
        b=Hooks(run_starting=raising(SystemExit(3))),
        c=Hooks(run_starting=lambda run: void(run.agent.tools.register(named("c")))),
    )


def test_a_run_that_is_cancelled_while_packs_connect_ends_without_asking_the_model(tmp_path: Path) -> None:
    """DESIGN §3.1 `run_starting`, rule 10."""
    ended: list[str] = []

    async def never(run: Run) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("connecting")

    async def main(host: Host) -> None:
        model = ScriptedModel("done")
        agent = await host.create_agent(directory=tmp_path, model=model)
        run = agent.followup("go")
        await turns(3)
        run.cancel("enough")
        end = await run.wait()
        assert (end.reason, end.text, model.requests) == ("aborted", "enough", [])
        assert [event.type for event in told(agent, RunStart, RunEnd)] == ["run_start", "run_end"]

        still = list(ended)
        await agent.dispose()
        assert (still, ended) == ([], ["connecting"])

    live(tmp_path, main, slow=Hooks(run_starting=never))


def test_a_pack_that_is_unloaded_while_it_connects_registers_nothing_afterwards(tmp_path: Path) -> None:
    """Rule 14: what a pack began goes away with it."""
    connected = asyncio.Event()

    async def connect(run: Run) -> None:
        await connected.wait()
        run.agent.tools.register(named("ghost"))

    async def main(host: Host) -> None:
        model = ScriptedModel("done")
        agent = await host.create_agent(directory=tmp_path, model=model)
        run = agent.followup("go")
        await turns(3)
        await host.unload_pack("slow")
        connected.set()
        await run.wait()
        await turns(3)

        assert (offered(model.requests[0]), agent.view().names, layers(host)) == ([], (), (0, 1))

    live(tmp_path, main, slow=Hooks(run_starting=connect))


def test_an_agents_own_run_starting_is_asked_for_its_runs_only(tmp_path: Path) -> None:
    """L7."""
    heard: list[str] = []

    async def main(host: Host) -> None:
        a, b = [await host.create_agent(name=n, directory=tmp_path, model=ScriptedModel("done")) for n in "ab"]
        a.register(Hooks(run_starting=lambda run: heard.append(run.agent.name)))
        for agent in (a, b):
            await agent.followup("go").wait()
        assert heard == ["a"]

    live(tmp_path, main)
