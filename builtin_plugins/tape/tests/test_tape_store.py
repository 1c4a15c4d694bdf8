"""The store keeps the kernel's contract, and what it promises beyond it: privacy, one file, nothing ever changed."""

import asyncio
import sqlite3
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pegboard import PegboardError, SessionStore
from pegboard.events import Note
from pegboard.testing import StoreContract
from pegboard.testing.samples import check_dense, numbered, said, texts_of
from pegboard_tape import schema
from pegboard_tape.manifest import manifest
from pegboard_tape.store import TapeStore
from pegboard_tape.upkeep import forget, verify

Open = Callable[..., TapeStore]
ID = "5e55101a"


async def kept(store: TapeStore, *texts: str, last: int = 0) -> None:
    """Append texts to one session."""
    await store.append(ID, said(ID, last + 1, *texts), expect=last)


class TestTapeStore(StoreContract):
    """Rules TP1 and cases 21, 64 and 66, by the kernel's own tests."""

    factory = "pegboard_tape.store:TapeStore"

    def make_store(self, folder: Path) -> TapeStore:
        return TapeStore(folder)

    async def close_store(self, store: SessionStore) -> None:
        assert isinstance(store, TapeStore)
        store.close()


# The file.


def test_only_the_owner_can_read_what_is_kept(open_store: Open, tmp_path: Path) -> None:
    """Case 69: also what was there with another mode, and what SQLite and the blobs add."""
    (tmp_path / "tape").mkdir()
    (tmp_path / "tape" / "tape.db").touch(0o644)
    store = open_store()
    asyncio.run(kept(store, "x" * 300_000))

    assert {path.name for path in (tmp_path / "tape").iterdir()} >= {"tape.db", "tape.db-wal", "blobs"}
    for path in (tmp_path / "tape").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path.name


@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing"])
def test_a_link_in_place_of_the_file_is_refused(open_store: Open, tmp_path: Path, there: bool) -> None:
    """Case 69: nothing is written to, or made at, the place that it leads to."""
    elsewhere = tmp_path / "elsewhere"
    if there:
        elsewhere.write_bytes(b"mine")
    (tmp_path / "tape").mkdir()
    (tmp_path / "tape" / "tape.db").symlink_to(elsewhere)

    with pytest.raises(PegboardError, match="is a link"):
        open_store()
    assert elsewhere.read_bytes() == b"mine" if there else not elsewhere.exists()


def test_a_file_of_a_newer_version_is_refused_and_stays_as_it_is(open_store: Open, tmp_path: Path) -> None:
    """Case 68: not a byte of it changes, and nothing appears beside it."""
    open_store().close()
    path = tmp_path / "tape" / "tape.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=99")
    connection.close()
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}

    with pytest.raises(PegboardError, match=r"newer Pegboard \(version 99.*left as it is"):
        open_store()
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


@pytest.mark.parametrize("content", [b"garbage" * 100, b"SQLite format 3\0" + bytes(4080)], ids=["text", "database"])
def test_a_file_that_the_pack_did_not_make_is_refused_and_stays_as_it_is(
    open_store: Open, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "tape").mkdir()
    (tmp_path / "tape" / "tape.db").write_bytes(content)

    with pytest.raises(PegboardError, match="not a file that pack `tape` made"):
        open_store()
    assert (tmp_path / "tape" / "tape.db").read_bytes() == content


