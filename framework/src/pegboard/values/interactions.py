"""What only a person may answer, and the answer: values that front ends and the record share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Interaction:
    """A question for a person; what is asked is in `reason`.

    `root` is the session at the top of the tree of agents: the one the person talks to. All texts come from outside
    and are to be shown escaped. `hash` binds a yes to tool, arguments and touches;
    `person` tells that no blanket yes counts. `options` are answers that a question offers. `present` is what the
    call would do: `kind`, `title`, `locations` and `diff`, or nothing.
    """

    session: str
    root: str
    run: int
    id: int
    kind: Literal["permission", "question"]
    call: str
    tool: str
    pack: str
    reason: str
    person: bool
    arguments: Mapping[str, Any]
    touches: tuple[str, ...]
    hash: str
    options: tuple[str, ...] = ()
    present: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person said: yes, no, or, to a question, a text."""

    approved: bool | None
    text: str = ""

    @classmethod
    def yes(cls) -> "Answer":
        """The call may run, this once."""
        return cls(True)

    @classmethod
    def no(cls, reason: str = "") -> "Answer":
        """The call may not run; the reason is told to the model."""
        return cls(False, reason)

    @classmethod
    def say(cls, text: str) -> "Answer":
        """The answer to a question."""
        return cls(None, text)
