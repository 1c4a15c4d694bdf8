"""What every session store promises, as tests: an author subclasses `StoreContract` and runs pytest."""

# ruff: noqa: S101 - a contract is made of assertions

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from pegboard.base.errors import Conflict, PegboardError
from pegboard.base.frozen import MAX_DEPTH, freeze
from pegboard.record.stores import SessionHead, SessionStore
from pegboard.testing.durability import ID, DurableContract, append_one, folder_of
from pegboard.testing.samples import check_dense, check_same, every_event, numbered, said, session_start, texts_of
from pegboard.values.entries import Entry
from pegboard.values.events import Note, Said, Unknown, event_from_json

_OTHER: Final = "0123456789abcdef0123456789abcdef"
_LARGE: Final = 5_000_000

# By what they are called in a test's id. `{outside}` is an absolute path next to the store's folder.
HOSTILE_IDS: Final = {
    "parent": "../evil",
    "far parent": "../../../evil",
    "absolute": "{outside}/evil",
    "empty": "",
    "NUL": "5e55101a\0",
    "newline": "5e55101a\n",
    "upper case": "5E55101A",
    "other digits": "٣٣٣٣٣٣٣٣",
    "surrogate": "5e55101a\udcff",
    "quote": "5e55101a' or '1'='1",
    "300 characters": "a" * 300,
}


