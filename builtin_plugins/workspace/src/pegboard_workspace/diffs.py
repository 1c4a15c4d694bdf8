"""What became of a file, or would: lines added and removed, and a diff that is never endless."""

import difflib
from typing import Final

from typing_extensions import TypedDict

MAX_DIFF_LINES: Final = 200
MAX_DIFFED_LINES: Final = 4_000
_MAX_LINE: Final = 500


class Change(TypedDict):
    """What became of a file: lines added and removed, and the diff."""

    path: str
    created: bool
    added: int
    removed: int
    diff: str


def render(value: Change) -> str:
    """What a model reads."""
    head = f"{'created' if value['created'] else 'changed'} {value['path']} (+{value['added']} -{value['removed']})"
    return f"{head}\n{value['diff']}" if value["diff"] else head


def summarize(value: Change) -> str:
    """The few words beside the call."""
    return f"{'new, ' if value['created'] else ''}+{value['added']} -{value['removed']}"


def change(path: str, before: str, after: str, *, created: bool) -> Change:
    """Compare two texts of a file."""
    old, new = _split(before), _split(after)
    if len(old) + len(new) > MAX_DIFFED_LINES:
        diff = ["(too large for a diff)"]
        added, removed = max(len(new) - len(old), 0), max(len(old) - len(new), 0)
    else:
        diff = list(difflib.unified_diff(old, new, lineterm="", n=3))[2:]
        added = sum(line.startswith("+") for line in diff)
        removed = sum(line.startswith("-") for line in diff)
    if len(diff) > MAX_DIFF_LINES:
        diff = [*diff[:MAX_DIFF_LINES], f"({len(diff) - MAX_DIFF_LINES} more lines of diff)"]
    shown = "\n".join(_cut(line) for line in diff)
    return Change(path=path, created=created, added=added, removed=removed, diff=shown)


def _cut(line: str) -> str:
    return line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]} … ({len(line) - _MAX_LINE:,} more characters)"


def _split(text: str) -> list[str]:
    """Split into lines; a carriage return stays, and a missing end of the last line is told, so that both show."""
    lines = text.split("\n")
    return lines[:-1] if not lines[-1] else [*lines[:-1], f"{lines[-1]} (no line end)"]
