"""Agents and what they are made from: a definition, a session, an opened model."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from pegboard.sessions import Session

if TYPE_CHECKING:
    from pegboard.models import Model

DEFAULT_PROMPT = (
    "You are an agent that works in one directory with the tools you are given. Look before you conclude, "
    "say where you found what you claim as path:line, and say plainly what you could not do."
)


class Limits(BaseModel):
    """When a run is ended as `limit`: model requests, tool calls, and seconds of wall time."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int = Field(default=200, ge=1)
    tool_calls: int = Field(default=128, ge=0)
    seconds: float = Field(default=3600, gt=0)


class Definition(BaseModel):
    """A named agent configuration, `[agents.<name>]`. Without a `model` the route is `offline`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: str = DEFAULT_PROMPT
    model: str = "offline"
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True, eq=False)
class Agent:
    """One live driver of a session: an instance of the definition `name`. `model` is None for calls without one."""

    name: str
    definition: Definition
    session: Session
    model: "Model | None"
