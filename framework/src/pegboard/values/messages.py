"""The transcript of a session: what the person, the model and the tools said."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, overload

from pegboard.base.slotted import direct_init

Status = Literal["ok", "error", "denied", "aborted", "indeterminate"]
EndReason = Literal["completed", "paused", "blocked", "aborted", "interrupted", "limit", "max-tokens", "error"]


@direct_init
@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that one or more model requests used; a model that counts nothing reports zero."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)

    def __sub__(self, other: "Usage") -> "Usage":
        return Usage(self.input_tokens - other.input_tokens, self.output_tokens - other.output_tokens)


NO_USAGE: Final = Usage()


@direct_init
@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's request for one tool; `arguments` is the JSON text as the model wrote it (empty means `{}`)."""

    id: str
    name: str
    arguments: str


@direct_init
@dataclass(frozen=True, slots=True)
class UserMessage:
    """Input from the person or program that drives the session."""

    text: str


@direct_init
@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """One complete reply of the model."""

    text: str
    calls: tuple[ToolCall, ...] = ()


@direct_init
@dataclass(frozen=True, slots=True)
class ToolResult:
    """How one call ended. `content` is what the model reads, `summary` the few words a person reads.

    `code` names the kind of failure (`UNKNOWN_TOOL`, `INVALID_ARGS`, `DENIED`, `TIMEOUT`, ...) and is None when
    `status` is `ok`.
    """

    call_id: str
    name: str
    status: Status
    content: str
    summary: str
    code: str | None = None


Message = UserMessage | AssistantMessage | ToolResult
"""What a transcript is made of."""


class Transcript(Sequence[Message]):
    """The first `length` messages of an append-only list: a view of its own moment, never a copy."""

    __slots__ = ("_length", "_messages")

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages
        self._length = len(messages)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        if isinstance(index, slice):
            return [self._messages[i] for i in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._messages[index if index >= 0 else self._length + index]

    def __iter__(self) -> Iterator[Message]:
        for index in range(self._length):
            yield self._messages[index]
