"""One call of a server's tool: sent once, never again, told to stop when the call is, and its ends kept apart."""

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from pegboard import ToolContext, ToolError, one_line

from pegboard_mcp.results import plain, rendered
from pegboard_mcp.servers import Server

if TYPE_CHECKING:
    from mcp import ClientSession

# The kernel tells a call to stop when its time is up; this is for what calls without a kernel around it.
_SPARE_SECONDS: Final = 5.0
_PROGRESS_SECONDS: Final = 0.1
_TIMED_OUT: Final = -32001
# How the SDK says that a connection, or a session over HTTP, is no more.
_LOST: Final = (
    (-32000, "Connection closed"),
    (-32000, "SSE stream ended without a response"),
    (-32000, "SSE stream ended and reconnection attempts were exhausted"),
    (-32600, "Session terminated"),
)


class Caller(Protocol):
    """What a call needs of its connection."""

    server: Server

    def session(self) -> "ClientSession":
        """Return the session that is up.

        Raises:
            ToolError: there is none, and why.
        """

    async def epitaph(self) -> str:
        """Return how the connection ended that was up a moment ago."""


async def call_tool(caller: Caller, name: str, arguments: dict[str, Any], ctx: ToolContext) -> dict[str, Any] | None:
    """Call a tool and return what it came to; None if the call was told to stop.

    Raises:
        ToolError: the tool itself reports an error, the server refuses, ends, or answers what is no result.
    """
    session = caller.session()
    seconds = caller.server.deadlines.call + _SPARE_SECONDS
    over = asyncio.Event()
    calling = asyncio.ensure_future(
        session.call_tool(
            name,
            arguments,
            read_timeout_seconds=seconds,
            progress_callback=_progress(ctx, over),
            allow_input_required=True,
        )
    )
    unlink = ctx.cancel.on_cancel(calling.cancel)
    try:
        result = await calling
    except asyncio.CancelledError:
        calling.cancel()  # the server is told, whoever was cancelled
        if not ctx.cancel.cancelled:
            raise
        return None
    except Exception as error:
        raise ToolError(await _why(caller, error)) from None
    finally:
        over.set()
        unlink()
    return _value(caller.server, result)


def _value(server: Server, result: Any) -> dict[str, Any]:
    from mcp.types import CallToolResult

    if not isinstance(result, CallToolResult):
        asked = ", ".join(sorted(one_line(request.method, 40) for request in (result.input_requests or {}).values()))
        told = "the call did not take place: the tool asks for something that nobody here answers"
        raise ToolError(f"{told} ({asked or 'it does not say what'})")
    value = plain(result)
    if result.is_error:
        raise ToolError(rendered(value) if value["content"] else f"{server.title} reports an error, and no reason")
    return value


def _progress(ctx: ToolContext, over: asyncio.Event) -> Any:
    """Return what shows a server's progress until the call is over, ten lines a second at most."""
    shown = 0.0

    async def show(progress: float, total: float | None, message: str | None) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown >= _PROGRESS_SECONDS and not over.is_set():
            shown = now
            part = f"{progress:g}" + (f" of {total:g}" if total else "")
            ctx.progress(one_line(f"{part}  {message}" if message else part, 200))

    return show


async def _why(caller: Caller, error: Exception) -> str:
    """Say why a call has no result."""
    from mcp import MCPError
    from pydantic import ValidationError

    title = caller.server.title
    if isinstance(error, MCPError) and (error.code, error.message) in _LOST:
        told = await caller.epitaph()
        return f"{title} was lost during the call: {told}; whether the call took effect is not known"
    if isinstance(error, MCPError) and error.code == _TIMED_OUT:
        return f"{title} did not answer in time; whether the call took effect is not known"
    if isinstance(error, MCPError):
        return f"{title} refuses the call: {one_line(error.message, 400)} ({error.code})"
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        told = f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
        return f"{title} answered what is no result of a tool: {one_line(told, 200)}"
    return f"{title} answered what is no result of a tool: {one_line(str(error), 300)}"
