"""Stores: those that Pegboard brings keep the contract, and the contract notices a store that does not."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pegboard import Conflict, PegboardError
from pegboard.record.stores import MemoryStore, SessionStore
from pegboard.testing import StoreContract
from pegboard.testing.durability import ID
from pegboard.testing.jsonl import JsonlStore
from pegboard.testing.samples import said, texts_of
from pegboard.values.entries import Entry


class TestMemoryStore(StoreContract):
    """The store that is used when no pack brings one."""

    durable = False

    def make_store(self, folder: Path) -> SessionStore:
        return MemoryStore()


class TestJsonlStore(StoreContract):
    """The reference store."""

    factory = "pegboard.testing.jsonl:JsonlStore"

    def make_store(self, folder: Path) -> SessionStore:
        return JsonlStore(folder)


def session_file(folder: Path) -> Path:
    return folder / "sessions" / f"{ID}.jsonl"


def append(folder: Path, first: int, *texts: str) -> None:
    asyncio.run(JsonlStore(folder).append(ID, said(ID, first, *texts), expect=first - 1))


def texts(folder: Path) -> list[str]:
    return texts_of(asyncio.run(JsonlStore(folder).read(ID)))


# The reference store's own cases.


@pytest.mark.parametrize("tail", [b"[", b'[{"id": 3, "v": 1', b"\0" * 4096, b"\xff\xfe", b"[" * 100_000])
def test_a_torn_last_line_is_ignored_and_cut_at_the_next_append(tmp_path: Path, tail: bytes) -> None:
    """What a crash left of an append that nobody was told is kept."""
    append(tmp_path, 1, "a", "b")
    whole = session_file(tmp_path).read_bytes()
    session_file(tmp_path).write_bytes(whole + tail)
    assert texts(tmp_path) == ["a", "b"]
    append(tmp_path, 3, "c")
    assert texts(tmp_path) == ["a", "b", "c"]
    assert session_file(tmp_path).read_bytes().startswith(whole + b"[{")


def test_a_file_that_is_torn_anywhere_holds_the_appends_before(tmp_path: Path) -> None:
    """Cut the file after every single byte: never an error, and never a part of an append."""
    append(tmp_path, 1, "a")
    append(tmp_path, 2, "b", "c")
    data = session_file(tmp_path).read_bytes()
    first = data.index(b"\n") + 1
    for size in range(len(data) + 1):
        session_file(tmp_path).write_bytes(data[:size])
        assert len(texts(tmp_path)) == (0 if size < first else 1 if size < len(data) else 3)


@pytest.mark.parametrize(
    "garbage",
    [
        b"garbage",
        b"",
        b"\0\0\0\0",
        b"\xff\xfe",
        b"[" * 100_000,
        b"{}",
        b"3",
        b"null",
        b"[null]",
        b'["text"]',
        b"[{}]",
        b'[{"id": 2}]',
        b'[{"seq": 2}]',
        b'[{"id": 2, "seq": 2, "v": "one", "type": "message", "session": "a", "run": 1, "ts": 1}]',
        b'[{"id": 2, "seq": 2, "v": 1, "type": "step_end", "session": "a", "run": 1, "ts": 1, "step": 1, "usage": 3}]',
        b'[{"id": 9, "seq": 9, "v": 1, "type": "other", "session": "a", "run": 1, "ts": 1}]',
    ],
    ids=lambda garbage: repr(garbage[:30]),
)
def test_garbage_in_the_middle_is_one_clear_error_that_names_file_and_line(tmp_path: Path, garbage: bytes) -> None:
    """Reading, appending and listing refuse it, and the file stays as it is, to be mended."""
    append(tmp_path, 1, "a")
    append(tmp_path, 2, "b")
    [one, two] = session_file(tmp_path).read_bytes().splitlines(keepends=True)
    session_file(tmp_path).write_bytes(one + garbage + b"\n" + two)
    store = JsonlStore(tmp_path)
    for door in (store.read(ID), store.append(ID, said(ID, 3, "c"), expect=2), store.sessions()):
        with pytest.raises(PegboardError) as caught:
            asyncio.run(door)
        assert str(caught.value).startswith(f"{session_file(tmp_path)}, line 2, is damaged")
        assert "\n" not in str(caught.value)
    assert session_file(tmp_path).read_bytes() == one + garbage + b"\n" + two


def test_a_damaged_session_does_not_touch_another(tmp_path: Path) -> None:
    append(tmp_path, 1, "a")
    (tmp_path / "sessions" / "aaaaaaaa.jsonl").write_text("garbage\n", "utf-8")
    assert texts(tmp_path) == ["a"]


def test_a_file_of_another_name_is_no_session(tmp_path: Path) -> None:
    append(tmp_path, 1, "a")
    (tmp_path / "sessions" / "notes.jsonl").write_text("garbage\n", "utf-8")
    assert [head.id for head in asyncio.run(JsonlStore(tmp_path).sessions())] == [ID]


@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing"])
def test_a_symbolic_link_in_place_of_a_session_is_refused(tmp_path: Path, there: bool) -> None:
    """Nothing is written to, read from, or made at the place that it leads to."""
    store, elsewhere = JsonlStore(tmp_path), tmp_path / "elsewhere"
    if there:
        elsewhere.write_text("[]\n", "utf-8")
    session_file(tmp_path).symlink_to(elsewhere)
    for door in (store.append(ID, said(ID, 1, "a"), expect=0), store.read(ID)):
        with pytest.raises(PegboardError, match="is a symbolic link"):
            asyncio.run(door)
    assert elsewhere.exists() == there
    assert not there or elsewhere.read_text("utf-8") == "[]\n"


def test_a_folder_in_place_of_a_session_is_a_clear_error(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    session_file(tmp_path).mkdir()
    for door in (store.append(ID, said(ID, 1, "a"), expect=0), store.read(ID)):
        with pytest.raises(PegboardError, match=r"can't be (opened|read): Is a directory"):
            asyncio.run(door)


def test_only_the_owner_may_read_what_is_kept(tmp_path: Path) -> None:
    """Whatever the umask is: folders 0700, files 0600."""
    before = os.umask(0)
    try:
        append(tmp_path, 1, "a")
        asyncio.run(JsonlStore(tmp_path).put_blob(b"secret"))
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert len(modes) == 4


_FULL = """
import asyncio, resource, sys
from pathlib import Path
from pegboard.base.errors import PegboardError
from pegboard.testing.jsonl import JsonlStore
from pegboard.testing.samples import said
store = JsonlStore(Path(sys.argv[1]))
for door in (store.append("5e55101a", said("5e55101a", 3, "x" * 100_000), expect=2), store.put_blob(b"x" * 100_000)):
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
    try:
        asyncio.run(door)
    except PegboardError as error:
        print(error)
