"""What a search leaves out and must tell: what guards keep from it, and folders that could not be read."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from pegboard import ToolContext, one_line

_BATCH: Final = 2000
_MAX_TOLD: Final = 3


def allowed(ctx: ToolContext, names: Iterable[str]) -> tuple[list[str], dict[str, int]]:
    """Ask the guards for files that were found; returns those that may be used, and how many may not, by who
    says so, with the first reason."""
    kept: list[str] = []
    refused: Counter[str] = Counter()
    reasons: dict[str, str] = {}
    left = iter(names)
    while (batch := list(islice(left, _BATCH))) and not ctx.cancel.cancelled:
        why = ctx.wait(ctx.may_touch(batch))
        kept += [name for name in batch if name not in why]
        for reason in why.values():
            who = reason.partition(": ")[0]
            reasons.setdefault(who, reason)
            refused[who] += 1
    return kept, {reasons[who]: count for who, count in refused.items()}


def told(refused: dict[str, int], unread: int) -> Sequence[str]:
    """Return the lines about what was left out."""
    lines = [
        f"({count:,} file{'' if count == 1 else 's'} left out by {one_line(why, 200)})"
        for why, count in sorted(refused.items())[:_MAX_TOLD]
    ]
    if more := sum(count for _, count in sorted(refused.items())[_MAX_TOLD:]):
        lines.append(f"({more:,} more left out for other reasons)")
    if unread:
        lines.append(f"({unread:,} folder{'' if unread == 1 else 's'} could not be read)")
    return lines