def test_an_older_file_is_brought_up_to_date_with_everything_in_it(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later version adds its statements; what was kept before is still there."""
    store = open_store()
    asyncio.run(kept(store, "before"))
    store.close()
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, ("ALTER TABLE session ADD COLUMN colour TEXT",)))
    newer = open_store()

    asyncio.run(kept(newer, "after", last=1))
    assert texts_of(asyncio.run(newer.read(ID))) == ["before", "after"]
    assert asyncio.run(newer.look(lambda c: c.execute("SELECT colour FROM session").fetchall())) == [(None,)]
    assert asyncio.run(newer.look(lambda c: c.execute("PRAGMA user_version").fetchone())) == (2,)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET text = 'x'",
        "DELETE FROM entry",
        "REPLACE INTO entry SELECT seq, session, id + 1, kind, name, ref, ts, NULL, 'x', payload FROM entry",
        "REPLACE INTO entry SELECT seq + 1, session, id, kind, name, ref, ts, NULL, 'x', payload FROM entry",
        "REPLACE INTO entry SELECT seq + 1, session, id + 1, kind, name, ref, ts, provenance, 'x', '{}' FROM entry",
    ],
)
async def test_the_database_itself_keeps_entries_from_being_changed(store: TapeStore, statement: str) -> None:
    """Case 67: by whatever connection."""
    await store.append_once(ID, "once", said(ID, 1, "a")[0].event)
    connection = sqlite3.connect(store.path)

    with pytest.raises(sqlite3.IntegrityError, match="entries"):
        connection.execute(statement)
    connection.close()
    assert texts_of(await store.read(ID)) == ["a"]


def test_a_store_that_was_closed_says_so(store: TapeStore) -> None:
    store.close()
    for door in (kept(store, "a"), store.read(ID), store.sessions()):
        with pytest.raises(PegboardError, match="store is closed"):
            asyncio.run(door)


# Entries.


async def test_an_event_of_one_origin_is_kept_once(store: TapeStore) -> None:
    """TPS 2.1: the same key gives the row that is there, also to those who race; other data under it is an error."""
    event = Note(ID, 0, 1.0, "tape", "fork/merge", {"count": 1})
    raced = await asyncio.gather(*(store.append_once(ID, "fork:1", event) for _ in range(8)))

    assert sorted(raced) == [(1, False)] * 7 + [(1, True)]
    assert await store.append_once(ID, "fork:2", event) == (2, True)
    with pytest.raises(PegboardError, match="entry 1 from fork:1 already, and it says something else"):
        await store.append_once(ID, "fork:1", replace(event, name="fork/discard"))
    check_dense(await store.read(ID))


async def test_an_append_that_fails_does_not_take_those_beside_it_along(store: TapeStore) -> None:
    """Appends share a transaction; one that the database refuses is left out of it."""

    def broken(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO session(id, incarnation, last) VALUES('aaaaaaaa', 'x', 0)")
        connection.execute("INSERT INTO session(id, incarnation, last) VALUES('aaaaaaaa', 'y', 0)")

    sessions = [f"{number:08x}" for number in range(8)]
    beside = [store.append(session, said(session, 1, "a"), expect=0) for session in sessions]
    results = await asyncio.gather(*beside[:4], store.write(broken), *beside[4:], return_exceptions=True)

    assert [type(result) for result in results if result is not None] == [PegboardError]
    assert sorted(head.id for head in await store.sessions()) == sessions


async def test_when_the_file_can_hold_no_more_everyone_who_waits_is_told(
    store: TapeStore,
) -> None:
    """Case 70: writers whose work shared the transaction that failed are not left waiting."""
    await kept(store, "before")
    await store.write(lambda connection: connection.execute("PRAGMA max_page_count=1").fetchone())
    sessions = [f"{number:08x}" for number in range(40)]
    crowd = [store.append(session, said(session, 1, "x" * 3000), expect=0) for session in sessions]

    async with asyncio.timeout(20):
        told = await asyncio.gather(*crowd, return_exceptions=True)

    assert {type(error) for error in told} == {PegboardError}
    await store.write(lambda connection: connection.execute("PRAGMA max_page_count=1000000").fetchone())
    await kept(store, "after", last=1)


async def test_an_entry_whose_blob_is_gone_is_named_and_does_not_hide_the_others(store: TapeStore) -> None:
    await kept(store, "a", "b" * 300_000)
    assert [len(text) for text in texts_of(await store.read(ID))] == [1, 300_000]
    for path in store.blobs.folder.iterdir():
        path.unlink()

    with pytest.raises(PegboardError, match=f"session {ID}: entry 2 can't be read: there is no blob"):
        await store.read(ID)
    assert texts_of(await store.read(ID, limit=1)) == ["a"]
    (problem,) = await verify(store)
    assert problem.startswith(f"session {ID}: entry 2 is kept as blob")


async def test_a_session_that_was_forgotten_begins_as_another_incarnation(store: TapeStore) -> None:
    """TP2: entry 1 again; of what was there neither the index nor the record has anything, of others everything."""
    other = "0" * 8
    await kept(store, "the old needle")
    await store.append(other, said(other, 1, "needle"), expect=0)
    before = await store.look(_incarnations)

    assert await store.write(lambda connection: forget(connection, ID, 7)) == 0, "it went on meanwhile"
    assert await store.write(lambda connection: forget(connection, ID, 1)) == 1
    assert await store.read(ID) == []
    await kept(store, "the new one")
    after = await store.look(_incarnations)
    assert after[other] == before[other] and after[ID] != before[ID]
    found = await store.look(lambda c: c.execute("SELECT count(*) FROM word WHERE word MATCH 'needle'").fetchone())
    assert found == (1,)
    assert await verify(store) == []
    with pytest.raises(PegboardError, match="never deleted"):
        await store.write(lambda connection: connection.execute("DELETE FROM entry"))


async def test_a_manifest_that_was_changed_is_found(store: TapeStore) -> None:
    """TPS 2.8: it is told, never dropped."""
    good = manifest({"included": [[1, 2]]}, 1.0)
    notes = [Note(ID, 1, 1.0, "tape", "view/assembled", data) for data in (good, {**good, "included": []})]
    await store.append(ID, numbered(notes), expect=0)

    assert await verify(store) == [f"session {ID}: entry 2 is a manifest that was changed after it was made"]


def _incarnations(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT id, incarnation FROM session").fetchall())
