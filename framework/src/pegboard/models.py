"""The model protocol: one async stream of events from messages, tools and settings."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pegboard.messages import AssistantMessage, Message, ToolCall, Usage
from pegboard.tools import Tool


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request. `messages` is a view of the session's transcript and `tools` the run's snapshot, sorted by name.

    Both are shared, never copied; whatever is derived from `tools` may be cached by its identity. `usage` is what the
    root agent and all its descendants have used before this request; a wrapper that changes `route` falls back to
    another model.
    """

    prompt: str
    messages: Sequence[Message]
    tools: tuple[Tool, ...]
    route: str = ""
    session: str = ""
    run: int = 0
    step: int = 0
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The whole answer to one request, as `wrap_model_call` sees it."""

    message: AssistantMessage
    usage: Usage = field(default_factory=Usage)
    stop: Literal["end", "max-tokens"] = "end"


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the reply's text, in order."""

    text: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a reply: why it stopped, and what it used. A stream without one counts as cut off."""

    usage: Usage = field(default_factory=Usage)
    stop: Literal["end", "max-tokens"] = "end"


# What `wrap_model_call` gets to go on with.
ProceedModel = Callable[[ModelRequest], Awaitable[ModelReply]]
ModelEvent = TextDelta | ToolCall | Finish


class Model(Protocol):
    """An opened route. `label` is what people are told about it, in a few words."""

    @property
    def label(self) -> str:
        """What kind of model this is, as the first line of a run says it."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer one request.

        Raises:
            ModelError: classified, with the remedy in its message.
        """


@dataclass(frozen=True, slots=True)
class ModelProvider:
    """What `register_models` hands over: opens the routes `name` and `name:ARGUMENT`.

    `open` gets the part after the colon ("" without one) and raises ModelError for a route that can't be opened.
    """

    name: str
    summary: str
    open: Callable[[str], Model]
