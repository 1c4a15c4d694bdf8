"""What one request tells a model of its session, and how that is measured."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from pegboard import Message

from pegboard_tape.fitting import checkpoint_part, cost
from pegboard_tape.ledger import Ledger, Part
from pegboard_tape.manifest import ranges


@dataclass(frozen=True, slots=True)
class Told:
    """`messages` is None for the whole transcript, which the kernel has already; `included` are ranges of entries,
    `elided` those whose results were cut; `digest` stands for exactly these messages.
    """

    tokens: int
    digest: str
    included: tuple[tuple[int, int], ...]
    elided: tuple[int, ...] = ()
    messages: tuple[Message, ...] | None = None

    @classmethod
    def whole(cls, ledger: Ledger) -> "Told":
        """Everything that was said, without looking at each message again."""
        span = ((ledger.first, ledger.newest),) if ledger.newest else ()
        return cls(ledger.tokens, ledger.digest, span)

    @classmethod
    def of(cls, ledger: Ledger, parts: Sequence[Part], elided: Sequence[int]) -> "Told":
        """These messages, in place of the transcript."""
        checkpoint = ledger.checkpoint.entry if ledger.checkpoint else 0
        included = ranges(
            (part.entry for part in parts if part.entry != checkpoint), (part.entry for part in ledger.parts())
        )
        digest = hashlib.sha256(b"".join(part.digest for part in parts)).hexdigest()
        return cls(cost(parts), digest, included, tuple(elided), tuple(part.message for part in parts))


def since_checkpoint(ledger: Ledger) -> list[Part]:
    """Return the newest checkpoint, if there is one, and the messages that it leaves."""
    parts = ledger.parts()
    return [checkpoint_part(ledger.checkpoint), *parts] if ledger.checkpoint else parts
