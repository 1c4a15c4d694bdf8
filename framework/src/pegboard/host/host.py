"""The host: one process with its configuration, its packs and the agents that live in it."""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from pegboard.agents.agent import Agent
from pegboard.agents.definition import Definition
from pegboard.agents.loop import converse, take_up
from pegboard.agents.paused import OpenQuestions
from pegboard.agents.registry import AgentRegistry, Setup
from pegboard.agents.run import Run
from pegboard.agents.services import Services
from pegboard.base.errors import ConfigError, Disposed, ModelError, Problem, UsageError
from pegboard.base.files import make_private_folder
from pegboard.base.frozen import freeze
from pegboard.base.isolation import current_pack
from pegboard.base.scopes import Disposer, Scope
from pegboard.base.text import did_you_mean, one_line
from pegboard.calls.policy import KERNEL_PACK, KernelPolicy
from pegboard.calls.questions import Questions
from pegboard.config.layers import Config
from pegboard.config.places import Places
from pegboard.config.settings import read_settings
from pegboard.dispatch.dispatcher import Dispatcher, Fault
from pegboard.host.load_config import load_config
from pegboard.packs.discovery import Distribution, discover, in_process
from pegboard.packs.lifecycle import Packs, refuse_missing_packs
from pegboard.packs.loading import Loader
from pegboard.packs.survey import Pack, survey
from pegboard.process.processes import Process
from pegboard.process.spec import ProcessSpec
from pegboard.record.feed import Feed
from pegboard.record.opener import SessionOpener
from pegboard.record.recorder import Recorder
from pegboard.record.session import Session
from pegboard.record.stores import SessionStore
from pegboard.tools.registry import ToolRegistry, checked_tool
from pegboard.tools.snapshot import Snapshot
from pegboard.trust.project import read_project
from pegboard.trust.state import Consents
from pegboard.values.entries import Entry
from pegboard.values.events import Event, Rebound
from pegboard.values.hook_markers import Policy
from pegboard.values.interactions import Answer, Interaction
from pegboard.values.messages import ToolCall, ToolResult
from pegboard.values.models import Model
from pegboard.values.tool import OnAsk, Tool


class HostTools:
    """The tools that every agent of a host sees."""

    def __init__(self, host: "Host", registry: ToolRegistry) -> None:
        self._host = host
        self._registry = registry
        self.on_change = registry.on_change

    def register(self, tool: Tool) -> Disposer:
        """Add a tool for every agent; it goes away with the pack that registered it.

        Raises:
            UsageError: there is a tool of that name, or the name is reserved by another pack.
            Disposed: the host has stopped.
        """
        return self._registry.register(self._host.scope, checked_tool(tool), current_pack.get())


