"""The pack: its settings, its hook for other packs, and servers that are connected when the first run begins."""

from collections.abc import Iterable

from pegboard import Host, Run, hooks, implements

from pegboard_mcp.hub import Hub
from pegboard_mcp.settings import Settings
from pegboard_mcp.specs import McpHooks


class Mcp:
    """Brings the tools of MCP servers to every agent of the host."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._hub: Hub | None = None

    def hub(self, host: Host) -> Hub:
        """Return the servers of the host."""
        self._hub = self._hub or Hub(host, self.settings)
        return self._hub

    @implements(hooks.register_hookspecs)
    def register_hookspecs(self) -> Iterable[type]:
        """Hand over `mcp_servers`, the hook for packs that bring servers."""
        return [McpHooks]

    @implements(hooks.run_starting)
    async def connect(self, run: Run) -> None:
        """Connect all servers, once for the host, each as far as it gets before the run has to begin."""
        await self.hub(run.agent.host).connect(run)
