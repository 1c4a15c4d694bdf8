"""A session's record as runs with lines: who said or did what, when, and for how long."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pegboard import Entry, Event, RunEnd, Usage
from pegboard.events import Answered, Asked, Called, Note, Replied, Returned, RunStart, Said, StepEnd, StepStart

from pegboard_tape.facts import fact_of
from pegboard_tape.printing import count, duration
from pegboard_tape.redact import MASK
from pegboard_tape.view import effective

_GONE: Final = "(no longer counts)"


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was said or done: `entry` is where it is recorded, `ms` how long it took, `status` how it ended.

    `detail` is what there is to read of it. What was retracted or superseded later does not count, and is not told.
    """

    entry: int
    ts: float
    who: str
    text: str
    kind: str = "message"
    ms: float | None = None
    outcome: str = ""
    status: str = "ok"
    detail: str = ""
    counts: bool = True

    def as_json(self) -> dict[str, Any]:
        """Return the stable shape of `pegboard tape show --json`."""
        return {
            "entry": self.entry,
            "ts": self.ts,
            "who": self.who,
            "kind": self.kind,
            "text": self.text,
            "ms": self.ms,
            "outcome": self.outcome,
            "status": self.status,
            "counts": self.counts,
        }


@dataclass(slots=True)
class RunShown:
    """One run; `reason` is "under way" until it has an end, `masked` counts the secrets that were masked in it."""

    number: int
    began: float
    agent: str = ""
    model: str = ""
    resumes: int = 0
    reason: str = "under way"
    ended: float = 0.0
    ms: float = 0.0
    steps: int = 0
    masked: int = 0
    usage: Usage = field(default_factory=Usage)
    lines: list[Line] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the stable shape of `pegboard tape show --json`."""
        return {
            "run": self.number,
            "began": self.began,
            "agent": self.agent,
            "model": self.model,
            "resumes": self.resumes,
            "reason": self.reason,
            "ms": self.ms,
            "steps": self.steps,
            "masked": self.masked,
            "usage": {"input_tokens": self.usage.input_tokens, "output_tokens": self.usage.output_tokens},
            "lines": [line.as_json() for line in self.lines],
        }


def timeline(entries: Iterable[Entry]) -> list[RunShown]:
    """Return the runs of a session, oldest first; what happened outside of a run stands with the one before."""
    rows = sorted(entries, key=lambda entry: entry.id)
    told = _Telling({entry.id for entry in effective(rows, pending=True)})
    for entry in rows:
        told.take(entry)
    return told.runs


class _Telling:
    """Follows the record and writes the lines down."""

    def __init__(self, counting: set[int]) -> None:
        self.runs: list[RunShown] = []
        self._counting = counting
        self._asked_at = 0.0
        self._calls: dict[str, int] = {}

    def take(self, entry: Entry) -> None:
        event = entry.event
        match event:
            case RunStart():
                self.runs.append(RunShown(event.run, event.ts, event.agent, event.label or event.model, event.resumes))
                self._calls.clear()
            case StepStart():
                self._asked_at = event.ts
                self._run(event).steps += 1
            case StepEnd():
                self._run(event).usage += event.usage
            case RunEnd():
                self._end(event)
            case Called():
                self._calls[event.id] = len(self._run(event).lines)
                self._add(entry, event.name, arguments(event.arguments), kind="tool", status="pending")
            case Returned():
                self._settle(entry, event)
            case _:
                self._say(entry, event)
        if self.runs:
            self.runs[-1].masked += fact_of(event).text.count(MASK)

    def _say(self, entry: Entry, event: Event) -> None:
        match event:
            case Said():
                self._add(entry, "you", event.text, detail=event.text)
            case Replied():
                ms = max(event.ts - self._asked_at, 0.0) * 1000
                self._add(entry, "model", event.text, kind="model", ms=ms, detail=event.text)
            case Asked():
                self._add(entry, "asks", f"{event.tool}: {event.reason}", kind="question", status="pending")
            case Answered():
                said = event.text or ("yes" if event.approved else "no")
                self._add(entry, "answer", said, kind="question")
            case Note() if text := fact_of(event).text:
                self._add(entry, "note", f"{event.pack} {text}", kind="note", detail=text)

    def _run(self, event: Event) -> RunShown:
        if not self.runs:
            self.runs.append(RunShown(event.run, event.ts))
        return self.runs[-1]

    def _add(self, entry: Entry, who: str, text: str, **more: Any) -> None:
        line = Line(entry.id, entry.event.ts, who, text, **more)
        if entry.id not in self._counting:
            line = replace(line, text=_GONE, detail="", counts=False)
        self._run(entry.event).lines.append(line)

    def _settle(self, entry: Entry, event: Returned) -> None:
        lines = self._run(event).lines
        place = self._calls.pop(event.id, None)
        if place is None:  # the call was made in an earlier run, which paused
            self._add(entry, event.name, "", kind="tool")
            place = len(lines) - 1
        line = replace(lines[place], ms=event.ms, status=event.status)
        lines[place] = replace(line, outcome=event.summary, detail=event.content) if line.counts else line

    def _end(self, event: RunEnd) -> None:
        run = self._run(event)
        run.reason, run.ended, run.ms, run.usage = event.reason, event.ts, event.ms, event.usage
        run.steps = event.steps


def arguments(given: Mapping[str, Any] | None) -> str:
    """Return a call's arguments as a person reads them."""
    if given is None:
        return "(not JSON)"
    return " ".join(f"{key}={_argument(value)}" for key, value in given.items())


def _argument(value: Any) -> str:
    if isinstance(value, str) and value and " " not in value and len(value) < 80:
        return value
    shown = value[:200] if isinstance(value, str) else value
    return json.dumps(
        shown, ensure_ascii=False, default=lambda one: dict(one) if isinstance(one, Mapping) else repr(one)
    )


def title(run: RunShown) -> str:
    """Return a run in one line: how it ended, its steps, its tokens, its time."""
    parts = [f"run {run.number}", run.reason]
    parts += [f"goes on with run {run.resumes}"] if run.resumes else []
    parts.append(count(run.steps, "step"))
    if run.usage.input_tokens or run.usage.output_tokens:
        parts.append(f"{run.usage.input_tokens:,} tokens in, {run.usage.output_tokens:,} out")
    parts += [f"{count(run.masked, 'secret')} masked"] if run.masked else []
    return " · ".join([*parts, duration(run.ms)])
