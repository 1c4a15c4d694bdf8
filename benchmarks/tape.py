"""The session store beside plain SQLite and a JSONL file: appending, reading since the last anchor, searching, memory.

python benchmarks/tape.py [--entries 1000000] [--only append|search]

Wall time, because the disk is what appending waits for; compare rows of one run only.
"""

import argparse
import asyncio
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from common import machine
from pegboard import Entry, Event
from pegboard.events import Note, Returned, Said
from pegboard.testing.jsonl import JsonlStore
from pegboard_tape.anchors import cursor_of
from pegboard_tape.rows import Row, insert
from pegboard_tape.search import Query, search
from pegboard_tape.store import TapeStore
from pegboard_tape.writer import Writer

ENGLISH = [
    "agent",
    "tool",
    "result",
    "error",
    "config",
    "anchor",
    "context",
    "search",
    "file",
    "path",
    "function",
    "value",
    "token",
    "budget",
    "database",
    "query",
]
CHINESE = [
    "会话",
    "记录",
    "检索",
    "上下文",
    "工具",
    "结果",
    "错误",
    "配置",
    "数据库",
    "迁移",
    "索引",
    "查询",
    "分支",
    "提交",
    "计划",
    "步骤",
    "服务器",
    "权限",
    "沙箱",
    "记忆",
]
JAPANESE = [
    "セッション",
    "文脈",
    "エージェント",
    "設定",
    "移行",
    "照会",
    "分岐",
    "確認",
    "手順",
    "再試行",
    "東京",
    "京都",
    "要約",
    "拡張",
    "方針",
]
SESSIONS = [f"{number:08x}" for number in range(10)]
WRITERS, EACH, ALONE = 32, 60, 1000
QUERIES = {
    "rare word": "needle",
    "common word": "database",
    "path": "src/app/module_7.py",
    "2 characters, common": "检索",
    "2 characters, rare": "纠缠",
    "1 character, rare": "纠",
    "miss, 2 characters": "龘龘",
    "miss, then looked for in the newest 20,000": "zzqqxx",
}
PLAIN = """CREATE TABLE entry(seq INTEGER PRIMARY KEY, session TEXT NOT NULL, id INTEGER NOT NULL, ts REAL NOT NULL,
    text TEXT NOT NULL, payload TEXT NOT NULL CHECK(json_valid(payload)), UNIQUE(session, id)) STRICT"""


def texts(seed: int = 1) -> Iterator[str]:
    """Yield texts of 200 to 600 bytes in three languages, for ever; every 1000th holds something rare."""
    chance = random.Random(seed)
    number = 0
    while True:
        number += 1
        kind = chance.random()
        if kind < 0.6:
            text = " ".join(chance.choices(ENGLISH, k=chance.randint(30, 80))) + f" src/app/module_{number % 997}.py"
        else:
            words = CHINESE if kind < 0.85 else JAPANESE
            text = "".join(chance.choices(words, k=chance.randint(30, 80)))
        yield text + " needle 量子纠缠" * (number % 1000 == 7)


def event(session: str, number: int, text: str) -> Event:
    """Make what a session is mostly made of; every 200th is an anchor."""
    if number % 200 == 0:
        state = {"state": {"summary": text, "cursorOrderSeq": number}}
        return Note(session, 1, float(number), "tape", "compaction/auto", state)
    if number % 2:
        return Said(session, 1, float(number), 1, text)
    return Returned(session, 1, float(number), 1, f"c{number}", "grep", "ok", None, "", text, None, 1.0)


