"""One server's connection: a task that owns it from the start of the program to its end, and connects again.

The policy, the only one: when a connection ends, or can't be made, the next attempt comes after 1, 2, 4, … seconds, up
to ten minutes; the row begins anew when a connection has held for a minute. No call is ever sent again. What can't
change by itself (no consent, a variable that is not set, a program that is not there) is not tried again.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pegboard import PegboardError, Process, ProcessSpec, ToolError, one_line

from pegboard_mcp.errors import described, flattened
from pegboard_mcp.http import HttpLine
from pegboard_mcp.listing import MAX_PAGES, Listing
from pegboard_mcp.sanitized import Reading, SanitizedLists, Writing
from pegboard_mcp.servers import Server
from pegboard_mcp.stdio import StdioLine, stdio_line

if TYPE_CHECKING:
    from mcp import Client, ClientSession

LONGEST_PAUSE: Final = 600.0
_STEADY_SECONDS: Final = 60.0
_BURST_SECONDS: Final = 0.2
_LEAST_SECONDS: Final = 1.0  # between two walks over the tools, however often a server says that they changed
_LONGEST_DEAF_SECONDS: Final = 60.0

Spawn = Callable[[ProcessSpec], Coroutine[Any, Any, Process]]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a connection: protocol version, what the server calls itself, and the time it took."""

    version: str
    program: str
    connect_seconds: float
    list_seconds: float

    @property
    def era(self) -> str:
        """`legacy` for versions with a handshake, else `modern`."""
        return "legacy" if self.version < "2026" else "modern"