"""


def test_a_full_disk_is_a_clear_error_and_leaves_what_was_there(tmp_path: Path) -> None:
    """A limit on the file's size stands for the disk: a part is written, then no more."""
    append(tmp_path, 1, "a", "b")
    before = session_file(tmp_path).read_bytes()
    child = [sys.executable, "-c", _FULL, str(tmp_path)]
    ended = subprocess.run(child, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stderr == ""
    assert [line.partition(" can't be written: ")[2] for line in ended.stdout.splitlines()] == [
        "File too large; nothing was added to it",
        "File too large",
    ]
    assert session_file(tmp_path).read_bytes() == before
    assert list((tmp_path / "blobs").iterdir()) == []
    append(tmp_path, 3, "c")
    assert texts(tmp_path) == ["a", "b", "c"]


@pytest.mark.parametrize("wrong", [said(ID, 2, "a"), said("aaaaaaaa", 1, "a"), said(ID, 1, "a") * 2])
def test_entries_that_do_not_follow_are_refused(tmp_path: Path, wrong: list[Entry]) -> None:
    """Wrong numbers, or another session's: the file could not be read again."""
    with pytest.raises(ValueError, match="takes its own entries only, numbered from 1"):
        asyncio.run(JsonlStore(tmp_path).append(ID, wrong, expect=0))
    assert texts(tmp_path) == []


# Properties that a store in files and one in memory share.

_pieces = st.lists(st.tuples(st.integers(-1, 1), st.lists(st.text(st.characters(codec=None)), max_size=3)), max_size=8)


@given(pieces=_pieces, after=st.integers(0, 9), limit=st.none() | st.integers(0, 9))
def test_both_stores_agree_on_every_history(
    tmp_path_factory: pytest.TempPathFactory,
    pieces: list[tuple[int, list[str]]],
    after: int,
    limit: int | None,
) -> None:
    """Appends with right and wrong expectations: the same conflicts, the same record."""

    async def history(store: SessionStore) -> tuple[list[bool], Sequence[Entry], Sequence[Entry]]:
        last, accepted = 0, []
        for off, spoken in pieces:
            expect = max(0, last + off)
            try:
                await store.append(ID, said(ID, expect + 1, *spoken), expect=expect)
                last += len(spoken)
                accepted.append(True)
            except Conflict:
                accepted.append(False)
        return accepted, list(await store.read(ID)), list(await store.read(ID, after, limit))

    durable = asyncio.run(history(JsonlStore(tmp_path_factory.mktemp("store"))))
    assert durable == asyncio.run(history(MemoryStore()))
    assert [entry.id for entry in durable[1]] == list(range(1, len(durable[1]) + 1))


# Stores with one fault each: the contract finds it.


class LosesOrder(MemoryStore):
    async def read(self, session: str, after: int = 0, limit: int | None = None) -> Sequence[Entry]:
        return list(await super().read(session, after, limit))[::-1]


class IgnoresExpect(MemoryStore):
    async def append(self, session: str, entries: Sequence[Entry], *, expect: int) -> None:
        await super().append(session, entries, expect=len(await self.read(session)))


class HalfAppends(MemoryStore):
    async def append(self, session: str, entries: Sequence[Entry], *, expect: int) -> None:
        for place, entry in enumerate(entries):
            json.dumps(entry.as_json())
            await super().append(session, [entry], expect=expect + place)


class AppendsAcrossAwaits(HalfAppends):
    async def append(self, session: str, entries: Sequence[Entry], *, expect: int) -> None:
        for place, entry in enumerate(entries):
            await super().append(session, [entry], expect=expect + place)
            await asyncio.sleep(0)


class ChecksThenAppends(MemoryStore):
    async def append(self, session: str, entries: Sequence[Entry], *, expect: int) -> None:
        if len(await self.read(session)) != expect:
            raise Conflict("late")
        await asyncio.sleep(0)
        await super().append(session, entries, expect=len(await self.read(session)))


class DropsBlobs(MemoryStore):
    async def get_blob(self, key: str) -> bytes:
        raise LookupError(key)


class NamesBlobsAnew(MemoryStore):
    async def put_blob(self, data: bytes) -> str:
        await super().put_blob(data)
        return os.urandom(32).hex()


class ReturnsNothingForAMissingBlob(MemoryStore):
    async def get_blob(self, key: str) -> bytes:
        return self._blobs.get(key, b"")


class ForgetsLimit(MemoryStore):
    async def read(self, session: str, after: int = 0, limit: int | None = None) -> Sequence[Entry]:
        return await super().read(session, after)


class ListsByLastAppend(MemoryStore):
    async def append(self, session: str, entries: Sequence[Entry], *, expect: int) -> None:
        await super().append(session, entries, expect=expect)
        self._sessions[session] = self._sessions.pop(session)


class TakesAnyId(MemoryStore):
    async def append(self, session: str, entries: Sequence[Entry], *, expect: int) -> None:
        self._sessions.setdefault(session, []).extend(entries)


class MakesNumbersOfBooleans(MemoryStore):
    async def read(self, session: str, after: int = 0, limit: int | None = None) -> Sequence[Entry]:
        def changed(entry: Entry) -> Entry:
            shape = json.dumps(entry.as_json()).replace(": true", ": 1").replace(": false", ": 0")
            return Entry.from_json(json.loads(shape))

        return [changed(entry) for entry in await super().read(session, after, limit)]


class ReplacesSurrogates(MemoryStore):
    async def append(self, session: str, entries: Sequence[Entry], *, expect: int) -> None:
        clean = [entry.rewriting(lambda text: text.encode("utf-8", "replace").decode()) for entry in entries]
        await super().append(session, clean, expect=expect)


C = StoreContract


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (LosesOrder, C.test_entries_of_every_type_come_back_equal_and_in_order),
        (LosesOrder, C.test_several_appends_make_one_record_with_dense_ids),
        (
            IgnoresExpect,
            lambda contract, path: contract.test_a_wrong_expectation_is_a_conflict_and_leaves_nothing(path, 1),
        ),
        (HalfAppends, C.test_entries_are_kept_all_or_none),
        (AppendsAcrossAwaits, C.test_a_cancelled_append_is_there_whole_or_not_at_all),
        (ChecksThenAppends, C.test_concurrent_writers_that_try_again_leave_a_dense_record),
        (DropsBlobs, lambda contract, path: contract.test_a_blob_is_found_by_its_hash(path, 1)),
        (NamesBlobsAnew, lambda contract, path: contract.test_a_blob_is_found_by_its_hash(path, 1)),
        (
            ReturnsNothingForAMissingBlob,
            lambda contract, path: contract.test_a_blob_that_is_not_there_is_a_lookup_error(path, "0" * 64),
        ),
        (ForgetsLimit, C.test_after_and_limit_choose_a_piece_of_the_record),
        (ListsByLastAppend, C.test_sessions_are_listed_from_the_newest),
        (
            TakesAnyId,
            lambda contract, path: contract.test_a_hostile_session_id_is_refused_before_anything_is_touched(path, ""),
        ),
        (MakesNumbersOfBooleans, C.test_entries_of_every_type_come_back_equal_and_in_order),
        (ReplacesSurrogates, lambda contract, path: contract.test_any_text_is_kept_as_it_is(path, "\ud800")),
    ],
    ids=lambda value: getattr(value, "__name__", "").replace("<lambda>", ""),
)
def test_the_contract_catches_a_broken_store(
    tmp_path: Path, broken: type[MemoryStore], test: Callable[[StoreContract, Path], None]
) -> None:
    """One seeded fault each; the unbroken store passes the same test, in TestMemoryStore."""

    class Contract(StoreContract):
        durable = False

        def make_store(self, folder: Path) -> SessionStore:
            return broken()

    with pytest.raises((AssertionError, LookupError, pytest.fail.Exception)):
        test(Contract(), tmp_path)


