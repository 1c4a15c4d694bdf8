"""What waits for an agent: later runs of their own, and input for the nearest step (L19)."""

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pegboard.agents.run import Run


@dataclass(frozen=True, slots=True)
class Pending:
    """Input for the next step. `wakes`: an idle agent begins a run for it."""

    text: str
    wakes: bool


class Inbox:
    """In order of arrival; nothing of it is recorded before a run claims or drops it."""

    def __init__(self) -> None:
        self.runs: deque[Run] = deque()
        self._pending: list[Pending] = []

    def put(self, text: str, *, wakes: bool) -> None:
        """Add input for the next step."""
        self._pending.append(Pending(text, wakes))

    @property
    def steered(self) -> bool:
        """Whether something waits that keeps a run going, or wakes an idle agent."""
        return any(pending.wakes for pending in self._pending)

    def claim(self) -> tuple[str, ...]:
        """Take everything that waits for the next step."""
        claimed = tuple(pending.text for pending in self._pending)
        self._pending.clear()
        return claimed

    def drop(self) -> tuple[tuple[str, ...], tuple["Run", ...]]:
        """Take everything, to be dropped: the texts in order, and the runs that will never begin."""
        runs = tuple(self.runs)
        self.runs.clear()
        return (*self.claim(), *(run.said for run in runs)), runs
