"""The hook of this pack for other packs."""

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING

from pegboard import hookspec

if TYPE_CHECKING:
    from pegboard import Host

    from pegboard_mcp.servers import Server


class McpHooks:
    """Implement it marked `@implements(McpHooks.mcp_servers, optional=True)`: harmless without this pack."""

    @hookspec("collect")
    def mcp_servers(self, host: "Host") -> "Iterable[Server] | Awaitable[Iterable[Server]] | None":
        """Bring servers whose tools every agent of the host sees; asked once, before the first run.

        A server of the user's configuration goes before a pack's of the same name, and `enabled = false` there switches
        that off.
        """
