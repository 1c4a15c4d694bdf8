"""Fixtures for the tape: stores in a folder of the test's own, closed at its end."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from pegboard import Host, PegboardError
from pegboard_tape.cli import tape
from pegboard_tape.store import TapeStore


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[..., TapeStore]]:
    """Open a store in `tmp_path/tape`, or in the folder given; each is closed at the end."""
    opened: list[TapeStore] = []

    def open_(folder: Path | None = None, *, durable: bool = False) -> TapeStore:
        opened.append(TapeStore(folder or tmp_path / "tape", durable=durable))
        return opened[-1]

    yield open_
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., TapeStore], host: Host) -> TapeStore:
    """An empty store; tests that are `async def` run in the event loop of `host`."""
    return open_store()


class Told(NamedTuple):
    """How a command ended and what it printed; an error of Pegboard's is what the command line would print."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def tape_command(home: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Told]:
    """Run `pegboard tape ...` in this process, over the store in `tmp_path/tape`."""
    home.config(f"[packs.tape]\npath = '{tmp_path / 'tape'}'\n")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, stdin: bytes = b"") -> Told:
        ended = CliRunner().invoke(tape, arguments, input=stdin, standalone_mode=False)
        error = ended.exception
        if error is not None and not isinstance(error, PegboardError):
            raise error
        code = error.exit_code if error else ended.return_value or 0
        return Told(code, ended.stdout, ended.stderr + (str(error) if error else ""))

    return run
