"""`grep`: lines that match a regular expression, by ripgrep if it is there, else in Python with equal results."""

import heapq
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pegboard import CancelSignal, ToolContext, ToolError, find_program, tool
from typing_extensions import TypedDict

from pegboard_workspace.expression import Expression
from pegboard_workspace.limits import allowed, told
from pegboard_workspace.patterns import check
from pegboard_workspace.places import MAX_FILE_BYTES, Place, guarded_existing, read_bytes, show, touch
from pegboard_workspace.ripgrep import Ripgrep, RipgrepFailed
from pegboard_workspace.text import decode, lines_of, looks_binary
from pegboard_workspace.walk import Walk
from pegboard_workspace.wanted import matcher
from pegboard_workspace.windows import windows

MAX_MATCHES: Final = 2000
SECONDS: Final = 20.0


class Match(TypedDict):
    """One matching line as a model gets it; of a long one the part round the hit, which begins at `column`, else 0."""

    path: str
    line: int
    column: int
    text: str


class Matches(TypedDict):
    """The first matches by path and line, and how many there are in all, in how many files."""

    matches: list[Match]
    total: int
    files: int
    skipped_large: int
    refused: dict[str, int]
    unread: int


def _render(value: Matches) -> str:
    lines = [_line(match) for match in value["matches"]] or ["no match"]
    if more := value["total"] - len(value["matches"]):
        lines.append(f"({more:,} more matches; narrow the pattern, path or glob, or raise limit)")
    if value["skipped_large"]:
        lines.append(f"({value['skipped_large']} files over {MAX_FILE_BYTES:,} bytes were not searched)")
    return "\n".join([*lines, *told(value["refused"], value["unread"])])


def _line(match: Match) -> str:
    column = f"{match['column']}:" if match["column"] else ""
    return f"{match['path']}:{match['line']}:{column} {match['text']}"


def _summarize(value: Matches) -> str:
    total, inside = value["total"], value["files"]
    if not total:
        return "no match"
    return f"{total:,} match{'' if total == 1 else 'es'} in {inside:,} file{'' if inside == 1 else 's'}"


@tool(
    effect="read",
    concurrency="parallel",
    timeout=60,
    touches=lambda path=".", **_: touch(path),
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

    Matches come sorted, as path:line: text, or path:line:column: with a part of a long line. Files that .gitignore
    excludes, binary files and files over 10 MB are left out.

    Args:
        pattern: The expression; no look-around or back-references.
        path: The file or folder to search in.
        glob: Only files whose path matches, such as *.py or src/**/*.ts; a leading ! excludes.
        ignore_case: Whether upper and lower case are the same.
        limit: How many matches to show, 1 to 2000.
    """
    check(pattern)
    place = guarded_existing(ctx, path)
    if not 1 <= limit <= MAX_MATCHES:
        raise ToolError(f"limit={limit} is out of range; it is 1 to {MAX_MATCHES}")
    walk = Walk(place, ctx.cancel)
    names: Iterable[str] = walk.files()
    if glob is not None:
        wanted = matcher(glob, place)
        names = (name for name in names if wanted(name))
    may, refused = allowed(ctx, names)
    small = [name for name in may if _size(place, name) <= MAX_FILE_BYTES]
    found = search(place, small, pattern, ignore_case, ctx, limit)
    window = windows(pattern, ignore_case)
    matches = [Match(path=show(hit.path), line=hit.line, **window(hit.text)) for hit in found.hits]
    return Matches(
        matches=matches,
        total=found.total,
        files=found.files,
        skipped_large=len(may) - len(small),
        refused=refused,
        unread=walk.unread,
    )


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
    """Yield what ripgrep finds as far as it stands in the files as we open them.

    It follows links: a file that is swapped for one while it runs would be searched where nobody may look.
    """
    path: str = ""
    lines: list[bytes] = []
    for row in ripgrep.rows(names):
        if row.path != path:
            path, lines = row.path, _raw_lines(place, row.path)
        if row.line <= len(lines) and lines[row.line - 1] == row.text:
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


def _lines(place: Place, name: str) -> list[str]:
    """Return a file's lines; nothing if it is binary or can't be read."""
    try:
        decoded = decode(read_bytes(Place.of(place.root, name)))
    except ToolError:
        return []
    return lines_of(decoded.text) if decoded else []


def _raw_lines(place: Place, name: str) -> list[bytes]:
    """Return a file's lines as bytes; nothing if it looks binary, can't be read or is not where it was."""
    try:
        data = read_bytes(Place.of(place.root, name))
    except ToolError:
        return []
    return [] if looks_binary(data) else data.split(b"\n")


def _size(place: Place, name: str) -> int:
    try:
        return (place.root / name).stat(follow_symlinks=False).st_size
    except OSError:
        return 0
