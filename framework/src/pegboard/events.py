"""What happened in a run, as frozen values: recorded in order, shown live, printed by `--json`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final, Literal

from pegboard.frozen import thaw
from pegboard.messages import Status, Usage
from pegboard.tools import Effect

VERSION: Final = 1

EndReason = Literal["completed", "paused", "blocked", "aborted", "interrupted", "limit", "max-tokens", "error"]


@dataclass(frozen=True, slots=True)
class Event:
    """Common head of every event. `ts` is seconds since the epoch."""

    type: ClassVar[str] = ""

    session: str
    run: int
    ts: float

    def as_json(self) -> dict[str, Any]:
        """The stable JSON shape: `v type session run ts`, then the event's own fields."""
        own = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        return {"v": VERSION, "type": self.type, **own}


@dataclass(frozen=True, slots=True)
class RunStart(Event):
    """A run claimed its input; `tools` are the names of its snapshot, `hash` its identity."""

    type: ClassVar[str] = "run_start"

    agent: str
    model: str
    label: str
    directory: str
    tools: tuple[str, ...]
    packs: tuple[str, ...]
    hash: str
    input: str


@dataclass(frozen=True, slots=True)
class StepStart(Event):
    """The model is asked for the `step`-th time in this run (1-based)."""

    type: ClassVar[str] = "step_start"

    step: int


@dataclass(frozen=True, slots=True)
class Text(Event):
    """A piece of the model's text, as it comes. Shown live; the record keeps the whole message."""

    type: ClassVar[str] = "text"

    step: int
    text: str


@dataclass(frozen=True, slots=True)
class Called(Event):
    """A tool was asked for. `arguments` are frozen JSON, or None when the model's text was no JSON object."""

    type: ClassVar[str] = "tool_call"

    step: int
    id: str
    name: str
    arguments: Mapping[str, Any] | None
    effect: Effect | None
    pack: str | None


@dataclass(frozen=True, slots=True)
class Returned(Event):
    """How that call ended; `pack` names who refused when it was denied. `ms` is wall time of the body."""

    type: ClassVar[str] = "tool_result"

    step: int
    id: str
    name: str
    status: Status
    code: str | None
    summary: str
    content: str
    pack: str | None
    ms: float


@dataclass(frozen=True, slots=True)
class StepEnd(Event):
    """The step's calls are all committed."""

    type: ClassVar[str] = "step_end"

    step: int
    usage: Usage


@dataclass(frozen=True, slots=True)
class RunEnd(Event):
    """The one end of a run. `text` is the answer, or why there is none; `denied` counts refused calls."""

    type: ClassVar[str] = "run_end"

    reason: EndReason
    text: str
    usage: Usage
    steps: int
    calls: int
    denied: int
    ms: float


def _plain(value: Any) -> Any:
    if isinstance(value, Usage):
        return {"input_tokens": value.input_tokens, "output_tokens": value.output_tokens}
    return thaw(value)