_TOO_EARLY = """
from pegboard.testing.jsonl import JsonlStore

class TooEarly(JsonlStore):
    waiting = ()

    async def append(self, session, entries, *, expect):
        self.waiting = (*self.waiting, *entries)
        if len(self.waiting) % 4 == 0:
            await super().append(session, self.waiting, expect=self.waiting[0].id - 1)
            self.waiting = ()
"""

_IN_PARTS = """
import asyncio
from pegboard.testing.jsonl import JsonlStore

class InParts(JsonlStore):
    async def append(self, session, entries, *, expect):
        for entry in entries:
            await super().append(session, [entry], expect=entry.id - 1)
            await asyncio.sleep(0.05)
"""


@pytest.mark.parametrize(("name", "code"), [("TooEarly", _TOO_EARLY), ("InParts", _IN_PARTS)])
def test_the_contract_catches_a_store_that_does_not_survive_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str
) -> None:
    """One acknowledges what it only holds in memory, one leaves a part of an append."""
    (tmp_path / f"broken_{name}.py").write_text(code, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))

    class Contract(TestJsonlStore):
        factory = f"broken_{name}:{name}"

    with pytest.raises(AssertionError, match=r"acknowledged|in part"):
        Contract().test_a_killed_process_loses_nothing_that_it_was_told_is_kept(tmp_path)
