"""`glob`: which files there are."""

from typing import Final

from pegboard import ToolContext, tool
from typing_extensions import TypedDict

from pegboard_workspace.limits import allowed, told
from pegboard_workspace.places import guarded_existing, show, touch
from pegboard_workspace.walk import Walk
from pegboard_workspace.wanted import matcher, why_none

MAX_PATHS: Final = 500


class Paths(TypedDict):
    """The first paths that match, sorted, how many match in all, and what was left out."""

    paths: list[str]
    total: int
    refused: dict[str, int]
    unread: int
    why: str


def _render(value: Paths) -> str:
    lines = list(value["paths"])
    if more := value["total"] - len(lines):
        lines.append(f"({more:,} more; narrow the pattern)")
    if not value["total"]:
        lines.append(f"no file matches{': ' + value['why'] if value['why'] else ''}")
    return "\n".join([*lines, *told(value["refused"], value["unread"])])


@tool(
    effect="read",
    concurrency="parallel",
    timeout=60,
    touches=lambda path=".", **_: touch(path),
    render=_render,
    summarize=lambda value: f"{value['total']:,} file{'' if value['total'] == 1 else 's'}",
    examples=["Which Python files are there?", "List the files in docs", "Find all test files"],
)
def glob(pattern: str, ctx: ToolContext, path: str = ".") -> Paths:
    """List the files of the working directory whose path matches a glob, sorted by path.

    Files that .gitignore excludes are left out. At most 500 paths are shown.

    Args:
        pattern: A glob such as *.py (any folder), src/**/*.ts, or *.{md,rst}; a leading ! excludes.
        path: The folder to look in.
    """
    place = guarded_existing(ctx, path)
    matches = matcher(pattern, place)
    walk = Walk(place, ctx.cancel)
    found, refused = allowed(ctx, (name for name in walk.files() if matches(name)))
    shown = [show(name) for name in found[:MAX_PATHS]]
    why = "" if found or refused else why_none(pattern, place, ctx.cancel)
    return Paths(paths=shown, total=len(found), refused=refused, unread=walk.unread, why=why)
