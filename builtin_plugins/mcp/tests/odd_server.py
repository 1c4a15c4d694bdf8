"""A server in plain Python that does one thing wrong: `python odd_server.py FAULT [LOG]`.

It speaks the handshake era. LOG gets a JSON line for each message that arrives, and one for what it starts.
"""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

FAULT = sys.argv[1]
LOG = sys.argv[2] if len(sys.argv) > 2 else ""
HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}}


def note(what: Any) -> None:
    """Write a line to the log."""
    if LOG:
        with open(LOG, "a", encoding="utf-8") as file:
            file.write(json.dumps(what) + "\n")


def send(text: str, end: str = "\n") -> None:
    """Write to the client."""
    sys.stdout.write(text + end)
    sys.stdout.flush()


def answer(number: Any, result: Any) -> None:
    """Answer a request."""
    send(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}))


def refuse(number: Any, code: int, message: str) -> None:
    """Answer a request with an error."""
    send(json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}))


def tool(name: Any, **more: Any) -> dict[str, Any]:
    """Return a definition."""
    return {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}, **more}


def listed(cursor: Any) -> Any:
    """Return a page of the tools."""
    match FAULT:
        case "bad-tools":
            odd = [tool("call"), tool("call"), tool(""), tool("a.b"), tool("a/b"), tool("s", inputSchema={}), "x", {}]
            odd += [tool("n" * 200), tool("d", description="d" * 30_000), tool("r", inputSchema=recursive())]
            return {"tools": [*odd, tool("o", outputSchema=[]), tool("t", description=5), tool("last", title=7)]}
        case "endless-pages":
            return {"tools": [tool(f"t{cursor or 0}")], "nextCursor": str(int(cursor or 0) + 1)}
        case "same-page":
            return {"tools": [tool("call")] if cursor is None else [], "nextCursor": "again"}
        case "no-list":
            return {"tools": {"a": 1}}
        case "odd-cursor":
            return {"tools": [tool("call")], "nextCursor": 7}
        case "many-tools":
            return {"tools": [tool(f"t{number}") for number in range(1_100)]}
        case "lies":
            schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
            return {"tools": [tool("call", outputSchema=schema), tool("vain", outputSchema=recursive())]}
    return {"tools": [tool("call")]}


def recursive() -> dict[str, Any]:
    """Return a schema that no check would ever end on."""
    return {"type": "object", "$ref": "#"}


def called(number: Any, arguments: dict[str, Any]) -> None:
    """Answer a call, or do what the fault says."""
    size = int(arguments.get("n", 1))
    match FAULT:
        case "dies-in-call":
            sys.stderr.write("Traceback:\nout of paper\n")
            os._exit(11)
        case "silent-in-call":
            return None
        case "flood":
            send("z" * size, end="")
            time.sleep(60)
        case "floods-stderr":
            sys.stderr.write("e" * size)
            sys.stderr.flush()
        case "not-a-result":
            return answer(number, {"content": "no list"})
        case "odd-part":
            return answer(number, {"content": [{"type": "hologram", "text": "x"}]})
        case "refuses":
            return refuse(number, -32602, "no \x1b[31mpaper\nin tray 2")
        case "half-json":
            return send('{"jsonrpc": "2.0", "id": ' + str(number) + ', "result": {')
        case "lies":
            return answer(number, {"content": [], "structuredContent": {"n": "one"}})
        case "reports-an-error":
            return answer(number, {"content": [{"type": "text", "text": "tray 2 is empty"}], "isError": True})
        case "asks-back":
            send(json.dumps({"jsonrpc": "2.0", "id": "s1", "method": "sampling/createMessage", "params": {}}))
            send(json.dumps({"jsonrpc": "2.0", "id": "s2", "method": "roots/list"}))
            send(json.dumps({"jsonrpc": "2.0", "id": "s3", "method": "what/ever"}))
    return answer(number, {"content": [{"type": "text", "text": "y" * size}]})


def handle(message: dict[str, Any]) -> None:
    """Answer one message."""
    number, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if number is None or method is None:
        return
    match method:
        case "initialize":
            if FAULT == "silent-at-start":
                return
            if FAULT == "dies-at-handshake":
                os._exit(9)
            if FAULT == "slow-start":
                time.sleep(0.7)
            answer(number, {**HANDSHAKE, "serverInfo": {"name": "odd", "version": FAULT}})
        case "tools/list":
            if FAULT == "silent-list":
                return
            if FAULT == "talkative":
                send('{"jsonrpc": "2.0", "id": 9999, "result": {}}')
                send('{"jsonrpc": "2.0", "method": "notifications/what", "params": {"x": 1}}')
                send('{"level": "info", "message": "a log line that is JSON"}')
                send('{"jsonrpc": "2.0", "id": "p", "method": "ping"}')
            answer(number, listed(params.get("cursor")))
        case "tools/call":
            called(number, params.get("arguments") or {})
        case _:
            refuse(number, -32601, "no such method")


def main() -> None:
    """Serve until the input ends, or longer."""
    note({"pid": os.getpid(), "group": os.getpgid(0), "environment": dict(os.environ), "directory": os.getcwd()})
    match FAULT:
        case "dies-at-start":
            sys.stderr.write("no licence found\n")
            sys.exit(7)
        case "prints":
            send("Starting …\nnot json {\n")
        case "prints-without-end":
            send("Ready. ", end="")
        case "ignores-everything":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case "forks":
            started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(90)"])
            note({"child": started.pid})
    for line in sys.stdin:
        message = json.loads(line)
        note(message)
        handle(message)
    note({"end": True})
    while FAULT in ("ignores-the-end", "ignores-everything"):
        time.sleep(1)


if __name__ == "__main__":
    main()