class Connection:
    """A server that is connected to. `settled` is set when it is known for the first time whether it can be reached.

    `listed(listing)` is told after each walk over the tools. `state` is `connecting`, `up`, `down` or
    `unusable`, `reason` says why it is not up, `pause` is how many seconds after an end the next attempt comes.
    """

    def __init__(
        self,
        server: Server,
        spawn: Spawn,
        roots: Callable[[], list[Path]],
        listed: Callable[[Listing], None],
        *,
        legacy: bool = False,
    ) -> None:
        self.server = server
        self.state = "connecting"
        self.reason = "it is being connected"
        self.pause = 0.0
        self.settled = asyncio.Event()
        self.facts: Facts | None = None
        self._spawn = spawn
        self._roots = roots
        self._listed = listed
        self._legacy = legacy
        self._session: ClientSession | None = None
        self._line: StdioLine | HttpLine | None = None
        self._listing = Listing(server.name)
        self._lists = SanitizedLists(lambda result: self._listing.page(result))
        self._listed_at = 0.0
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()
        self._buried = asyncio.Event()
        self._since = 0.0

    # -- what callers use

    def session(self) -> "ClientSession":
        """Return the session that is up.

        Raises:
            ToolError: there is none, and why.
        """
        if self._session is None:
            again = f" · connecting again after {self.pause:g} s" if self.state == "down" else ""
            raise ToolError(f"{self.server.title} is not connected, so nothing was sent: {self.reason}{again}")
        return self._session

    async def epitaph(self) -> str:
        """Return how the connection ended that was up a moment ago."""
        self._ended.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._buried.wait(), 3)
        return self.reason or "the connection was closed"

    # -- its life

    async def run(self) -> None:
        """Connect, and connect again, until cancelled."""
        failures = 0
        while True:
            self._begin()
            try:
                await self._live()
                told = "the connection was closed"
            except PegboardError as error:
                self._end("unusable", str(error))
                return
            except Exception as error:
                told = described(error)
            finally:
                self._session = None
            self._legacy = self._legacy and self._since > 0  # what it was known for may not be true any more
            held = time.monotonic() - self._since if self._since else 0.0
            failures = 0 if held > _STEADY_SECONDS else failures
            self.pause = min(2.0**failures, LONGEST_PAUSE)
            failures += 1
            self._end("down", told)
            await asyncio.sleep(self.pause)

    def _begin(self) -> None:
        self.state = "connecting"
        self._since = 0.0
        self._line = None
        for event in (self._changed, self._ended, self._buried):
            event.clear()

    def _end(self, state: str, reason: str) -> None:
        self.state, self.reason = state, self.server.veil(reason, os.environ)
        self._buried.set()
        self.settled.set()

    async def _live(self) -> None:
        """Be connected once, from the start to the end.

        Raises:
            Exception: it could not be made, or failed.
        """
        began = time.monotonic()
        server = self.server.expanded(os.environ)
        try:
            async with AsyncExitStack() as stack:
                try:
                    async with asyncio.timeout(None) as limit:
                        client = await self._open(stack, server, limit)
                    connected = time.monotonic()
                except TimeoutError:
                    words = self._line.last_words() if self._line else ""
                    told = f"it was not ready within {server.deadlines.connect:g} s (connect_timeout){words}"
                    raise ConnectionError(told) from None
                await self._list(client)
                info = client.server_info
                program = one_line(f"{info.name} {info.version}", 80) if info else ""
                self.facts = Facts(client.protocol_version, program, connected - began, time.monotonic() - connected)
                self._up(client)
                await self._watch(stack, client)
        except PegboardError:
            raise
        except Exception as error:
            if told := await self._told(error):
                raise ConnectionError(told) from error
            raise
        if self._line is not None:
            raise ConnectionError(await self._line.epitaph())

    async def _told(self, error: Exception) -> str:
        """Return what is known of the server's end, where the SDK knows no more than that it ended; else nothing."""
        if isinstance(self._line, HttpLine) and self._line.refusal:
            return f"it answers {self._line.refusal}"
        if self._line is None or not any("Connection closed" in str(one) for one in flattened(error)):
            return ""
        return await self._line.epitaph()

    def _up(self, client: "Client") -> None:
        self._session = client.session
        self._since = time.monotonic()
        self._legacy = self.facts is not None and self.facts.era == "legacy"
        self.state, self.reason = "up", ""
        self._listed(self._listing)
        self.settled.set()

    async def _open(self, stack: AsyncExitStack, server: Server, limit: asyncio.Timeout) -> "Client":
        """Connect and shake hands; the time begins when the SDK is imported, which takes it a second the first time."""
        importing = asyncio.ensure_future(asyncio.to_thread(_import_sdk))
        if server.transport == "stdio":  # the program starts meanwhile
            self._line = await stack.enter_async_context(stdio_line(server, self._spawn, self._ended))
        mcp = await importing
        limit.reschedule(asyncio.get_running_loop().time() + server.deadlines.connect)
        if self._line is None:
            self._line = await stack.enter_async_context(HttpLine().opened(server))
        reading, writing = self._line.streams()
        client = mcp.Client(
            _Streams(Reading(reading, self._lists), Writing(writing, self._lists)),
            mode="legacy" if self._legacy or server.transport == "sse" else "auto",
            cache=None,
            message_handler=self._heed,
            list_roots_callback=self._tell_roots if server.roots else None,
            client_info=mcp.types.Implementation(name="pegboard", version=_version()),
        )
        await stack.enter_async_context(client)
        opened: Client = client
        return opened

    # -- what the server says by itself

    async def _heed(self, message: Any) -> None:
        from mcp.types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._changed.set()

    async def _tell_roots(self, _context: Any) -> Any:
        from mcp.types import ListRootsResult, Root

        return ListRootsResult(roots=[Root.model_validate({"uri": path.as_uri()}) for path in self._roots()])

    async def _watch(self, stack: AsyncExitStack, client: "Client") -> None:
        """Read the tools anew when the server says that they changed, until the connection ends."""
        tools = client.server_capabilities.tools
        if self.facts is not None and self.facts.era == "modern" and tools is not None and tools.list_changed:
            listening = asyncio.ensure_future(self._listen(client))
            stack.callback(listening.cancel)
        ended = asyncio.ensure_future(self._ended.wait())
        stack.callback(ended.cancel)
        while not ended.done():
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait({changed, ended}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
            if not ended.done():
                at_the_soonest = self._listed_at + _LEAST_SECONDS - time.monotonic()
                await asyncio.sleep(max(_BURST_SECONDS, at_the_soonest))
                self._changed.clear()
                await self._list_again(client)

    async def _listen(self, client: "Client") -> None:
        """Hear of changes, as the modern era has it; where the stream is lost, ever more seldom."""
        from mcp.client.subscriptions import SubscriptionLost

        pause = 1.0
        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    async for _ in changes:
                        self._changed.set()
            except SubscriptionLost:
                pass
            except Exception:  # it does not tell, or is gone
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_DEAF_SECONDS)
            self._changed.set()  # what was told meanwhile is lost

    # -- its tools

    async def _list_again(self, client: "Client") -> None:
        """Read the tools anew; if that fails they stay as they are."""
        before = self._listing
        try:
            await self._list(client)
        except Exception as error:
            before.drop("", f"the tools changed, but could not be read again: {described(error)}")
            self._listing = before
            self._lists.forget()
        self._listed(self._listing)

    async def _list(self, client: "Client") -> None:
        from mcp.types import PaginatedRequestParams

        self._listing = listing = Listing(self.server.name)
        self._lists.forget()
        self._listed_at = time.monotonic()
        if client.server_capabilities.tools is None:
            listing.drop("", "the server says that it has no tools")
            return
        seen: set[str | None] = set()
        names: set[str] = set()
        cursor: str | None = None
        while cursor not in seen and len(seen) < MAX_PAGES:
            seen.add(cursor)
            try:
                async with asyncio.timeout(self.server.deadlines.list):
                    page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            except TimeoutError:
                told = f"it did not answer `tools/list` within {self.server.deadlines.list:g} s (list_timeout)"
                raise ConnectionError(told) from None
            names.update(tool.name for tool in page.tools)
            cursor = page.next_cursor
            if cursor is None:
                break
        else:
            told = "comes back to one that was read" if cursor in seen else f"goes on after {MAX_PAGES} pages"
            listing.drop("", f"its list of tools {told}; later ones are not read")
        listing.keep_only(names)


class _Streams:
    """A transport as the SDK takes it: what is open already."""

    def __init__(self, reading: Reading, writing: Writing) -> None:
        self._streams = (reading, writing)

    async def __aenter__(self) -> tuple[Reading, Writing]:
        return self._streams

    async def __aexit__(self, *_error: object) -> None:
        return None


def _import_sdk() -> Any:
    import mcp
    import mcp.client.subscriptions

    logging.getLogger("mcp").addHandler(logging.NullHandler())  # what it logs is told by us, where it matters
    return mcp


def _version() -> str:
    from pegboard_mcp import __version__

    return __version__
