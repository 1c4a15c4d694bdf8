"""What the host lends to its agents and their runs: one dispatcher, one recorder, one registry of tools, one store."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pegboard.dispatch.dispatcher import Dispatcher, Fault
from pegboard.record.recorder import Recorder
from pegboard.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from pegboard.agents.agent import Agent
    from pegboard.calls.questions import Questions
    from pegboard.process.processes import Process
    from pegboard.process.spec import ProcessSpec
    from pegboard.record.stores import SessionStore
    from pegboard.values.events import Event
    from pegboard.values.models import Model


@dataclass(slots=True)
class Services:
    """Shared by everything that lives in one host. `starting_seconds` is the deadline of `run_starting`.

    `own_policy`: no active pack claims policy, so the kernel asks about writes. `front_ends` are the packs that may
    answer for a person; `protected` says why a real path may be written by no tool without one.
    """

    dispatcher: Dispatcher
    recorder: Recorder
    tools: ToolRegistry
    questions: "Questions"
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
