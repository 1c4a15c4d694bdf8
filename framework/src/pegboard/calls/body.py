"""Running one tool body: in its own task or thread, with a deadline, told to stop but never torn down (rule 9)."""

import asyncio
import contextvars
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any, Final

from pegboard.base.cancel import CancelSignal
from pegboard.base.isolation import being_cancelled
from pegboard.base.slotted import direct_init
from pegboard.values.tool import Tool

GRACE_SECONDS: Final = 10.0
TIMEOUT: Final = "timeout"
# What a pack gets to end when the grace after a cancel is over already.
_LEAST_SECONDS: Final = 0.2


@direct_init
@dataclass(frozen=True, slots=True)
class Ended:
    """How a body ended: with a value or an exception, and whether it had been told to stop by then.

    `abandoned`: it did not end within the grace time.
    """

    value: Any = None
    error: BaseException | None = None
    told_to_stop: bool = False
    abandoned: bool = False
    timed_out: bool = False


async def run_body(
    tool: Tool,
    arguments: dict[str, Any],
    signal: CancelSignal,
    interrupt: Callable[[str], object],
    *,
    uncancel: bool = True,
) -> Ended:
    """Run the body to its end and return how it ended; `signal` is given when the tool's timeout is over.

    A started body is awaited, for at most `GRACE_SECONDS` after the signal. Cancelling the awaiting task does no more
    than call `interrupt`, which is to give the signal.
    """
    if tool.inline and not tool.is_async:
        return _call(lambda: tool.body(**arguments), signal)
    loop = asyncio.get_running_loop()
    waiter = _Waiter(loop)
    started: asyncio.Future[Ended]
    if tool.is_async:
        started = _begin(loop, _await(tool.body, arguments, signal, waiter))
    else:
        started = _in_thread(loop, lambda: tool.body(**arguments), signal, waiter)
    timed_out = False

    def time_is_up() -> None:
        nonlocal timed_out
        timed_out = not signal.cancelled
        signal.cancel(TIMEOUT)

    timer = loop.call_later(tool.timeout, time_is_up) if tool.timeout else None
    dispose = signal.on_cancel(waiter.begin_grace)
    while not started.done():
        try:
            await waiter.woken
            break
        except asyncio.CancelledError:
            waiter.again(started)
            interrupt("the run was cancelled")
            if (task := asyncio.current_task()) and uncancel:
                task.uncancel()
    dispose()
    waiter.end_grace()
    if timer:
        timer.cancel()
    if not started.done():
        return Ended(told_to_stop=True, abandoned=True)
    if started.cancelled():
        return Ended(error=asyncio.CancelledError("the body was cancelled"), told_to_stop=True)
    ended = started.result()
    return replace(ended, timed_out=True) if timed_out else ended


def absorb_cancel(error: asyncio.CancelledError, signal: CancelSignal) -> None:
    """Take the cancellation of the running task for one of the run: every call of it still gets its result.

    Raises:
        CancelledError: it is not the task's own cancellation.
    """
    if not being_cancelled(error):
        raise error
    if task := asyncio.current_task():
        task.uncancel()
    signal.cancel("the run was cancelled")


@contextmanager
def deadline_after_cancel(signal: CancelSignal) -> Iterator[None]:
    """After a cancel, cancel this task one second after the grace of a body inside it is over."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    timers: list[asyncio.TimerHandle] = []

    def cancelled() -> None:
        if task is not None:
            left = signal.given + GRACE_SECONDS + 1 - time.monotonic()
            timers.append(loop.call_later(max(left, _LEAST_SECONDS), task.cancel))

    unlink = signal.on_cancel(cancelled)
    try:
        yield
    finally:
        unlink()
        for timer in timers:
            timer.cancel()


if sys.version_info >= (3, 12):

    def _begin(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Ended]) -> "asyncio.Task[Ended]":
        """Run a coroutine in a task of its own, at once as far as it goes without waiting: a turn of the loop less."""
        return asyncio.Task(work, loop=loop, eager_start=True)

else:

    def _begin(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Ended]) -> "asyncio.Task[Ended]":
        """Run a coroutine in a task of its own."""
        return loop.create_task(work)


class _Waiter:
    """Wakes the run when the body has ended, or the grace time after the signal is over."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.woken = loop.create_future()
        self._loop = loop
        self._grace: asyncio.TimerHandle | None = None

    def wake(self, _started: object = None) -> None:
        if not self.woken.done():
            self.woken.set_result(None)

    def again(self, started: asyncio.Future[Ended]) -> None:
        """Wait anew, also for a body that was cancelled before it could say that it has ended."""
        self.woken = self._loop.create_future()
        started.add_done_callback(self.wake)

    def begin_grace(self) -> None:
        self._grace = self._loop.call_later(GRACE_SECONDS, self.wake)

    def end_grace(self) -> None:
        if self._grace is not None:
            self._grace.cancel()


async def _await(body: Callable[..., Any], arguments: dict[str, Any], signal: CancelSignal, waiter: _Waiter) -> Ended:
    """Await the body and say so at once: a done callback would cost another turn of the loop."""
    try:
        return Ended(value=await body(**arguments), told_to_stop=signal.cancelled)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
            raise
        return _failed(error, signal)
    finally:
        waiter.wake()


def _call(body: Callable[[], Any], signal: CancelSignal) -> Ended:
    try:
        return Ended(value=body(), told_to_stop=signal.cancelled)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise
        return _failed(error, signal)


def _failed(error: BaseException, signal: CancelSignal) -> Ended:
    """What is no Exception, such as SystemExit, would end more than this call; it becomes one."""
    if not isinstance(error, Exception):
        error = RuntimeError(f"the body raised {error!r}")
    return Ended(error=error, told_to_stop=signal.cancelled)


def _in_thread(
    loop: asyncio.AbstractEventLoop, body: Callable[[], Any], signal: CancelSignal, waiter: _Waiter
) -> asyncio.Future[Ended]:
    """Run a sync body in a daemon thread that nothing else uses meanwhile: one that never returns holds up nobody."""
    ended: asyncio.Future[Ended] = loop.create_future()
    context = contextvars.copy_context()

    def settle(outcome: Ended) -> None:
        if not ended.done():
            ended.set_result(outcome)
        waiter.wake()

    def work() -> None:
        outcome = _call(lambda: context.run(body), signal)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, outcome)

    _in_idle_thread(work)
    return ended


# Inboxes of threads that wait for work; starting a thread for each call would cost more than most bodies.
_IDLE: Final[deque[SimpleQueue[Callable[[], None]]]] = deque()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDLE.clear)


def _in_idle_thread(work: Callable[[], None]) -> None:
    try:
        inbox = _IDLE.pop()
    except IndexError:
        inbox = SimpleQueue()
        threading.Thread(target=_serve, args=(inbox,), name="pegboard-tool", daemon=True).start()
    inbox.put(work)


def _serve(inbox: "SimpleQueue[Callable[[], None]]") -> None:
    while True:
        inbox.get()()
        _IDLE.append(inbox)
