"""`scripted:FILE`: a model that says what a file says, turn by turn; for demonstrations, documentation and tests."""

import json
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from string import Template
from typing import Any

from pegboard import (
    AssistantMessage,
    Finish,
    Message,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ToolCall,
    ToolResult,
)
from pydantic import BaseModel, ConfigDict, ValidationError


class Call(BaseModel):
    """One tool call of a turn."""

    model_config = ConfigDict(extra="forbid")

    tool: str
    args: dict[str, Any] = {}


class Turn(BaseModel):
    """What the model says when it is asked; `${results}` in the text stands for the results of the turn before."""

    model_config = ConfigDict(extra="forbid")

    text: str = ""
    calls: list[Call] = []


class Script(BaseModel):
    """The whole file: `[[turns]]` in TOML, `{"turns": [...]}` in JSON."""

    model_config = ConfigDict(extra="forbid")

    turns: list[Turn]


def open_script(path: str) -> Model:
    """Read a script.

    Raises:
        ModelError: kind `route`: there is no such file, or it is not a script.
    """
    if not path:
        raise ModelError("`scripted` needs a file: -m scripted:turns.toml", "route")
    try:
        text = Path(path).read_bytes().decode("utf-8")
        data = json.loads(text) if path.endswith(".json") else tomllib.loads(text)
        return ScriptedModel(path, Script.model_validate(data))
    except OSError as error:
        raise ModelError(f"the script {path} can't be read: {error.strerror}", "route") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ModelError(f"the script {path} is wrong at {where or 'its top'}: {first['msg']}", "route") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"the script {path} can't be parsed: {error}", "route") from None


class ScriptedModel:
    """Plays a script; running past its end is an error, never an empty answer."""

    label = "scripted model"

    def __init__(self, path: str, script: Script) -> None:
        self._path = path
        self._script = script
        self._next = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the next turn; a turn that was paused in another process goes on after the step that paused."""
        self._next = self._next or max(request.step - 1, 0)
        if self._next >= len(self._script.turns):
            told = f"the script {self._path} has {len(self._script.turns)} turns and the run wants one more"
            raise ModelError(f"{told}; end it with a turn without calls", "script")
        turn = self._script.turns[self._next]
        self._next += 1
        if turn.text:
            yield TextDelta(Template(turn.text).safe_substitute(results=_last_results(request)))
        for number, call in enumerate(turn.calls, 1):
            yield ToolCall(f"script-{self._next}-{number}", call.tool, json.dumps(call.args))
        yield Finish()


def _last_results(request: ModelRequest) -> str:
    """Return the results since the last reply, one after the other."""
    results: list[str] = []
    for index in range(len(request.messages) - 1, -1, -1):
        message: Message = request.messages[index]
        if isinstance(message, AssistantMessage):
            break
        if isinstance(message, ToolResult):
            results.append(f"{message.name}: {message.content}")
    return "\n".join(reversed(results))
