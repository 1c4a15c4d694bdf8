"""What packs see of a tool call: guards before it, wrappers around its body, and those who see its result."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pegboard.base.cancel import CancelSignal
from pegboard.base.frozen import thaw
from pegboard.base.slotted import direct_init
from pegboard.calls.touching import identity
from pegboard.values.tool import Tool, Touch

if TYPE_CHECKING:
    from pegboard.hookspecs import Agent

Phase = Literal["intent", "dispatch"]


@direct_init
@dataclass(frozen=True, slots=True)
class GuardedCall:
    """What a guard is asked about. `arguments` are frozen (mappings, tuples), paths among `touches` are real paths."""

    agent: "Agent"
    phase: Phase
    id: str
    name: str
    tool: Tool
    pack: str
    arguments: Mapping[str, Any]
    touches: tuple[Touch, ...]

    @property
    def hash(self) -> str:
        """SHA-256 of what an approval of this call is bound to.

        The tool's definition, the arguments, the touches with what stands there, and the session's directory itself:
        another folder of its name is another place.
        """
        touches = [[touch.kind, touch.value, touch.digest] for touch in self.touches]
        what = [self.tool.hash, thaw(self.arguments), touches, identity(self.agent.session.directory)]
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


@direct_init
@dataclass(frozen=True, slots=True)
class ToolRun:
    """A call whose body runs, or that has ended: `cancel` tells the body to stop, as a timeout or a cancel does.

    `add_context` adds a text to what the model reads beside the result.
    """

    agent: "Agent"
    run: int
    id: str
    name: str
    tool: Tool | None
    pack: str | None
    arguments: Mapping[str, Any]
    touches: tuple[Touch, ...]
    cancel: CancelSignal
    add_context: Callable[[str], object] = str
