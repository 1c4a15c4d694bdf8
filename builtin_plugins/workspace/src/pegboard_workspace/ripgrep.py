"""Running ripgrep over files that we chose: it only reads and matches, what is ignored or binary is decided here.

Files in which it would see other lines than Python are found first and left to Python: those with carriage returns,
byte order marks or bytes that are no UTF-8, and where case is ignored, with anything but ASCII.
"""

import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from pegboard import CancelSignal

# Everything that ripgrep would decide by itself is switched off; one thread keeps its output in the order of the files.
_PLAIN: Final = ("--no-config", "--no-ignore", "--hidden", "--text", "--no-messages", "--encoding=none", "--threads=1")
_LISTING: Final = ("--no-heading", "--color=never", "--with-filename", "--line-number", "--null")
_ORDINARY_LINE: Final = r"[^\r\x{feff}]*"
_ASCII_LINE: Final = r"[\x00-\x0c\x0e-\x7f]*"
_BATCH_BYTES: Final = 100_000


class RipgrepFailed(Exception):
    """It crashed or was killed; what it printed is no complete answer."""


class Row(NamedTuple):
    """One matching line as ripgrep printed it."""

    path: str
    line: int
    text: bytes


class Ripgrep:
    """One search in one folder: a program, a pattern, and the signal and the seconds that end it."""

    def __init__(
        self, program: str, root: Path, pattern: str, ignore_case: bool, signal: CancelSignal, seconds: float
    ) -> None:
        self._program = program
        self._root = root
        self._flags = [*(["--ignore-case"] if ignore_case else []), "-e", pattern]
        self._folds = ignore_case or pattern.startswith("(?i") or "(?i:" in pattern
        self._signal = signal
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
        if self._signal.cancelled:
            return
        process = subprocess.Popen(  # noqa: S603
            [self._program, *_PLAIN, *arguments],
            cwd=self._root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        timer = threading.Timer(self._seconds, _kill, [process])
        timer.start()
        unlink = self._signal.on_cancel(lambda: _kill(process))
        try:
            yield from _pieces(process, end)
            code = process.wait()
        finally:
            unlink()
            timer.cancel()
            _kill(process)
            process.wait()
            if process.stdout:
                process.stdout.close()
        if code not in good and not self._signal.cancelled:
            raise RipgrepFailed


def _pieces(process: "subprocess.Popen[bytes]", end: bytes) -> Iterator[bytes]:
    rest = b""
    while process.stdout and (chunk := process.stdout.read(65536)):
        *pieces, rest = (rest + chunk).split(end)
        yield from pieces
    if rest:
        yield rest


def _kill(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, 9)
            else:
                process.kill()


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
