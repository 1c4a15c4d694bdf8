"""Running ripgrep over files that we chose: it only reads and matches, what is ignored or binary is decided here.

Files in which it would see other lines than Python are found first and left to Python: those with carriage returns,
byte order marks or bytes that are no UTF-8, and where case is ignored, with anything but ASCII.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pegboard import Process, ProcessSpec, ToolContext

if TYPE_CHECKING:
    import asyncio

# Everything that ripgrep would decide by itself is switched off; one thread keeps its output in the order of the files.
_PLAIN: Final = ("--no-config", "--no-ignore", "--hidden", "--text", "--no-messages", "--encoding=none", "--threads=1")
_LISTING: Final = ("--no-heading", "--color=never", "--with-filename", "--line-number", "--null")
_ORDINARY_LINE: Final = r"[^\r\x{feff}]*"
_ASCII_LINE: Final = r"[\x00-\x0c\x0e-\x7f]*"
_BATCH_BYTES: Final = 100_000
_CHUNK_BYTES: Final = 65_536


class RipgrepFailed(Exception):
    """It crashed or was killed; what it printed is no complete answer."""


class Row(NamedTuple):
    """One matching line as ripgrep printed it."""

    path: str
    line: int
    text: bytes


class Ripgrep:
    """One search in one folder, from a worker thread: a program, a pattern, the call's context, its seconds."""

    def __init__(
        self, program: str, root: Path, pattern: str, ignore_case: bool, ctx: ToolContext, seconds: float
    ) -> None:
        self._program = program
        self._root = root
        self._flags = [*(["--ignore-case"] if ignore_case else []), "-e", pattern]
        self._folds = ignore_case or pattern.startswith("(?i") or "(?i:" in pattern
        self._ctx = ctx
        self._seconds = seconds

    def takes_pattern(self) -> bool:
        """Whether ripgrep accepts the pattern at all; asked on empty input."""
        try:
            return not list(self._output([*self._flags, "-"], b"\n", (0, 1)))
        except RipgrepFailed:
            return False

    def odd_files(self, names: Sequence[str]) -> set[str]:
        """Return the files that must be searched in Python."""
        line = _ASCII_LINE if self._folds else _ORDINARY_LINE
        flags = ["--files-with-matches", "--null", "--invert-match", "--line-regexp", "-e", line]
        odd = {name for name in names if "\n" in name}
        for chunk in self._run(flags, [name for name in names if name not in odd], b"\0"):
            odd.add(_name(chunk))
        return odd

    def rows(self, names: Sequence[str]) -> Iterator[Row]:
        """Yield every match, in the order of the names."""
        for chunk in self._run([*_LISTING, *self._flags], names, b"\n"):
            path, _, rest = chunk.partition(b"\0")
            number, _, text = rest.partition(b":")
            yield Row(_name(path), int(number), text)

    def _run(self, flags: Sequence[str], names: Sequence[str], end: bytes) -> Iterator[bytes]:
        """Yield the pieces of ripgrep's output, from as many processes as the names need."""
        for batch in _batches(names):
            # 2: a file could not be read, which Python passes over too
            yield from self._output([*flags, "--", *batch], end, (0, 1, 2))

    def _output(self, arguments: Sequence[str], end: bytes, good: tuple[int, ...]) -> Iterator[bytes]:
        """Yield the pieces of one process's output; it ends with the signal, and after the seconds.

        Raises:
            RipgrepFailed: it ended otherwise than by itself and well.
        """
        if self._ctx.cancel.cancelled:
            return
        spec = ProcessSpec((self._program, *_PLAIN, *arguments), self._root, grace=0)
        process, watch = self._ctx.wait(self._begin(spec))
        try:
            yield from self._pieces(process, end)
            code = self._ctx.wait(process.wait())
        finally:
            self._ctx.wait(_finish(process, watch))
        if code not in good and not self._ctx.cancel.cancelled:
            raise RipgrepFailed

    async def _begin(self, spec: ProcessSpec) -> "tuple[Process, asyncio.Task[None]]":
        import asyncio  # not before a search: packs are listed without it

        process = await self._ctx.spawn(spec)
        return process, asyncio.create_task(self._watch(process))

    async def _watch(self, process: Process) -> None:
        """End the process with the signal, and after the seconds."""
        import asyncio

        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._ctx.cancel.wait(), self._seconds)
        await process.end()

    def _pieces(self, process: Process, end: bytes) -> Iterator[bytes]:
        rest = b""
        while process.stdout and (chunk := self._ctx.wait(process.stdout.read(_CHUNK_BYTES))):
            *pieces, rest = (rest + chunk).split(end)
            yield from pieces
        if rest:
            yield rest


async def _finish(process: Process, watch: "asyncio.Task[None]") -> None:
    import asyncio

    watch.cancel()
    await asyncio.wait({watch})
    await process.end()


def _batches(names: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for name in names:
        batch.append(f"./{name}")  # so that none is taken for an option or for standard input
        size += len(os.fsencode(name)) + 3
        if size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _name(printed: bytes) -> str:
    return os.fsdecode(printed.removeprefix(b"./"))
