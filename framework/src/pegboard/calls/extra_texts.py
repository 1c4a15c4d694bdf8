"""Texts that a model reads beside a result (T40): the tool's own, its wrappers', those of the packs that saw it."""

from collections.abc import Callable

from pegboard.values.outcomes import Outcome


class ExtraTexts:
    """Collected while a call is on its way."""

    __slots__ = ("_of_packs", "_of_tool", "_of_wrappers")

    def __init__(self) -> None:
        self._of_tool: list[str] = []
        self._of_wrappers: list[str] = []
        self._of_packs: list[str] = []

    @property
    def add_of_tool(self) -> Callable[[str], None]:
        """What the body gets to add one."""
        return lambda text: _add(self._of_tool, text)

    @property
    def add_of_wrapper(self) -> Callable[[str], None]:
        """What a pack around the body gets to add one."""
        return lambda text: _add(self._of_wrappers, text)

    def of_packs(self, texts: tuple[str, ...]) -> None:
        """Add those of a pack that saw the result."""
        self._of_packs.extend(texts)

    def drop_of_tool(self) -> None:
        """Forget the tool's, because its result was blocked."""
        self._of_tool.clear()

    def drop(self) -> None:
        """Forget all, because the body begins anew."""
        for texts in (self._of_tool, self._of_wrappers, self._of_packs):
            texts.clear()

    def beside(self, outcome: Outcome) -> Outcome:
        """Return an outcome with the texts after its content."""
        texts = [*self._of_tool, *self._of_wrappers, *self._of_packs]
        return outcome.saying("\n\n".join([outcome.content, *texts])) if texts else outcome


def are_texts(texts: object) -> bool:
    """Whether that is a tuple of texts."""
    return isinstance(texts, tuple) and all(isinstance(text, str) for text in texts)


def _add(texts: list[str], text: str) -> None:
    if not isinstance(text, str):
        raise TypeError(f"add_context takes a text, not {type(text).__name__}")
    texts.append(text)
