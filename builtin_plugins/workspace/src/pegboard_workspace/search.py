"""`grep`: lines that match a regular expression, by ripgrep if it is there, else in Python with equal results."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from pegboard import ToolContext, ToolError, Touch, tool
from typing_extensions import TypedDict

from pegboard_workspace import ripgrep
from pegboard_workspace.patterns import check
from pegboard_workspace.places import MAX_FILE_BYTES, Place, locate, read_bytes, show
from pegboard_workspace.text import decode
from pegboard_workspace.walk import files, matcher

MAX_MATCHES: Final = 2000
MAX_LINE: Final = 400
SECONDS: Final = 20.0


class Hit(NamedTuple):
    """One matching line; `path` is relative to the session's directory, as the operating system gave it."""

    path: str
    line: int
    text: str


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
    place = locate(ctx.directory, path)
    if not place.path.exists():
        raise ToolError(f"`{place.shown}` does not exist")
    if not 1 <= limit <= MAX_MATCHES:
        raise ToolError(f"limit={limit} is out of range; it is 1 to {MAX_MATCHES}")
    wanted = matcher(glob) if glob else None
    strip = len("/".join(place.parts)) + 1 if place.parts and not place.path.is_file() else 0
    names = [
        name
        for name in files(place, lambda: ctx.cancel.cancelled)
        if wanted is None or wanted(name) or wanted(name[strip:])
    ]
    small = [name for name in names if _size(place, name) <= MAX_FILE_BYTES]
    hits = search(place, small, pattern, ignore_case, lambda: ctx.cancel.cancelled)
    matches = [Match(path=show(hit.path), line=hit.line, text=_cut(hit.text)) for hit in hits[:limit]]
    inside = len({hit.path for hit in hits})
    return Matches(matches=matches, total=len(hits), files=inside, skipped_large=len(names) - len(small))


def search(place: Place, names: list[str], pattern: str, ignore_case: bool, cancelled: Callable[[], bool]) -> list[Hit]:
    """Return every matching line of the named files, sorted by path and line."""
    program = ripgrep.find(place.root)
    if program is None:
        hits = search_in_python(place, names, pattern, ignore_case, cancelled)
    else:
        odd = ripgrep.odd_files(program, place.root, names, cancelled)
        plain = [name for name in names if name not in odd]
        found = ripgrep.search(program, place.root, plain, pattern, ignore_case, cancelled)
        by_ripgrep = (Hit(*row) for row in found)
        hits = [*_without_binaries(place, by_ripgrep)]
        hits += search_in_python(place, sorted(odd), pattern, ignore_case, cancelled)
    return sorted(hits)


def search_in_python(
    place: Place, names: Iterable[str], pattern: str, ignore_case: bool, cancelled: Callable[[], bool]
) -> list[Hit]:
    """Search file by file with the `regex` library, within a deadline that no pattern can overrun."""
    import regex

    try:
        compiled = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    except regex.error as error:
        raise ToolError(f"the pattern is not valid: {error}") from None
    until = time.monotonic() + SECONDS
    hits: list[Hit] = []
    for name in names:
        if cancelled():
            break
        for number, line in enumerate(_lines(place, name), 1):
            left = until - time.monotonic()
            try:
                if left > 0 and compiled.search(line, timeout=left):
                    hits.append(Hit(name, number, line))
                    continue
            except TimeoutError:
                left = 0
            if left <= 0:
                raise ToolError(f"the search took more than {SECONDS:g} s; simplify the pattern or narrow the path")
    return hits


def _lines(place: Place, name: str) -> list[str]:
    """Return a file's lines without their ends; nothing if it is binary or can't be read."""
    try:
        decoded = decode(read_bytes(Place(place.root, tuple(name.split("/")))))
    except ToolError:
        return []
    if decoded is None:
        return []
    lines = decoded.text.removeprefix("\ufeff").split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _without_binaries(place: Place, hits: Iterable[Hit]) -> Iterator[Hit]:
    text: dict[str, bool] = {}
    for hit in hits:
        if hit.path not in text:
            text[hit.path] = bool(_lines(place, hit.path))
        if text[hit.path]:
            yield hit


def _size(place: Place, name: str) -> int:
    try:
        return (place.root / name).stat().st_size
    except OSError:
        return 0


def _cut(line: str) -> str:
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]} … ({len(line) - MAX_LINE:,} more characters)"
