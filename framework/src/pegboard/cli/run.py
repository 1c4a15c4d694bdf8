"""`pegboard run`: one task on the current directory."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from pegboard.cli.group import Options
from pegboard.cli.opening import new_session, open_host, report_faults
from pegboard.cli.screen import JsonLines, Screen
from pegboard.errors import ModelError, UsageError
from pegboard.events import RunEnd
from pegboard.host import Host
from pegboard.runs import Run

MAX_TASK_BYTES = 1_000_000
_T = TypeVar("_T")


_EXAMPLES = """\b
Examples:
  pegboard run "Where are retries counted?"
  git diff | pegboard run -
  pegboard run -m scripted:turns.toml --allow-writes "fix the test"
"""


@click.command(epilog=_EXAMPLES)
@click.argument("task", required=False)
@click.option("-m", "--model", "route", metavar="ROUTE", help="Model route: offline, scripted:FILE, ...")
@click.option("--agent", "name", metavar="NAME", default="main", show_default=True, help="Definition in [agents.NAME].")
@click.option("--allow-writes", is_flag=True, help="Say yes, for this run, to every question that needs no person.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON event a line.")
@click.pass_obj
def run(options: Options, task: str | None, route: str | None, name: str, allow_writes: bool, as_json: bool) -> int:
    """Run one TASK on the current directory and stream what happens.

    TASK may come from a pipe. Exit 0 completed (also with denied calls), 130 cancelled, 1 any other end.
    """
    text = read_task(task)
    host = open_host(options)
    end = to_the_end(_run(host, text, route, name, allow_writes, as_json))
    report_faults(host)
    return exit_code(end)


async def _run(host: Host, text: str, route: str | None, name: str, allow_writes: bool, as_json: bool) -> RunEnd:
    async with host:
        definition = host.definition(name)
        if route is not None:
            definition = definition.model_copy(update={"model": route})
        try:
            model = host.model(definition.model)
        except ModelError as error:
            raise UsageError(str(error)) from error
        session = new_session()
        await host.store()  # a store that can't be had is told before anything begins
        agent = await host.create_agent(definition, name=name, session=session, model=model)
        host.listen(JsonLines() if as_json else Screen())
        under_way = host.submit(agent, text, allow_writes=allow_writes)
        return await watch(under_way)


def to_the_end(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a command's work in an event loop; a second Ctrl-C ends it as any Ctrl-C ends a program."""
    try:
        return asyncio.run(work)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def watch(run: Run) -> RunEnd:
    """Wait for a run's end; Ctrl-C cancels it. What printing raised, such as a closed pipe, is raised here.

    A body that does not end would hold the interpreter back for ever; then the process ends here.
    """
    with interrupts_cancel(run):
        end = await run.wait()
    if run.listener_error is not None:
        raise run.listener_error
    if run.stuck is not None:
        sys.stdout.flush()
        os._exit(exit_code(end))
    return end


def exit_code(end: RunEnd) -> int:
    """Return the exit code that tells how a run ended."""
    return {"completed": 0, "paused": 3, "aborted": 130}.get(end.reason, 1)


def read_task(task: str | None) -> str:
    """Return the task from the argument, or from the pipe if it is `-` or missing.

    Raises:
        UsageError: there is none, it is empty, too large, or not text.
    """
    if task in (None, "-"):
        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError('no task given; for example: pegboard run "Where are retries counted?"')
        raw = sys.stdin.buffer.read(MAX_TASK_BYTES + 1)
    else:
        raw = os.fsencode(task or "")
    if len(raw) > MAX_TASK_BYTES:
        raise UsageError(f"the task is larger than {MAX_TASK_BYTES:,} bytes; put it into a file and name the file")
    try:
        text = raw.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise UsageError(f"the task is not UTF-8 (byte {error.start})") from None
    if not text:
        raise UsageError('the task is empty; for example: pegboard run "Where are retries counted?"')
    return text


@contextmanager
def interrupts_cancel(run: Run) -> Iterator[None]:
    """Make the first Ctrl-C cancel the run and the second one end the process, with what it started."""
    loop = asyncio.get_running_loop()
    presses = 0

    def pressed(_number: int, _frame: object) -> None:
        nonlocal presses
        presses += 1
        if presses == 1:
            loop.call_soon_threadsafe(run.cancel, "interrupted")
        else:
            # Bodies get a moment to end their processes; then nothing can hold the process back.
            loop.call_soon_threadsafe(_cancel_everything, loop)
            threading.Timer(0.5, os._exit, (130,)).start()

    before = signal.signal(signal.SIGINT, pressed)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _cancel_everything(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()
