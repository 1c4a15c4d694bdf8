"""A regular expression on lines, within a deadline, and without a fight for the interpreter between searches."""

import time
from collections.abc import Sequence
from typing import Final

from pegboard import ToolError

# For so many seconds a search may keep other threads waiting. Handing the interpreter over for every line costs four
# parallel searches two thirds of their time; most lines take a microsecond.
HOLD: Final = 0.002


class Expression:
    """A pattern that `check` has let pass, to be found in lines within so many seconds from now."""

    def __init__(self, pattern: str, ignore_case: bool, seconds: float) -> None:
        import regex

        try:
            # `^` and `$` mean the same in one line with or without MULTILINE; in many, only with it.
            self._compiled = regex.compile(pattern, regex.MULTILINE | (regex.IGNORECASE if ignore_case else 0))
        except regex.error as error:
            raise ToolError(f"the pattern is not valid: {error}") from None
        self._until = time.monotonic() + seconds

    def may_be_in(self, lines: Sequence[str]) -> bool:
        """Whether one of the lines may match; no is certain, and cheaper than asking line by line.

        What matches in a line matches in the whole text too, for no pattern can look beyond its own match.

        Raises:
            TimeoutError: the deadline has passed.
        """
        try:
            return bool(self._compiled.search("\n".join(lines), concurrent=False, timeout=min(HOLD, self._left())))
        except TimeoutError:
            return True

    def is_in(self, line: str) -> bool:
        """Whether a line matches.

        Raises:
            TimeoutError: the deadline has passed.
        """
        try:
            return bool(self._compiled.search(line, concurrent=False, timeout=min(HOLD, self._left())))
        except TimeoutError:
            return bool(self._compiled.search(line, timeout=self._left()))

    def _left(self) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left