class StoreContract(DurableContract):
    """Tests of a `SessionStore`. Subclass it under a name that begins with `Test`, and override `make_store`.

    `durable` says that another store made for the same folder has the same sessions, also in another process.
    `factory` ("module:callable", which takes a folder) lets other processes append, and be killed while they do.
    A store that holds something open is closed by `close_store`, an async method that does nothing by default.

    Example:
        >>> class TestMyStore(StoreContract):
        ...     factory = "my_pack.store:MyStore"
        ...     def make_store(self, folder):
        ...         return MyStore(folder)
    """

    def test_entries_of_every_type_come_back_equal_and_in_order(self, tmp_path: Path) -> None:
        """Every field of every type of event, full and empty; booleans stay booleans."""

        async def main(store: SessionStore) -> None:
            entries = numbered(every_event(ID))
            await store.append(ID, entries, expect=0)
            check_same(await store.read(ID), entries)

        self.run(tmp_path, main)

    def test_several_appends_make_one_record_with_dense_ids(self, tmp_path: Path) -> None:
        """Each append goes on where the last one ended, in its own session only."""

        async def main(store: SessionStore) -> None:
            entries = [session_start(ID), *said(ID, 2, "a", "b", "c")]
            await store.append(ID, entries[:1], expect=0)
            await store.append(_OTHER, [session_start(_OTHER)], expect=0)
            await store.append(ID, entries[1:3], expect=1)
            await store.append(ID, entries[3:], expect=3)
            check_same(await store.read(ID), entries)
            check_same(await store.read(_OTHER), [session_start(_OTHER)])

        self.run(tmp_path, main)

    def test_after_and_limit_choose_a_piece_of_the_record(self, tmp_path: Path) -> None:
        """`after` is an entry's id, `limit` a number of entries; neither need be within the record."""

        async def main(store: SessionStore) -> None:
            entries = said(ID, 1, *"abcdefg")
            await store.append(ID, entries[:4], expect=0)
            await store.append(ID, entries[4:], expect=4)
            for after in (0, 1, 4, 6, 7, 99):
                for limit in (None, 0, 1, 3, 99):
                    end = None if limit is None else after + limit
                    check_same(await store.read(ID, after, limit), entries[after:end])

        self.run(tmp_path, main)

    def test_an_unknown_session_is_empty(self, tmp_path: Path) -> None:
        """Reading is no way to make a session; nor is appending nothing."""

        async def main(store: SessionStore) -> None:
            assert list(await store.read(ID)) == [], "a session that never began has entries"
            await store.append(ID, [], expect=0)
            assert list(await store.sessions()) == [], "a session without entries is listed"

        self.run(tmp_path, main)

    def test_the_record_can_not_be_changed_through_a_list(self, tmp_path: Path) -> None:
        """What was handed in and what was handed out are the caller's."""

        async def main(store: SessionStore) -> None:
            given = said(ID, 1, "a", "b")
            await store.append(ID, given, expect=0)
            given.clear()
            read = await store.read(ID)
            if isinstance(read, list):
                read.clear()
            check_same(await store.read(ID), said(ID, 1, "a", "b"))

        self.run(tmp_path, main)

    @pytest.mark.parametrize("wrong", [0, 1, 3, 99])
    def test_a_wrong_expectation_is_a_conflict_and_leaves_nothing(self, tmp_path: Path, wrong: int) -> None:
        """Too low is a second writer, too high a record that was lost."""

        async def main(store: SessionStore) -> None:
            with pytest.raises(Conflict):
                await store.append(_OTHER, said(_OTHER, 100, "never"), expect=99)
            await store.append(ID, said(ID, 1, "a", "b"), expect=0)
            with pytest.raises(Conflict):
                await store.append(ID, said(ID, wrong + 1, "x", "y"), expect=wrong)
            check_same(await store.read(ID), said(ID, 1, "a", "b"))
            assert [head.id for head in await store.sessions()] == [ID], "a refused append left a session"
            await store.append(ID, said(ID, 3, "c"), expect=2)
            check_same(await store.read(ID), said(ID, 1, "a", "b", "c"))

        self.run(tmp_path, main)

    def test_entries_are_kept_all_or_none(self, tmp_path: Path) -> None:
        """One entry in the middle that is no JSON: a store may keep it, or refuse the whole append."""

        async def main(store: SessionStore) -> None:
            await store.append(ID, said(ID, 1, "a"), expect=0)
            [first, last] = said(ID, 2, "b", "c")
            impossible = Entry(3, Note(ID, 1, 1.0, "pack", "name", freeze({"no": object()})))
            kept = [1, 2, 3, 4]
            try:
                await store.append(ID, [first, impossible, Entry(4, last.event)], expect=1)
            except Exception:
                kept = [1]
            found = [entry.id for entry in await store.read(ID)]
            assert found == kept, f"an append was kept in part: the record has {found}, not {kept}"
            await store.append(ID, said(ID, len(kept) + 1, "d"), expect=len(kept))

        self.run(tmp_path, main)

    def test_a_cancelled_append_is_there_whole_or_not_at_all(self, tmp_path: Path) -> None:
        """The session goes on after it."""

        async def main(store: SessionStore) -> None:
            task = asyncio.ensure_future(_append(store, ID, said(ID, 1, "a", "b", "c"), 0))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await append_one(store, "d")
            check_dense(read := await store.read(ID))
            assert len(read) in (1, 4), f"a cancelled append of 3 entries left {len(read) - 1}"

        self.run(tmp_path, main)

    def test_sessions_are_listed_from_the_newest(self, tmp_path: Path) -> None:
        """By when they began, not by when they went on; with the first entry and the last id."""

        async def main(store: SessionStore) -> None:
            starts = [
                session_start(name, ts) for name, ts in (("bbbbbbbb", 1000.5), (ID, 1001.5), ("aaaaaaaa", 1002.5))
            ]
            for start in starts:
                await store.append(start.session, [start], expect=0)
            await store.append("bbbbbbbb", said("bbbbbbbb", 2, "later", "and later"), expect=1)
            heads = list(await store.sessions())
            wanted = [SessionHead(start.session, start, 3 if start is starts[0] else 1) for start in starts[::-1]]
            assert heads == wanted, f"sessions() gave {heads}, not {wanted}"

        self.run(tmp_path, main)

    @pytest.mark.parametrize("size", [0, 1, _LARGE])
    def test_a_blob_is_found_by_its_hash(self, tmp_path: Path, size: int) -> None:
        """The same bytes have the same key, however often they are kept."""

        async def main(store: SessionStore) -> None:
            data = (bytes(range(256)) * (size // 256 + 1))[:size]
            key = await store.put_blob(data)
            assert key == hashlib.sha256(data).hexdigest(), f"the key {key!r} is not the SHA-256 in hex"
            assert await store.put_blob(data) == key, "the same bytes got another key"
            await store.put_blob(b"other " + data[:100])
            assert await store.get_blob(key) == data, f"{size} bytes came back changed"

        self.run(tmp_path, main)

    @pytest.mark.parametrize("key", ["0" * 64, "", "../../evil", "\0" * 64, "\udcff", "a" * 5000])
    def test_a_blob_that_is_not_there_is_a_lookup_error(self, tmp_path: Path, key: str) -> None:
        """Whatever the key looks like."""

        async def main(store: SessionStore) -> None:
            with pytest.raises(LookupError):
                await store.get_blob(key)

        self.run(tmp_path, main)

    @pytest.mark.parametrize("hostile", HOSTILE_IDS.values(), ids=HOSTILE_IDS.keys())
    def test_a_hostile_session_id_is_refused_before_anything_is_touched(self, tmp_path: Path, hostile: str) -> None:
        """Nothing outside the store's folder appears or changes (case 21)."""

        async def main(store: SessionStore) -> None:
            await store.append(ID, [session_start(ID)], expect=0)
            before = _outside(tmp_path)
            name = hostile.replace("{outside}", str(folder_of(tmp_path).parent))
            with pytest.raises((ValueError, PegboardError)):
                await store.append(name, [session_start(name)], expect=0)
            with pytest.raises((ValueError, PegboardError)):
                await store.read(name)
            assert _outside(tmp_path) == before, f"{name!r} changed something outside the store's folder"
            assert [head.id for head in await store.sessions()] == [ID], f"{name!r} became a session"

        self.run(tmp_path, main)

    @pytest.mark.parametrize(
        "text",
        ["\ud800", "low \udc80 and \udfff", "a\0b", "\r\n\u2028\x85", "\ufeff'\"\\", "x" * _LARGE],
        ids=["high surrogate", "low surrogates", "NUL", "line ends", "quotes", "5 MB"],
    )
    def test_any_text_is_kept_as_it_is(self, tmp_path: Path, text: str) -> None:
        """In a field, in data, and as a key of it."""

        async def main(store: SessionStore) -> None:
            data = freeze({"value": text, text[:100]: [text[:100]]})
            entries = numbered([Said(ID, 1, 1.0, 1, text), Note(ID, 1, 1.0, "pack", "name", data)])
            await store.append(ID, entries, expect=0)
            check_same(await store.read(ID), entries)

        self.run(tmp_path, main)

    def test_data_may_be_nested_as_deep_as_the_kernel_allows(self, tmp_path: Path) -> None:
        """100 levels of lists and objects."""
        data: Any = "the bottom"
        for level in range(MAX_DEPTH):
            data = {"deeper": data} if level % 2 else [data]

        async def main(store: SessionStore) -> None:
            entries = [Entry(1, Note(ID, 1, 1.0, "pack", "name", freeze(data)))]
            await store.append(ID, entries, expect=0)
            check_same(await store.read(ID), entries)

        self.run(tmp_path, main)

    def test_an_event_of_a_newer_pegboard_keeps_its_data(self, tmp_path: Path) -> None:
        """It is read as Unknown, with everything that it came with."""
        head = {"session": ID, "run": 1, "ts": 1.5, "id": "its own"}

        async def main(store: SessionStore) -> None:
            newer = [{"v": 1, "type": "dreamt", **head, "of": {"sheep": [1, True, None]}}]
            newer.append({"v": 9, "type": "message", **head, "step": 1, "text": "another shape"})
            entries = numbered([event_from_json(data) for data in newer])
            await store.append(ID, entries, expect=0)
            check_same(read := await store.read(ID), entries)
            assert all(isinstance(entry.event, Unknown) for entry in read), "an unknown event became a known one"
            assert [entry.event.as_json() for entry in read] == newer, "an unknown event lost data"

        self.run(tmp_path, main)

    def test_concurrent_writers_that_try_again_leave_a_dense_record(self, tmp_path: Path) -> None:
        """32 at once, on one session; nobody's entry is lost and none is there twice."""

        async def main(store: SessionStore) -> None:
            await asyncio.gather(*(append_one(store, f"writer {number}") for number in range(32)))
            check_dense(read := await store.read(ID))
            assert sorted(texts_of(read)) == sorted(f"writer {number}" for number in range(32)), "entries were lost"

        self.run(tmp_path, main)


async def _append(store: SessionStore, session: str, entries: Sequence[Entry], expect: int) -> None:
    await store.append(session, entries, expect=expect)


def _outside(tmp_path: Path) -> dict[Path, int]:
    """Everything beneath `tmp_path` that is not in the store's folder, with the time of its last change."""
    folder = folder_of(tmp_path)
    paths = (path for path in tmp_path.rglob("*") if path != folder and folder not in path.parents)
    return {path: path.stat().st_mtime_ns for path in paths}
