"""What the conformance suite drives: lists the tools of the server at a URL, and makes the calls that are wanted.

conformance client --command "python conformance_client.py" --scenario tools_call
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pegboard import Host, Places, Tool
from pegboard_mcp.pack import Mcp


def made_up(schema: Any) -> Any:
    """Return something that fits the schema of an argument, as far as its type goes."""
    if not isinstance(schema, dict):
        return "x"
    if "const" in schema or schema.get("enum"):
        return schema.get("const", schema.get("enum", [None])[0])
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {name: made_up(properties.get(name)) for name in schema.get("required", properties)}
        case "number" | "integer":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "array":
            return []
    return "x"


def calls(tools: dict[str, Tool]) -> Iterator[tuple[str, Any]]:
    """Yield the calls that the scenario asks for, and one of each tool with made-up arguments."""
    for call in json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}").get("toolCalls", ()):
        yield f"mcp__it__{call['name']}", call["arguments"]
    for name, tool in tools.items():
        if name == "mcp__it__json_schema_echo":  # wants to see what arrived of the other tool's schema
            yield name, {"schema": tools["mcp__it__json_schema_2020_12_tool"].parameters}
        else:
            yield name, made_up({**tool.parameters, "type": "object"})


async def main(url: str) -> None:
    """Connect, list, call."""
    with tempfile.TemporaryDirectory() as folder:
        places = Places(Path(folder, "config.toml"), Path(folder, "state"))
        places.config_file.write_text(f"[packs.mcp.servers.it]\nurl = {json.dumps(url)}\n", "utf-8")
        async with Host.open(environ={}, distributions=[], packs={"mcp": Mcp}, places=places) as host:
            agent = await host.create_agent(directory=Path(folder))
            tools = {entry.tool.name: entry.tool for entry in (await host.preview(agent)).offered}
            for name, arguments in calls(tools):
                result = await agent.call_tool(name, json.dumps(arguments), allow_writes=True)
                print(name, arguments, result.status, result.content[:200], file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