def plain(path: Path, sync: str) -> sqlite3.Connection:
    """Open the table that a program would make that keeps entries and nothing else."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={sync}")
    connection.execute(PLAIN)
    connection.execute("CREATE VIRTUAL TABLE word USING fts5(text, content='entry', content_rowid='seq')")
    return connection


def text_of(entry: Entry) -> str:
    """Return what is searched for in an entry."""
    shape = entry.event.as_json()
    return str(shape.get("text") or shape.get("content") or shape.get("data"))


def insert_plain(connection: sqlite3.Connection, session: str, entry: Entry, index: bool = False) -> None:
    """Write one row, with its JSON; with `index` also into FTS5."""
    payload = json.dumps(entry.event.as_json(), ensure_ascii=False)
    text = text_of(entry)
    cursor = connection.execute(
        "INSERT INTO entry(session, id, ts, text, payload) VALUES(?, ?, ?, ?, ?)",
        (session, entry.id, entry.event.ts, text, payload),
    )
    if index:
        connection.execute("INSERT INTO word(rowid, text) VALUES(?, ?)", (cursor.lastrowid, text))


def told(name: str, entries: int, seconds: float, floor: float = 0.0) -> float:
    """Print a row; returns entries a second."""
    rate = entries / seconds
    share = f"  {rate / floor:4.0%} of plain SQLite" if floor else ""
    print(f"  {name:<52} {rate:8,.0f}/s  {seconds / entries * 1e6:7.0f} us each{share}", flush=True)
    return rate


def one_by_one(folder: Path) -> None:
    """One writer waits for each entry."""
    print(f"\nappend, one by one ({ALONE} entries)")
    made = [
        Entry(number, event("0" * 8, number, text)) for number, text in zip(range(1, ALONE + 1), texts(), strict=False)
    ]
    for sync in ("NORMAL", "FULL"):
        connection = plain(folder / f"plain-{sync}.db", sync)
        began = time.perf_counter()
        for entry in made:
            connection.execute("BEGIN IMMEDIATE")
            insert_plain(connection, "0" * 8, entry)
            connection.execute("COMMIT")
        floor = told(f"plain SQLite, {sync}, no index of words", ALONE, time.perf_counter() - began)
        connection.close()
        store = TapeStore(folder / f"tape-{sync}", durable=sync == "FULL")
        told(f"tape, {sync}", ALONE, _appending(store, made), floor)
        store.close()
    (folder / "jsonl").mkdir()
    told("Pegboard's reference store (JSONL, fsync)", ALONE, _appending(JsonlStore(folder / "jsonl"), made))
    for sync_it in (False, True):
        began = time.perf_counter()
        for entry in made:
            with open(folder / f"lines-{sync_it}.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(entry.as_json(), ensure_ascii=False) + "\n")
                if sync_it:
                    file.flush()
                    os.fsync(file.fileno())
        told(f"JSONL opened for each entry, {'fsync' if sync_it else 'no fsync'}", ALONE, time.perf_counter() - began)


def _appending(store: Any, made: list[Entry]) -> float:
    async def main() -> float:
        began = time.perf_counter()
        for entry in made:
            await store.append(entry.session, [entry], expect=entry.id - 1)
        return time.perf_counter() - began

    return asyncio.run(main())


def many_writers(folder: Path) -> None:
    """32 sessions append at once, every entry on the disk when it is acknowledged; both group what waits."""
    print(f"\nappend, {WRITERS} writers at once, durable ({WRITERS * EACH} entries, median of 3)")
    rates: dict[str, list[float]] = {"none": [], "fts5": [], "tape": []}
    for turn in range(3):
        for index in ("none", "fts5"):
            writer = Writer(
                plain(folder / f"many{index}{turn}.db", "FULL"), lambda error: RuntimeError(str(error)), True
            )

            async def append_plain(entry: Entry, writer: Writer = writer, index: bool = index == "fts5") -> None:
                await writer.run(lambda connection: insert_plain(connection, entry.session, entry, index))

            rates[index].append(_at_once(append_plain))
            writer.close()
        store = TapeStore(folder / f"many{turn}", durable=True)

        async def append_tape(entry: Entry, store: TapeStore = store) -> None:
            await store.append(entry.session, [entry], expect=entry.id - 1)

        rates["tape"].append(_at_once(append_tape))
        store.close()
    entries, median = WRITERS * EACH, {name: statistics.median(found) for name, found in rates.items()}
    told("plain SQLite, the same writing thread, no index", entries, entries / median["none"])
    told("plain SQLite with an FTS5 index (words, no CJK)", entries, entries / median["fts5"], median["none"])
    told("tape  (budget 60 %)", entries, entries / median["tape"], median["none"])


def _at_once(append: Callable[[Entry], Awaitable[None]]) -> float:
    made = {
        number: [
            Entry(place, event(f"{number:08x}", place, text))
            for place, text in zip(range(1, EACH + 1), texts(number), strict=False)
        ]
        for number in range(WRITERS)
    }

    async def client(number: int) -> None:
        for entry in made[number]:
            await append(entry)

    async def main() -> float:
        began = time.perf_counter()
        await asyncio.gather(*(client(number) for number in range(WRITERS)))
        return WRITERS * EACH / (time.perf_counter() - began)

    return asyncio.run(main())


def fill(folder: Path, entries: int) -> TapeStore:
    """Make a store with so many entries in ten sessions, in large transactions."""
    store = TapeStore(folder / "large")
    source = texts()
    began = time.perf_counter()

    async def main() -> None:
        for first in range(1, entries // 10 + 1, 2000):
            numbers = range(first, min(first + 2000, entries // 10 + 1))
            for session in SESSIONS:
                rows = [Row.of(event(session, number, next(source))) for number in numbers]
                await store.write(lambda c, session=session, rows=rows: _insert(c, session, rows))

    asyncio.run(main())
    size = sum(path.stat().st_size for path in store.path.parent.glob("tape.db*"))
    took = time.perf_counter() - began
    print(f"\n{entries:,} entries in {len(SESSIONS)} sessions: made in {took:.0f} s, {size / 1e6:.0f} MB")
    return store


def _insert(connection: sqlite3.Connection, session: str, rows: list[Row]) -> None:
    insert(connection, session, rows, None)


def looking(store: TapeStore) -> None:
    """Read since the last anchor, and search; medians of 7, warm."""

    async def since_anchor() -> int:
        cursor = await store.look(lambda connection: cursor_of(connection, SESSIONS[3]))
        return len(await store.read(SESSIONS[3], cursor - 1))

    row("read since the last anchor  (budget 1 ms)", since_anchor)
    for name, text in QUERIES.items():
        row(f"search, {name}  (budget 50 ms)", lambda text=text: _hits(store, Query(text)))
        row(f"search, {name}, in one session", lambda text=text: _hits(store, Query(text), SESSIONS[3]))
    row("search, common word, ranked", lambda: _hits(store, Query("database", ranked=True)))
    row("search, part of a common word, by substring", lambda: _hits(store, Query("atabas", substring=True)))


async def _hits(store: TapeStore, query: Query, *sessions: str) -> int:
    sources = dict.fromkeys(sessions) if sessions else None
    found = await store.look(lambda connection: search(connection, store.blobs.get, query, sources))
    return len(found.hits)


def row(name: str, work: Callable[[], Awaitable[int]]) -> None:
    """Time something, and print its median."""

    async def main() -> tuple[float, int]:
        times, found = [], 0
        for _ in range(7):
            began = time.perf_counter()
            found = await work()
            times.append(time.perf_counter() - began)
        return statistics.median(times), found

    seconds, found = asyncio.run(main())
    print(f"  {name:<58} {seconds * 1000:9.2f} ms  {found:>3} found", flush=True)


def lines(store: TapeStore, folder: Path) -> None:
    """The same questions to a JSONL file of one session, which has to be read for each."""
    path = folder / "one.jsonl"
    entries = asyncio.run(store.read(SESSIONS[3]))
    path.write_text("".join(json.dumps(entry.as_json(), ensure_ascii=False) + "\n" for entry in entries), "utf-8")

    async def scan(word: str) -> int:
        found = [line for line in path.open(encoding="utf-8") if word in line.casefold()]
        return len([json.loads(line) for line in found[-20:]])

    async def load() -> int:
        read = [json.loads(line) for line in path.open(encoding="utf-8")]
        last = max(place for place, shape in enumerate(read) if shape.get("name") == "compaction/auto")
        return len(read) - last

    print(f"\na JSONL file of one of the sessions ({len(entries):,} entries)")
    row("read it, then since the last anchor", load)
    row("scan it for a rare word", lambda: scan("needle"))
    row("scan it for nothing", lambda: scan("zzqqxx"))


def memory(store: TapeStore) -> None:
    """What a process needs that opens the store and searches it."""
    code = (
        "import asyncio, sys\nfrom pathlib import Path\nimport pegboard_tape.search as s\n"
        "from pegboard_tape.store import TapeStore\n"
        "def rss(): return int(Path('/proc/self/statm').read_text().split()[1]) * 4096 // 2**20\n"
        "bare = rss()\nstore = TapeStore(Path(sys.argv[1]))\n"
        "asyncio.run(store.look(lambda c: s.search(c, store.blobs.get, s.Query('database'))))\n"
        "asyncio.run(store.look(lambda c: s.search(c, store.blobs.get, s.Query('zzqqxx'))))\n"
        "print(bare, rss())"
    )
    ended = subprocess.run([sys.executable, "-c", code, store.path.parent], capture_output=True, text=True, check=True)
    bare, used = ended.stdout.split()
    print(f"\nmemory: {used} MB after two searches, {bare} MB before the store was opened")


def main() -> None:
    """Measure."""
    options = argparse.ArgumentParser()
    options.add_argument("--entries", type=int, default=100_000)
    options.add_argument("--only", choices=["append", "search"])
    chosen = options.parse_args()
    print(f"{machine()}, SQLite {sqlite3.sqlite_version}")
    with tempfile.TemporaryDirectory(prefix="pegboard-tape-") as name:
        folder = Path(name)
        if chosen.only != "search":
            one_by_one(folder)
            many_writers(folder)
        if chosen.only != "append":
            store = fill(folder, chosen.entries)
            looking(store)
            lines(store, folder)
            memory(store)
            store.close()


if __name__ == "__main__":
    main()
