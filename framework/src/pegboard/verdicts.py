"""What hook implementations may decide: refuse or ask about a call, reject or enter a step."""

from dataclasses import dataclass

from pegboard.messages import UserMessage


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
