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
    """How a body ended: with a value, with an exception, or not at all within the grace time."""

    value: Any = None
    error: BaseException | None = None
    abandoned: bool = False


async def run_body(tool: Tool, arguments: dict[str, Any], signal: CancelSignal) -> Ended:
    """Run the body to its end and return how it ended; `signal` is given when the tool's timeout is over.

    A started body is awaited, for at most `GRACE_SECONDS` after the signal. Cancelling the awaiting task does no more
    than give the signal.
    """
    if tool.inline and not tool.is_async:
        return _call(lambda: tool.body(**arguments))
    loop = asyncio.get_running_loop()
    started: asyncio.Future[Any]
    if tool.is_async:
        started = loop.create_task(_contained(tool.body, arguments))
    else:
        started = _in_thread(loop, lambda: tool.body(**arguments))
    timer = loop.call_later(tool.timeout, signal.cancel, TIMEOUT) if tool.timeout else None
    try:
        await _wait(loop, started, signal)
    finally:
        if timer:
            timer.cancel()
    if started.done():
        return _outcome(started)
    started.add_done_callback(_consume)
    return Ended(abandoned=True)


async def _wait(loop: asyncio.AbstractEventLoop, started: asyncio.Future[Any], signal: CancelSignal) -> None:
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
            signal.cancel("the run was cancelled")
            if task := asyncio.current_task():
                task.uncancel()
    dispose()
    if grace is not None:
        grace.cancel()


async def _contained(body: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    try:
        return await body(**arguments)
    except SystemExit as error:  # would end the event loop and with it the host
        raise RuntimeError(f"the body raised {error!r}") from None


def _outcome(started: asyncio.Future[Any]) -> Ended:
    if started.cancelled():
        return Ended(error=asyncio.CancelledError("the body was cancelled"))
    error = started.exception()
    return Ended(error=error) if error is not None else Ended(value=started.result())


def _call(body: Callable[[], Any]) -> Ended:
    try:
        return Ended(value=body())
    except (SystemExit, StopIteration) as error:  # a future takes neither
        return Ended(error=RuntimeError(f"the body raised {error!r}"))
    except Exception as error:
        return Ended(error=error)


def _in_thread(loop: asyncio.AbstractEventLoop, body: Callable[[], Any]) -> asyncio.Future[Any]:
    """Run a sync body in a daemon thread of its own: one that never returns can't keep the process alive."""
    ended: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(outcome: Ended) -> None:
        if not ended.done():
            if outcome.error is not None:
                ended.set_exception(outcome.error)
            else:
                ended.set_result(outcome.value)

    def work() -> None:
        outcome = _call(lambda: context.run(body))
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=work, name="pegboard-tool", daemon=True).start()
    return ended


def _consume(ended: asyncio.Future[Any]) -> None:
    if not ended.cancelled():
        ended.exception()
