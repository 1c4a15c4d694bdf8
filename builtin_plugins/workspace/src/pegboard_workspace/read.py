"""`read`: a text file, or a range of its lines, with line numbers."""

from typing import Final

from pegboard import ToolContext, ToolError, Touch, tool
from typing_extensions import TypedDict

from pegboard_workspace.places import locate, read_bytes
from pegboard_workspace.text import decode, lines_of

MAX_LINES: Final = 2000
MAX_LINE: Final = 2000
# Characters beside the lines: the first and last line of the result, and what stands before each line.
_FRAME: Final = 200
_NUMBER: Final = 8


class Lines(TypedDict):
    """Lines `start` to `end` (1-based, inclusive) of a file that has `total`."""

    path: str
    encoding: str
    start: int
    end: int
    total: int
    lines: list[str]


def _render(value: Lines) -> str:
    encoding = "" if value["encoding"] == "utf-8" else f", {value['encoding']}"
    if not value["total"]:
        return f"{value['path']} is empty"
    head = f"{value['path']}, lines {value['start']}-{value['end']} of {value['total']}{encoding}"
    body = "".join(f"\n{number:>6}\t{line}" for number, line in enumerate(value["lines"], value["start"]))
    more = f"\n(read on with start={value['end'] + 1})" if value["end"] < value["total"] else ""
    return head + body + more


def _summarize(value: Lines) -> str:
    shown = len(value["lines"])
    return f"{shown} line{'' if shown == 1 else 's'}" + (f" of {value['total']}" if shown < value["total"] else "")


@tool(
    effect="read",
    concurrency="parallel",
    timeout=30,
    touches=lambda path, **_: [Touch.path(path)],
    render=_render,
    summarize=_summarize,
    examples=["Show README.md", "Read lines 10 to 40 of src/app.py", "What does pyproject.toml say?"],
)
def read(path: str, ctx: ToolContext, start: int = 1, end: int | None = None) -> Lines:
    """Read a text file of the working directory, with line numbers.

    At most 2,000 lines come at once; read on from where it stopped.

    Args:
        path: The file, relative to the working directory.
        start: First line, counted from 1.
        end: Last line, inclusive; the end of the file if left out.
    """
    place = locate(ctx.directory, path)
    decoded = decode(read_bytes(place))
    if decoded is None:
        raise ToolError(f"`{place.shown}` is binary, or text in an encoding that can't be told; `read` shows text only")
    lines = lines_of(decoded.text)
    if start < 1 or (end is not None and end < start):
        told = f"start={start}" if end is None else f"start={start}, end={end}"
        raise ToolError(f"{told} is no range; lines count from 1, start comes first")
    if start > max(len(lines), 1):
        raise ToolError(f"`{place.shown}` has {len(lines)} lines; start={start} is after its end")
    chosen = _fit(lines[start - 1 : end], ctx.result_chars - len(place.shown) - _FRAME)
    return Lines(
        path=place.shown,
        encoding=decoded.encoding,
        start=start,
        end=start + len(chosen) - 1,
        total=len(lines),
        lines=chosen,
    )


def _fit(lines: list[str], room: int) -> list[str]:
    """Keep whole lines up to the caps; a single overlong line is cut and says so."""
    fitting: list[str] = []
    for line in lines[:MAX_LINES]:
        if len(line) > MAX_LINE:
            line = f"{line[:MAX_LINE]} … ({len(line) - MAX_LINE:,} more characters in this line)"
        room -= len(line) + _NUMBER
        if room < 0 and fitting:
            break
        fitting.append(line)
    return fitting
