"""`pegboard tape ...` from the outside: what people and programs read, and what they can move and throw away."""

import asyncio
import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pegboard import Entry, Event, RunEnd, ToolCall, Usage, UsageError
from pegboard.events import Called, Note, Replied, Returned, RunStart, Said, SessionStart, StepEnd, StepStart
from pegboard.testing.samples import every_event, numbered
from pegboard_tape.jsonl import export_lines, import_lines
from pegboard_tape.page import page
from pegboard_tape.store import TapeStore
from pegboard_tape.timeline import timeline
from pegboard_tape.upkeep import find_rubbish, sweep, verify

Command = Callable[..., Any]
Pegboard = Callable[..., subprocess.CompletedProcess[str]]
ID = "5e55101a"
OTHER = "5e55aaaa"
NASTY = "<script>alert(1)</script> \x1b]8;;evil\x07 \u202e"


def a_run(
    session: str = ID,
    *,
    text: str = "It is in dispatch.py",
    reason: Any = "completed",
    at: float = 1e9,
    directory: str = "/work",
) -> list[Event]:
    """A session with one run of two steps, the first of which calls a tool."""
    head = (session, 1)
    used = Usage(1200, 34)
    return [
        SessionStart(session, 0, at, directory, "main", None, 0),
        RunStart(
            *head, at, "main", "scripted:x", "scripted model", "/work", ("grep",), (), "h", "Where is it?", "1 1 1"
        ),
        StepStart(*head, at, 1),
        Said(*head, at, 1, "Where is it?"),
        Replied(*head, at + 1.5, 1, "", (ToolCall("c1", "grep", '{"pattern": "guard"}'),)),
        Called(*head, at + 1.5, 1, "c1", "grep", {"pattern": "guard"}, "read", "workspace"),
        Returned(*head, at + 2, 1, "c1", "grep", "ok", None, "14 matches", "dispatch.py:104", None, 512.0),
        StepEnd(*head, at + 2, 1, used),
        StepStart(*head, at + 2, 2),
        Replied(*head, at + 3, 2, text, ()),
        StepEnd(*head, at + 3, 2, Usage()),
        RunEnd(*head, at + 3, reason, text, used, 2, 1, 0, 3000.0),
    ]


