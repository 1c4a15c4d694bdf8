"""Who may refuse a tool call: the packs' guards, and the kernel's own rule when no pack decides about policy."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pegboard.dispatch import Dispatcher
from pegboard.frozen import thaw
from pegboard.tools import Tool, Touch, no_touches
from pegboard.verdicts import Ask, Deny

if TYPE_CHECKING:
    from pegboard.agents import Agent

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


@dataclass(frozen=True, slots=True)
class Gate:
    """Asks everyone who may object. `own_policy`: no active pack claims policy, so the kernel asks about writes."""

    dispatcher: Dispatcher
    own_policy: bool

    async def refusal(self, call: GuardedCall, *, allow_writes: bool) -> Refusal | None:
        """Return the first refusal, denials before questions, or None when the call may go on (rule 6)."""
        objections = await self.dispatcher.ask_guards(call)
        if self.own_policy and call.tool.effect == "write":
            objections.append((KERNEL, Ask("no policy pack decides about writes")))
        if not objections:
            return None
        for pack, verdict in objections:
            if isinstance(verdict, Deny):
                return Refusal(pack, verdict.reason)
        for pack, verdict in objections:
            if isinstance(verdict, Ask) and verdict.person:
                return Refusal(pack, f"{verdict.reason}; a person must answer and nobody can be asked here")
            if isinstance(verdict, Ask) and not allow_writes:
                return Refusal(pack, f"{verdict.reason}; --allow-writes says yes for one run")
        return None


def resolve_touches(tool: Tool, arguments: Mapping[str, Any], directory: Path) -> tuple[Touch, ...]:
    """Ask the tool what a call will use; paths become real paths, so that a guard sees where links lead."""
    if tool.touches is no_touches:
        return ()
    return tuple(
        Touch.path(os.path.realpath(directory / touch.value)) if touch.kind == "path" else touch
        for touch in tool.touches(**thaw(arguments))
    )
