"""Tools of MCP servers, guarded like any other tool. A pack that brings servers implements `mcp_servers`."""

from pegboard_mcp.servers import Server as Server
from pegboard_mcp.specs import McpHooks as McpHooks

__version__ = "0.1.0"
