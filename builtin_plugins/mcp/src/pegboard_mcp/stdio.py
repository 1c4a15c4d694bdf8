"""The stdio transport: one message a line over a process's input and output, with a reader whose cost is linear.

The SDK's own has no limit on a line, reads in quadratic time, tells no exit code and leaves children of servers alive.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from pegboard import Collected, Process, ProcessSpec, collect, one_line

from pegboard_mcp.servers import Server

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

MAX_FRAME: Final = 16 << 20
_CHUNK: Final = 1 << 18
_STDERR_BYTES: Final = 8_192
_POLITE_SECONDS: Final = 1.0
_GRACE_SECONDS: Final = 2.0
_BEGINNING: Final = b'{"jsonrpc"'


class Frames:
    """Bytes to lines: fed in pieces of any size, each byte is looked at once."""

    def __init__(self, most: int = MAX_FRAME) -> None:
        self._most = most
        self._parts: list[bytes] = []
        self._size = 0
        self.too_long = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this piece ends; `too_long` is set when one grows above the cap."""
        *ended, rest = chunk.split(b"\n")
        lines = []
        for piece in ended:
            lines.append(b"".join((*self._parts, piece)) if self._parts else piece)
            self._parts.clear()
            self._size = 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
        self.too_long = self._size > self._most or any(len(line) > self._most for line in lines)
        return lines


class Pipe:
    """The two streams that the SDK reads messages from and writes them to, and how they ended."""

    def __init__(self, process: Process, ended: asyncio.Event) -> None:
        assert process.stdin is not None  # noqa: S101  # they were asked for
        assert process.stdout is not None  # noqa: S101
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._frames = Frames()
        self._lines: deque[bytes] = deque()
        self._ended = ended
        self.fault = ""
        self.junk = 0
        self._parse, self._wrap, self._broken = _message_tools()

    # -- the reading stream

    def __aiter__(self) -> "Pipe":
        return self

    async def __anext__(self) -> "SessionMessage":
        while True:
            while self._lines:
                if (message := self._message(self._lines.popleft())) is not None:
                    return message
            if self.fault:
                break
            chunk = await self._stdout.read(_CHUNK)
            if not chunk:
                break
            self._lines.extend(self._frames.feed(chunk))
            if self._frames.too_long:
                self._give_up(f"it sent a line of more than {MAX_FRAME >> 20} MiB")
        self._ended.set()
        raise StopAsyncIteration

    def _message(self, line: bytes) -> "SessionMessage | None":
        """Return a line as a message; what is none is passed over, unless it was meant as one."""
        if not line.strip():
            return None
        if (message := self._parsed(line)) is not None:
            return message
        begins = line.find(_BEGINNING)
        if begins > 0 and (message := self._parsed(line[begins:])) is not None:
            return message  # something was printed before it, without a line end
        if begins >= 0:
            self._give_up(f"it sent what is no JSON-RPC message: {one_line(line[:120].decode('utf-8', 'replace'))}")
        self.junk += 1
        return None

    def _parsed(self, line: bytes) -> "SessionMessage | None":
        try:
            message: SessionMessage = self._wrap(self._parse(line))
        except ValueError:
            return None
        return message

    def _give_up(self, fault: str) -> None:
        self.fault = fault
        self._lines.clear()
        self._process.signal(9)

    # -- the writing stream

    async def send(self, item: "SessionMessage") -> None:
        """Write a message.

        Raises:
            BrokenResourceError: the process does not read any more.
        """
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        try:
            self._stdin.write(data)
            await self._stdin.drain()
        except (OSError, RuntimeError) as error:
            raise self._broken from error

    async def receive(self) -> "SessionMessage":
        """Read one message; part of the SDK's protocol."""
        return await self.__anext__()

    async def aclose(self) -> None:
        """Do nothing: the streams end with the process."""

    async def __aenter__(self) -> "Pipe":
        return self

    async def __aexit__(self, *_error: object) -> None:
        return None


class StdioLine:
    """A process that is spoken to; `epitaph` tells how it ended."""

    def __init__(self, process: Process, stderr: Collected, ended: asyncio.Event) -> None:
        self._process = process
        self._stderr = stderr
        self._ended = ended
        self._pipe: Pipe | None = None
        self.outlived = False

    def streams(self) -> tuple[Pipe, Pipe]:
        """Return the stream to read from, and that to write to; to be asked once the SDK is imported."""
        self._pipe = self._pipe or Pipe(self._process, self._ended)
        return self._pipe, self._pipe

    async def epitaph(self) -> str:
        """Return how the process ended by itself, with the end of what it wrote to its standard error."""
        code = self._process.returncode
        if self._pipe is not None and self._pipe.fault:
            how = f"{self._pipe.fault}, so it was ended"
        elif self.outlived or code is None:
            how = "it closed its output, but did not end"
        else:
            how = f"it ended with exit code {code}" if code >= 0 else f"it was ended by signal {-code}"
        return f"{how}{self.last_words()}"

    def last_words(self) -> str:
        """Return the last line or so of its standard error, with a colon before it; nothing if there is none."""
        lines = [line for line in self._stderr.tail.decode("utf-8", "replace").splitlines() if line.strip()]
        return f": {one_line(' · '.join(lines[-3:]), 400)}" if lines else ""


@asynccontextmanager
async def stdio_line(server: Server, spawn: Any, ended: asyncio.Event) -> AsyncIterator[StdioLine]:
    """Start a server's program with `host.spawn`; on leaving its input is closed, then its whole group is ended.

    Raises:
        UsageError: its `cwd` is no folder.
        PegboardError: it can't be started.
    """
    spec = ProcessSpec(
        (server.command, *server.args),
        server.directory(),
        env=server.env,
        stdin="pipe",
        stderr="pipe",
        grace=_GRACE_SECONDS,
    )
    process: Process = await spawn(spec)
    stderr = Collected()
    assert process.stderr is not None  # noqa: S101  # it was asked for
    reading = asyncio.ensure_future(collect(process.stderr, stderr, head=0, tail=_STDERR_BYTES))
    line = StdioLine(process, stderr, ended)
    try:
        yield line
    finally:
        if process.stdin is not None and not process.stdin.is_closing():
            process.stdin.close()
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _POLITE_SECONDS)
            line.outlived = process.returncode is None
        finally:
            await process.end()  # which ends its streams, too
            await asyncio.wait({reading})


def _message_tools() -> tuple[Any, Any, Exception]:
    """Return what of the SDK a message needs: its parser, its envelope, and the error of a closed stream."""
    from anyio import BrokenResourceError
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter

    def parse(line: bytes) -> Any:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)

    return parse, SessionMessage, BrokenResourceError()
