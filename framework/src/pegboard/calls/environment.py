"""What a call needs of its run and its host, handed down once: calls know neither of them."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pegboard.base.cancel import CancelSignal
from pegboard.base.scopes import Scope
from pegboard.base.slotted import direct_init
from pegboard.dispatch.dispatcher import Dispatcher
from pegboard.record.journal import Journal
from pegboard.tools.snapshot import Snapshot, ToolView
from pegboard.values.tool import OnAsk

if TYPE_CHECKING:
    from pegboard.calls.questions import Questions
    from pegboard.hookspecs import Agent
    from pegboard.process.processes import Process
    from pegboard.process.spec import ProcessSpec


@direct_init
@dataclass(frozen=True, slots=True)
class CallEnv:
    """Shared by all calls of a run. `snapshot` is what the model was offered, `view` tells what is there now.

    `parallel`, `result_chars` and `batch_chars` are the limits of a batch; `allow_writes` is the user's yes to every
    `Ask` that needs no person, `on_ask` what becomes of a question that no front end answers.
    """

    agent: "Agent"
    dispatcher: Dispatcher
    scope: Scope
    session: str
    directory: Path
    signal: CancelSignal
    journal: Journal
    snapshot: Snapshot
    view: Callable[[], ToolView]
    questions: "Questions"
    spawn: "Callable[[ProcessSpec], Coroutine[Any, Any, Process]]"
    allow_writes: bool
    on_ask: OnAsk
    parallel: int
    result_chars: int
    batch_chars: int
