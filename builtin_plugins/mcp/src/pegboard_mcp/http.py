"""The HTTP transports, Streamable HTTP and the older SSE: the SDK's, over a client of our own with caps and headers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from pegboard_mcp.servers import Server
from pegboard_mcp.stdio import MAX_FRAME

if TYPE_CHECKING:
    import httpx2

_SECONDS: Final = 30.0


class HttpLine:
    """A server that is reached over HTTP; `refusal` is the last status by which it refused a request."""

    def __init__(self) -> None:
        self.refusal = ""
        self._asks_by = "POST"
        self._streams: tuple[Any, Any]

    def streams(self) -> tuple[Any, Any]:
        """Return the stream to read from, and that to write to."""
        return self._streams

    async def epitaph(self) -> str:
        """Return how the connection ended: the transport's own error says it, if there was one."""
        return f"the connection was closed{self.last_words()}"

    def last_words(self) -> str:
        """Return how it refused a request, with a colon before it; nothing if it refused none."""
        return f": it answers {self.refusal}" if self.refusal else ""

    @asynccontextmanager
    async def opened(self, server: Server) -> AsyncIterator["HttpLine"]:
        """Reach the server; on leaving its session and the client are closed.

        Raises:
            ExceptionGroup: the transport failed.
        """
        if server.transport == "sse":
            from mcp.client.sse import sse_client

            self._asks_by = "GET"

            def made(headers: Any = None, timeout: Any = None, auth: Any = None) -> "httpx2.AsyncClient":
                return self._client(server)

            async with sse_client(server.url, httpx_client_factory=made) as self._streams:
                yield self
            return
        from mcp.client.streamable_http import streamable_http_client

        async with self._client(server) as client:
            opening = streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_FRAME)
            async with opening as self._streams:
                yield self

    def _client(self, server: Server) -> "httpx2.AsyncClient":
        """Return a client with the configured headers; it waits for ever, for requests have deadlines of their own."""
        import httpx2

        return httpx2.AsyncClient(
            headers=dict(server.headers),
            timeout=httpx2.Timeout(_SECONDS, read=None),
            event_hooks={"response": [self._heed]},
        )

    async def _heed(self, response: "httpx2.Response") -> None:
        if response.request.method == self._asks_by:  # that it has no stream of its own, or no sessions, is no refusal
            status = f"{response.status_code} {response.reason_phrase}".strip()
            self.refusal = status if response.is_error else ""
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _capped(response.stream)


def _capped(stream: Any) -> Any:
    """Return the body of an answer, which fails when it grows above the cap."""
    import httpx2

    class Capped(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in stream:
                size += len(chunk)
                if size > MAX_FRAME:
                    raise httpx2.ReadError(f"the server sent an answer of more than {MAX_FRAME >> 20} MiB")
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Capped()
