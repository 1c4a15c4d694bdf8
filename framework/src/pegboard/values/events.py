"""What happened in a session, as frozen values: recorded in order, shown live, printed by `--json`.

The events of a session are its record: runs, transcript, interactions and snapshots are folds over them (`folds.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal

from pegboard.base.frozen import freeze, thaw
from pegboard.base.slotted import direct_init
from pegboard.values.messages import EndReason, Status, ToolCall, Usage
from pegboard.values.tool import Effect

VERSION: Final = 1


def output_name(key: str) -> str:
    """Return the name by which a model asks for an output that was kept under a key."""
    return key[:12]


@dataclass(frozen=True, slots=True)
class Event:
    """Common head of every event. `run` is 0 outside a run; `ts` is seconds since the epoch.

    `texts` names the fields that hold free text, which `rewriting` may change; `recorded` is false for what is only
    shown live; `streamed` tells whether `--json` prints it.
    """

    type: ClassVar[str] = ""
    texts: ClassVar[tuple[str, ...]] = ()
    recorded: ClassVar[bool] = True
    streamed: ClassVar[bool] = True

    session: str
    run: int
    ts: float

    def as_json(self) -> dict[str, Any]:
        """The stable JSON shape: `v type session run ts`, then the event's own fields."""
        own = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        return {"v": VERSION, "type": self.type, **own}

    def rewriting(self, change: Callable[[str], str]) -> "Event":
        """Return the event with `change` applied to every free text in it, however deep."""
        return replace(self, **{name: _rewritten(getattr(self, name), change) for name in self.texts})


@dataclass(frozen=True, slots=True)
class SessionStart(Event):
    """First of every session: its directory, the definition, and the session of the parent agent if it has one."""

    type: ClassVar[str] = "session_start"
    streamed: ClassVar[bool] = False

    directory: str
    agent: str
    parent: str | None
    depth: int


@dataclass(frozen=True, slots=True)
class RunStart(Event):
    """A run claimed its input; `tools` are the names of its snapshot, `hash` its identity, `driver` the process.

    `resumes` is the number of the paused run that it goes on with, else 0.
    """

    type: ClassVar[str] = "run_start"
    texts: ClassVar[tuple[str, ...]] = ("input",)

    agent: str
    model: str
    label: str
    directory: str
    tools: tuple[str, ...]
    packs: tuple[str, ...]
    hash: str
    input: str
    driver: str = ""
    resumes: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotTaken(Event):
    """What the run may see and execute, recorded when it differs from the session's last; see `Snapshot.as_json`.

    `definitions` is the key of a blob with the whole definitions, the JSON of `pegboard tools --json`.
    """

    type: ClassVar[str] = "snapshot"
    texts: ClassVar[tuple[str, ...]] = ("prompt",)
    streamed: ClassVar[bool] = False

    hash: str
    prompt: str
    tools: tuple[Mapping[str, Any], ...]
    definitions: str = ""


@direct_init
@dataclass(frozen=True, slots=True)
class StepStart(Event):
    """The model is asked for the `step`-th time in this run (1-based)."""

    type: ClassVar[str] = "step_start"

    step: int


@direct_init
@dataclass(frozen=True, slots=True)
class Said(Event):
    """Input entered the transcript: a person's, a program's, or what a pack made of it."""

    type: ClassVar[str] = "message"
    texts: ClassVar[tuple[str, ...]] = ("text",)
    streamed: ClassVar[bool] = False

    step: int
    text: str


@direct_init
@dataclass(frozen=True, slots=True)
class Text(Event):
    """A piece of the model's text, as it comes. Shown live; the record keeps the whole message."""

    type: ClassVar[str] = "text"
    recorded: ClassVar[bool] = False

    step: int
    text: str


@dataclass(frozen=True, slots=True)
class Progress(Event):
    """A pack or a tool says what it is doing. Shown live, never recorded."""

    type: ClassVar[str] = "progress"
    recorded: ClassVar[bool] = False

    pack: str
    text: str


@direct_init
@dataclass(frozen=True, slots=True)
class Replied(Event):
    """The model's whole reply to one request."""

    type: ClassVar[str] = "reply"
    texts: ClassVar[tuple[str, ...]] = ("text", "calls")
    streamed: ClassVar[bool] = False

    step: int
    text: str
    calls: tuple[ToolCall, ...]


@direct_init
@dataclass(frozen=True, slots=True)
class Called(Event):
    """A tool was asked for. `arguments` are frozen JSON, or None when the model's text was no JSON object."""

    type: ClassVar[str] = "tool_call"
    texts: ClassVar[tuple[str, ...]] = ("arguments",)

    step: int
    id: str
    name: str
    arguments: Mapping[str, Any] | None
    effect: Effect | None
    pack: str | None


@direct_init
@dataclass(frozen=True, slots=True)
class Returned(Event):
    """How that call ended. `pack` names who refused first when it was denied, `refusals` all who did, each with its
    `pack` and `reason`. `ms` is wall time of the body.

    `output` is the key of a blob with the whole text when `content` is only a part of it; `concludes` tells that the
    tool's success is to end the run.
    """

    type: ClassVar[str] = "tool_result"
    texts: ClassVar[tuple[str, ...]] = ("summary", "content", "refusals")

    step: int
    id: str
    name: str
    status: Status
    code: str | None
    summary: str
    content: str
    pack: str | None
    ms: float
    output: str = ""
    refusals: tuple[Mapping[str, str], ...] = ()
    concludes: bool = False


