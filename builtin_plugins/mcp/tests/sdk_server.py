"""A good server, made with the SDK: `python sdk_server.py stdio|http|sse [PORT] [LOG]`; it speaks both eras."""

import asyncio
import os
import sys
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel

LOG = sys.argv[3] if len(sys.argv) > 3 else os.devnull
app = MCPServer("sdk", version="3", log_level="ERROR")


class Sum(BaseModel):
    """What `add` returns."""

    total: int


def note(text: str) -> None:
    """Write a line to the log."""
    with open(LOG, "a", encoding="utf-8") as file:
        file.write(text + "\n")


@app.tool()
async def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@app.tool()
async def show() -> CallToolResult:
    """Return every kind of part that there is."""
    parts = [
        TextContent(type="text", text="a text"),
        ImageContent(type="image", data="AAAA", mime_type="image/png"),
        AudioContent(type="audio", data="AAA=", mime_type="audio/wav"),
        ResourceLink(type="resource_link", name="plan", uri="file:///plan.txt", mime_type="text/plain"),
        EmbeddedResource(type="resource", resource=TextResourceContents(uri="note://1", text="a note")),
        EmbeddedResource(type="resource", resource=BlobResourceContents(uri="blob://1", blob="AAAAAAAA")),
    ]
    return CallToolResult(content=parts)


@app.tool()
async def nothing() -> CallToolResult:
    """Return no part at all."""
    return CallToolResult(content=[])


@app.tool()
async def fail() -> str:
    """Report an error."""
    raise ToolError("tray 2 is empty")


@app.tool()
async def count(n: int, ctx: Context) -> str:
    """Count, and report progress."""
    for number in range(n):
        await ctx.report_progress(number + 1, n, f"sheet {number + 1}")
        await asyncio.sleep(0.15)
    return "counted"


@app.tool()
async def nap(seconds: float) -> str:
    """Sleep."""
    note("asleep")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note("woken")
        raise
    return "rested"


@app.tool()
async def grow(names: list[str], ctx: Context) -> str:
    """Bring more tools, and say so to clients of both eras."""
    for name in names:
        app.add_tool(add, name=name)
        await ctx.notify_tools_changed()
        await ctx.session.send_tool_list_changed()
    return "grown"


@app.tool()
async def shrink(name: str, ctx: Context) -> str:
    """Take a tool away, and say so."""
    app.remove_tool(name)
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "shrunk"


@app.tool()
async def big(n: int) -> str:
    """Return a long text."""
    return "x" * n


@app.tool()
async def header(name: str, ctx: Context) -> str:
    """Return a header of the request that this call came with."""
    request: Any = ctx.request_context.request
    return str(request.headers.get(name)) if request is not None else "no request"


@app.tool()
async def die() -> str:
    """End the server."""
    os._exit(3)


if __name__ == "__main__":
    match sys.argv[1]:
        case "stdio":
            app.run()
        case "http":
            app.run("streamable-http", port=int(sys.argv[2]))
        case "sse":
            app.run("sse", port=int(sys.argv[2]))
