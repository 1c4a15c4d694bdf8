"""Who may refuse a tool call: the guards, asked at once, and then the person that they ask for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pegboard.calls.environment import CallEnv
from pegboard.calls.pack_views import GuardedCall
from pegboard.calls.presenting import presented
from pegboard.dispatch.guards import ask_all
from pegboard.values.events import Asked
from pegboard.values.interactions import Answer
from pegboard.values.verdicts import Ask, Deny


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call may not run, and which pack (or the kernel) says so."""

    pack: str
    reason: str


class Gate:
    """Asks everyone who may object to one call of a run: the guards, and then a person.

    `approved` are the hashes of calls that a person has said yes to.
    """

    __slots__ = ("_approved", "_env")

    def __init__(self, env: CallEnv, approved: Iterable[str] = ()) -> None:
        self._env = env
        self._approved = set(approved)

    @property
    def approvals(self) -> int:
        """How many yeses a person has said."""
        return len(self._approved)

    async def refusals(self, call: GuardedCall) -> Sequence[Refusal]:
        """Return every refusal, denials before questions, or none when the call may go on (rule 6)."""
        plan = self._env.dispatcher.plan("guard_tool_call", self._env.scope)
        objections = await ask_all(plan, call) if plan else ()
        if not objections:
            return ()
        if denials := [Refusal(pack, verdict.reason) for pack, verdict in objections if isinstance(verdict, Deny)]:
            return denials
        asks = [(pack, verdict) for pack, verdict in objections if isinstance(verdict, Ask)]
        asks = [(pack, ask) for pack, ask in asks if ask.person or not self._env.allow_writes]
        refusal = await self._ask(call, asks) if asks else None
        return () if refusal is None else (refusal,)

    async def _ask(self, call: GuardedCall, asks: Sequence[tuple[str, Ask]]) -> Refusal | None:
        """Get a person's yes to a call, once for both phases: an approval is bound to the call's hash.

        Raises:
            Suspended: the answer is for another run.
        """
        if call.hash in self._approved:
            return None
        reason = "; ".join(dict.fromkeys(ask.reason for _, ask in asks))
        asked = await self._question(call, "permission", asks[0][0], reason, person=any(ask.person for _, ask in asks))
        answer = await self._env.questions.ask(self._env, asked)
        if answer is not None and answer.approved:
            self._approved.add(call.hash)
            return None
        if answer is not None:
            return Refusal(asks[0][0], f"a person said no{': ' + answer.text if answer.text else ''}")
        if self._env.signal.cancelled:
            return Refusal(asks[0][0], f"{asks[0][1].reason}; the run was cancelled before anybody answered")
        for pack, ask in asks:
            if ask.person:
                return Refusal(pack, f"{ask.reason}; a person must answer and {self.silence}")
        return Refusal(asks[0][0], f"{asks[0][1].reason}; --allow-writes says yes for one run")

    @property
    def silence(self) -> str:
        """Why nobody answered."""
        return self._env.questions.silence(self._env)

    async def ask_for_body(
        self, call: GuardedCall, kind: Literal["permission", "question"], text: str, options: tuple[str, ...]
    ) -> Answer | None:
        """Ask a person what the body of a call needs; None if there is nobody to ask.

        Raises:
            Suspended: the answer is for another run.
        """
        asked = await self._question(call, kind, call.pack, text, person=True, stage="body", options=options)
        return await self._env.questions.ask(self._env, asked)

    async def _question(
        self,
        call: GuardedCall,
        kind: Literal["permission", "question"],
        pack: str,
        reason: str,
        *,
        person: bool,
        stage: Literal["guard", "body"] = "guard",
        options: tuple[str, ...] = (),
    ) -> Asked:
        return Asked(
            *self._env.journal.head(),
            id=self._env.agent.session.asked + 1,
            kind=kind,
            call=call.id,
            tool=call.name,
            pack=pack,
            reason=reason,
            person=person,
            arguments=call.arguments,
            touches=tuple(touch.value for touch in call.touches),
            hash=call.hash,
            stage=stage,
            options=options,
            present=await presented(call),
        )
