"""Search finds words of any script, paths, and literally what was typed; newest first, and only what counts."""

import asyncio
import itertools
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pegboard import Entry, Event, ToolCall
from pegboard.events import Called, Note, Replied, Returned, Said
from pegboard_tape.facts import fact_of
from pegboard_tape.search import RANKED, Found, Query, search
from pegboard_tape.store import TapeStore
from pegboard_tape.view import effective
from pegboard_tape.words import fold

ID = "5e55101a"
OTHER = "0123abcd"
HEAD = (ID, 1, 1.0)


async def keep(store: TapeStore, *events: Event | str, session: str = ID) -> None:
    """Append events; a text is what a person said, a second after the one before."""
    last = len(await store.read(session))
    made = [
        Said(session, 1, 1000.0 + place, 1, event) if isinstance(event, str) else event
        for place, event in enumerate(events, last + 1)
    ]
    await store.append(session, [Entry(place, event) for place, event in enumerate(made, last + 1)], expect=last)


async def found(store: TapeStore, text: str, *sessions: str, **options: Any) -> Found:
    sources = dict.fromkeys(sessions) if sessions else None
    return await store.look(lambda c: search(c, store.blobs.get, Query(text, **options), sources))


async def ids(store: TapeStore, text: str, *sessions: str, **options: Any) -> list[int]:
    return [hit.id for hit in (await found(store, text, *sessions, **options)).hits]


TEXTS = [
    "The Database was migrated to src/app/retry.py:12",
    "数据库的量子纠缠测试",
    "東京の検索セッション",
    "ÜBER den Naïveté-Test, ﬁne",
    "한국어 검색",
    "100%_x and 100abx",
    'say "NEAR(a OR b)" * ^ {text} : x',
    "纠",
]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("database", [1]),
        ("DATA migr", [1]),
        ("src/app/retry.py", [1]),
        ("retry.py:12", [1]),
        ("app/retry", [1]),
        ("数据库", [2]),
        ("纠缠", [2]),
        ("纠", [8, 2]),
        ("缠", [2]),
        ("試", []),
        ("東京", [3]),
        ("検索セ", [3]),
        ("über naïveté", [4]),
        ("ﬁne", [4]),
        ("fine", [4]),
        ("검색", [5]),
        ("어", [5]),
        ("100%_x", [6]),
        ("%", [6]),
        ("_", [6]),
        ('"NEAR(a OR', [7]),
        ("NEAR(", [7]),
        ('" OR 1 NEAR(', []),
        ("{text} :", [7]),
        ("*", [7]),
        ("a\0b\ud800", []),
        ("   ", []),
        ("the nowhere", []),
    ],
)
async def test_what_is_typed_is_found_as_it_stands(store: TapeStore, query: str, wanted: list[int]) -> None:
    """TP4 and case 63: Latin words and their beginnings, paths, one and two characters of CJK; never query syntax."""
    await keep(store, *TEXTS)

    assert await ids(store, query) == wanted


async def test_the_newest_come_first_up_to_the_limit(store: TapeStore) -> None:
    await keep(store, *(f"note {number}" for number in range(30)))

    assert await ids(store, "note", limit=3) == [30, 29, 28]
    assert len(await ids(store, "note")) == 20


async def test_kinds_and_times_choose(store: TapeStore) -> None:
    """TP3: bounds are inclusive."""
    await keep(store, "word one", "word two", "word three", Note(ID, 1, 1004.0, "tape", "handoff/x", {"a": "word"}))

    assert await ids(store, "word", kinds=("anchor",)) == [4]
    assert await ids(store, "word", kinds=("message", "anchor"), start=1002.0, end=1003.0) == [3, 2]


async def test_another_session_is_never_found(store: TapeStore) -> None:
    """TP6: neither by the index nor by parts of words; without sources every session is searched."""
    await keep(store, "a secret word")
    await keep(store, "a word", session=OTHER)

    assert await ids(store, "secret", OTHER) == []
    assert await ids(store, "ecre", OTHER, substring=True) == []
    assert [hit.session for hit in (await found(store, "word")).hits] == [OTHER, ID]
    assert await ids(store, "word", "ffffffff") == []


async def test_what_does_not_count_is_not_found(store: TapeStore) -> None:
    """TP7 to TP9, TP37: retracted, superseded and pending facts."""
    await keep(store, "wrong word", Note(*HEAD, "p", "message/revised", {"entry": 1, "text": "right word"}))
    reply = Replied(*HEAD, 1, "", (ToolCall("c1", "grep", "{}"),))
    call = Called(*HEAD, 1, "c1", "grep", {"pattern": "word"}, "read", "p")
    await keep(store, reply, call, Note(*HEAD, "p", "execution/x", {"a": "word"}))

    assert await ids(store, "word") == [2]
    await keep(store, Returned(*HEAD, 1, "c1", "grep", "ok", None, "", "a word", None, 1.0))
    assert await ids(store, "word") == [6, 4, 2]


