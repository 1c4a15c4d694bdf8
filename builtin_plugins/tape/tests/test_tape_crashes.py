"""What is left after kill -9 and on a full disk: everything that was acknowledged, dense, and nothing torn."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pegboard import PegboardError
from pegboard.testing.samples import check_dense, said, texts_of
from pegboard_tape.store import TapeStore
from pegboard_tape.upkeep import verify

Open = Callable[..., TapeStore]
SHARED = "5e55101a"
# 50 in .ci/full: each round is several processes that are killed while they write.
ROUNDS = int(os.environ.get("TAPE_KILL_ROUNDS", "5"))

# Appends to a session of its own and to one that all share, and says what was acknowledged.
WRITER = """
import asyncio, sys
from pathlib import Path
from pegboard import Conflict
from pegboard.testing.samples import said
from pegboard_tape.store import TapeStore

async def main(folder, own, shared):
    store, number = TapeStore(folder), 0
    last = {own: len(await store.read(own)), shared: 0}
    while True:
        for session in (own, shared):
            number += 1
            try:
                text = f"{own} {number} " + "x" * 2000
                await store.append(session, said(session, last[session] + 1, text), expect=last[session])
                last[session] += 1
                print(session, f"{own} {number}", flush=True)
            except Conflict:
                last[session] += len(await store.read(session, last[session]))

asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
"""


@pytest.mark.skipif(os.name == "nt", reason="processes are killed with SIGKILL")
def test_killed_writers_lose_nothing_that_was_acknowledged(open_store: Open, tmp_path: Path) -> None:
    """Case 66: three processes that write to their own sessions and to a shared one, killed at any moment."""
    chance = random.Random(7)
    for round_ in range(ROUNDS):
        owners = [f"{round_:04x}{number:04x}" for number in range(3)]
        acknowledged = _killed_writers(tmp_path / "tape", owners, 0.2 + chance.random() / 5)
        store = open_store()

        assert asyncio.run(verify(store)) == []
        for session in (*owners, SHARED):
            check_dense(read := asyncio.run(store.read(session)))
            kept = Counter(text.rpartition(" ")[0] for text in texts_of(read))
            assert max(kept.values(), default=1) == 1, f"an entry of {session} was kept twice"
            assert set(acknowledged[session]) <= set(kept), f"entries of {session} were lost"
        store.close()


def _killed_writers(folder: Path, owners: list[str], seconds: float) -> dict[str, list[str]]:
    """Let writers go on for a while, kill them, and return what they were told is kept, by session."""
    folder.mkdir(exist_ok=True)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, folder, owner, SHARED], stdout=subprocess.PIPE, text=True)
        for owner in owners
    ]
    lines = [writer.stdout.readline() for writer in writers if writer.stdout]  # all of them write by now
    time.sleep(seconds)
    for writer in writers:
        writer.send_signal(signal.SIGKILL)
    rest = "".join(writer.communicate()[0].rpartition("\n")[0] + "\n" for writer in writers)
    told: dict[str, list[str]] = {session: [] for session in (*owners, SHARED)}
    for line in [*lines, *rest.splitlines()]:
        session, _, text = line.strip().partition(" ")
        if session:
            told[session].append(text)
    return told


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB; skipped where none can be mounted."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mounts a tmpfs")
def test_on_a_full_disk_an_append_fails_clearly_and_earlier_entries_stay(open_store: Open, small_disk: Path) -> None:
    """Case 70: one line that says what, where and what to do; with room again, the session goes on."""
    store, last = open_store(small_disk / "tape"), 0
    (ballast := small_disk / "ballast").write_bytes(bytes(500_000))
    with pytest.raises(PegboardError, match=r"tape\.db can't be written: .*(full|I/O).*make room") as caught:
        for _ in range(2000):
            asyncio.run(store.append(SHARED, said(SHARED, last + 1, "x" * 5000), expect=last))
            last += 1
    assert "\n" not in str(caught.value)
    check_dense(read := asyncio.run(store.read(SHARED)))
    assert len(read) == last > 10
    with pytest.raises(PegboardError, match=r"blobs.* can't be written: No space left on device; make room"):
        asyncio.run(store.put_blob(os.urandom(1_000_000)))

    ballast.unlink()
    asyncio.run(store.append(SHARED, said(SHARED, last + 1, "and on"), expect=last))
    assert asyncio.run(verify(store)) == []
    store.close()
