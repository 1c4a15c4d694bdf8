"""`read_output`: the rest of a result that was too long to be shown."""

from pegboard import ToolContext, ToolError, tool
from typing_extensions import TypedDict


class Page(TypedDict):
    """A part of a kept output: where it begins, and how long the whole is, in characters."""

    text: str
    offset: int
    total: int


def _render(page: Page) -> str:
    end = page["offset"] + len(page["text"])
    more = f"; go on at offset {end}" if end < page["total"] else ""
    return f"{page['text']}\n[characters {page['offset']:,} to {end:,} of {page['total']:,}{more}]"


@tool(
    effect="read",
    concurrency="parallel",
    timeout=30,
    render=_render,
    summarize=lambda page: f"{len(page['text']):,} of {page['total']:,} characters",
)
async def read_output(output: str, ctx: ToolContext, offset: int = 0, limit: int | None = None) -> Page:
    """Read on in an output of this session that was cut because it was too long.

    Args:
        output: Its name, as the cut result gives it.
        offset: The character to begin with, from 0.
        limit: How many characters to read at most; as many as can be shown without it.
    """
    try:
        whole = await ctx.output(output)
    except LookupError as error:
        raise ToolError(f"{error}; the name stands in the result that was cut") from None
    if not 0 <= offset <= len(whole):
        raise ToolError(f"offset={offset} is outside: output {output} has {len(whole):,} characters")
    if limit is not None and limit < 1:
        raise ToolError(f"limit={limit} is too small; it is at least 1")
    room = ctx.result_chars - 100  # for the line below the text
    return Page(text=whole[offset : offset + min(limit or room, room)], offset=offset, total=len(whole))
