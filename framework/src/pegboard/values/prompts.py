"""What a model is told besides the tools: sections fixed once a run, and the history of each request."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pegboard.values.messages import Message


@dataclass(frozen=True, slots=True)
class Section:
    """A named part of the system prompt, and the pack that added it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What `assemble_prompt` sees and may replace.

    In phase `snapshot`, once a run: `sections` and `tools` (names) count, `messages` is empty, `task` is the run's
    input. In phase `step`, before each request: `messages` count, the rest is fixed.
    """

    phase: Literal["snapshot", "step"]
    sections: tuple[Section, ...]
    tools: tuple[str, ...]
    messages: Sequence[Message] = ()
    task: str = ""

    def adding(self, name: str, text: str) -> "Prompt":
        """Return the prompt with one more section at the end."""
        return replace(self, sections=(*self.sections, Section(name, text)))

    def omitting(self, names: Iterable[str]) -> "Prompt":
        """Return the prompt without the tools of these names; what it does not have is passed over."""
        left_out = frozenset(names)
        return replace(self, tools=tuple(name for name in self.tools if name not in left_out))

    def telling(self, messages: Iterable[Message]) -> "Prompt":
        """Return the prompt with another history for this request; the session's record stays as it is."""
        return replace(self, messages=tuple(messages))

    def rewriting(self, change: Callable[[str], str]) -> "Prompt":
        """Return the prompt with `change` applied to the text of every section."""
        return replace(self, sections=tuple(Section(one.name, change(one.text)) for one in self.sections))

    @property
    def text(self) -> str:
        """The sections as one text, in order."""
        return "\n\n".join(section.text for section in self.sections if section.text)
