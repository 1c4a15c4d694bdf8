"""`read`: a text file, or a range of its lines, with line numbers."""

from typing import Final

from pegboard import Tool, ToolContext, ToolError, tool
from typing_extensions import TypedDict

from pegboard_workspace.large import read_range
from pegboard_workspace.marks import Marks
from pegboard_workspace.places import MAX_FILE_BYTES, guarded, open_file, touch
from pegboard_workspace.text import decode, lines_of

MAX_LINES: Final = 2000
MAX_LINE: Final = 2000
# Characters beside the lines: the first and last line of the result, and what stands before each line.
_FRAME: Final = 200
_NUMBER: Final = 8


class Lines(TypedDict):
    """Lines `start` to `end` (1-based, inclusive) of a file that has `total`, or None if it was not read to its end."""

    path: str
    encoding: str
    start: int
    end: int
    total: int | None
    lines: list[str]


def _render(value: Lines) -> str:
    encoding = "" if value["encoding"] == "utf-8" else f", {value['encoding']}"
    total = value["total"]
    if total == 0:
        return f"{value['path']} is empty"
    of = "a large file" if total is None else total
    head = f"{value['path']}, lines {value['start']}-{value['end']} of {of}{encoding}"
    body = "".join(f"\n{number:>6}\t{line}" for number, line in enumerate(value["lines"], value["start"]))
    more = f"\n(read on with start={value['end'] + 1})" if total is None or value["end"] < total else ""
    return head + body + more


def _summarize(value: Lines) -> str:
    shown, total = len(value["lines"]), value["total"]
    return f"{shown} line{'' if shown == 1 else 's'}" + (f" of {total}" if total and shown < total else "")


def read_tool(marks: Marks) -> Tool:
    """Make the tool; what it has read may be changed."""

    @tool(
        effect="read",
        concurrency="parallel",
        timeout=30,
        touches=lambda path, **_: touch(path),
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
        place = guarded(ctx, path)
        if start < 1 or (end is not None and end < start):
            told = f"start={start}" if end is None else f"start={start}, end={end}"
            raise ToolError(f"{told} is no range; lines count from 1, start comes first")
        descriptor, size = open_file(place)
        with open(descriptor, "rb") as file:
            if size > MAX_FILE_BYTES:
                last = start + MAX_LINES - 1 if end is None else min(end, start + MAX_LINES - 1)
                encoding, lines, total = read_range(file, place.shown, start, last, MAX_LINE, ctx.cancel)
            else:
                data = file.read(MAX_FILE_BYTES + 1)
                decoded = decode(data)
                if decoded is None:
                    told = "is binary, or text in an encoding that can't be told; `read` shows text only"
                    raise ToolError(f"`{place.shown}` {told}")
                every = lines_of(decoded.text)
                encoding, lines, total = decoded.encoding, every[start - 1 : end], len(every)
                marks.leave(ctx, place, data)
        if total is not None and start > max(total, 1):
            raise ToolError(f"`{place.shown}` has {total} lines; start={start} is after its end")
        chosen = _fit(lines, ctx.result_chars - len(place.shown) - _FRAME)
        return Lines(
            path=place.shown,
            encoding=encoding,
            start=start,
            end=start + len(chosen) - 1,
            total=total,
            lines=chosen,
        )

    return read


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
