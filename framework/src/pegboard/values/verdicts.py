"""What hook implementations may decide: refuse or ask about a call, reject or enter a step."""

from dataclasses import dataclass
from typing import get_args

from pegboard.values.messages import EndReason, UserMessage


class EndRun(Exception):
    """Raised in `wrap_model_call` to end the run with this reason and text: a budget is used up, say (`limit`)."""

    def __init__(self, reason: EndReason, text: str) -> None:
        if reason not in get_args(EndReason) or not isinstance(text, str):
            raise TypeError(
                f"EndRun takes one of {', '.join(get_args(EndReason))} and a text, not {reason!r}, {text!r:.80}"
            )
        self.reason: EndReason = reason
        self.text = text
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class Deny:
    """A guard refuses the call. The reason is shown to the model and recorded with the refusing pack."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A guard wants a yes first. With `person` only a person's own answer counts, never a blanket one."""

    reason: str
    person: bool = False


Verdict = Deny | Ask


@dataclass(frozen=True, slots=True)
class Reject:
    """`agent_pre_step` closes the run as `blocked`, without a model call (L13)."""

    reason: str


@dataclass(frozen=True, slots=True)
class Enter:
    """`agent_pre_step` lets the step begin with these new messages instead of those it was given (L12)."""

    messages: tuple[UserMessage, ...]
