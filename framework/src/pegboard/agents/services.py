"""The services shared by all agents of a host."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pegboard.calls.questions import Questions
from pegboard.dispatch.dispatcher import Dispatcher, Fault
from pegboard.record.recorder import Recorder
from pegboard.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from pegboard.process.processes import Process
    from pegboard.process.spec import ProcessSpec
    from pegboard.values.models import Model


@dataclass(slots=True)
class Services:
    """Made by the host, lent to its agents. `starting_seconds` is the deadline of `run_starting`."""

    dispatcher: Dispatcher
    recorder: Recorder
    tools: ToolRegistry
    questions: Questions
    faults: list[Fault]
    open_model: "Callable[[str], Model]"
    spawn: "Callable[[ProcessSpec], Coroutine[Any, Any, Process]]"
    end_processes: Callable[[str], Awaitable[None]]
    starting_seconds: float = 20.0
