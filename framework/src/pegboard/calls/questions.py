"""Getting a person's answer: front ends are asked at once, the first answer wins, what stays open is denied."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, TypeGuard
from weakref import WeakValueDictionary

from pegboard.base.errors import UsageError
from pegboard.base.isolation import Failed
from pegboard.calls.environment import CallEnv
from pegboard.dispatch.dispatcher import Dispatcher
from pegboard.dispatch.plans import Implementation
from pegboard.values.events import Answered, Asked
from pegboard.values.interactions import Answer, Interaction


@dataclass(frozen=True, slots=True)
class _Open:
    """An interaction that is open in this process, and where its answer is to be put."""

    interaction: Interaction
    answer: "asyncio.Future[Answer]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Suspended(BaseException):
    """A question stays open when its run ends: whoever answers it, the answer is for the run that goes on.

    No Exception, so that nothing on the way takes it for a failure.
    """


class Questions:
    """The open interactions of a host, by session and number; `front_ends` may answer for a person."""

    def __init__(self, dispatcher: Dispatcher, front_ends: Collection[str]) -> None:
        self._dispatcher = dispatcher
        self._front_ends = frozenset(front_ends)
        self._waiting: dict[tuple[str, int], _Open] = {}
        self._opened = asyncio.Event()
        # Interactions of one tree of agents are put to people one after the other.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def open(self, root: str | None = None) -> tuple[Interaction, ...]:
        """Return what waits for an answer, oldest first; of one tree of agents if its root session is named."""
        return tuple(w.interaction for w in self._waiting.values() if root is None or w.interaction.root == root)

    async def next(self, root: str | None = None) -> Interaction:
        """Wait until something waits for an answer, and return the first of it."""
        while not (found := self.open(root)):
            await self._opened.wait()
        return found[0]

    def has(self, session: str, number: int) -> bool:
        """Whether an interaction waits for its answer in this process."""
        return (session, number) in self._waiting

    def answer(self, session: str, number: int, answer: Answer) -> None:
        """Give the answer to an interaction. Of each tree of agents only the first open one can be answered.

        Raises:
            UsageError: it is not open, another one comes before it, or that is no answer.
        """
        waiting = self._waiting.get((session, number))
        if waiting is None or waiting.answer.done():
            raise UsageError(f"session {session} has no open interaction {number}")
        check_answer(waiting.interaction.kind, answer)
        first = self.open(waiting.interaction.root)[0]
        if first is not waiting.interaction:
            raise UsageError(f"interaction {first.id} of session {first.session} comes first")
        waiting.answer.set_result(answer)

    def silence(self, env: CallEnv) -> str:
        """Say why nobody answered."""
        return "nobody answered" if self._asked_there(env) else "nobody can be asked here"

    def _asked_there(self, env: CallEnv) -> list[Implementation]:
        plan = self._dispatcher.plan("answer_interaction", env.scope)
        return [one for one in plan if one.pack in self._front_ends]

    async def ask(self, env: CallEnv, asked: Asked) -> Answer | None:
        """Record a question and return its answer; None if there is nobody to ask, nobody answered, or on cancel.

        Raises:
            Suspended: nobody has answered, and the run may end paused.
        """
        plan = self._asked_there(env)
        if not plan and env.on_ask == "deny":
            return None
        (recorded,) = await env.journal.record(asked)
        if not plan and env.on_ask == "pause":
            raise Suspended
        assert isinstance(recorded, Asked)  # noqa: S101  # a filter keeps the kind
        waiting = _Open(as_interaction(recorded, env.agent.root.session.id))
        key = (asked.session, asked.id)
        self._waiting[key] = waiting
        self._opened.set()  # wakes those who wait now
        self._opened.clear()
        turn = self._turns.setdefault(waiting.interaction.root, asyncio.Lock())
        try:
            async with turn:
                by, answer = await self._race(env, waiting)
        finally:
            del self._waiting[key]
        if answer is None and env.on_ask == "pause" and not env.signal.cancelled:
            raise Suspended
        text = answer.text if answer else f"nobody answered{': ' + env.signal.cause if env.signal.cause else ''}"
        approved = answer.approved if answer else False
        await env.journal.record(Answered(*env.journal.head(), asked.id, approved, text, by))
        return answer

    async def _race(self, env: CallEnv, waiting: _Open) -> tuple[str, Answer | None]:
        asked = self._dispatcher.begin("answer_interaction", waiting.interaction, env.scope, among=self._front_ends)
        cancelled = asyncio.ensure_future(env.signal.wait())
        given: set[asyncio.Future[Any]] = {waiting.answer, cancelled}
        left: set[asyncio.Future[Any]] = set(asked)
        try:
            while (left or env.on_ask == "wait") and not env.signal.cancelled:
                done, _ = await asyncio.wait(left | given, return_when=asyncio.FIRST_COMPLETED)
                if waiting.answer in done:
                    return "", waiting.answer.result()
                for front_end in [task for task in asked if task in done and not task.cancelled()]:
                    if _fits(waiting.interaction.kind, answer := front_end.result()):
                        return asked[front_end].pack, answer
                    self._report(asked[front_end], answer)
                left -= done
            return "", None
        finally:
            for pending in (*asked, cancelled):
                pending.cancel()
            await asyncio.wait([*asked, cancelled])

    def _report(self, one: Implementation, answer: object) -> None:
        """Report what a front end returned that is no answer."""
        if answer is not None and not isinstance(answer, Failed) and not _is_answer(answer):
            what = (
                "an Answer that is neither yes, no nor a text" if isinstance(answer, Answer) else type(answer).__name__
            )
            self._dispatcher.failed(one, "answer_interaction", Failed(f"it returned {what}, not Answer or None"))


def check_answer(kind: str, answer: object) -> None:
    """Refuse what is no answer to an interaction of a kind.

    Raises:
        UsageError: saying what would be one.
    """
    if not _is_answer(answer):
        raise UsageError("the answer must be Answer.yes(), Answer.no(reason) or Answer.say(text)")
    if kind == "permission" and answer.approved is None:
        raise UsageError("a permission is answered with yes or no")
    if kind == "question" and answer.approved is not False and not answer.text.strip():
        raise UsageError("a question is answered with a text that is not empty")


def _fits(kind: str, answer: object) -> TypeGuard[Answer]:
    try:
        check_answer(kind, answer)
    except UsageError:
        return False
    return True


def _is_answer(answer: object) -> TypeGuard[Answer]:
    """Whether it is an Answer that says yes, no or a text: anything else that is true must not count as a yes."""
    return isinstance(answer, Answer) and isinstance(answer.approved, bool | None) and isinstance(answer.text, str)


def as_interaction(asked: Asked, root: str) -> Interaction:
    """Return a recorded question as what front ends are shown."""
    return Interaction(
        session=asked.session,
        root=root,
        run=asked.run,
        id=asked.id,
        kind=asked.kind,
        call=asked.call,
        tool=asked.tool,
        pack=asked.pack,
        reason=asked.reason,
        person=asked.person,
        arguments=asked.arguments,
        touches=asked.touches,
        hash=asked.hash,
        options=asked.options,
        present=asked.present,
    )