@dataclass(frozen=True, slots=True)
class Asked(Event):
    """A question that only a person may answer came up for a call: `id` is its number within the session.

    `stage` tells whether a guard asks, before the call, or its body, before it did anything. `present` is what the tool
    would do, in a person's terms: `kind`, `title`, `locations`, `diff` (`Presentation`); empty if the tool doesn't say.
    """

    type: ClassVar[str] = "interaction"
    texts: ClassVar[tuple[str, ...]] = ("reason", "arguments", "touches", "options", "present")

    id: int
    kind: Literal["permission", "question"]
    call: str
    tool: str
    pack: str
    reason: str
    person: bool
    arguments: Mapping[str, Any]
    touches: tuple[str, ...]
    hash: str
    stage: Literal["guard", "body"] = "guard"
    options: tuple[str, ...] = ()
    present: Mapping[str, Any] = field(default_factory=lambda: freeze({}))


@dataclass(frozen=True, slots=True)
class Waits(Event):
    """A call that has begun waits for other sessions, which wait for a person: its body is never called again.

    `job` is the tool's own name of what goes on there, with which `Tool.resume` takes it up.
    """

    type: ClassVar[str] = "waiting"
    streamed: ClassVar[bool] = False

    call: str
    job: str
    sessions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answered(Event):
    """The answer to the interaction `id`, and which front end it came from ("" when nobody could be asked)."""

    type: ClassVar[str] = "answer"
    texts: ClassVar[tuple[str, ...]] = ("text",)
    streamed: ClassVar[bool] = False

    id: int
    approved: bool | None
    text: str
    by: str


@direct_init
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
    texts: ClassVar[tuple[str, ...]] = ("text",)

    reason: EndReason
    text: str
    usage: Usage
    steps: int
    calls: int
    denied: int
    ms: float


@dataclass(frozen=True, slots=True)
class Dropped(Event):
    """Queued input was cancelled before a run claimed it (L19)."""

    type: ClassVar[str] = "dropped"
    texts: ClassVar[tuple[str, ...]] = ("inputs",)
    streamed: ClassVar[bool] = False

    inputs: tuple[str, ...]
    cause: str


@dataclass(frozen=True, slots=True)
class Rebound(Event):
    """The session goes on with another definition, from its next run."""

    type: ClassVar[str] = "rebound"
    streamed: ClassVar[bool] = False

    agent: str
    definition: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Note(Event):
    """A pack's own fact, kept with the session: `name` is the pack's, `data` frozen JSON (`Run.note`)."""

    type: ClassVar[str] = "note"
    texts: ClassVar[tuple[str, ...]] = ("data",)
    streamed: ClassVar[bool] = False

    pack: str
    name: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Unknown(Event):
    """An event that a newer Pegboard wrote: kept, shown, and passed over by every fold."""

    streamed: ClassVar[bool] = False

    data: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """What was read, unchanged."""
        plain: dict[str, Any] = thaw(self.data)
        return plain


EVENTS: Final[tuple[type[Event], ...]] = (
    SessionStart,
    RunStart,
    SnapshotTaken,
    StepStart,
    Said,
    Text,
    Progress,
    Replied,
    Called,
    Returned,
    Asked,
    Waits,
    Answered,
    StepEnd,
    RunEnd,
    Dropped,
    Rebound,
    Note,
)
"""Every type of event, in the order in which a session meets them; `Unknown` is none of them."""
_TYPES: Final = {kind.type: kind for kind in EVENTS}


def event_from_json(data: Mapping[str, Any]) -> Event:
    """Read an event back from `as_json`; one of an unknown type, or with unknown fields missing, becomes Unknown.

    Raises:
        ValueError: it has no head.
    """
    # Each value for itself: how deep its data may be nested does not depend on where it is kept.
    frozen = MappingProxyType({key: freeze(value) for key, value in data.items()})
    try:
        head = {name: frozen[name] for name in ("session", "run", "ts")}
    except KeyError as missing:
        raise ValueError(f"no event: it has no {missing}") from None
    try:
        name = frozen.get("type")
        kind = _TYPES.get(name) if isinstance(name, str) else None
        if kind is None or frozen.get("v", 0) > VERSION:
            return Unknown(**head, data=frozen)
        given = {f.name: frozen[f.name] for f in fields(kind) if f.name in frozen}
        if "usage" in given:
            given["usage"] = Usage(**given["usage"])
        if kind is Replied:
            given["calls"] = tuple(ToolCall(**call) for call in given.get("calls", ()))
        return kind(**given)
    except TypeError:
        return Unknown(**head, data=frozen)


def _plain(value: Any) -> Any:
    if isinstance(value, Usage):
        return {"input_tokens": value.input_tokens, "output_tokens": value.output_tokens}
    if isinstance(value, ToolCall):
        return {"id": value.id, "name": value.name, "arguments": value.arguments}
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    return thaw(value)


def _rewritten(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_rewritten(inner, change) for inner in value)
    if isinstance(value, Mapping):
        return freeze({key: thaw(_rewritten(inner, change)) for key, inner in value.items()})
    if isinstance(value, ToolCall):
        return replace(value, arguments=change(value.arguments))
    return value
