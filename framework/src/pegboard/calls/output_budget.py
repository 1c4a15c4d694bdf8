"""How much of its results a model gets to read: the head and tail of a long one, and what fits of a whole batch.

A result that is cut is kept whole as a blob of the session, to be paged; nothing is ever called again for it.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from pegboard.base.text import one_line
from pegboard.values.codes import DOES_NOT_FIT, OUTPUT_LOST
from pegboard.values.events import Returned, output_name

# What a model pays for a result besides its text: name, id, the frame around them.
OVERHEAD: Final = 60

# Stores the whole text of a result, and returns it with the key.
KeepWhole = Callable[[Returned], Awaitable[Returned]]


async def cut(returned: Returned, most: int, keep: KeepWhole) -> Returned:
    """Cut the middle of a longer text so that at most `most` characters are left.

    The whole is kept. If it can't be, the result becomes an error: a part alone would mislead.
    """
    try:
        returned = await keep(returned)
    except Exception as error:
        return _lost(returned, error)
    whole = returned.content
    note = (
        f"\n[cut: {{left:,}} of {len(whole):,} characters left out from character {{head}} on; "
        f"the whole is kept as output {output_name(returned.output)}]\n"
    )
    room = most - len(note) - 20
    head = room * 3 // 4
    tail = room - head
    content = whole[:head] + note.format(left=len(whole) - room, head=head) + whole[-tail:]
    return replace(returned, content=content)


def _lost(returned: Returned, error: Exception) -> Returned:
    told = (
        f"the call ran and must not be repeated; its output of {len(returned.content):,} characters could not be kept: "
        f"{one_line(str(error), 200)}"
    )
    return _replaced(returned, f"Error: {told}", OUTPUT_LOST)


class OutputBudget:
    """What is left of a batch's characters. The longest prefix of its results stays as it is, in call order.

    The first that does not fit, and those after it, become ever shorter texts as the room runs out (B14): never
    another call of the body.
    """

    def __init__(self, chars: int, calls: int, keep: KeepWhole) -> None:
        self._left = chars - calls * OVERHEAD
        self._full = False
        self._keep = keep

    def takes(self, returned: Returned) -> bool:
        """Take a result as it is, if it fits and every one before it did."""
        if self._full or len(returned.content) > self._left:
            return False
        self._left -= len(returned.content)
        return True

    async def shorten(self, returned: Returned) -> Returned:
        """Return a result that does not fit, or follows one that did not, as a text that does."""
        self._full = True
        fitted = await self._shortened(returned)
        self._left -= len(fitted.content)
        return fitted

    async def _shortened(self, returned: Returned) -> Returned:
        if returned.status != "ok":  # it is an error already, with its own code
            words = (returned.content, returned.summary, "Error")
            return replace(returned, content=next((text for text in words if len(text) <= self._left), ""))
        if not returned.output:
            with suppress(Exception):  # the text is not needed to tell that there was too much of it
                returned = await self._keep(returned)
        kept = f"; it is kept as output {output_name(returned.output)}" if returned.output else ""
        words = (
            f"Error: the call ran and must not be repeated; its result of {len(returned.content):,} characters does "
            f"not fit into this step{kept}",
            "Error: the call ran; its result does not fit",
            "Error",
        )
        text = next((text for text in words if len(text) <= self._left), "")
        return _replaced(returned, text, DOES_NOT_FIT)


def _replaced(returned: Returned, content: str, code: str) -> Returned:
    summary = "ran; its output does not fit" if code == DOES_NOT_FIT else "ran; its output is lost"
    return replace(returned, status="error", code=code, summary=summary, content=content)