def keep(folder: Path, *sessions: list[Event]) -> None:
    """Put sessions into a store."""
    store = TapeStore(folder)
    for events in sessions:
        asyncio.run(store.append(events[0].session, numbered(events), expect=0))
    store.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the commands look for sessions."""
    return tmp_path / "tape"


def test_show_tells_what_happened_when_and_for_how_long(
    tape_command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UX "Looking back": a session by the beginning of its id, the newest without one."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    keep(folder, a_run(), a_run(OTHER, text="later", at=1e9 + 100))
    shown = tape_command("show", "5e5510")

    assert shown.stdout.splitlines() == [
        "run 1 · completed · 2 steps · 1,200 tokens in, 34 out · 3.0 s",
        "  01:46:40.0  you          Where is it?",
        "  01:46:41.5  grep         pattern=guard ························  512 ms   14 matches",
        "  01:46:43.0  model        It is in dispatch.py",
    ]
    assert "later" in tape_command("show").stdout
    (run,) = json.loads(tape_command("show", ID, "--json").stdout)["runs"]
    assert (run["reason"], run["usage"]) == ("completed", {"input_tokens": 1200, "output_tokens": 34})
    assert [(line["who"], line["ms"]) for line in run["lines"]] == [
        ("you", None),
        ("model", 1500.0),
        ("grep", 512.0),
        ("model", 1000.0),
    ]


def test_a_session_that_is_not_clear_is_refused_with_what_to_do(tape_command: Command, folder: Path) -> None:
    assert "no session is kept" in tape_command("show").stderr
    keep(folder, a_run(), a_run(OTHER))

    for beginning, told in (
        ("5e55", "several sessions (5e55101a, 5e55aaaa)"),
        ("ffff", "tape list"),
        ("../x", "no session"),
    ):
        refused = tape_command("show", beginning)
        assert (refused.returncode, told in refused.stderr) == (2, True), refused.stderr


def test_list_and_search_and_stats_speak_json(tape_command: Command, folder: Path) -> None:
    keep(folder, a_run(), a_run(OTHER, text="later", reason="paused", at=1e9 + 100))

    listed = json.loads(tape_command("list", "--json").stdout)
    assert [(one["session"], one["reason"], one["input"], one["runs"]) for one in listed] == [
        (OTHER, "paused", "Where is it?", 1),
        (ID, "completed", "Where is it?", 1),
    ]
    found = json.loads(tape_command("search", "dispatch.py", "--kind", "tool_result", "--json").stdout)
    assert [(hit["sessionId"], hit["entryId"], hit["refs"]["toolCallId"]) for hit in found["hits"]] == [
        (OTHER, 7, "c1"),
        (ID, 7, "c1"),
    ]
    assert tape_command("search", "nowhere").returncode == 1
    assert "ISO date-time" in tape_command("search", "x", "--since", "yesterday").stderr
    told = json.loads(tape_command("stats", "--json").stdout)
    assert (told["sessions"], told["tokens"]) == (2, {"input": 2400, "output": 68})
    assert told["tools"] == [{"name": "grep", "calls": 2, "ms": 1024.0, "failed": 0}]
    assert json.loads(tape_command("verify", "--json").stdout)["problems"] == []


def test_a_handoff_by_a_person_is_an_anchor(tape_command: Command, folder: Path) -> None:
    """TP10, TP11, TP12: a blank summary is refused; a paused session is not summed up."""
    keep(folder, a_run(directory=str(folder.parent)), a_run(OTHER, reason="paused", directory=str(folder.parent)))

    refused = tape_command("handoff", ID, "  ")
    assert (refused.returncode, "requires a non-empty summary" in refused.stderr) == (1, True)
    kept = json.loads(tape_command("handoff", ID, " done ", "--name", "phase_done", "--json").stdout)
    assert (kept["name"], kept["state"]["summary"], kept["state"]["sourceMessageIds"]) == (
        "handoff/phase_done",
        "done",
        [4, 5, 10],
    )
    anchors = json.loads(tape_command("anchors", ID, "--json").stdout)
    assert [anchor["name"] for anchor in anchors] == ["session/start", "handoff/phase_done"]
    assert [one["name"] for one in json.loads(tape_command("anchors", ID, "--limit", "1", "--json").stdout)] == [
        "handoff/phase_done"
    ]
    assert "waits for an answer" in tape_command("handoff", OTHER, "done").stderr


@pytest.mark.needs("models")
def test_the_real_command_line_shows_a_run_that_just_ended(pegboard: Pegboard) -> None:
    assert pegboard("run", "hello").returncode == 0
    shown = pegboard("tape", "show")

    assert shown.stdout.startswith("run 1 · completed · ") and "  you          hello" in shown.stdout


def test_a_page_needs_nothing_else_and_runs_nothing(tmp_path: Path, tape_command: Command, folder: Path) -> None:
    """One file: what the record holds is text in it, escaped."""
    keep(folder, a_run(text=NASTY))
    written = tape_command("show", "--html", str(tmp_path / "run.html"))
    html = (tmp_path / "run.html").read_text("utf-8")

    assert written.returncode == 0
    assert "&lt;script&gt;alert(1)" in html and "<script" not in html
    assert not re.search(r"\x1b|\u202e|https?://|url\(|@import", html)
    assert html.count("<rect") == 3 and "14 matches" in html
    assert "can't be written" in tape_command("show", "--html", str(tmp_path / "no" / "run.html")).stderr


def test_whatever_stands_in_a_record_is_text_on_the_page() -> None:
    """Rule 15: also where a program expects one of a few words."""
    events = [
        *a_run(text=NASTY, reason=NASTY, directory=NASTY),
        Returned(ID, 1, 1.0, 1, NASTY, NASTY, NASTY, None, NASTY, NASTY, None, 1.0),
    ]  # type: ignore[arg-type]
    html = page(NASTY, NASTY, timeline(numbered(events)))

    assert html.count("alert(1)") > 5 and "<script" not in html and "\x1b" not in html


def test_the_page_and_the_timeline_take_any_record() -> None:
    """Every type of event, full and empty, in any order."""
    entries = numbered(every_event(ID))

    for rows in (entries, entries[::-1], entries[5:]):
        assert page(ID, "/work", timeline(rows)).endswith("</html>\n")


def test_what_was_retracted_is_shown_as_gone() -> None:
    events = [*a_run(), Note(ID, 1, 1e9, "tape", "message/retracted", {"entry": 4})]
    (run,) = timeline(numbered(events))

    assert [line.text for line in run.lines if line.who == "you"] == ["(no longer counts)"]
    assert "Where is it?" not in page(ID, "/work", [run])


async def test_a_session_comes_back_from_json_lines_as_it_was(
    open_store: Callable[..., TapeStore], tmp_path: Path, store: TapeStore
) -> None:
    """TP38: the same bytes after a round trip, blobs included; a second import adds nothing."""
    key = await store.put_blob(b"a whole output")
    text = Returned(ID, 1, 1.0, 1, "c", "grep", "ok", None, "", "part", None, 1.0, output=key)
    entries = numbered([*every_event(ID), text, Said(ID, 1, 1.0, 1, "\ud800\0" + "x" * 300_000)])
    await store.append(ID, entries, expect=0)
    lines = await export_lines(store, ID)
    other = open_store(tmp_path / "other")

    assert await import_lines(other, lines) == (ID, len(entries))
    assert await export_lines(other, ID) == lines
    assert await other.get_blob(key) == b"a whole output"
    assert await import_lines(other, lines) == (ID, 0)
    assert await import_lines(
        other, [*lines, json.dumps(Entry(len(entries) + 1, Said(ID, 1, 1.0, 1, "on")).as_json()).encode()]
    ) == (ID, 1)
    assert await verify(other) == []


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "no session in it"),
        ([b"garbage"], "line 1 is not of a session's export"),
        ([b"[" * 100_000], "line 1"),
        ([b"3"], "line 1"),
        ([b"{}"], "line 1"),
        ([b'{"blob": "' + b"0" * 64 + b'", "base64": "eA=="}'], "not those of blob"),
        ([json.dumps(Entry(2, Said(ID, 1, 1.0, 1, "a")).as_json()).encode()], "is not entry 1"),
        ([json.dumps({**Entry(1, Said(ID, 1, 1.0, 1, "a")).as_json(), "run": "<img>"}).encode()], "its run is str"),
        ([json.dumps(Entry(1, Said("../evil", 1, 1.0, 1, "a")).as_json()).encode()], "session id"),
        ([json.dumps(Entry(1, Said(ID, 1, 1.0, 1, "another")).as_json()).encode()], "is kept here already"),
    ],
)
async def test_what_is_no_export_is_refused_whole(store: TapeStore, lines: list[bytes], told: str) -> None:
    await store.append(ID, [Entry(1, Said(ID, 1, 1.0, 1, "a"))], expect=0)

    with pytest.raises(UsageError, match=told):
        await import_lines(store, [*lines])
    assert [entry.id for entry in await store.read(ID)] == [1]


async def test_rubbish_goes_and_what_is_named_or_waits_stays(store: TapeStore) -> None:
    """`gc`: blobs that nobody names, after an hour; old sessions if asked, but none that is paused or under way."""
    named, large, free, young = [
        await store.put_blob(data) for data in (b"named", b"in a large entry", b"free", b"young")
    ]
    for key in (named, large, free):
        os.utime(store.blobs.folder / key, (1.0, 1.0))
    old, paused = a_run(text=named), a_run(OTHER, text=large + "x" * 300_000, reason="paused")
    open_ = a_run("0" * 8)[:-1]
    recent = a_run("1" * 8, at=time.time())
    for events in (old, paused, open_, recent):
        await store.append(events[0].session, numbered(events), expect=0)

    blobs_only = await find_rubbish(store)
    assert (blobs_only.sessions, blobs_only.blobs, blobs_only.bytes) == ((), (free,), 4)
    rubbish = await find_rubbish(store, 86_400.0)
    assert (rubbish.sessions, sorted(rubbish.kept), sorted(rubbish.blobs)) == (
        (ID,),
        ["0" * 8, OTHER],
        sorted([named, free]),
    )
    assert await sweep(store, 86_400.0) == rubbish
    assert sorted(head.id for head in await store.sessions()) == ["0" * 8, "1" * 8, OTHER]
    assert await store.get_blob(young) == b"young" and await store.get_blob(large) == b"in a large entry"
    assert await verify(store) == []
