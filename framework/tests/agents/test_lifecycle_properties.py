"""Whatever is done to agents, in whatever order: records are complete, and nothing outlives its owner."""

import asyncio
import gc
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pegboard import (
    Agent,
    Definition,
    Deny,
    Event,
    Finish,
    GuardedCall,
    Host,
    Limits,
    ModelError,
    ModelEvent,
    ModelRequest,
    PegboardError,
    Reject,
    Run,
    RunEnd,
    Session,
    Step,
    TextDelta,
    Tool,
    ToolCall,
    ToolContext,
    Usage,
    UsageError,
    UserMessage,
    hooks,
    implements,
    tool,
)
from pegboard.base.errors import Disposed
from pegboard.base.scopes import Disposer
from pegboard.config.places import Places
from pegboard.events import Called, Returned, RunStart, StepEnd, StepStart
from pegboard.testing import ScriptedModel, call

# What a model may ask for: the host's, what packs give, what a test registers, and what nobody has.
NAMES = ("shared", "gift", "late", "mid", "guest", "own1", "own2", "spoil", "nobody")
Op = tuple[str, int, int]
Script = Sequence[Sequence[str]]


async def turns(number: int) -> None:
    """Let the others go on for so many turns of the loop."""
    for _ in range(number):
        await asyncio.sleep(0)


class Executed:
    """Makes tools and keeps whose body ran for which session: (session, tool, the agent that it belongs to or "")."""

    def __init__(self) -> None:
        self.bodies: Counter[tuple[str, str, str]] = Counter()

    def tool(self, name: str, owner: str = "", naps: int = 2) -> Tool:
        """Return a tool that lets others go on while it works."""

        @tool(name=name, effect="read")
        async def body(ctx: ToolContext) -> str:
            """Work for a while."""
            self.bodies[ctx.session, name, owner] += 1
            await turns(naps)
            return name

        return body


