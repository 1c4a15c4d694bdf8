"""Streams around a transport's own that hold `tools/list` results to what the SDK can read.

The SDK refuses a whole list for one bad definition in it. Here the raw list is read first, and the bad ones left out.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

# Takes the raw result of a `tools/list` and returns what the SDK is to see of it.
Read = Callable[[Mapping[str, Any]], dict[str, Any]]


class SanitizedLists:
    """The lists of one connection that are under way, by the id of their requests."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._asked: set[str | int] = set()

    def forget(self) -> None:
        """Leave what is still under way alone: its walk was given up."""
        self._asked.clear()

    def sent(self, message: Any) -> None:
        """Note a request that goes out."""
        if getattr(message, "method", None) == "tools/list" and (asked := getattr(message, "id", None)) is not None:
            self._asked.add(asked)

    def received(self, message: Any) -> None:
        """Hold the answer to a list to what it may be."""
        if not self._asked or getattr(message, "method", None) is not None or message.id not in self._asked:
            return
        self._asked.discard(message.id)
        if isinstance(result := getattr(message, "result", None), dict):
            message.result = self._read(result)


class Reading:
    """A transport's reading stream, whose lists are sanitized."""

    def __init__(self, inner: Any, lists: SanitizedLists) -> None:
        self._inner = inner
        self._lists = lists

    @property
    def last_context(self) -> Any:
        """The sender's context, where the transport keeps it."""
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> "Reading":
        return self

    async def __anext__(self) -> "SessionMessage | Exception":
        item: SessionMessage | Exception = await self._inner.__anext__()
        if not isinstance(item, Exception):
            self._lists.received(item.message)
        return item

    async def receive(self) -> "SessionMessage | Exception":
        """Read one message; part of the SDK's protocol."""
        return await self.__anext__()

    async def aclose(self) -> None:
        """Close the transport's stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> "Reading":
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._inner.__aexit__(*error)


class Writing:
    """A transport's writing stream, which notes the lists that are asked for."""

    def __init__(self, inner: Any, lists: SanitizedLists) -> None:
        self._inner = inner
        self._lists = lists

    async def send(self, item: "SessionMessage") -> None:
        """Write a message."""
        self._lists.sent(item.message)
        await self._inner.send(item)

    async def aclose(self) -> None:
        """Close the transport's stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> "Writing":
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._inner.__aexit__(*error)