class Host:
    """Loads the packs and creates agents. Use it as `async with Host.open() as host:`.

    `faults` are the contained failures of hook implementations so far, in order; `tools` registers for every agent;
    `consents` is what a person agreed to, for the trusted project if there is one.
    """

    def __init__(
        self,
        config: Config,
        distributions: Iterable[Distribution],
        *,
        places: Places | None = None,
        packs: Mapping[str, object] | None = None,
        starting_seconds: float = 20.0,
    ) -> None:
        self.config = config
        self.places = places or Places.default()
        self.faults: list[Fault] = []
        self._dispatcher = Dispatcher(self.faults.append, config.table("hooks", "order"))
        self.scope: Scope = self._dispatcher.host
        registry = ToolRegistry(config.tools_off())
        self.tools = HostTools(self, registry)
        self._loader = Loader(config, self._dispatcher, registry, packs)
        self._packs = Packs(self, config, self._loader, self._dispatcher)
        self._opener = SessionOpener(self, self._dispatcher)
        self._packs.packs = self._loader.load(survey(distributions, config))
        self.setting_problems: tuple[Problem, ...] = tuple(self._loader.problems)
        project = config.project if config.trusted else None
        self.consents = Consents(self.places, project.path if project else None)
        self._started = False
        self._require = True
        self._stopping: asyncio.Task[None] | None = None
        self._dispatcher.register(KERNEL_PACK, KernelPolicy(self.places, self._policy_is_claimed))
        self._services = Services(
            dispatcher=self._dispatcher,
            recorder=Recorder(self._dispatcher, self.store, lambda failure: self.faults.append(failure.fault)),
            tools=registry,
            questions=Questions(self._dispatcher, _front_ends(config)),
            faults=self.faults,
            open_model=self.model,
            spawn=self.spawn,
            end_processes=self._packs.processes.end_session,
            starting_seconds=starting_seconds,
        )
        self._agents = AgentRegistry(self._services)
        self._open_questions = OpenQuestions(self._services, self._opener, self._agents)

    @classmethod
    def open(
        cls,
        *,
        environ: Mapping[str, str] | None = None,
        disable: Iterable[str] = (),
        distributions: Iterable[Distribution] | None = None,
        packs: Mapping[str, object] | None = None,
        policy: Collection[str] = (),
        places: Places | None = None,
        directory: Path | None = None,
        starting_seconds: float = 20.0,
        require: bool = True,
    ) -> "Host":
        """Read the configuration and load every enabled pack.

        `packs` are the program's own, by name, beside the installed ones; those named in `policy` claim it.
        `directory` is where a project's settings are looked for; without it none are read. `starting_seconds` is what
        packs get to connect before a run; without `require` a required pack may be missing, for looking only.

        Raises:
            ConfigError: with everything that is wrong, unless only a pack's own settings are (that pack fails alone).
            PegboardError: a pack that is required is not active.
            UsageError: `policy` names none of `packs`.
        """
        import os

        for name in policy:
            if name not in (packs or ()):
                raise UsageError(
                    f"`policy` names `{name}`, which is not among `packs`{did_you_mean(name, packs or ())}"
                )
        found = [*(discover() if distributions is None else distributions)]
        found += [in_process(name, claims_policy=name in policy) for name in packs or ()]
        names = [d.pack[0] for d in found if d.pack]
        config = load_config(
            names,
            disable,
            os.environ if environ is None else environ,
            places=places,
            project=None if directory is None else read_project(directory),
            policy=frozenset(d.pack[0] for d in found if d.pack and d.claims_policy),
        )
        if config.unreadable:  # what it switches off must not be imported
            raise ConfigError(config.problems)
        host = cls(config, found, places=places, packs=packs, starting_seconds=starting_seconds)
        host._refuse_bad_config()
        host._require = require
        host._check_required()
        return host

    # -- the host's own life

    async def __aenter__(self) -> "Host":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Tell the packs that the host is up; one that fails becomes inactive.

        Raises:
            PegboardError: a required pack became inactive; the host has stopped again.
        """
        if self._started:
            return
        self._started = True
        try:
            await self._packs.start()
            self._check_required()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Dispose of all agents, tell the packs, end their tasks and processes, undo what they registered.

        Once: whoever asks waits for the same end, and can't stop it.
        """
        if self._stopping is None:
            self._agents.closed = True
            self._stopping = asyncio.get_running_loop().create_task(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        for agent in reversed(self._agents.all()):
            await self._agents.dispose(agent)
        await self._packs.stop()
        self.scope.dispose()

    @property
    def packs(self) -> tuple[Pack, ...]:
        """Every installed pack with what became of it, in load order."""
        return self._packs.packs

    async def load_pack(self, name: str, pack: object) -> Pack:
        """Load one more pack, of the program itself: a class, a module or an object; `unload_pack` undoes it.

        Raises:
            PegboardError: it can't be loaded, with the reason; nothing of it is left.
        """
        return await self._packs.load(name, pack)

    async def unload_pack(self, name: str) -> None:
        """Take a pack away again, with everything it registered, here and on agents; harmless if it is not active."""
        await self._packs.unload(name)

    # -- what packs may use

    def start_task(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine as a task of the calling pack; it is cancelled when the pack or the host goes away."""
        self._packs.tasks.start(work)

    def on_stop(self, undo: Disposer) -> None:
        """Call `undo` when the calling pack or the host goes away, newest first."""
        self._packs.on_stop(undo)

    async def spawn(self, spec: ProcessSpec) -> Process:
        """Start a process under `prepare_process`; it ends with the host, or with the pack that started it.

        Raises:
            ProcessRefused: a pack refuses it, or failed.
            PegboardError: it can't be started.
        """
        return await self._packs.processes.spawn(replace(spec, owner=current_pack.get() or spec.owner))

    def state_dir(self, pack: str = "") -> Path:
        """Return a folder of a pack's own for what it keeps on this machine; it exists and only its owner reads it.

        Without a name it is the calling pack's: in its hooks other than guards and observers, and in its tools.

        Raises:
            UsageError: there is no pack of that name, or it can't be told which one calls.
            PegboardError: it can't be made.
        """
        pack = pack or current_pack.get()
        if not pack:
            raise UsageError("state_dir: it can't be told which pack calls; name it")
        if all(known.name != pack for known in self.packs):
            raise UsageError(f"no pack `{pack}` is installed{did_you_mean(pack, [p.name for p in self.packs])}")
        folder = self.places.state_dir / "packs" / pack
        for made in (self.places.state_dir, folder.parent, folder):
            make_private_folder(made)
        return folder

    async def call_hook(self, name: str, *arguments: object) -> Any:
        """Ask the implementations of a hook that a pack brought with `register_hookspecs`.

        Returns, by its kind: `collect` all items as (pack, item), `first` the first answer as (pack, answer) or None,
        `fold` the last argument as the packs left it, `in order` and `observers` nothing. What fails is contained,
        except in a `fold` or `first`.

        Raises:
            LookupError: no active pack brings such a hook.
            HookFailure: an implementation of a `fold` or `first` failed.
        """
        return await self._dispatcher.call(name, *arguments)

    def pack_object(self, pack: str) -> Any:
        """Return the object of an active pack: its instance, or its module.

        Raises:
            UsageError: no pack of that name is active.
        """
        if self.is_active(pack):
            return self._loader.instances[pack]
        for known in self.packs:
            if known.name == pack:
                raise UsageError(f"pack `{pack}` is {known.state}: {known.reason}")
        raise UsageError(f"no pack `{pack}` is installed{did_you_mean(pack, [p.name for p in self.packs])}")

    def is_active(self, pack: str) -> bool:
        """Whether a pack is active: what another pack asks instead of trying to import it."""
        return self._packs.is_active(pack)

    # -- agents and sessions

    @property
    def agents(self) -> tuple[Agent, ...]:
        """The live agents, oldest first."""
        return self._agents.all()

    def roots(self) -> tuple[Agent, ...]:
        """The live agents that no other agent created (L20)."""
        return tuple(agent for agent in self._agents.all() if agent.parent is None)

    def definition(self, name: str = "main") -> Definition:
        """Return the agent configuration `[agents.<name>]`; `main` needs none.

        Raises:
            UsageError: there is no such definition.
            ConfigError: it is wrong.
        """
        table = self.config.table("agents")
        if name != "main" and name not in table:
            raise UsageError(f"no agent `{name}` is defined{did_you_mean(name, ['main', *table])}")
        definition, wrong = self._check_definition(name)
        if definition is None:
            raise ConfigError(wrong)
        return definition

    def _check_definition(self, name: str) -> tuple[Definition | None, list[Problem]]:
        return read_settings(self.config, ("agents", name), Definition)

    def model(self, route: str) -> Model:
        """Open a model route such as `offline` or `scripted:FILE`.

        Raises:
            ModelError: kind `route`: no active pack provides it, or it can't be opened.
        """
        name, _, argument = route.partition(":")
        providers = self._loader.providers
        if found := providers.get(name):
            return found[0].open(argument)
        near = did_you_mean(name, providers)
        routes = ", ".join(sorted(providers)) or "none"
        off = ", ".join(f"{pack.name} is {pack.state} {pack.reason}" for pack in self.packs if pack.state != "active")
        told = f"there are: {routes}" + (f"; {off}" if off else "")
        raise ModelError(f"no active pack provides the model route `{route}`{near} ({told})", "route")

    async def create_agent(
        self,
        definition: str | Definition = "main",
        *,
        name: str | None = None,
        session: Session | None = None,
        parent: Agent | None = None,
        grant: Collection[str] | None = None,
        setup: Setup | None = None,
        model: Model | None = None,
        directory: Path | None = None,
    ) -> Agent:
        """Create an agent of a definition (or its name in the configuration) and announce it.

        Without a `session` it gets a new one in `directory`, its parent's directory, or the current one. A child has a
        grant: the one given, its definition's tools, or the tools that the parent sees now; never more than its
        parent's. `setup(agent)` registers what must be there before anybody sees the agent (L1).

        Raises:
            UsageError: the session has an agent, or there is no such definition.
            PegboardError: a pack vetoed it in `agent_created`; those told before were told that it is gone.
            Disposed: the host or the parent is gone.
        """
        self.scope.check()
        if self._agents.closed or (parent is not None and parent.closing):
            told = "the host is stopping; it creates no agents" if self._agents.closed else "the parent agent is gone"
            raise Disposed(told)
        named = definition if isinstance(definition, str) else None
        made = self.definition(definition) if isinstance(definition, str) else definition
        if session is None:
            where = directory or (parent.session.directory if parent else Path.cwd())
            above = (parent.session.id, parent.session.depth + 1) if parent else (None, 0)
            session = Session.new(where, parent=above[0], depth=above[1])
        agent = Agent(
            self,
            self._services,
            self._agents,
            name or named or "main",
            made,
            session,
            model=model,
            parent=parent,
            grant=_grant(made, parent, grant),
        )
        return await self._agents.create(agent, setup)

    async def dispose(self, agent: Agent) -> None:
        """Cancel what an agent and its children do, await it, undo what is registered, tell the packs; once (L6)."""
        await self._agents.dispose(agent)

    async def store(self) -> SessionStore:
        """Return where sessions are kept: what a pack's `session_store` gave, memory if none does.

        Raises:
            PegboardError: a pack's store can't be had; there is no fall-back.
        """
        return await self._opener.store()

    async def open_session(self, identity: str) -> Session:
        """Return a session from the store, as its record left it; a run whose process died gets its ends first.

        Raises:
            UsageError: there is none of that id, or it has a run under way in another process.
            PegboardError: it can't be read.
        """
        if agent := self._agents.get(identity):
            return agent.session
        return await self._opener.open(identity, self._services.recorder)

    async def entries(self, session: str, after: int = 0, limit: int | None = None) -> Sequence[Entry]:
        """Return what is recorded of a session after an entry's id, in order; nothing for an unknown session.

        Raises:
            PegboardError: it can't be read.
        """
        return await self._opener.entries(session, after, limit)

    async def rebind(
        self, session: "Session | Agent | str", definition: str | Definition, name: str | None = None
    ) -> None:
        """Go on with another definition from the session's next run; what is under way keeps the old one.

        Raises:
            UsageError: the session has no live agent, or there is no such definition.
        """
        agent = self._agent_of(session)
        made = self.definition(definition) if isinstance(definition, str) else definition
        agent.rebind(name or (definition if isinstance(definition, str) else agent.name), made)
        event = Rebound(agent.id, 0, time.time(), agent.name, freeze(made.model_dump(mode="json")))
        await agent.record(event)

    # -- runs

    def submit(
        self, session: "Session | Agent | str", text: str, *, allow_writes: bool = False, on_ask: OnAsk = "deny"
    ) -> Run:
        """Queue an input for a run of its own and return the run; must be called in a running event loop.

        `on_ask` is what becomes of a question that no front end answers: a denial, it waits for `answer`, or the run
        ends paused and another one goes on when it has its answer (`finish` of the run waits for that).

        Raises:
            UsageError: the session has no live agent.
            Disposed: its agent is gone.
        """
        return self._agent_of(session).followup(text, allow_writes=allow_writes, on_ask=on_ask)

    def submit_call(
        self, session: "Session | Agent | str", call: ToolCall, *, allow_writes: bool = False, on_ask: OnAsk = "deny"
    ) -> tuple[Run, list[ToolResult]]:
        """Queue a run that makes one tool call and asks no model; its result is in the list when the run has ended."""
        return self._agent_of(session).queue_call(call, allow_writes=allow_writes, on_ask=on_ask)

    def _agent_of(self, session: "Session | Agent | str") -> Agent:
        if isinstance(session, Agent):
            return session
        identity = session if isinstance(session, str) else session.id
        agent = self._agents.get(identity)
        if agent is None:
            raise UsageError(f"session {one_line(identity, 40)} has no live agent; create one with host.create_agent")
        return agent

    def open_interactions(self, session: str | None = None) -> tuple[Interaction, ...]:
        """Return what waits for an answer in a run that is under way, oldest first; of one root session if named."""
        return self._services.questions.open(session)

    async def next_interaction(self, session: str | None = None) -> Interaction:
        """Wait until a run under way waits for an answer, and return the first of it; see `open_interactions`."""
        return await self._services.questions.next(session)

    async def interactions(self, session: str) -> list[Interaction]:
        """Return what waits for an answer in the whole tree of agents that a session is part of, paused or under way.

        Only the first can be answered. It is read from the record, so it is the same after a restart.
        """
        return await self._open_questions.queue(session)

    async def answer(self, session: str, interaction: int, answer: Answer) -> Run | None:
        """Answer an interaction for a person. Of a tree of agents only the first open one can be answered.

        Of a paused turn the answer is recorded; after the last one the run that goes on begins, and is returned, if the
        root session has a live agent.

        Raises:
            UsageError: it is not open, another one comes first, or that is no answer to it.
        """
        if self._services.questions.has(session, interaction):
            self._services.questions.answer(session, interaction, answer)
            return None
        root = await self._open_questions.answer(session, interaction, answer)
        agent = self._agents.get(root)
        if agent is None or agent.current_run is not None or await self._open_questions.queue(root):
            return None
        return await self.resume(agent)

    async def resume(
        self, session: "Session | Agent | str", *, allow_writes: bool | None = None, on_ask: OnAsk | None = None
    ) -> Run:
        """Begin a run that goes on with a paused turn: its calls that waited, then the model.

        What is not given is as it was for the paused run in this process, else `pause` without blanket writes.

        Raises:
            UsageError: the session is not paused, has no live agent, or something of it has no answer yet.
            Disposed: its agent is gone.
        """
        agent = self._agent_of(session)
        await self._open_questions.catch_up(agent)
        turn = await self._open_questions.paused_turn(agent.id)
        if agent.current_run is not None:
            raise UsageError(f"session {agent.id} has a run under way; wait for its end")
        before = agent.paused_run
        writes = allow_writes if allow_writes is not None else before is not None and before.allow_writes
        asks: OnAsk = on_ask or (before.on_ask if before else "pause")
        drive = partial(take_up, turn=turn)
        asks_model = bool(turn.route)
        return agent.resume(
            Run(agent, drive, turn.input, allow_writes=writes, on_ask=asks, asks_model=asks_model, resumes=turn.run)
        )

    # -- watching

    def listen(self, listener: Callable[[Event], object]) -> Disposer:
        """Show every event of every run to `listener`, text deltas too; returns an idempotent disposer.

        A listener is part of the program: what it raises stops the run.
        """
        return self._services.recorder.watch(lambda event, _seq: listener(event))

    def events(self, session: str | None = None, *, after: int | None = None, limit: int = 1000) -> Feed:
        """Follow the events of one session, or of all, as an async iterator at the reader's own pace.

        `after` is the `seq` of the last event that the reader has; 0 reads a session from its beginning, None begins
        now. A reader more than `limit` events behind misses live ones, never a recorded one.

        Raises:
            UsageError: `after` without a session, or a limit below 1.
        """
        if after is not None and session is None:
            raise UsageError("`after` is a place in one session's record; name the session")
        if limit < 1:
            raise UsageError("`limit` must be at least 1")
        feed = Feed(self._services.recorder.watch, self.store, session, after, limit)
        feed.on_close(self._packs.on_stop(feed.close))
        return feed

    async def preview(self, agent: Agent) -> Snapshot:
        """Return what a run of the agent that began now would see and execute; packs connect, nothing is recorded.

        Raises:
            HookFailure: a pack failed while the prompt was assembled.
        """
        return await Run(agent, converse, "").prepare()

    def snapshot(self) -> Snapshot:
        """Return what an agent with nothing of its own would be offered now."""
        return self._services.tools.view(self.scope).snapshot

    def hook_order(self, hook: str) -> list[tuple[str, str]]:
        """Return who implements a hook, in the order in which they are called: (pack, why it stands there).

        Raises:
            UsageError: there is no such hook.
        """
        if hook not in self._dispatcher.specs:
            raise UsageError(f"there is no hook `{hook}`{did_you_mean(hook, self._dispatcher.specs)}")
        wanted = self.config.get("hooks", "order", hook)
        where = f" in {wanted.where}" if wanted else ""
        return [(one.pack, one.why + where * (one.why == "[hooks.order]")) for one in self._dispatcher.plan(hook)]

    def hook_policy(self, hook: str) -> Policy:
        """Return how the answers to a hook combine, and what a failure does."""
        return self._dispatcher.specs[hook].policy

    def hooks(self) -> dict[str, str]:
        """Return every hook with the pack that brings it (`pegboard` for the kernel's)."""
        return {name: spec.pack for name, spec in self._dispatcher.specs.items()}

    def _policy_is_claimed(self) -> bool:
        return any(pack.state == "active" and pack.distribution.claims_policy for pack in self.packs)

    # -- refusals at start

    def _check_required(self) -> None:
        if self._require:
            refuse_missing_packs(self.packs, self.config)

    def _refuse_bad_config(self) -> None:
        problems = list(self.config.problems)
        for name in self.config.table("agents"):
            problems.extend(self._check_definition(name)[1])
        for hook in self.config.table("hooks", "order"):
            if hook not in self._dispatcher.specs:
                near = did_you_mean(hook, self._dispatcher.specs)
                problems.append(self.config.problem(("hooks", "order", hook), f"there is no such hook{near}"))
        if problems:
            raise ConfigError([*problems, *self.setting_problems])


def _grant(definition: Definition, parent: Agent | None, grant: Collection[str] | None) -> Collection[str] | None:
    """Return the names that an agent's view is limited to, or None for all (rules 11 and 13)."""
    names = grant if grant is not None else definition.tools
    if parent is None:
        return names
    if names is None:
        names = parent.view().names
    return names if parent.grant is None else parent.grant.intersection(names)


def _front_ends(config: Config) -> Collection[str]:
    named = config.get("interactions", "front_ends")
    return named.value if named else ()
