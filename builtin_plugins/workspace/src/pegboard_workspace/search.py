"""`grep`: lines that match a regular expression, by ripgrep if it is there, else in Python with equal results."""

import heapq
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pegboard import CancelSignal, ToolContext, ToolError, Touch, find_program, tool
from typing_extensions import TypedDict

from pegboard_workspace.expression import Expression
from pegboard_workspace.patterns import check
from pegboard_workspace.places import MAX_FILE_BYTES, Place, locate_existing, open_beneath, read_bytes, show
from pegboard_workspace.ripgrep import Ripgrep, RipgrepFailed
from pegboard_workspace.text import BINARY_PROBE, decode, lines_of, looks_binary
from pegboard_workspace.walk import files, matcher

MAX_MATCHES: Final = 2000
MAX_LINE: Final = 400
SECONDS: Final = 20.0


class Match(TypedDict):
    """One matching line as a model gets it."""

    path: str
    line: int
    text: str


class Matches(TypedDict):
    """The first matches by path and line, and how many there are in all, in how many files."""

    matches: list[Match]
    total: int
    files: int
    skipped_large: int


def _render(value: Matches) -> str:
    lines = [f"{match['path']}:{match['line']}: {match['text']}" for match in value["matches"]]
    if more := value["total"] - len(lines):
        lines.append(f"({more:,} more matches; narrow the pattern, path or glob, or raise limit)")
    if value["skipped_large"]:
        lines.append(f"({value['skipped_large']} files over {MAX_FILE_BYTES:,} bytes were not searched)")
    return "\n".join(lines) or "no match"


def _summarize(value: Matches) -> str:
    total, inside = value["total"], value["files"]
    if not total:
        return "no match"
    return f"{total:,} match{'' if total == 1 else 'es'} in {inside:,} file{'' if inside == 1 else 's'}"


@tool(
    effect="read",
    concurrency="parallel",
    timeout=60,
    touches=lambda path=".", **_: [Touch.path(path)],
    render=_render,
    summarize=_summarize,
    examples=[
        "Where is the timeout set?",
        "Who calls parse_args?",
        "How are retries counted?",
        "What happens when a request fails?",
        "Which function checks the input?",
        "When is the cache cleared?",
    ],
)
def grep(
    pattern: str,
    ctx: ToolContext,
    path: str = ".",
    glob: str | None = None,
    ignore_case: bool = False,
    limit: int = 200,
) -> Matches:
    """Search the text files of the working directory, line by line, for a regular expression.

    Matches come sorted by path and line, as path:line: text. Files that .gitignore excludes, binary files and files
    over 10 MB are left out.

    Args:
        pattern: The expression; no look-around or back-references.
        path: The file or folder to search in.
        glob: Only files whose path matches, such as *.py or src/**/*.ts; a leading ! excludes.
        ignore_case: Whether upper and lower case are the same.
        limit: How many matches to show, 1 to 2000.
    """
    check(pattern)
    place = locate_existing(ctx.directory, path)
    if not 1 <= limit <= MAX_MATCHES:
        raise ToolError(f"limit={limit} is out of range; it is 1 to {MAX_MATCHES}")
    names = list(files(place, ctx.cancel))
    if glob is not None:
        wanted = matcher(glob, place)
        names = [name for name in names if wanted(name)]
    small = [name for name in names if _size(place, name) <= MAX_FILE_BYTES]
    found = search(place, small, pattern, ignore_case, ctx, limit)
    matches = [Match(path=show(hit.path), line=hit.line, text=_cut(hit.text)) for hit in found.hits]
    return Matches(matches=matches, total=found.total, files=found.files, skipped_large=len(names) - len(small))


class Hit(NamedTuple):
    """One matching line; `path` is relative to the session's directory, as the operating system gave it."""

    path: str
    line: int
    text: str


@dataclass(slots=True)
class Found:
    """The first hits by path and line, and the count of all."""

    hits: list[Hit]
    total: int = 0
    files: int = 0


def search(
    place: Place, names: Sequence[str], pattern: str, ignore_case: bool, ctx: ToolContext, limit: int = MAX_MATCHES
) -> Found:
    """Search the named files, which are sorted; both ways of doing it find the same."""
    program = find_program("rg", place.root)
    # Beyond ASCII the two fold case differently.
    plain = pattern.isascii() and "\\x" not in pattern and "\\u" not in pattern
    if program and (plain or not (ignore_case or "(?i" in pattern)):
        ripgrep = Ripgrep(program, place.root, pattern, ignore_case, ctx, SECONDS)
        began = time.monotonic()
        try:
            if ripgrep.takes_pattern():
                return _collect(_with_ripgrep(ripgrep, place, names, pattern, ignore_case, ctx.cancel), limit)
        except RipgrepFailed:
            if time.monotonic() - began >= SECONDS:
                raise _too_slow() from None
    return _collect(_in_python(place, names, pattern, ignore_case, ctx.cancel), limit)


def _collect(hits: Iterable[Hit], limit: int) -> Found:
    found = Found([])
    last: str | None = None
    for hit in hits:
        found.total += 1
        found.files += hit.path != last
        last = hit.path
        if found.total <= limit:
            found.hits.append(hit)
    return found


def _with_ripgrep(
    ripgrep: Ripgrep, place: Place, names: Sequence[str], pattern: str, ignore_case: bool, signal: CancelSignal
) -> Iterator[Hit]:
    odd = ripgrep.odd_files(names)
    in_python = _in_python(place, [name for name in names if name in odd], pattern, ignore_case, signal)
    return heapq.merge(_rows(ripgrep, place, [name for name in names if name not in odd]), in_python)


def _rows(ripgrep: Ripgrep, place: Place, names: Sequence[str]) -> Iterator[Hit]:
    path, is_text = "", False
    for row in ripgrep.rows(names):
        if row.path != path:
            path, is_text = row.path, _is_text(place, row.path)
        if is_text:
            yield Hit(row.path, row.line, row.text.decode("utf-8", "replace"))


def _in_python(
    place: Place, names: Iterable[str], pattern: str, ignore_case: bool, signal: CancelSignal
) -> Iterator[Hit]:
    """Search file by file with the `regex` library, within a deadline that no pattern can overrun."""
    wanted = Expression(pattern, ignore_case, SECONDS)
    try:
        for name in names:
            if signal.cancelled:
                return
            lines = _lines(place, name)
            if wanted.may_be_in(lines):
                yield from (Hit(name, number, line) for number, line in enumerate(lines, 1) if wanted.is_in(line))
    except TimeoutError:
        raise _too_slow() from None


def _too_slow() -> ToolError:
    return ToolError(f"the search took more than {SECONDS:g} s; simplify the pattern or narrow the path")


def _place(place: Place, name: str) -> Place:
    return Place(place.root, tuple(name.split("/")))


def _lines(place: Place, name: str) -> list[str]:
    """Return a file's lines; nothing if it is binary or can't be read."""
    try:
        decoded = decode(read_bytes(_place(place, name)))
    except ToolError:
        return []
    return lines_of(decoded.text) if decoded else []


def _is_text(place: Place, name: str) -> bool:
    """Whether a file is there, inside the session's directory, and does not look binary."""
    try:
        with os.fdopen(open_beneath(_place(place, name), os.O_RDONLY), "rb") as file:
            return not looks_binary(file.read(BINARY_PROBE))
    except OSError:
        return False


def _size(place: Place, name: str) -> int:
    try:
        return (place.root / name).stat(follow_symlinks=False).st_size
    except OSError:
        return 0


def _cut(line: str) -> str:
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]} … ({len(line) - MAX_LINE:,} more characters)"
