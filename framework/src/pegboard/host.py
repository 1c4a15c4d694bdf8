"""The host: one process with its configuration, its packs and the agents that live in it."""

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType

from pegboard.agents import Agent, Definition
from pegboard.config import Config, load_config
from pegboard.discovery import Distribution, discover
from pegboard.dispatch import Dispatcher, Fault, HookFailure
from pegboard.errors import ConfigError, ModelError, PegboardError, Problem, UsageError
from pegboard.guarding import Gate
from pegboard.loading import Loader
from pegboard.loop import converse
from pegboard.messages import ToolCall, ToolResult
from pegboard.models import Model
from pegboard.packs import Pack, survey
from pegboard.runs import Drive, Run
from pegboard.sessions import Listener, Recorder, Session
from pegboard.settings import check_table
from pegboard.snapshot import Snapshot, ToolRegistry
from pegboard.text import did_you_mean


class Host:
    """Loads the packs and creates agents. Use it as `async with Host.open() as host:`.

    `faults` are the contained failures of hook implementations so far, in order.
    """

    def __init__(self, config: Config, distributions: Iterable[Distribution]) -> None:
        self.config = config
        self.faults: list[Fault] = []
        self.tools = ToolRegistry()
        self._dispatcher = Dispatcher(self.faults.append)
        self._recorder = Recorder(self._dispatcher)
        self._agents: list[Agent] = []
        self._runs: set[Run] = set()
        loader = Loader(config, self._dispatcher, self.tools)
        self.packs: tuple[Pack, ...] = loader.load(survey(distributions, config))
        self.setting_problems: tuple[Problem, ...] = tuple(loader.problems)
        self._providers = loader.providers

    @classmethod
    def open(
        cls,
        *,
        environ: Mapping[str, str] | None = None,
        disable: Iterable[str] = (),
        distributions: Iterable[Distribution] | None = None,
    ) -> "Host":
        """Read the configuration and load every enabled pack.

        Raises:
            ConfigError: with everything that is wrong, unless only a pack's own settings are (that pack fails alone).
            PegboardError: a pack that is required is not active.
        """
        import os

        found = discover() if distributions is None else tuple(distributions)
        names = [name for name, _ in (d.pack for d in found if d.pack)]
        config = load_config(names, disable, os.environ if environ is None else environ)
        if config.unreadable:  # what it switches off must not be imported
            raise ConfigError(config.problems)
        host = cls(config, found)
        host._refuse_bad_config()
        host._refuse_missing_packs()
        return host

    async def __aenter__(self) -> "Host":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for agent in reversed(self._agents.copy()):
            await self.dispose(agent)

    # -- agents and runs

    def definition(self, name: str = "main") -> Definition:
        """Return the agent configuration `[agents.<name>]`; `main` needs none.

        Raises:
            UsageError: there is no such definition.
        """
        table = self.config.table("agents")
        if name != "main" and name not in table:
            raise UsageError(f"no agent `{name}` is defined{did_you_mean(name, ['main', *table])}")
        definition, wrong = self._check_definition(name)
        if definition is None:
            raise ConfigError(wrong)
        return definition

    def _check_definition(self, name: str) -> tuple[Definition | None, list[Problem]]:
        return check_table(self.config, ("agents", name), Definition, self.config.table("agents", name))

    def model(self, route: str) -> Model:
        """Open a model route such as `offline` or `scripted:FILE`.

        Raises:
            ModelError: kind `route`: no active pack provides it, or it can't be opened.
        """
        name, _, argument = route.partition(":")
        if found := self._providers.get(name):
            return found[0].open(argument)
        near = did_you_mean(name, self._providers)
        routes = ", ".join(sorted(self._providers)) or "none"
        off = ", ".join(f"{pack.name} is {pack.state} {pack.reason}" for pack in self.packs if pack.state != "active")
        told = f"there are: {routes}" + (f"; {off}" if off else "")
        raise ModelError(f"no active pack provides the model route `{route}`{near} ({told})", "route")

    async def create_agent(
        self, name: str = "main", *, session: Session, definition: Definition | None = None, model: Model | None = None
    ) -> Agent:
        """Create an agent of a definition for a session and announce it.

        Raises:
            PegboardError: a pack vetoed it in `agent_created`; those told before were told that it is gone.
        """
        agent = Agent(name, definition or self.definition(name), session, model)
        told: set[str] = set()
        try:
            self._dispatcher.announce("agent_created", agent, told)
        except HookFailure as failure:
            self._dispatcher.notify("agent_disposed", agent, among=told)
            raise PegboardError(f"the agent was vetoed: {failure}") from failure
        self._agents.append(agent)
        return agent

    async def dispose(self, agent: Agent) -> None:
        """Cancel what the agent does, await its end, then tell the packs in reverse order; again does nothing (L6)."""
        for run in [run for run in self._runs if run.agent is agent]:
            run.cancel("the agent was disposed")
            await run.wait()
        if agent in self._agents:
            self._agents.remove(agent)
            self._dispatcher.notify("agent_disposed", agent)

    def submit(self, agent: Agent, text: str, *, allow_writes: bool = False) -> Run:
        """Start a run on an input and return it; must be called in a running event loop.

        Raises:
            UsageError: the session has a run under way.
        """
        run = self._run(agent, allow_writes)
        self._start(run, lambda run: converse(run, text), text)
        return run

    def submit_call(self, agent: Agent, call: ToolCall, *, allow_writes: bool = False) -> tuple[Run, list[ToolResult]]:
        """Start a run that makes one tool call and asks no model; its result is in the list when the run has ended."""
        run = self._run(agent, allow_writes)
        results: list[ToolResult] = []

        async def drive(run: Run) -> str:
            results.append(await run.call(call))
            return results[0].content

        self._start(run, drive, f"{call.name} {call.arguments}")
        return run, results

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Show every event of every run to `listener`, text deltas too; returns an idempotent disposer."""
        return self._recorder.listen(listener)

    def snapshot(self) -> Snapshot:
        """Return what a run that begins now may see and execute."""
        return self.tools.snapshot()

    def _run(self, agent: Agent, allow_writes: bool) -> Run:
        if any(run.agent.session is agent.session for run in self._runs):
            raise UsageError(f"session {agent.session.id} has a run under way; wait for its end or cancel it")
        own_policy = not any(pack.state == "active" and pack.distribution.claims_policy for pack in self.packs)
        gate = Gate(self._dispatcher, own_policy)
        return Run(agent, self._dispatcher, self._recorder, self.tools.snapshot(), gate, allow_writes)

    def _start(self, run: Run, drive: Drive, said: str) -> None:
        self._runs.add(run)
        run.start(drive, said).add_done_callback(lambda _task: self._runs.discard(run))

    # -- refusals at start

    def _refuse_bad_config(self) -> None:
        problems = list(self.config.problems)
        for name in self.config.table("agents"):
            problems.extend(self._check_definition(name)[1])
        if problems:
            raise ConfigError([*problems, *self.setting_problems])

    def _refuse_missing_packs(self) -> None:
        """Stop unless every required pack is active; one that claims policy is required unless the user disabled it."""
        for pack in self.packs:
            required = self.config.get("packs", pack.name, "required")
            asked = required is not None and required.value is True
            claims = pack.distribution.claims_policy and pack.state != "disabled"
            if (asked or claims) and pack.state != "active":
                why = f"`required = true` in {required.where}" if required and asked else "it claims policy"
                raise PegboardError(f"pack `{pack.name}` is {pack.state} ({pack.reason}) but required: {why}")
        for name in self.config.table("packs"):
            required = self.config.get("packs", name, "required")
            if required and required.value and all(pack.name != name for pack in self.packs):
                told = f"`required = true` in {required.where}"
                raise PegboardError(f"pack `{name}` is not installed but required: {told}")
