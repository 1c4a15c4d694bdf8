"""Tools of MCP servers, guarded like any other tool."""

__version__ = "0.1.0"
