"""What a call of an MCP tool costs over stdio, on top of the bare SDK, client and server together.

    .venv/bin/uv run python benchmarks/mcp_calls.py

One server, made with the SDK, is started anew for the SDK's own client and transport, for our connection alone, for a
run in which a scripted model asks for many calls at once (checks, guards, record in memory), and for runs of one call
each, as `pegboard call` and `serve` have them. They take turns, so that a slow minute slows all of them. The figures
are CPU time of the client and of its server, a call.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from common import machine
from pegboard import CancelSignal, Finish, Host, Places, ToolContext
from pegboard.testing import ScriptedModel, call
from pegboard_mcp.calls import call_tool
from pegboard_mcp.pack import Mcp

ROUNDS = 30
CALLS = 50
WARM_UPS = 4
BUDGET_US = 400
ECHO = """
from mcp.server import MCPServer
app = MCPServer("echo", log_level="ERROR")
@app.tool()
async def echo(text: str) -> str:
    "Return the text."
    return text
app.run()
"""
NAMES = ("sdk", "connection", "in a run", "a run each")
# Makes a number of calls.
Calls = Callable[[int], Awaitable[object]]


def cpu_of(pid: int) -> float:
    """Return the CPU time of a process so far, in seconds."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


async def bare(stack: AsyncExitStack) -> Calls:
    """Connect with the SDK alone."""
    from mcp import Client, StdioServerParameters

    client = await stack.enter_async_context(Client(StdioServerParameters(command=sys.executable, args=["-c", ECHO])))
    await client.list_tools()

    async def calls(number: int) -> None:
        for _ in range(number):
            await client.call_tool("echo", {"text": "hello"})

    return calls


async def hosted(stack: AsyncExitStack, folder: Path) -> list[Calls]:
    """Connect through a host."""
    config = folder / "config.toml"
    server = f"command = {sys.executable!r}\nargs = ['-c', '''{ECHO}''']\n"
    config.write_text("".join(f"[packs.mcp.servers.{name}]\n{server}" for name in ("one", "two", "three")), "utf-8")
    places = Places(config, folder / "state")
    host = Host.open(environ={}, distributions=[], packs={"mcp": Mcp}, places=places, starting_seconds=60)
    await stack.enter_async_context(host)
    model = ScriptedModel()
    agent = await host.create_agent(directory=folder, model=model)
    await host.preview(agent)
    connection = host.pack_object("mcp").hub(host).offers["one"].connection
    context = ToolContext(folder, agent.id, CancelSignal())

    async def alone(number: int) -> None:
        for _ in range(number):
            await call_tool(connection, "echo", {"text": "hello"}, context)

    async def in_a_run(number: int) -> None:
        model.will([*(call("mcp__two__echo", text=f"hello {at}") for at in range(number)), Finish()], "done")
        end = await host.submit(agent, "go", allow_writes=True).wait()
        assert (end.reason, end.calls) == ("completed", number), end

    async def a_run_each(number: int) -> None:
        for _ in range(number):
            await agent.call_tool("mcp__three__echo", '{"text": "hello"}', allow_writes=True)

    return [alone, in_a_run, a_run_each]


def children() -> list[int]:
    """Return the processes that were started, oldest first."""
    told = Path(f"/proc/self/task/{os.getpid()}/children").read_text() if sys.platform == "linux" else ""
    return [int(pid) for pid in told.split()]


async def measure(calls: Calls, server: int) -> tuple[float, float, float]:
    """Return, for one call of many: CPU of this process, of the server, and the time it took, in microseconds."""
    ours, theirs, began = time.process_time(), cpu_of(server), time.perf_counter()
    await calls(CALLS)
    ended = (time.process_time() - ours, cpu_of(server) - theirs, time.perf_counter() - began)
    return ended[0] / CALLS * 1e6, ended[1] / CALLS * 1e6, ended[2] / CALLS * 1e6


async def main() -> None:
    """Measure and print."""
    print(machine())
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ways = dict(zip(NAMES, [await bare(stack), *await hosted(stack, folder)], strict=True))
        servers: dict[str, int] = {}
        for name, calls in ways.items():
            before = {pid: cpu_of(pid) for pid in children()}
            for _ in range(WARM_UPS):
                await calls(CALLS)
            servers[name] = max(before, key=lambda pid: cpu_of(pid) - before[pid])
        rows: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, calls in ways.items():
                rows[name].append(await measure(calls, servers[name]))
    report(rows)


def report(rows: dict[str, list[tuple[float, float, float]]]) -> None:
    """Print medians, and what each costs on top of the first."""
    for name, found in rows.items():
        ours, theirs, wall = (statistics.median(column) for column in zip(*found, strict=True))
        more = statistics.median(a + b - c - d for (a, b, _), (c, d, _) in zip(found, rows["sdk"], strict=True))
        budget = f"  budget {BUDGET_US} us" if name == "in a run" else ""
        print(
            f"{name:<11} client {ours:5.0f} us  server {theirs:5.0f} us  wall {wall:5.0f} us  "
            f"{more:+5.0f} us on top of the SDK{budget}"
        )


if __name__ == "__main__":
    asyncio.run(main())
