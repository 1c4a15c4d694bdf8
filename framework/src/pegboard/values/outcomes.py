"""What a tool call came to, on its way from the body to the record, and what packs may make of it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from pegboard.base.slotted import direct_init
from pegboard.values.messages import Status

_NOTHING: Any = object()


@direct_init
@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended. `value` is what the body returned, as JSON data; None unless `status` is `ok`.

    `content` is what the model reads, `summary` the few words that a person reads, `code` the kind of failure.
    """

    status: Status
    content: str
    summary: str
    code: str | None = None
    value: Any = None
    fresh: bool = False

    @classmethod
    def of(cls, value: Any) -> "Outcome":
        """A success that no body produced, such as a cached one; it is checked and rendered like a body's."""
        return cls("ok", "", "", value=value, fresh=True)

    def saying(self, content: str) -> "Outcome":
        """Return the outcome with other content for the model."""
        return replace(self, content=content)


# What `wrap_tool_call` gets to go on with.
ProceedTool = Callable[[], Awaitable[Outcome]]
"""What `wrap_tool_call` goes on with: the other wrappers and the body."""


@dataclass(frozen=True, slots=True)
class Accept:
    """`tool_post_execute` lets a result pass with other content, or with another value, which is rendered anew.

    `contexts` are texts for the model beside the result; they follow those of the tool and of its wrappers.
    """

    content: str | None = None
    value: Any = _NOTHING
    contexts: tuple[str, ...] = ()

    @property
    def changes_value(self) -> bool:
        """Whether another value is given; it may be None."""
        return self.value is not _NOTHING


@dataclass(frozen=True, slots=True)
class Block:
    """`tool_post_execute` turns a result into a failure; the feedback is what the model reads, with the `contexts`.

    Those that the tool itself had are dropped.
    """

    feedback: str
    contexts: tuple[str, ...] = ()
