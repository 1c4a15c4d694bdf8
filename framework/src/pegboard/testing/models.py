"""A model that says what a test tells it to, and remembers what it was asked."""

import itertools
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from pegboard.values.messages import ToolCall
from pegboard.values.models import Finish, ModelEvent, ModelRequest, TextDelta

_numbers = itertools.count(1)

# A text, a call, several events of one reply, or an error that is raised instead of it.
Turn = str | ToolCall | Sequence[ModelEvent] | BaseException


def call(tool: str, **arguments: Any) -> ToolCall:
    """Make a model's call of a tool, with arguments by keyword."""
    return ToolCall(f"call-{next(_numbers)}", tool, json.dumps(arguments))


class ScriptedModel:
    """Answers each request with the next turn; `requests` are those it got so far.

    Example:
        >>> model = ScriptedModel(call("greet", name="Ada"), "She was greeted.")
    """

    label = "scripted in the test"

    def __init__(self, *turns: Turn) -> None:
        self.turns: list[Turn] = list(turns)
        self.requests: list[ModelRequest] = []

    def will(self, *turns: Turn) -> "ScriptedModel":
        """Add turns; returns the model itself."""
        self.turns.extend(turns)
        return self

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the next turn's events; running past the last turn is an error, never an empty answer."""
        self.requests.append(request)
        if len(self.requests) > len(self.turns):
            raise AssertionError(f"the script has {len(self.turns)} turns and was asked for one more")
        for event in _events(self.turns[len(self.requests) - 1]):
            yield event


def _events(turn: Turn) -> Sequence[ModelEvent]:
    if isinstance(turn, BaseException):
        raise turn
    if isinstance(turn, str):
        return (TextDelta(turn), Finish())
    return (turn, Finish()) if isinstance(turn, ToolCall) else turn
