"""What a session store promises beyond one process: reopening, other writers, and kill -9."""

# ruff: noqa: S101 - a contract is made of assertions

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar, Final

import pytest

from pegboard.base.errors import Conflict
from pegboard.record.stores import SessionHead, SessionStore
from pegboard.testing.samples import check_dense, check_same, every_event, numbered, said, texts_of
from pegboard.values.entries import Entry

ID: Final = "5e55101a"
_BATCH: Final = 3


class DurableContract:
    """The part of `StoreContract` that needs more than one store, or more than one process."""

    durable: ClassVar[bool] = True
    factory: ClassVar[str] = ""

    def make_store(self, folder: Path) -> SessionStore:
        """Return a store that keeps everything in `folder`, which exists."""
        raise NotImplementedError(f"{type(self).__name__} needs a make_store(folder) that returns the store to test")

    async def close_store(self, store: SessionStore) -> None:
        """Release what a store holds open; override it if yours does."""

    def run(self, tmp_path: Path, test: Callable[..., Awaitable[None]], stores: int = 1) -> None:
        """Run a test with this many stores of one folder, in an event loop of its own."""
        folder = folder_of(tmp_path)

        async def main() -> None:
            made = [self.make_store(folder) for _ in range(stores)]
            try:
                await test(*made)
            finally:
                for store in made:
                    await self.close_store(store)

        asyncio.run(main())

    def test_two_stores_of_one_folder_see_each_other_and_conflict(self, tmp_path: Path) -> None:
        """As two processes would."""
        self._needs_durable()

        async def main(one: SessionStore, other: SessionStore) -> None:
            await one.append(ID, said(ID, 1, "a", "b"), expect=0)
            check_same(await other.read(ID), said(ID, 1, "a", "b"))
            await other.append(ID, said(ID, 3, "c"), expect=2)
            with pytest.raises(Conflict):
                await one.append(ID, said(ID, 3, "x", "y"), expect=2)
            check_same(await one.read(ID), said(ID, 1, "a", "b", "c"))
            assert await other.get_blob(await one.put_blob(b"bytes")) == b"bytes", "a blob is not seen"
            await asyncio.gather(*(append_one(store, f"{n}") for n in range(8) for store in (one, other)))
            check_dense(read := await one.read(ID))
            assert len(read) == 19, f"two stores appended 16 entries after 3, and {len(read)} are there"

        self.run(tmp_path, main, stores=2)

    def test_a_store_that_is_opened_again_has_everything(self, tmp_path: Path) -> None:
        """Entries, the list of sessions, and blobs."""
        self._needs_durable()
        entries = numbered(every_event(ID))
        keys: list[str] = []

        async def before(store: SessionStore) -> None:
            await store.append(ID, entries, expect=0)
            keys.append(await store.put_blob(b"bytes"))

        async def after(store: SessionStore) -> None:
            check_same(await store.read(ID), entries)
            assert list(await store.sessions()) == [SessionHead(ID, entries[0], len(entries))], "the list changed"
            assert await store.get_blob(keys[0]) == b"bytes", "a blob was lost"

        self.run(tmp_path, before)
        self.run(tmp_path, after)

    def test_a_killed_process_loses_nothing_that_it_was_told_is_kept(self, tmp_path: Path) -> None:
        """kill -9 while it appends: what is there is whole, and the session goes on, here and in a new process."""
        self._needs_processes()
        # The waits spread over what an append takes, on a fast disk and on a slow one.
        for appends, wait in enumerate((0, 0.0005, 0.002, 0.008, 0.032), 2):
            kept = _kill_while_it_appends(self.factory, folder_of(tmp_path), appends=appends, wait=wait)

            async def main(store: SessionStore, kept: int = kept) -> None:
                read = await store.read(ID)
                assert len(read) >= kept, f"{kept} entries were acknowledged and {len(read)} are left"
                assert len(read) % _BATCH == 0, f"an append of {_BATCH} was kept in part: there are {len(read)} entries"
                check_same(read, _numbered_texts(1, len(read)))
                await store.append(ID, _numbered_texts(len(read) + 1, _BATCH), expect=len(read))

            self.run(tmp_path, main)

    def test_processes_that_append_to_one_session_leave_a_dense_record(self, tmp_path: Path) -> None:
        """Three at once, ten entries each; whoever is late tries again."""
        self._needs_processes()
        folder = folder_of(tmp_path)
        processes = [_process("append_at_the_end", self.factory, folder, str(number)) for number in range(3)]
        for process in processes:
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 0, f"a process that appends failed: {errors}"

        async def main(store: SessionStore) -> None:
            check_dense(read := await store.read(ID))
            assert sorted(texts_of(read)) == sorted(f"{n}" for n in range(3) for _ in range(10)), "entries were lost"

        self.run(tmp_path, main)

    def _needs_durable(self) -> None:
        if not self.durable:
            pytest.skip("the store is not durable")

    def _needs_processes(self) -> None:
        self._needs_durable()
        if not self.factory:
            pytest.skip("the contract has no `factory` with which another process could make the store")


def append_for_ever(factory: str, folder: str) -> None:
    """Append to one session until killed, and print the last id after each append. Runs in a process of its own."""

    async def main() -> None:
        store = _make(factory, folder)
        last = len(await store.read(ID))
        while True:
            await store.append(ID, _numbered_texts(last + 1, _BATCH), expect=last)
            last += _BATCH
            sys.stdout.write(f"{last}\n")
            sys.stdout.flush()

    asyncio.run(main())


def append_at_the_end(factory: str, folder: str, text: str) -> None:
    """Append ten entries to one session, one by one. Runs in a process of its own."""

    async def main() -> None:
        store = _make(factory, folder)
        for _ in range(10):
            await append_one(store, text)

    asyncio.run(main())


def _make(factory: str, folder: str) -> SessionStore:
    from importlib import import_module

    module, _, name = factory.partition(":")
    made: SessionStore = getattr(import_module(module), name)(Path(folder))
    return made


def _process(function: str, *arguments: object) -> "subprocess.Popen[str]":
    """Start one of the functions above where everything can be imported that can be here."""
    code = f"import sys; from pegboard.testing.durability import {function} as run; run(*sys.argv[1:])"
    return subprocess.Popen(  # noqa: S603 - this Python, with a function of this module
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _kill_while_it_appends(factory: str, folder: Path, *, appends: int, wait: float) -> int:
    """Kill a process some seconds after so many appends; returns the last id that it was told is kept."""
    with _process("append_for_ever", factory, folder) as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            seen = "".join(process.stdout.readline() for _ in range(appends))
            time.sleep(wait)
            process.kill()
            rest, errors = process.communicate()
        finally:
            watchdog.cancel()
    whole = (seen + rest).rpartition("\n")[0].split()
    assert len(whole) >= appends, f"a process that appends stopped by itself, after {len(whole)} appends: {errors}"
    return int(whole[-1])


async def append_one(store: SessionStore, text: str) -> None:
    """Append one entry, again and again until no other writer came in between."""
    last = 0
    while True:
        last += len(await store.read(ID, last))
        await asyncio.sleep(0)
        try:
            return await store.append(ID, said(ID, last + 1, text), expect=last)
        except Conflict:
            continue


def _numbered_texts(first: int, count: int) -> list[Entry]:
    return said(ID, first, *(f"{place} " + "x" * 20_000 for place in range(first, first + count)))


def folder_of(tmp_path: Path) -> Path:
    """Return the store's folder, which has a place next to it that the store may not touch."""
    folder = tmp_path / "outside" / "store"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
