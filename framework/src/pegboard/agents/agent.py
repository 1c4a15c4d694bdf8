"""Agents: live drivers of sessions, made from a definition, with registrations and an inbox of their own."""

import asyncio
import json
import secrets
import time
from collections.abc import Collection, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from pegboard.agents.definition import Definition
from pegboard.agents.inbox import Inbox
from pegboard.agents.loop import converse
from pegboard.agents.run import Run
from pegboard.agents.services import Services
from pegboard.base.errors import Disposed, UsageError
from pegboard.base.isolation import current_pack
from pegboard.base.scopes import Disposer, Scope
from pegboard.calls.batch import Batch
from pegboard.dispatch.tasks import Tasks
from pegboard.record.session import Session
from pegboard.tools.registry import checked_tool
from pegboard.tools.snapshot import Snapshot, ToolView
from pegboard.values.events import Dropped, Event
from pegboard.values.messages import ToolCall, ToolResult, Usage
from pegboard.values.tool import OnAsk, Tool

if TYPE_CHECKING:
    from pegboard.agents.registry import AgentRegistry
    from pegboard.hookspecs import Host
    from pegboard.values.events import RunEnd
    from pegboard.values.models import Model


def _names(names: Collection[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


class AgentTools:
    """The tools of one agent."""

    def __init__(self, agent: "Agent") -> None:
        self._agent = agent

    def register(self, tool: Tool) -> Disposer:
        """Add a tool that only this agent sees; a host's tool of the same name is hidden meanwhile.

        Raises:
            UsageError: the agent has a tool of that name, or the name is reserved by another pack.
            Disposed: the agent is gone.
        """
        agent = self._agent
        return agent.services.tools.register(
            agent.scope, checked_tool(tool), current_pack.get(), granted=agent.in_setup
        )


class Agent:
    """One live driver of a session: an instance of the definition `name`. It has its session's id.

    What is registered on it goes away with it. `usage` counts its own and all its descendants' model requests.
    """

    def __init__(
        self,
        host: "Host",
        services: Services,
        registry: "AgentRegistry",
        name: str,
        definition: Definition,
        session: Session,
        *,
        model: "Model | None" = None,
        parent: "Agent | None" = None,
        grant: Collection[str] | None = None,
    ) -> None:
        self.host = host
        self.services = services
        self._registry = registry
        self.name = name
        self.definition = definition
        self.session = session
        self.parent = parent
        self.children: list[Agent] = []
        self.scope = Scope(f"agent {session.id}", services.dispatcher.host)
        self.tools = AgentTools(self)
        self.inbox = Inbox()
        self.current_run: Run | None = None
        self.paused_run: Run | None = None  # the last one, if it waits for a person
        self.usage = session.usage
        self.in_setup = self.closing = self.published = False
        self.tasks = Tasks(self.scope, services.faults)
        self.grant = _names(grant)
        self._model = model
        self._opened: dict[str, Model] = {}
        self._granted: tuple[ToolView, ToolView] | None = None
        self._snapshot: Snapshot | None = None
        self._begun = 0
        self._next: tuple[str, Definition] | None = None
        self._recording: set[asyncio.Task[Any]] = set()

    def __repr__(self) -> str:
        return f"<Agent {self.name} {self.id} {self.status}>"

    @property
    def id(self) -> str:
        """The session's id."""
        return self.session.id

    @property
    def status(self) -> Literal["idle", "running", "disposed"]:
        """Whether a run is under way."""
        if self.scope.disposed:
            return "disposed"
        return "idle" if self.current_run is None else "running"

    @property
    def root(self) -> "Agent":
        """The agent at the top of the tree, which a person talks to."""
        return self if self.parent is None else self.parent.root

    @property
    def depth(self) -> int:
        """0 for a root."""
        return 0 if self.parent is None else self.parent.depth + 1

    # -- what it sees

    def view(self) -> ToolView:
        """Return the tools that the agent has now: own and inherited, less what restrictions and its grant take."""
        view = self.services.tools.view(self.scope)
        if self.grant is None:
            return view
        if self._granted is None or self._granted[0] is not view:
            self._granted = (view, view.granting(self.grant))
        return self._granted[1]

    def keep_snapshot(self, prompt: str, names: tuple[str, ...]) -> Snapshot:
        """Return the snapshot of the present view with this prompt; the same one as before if nothing has changed."""
        base, last = self.view().snapshot, self._snapshot
        if last is None or last.prompt != prompt or last.names != names or last.base is not base:
            self._snapshot = last = base.with_prompt(prompt, names)
        return last

    def model(self, route: str | None = None) -> "Model":
        """Return the opened model of a route, the definition's if none is named.

        Raises:
            ModelError: no active pack provides it, or it can't be opened.
        """
        if self._model is not None and route in (None, "", self.definition.model):
            return self._model
        route = route or self.definition.model
        if route not in self._opened:
            self._opened[route] = self.services.open_model(route)
        return self._opened[route]

    # -- registering

    def register(self, implementations: object) -> Disposer:
        """Add hook implementations that see this agent only; returns their idempotent disposer.

        Guards bind its children as well (rule 11).

        Raises:
            PackFailure: an implementation does not fit its hook.
            Disposed: the agent is gone.
        """
        dispatcher, pack = self.services.dispatcher, current_pack.get()
        before = len(dispatcher.registered_on(self.scope))
        undo = [dispatcher.register_on(self.scope, implementations, pack)]
        registered = dispatcher.registered_on(self.scope)[before]
        undo += [dispatcher.impose_guards(child.scope, registered) for child in self.descendants()]
        return self._together(undo)

    def restrict(self, *, allow: Iterable[str] | None = None, deny: Iterable[str] | None = None) -> Disposer:
        """Hide inherited tools: all but those in `allow`, and those in `deny`; returns an idempotent disposer.

        Restrictions intersect, nothing widens. They bind the agent's children as well (rule 11).

        Raises:
            UsageError: both are missing, or a name is not one of the inherited tools.
            Disposed: the agent is gone.
        """
        tools = self.services.tools
        undo = [tools.restrict(self.scope, allow, deny, current_pack.get())]
        restriction = tools.restrictions(self.scope)[-1]
        undo += [tools.impose(child.scope, restriction) for child in self.descendants()]
        return self._together(undo)

    def _together(self, undo: list[Disposer]) -> Disposer:
        if len(undo) == 1:
            return undo[0]

        def dispose() -> None:
            for one in undo:
                one()

        return self.scope.effect(dispose)

    def descendants(self) -> Iterable["Agent"]:
        """Yield every live agent below this one."""
        for child in self.children:
            yield child
            yield from child.descendants()

    # -- driving

    def followup(self, text: str, *, allow_writes: bool = False, on_ask: OnAsk = "deny") -> "Run":
        """Queue input for a later run of its own, and begin it when the agent is idle (L19); see `Host.submit`."""
        return self.queue(Run(self, converse, text, allow_writes=allow_writes, on_ask=on_ask))

    def queue(self, run: "Run") -> "Run":
        """Let a run begin when those before it have ended.

        Raises:
            Disposed: the agent is gone, or going.
            UsageError: it is being set up; nobody has seen it yet.
        """
        self._check_input()
        if self.in_setup:
            raise UsageError(f"agent {self.id} is being set up; give it input when it was created, or inject it")
        self.inbox.runs.append(run)
        self._go_on()
        return run

    def resume(self, run: "Run") -> "Run":
        """Begin a run that goes on with the paused one, before anything that is queued; see `Host.resume`."""
        self._check_input()
        self.inbox.runs.appendleft(run)
        self._go_on()
        return run

    def wake(self) -> None:
        """Begin what is queued, if nothing holds it back any more."""
        self._go_on()

    def _check_input(self) -> None:
        if self.closing:
            raise Disposed(f"agent {self.id} was disposed of; it takes no input")

    def publish(self) -> None:
        """Let it run: every pack has heard of it (L1)."""
        self.published = True
        self._go_on()

    def _go_on(self) -> None:
        """Begin the next run if the agent is idle: a queued one, or one for what was steered too late."""
        if self.current_run is not None or self.closing or not self.published:
            return
        if self.session.paused and not (self.inbox.runs and self.inbox.runs[0].resumes):
            return  # what is queued waits until the paused turn has ended
        if self.session.open_run not in (0, self._begun):
            return  # another process drives the session
        if not self.inbox.runs:
            if self.inbox.steered:
                *earlier, last = self.inbox.claim()
                for text in earlier:
                    self.inbox.put(text, wakes=False)
                self.followup(last)
            return
        if self._next is not None:
            self._take_definition(*self._next)
        run = self.current_run = self.inbox.runs.popleft()
        begun = run.begin()
        self._begun = run.number
        above = self.parent.current_run if self.parent else None
        unlink = above.signal.on_cancel(lambda: run.cancel(above.signal.cause or "cancelled")) if above else None
        if self.paused_run is not None:
            self.paused_run.taken_up_by(run if run.resumes else None)
        begun.add_done_callback(lambda task: self._ended(run, task, unlink))

    def _ended(self, run: "Run", task: "asyncio.Future[RunEnd]", unlink: Disposer | None) -> None:
        self.current_run = None
        failed = task.cancelled() or task.exception() is not None
        self.paused_run = run if not failed and task.result().reason == "paused" else None
        if unlink is not None:
            unlink()
        self._go_on()

    def rebind(self, name: str, definition: Definition) -> None:
        """Take another definition for the runs that begin from now on; see `Host.rebind`."""
        self._next = (name, definition)
        if self.current_run is None:
            self._take_definition(name, definition)

    def _take_definition(self, name: str, definition: Definition) -> None:
        self._next = None
        if definition.model != self.definition.model:
            self._model = None
        if self.parent is None and self.grant == _names(self.definition.tools):  # one that a program gave stays
            self.grant, self._granted = _names(definition.tools), None
        self.name, self.definition = name, definition

    def steer(self, text: str) -> "Run":
        """Give input to the nearest step of the run under way; an idle agent begins a run for it (L19)."""
        if self.current_run is None:
            return self.followup(text)
        self._check_input()
        self.inbox.put(text, wakes=True)
        return self.current_run

    def inject(self, text: str) -> None:
        """Leave input for the next step, whenever that comes; it never wakes the agent (L19).

        Raises:
            Disposed: the agent is gone.
        """
        self._check_input()
        self.inbox.put(text, wakes=False)

    def cancel(self, cause: str, *, keep_inbox: bool = False) -> None:
        """Cancel the run under way, here and in all children; the first cause counts.

        What is queued is dropped and recorded as cancelled, unless `keep_inbox`.
        """
        if not keep_inbox:
            self._drop_inbox(cause)
        if self.current_run is not None:
            self.current_run.cancel(cause)
        for child in self.children:
            child.cancel(cause, keep_inbox=keep_inbox)

    def unqueue(self, run: "Run", cause: str) -> None:
        """Drop one queued run."""
        if run in self.inbox.runs:
            self.inbox.runs.remove(run)
            self._drop((run.said,), (run,), cause)

    def _drop_inbox(self, cause: str) -> None:
        texts, runs = self.inbox.drop()
        if texts:
            self._drop(texts, runs, cause)

    def _drop(self, texts: tuple[str, ...], runs: "Iterable[Run]", cause: str) -> None:
        for run in runs:
            run.drop(cause)
        if not self.scope.disposed:
            event = Dropped(self.id, 0, time.time(), texts, cause)
            token = current_pack.set("")  # the record is no pack's: it goes on when the one that caused this goes away
            recording = self.tasks.start(self.record(event), "record")
            current_pack.reset(token)
            self._recording.add(recording)
            recording.add_done_callback(self._recording.discard)

    def drop_texts(self, texts: tuple[str, ...], cause: str) -> None:
        """Record that steered input was claimed and entered no step."""
        self._drop(texts, (), cause)

    def start_task(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine as a task of the agent; it is cancelled when the agent goes away.

        Raises:
            Disposed: the agent is gone.
        """
        self.tasks.start(work)

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | str = "", *, source: str = "program", allow_writes: bool = False
    ) -> ToolResult:
        """Run one tool through the whole pipeline, without a model: a run of its own, recorded like any other."""
        text = arguments if isinstance(arguments, str) else json.dumps(dict(arguments))
        call = ToolCall(f"{source}-{secrets.token_hex(3)}", name, text)
        run, results = self.queue_call(call, allow_writes=allow_writes)
        end = await run.wait()
        return results[0] if results else ToolResult(call.id, name, "error", f"Error: {end.text}", end.reason)

    def queue_call(
        self, call: ToolCall, *, allow_writes: bool = False, on_ask: OnAsk = "deny"
    ) -> tuple["Run", list[ToolResult]]:
        """Queue a run that makes one tool call and asks no model; its result is in the list when the run has ended."""
        results: list[ToolResult] = []

        async def drive(run: Run) -> str:
            batch = Batch.by_program(run.calls_env, call)
            try:
                await run.settle(batch)
            finally:
                results.extend(batch.results)
            return results[0].content

        said = f"{call.name} {call.arguments}"
        run = Run(self, drive, said, allow_writes=allow_writes, on_ask=on_ask, asks_model=False)
        return self.queue(run), results

    async def record(self, *events: Event) -> None:
        """Append events to the session outside any run.

        Raises:
            Conflict: the session went on elsewhere.
            PegboardError: they could not be kept.
        """
        await self.services.recorder.record(self.session, self.scope, events, self.name)

    def spend(self, usage: Usage) -> None:
        """Count a model request, here and in every ancestor."""
        self.usage += usage
        if self.parent is not None:
            self.parent.spend(usage)

    async def settled(self) -> None:
        """Wait until no run is under way, none is queued, and what was dropped is recorded."""
        while self.current_run is not None or self._recording:
            await asyncio.wait({*self._recording, *({self.current_run.task} if self.current_run else ())})
            await asyncio.sleep(0)

    async def dispose(self) -> None:
        """Dispose of the agent and its children; racing callers wait for the same end (L6).

        Not to be awaited in a guard or a body of the agent's own run, which would wait for itself: use `cancel` there,
        or `start_task` of the host.
        """
        await self._registry.dispose(self)
