"""What a session's record says, as pure functions of its entries: transcript, runs, interactions, snapshots.

They need nothing but the entries, so a process that starts anew knows what the one before it knew.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pegboard.values.entries import Entry
from pegboard.values.events import (
    Answered,
    Asked,
    Called,
    Event,
    Replied,
    Returned,
    RunEnd,
    RunStart,
    Said,
    SessionStart,
    SnapshotTaken,
    StepEnd,
    StepStart,
)
from pegboard.values.messages import AssistantMessage, EndReason, Message, ToolResult, Usage, UserMessage


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run as its entries tell it. `reason` is None while it is under way, or was when its process died.

    `open_calls` were recorded and have no result; `open_steps` have no end.
    """

    number: int
    agent: str
    input: str
    driver: str
    hash: str
    resumes: int = 0
    reason: EndReason | None = None
    text: str = ""
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    open_steps: tuple[int, ...] = ()
    calls: tuple[Called, ...] = ()
    open_calls: tuple[Called, ...] = ()


def result_of(event: Returned) -> ToolResult:
    """Return a recorded result as the model reads it."""
    return ToolResult(event.id, event.name, event.status, event.content, event.summary, event.code)


def message_of(event: Event) -> Message | None:
    """Return what an event adds to the transcript, if anything."""
    if isinstance(event, Returned):
        return result_of(event)
    if isinstance(event, Replied):
        return AssistantMessage(event.text, event.calls)
    return UserMessage(event.text) if isinstance(event, Said) else None


class Messages:
    """The transcript as it grows: `all` is append-only.

    The results of a reply stand in the order of its calls, whatever the order of their commits: one that comes before
    the result of an earlier call, which waits for a person, is held back until that is there.
    """

    __slots__ = ("_held", "_open", "all")

    def __init__(self) -> None:
        self.all: list[Message] = []
        self._open: list[str] = []
        self._held: dict[str, Message] = {}

    def take(self, event: Event) -> None:
        """Follow the record by one event."""
        if isinstance(event, RunEnd):
            if event.reason != "paused" and self._held:
                self._release()
        elif message := message_of(event):
            if isinstance(event, Replied):
                self._release()
                self._open = [call.id for call in event.calls]
                self.all.append(message)
            elif isinstance(event, Returned) and event.id in self._open:
                self._take_result(event.id, message)
            else:
                self.all.append(message)

    def _take_result(self, identity: str, message: Message) -> None:
        if self._open[0] != identity:
            self._held[identity] = message
            return
        self.all.append(message)
        del self._open[0]
        while self._open and self._open[0] in self._held:
            self.all.append(self._held.pop(self._open.pop(0)))

    def _release(self) -> None:
        """Let go of what is held back: a run that ends without the rest can't be taken up again."""
        self.all.extend(self._held.values())
        self._held.clear()
        self._open = []


def transcript(entries: Iterable[Entry]) -> list[Message]:
    """Return the session's messages."""
    messages = Messages()
    for entry in entries:
        messages.take(entry.event)
    return messages.all


def start_of(entries: Iterable[Entry]) -> SessionStart | None:
    """Return how the session began, or None if it never did."""
    for entry in entries:
        return entry.event if isinstance(entry.event, SessionStart) else None
    return None


def runs(entries: Iterable[Entry]) -> dict[int, RunRecord]:
    """Return every run by its number, in the order in which they began."""
    found: dict[int, _RunSoFar] = {}
    for entry in entries:
        event = entry.event
        if isinstance(event, RunStart):
            found[event.run] = _RunSoFar(event)
        elif run := found.get(event.run):
            run.take(event)
    return {number: run.record() for number, run in found.items()}


class _RunSoFar:
    """One run while its entries are read; what is open is kept by its id, so that a long run costs no more a step."""

    def __init__(self, start: RunStart) -> None:
        self._start = start
        self._end: RunEnd | None = None
        self._usage = Usage()
        self._steps = 0
        self._open_steps: dict[int, None] = {}
        self._calls: list[Called] = []
        self._open_calls: dict[str, list[Called]] = {}

    def take(self, event: Event) -> None:
        match event:
            case StepStart():
                self._steps = event.step
                self._open_steps[event.step] = None
            case StepEnd():
                self._open_steps.pop(event.step, None)
                self._usage += event.usage
            case Called():
                self._calls.append(event)
                self._open_calls.setdefault(event.id, []).append(event)
            case Returned() if opened := self._open_calls.get(event.id):
                opened.pop(0)
                if not opened:
                    del self._open_calls[event.id]
            case RunEnd():
                self._end = event

    def record(self) -> RunRecord:
        start, end = self._start, self._end
        still_open = {id(call) for calls in self._open_calls.values() for call in calls}
        return RunRecord(
            start.run,
            start.agent,
            start.input,
            start.driver,
            start.hash,
            start.resumes,
            reason=end.reason if end else None,
            text=end.text if end else "",
            usage=end.usage if end else self._usage,
            steps=self._steps,
            open_steps=tuple(self._open_steps),
            calls=tuple(self._calls),
            open_calls=tuple(call for call in self._calls if id(call) in still_open),
        )


@dataclass(frozen=True, slots=True)
class InteractionRecord:
    """A question that was asked, and its first answer; of a second one nothing is kept."""

    asked: Asked
    answer: Answered | None = None


def interactions(entries: Iterable[Entry]) -> dict[int, InteractionRecord]:
    """Return every interaction by its number; those without an answer are open, unless their run has ended."""
    found: dict[int, InteractionRecord] = {}
    for entry in entries:
        match entry.event:
            case Asked() as asked:
                found[asked.id] = InteractionRecord(asked)
            case Answered(id=number) as answer if number in found and found[number].answer is None:
                found[number] = replace(found[number], answer=answer)
    return found


def snapshots(entries: Iterable[Entry]) -> dict[int, SnapshotTaken]:
    """Return, for each run, the snapshot that it was given."""
    found: dict[int, SnapshotTaken] = {}
    known: dict[str, SnapshotTaken] = {}
    for entry in entries:
        match entry.event:
            case SnapshotTaken() as taken:
                known[taken.hash] = found[taken.run] = taken
            case RunStart() as start if start.hash in known:
                found[start.run] = known[start.hash]
    return found
