"""What a run looks like: one line a call, the answer as it comes; in a pipe the same text without movement."""

import json
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

import click

from pegboard.base.frozen import thaw
from pegboard.base.text import count, one_line, printable
from pegboard.values.events import Asked, Called, Event, Progress, Returned, RunEnd, RunStart, StepStart, Text

_SUMMARY: Final = 26
_NAME: Final = 10
_COLOURS: Final = {"denied": "red", "error": "yellow", "aborted": "yellow", "indeterminate": "red"}


def width() -> int:
    """Return how many columns to use: the terminal's, within reason; 100 in a pipe."""
    if not sys.stdout.isatty():
        return 100
    return min(max(shutil.get_terminal_size((100, 24)).columns, 60), 120)


class JsonLines:
    """Prints one event a line as JSON, of the documented types; nothing else goes to stdout."""

    def __call__(self, event: Event) -> None:
        if event.streamed:
            click.echo(json.dumps(event.as_json(), ensure_ascii=True))


class Screen:
    """Prints a run for a person."""

    def __init__(self) -> None:
        self._width = width()
        self._calls: dict[str, Called] = {}
        self._ticker = Ticker()
        self._in_text = False
        self._blank = False
        self._held = ""
        self._step = 0

    def __call__(self, event: Event) -> None:
        self._ticker.stop()
        match event:
            case RunStart():
                packs = f"{count(len(event.tools), 'tool')} from {count(len(event.packs), 'pack')}"
                click.secho(f"{printable(event.label)} · {packs} · session {event.session}", dim=True)
                click.echo()
                self._blank = True
            case Called():
                self._end_text()
                self._calls[event.id] = event
                self._ticker.start(self._call_line(event))
            case Returned():
                self._show_result(event)
            case Text():
                self._show_text(event.text)
            case StepStart():
                self._step = event.step
            case Asked():
                self._end_text()
                self._show_asked(event)
            case Progress():
                click.secho(f"     {one_line(event.text, self._width)}", dim=True)
            case RunEnd():
                self._end_text()
                click.echo()
                self._show_end(event)
        sys.stdout.flush()

    def _show_text(self, text: str) -> None:
        """Print a piece of the answer; line ends are held back until more text comes, so that none trail."""
        if not self._in_text:
            text = text.lstrip("\n")
            if not self._blank and text:
                click.echo()
        whole = self._held + printable(text)
        shown = whole.rstrip("\n")
        self._held = whole[len(shown) :]
        self._in_text = self._in_text or bool(shown)
        click.echo(shown, nl=False)

    def _end_text(self) -> None:
        if self._in_text:
            click.echo()
        self._in_text = self._blank = False
        self._held = ""

    def _call_line(self, call: Called) -> str:
        return self._line(call.step, call.name, call.arguments)

    def _line(self, step: int, name: str, arguments: Mapping[str, Any] | None) -> str:
        room = self._width - 5 - _NAME - 2 - _SUMMARY - 12
        told = one_line(_arguments(arguments), room)
        return f"  {step:<2} {one_line(name, 40):<{_NAME}} {told:<{room}}"

    def _show_asked(self, asked: Asked) -> None:
        click.echo(self._line(self._step, asked.tool, asked.arguments), nl=False)
        click.secho("  needs you", fg="yellow")
        click.secho(f"     {one_line(asked.reason, self._width * 2)}", fg="yellow")
        for option in asked.options:
            click.secho(f"     · {one_line(option, self._width)}", dim=True)

    def _show_result(self, result: Returned) -> None:
        call = self._calls.pop(result.id, None)
        line = self._call_line(call) if call else self._line(result.step, result.name, {})
        long = len(result.summary) > _SUMMARY
        summary = "" if long else printable(result.summary)
        click.echo(line, nl=False)
        click.secho(f"  {summary:<{_SUMMARY}}", fg=_COLOURS.get(result.status), nl=False)
        click.secho(f" {_duration(result.ms):>9}", dim=True)
        if long:
            click.secho(f"     {one_line(result.summary, self._width * 2)}", fg=_COLOURS.get(result.status))

    def _show_end(self, end: RunEnd) -> None:
        parts: list[str] = [end.reason]
        if end.reason != "completed" and end.text:
            parts.append(one_line(end.text, 400))
        if end.steps:
            parts.append(count(end.steps, "step"))
        parts.append(count(end.calls, "call"))
        if end.denied:
            parts.append(f"{end.denied} denied")
        parts += [_duration(end.ms), f"session {end.session}"]
        click.secho(
            " · ".join(parts), fg=None if end.reason == "completed" else "yellow", dim=end.reason == "completed"
        )


class Ticker:
    """Shows on a terminal, and only there, that a call is under way and for how long."""

    def __init__(self) -> None:
        self._stop: threading.Event | None = None
        self._thread: threading.Thread | None = None

    def start(self, line: str) -> None:
        """Show `line` with the time since now until `stop`."""
        if not sys.stdout.isatty():
            return
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tick, args=(line, self._stop), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take the line away again."""
        if self._stop is not None and self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._stop = None

    def _tick(self, line: str, stop: threading.Event) -> None:
        began = time.monotonic()
        shown = False
        while not stop.wait(0.1):
            shown = True
            sys.stdout.write(f"\r\x1b[2m{line}  {time.monotonic() - began:.1f} s\x1b[0m")
            sys.stdout.flush()
        if shown:
            sys.stdout.write("\r\x1b[2K")


def _arguments(arguments: Mapping[str, Any] | None) -> str:
    if arguments is None:
        return "(not JSON)"
    return " ".join(f"{key}={_argument(value)}" for key, value in arguments.items())


def _argument(value: Any) -> str:
    if isinstance(value, str) and value and " " not in value and len(value) < 80:
        return value
    return json.dumps(value[:200] if isinstance(value, str) else thaw(value), ensure_ascii=False)


def _duration(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"