class Acting:
    """A model that follows a script over and over: names of tools to call, `!` fails, nothing is an answer."""

    label = "acting"

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the next turn, with pauses in which others go on."""
        turn = self.script[self.asked % len(self.script)]
        self.asked += 1
        await turns(self.asked % 3)
        if "!" in turn:
            raise ModelError("it failed", "response")
        yield TextDelta("text")
        for place, name in enumerate(turn):
            await turns(place % 2)
            yield ToolCall(f"{request.run}-{request.step}-{place}", name, "")
        yield Finish(Usage(1, 1))


class Watch:
    """Counts who it was told about; every agent it heard of must end once, later, and no other."""

    def __init__(self) -> None:
        self.created: Counter[Agent] = Counter()
        self.disposed: Counter[Agent] = Counter()

    @implements(hooks.agent_created)
    def agent_created(self, agent: Agent) -> None:
        assert agent in agent.host.agents
        self.created[agent] += 1

    @implements(hooks.agent_disposed)
    def agent_disposed(self, agent: Agent) -> None:
        assert self.created[agent] == 1
        assert agent not in agent.host.agents
        assert (agent.status, agent.current_run, agent.children, len(agent.tasks)) == ("disposed", None, [], 0)
        self.disposed[agent] += 1


class Veto:
    """Vetoes so many of the next agents."""

    left = 0

    @implements(hooks.agent_created)
    def agent_created(self, agent: Agent) -> None:
        if self.left:
            self.left -= 1
            raise ValueError("vetoed")


class Giving:
    """Gives every agent a tool and a guard, others while a run starts and in its midst, and sometimes rejects."""

    def __init__(self, executed: Executed) -> None:
        self.executed = executed

    @implements(hooks.register_tools)
    def tools(self) -> list[Tool]:
        return [self.executed.tool("shared"), self.executed.tool("spoil")]

    @implements(hooks.agent_created)
    def agent_created(self, agent: Agent) -> None:
        agent.tools.register(self.executed.tool("gift", agent.id))
        agent.register(_Guard())

    @implements(hooks.run_starting)
    async def run_starting(self, run: Run) -> None:
        await turns(run.number * 5 % 13)
        if run.agent.view().get("late") is None and run.number % 2:
            run.agent.tools.register(self.executed.tool("late", run.agent.id))

    @implements(hooks.agent_pre_step)
    async def agent_pre_step(self, step: Step) -> Reject | None:
        await turns(step.number % 2)
        if step.number == 2 and step.agent.view().get("mid") is None:
            step.agent.tools.register(self.executed.tool("mid", step.agent.id))
        return Reject("blocked") if UserMessage("block") in step.messages else None


class _Guard:
    @implements(hooks.guard_tool_call)
    async def deny(self, call: GuardedCall) -> Deny | None:
        await asyncio.sleep(0)
        return Deny("it spoils") if call.name == "spoil" else None


class Guest:
    """A pack that comes and goes: what it gave to agents goes with it."""

    def __init__(self, executed: Executed) -> None:
        self.executed = executed

    @implements(hooks.host_started)
    async def host_started(self, host: Host) -> None:
        for agent in host.agents:
            self.agent_created(agent)
        host.start_task(asyncio.Event().wait())

    @implements(hooks.agent_created)
    def agent_created(self, agent: Agent) -> None:
        agent.tools.register(self.executed.tool("guest", agent.id))
        agent.restrict(deny=["spoil"])

    @implements(hooks.run_starting)
    async def run_starting(self, run: Run) -> None:
        await turns(7)
        run.agent.register(_Guard())


def has_of_guest(agent: Agent) -> bool:
    """Whether something of that pack is on an agent (rule 14)."""
    services, scope = agent.services, agent.scope
    packs = [offered.pack for offered in agent.view().offered]
    packs += [restriction.pack for restriction in services.tools.restrictions(scope)]
    return "guest" in packs + [registered.pack for registered in services.dispatcher.registered_on(scope)]


class Life:
    """A host with everything that was begun in it; `do` does one operation to it, which may be refused."""

    def __init__(self, folder: Path, script: Script) -> None:
        self.folder, self.script = folder, script
        self.executed, self.veto = Executed(), Veto()
        self.watches = Watch(), Watch()
        packs = {"a": self.watches[0], "give": Giving(self.executed), "v": self.veto, "z": self.watches[1]}
        self.host = Host.open(
            environ={}, distributions=[], packs=packs, places=Places(folder / "no.toml", folder / "state")
        )
        self.agents: list[Agent] = []
        self.runs: list[Run] = []
        self.undo: list[Disposer] = []
        self.begun: list[asyncio.Task[Any]] = []

    async def do(self, op: Op) -> None:
        """Do one thing; only errors that tell a person what is wrong may come of it."""
        kind, which, how = op
        if kind in self.OF_AGENTS:
            if self.agents:
                with suppress(Disposed, UsageError):
                    self.OF_AGENTS[kind](self, self.agents[which % len(self.agents)], how)
        else:
            await self.OF_HOST[kind](self, which, how)
        if not self.host.is_active("guest"):
            assert not any(map(has_of_guest, self.host.agents))

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        self.begun.append(asyncio.get_running_loop().create_task(work))

    # -- with the host

    async def create(self, which: int, how: int) -> None:
        """Create an agent, a child if there is one to be its parent, with a setup that waits or raises."""
        parent = self.agents[which % len(self.agents)] if self.agents and how % 3 else None

        async def setup(agent: Agent) -> None:
            agent.tools.register(self.executed.tool("own1", agent.id))
            agent.inject("injected in setup")
            await turns(how % 5)
            if how % 7 == 6:
                raise ValueError("setup")

        async def made() -> None:
            definition = Definition(limits=Limits(steps=3, tool_calls=5))
            agent = await self.host.create_agent(
                definition, directory=self.folder, parent=parent, setup=setup, model=Acting(self.script)
            )
            self.agents.append(agent)

        self.begin(made())

    async def let(self, which: int, how: int) -> None:
        """Let what is under way go on for a moment, or to its end."""
        await turns(which % 7 if how % 4 else 100)

    async def veto_next(self, which: int, how: int) -> None:
        self.veto.left = how % 3

    async def abandon(self, which: int, how: int) -> None:
        """Cancel who waits for a creation or for an end."""
        if self.begun:
            self.begun[which % len(self.begun)].cancel()

    async def cancel_run(self, which: int, how: int) -> None:
        if self.runs:
            self.runs[which % len(self.runs)].cancel("this run only")

    async def lift(self, which: int, how: int) -> None:
        if self.undo:
            self.undo[which % len(self.undo)]()

    async def load(self, which: int, how: int) -> None:
        if not self.host.is_active("guest"):
            await self.host.load_pack("guest", Guest(self.executed))

    async def unload(self, which: int, how: int) -> None:
        await self.host.unload_pack("guest")

    OF_HOST: ClassVar[dict[str, Callable[["Life", int, int], Awaitable[None]]]] = {
        "create": create,
        "let": let,
        "veto": veto_next,
        "abandon": abandon,
        "cancel run": cancel_run,
        "lift": lift,
        "load": load,
        "unload": unload,
    }

    # -- with one agent

    def register(self, agent: Agent, how: int) -> None:
        self.undo.append(agent.tools.register(self.executed.tool(f"own{how % 2 + 1}", agent.id)))

    def guard(self, agent: Agent, how: int) -> None:
        self.undo.append(agent.register(_Guard()))

    def restrict(self, agent: Agent, how: int) -> None:
        ways: list[dict[str, list[str]]] = [{"deny": ["shared"]}, {"allow": ["shared"]}, {"allow": []}]
        self.undo.append(agent.restrict(**ways[how % 3]))

    def run(self, agent: Agent, how: int) -> None:
        self.runs.append(agent.followup("block" if how % 5 == 4 else "go"))

    def steer(self, agent: Agent, how: int) -> None:
        self.runs.append(agent.steer("steered"))

    def call(self, agent: Agent, how: int) -> None:
        run, _results = self.host.submit_call(agent, ToolCall("c", NAMES[how % len(NAMES)], ""))
        self.runs.append(run)

    OF_AGENTS: ClassVar[dict[str, Callable[["Life", Agent, int], object]]] = {
        "register": register,
        "guard": guard,
        "restrict": restrict,
        "run": run,
        "steer": steer,
        "call": call,
        "inject": lambda self, agent, how: agent.inject("injected"),
        "cancel": lambda self, agent, how: agent.cancel(f"cause {how}", keep_inbox=how % 2 == 0),
        "dispose": lambda self, agent, how: self.begin(agent.dispose()),
    }

    # -- what must be true at the end

    async def end(self) -> None:
        """Stop the host when everything that was begun has come to its end."""
        for begun in await asyncio.gather(*self.begun, return_exceptions=True):
            assert begun is None or isinstance(begun, PegboardError | asyncio.CancelledError | ValueError), repr(begun)
        await self.host.stop()
        await turns(5)

    def left_over(self) -> dict[str, int]:
        """Return how much of what was registered or begun there still is."""
        services = self.host._services
        return {
            "agents": len(self.host.agents),
            "layers of tools": len(services.tools._layers),
            "layers of hooks": len(services.dispatcher._layers),
            "tasks of agents": sum(len(agent.tasks) for agent in self.agents),
            "tasks of packs": len(self.host._packs.tasks),
            "tasks": len(asyncio.all_tasks()) - 1,
            "children": sum(len(agent.children) for agent in self.agents),
            "runs without an end": sum(not run.task.done() for run in self.runs),
        }


class Record:
    """Reads one session's events and fails at the first that has no place there."""

    def __init__(self) -> None:
        self.run = self.last = self.step = 0
        self.offered: tuple[str, ...] = ()
        self.calls: dict[str, str] = {}
        self.ran: Counter[str] = Counter()

    def take(self, event: Event) -> None:
        """Follow the record by one event (rules 2 and 10, AC-L19)."""
        match event:
            case RunStart():
                assert (self.run, event.run) == (0, self.last + 1)
                self.run = self.last = event.run
                self.offered = event.tools
            case StepStart():
                assert (event.run, self.step) == (self.run, 0)
                self.step = event.step
            case Called():
                assert (event.run, event.step) == (self.run, self.step)
                assert event.id not in self.calls
                self.calls[event.id] = event.name
            case Returned():
                assert self.calls.pop(event.id) == event.name
                if event.status == "ok":
                    assert event.name in self.offered, "a run executed what its snapshot does not have"
                self.ran[event.name] += event.code not in ("UNKNOWN_TOOL", "DENIED", "WITHDRAWN", "LIMIT")
            case StepEnd():
                assert (event.step, self.calls) == (self.step, {})
                self.step = 0
            case RunEnd():
                assert (event.run, self.step, self.calls) == (self.run, 0, {})
                self.run = 0

    def close(self) -> None:
        """Say that there is no more of it."""
        assert (self.run, self.step, self.calls) == (0, 0, {})


