"""What the host lends to its agents and their runs: one dispatcher, one recorder, one registry of tools, one store."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pegboard.answers import current_pack
from pegboard.dispatch import Dispatcher, Fault
from pegboard.scopes import Scope
from pegboard.sessions import Recorder
from pegboard.snapshot import ToolRegistry

if TYPE_CHECKING:
    from pegboard.agents import Agent
    from pegboard.asking import Broker
    from pegboard.events import Event
    from pegboard.models import Model
    from pegboard.processes import Process, ProcessSpec
    from pegboard.stores import SessionStore


@dataclass(slots=True)
class Kernel:
    """Shared by everything that lives in one host. `starting_seconds` is the deadline of `run_starting`.

    `own_policy`: no active pack claims policy, so the kernel asks about writes. `front_ends` are the packs that may
    answer for a person; `protected` says why a real path may be written by no tool without one.
    """

    dispatcher: Dispatcher
    recorder: Recorder
    tools: ToolRegistry
    broker: "Broker"
    faults: list[Fault]
    store: "Callable[[], Awaitable[SessionStore]]"
    open_model: "Callable[[str], Model]"
    spawn: "Callable[[ProcessSpec], Coroutine[Any, Any, Process]]"
    end_processes: Callable[[str], Awaitable[None]]
    front_ends: frozenset[str] = frozenset()
    own_policy: bool = True
    protected: Callable[[str, Path], str | None] = field(default=lambda _path, _directory: None)
    starting_seconds: float = 20.0
    _opened: "SessionStore | None" = None  # a store is opened once, and asked for with every event

    async def record(self, agent: "Agent", *events: "Event") -> "tuple[list[Event], Exception | None]":
        """Append events to an agent's session; returns them as recorded, and what a listener raised first.

        Raises:
            Conflict: the session went on elsewhere.
            PegboardError: the store could not be opened, or could not keep them.
        """
        store = self._opened = self._opened or await self.store()
        recorded, raised = await self.recorder.record(agent.session, agent.scope, store, events, agent.name)
        return recorded[-len(events) :], raised

    async def keep(self, data: bytes) -> str:
        """Keep bytes with the sessions; returns their key.

        Raises:
            PegboardError: the store could not be opened, or could not keep them.
        """
        store = self._opened = self._opened or await self.store()
        return await store.put_blob(data)

    async def kept(self, key: str) -> bytes:
        """Return kept bytes.

        Raises:
            LookupError: there are none under that key.
        """
        store = self._opened = self._opened or await self.store()
        return await store.get_blob(key)


class Tasks:
    """Tasks that belong to a scope: cancelled and awaited when it ends, their failures reported."""

    def __init__(self, scope: Scope, faults: list[Fault]) -> None:
        self._scope = scope
        self._faults = faults
        self._tasks: dict[asyncio.Task[Any], str] = {}

    def start(self, work: Coroutine[Any, Any, Any], hook: str = "start_task") -> "asyncio.Task[Any]":
        """Run a coroutine as a task of the scope.

        Raises:
            Disposed: the scope is gone; the coroutine is closed.
        """
        try:
            self._scope.check()
        except BaseException:
            work.close()
            raise
        return self.adopt(asyncio.get_running_loop().create_task(work), hook, current_pack.get())

    def adopt(self, task: "asyncio.Task[Any]", hook: str, pack: str) -> "asyncio.Task[Any]":
        """Own a task that was started elsewhere, for a pack."""
        self._tasks[task] = pack
        task.add_done_callback(lambda done: self._ended(done, pack, hook))
        return task

    def _ended(self, task: "asyncio.Task[Any]", pack: str, hook: str) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()):
            self._faults.append(Fault(pack, hook, f"{type(error).__name__}: {error}"))

    async def end(self, pack: str | None = None) -> None:
        """Cancel the tasks, those of one pack if it is named, newest first, and wait until they have ended."""
        while mine := [task for task, owner in self._tasks.items() if pack is None or owner == pack]:
            for task in reversed(mine):
                task.cancel()
            await asyncio.wait(mine)
            await asyncio.sleep(0)  # lets the done callbacks run

    def __len__(self) -> int:
        return len(self._tasks)