async def test_parts_of_words_are_found_where_the_index_finds_nothing(store: TapeStore) -> None:
    await keep(store, "the database", "a base")

    assert await ids(store, "atabas") == [1]
    assert await ids(store, "base") == [2]
    assert (await found(store, "base", substring=True)).substring
    assert await ids(store, "base", substring=True) == [2, 1]


async def test_ranking_puts_the_best_of_the_newest_first(store: TapeStore) -> None:
    await keep(store, "word word word", "one word", "word " + "filling " * 500)
    hits = (await found(store, "word", ranked=True)).hits

    assert [hit.id for hit in hits] == [1, 2, 3]
    assert [hit.score for hit in hits] == sorted(hit.score for hit in hits if hit.score is not None)
    await keep(store, *(["word again"] * RANKED))
    assert 1 not in await ids(store, "word", ranked=True, limit=50)


async def test_a_search_ends_with_its_time(store: TapeStore) -> None:
    """It says that it is not complete; the next one is not touched by that."""
    await keep(store, *(["a word"] * 100))

    assert not (await found(store, "wor", limit=100, seconds=0.0)).complete
    assert len((await found(store, "wor", limit=100)).hits) == 100


def test_a_frozen_head_hides_what_came_later(open_store: Callable[..., TapeStore]) -> None:
    """TP27."""
    store = open_store()
    asyncio.run(keep(store, "word one", "word two"))
    looked = store.look(lambda c: search(c, store.blobs.get, Query("word"), {ID: 1}))

    assert [hit.id for hit in asyncio.run(looked).hits] == [1]


NUMBERS = itertools.count(1)
WORDS = st.sampled_from(["ab", "abc", "b", "数据", "据库", "数", "Ab", "a-b", "x_y"])
CALLS = st.sampled_from(["c1", "c2"])


@st.composite
def events(draw: st.DrawFn) -> Sequence[Event]:
    kinds = draw(st.lists(st.sampled_from(["said", "reply", "call", "return", "retract", "revise"]), max_size=12))
    return [_drawn(draw, kind) for kind in kinds]


def _drawn(draw: st.DrawFn, kind: str) -> Event:
    text = " ".join(draw(st.lists(WORDS, min_size=1, max_size=3)))
    match kind:
        case "said":
            return Said(*HEAD, 1, text)
        case "reply":
            return Replied(*HEAD, 1, text, tuple(ToolCall(draw(CALLS), "t", "{}") for _ in range(1)))
        case "call":
            return Called(*HEAD, 1, draw(CALLS), "t", {"a": text}, "read", "p")
        case "return":
            return Returned(*HEAD, 1, draw(CALLS), "t", "ok", None, "", text, None, 1.0)
    data = {"entry": draw(st.integers(1, 6)), "text": text}
    return Note(*HEAD, "p", "message/retracted" if kind == "retract" else "message/revised", data)


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TapeStore]:
    store = TapeStore(tmp_path_factory.mktemp("tape"))
    yield store
    store.close()


@given(made=events(), query=WORDS)
def test_search_agrees_with_a_scan_of_the_effective_view(
    shared_store: TapeStore, made: Sequence[Event], query: str
) -> None:
    """TP15, TP17, TP18 as DESIGN 6 has them: the index is never stale, whatever is appended and corrected."""
    session = f"{next(NUMBERS):08x}"
    entries = [Entry(place, replace(event, session=session)) for place, event in enumerate(made, 1)]
    asyncio.run(shared_store.append(session, entries, expect=0))
    scanned = [entry.id for entry in effective(entries) if fold(query) in fold(fact_of(entry.event).text)]

    assert asyncio.run(ids(shared_store, query, session, limit=50, substring=True)) == scanned[::-1]


def test_the_index_gives_way_to_no_other_plan(open_store: Callable[..., TapeStore]) -> None:
    """The newest first comes from the index itself: nothing is sorted, whatever there is."""
    store = open_store()
    explained = (
        "EXPLAIN QUERY PLAN SELECT e.id FROM word CROSS JOIN entry e ON e.seq = word.rowid "
        "CROSS JOIN session s ON s.key = e.session WHERE word MATCH 'x' ORDER BY word.rowid DESC"
    )

    def work(connection: sqlite3.Connection) -> list[str]:
        return [row[3] for row in connection.execute(explained)]

    assert not [step for step in asyncio.run(store.look(work)) if "TEMP B-TREE" in step]