async def check_records(life: Life) -> None:
    """Every run has one end, every step one, every call one result, and bodies ran for their own agent only."""
    sessions = [head.id for head in await (await life.host.store()).sessions()]
    for session in sessions:
        record = Record()
        for entry in await life.host.entries(session):
            record.take(entry.event)
        record.close()
        for (where, name, owner), times in life.executed.bodies.items():
            assert owner in ("", where), "a tool of one agent ran for another"
            if where == session:
                assert times <= record.ran[name], "a body ran more often than there are results of it"
    assert {where for where, _, _ in life.executed.bodies} <= set(sessions)
    assert {run.agent.id for run in life.runs if run.number} <= set(sessions)


def check_announcements(life: Life) -> None:
    """Every agent that a pack was told about ended for it exactly once; a vetoed one only for those told before."""
    first, last = life.watches
    assert first.created == first.disposed and set(first.created.values()) <= {1}
    assert last.created == last.disposed and set(last.created) <= set(first.created)
    assert set(life.agents) <= set(last.created)


kinds = [*Life.OF_HOST, *Life.OF_AGENTS, "create", "run", "run", "let", "let"]
operation = st.tuples(st.sampled_from(kinds), st.integers(0, 20), st.integers(0, 20))
CREATE: list[Op] = [("create", 0, 0), ("let", 3, 1)]
scripts = st.lists(st.lists(st.sampled_from([*NAMES, "!"]), max_size=3), min_size=1, max_size=4)


