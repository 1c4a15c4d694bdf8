"""Asking all guards about one call: each under its own deadline, those that are async in one task for all of them."""

import inspect
import time
from collections.abc import Awaitable, Sequence
from typing import Any, Final

from pegboard.base.isolation import Failed, awaited, current_pack, describe
from pegboard.dispatch.plans import Implementation
from pegboard.values.verdicts import Ask, Deny, Verdict

GUARD_SECONDS: Final = 5.0


class GuardRound:
    """One asking of all guards, in order. `objections` are what they said, with the pack of each.

    A task costs more than most guards, so there is none for plain ones and one for all others; a guard that does not
    answer in time is left behind in it, and the next ones are asked in another.
    """

    def __init__(self, plan: Sequence[Implementation], call: object) -> None:
        self.objections: list[tuple[str, Verdict]] = []
        self._plan = plan
        self._call = call
        self._next = 0
        self._began = time.monotonic()
        self._turn = 0  # of the task that may go on; one that was left behind has an older one

    async def ask_all(self) -> list[tuple[str, Verdict]]:
        """Ask every guard; a failing one denies."""
        caller = current_pack.get()
        try:
            while (waiting := self._ask_plain()) is not None:
                await self._ask_in_a_task(waiting)
        finally:
            current_pack.set(caller)
        return self.objections

    def _ask_plain(self) -> Awaitable[Any] | None:
        """Ask guards until one answers with an awaitable; returns that, or None when all were asked."""
        plan, call = self._plan, self._call
        while self._next < len(plan):
            one = plan[self._next]
            current_pack.set(one.pack)  # what a guard registers is its pack's
            try:  # not through attempt: this runs for every guard, twice for every call
                answer = one.call(call)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                answer = Failed(describe(error))
            if answer is not None and inspect.isawaitable(answer):
                return answer
            self._take(answer)
        return None

    async def _ask_in_a_task(self, waiting: Awaitable[Any]) -> None:
        """Await this answer, and go on in the same task; returns when all were asked, or one was left behind."""
        import asyncio  # only here: packs are listed without it

        self._turn += 1
        task = asyncio.ensure_future(self._go_on(waiting, self._turn))
        try:
            while not task.done():
                left = self._began + GUARD_SECONDS - time.monotonic()
                await asyncio.wait({task}, timeout=max(left, 0))
                if not task.done() and time.monotonic() - self._began >= GUARD_SECONDS:
                    break
            if not task.done():
                self._take(Failed("no answer"))
            elif task.cancelled():
                self._take(Failed("it cancelled the task that asked it"))
            else:
                task.result()  # what could not even be looked at must not pass
        finally:
            self._turn += 1
            task.cancel()
            if inspect.iscoroutine(waiting) and inspect.getcoroutinestate(waiting) == inspect.CORO_CREATED:
                waiting.close()  # the task was cancelled before it began

    async def _go_on(self, waiting: Awaitable[Any], turn: int) -> None:
        following: Awaitable[Any] | None = waiting
        while following is not None:
            answer = await awaited(following)
            if self._turn != turn:
                return
            self._take(answer)
            following = self._ask_plain()

    def _take(self, answer: Any) -> None:
        """Note what the guard whose turn it is answered; one that was late denied, whatever it says."""
        place, began, now = self._next, self._began, time.monotonic()
        self._next, self._began = place + 1, now
        if now - began > GUARD_SECONDS:
            answer = Deny(f"the guard did not answer in {GUARD_SECONDS:g} s")
        if answer is None:
            return
        pack = self._plan[place].pack
        match answer:
            case Deny(reason) | Ask(reason) if not isinstance(reason, str):
                text = f"it returned {type(answer).__name__} whose reason is no text"
                self.objections.append((pack, Deny(f"the guard failed: {text}")))
            case Deny() | Ask():
                self.objections.append((pack, answer))
            case Failed(text):
                self.objections.append((pack, Deny(f"the guard failed: {text}")))
            case _:
                text = f"it returned {type(answer).__name__}, not Deny, Ask or None"
                self.objections.append((pack, Deny(f"the guard failed: {text}")))
