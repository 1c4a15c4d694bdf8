"""A named agent configuration, and the limits of its runs."""

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from pegboard.trust.project_rules import DEFAULT_LIMITS

if TYPE_CHECKING:
    pass


DEFAULT_PROMPT = (
    "You are an agent that works in one directory with the tools you are given. Look before you conclude, "
    "say where you found what you claim as path:line, and say plainly what you could not do."
)


class Limits(BaseModel):
    """When a turn is ended as `limit`: model requests, tool calls (across its pauses), seconds of a run's wall time.

    And what bounds a step: how many parallel tools run at once, how many characters of one result and of all results
    together a model gets to read.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int = Field(default=int(DEFAULT_LIMITS["steps"]), ge=1)
    tool_calls: int = Field(default=int(DEFAULT_LIMITS["tool_calls"]), ge=0)
    seconds: float = Field(default=float(DEFAULT_LIMITS["seconds"]), gt=0)
    parallel: int = Field(default=int(DEFAULT_LIMITS["parallel"]), ge=1)
    result_chars: int = Field(default=int(DEFAULT_LIMITS["result_chars"]), ge=1000)
    batch_chars: int = Field(default=int(DEFAULT_LIMITS["batch_chars"]), ge=1000)


class Definition(BaseModel):
    """A named agent configuration, `[agents.<name>]`. Without a `model` the route is `offline`.

    `tools` are the only tools that the agent gets; without the key it gets all, with `[]` none (rule 13).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str = ""
    prompt: str = DEFAULT_PROMPT
    model: str = "offline"
    tools: tuple[str, ...] | None = None
    limits: Limits = Limits()