@given(scripts, st.lists(operation, min_size=5, max_size=60))
@example(
    [["shared"]],
    [("create", 0, 0), ("let", 3, 0), ("dispose", 0, 0), ("dispose", 0, 0), ("let", 1, 0), ("abandon", 1, 0)],
)
@example([["shared"]], [*CREATE, ("dispose", 0, 0), ("dispose", 0, 0), ("let", 1, 1), ("abandon", 1, 0)])
@example([["guest"]], [*CREATE, ("load", 0, 0), ("run", 0, 0), ("let", 2, 1), ("unload", 0, 0), ("let", 0, 0)])
@example([[]], [*CREATE, ("run", 0, 0), ("let", 5, 1), ("create", 0, 4), ("dispose", 0, 0)])
@example([[]], [*CREATE, ("create", 0, 1), ("let", 3, 1), ("run", 1, 0), ("dispose", 0, 0), ("let", 0, 0)])
@example([["mid"]], [*CREATE, ("run", 0, 0), ("let", 0, 0), ("run", 0, 0), ("let", 0, 0)])
def test_whatever_happens_records_are_complete_and_nothing_outlives_its_owner(
    tmp_path_factory: pytest.TempPathFactory, script: Script, ops: list[Op]
) -> None:
    """Rules 2, 10, 14; L1 to L6, AC-L19."""
    trouble: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: trouble.append(context))
        life = Life(tmp_path_factory.getbasetemp(), script)
        await life.host.start()
        for op in ops:
            await life.do(op)
        await life.end()

        assert {what: number for what, number in life.left_over().items() if number} == {}
        assert life.host.faults == []
        await check_records(life)
        check_announcements(life)

    asyncio.run(main())
    assert trouble == []


def test_two_hundred_agents_at_once_leave_nothing(tmp_path: Path) -> None:
    """Rule 14, L6: each with a tool, a guard and a run of its own; half of them are disposed of while they run."""

    async def live(life: Life) -> "list[weakref.ref[Agent]]":
        def setup(agent: Agent) -> None:
            agent.tools.register(life.executed.tool("own", agent.id))
            agent.register(_Guard())

        agents = await asyncio.gather(
            *(
                life.host.create_agent(
                    session=Session.new(tmp_path), setup=setup, model=ScriptedModel(call("own"), call("late"), "done")
                )
                for _ in range(200)
            )
        )
        runs = [agent.followup("go") for agent in agents]
        ends = [await run.wait() for run in runs[::2]]
        assert {end.text for end in ends} == {"done"}
        assert all(life.executed.bodies[agent.id, "own", agent.id] == 1 for agent in agents[::2])
        for agent in agents[1::2]:
            agent.followup("once more")
        await asyncio.gather(*(agent.dispose() for agent in agents))
        await check_records(life)
        return [weakref.ref(agent) for agent in agents]

    async def main() -> None:
        life = Life(tmp_path, [[]])
        await life.host.start()
        before = life.left_over()
        agents = await live(life)
        await turns(3)

        check_announcements(life)
        assert (len(life.watches[0].created), life.left_over(), life.host.faults) == (200, before, [])
        for watch in life.watches:
            watch.created.clear()
            watch.disposed.clear()
        gc.collect()
        assert [agent() for agent in agents if agent() is not None] == []
        await life.end()

    asyncio.run(main())
