"""Asking all guards about one call: in order, each under its own deadline; one that fails or is late denies."""

import inspect
import time
from collections.abc import Awaitable, Sequence
from typing import Any, Final

from pegboard.base.isolation import Failed, awaited, current_pack, describe
from pegboard.dispatch.plans import Implementation
from pegboard.values.verdicts import Ask, Deny, Verdict

GUARD_SECONDS: Final = 5.0
_LATE: Final = "the guard did not answer in {:g} s"


async def ask_all(plan: Sequence[Implementation], call: object) -> list[tuple[str, Verdict]]:
    """Ask every guard; returns the objections with the pack that made each."""
    objections: list[tuple[str, Verdict]] = []
    caller, began = current_pack.get(), time.monotonic()
    try:
        for one in plan:
            current_pack.set(one.pack)  # what a guard registers is its pack's
            try:  # not through attempt: this runs for every guard, twice for every call
                answer = one.call(call)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                answer = Failed(describe(error))
            if answer is not None and inspect.isawaitable(answer):
                answer = await _in_time(answer, began)
            now = time.monotonic()
            if now - began > GUARD_SECONDS:  # a sync one can't be interrupted; late, it denies whatever it says
                answer = Deny(_LATE.format(GUARD_SECONDS))
            began = now
            if answer is not None:
                objections.append((one.pack, _verdict(answer)))
    finally:
        current_pack.set(caller)
    return objections


async def _in_time(answer: Awaitable[Any], began: float) -> Any:
    """Await an answer in a task of its own, which is left behind when its time is up."""
    import asyncio  # only here: packs are listed without it

    task = asyncio.ensure_future(awaited(answer))
    try:
        left = began + GUARD_SECONDS - time.monotonic()
        await asyncio.wait({task}, timeout=max(left, 0))
        if not task.done():
            return Deny(_LATE.format(GUARD_SECONDS))
        return Failed("it cancelled the task that asked it") if task.cancelled() else task.result()
    finally:
        task.cancel()
        if inspect.iscoroutine(answer) and inspect.getcoroutinestate(answer) == inspect.CORO_CREATED:
            answer.close()  # the task was cancelled before it began


def _verdict(answer: object) -> Verdict:
    match answer:
        case Deny(reason) | Ask(reason) if isinstance(reason, str):
            return answer
        case Deny() | Ask():
            text = f"it returned {type(answer).__name__} whose reason is no text"
        case Failed(text):
            pass
        case _:
            text = f"it returned {type(answer).__name__}, not Deny, Ask or None"
    return Deny(f"the guard failed: {text}")
