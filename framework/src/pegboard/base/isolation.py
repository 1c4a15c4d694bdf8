"""Getting one implementation's answer: called, awaited if it must be, and whatever it raises turned into a value."""

import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

# The pack whose implementation is being called where it may register something; "" is the program itself.
current_pack: ContextVar[str] = ContextVar("pegboard_pack", default="")


@dataclass(frozen=True, slots=True)
class Failed:
    """Stands in for the answer of an implementation that raised."""

    text: str


def attempt(function: Callable[..., Any], *arguments: object) -> Any:
    """Call an implementation; whatever it raises, but for a person's Ctrl-C, becomes a Failed."""
    try:
        return function(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Failed(describe(error))


def attempt_sync(function: Callable[..., Any], *arguments: object) -> Any:
    """The same for a hook that must be sync: an awaitable is a failure too."""
    return refuse_awaitable(attempt(function, *arguments))


def attempt_items(function: Callable[..., Any], *arguments: object) -> "list[Any] | Failed":
    """Call a sync implementation that hands over items; returns them, none for None, or a Failed."""
    answer = attempt_sync(function, *arguments)
    items: list[Any] | Failed = answer if isinstance(answer, Failed) else attempt(lambda: list(answer or ()))
    return items


def refuse_awaitable(answer: Any) -> Any:
    """Return the answer, or a Failed in place of an awaitable, which is closed."""
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        return Failed("it is async; this hook must be sync")
    return answer


async def awaited(answer: Awaitable[Any]) -> Any:
    """Await an answer; returns it, or a Failed. Only the caller's own cancellation is raised."""
    try:
        return await answer
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if being_cancelled(error):
            raise
        return Failed(describe(error))


def being_cancelled(error: BaseException) -> bool:
    """Whether an exception is the cancellation of the running task, and not one that was raised by hand."""
    import asyncio  # only here: packs are listed without it

    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def describe(error: BaseException) -> str:
    """Return an exception as `TypeError: text`, without ever failing itself."""
    try:
        text = str(error)
    except BaseException:
        text = "(its text can't be shown)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
