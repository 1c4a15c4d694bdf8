"""The live agents of a host: created as a transaction, told to the packs, ended in one order (L1 to L6)."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from pegboard.agents.agent import Agent
from pegboard.agents.services import Services
from pegboard.base.errors import Disposed, PegboardError, UsageError
from pegboard.base.isolation import describe
from pegboard.dispatch.dispatcher import Fault, HookFailure

# May register on the agent before anybody sees it; what it returns, if anything, is called when all is ready.
Setup = Callable[[Agent], Awaitable[Callable[[], object] | None] | Callable[[], object] | None]


class AgentRegistry:
    """Agents by id. An agent is in it from its announcement until its registrations are undone."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.closed = False
        self._agents: dict[str, Agent] = {}
        # Who has heard of an agent so far; None when all packs have.
        self._told: dict[Agent, set[str] | None] = {}
        self._ends: dict[Agent, asyncio.Task[None]] = {}

    def get(self, identity: str) -> Agent | None:
        """Return the live agent of that id, or None."""
        return self._agents.get(identity)

    def all(self) -> tuple[Agent, ...]:
        """Return the live agents, oldest first."""
        return tuple(self._agents.values())

    async def create(self, agent: Agent, setup: Setup | None) -> Agent:
        """Set an agent up, announce it, and keep it; nothing of it is seen before, and nothing is left if that fails.

        Raises:
            UsageError: an agent of that id lives.
            Disposed: its parent or the host went away meanwhile.
            PegboardError: a pack vetoed it in `agent_created`, or it was disposed of while it was announced.
        """
        try:
            await _set_up(agent, setup)
            self._enter(agent)
        except BaseException:
            await self._unwind(agent)
            raise
        told: set[str] = set()
        self._told[agent] = told
        try:
            self._services.dispatcher.announce("agent_created", agent, told, agent.scope)
        except HookFailure as failure:
            await self.dispose(agent)
            raise PegboardError(f"the agent was vetoed: {failure}") from failure
        self._told[agent] = None
        if agent in self._ends:
            await self.dispose(agent)
            raise PegboardError(f"agent {agent.id} was disposed of while it was announced")
        agent.publish()
        return agent

    def _enter(self, agent: Agent) -> None:
        if self.closed:
            raise Disposed("the host is stopping; it takes no new agents")
        if agent.closing:
            raise Disposed(f"agent {agent.id} was disposed of while it was set up")
        if agent.id in self._agents:
            raise UsageError(f"session {agent.id} has an agent already; one session has one driver")
        parent, services = agent.parent, self._services
        if parent is not None:
            if parent.closing:
                raise Disposed(f"the parent agent {parent.id} is gone, so it can have no child")
            for restriction in services.tools.restrictions(parent.scope):
                services.tools.impose(agent.scope, restriction)
            for registered in services.dispatcher.registered_on(parent.scope):
                services.dispatcher.impose_guards(agent.scope, registered)
            parent.children.append(agent)
        self._agents[agent.id] = agent
        self._told[agent] = None

    def dispose(self, agent: Agent) -> "asyncio.Future[None]":
        """Begin the end of an agent and its children, once; whoever asks waits for it, and can't stop it."""
        agent.closing = True  # also of one that is still being set up: it is not published then
        if agent not in self._ends and agent in self._told:
            self._ends[agent] = asyncio.get_running_loop().create_task(self._dispose(agent))
        end = self._ends.get(agent)
        return asyncio.shield(end) if end else asyncio.get_running_loop().create_task(asyncio.sleep(0))

    async def _dispose(self, agent: Agent) -> None:
        """Cancel, wait, children first; then undo what is registered; then leave; then tell the packs (L6)."""
        agent.cancel("the agent was disposed of")
        for child in reversed(agent.children.copy()):
            await self.dispose(child)
        await agent.settled()
        await self._unwind(agent)
        del self._agents[agent.id]
        if agent.parent is not None:
            agent.parent.children.remove(agent)
        told = self._told.pop(agent)
        self._services.dispatcher.notify("agent_disposed", agent, among=told)
        del self._ends[agent]

    async def _unwind(self, agent: Agent) -> None:
        agent.closing = True
        if agent.paused_run is not None:
            agent.paused_run.taken_up_by(None)
        try:
            await agent.tasks.end()
            if self._agents.get(agent.id, agent) is agent:  # those of a session whose driver is another stay
                await self._services.end_processes(agent.id)
        finally:  # also if whoever creates it is cancelled once more
            self._undo(agent)

    def _undo(self, agent: Agent) -> None:
        try:
            agent.scope.dispose()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._services.faults.append(Fault("", "dispose", describe(error)))


async def _set_up(agent: Agent, setup: Setup | None) -> None:
    if setup is None:
        return
    agent.in_setup = True
    try:
        commit: Any = setup(agent)
        if inspect.isawaitable(commit):
            commit = await commit
        if commit is not None:
            commit()
    finally:
        agent.in_setup = False
