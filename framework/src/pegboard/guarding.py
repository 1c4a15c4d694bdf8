"""Who may refuse a tool call: the packs' guards, and the kernel's own rule when no pack decides about policy."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pegboard.events import Asked
from pegboard.frozen import thaw
from pegboard.tools import Tool, Touch, no_touches
from pegboard.verdicts import Ask, Deny

if TYPE_CHECKING:
    from pegboard.agents import Agent
    from pegboard.runs import Run

KERNEL: Final = "pegboard"


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
        """SHA-256 of tool, arguments and touches: what an approval of this call would be bound to."""
        what = [self.name, thaw(self.arguments), [[touch.kind, touch.value] for touch in self.touches]]
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call may not run, and which pack (or the kernel) says so."""

    pack: str
    reason: str


class Gate:
    """Asks everyone who may object to one call of a run: the guards, the kernel's own rules, and then a person."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._kernel = run.agent.kernel
        self._approved: set[str] = set()

    async def refusal(self, call: GuardedCall) -> Refusal | None:
        """Return the first refusal, denials before questions, or None when the call may go on (rule 6)."""
        objections = await self._kernel.dispatcher.ask_guards(call, self._run.agent.scope)
        if call.tool.effect == "write":
            objections.extend(self._own_objections(call))
        if not objections:
            return None
        for pack, verdict in objections:
            if isinstance(verdict, Deny):
                return Refusal(pack, verdict.reason)
        asks = [(pack, verdict) for pack, verdict in objections if isinstance(verdict, Ask)]
        asks = [(pack, ask) for pack, ask in asks if ask.person or not self._run.allow_writes]
        return await self._ask(call, asks) if asks else None

    def _own_objections(self, call: GuardedCall) -> Iterator[tuple[str, Ask]]:
        if self._kernel.own_policy:
            yield KERNEL, Ask("no policy pack decides about writes")
        for touch in call.touches:
            if touch.kind == "path":
                reason = self._kernel.protected(touch.value, call.agent.session.directory)
                if reason is not None:
                    yield KERNEL, Ask(reason, person=True)

    async def _ask(self, call: GuardedCall, asks: Sequence[tuple[str, Ask]]) -> Refusal | None:
        """Get a person's yes to a call, once for both phases: an approval is bound to the call's hash."""
        if call.hash in self._approved:
            return None
        run = self._run
        asked = Asked(
            *run.head(),
            id=run.agent.session.asked + 1,
            kind="permission",
            call=call.id,
            tool=call.name,
            pack=asks[0][0],
            reason="; ".join(dict.fromkeys(ask.reason for _, ask in asks)),
            person=any(ask.person for _, ask in asks),
            arguments=call.arguments,
            touches=tuple(touch.value for touch in call.touches),
            hash=call.hash,
        )
        answer = await self._kernel.broker.ask(run, asked)
        if answer is not None and answer.approved:
            self._approved.add(call.hash)
            return None
        if answer is not None:
            return Refusal(asks[0][0], f"a person said no{': ' + answer.text if answer.text else ''}")
        for pack, ask in asks:
            if ask.person:
                return Refusal(pack, f"{ask.reason}; a person must answer and nobody can be asked here")
        return Refusal(asks[0][0], f"{asks[0][1].reason}; --allow-writes says yes for one run")


def resolve_touches(tool: Tool, arguments: Mapping[str, Any], directory: Path) -> tuple[Touch, ...]:
    """Ask the tool what a call will use; paths become real paths, so that a guard sees where links lead."""
    if tool.touches is no_touches:
        return ()
    return tuple(
        Touch.path(os.path.realpath(directory / touch.value)) if touch.kind == "path" else touch
        for touch in tool.touches(**thaw(arguments))
    )
