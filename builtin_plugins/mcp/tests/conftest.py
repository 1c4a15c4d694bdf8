"""Fixtures for the servers: a host with the pack, servers as processes, and one over a real HTTP socket."""

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pegboard import Agent, Host, Places, ToolResult
from pegboard.events import Progress
from pegboard_mcp import Server
from pegboard_mcp.hub import Hub
from pegboard_mcp.ledger import Ledger, Page
from pegboard_mcp.pack import Mcp

HERE = Path(__file__).parent
ODD = HERE / "odd_server.py"
SDK = HERE / "sdk_server.py"


@dataclass(frozen=True)
class Desk:
    """A host that is up, an agent of it, its servers, and what was shown while they were connected."""

    host: Host
    agent: Agent
    hub: Hub
    shown: list[str]

    async def until(self, true: Callable[[], object]) -> None:
        """Wait until something is so; ten seconds at most."""
        async with asyncio.timeout(10):
            while not true():  # noqa: ASYNC110  # nobody tells
                await asyncio.sleep(0.02)

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> ToolResult:
        """Call a tool through the whole pipeline."""
        return await self.agent.call_tool(name, json.dumps(arguments or {}), allow_writes=True)


class Servers:
    """Configurations of servers, and a host that is connected to them."""

    def table(self, name: str, **settings: Any) -> str:
        """Return the configuration of one server."""
        rows = [f"{key} = {_toml(value)}\n" for key, value in settings.items()]
        return f"[packs.mcp.servers.{name}]\n{''.join(rows)}"

    def odd(self, fault: str, *arguments: str, name: str = "", **settings: Any) -> str:
        """Return the configuration of a server that does one thing wrong."""
        command = {"command": sys.executable, "args": [str(ODD), fault, *arguments]}
        return self.table(name or fault, **{**command, "connect_timeout": 10, **settings})

    def sdk(self, *arguments: str, name: str = "sdk", **settings: Any) -> str:
        """Return the configuration of a server that is made with the SDK."""
        return self.table(name, command=sys.executable, args=[str(SDK), *arguments], **settings)

    def remember_as_legacy(self, folder: Path, server: Server) -> None:
        """Let the host in this folder know the server for one of the handshake era."""
        pages = folder / "state" / "packs" / "mcp"
        for made in (*reversed(pages.relative_to(folder.parent).parents), pages.relative_to(folder.parent)):
            (folder.parent / made).mkdir(mode=0o700, exist_ok=True)
        Ledger(pages).keep(server, Page(server.hash, "legacy"))

    @contextmanager
    def over_http(self, kind: str, log: Path) -> Iterator[str]:
        """Start the SDK's server on a free port; yields its URL."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with subprocess.Popen([sys.executable, str(SDK), kind, str(port), str(log)]) as process:
            try:
                _wait_for(port)
                yield f"http://127.0.0.1:{port}/{'sse' if kind == 'sse' else 'mcp'}"
            finally:
                process.kill()

    @asynccontextmanager
    async def connected(self, folder: Path, config: str, **options: Any) -> AsyncIterator[Desk]:
        """Open a host with these servers, and connect them as a run does."""
        places = _places(folder, config)
        packs = {"mcp": Mcp, **options.pop("packs", {})}
        host = Host.open(environ={}, distributions=[], packs=packs, places=places, **options)
        shown: list[str] = []
        host.listen(lambda event: shown.append(event.text) if isinstance(event, Progress) else None)
        async with host:
            agent = await host.create_agent(directory=options.get("directory", folder))
            await host.preview(agent)
            yield Desk(host, agent, host.pack_object("mcp").hub(host), shown)

    def at_desk(self, folder: Path, config: str, work: Callable[[Desk], Awaitable[Any]], **options: Any) -> Any:
        """Run `work(desk)` at a host with these servers; returns what it returns."""

        async def main() -> Any:
            async with self.connected(folder, config, **options) as desk:
                return await work(desk)

        return asyncio.run(main())


def _wait_for(port: int) -> None:
    end = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return


def _places(folder: Path, config: str) -> Places:
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(config, "utf-8")
    return Places(folder / "config.toml", folder / "state")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(inner)}' for key, inner in value.items())} }}"
    return json.dumps(value)


@pytest.fixture(scope="session")
def servers() -> Servers:
    """Configurations of servers, and a host that is connected to them."""
    return Servers()
