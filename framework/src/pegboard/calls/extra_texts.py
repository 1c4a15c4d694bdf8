"""Extra texts appended to a tool result: from the body, then from `wrap_tool_call`, then from `tool_post_execute`."""

from collections.abc import Callable
from typing import Final

from pegboard.values.outcomes import Outcome

OF_TOOL: Final = 0
OF_WRAPPERS: Final = 1
OF_PACKS: Final = 2


class ExtraTexts:
    """Collected while a call is on its way, each with the rank of whoever added it."""

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: list[tuple[int, str]] = []

    def adder(self, rank: int) -> Callable[[str], None]:
        """Return what adds one, for the body or for a pack around it."""

        def add(text: str) -> None:
            if not isinstance(text, str):
                raise TypeError(f"add_context takes a text, not {type(text).__name__}")
            self._texts.append((rank, text))

        return add

    def of_packs(self, texts: tuple[str, ...]) -> None:
        """Add those of a pack that saw the result."""
        self._texts.extend((OF_PACKS, text) for text in texts)

    def drop_of_tool(self) -> None:
        """Forget the tool's, because its result was blocked."""
        self._texts = [entry for entry in self._texts if entry[0] != OF_TOOL]

    def drop(self) -> None:
        """Forget all, because the body begins anew."""
        self._texts.clear()

    def after(self, outcome: Outcome) -> Outcome:
        """Return an outcome with the texts after its content."""
        if not self._texts:
            return outcome
        texts = [text for _, text in sorted(self._texts, key=lambda entry: entry[0])]
        return outcome.saying("\n\n".join([outcome.content, *texts]))


def are_texts(texts: object) -> bool:
    """Whether that is a tuple of texts."""
    return isinstance(texts, tuple) and all(isinstance(text, str) for text in texts)
