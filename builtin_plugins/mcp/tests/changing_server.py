"""A server whose tools are read from a file; each of them tells how the server was started."""

import json
import os
import sys
from pathlib import Path
from typing import Any

TOOLS = Path(sys.argv[1])


def answered(method: str, _params: dict[str, Any]) -> Any:
    """Return the result of a request; None for one that there is not."""
    match method:
        case "initialize":
            info = {"name": "changing", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": json.loads(TOOLS.read_text("utf-8"))}
        case "tools/call":
            told = {"environment": dict(os.environ), "arguments": sys.argv[2:], "directory": os.getcwd()}
            return {"content": [{"type": "text", "text": json.dumps(told)}]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if (number := message.get("id")) is not None:
        result = answered(message["method"], message.get("params") or {})
        error = {"error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": number, **({"result": result} if result else error)}), flush=True)
