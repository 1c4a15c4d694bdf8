"""Who may refuse a tool call: the packs' guards, and the kernel's own rule when no pack decides about policy."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pegboard.base.frozen import thaw
from pegboard.base.slotted import direct_init
from pegboard.values.events import Asked
from pegboard.values.interactions import Answer
from pegboard.values.tool import Tool, Touch, no_touches
from pegboard.values.verdicts import Ask, Deny

if TYPE_CHECKING:
    from pegboard.agents.agent import Agent
    from pegboard.agents.run import Run

KERNEL_PACK: Final = "pegboard"


@direct_init
@dataclass(frozen=True, slots=True)
class GuardedCall:
    """What a guard is asked about. `arguments` are frozen (mappings, tuples), paths among `touches` are real paths."""

    agent: "Agent"
    phase: Literal["intent", "dispatch"]
    id: str
    name: str
    tool: Tool
    pack: str
    arguments: Mapping[str, Any]
    touches: tuple[Touch, ...]

    @property
    def hash(self) -> str:
        """SHA-256 of the tool's definition, arguments and touches: what an approval of this call is bound to."""
        what = [self.tool.hash, thaw(self.arguments), [[touch.kind, touch.value] for touch in self.touches]]
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call may not run, and which pack (or the kernel) says so."""

    pack: str
    reason: str


class Gate:
    """Asks everyone who may object to one call of a run: the guards, the kernel's own rules, and then a person.

    `approved` are the hashes of calls that a person has said yes to.
    """

    def __init__(self, run: "Run", approved: Iterable[str] = ()) -> None:
        self._run = run
        self._services = run.agent.services
        self._approved = set(approved)

    @property
    def approvals(self) -> int:
        """How many yeses a person has said."""
        return len(self._approved)

    async def refusals(self, call: GuardedCall) -> Sequence[Refusal]:
        """Return every refusal, denials before questions, or none when the call may go on (rule 6)."""
        objections = await self._services.dispatcher.ask_guards(call, self._run.agent.scope)
        if call.tool.effect == "write":
            objections.extend(self._own_objections(call))
        if not objections:
            return ()
        if denials := [Refusal(pack, verdict.reason) for pack, verdict in objections if isinstance(verdict, Deny)]:
            return denials
        asks = [(pack, verdict) for pack, verdict in objections if isinstance(verdict, Ask)]
        asks = [(pack, ask) for pack, ask in asks if ask.person or not self._run.allow_writes]
        refusal = await self._ask(call, asks) if asks else None
        return () if refusal is None else (refusal,)

    def _own_objections(self, call: GuardedCall) -> Iterator[tuple[str, Ask]]:
        if self._services.own_policy:
            yield KERNEL_PACK, Ask("no policy pack decides about writes")
        for touch in call.touches:
            if touch.kind == "path":
                reason = self._services.protected(touch.value, call.agent.session.directory)
                if reason is not None:
                    yield KERNEL_PACK, Ask(reason, person=True)

    async def _ask(self, call: GuardedCall, asks: Sequence[tuple[str, Ask]]) -> Refusal | None:
        """Get a person's yes to a call, once for both phases: an approval is bound to the call's hash.

        Raises:
            Suspended: the answer is for another run.
        """
        if call.hash in self._approved:
            return None
        reason = "; ".join(dict.fromkeys(ask.reason for _, ask in asks))
        asked = self._question(call, "permission", asks[0][0], reason, person=any(ask.person for _, ask in asks))
        answer = await self._services.questions.ask(self._run, asked)
        if answer is not None and answer.approved:
            self._approved.add(call.hash)
            return None
        if answer is not None:
            return Refusal(asks[0][0], f"a person said no{': ' + answer.text if answer.text else ''}")
        if self._run.signal.cancelled:
            return Refusal(asks[0][0], f"{asks[0][1].reason}; the run was cancelled before anybody answered")
        for pack, ask in asks:
            if ask.person:
                return Refusal(pack, f"{ask.reason}; a person must answer and {self.silence}")
        return Refusal(asks[0][0], f"{asks[0][1].reason}; --allow-writes says yes for one run")

    @property
    def silence(self) -> str:
        """Why nobody answered."""
        return self._services.questions.silence(self._run)

    async def ask_for_body(
        self, call: GuardedCall, kind: Literal["permission", "question"], text: str, options: tuple[str, ...]
    ) -> Answer | None:
        """Ask a person what the body of a call needs; None if there is nobody to ask.

        Raises:
            Suspended: the answer is for another run.
        """
        asked = self._question(call, kind, call.pack, text, person=True, stage="body", options=options)
        return await self._services.questions.ask(self._run, asked)

    def _question(
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
        run = self._run
        return Asked(
            *run.head(),
            id=run.agent.session.asked + 1,
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
        )


def resolve_touches(tool: Tool, arguments: Mapping[str, Any], directory: Path) -> tuple[Touch, ...]:
    """Ask the tool what a call will use; paths become real paths, so that a guard sees where links lead."""
    if tool.touches is no_touches:
        return ()
    return tuple(
        Touch.path(os.path.realpath(directory / touch.value)) if touch.kind == "path" else touch
        for touch in tool.touches(**thaw(arguments))
    )
