"""`glob`: which files there are."""

from typing import Final

from pegboard import ToolContext, Touch, tool
from typing_extensions import TypedDict

from pegboard_workspace.places import locate_existing, show
from pegboard_workspace.walk import files, matcher

MAX_PATHS: Final = 500


class Paths(TypedDict):
    """The first paths that match, sorted, and how many match in all."""

    paths: list[str]
    total: int


def _render(value: Paths) -> str:
    if not value["total"]:
        return "no file matches"
    more = value["total"] - len(value["paths"])
    tail = f"\n({more:,} more; narrow the pattern)" if more else ""
    return "\n".join(value["paths"]) + tail


@tool(
    effect="read",
    concurrency="parallel",
    timeout=60,
    touches=lambda path=".", **_: [Touch.path(path)],
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
    place = locate_existing(ctx.directory, path)
    matches = matcher(pattern, place)
    found = [show(name) for name in files(place, ctx.cancel) if matches(name)]
    return Paths(paths=found[:MAX_PATHS], total=len(found))
