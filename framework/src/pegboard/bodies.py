"""Running one tool body: in its own task or thread, with a deadline, told to stop but never torn down (rule 9)."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pegboard.cancel import CancelSignal
from pegboard.tools import Tool

GRACE_SECONDS: Final = 10.0
TIMEOUT: Final = "timeout"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a body ended: with a value or an exception, and whether it had been told to stop by then.

    `abandoned`: it did not end within the grace time.
    """

    value: Any = None
    error: BaseException | None = None
    told_to_stop: bool = False
    abandoned: bool = False


async def run_body(
    tool: Tool, arguments: dict[str, Any], signal: CancelSignal, interrupt: Callable[[str], object]
) -> Ended:
    """Run the body to its end and return how it ended; `signal` is given when the tool's timeout is over.

    A started body is awaited, for at most `GRACE_SECONDS` after the signal. Cancelling the awaiting task does no more
    than call `interrupt`, which is to give the signal.
    """
    if tool.inline and not tool.is_async:
        return _call(lambda: tool.body(**arguments), signal)
    loop = asyncio.get_running_loop()
    started: asyncio.Future[Ended]
    if tool.is_async:
        started = loop.create_task(_await(tool.body, arguments, signal))
    else:
        started = _in_thread(loop, lambda: tool.body(**arguments), signal)
    timer = loop.call_later(tool.timeout, signal.cancel, TIMEOUT) if tool.timeout else None
    try:
        await _wait(loop, started, signal, interrupt)
    finally:
        if timer:
            timer.cancel()
    if not started.done():
        return Ended(told_to_stop=True, abandoned=True)
    if started.cancelled():
        return Ended(error=asyncio.CancelledError("the body was cancelled"), told_to_stop=True)
    return started.result()


async def _wait(
    loop: asyncio.AbstractEventLoop,
    started: asyncio.Future[Ended],
    signal: CancelSignal,
    interrupt: Callable[[str], object],
) -> None:
    """Wait until the body ended, or for the grace time after the signal."""
    waiter = loop.create_future()
    grace: asyncio.TimerHandle | None = None

    def wake(_started: object = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    def begin_grace() -> None:
        nonlocal grace
        grace = loop.call_later(GRACE_SECONDS, wake)

    started.add_done_callback(wake)
    dispose = signal.on_cancel(begin_grace)
    while not started.done():
        try:
            await waiter
            break
        except asyncio.CancelledError:
            waiter = loop.create_future()
            interrupt("the run was cancelled")
            if task := asyncio.current_task():
                task.uncancel()
    dispose()
    if grace is not None:
        grace.cancel()


async def _await(body: Callable[..., Any], arguments: dict[str, Any], signal: CancelSignal) -> Ended:
    try:
        return Ended(value=await body(**arguments), told_to_stop=signal.cancelled)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
            raise
        return _failed(error, signal)


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


def _in_thread(loop: asyncio.AbstractEventLoop, body: Callable[[], Any], signal: CancelSignal) -> asyncio.Future[Ended]:
    """Run a sync body in a daemon thread of its own: one that never returns can't keep the process alive."""
    ended: asyncio.Future[Ended] = loop.create_future()
    context = contextvars.copy_context()

    def settle(outcome: Ended) -> None:
        if not ended.done():
            ended.set_result(outcome)

    def work() -> None:
        outcome = _call(lambda: context.run(body), signal)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=work, name="pegboard-tool", daemon=True).start()
    return ended
