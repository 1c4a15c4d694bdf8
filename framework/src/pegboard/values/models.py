"""The model protocol: one async stream of events from messages, tools and settings."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from pegboard.base.slotted import direct_init
from pegboard.values.messages import NO_USAGE, AssistantMessage, Message, ToolCall, Usage
from pegboard.values.tool import Tool


@direct_init
@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request. `messages` is a view of the session's transcript and `tools` the run's snapshot, sorted by name.

    Both are shared, never copied; whatever is derived from `tools` may be cached by its identity (`PerTools`). `usage`
    is what the root agent and all its descendants have used before this request; a wrapper that changes `route` falls
    back to another model.
    """

    prompt: str
    messages: Sequence[Message]
    tools: tuple[Tool, ...]
    route: str = ""
    session: str = ""
    run: int = 0
    step: int = 0
    usage: Usage = NO_USAGE


@direct_init
@dataclass(frozen=True, slots=True)
class ModelReply:
    """The whole answer to one request, as `wrap_model_call` sees it."""

    message: AssistantMessage
    usage: Usage = NO_USAGE
    stop: Literal["end", "max-tokens"] = "end"


@direct_init
@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the reply's text, in order."""

    text: str


@direct_init
@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a reply: why it stopped, and what it used. A stream without one counts as cut off."""

    usage: Usage = NO_USAGE
    stop: Literal["end", "max-tokens"] = "end"


_T = TypeVar("_T")


class PerTools(Generic[_T]):
    """What an adapter derives from a request's tools, such as its wire definitions: made anew only for other tools.

    Example:
        >>> definitions = PerTools(lambda tools: [tool.definition for tool in tools])
        >>> definitions(())
        []
    """

    def __init__(self, make: Callable[[tuple[Tool, ...]], _T], keep: int = 8) -> None:
        self._make = make
        self._keep = keep
        self._made: dict[int, tuple[tuple[Tool, ...], _T]] = {}  # by identity; the tools are kept, so it stays theirs

    def __call__(self, tools: tuple[Tool, ...]) -> _T:
        """Return what was made of exactly these tools."""
        found = self._made.get(id(tools))
        if found is None:
            found = (tools, self._make(tools))
            while len(self._made) >= self._keep:
                del self._made[next(iter(self._made))]
            self._made[id(tools)] = found
        return found[1]


# What `wrap_model_call` gets to go on with.
ProceedModel = Callable[[ModelRequest], Awaitable[ModelReply]]
"""What `wrap_model_call` goes on with; it may be called again, to retry."""
ModelEvent = TextDelta | ToolCall | Finish
"""What a model's stream yields; the last one is a Finish."""


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
