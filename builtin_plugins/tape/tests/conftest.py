"""Fixtures for the tape: stores in a folder of the test's own, closed at its end."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pegboard import Host
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
