"""What waits for a person in a tree of sessions, read from their records, and where the answers go."""

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pegboard.agents.agent import Agent
from pegboard.base.errors import Conflict, UsageError
from pegboard.calls.questions import as_interaction, check_answer
from pegboard.record.folds import start_of
from pegboard.record.paused_turn import TurnRecord, last_turn
from pegboard.record.session import Session
from pegboard.values.entries import Entry
from pegboard.values.events import Answered
from pegboard.values.interactions import Answer, Interaction

if TYPE_CHECKING:
    from pegboard.agents.registry import AgentRegistry
    from pegboard.agents.services import Services
    from pegboard.record.opener import SessionOpener


class OpenQuestions:
    """The questions of paused turns. An answer is only recorded here; a run of its own takes it up."""

    def __init__(self, services: "Services", opener: "SessionOpener", agents: "AgentRegistry") -> None:
        self._services = services
        self._opener = opener
        self._agents = agents
        self._answering = asyncio.Lock()

    async def queue(self, session: str) -> list[Interaction]:
        """Return what waits in the tree that a session is part of: a child's questions before its parent's own."""
        root = await self._root_of(session)
        found: list[Interaction] = []
        await self._collect(root, root, found, set())
        there = {(one.session, one.id) for one in found}
        return [*found, *(one for one in self._services.questions.open(root) if (one.session, one.id) not in there)]

    async def _collect(self, session: str, root: str, found: list[Interaction], seen: set[str]) -> None:
        turn = last_turn(await self._entries(session))
        if session in seen or turn is None or not turn.paused:
            return
        seen.add(session)
        for call in turn.open:
            for child in call.waits.sessions if call.waits else ():
                await self._collect(child, root, found, seen)
        found.extend(as_interaction(call.unanswered, root) for call in turn.open if call.unanswered)

    async def _root_of(self, session: str) -> str:
        seen: set[str] = set()
        while session not in seen:
            seen.add(session)
            start = start_of(await self._opener.entries(session, 0, 1))
            if start is None or start.parent is None:
                break
            session = start.parent
        return session

    async def _entries(self, session: str) -> Sequence[Entry]:
        return await self._opener.entries(session, 0, None)

    async def paused_turn(self, session: str) -> TurnRecord:
        """Return the turn that a session can go on with.

        Raises:
            UsageError: it is not paused, or something of it has no answer yet.
        """
        turn = last_turn(await self._entries(session))
        if turn is None or not turn.paused:
            raise UsageError(f"session {session} is not paused; there is nothing to resume")
        found: list[Interaction] = []
        await self._collect(session, session, found, set())
        if found:
            raise UsageError(f"interaction {found[0].id} of session {found[0].session} has no answer yet")
        return turn

    async def answer(self, session: str, number: int, answer: Answer) -> str:
        """Record an answer; returns the root session of its tree.

        Raises:
            UsageError: the interaction is not open, another one comes first, or that is no answer to it.
        """
        async with self._answering:
            # The session is looked at first: what somebody else records from here on is a conflict.
            target = self._agents.get(session) or await self._opener.open(session, self._services.recorder)
            if isinstance(target, Agent):
                await self.catch_up(target)
            queue = await self.queue(session)
            asked = next((one for one in queue if (one.session, one.id) == (session, number)), None)
            if asked is None:
                raise UsageError(f"session {session} has no open interaction {number}")
            check_answer(asked.kind, answer)
            if queue[0] is not asked:
                raise UsageError(f"interaction {queue[0].id} of session {queue[0].session} comes first")
            await self._record(asked, answer, target)
        return asked.root

    async def catch_up(self, agent: Agent) -> None:
        """Let a live session follow what another process recorded while it was paused, and go on if that ended it."""
        if agent.current_run is None:
            await self._services.recorder.catch_up(agent.session, agent.scope)
            agent.wake()

    async def _record(self, asked: Interaction, answer: Answer, target: Agent | Session) -> None:
        event = Answered(asked.session, asked.run, time.time(), asked.id, answer.approved, answer.text, "")
        try:
            if isinstance(target, Agent):
                await target.record(event)
            else:
                await self._services.recorder.record(target, self._services.dispatcher.host, [event])
        except Conflict:
            raise UsageError(f"session {asked.session} went on elsewhere; look again what is open") from None
