"""Watching a run from the command line: to its end, with Ctrl-C as a cancel, and as an exit code."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pegboard.agents.run import Run
from pegboard.values.events import RunEnd

_T = TypeVar("_T")


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
    if run.body_never_ended is not None:
        sys.stdout.flush()
        os._exit(exit_code(end))
    return end


def exit_code(end: RunEnd) -> int:
    """Return the exit code that tells how a run ended."""
    return {"completed": 0, "paused": 3, "aborted": 130}.get(end.reason, 1)


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
