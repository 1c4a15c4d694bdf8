"""Folds: what a session's record says is a pure function of its entries, and entries survive being JSON."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pegboard import AssistantMessage, ToolCall, ToolResult, UserMessage
from pegboard.base.frozen import freeze
from pegboard.record.folds import interactions, runs, snapshots, start_of, transcript
from pegboard.testing.samples import every_event, numbered
from pegboard.values.entries import Entry
from pegboard.values.events import (
    Answered,
    Asked,
    Called,
    Event,
    Note,
    Replied,
    Returned,
    RunEnd,
    RunStart,
    Said,
    SessionStart,
    SnapshotTaken,
    StepEnd,
    StepStart,
    Unknown,
)
from pegboard.values.messages import Usage

ID = "5e55101a"


def start(run: int, *, hash_: str = "h1", text: str = "do it") -> RunStart:
    return RunStart(ID, run, 1.0, "main", "route", "label", "/project", (), (), hash_, text, "1 2 boot")


def called(run: int, identity: str, step: int = 1) -> Called:
    return Called(ID, run, 1.0, step, identity, "read", freeze({"path": "a"}), "read", "workspace")


def returned(run: int, identity: str, step: int = 1) -> Returned:
    return Returned(ID, run, 1.0, step, identity, "read", "ok", None, "few words", "content", None, 0.5)


def asked(number: int, run: int = 1) -> Asked:
    return Asked(ID, run, 1.0, number, "permission", "c1", "shell", "guard", "why", False, freeze({}), (), "hash")


def answered(number: int, approved: bool | None = True, text: str = "", run: int = 1) -> Answered:
    return Answered(ID, run, 1.0, number, approved, text, "chat")


def taken(run: int, hash_: str) -> SnapshotTaken:
    return SnapshotTaken(ID, run, 1.0, hash_, f"prompt of {run}", (freeze({"name": "read"}),))


def ended(run: int, usage: Usage | None = None) -> RunEnd:
    return RunEnd(ID, run, 1.0, "completed", "the answer", usage or Usage(7, 8), 1, 1, 0, 2.0)


# What each fold tells.


def test_the_transcript_is_what_was_said_replied_and_returned() -> None:
    call = ToolCall("c1", "read", "{}")
    events = [
        SessionStart(ID, 0, 1.0, "/project", "main", None, 0),
        start(1),
        Said(ID, 1, 1.0, 0, "hello"),
        Replied(ID, 1, 1.0, 1, "I look", (call,)),
        called(1, "c1"),
        returned(1, "c1"),
        Note(ID, 1, 1.0, "pack", "name", freeze({"text": "no message"})),
        ended(1),
    ]
    assert transcript(numbered(events)) == [
        UserMessage("hello"),
        AssistantMessage("I look", (call,)),
        ToolResult("c1", "read", "ok", "content", "few words", None),
    ]


def test_a_session_began_with_its_first_entry_or_never() -> None:
    first = SessionStart(ID, 0, 1.0, "/project", "main", "abcdef01", 1)
    assert start_of(numbered([first, start(1)])) == first
    assert start_of(numbered([start(1), first])) is None
    assert start_of([]) is None


def test_a_run_without_an_end_is_under_way_with_what_it_left_open() -> None:
    """What recovery needs to know of a process that died."""
    events = [start(1), StepStart(ID, 1, 1.0, 1), called(1, "c1"), called(1, "c2"), returned(1, "c1")]
    run = runs(numbered(events))[1]
    assert (run.number, run.agent, run.input, run.driver, run.hash) == (1, "main", "do it", "1 2 boot", "h1")
    assert (run.reason, run.steps, run.open_steps) == (None, 1, (1,))
    assert (run.calls, run.open_calls) == ((called(1, "c1"), called(1, "c2")), (called(1, "c2"),))


def test_a_run_that_ended_has_the_reason_text_and_usage_of_its_end() -> None:
    events = [start(1), StepStart(ID, 1, 1.0, 1), StepEnd(ID, 1, 1.0, 1, Usage(1, 2)), ended(1, Usage(5, 6))]
    run = runs(numbered(events))[1]
    assert (run.reason, run.text, run.usage, run.open_steps) == ("completed", "the answer", Usage(5, 6), ())


def test_a_run_under_way_has_the_usage_of_its_steps_so_far() -> None:
    steps = [StepEnd(ID, 1, 1.0, number, Usage(10, number)) for number in (1, 2, 3)]
    assert runs(numbered([start(1), *steps]))[1].usage == Usage(30, 6)


def test_a_result_closes_one_call_of_its_id_in_its_own_run() -> None:
    """Models use an id twice, and again in the next run."""
    events = [start(1), called(1, "c1", 1), called(1, "c1", 2), start(2), called(2, "c1"), returned(1, "c1")]
    found = runs(numbered([*events, returned(2, "c9")]))
    assert found[1].open_calls == (called(1, "c1", 2),)
    assert found[2].open_calls == (called(2, "c1"),)


def test_runs_come_in_the_order_in_which_they_began() -> None:
    assert list(runs(numbered([start(2), start(1), ended(2), start(7)]))) == [2, 1, 7]


def test_what_happened_outside_a_run_makes_none() -> None:
    """A call or an end of a run that never began is passed over."""
    assert runs(numbered([called(0, "c1"), returned(3, "c1"), ended(3)])) == {}


def test_the_first_answer_to_a_question_counts() -> None:
    """Two front ends may answer at once."""
    found = interactions(numbered([asked(1), asked(2), answered(1, False, "no"), answered(1, True, "yes")]))
    assert [(record.asked.id, record.answer) for record in found.values()] == [(1, answered(1, False, "no")), (2, None)]


def test_an_answer_before_its_question_is_none() -> None:
    """Nobody can agree in advance to what was not asked."""
    found = interactions(numbered([answered(1), asked(1)]))
    assert found[1].answer is None
    assert interactions(numbered([answered(4)])) == {}


def test_a_run_has_the_snapshot_that_was_last_recorded_with_its_hash() -> None:
    """A snapshot is recorded when it changes; a hash that was never recorded has none."""
    events = [taken(1, "h1"), start(1, hash_="h1"), taken(2, "h2"), start(2, hash_="h2")]
    found = snapshots(numbered([*events, start(3, hash_="h1"), start(4, hash_="lost")]))
    assert found == {1: taken(1, "h1"), 2: taken(2, "h2"), 3: taken(1, "h1")}


# Properties of every fold over every history.

_texts = st.text(max_size=6)
_numbers = st.integers(1, 3)
_ids = st.sampled_from(("c1", "c2", "c3"))
_steps = st.integers(1, 4)
_usages = st.builds(Usage, _numbers, _numbers)
_hashes = st.sampled_from(("h1", "h2", "h3"))


def _dreamt(run: int) -> Unknown:
    return Unknown(ID, run, 1.0, freeze({"v": 1, "type": "dreamt", "session": ID, "run": run, "ts": 1.0, "id": "c1"}))


_events: st.SearchStrategy[Event] = st.one_of(
    st.builds(lambda run, hash_, text: start(run, hash_=hash_, text=text), _numbers, _hashes, _texts),
    st.builds(lambda run, step: StepStart(ID, run, 1.0, step), _numbers, _steps),
    st.builds(lambda run, step, text: Said(ID, run, 1.0, step, text), _numbers, _steps, _texts),
    st.builds(lambda run, text: Replied(ID, run, 1.0, 1, text, (ToolCall("c1", "read", "{}"),)), _numbers, _texts),
    st.builds(called, _numbers, _ids, _steps),
    st.builds(returned, _numbers, _ids, _steps),
    st.builds(lambda run, step, usage: StepEnd(ID, run, 1.0, step, usage), _numbers, _steps, _usages),
    st.builds(ended, _numbers, _usages),
    st.builds(asked, _numbers, _numbers),
    st.builds(answered, _numbers, st.sampled_from((True, False, None)), _texts, _numbers),
    st.builds(taken, _numbers, _hashes),
    st.builds(lambda run, text: Note(ID, run, 1.0, "p", "n", freeze({"t": text})), _numbers, _texts),
    st.builds(_dreamt, _numbers),
)
_histories = st.lists(_events, max_size=30).map(numbered)

Fold = Callable[[Iterable[Entry]], Any]
every_fold = pytest.mark.parametrize("fold", [transcript, runs, interactions, snapshots, start_of])


@every_fold
@given(history=_histories)
def test_a_fold_is_pure(fold: Fold, history: list[Entry]) -> None:
    """The same entries say the same, from a list, a tuple or a generator, and stay as they were."""
    before = list(history)
    first = fold(history)
    assert first == fold(tuple(history)) == fold(entry for entry in history)
    assert history == before


@every_fold
@given(history=_histories)
def test_an_event_of_a_newer_pegboard_is_passed_over(fold: Fold, history: list[Entry]) -> None:
    known = [entry for entry in history if not isinstance(entry.event, Unknown)]
    head = numbered([SessionStart(ID, 0, 1.0, "/project", "main", None, 0)])
    assert fold(head + history) == fold(head + known)


@every_fold
@given(history=_histories)
def test_a_record_that_went_through_json_says_the_same(fold: Fold, history: list[Entry]) -> None:
    """A process that starts anew knows what the one before it knew."""
    again = [Entry.from_json(json.loads(json.dumps(entry.as_json()))) for entry in history]
    assert fold(again) == fold(history)


@given(before=_histories, after=_histories)
def test_the_transcript_of_a_record_is_that_of_its_pieces(before: list[Entry], after: list[Entry]) -> None:
    assert transcript(before + after) == transcript(before) + transcript(after)


def _mentioned(fold: Fold, entries: Sequence[Entry]) -> set[int]:
    if fold is interactions:
        return {entry.event.id for entry in entries if isinstance(entry.event, Asked | Answered)}
    return {entry.event.run for entry in entries}


@pytest.mark.parametrize("fold", [runs, interactions, snapshots])
@given(before=_histories, after=_histories)
def test_what_the_rest_does_not_mention_stays_as_the_beginning_told(
    fold: Fold, before: list[Entry], after: list[Entry]
) -> None:
    """And nothing that the beginning told is forgotten."""
    told, now = fold(before), fold(before + after)
    assert list(now)[: len(told)] == list(told)
    untouched = set(told) - _mentioned(fold, after)
    assert {key: now[key] for key in untouched} == {key: told[key] for key in untouched}


@given(history=_histories)
def test_a_run_is_told_by_its_own_entries_alone(history: list[Entry]) -> None:
    """Runs of one session are independent, however their entries lie among each other."""
    for number, run in runs(history).items():
        assert runs(entry for entry in history if entry.event.run == number) == {number: run}


@given(history=_histories)
def test_open_calls_are_those_that_have_no_result_since_the_run_began(history: list[Entry]) -> None:
    """As many as were recorded, less those that a result found."""
    for number, run in runs(history).items():
        own = [entry.event for entry in history if entry.event.run == number]
        last = max(place for place, event in enumerate(own) if isinstance(event, RunStart))
        for identity in ("c1", "c2", "c3"):
            open_ = 0
            for event in own[last:]:
                open_ += isinstance(event, Called) and event.id == identity
                open_ -= isinstance(event, Returned) and event.id == identity and open_ > 0
            assert [call.id for call in run.open_calls].count(identity) == open_


# Entries as JSON.

# Halves of a pair that stand side by side, which no JSON text can tell from the character, are left out.
_any_text = st.text(st.characters()).filter(lambda text: json.loads(json.dumps(text)) == text)
_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _any_text
_json = st.recursive(_scalars, lambda inner: st.lists(inner) | st.dictionaries(_any_text, inner), max_leaves=12)
_objects = st.dictionaries(_any_text, _json, max_size=4)


def _through_json(entry: Entry) -> Entry:
    return Entry.from_json(json.loads(json.dumps(entry.as_json())))


@pytest.mark.parametrize("event", every_event(ID), ids=lambda event: event.type)
def test_an_event_of_every_type_survives_being_json(event: Event) -> None:
    again = _through_json(Entry(3, event))
    assert again == Entry(3, event)
    assert type(again.event) is type(event)
    assert json.dumps(again.as_json()) == json.dumps(Entry(3, event).as_json())


@given(identity=st.integers(1), data=_objects, text=_any_text, ts=st.floats(0, 1e11))
def test_any_data_and_text_survive_being_json(identity: int, data: dict[str, Any], text: str, ts: float) -> None:
    for event in (
        Note(ID, 1, ts, text, text, freeze(data)),
        Called(ID, 1, ts, 1, text, text, freeze(data), "write", text),
        Replied(ID, 1, ts, 1, text, (ToolCall(text, text, text),)),
        Said(ID, 1, ts, 1, text),
    ):
        entry = Entry(identity, event)
        assert _through_json(entry) == entry
        assert _through_json(entry).as_json() == entry.as_json()


@given(data=_objects, type_=st.text(max_size=5).map("newer ".__add__), version=st.integers(0, 5))
def test_an_event_of_an_unknown_type_keeps_what_it_came_with(data: dict[str, Any], type_: str, version: int) -> None:
    shape = {**data, "seq": 4, "v": version, "type": type_, "session": ID, "run": 1, "ts": 2.5}
    entry = Entry.from_json(json.loads(json.dumps(shape)))
    assert isinstance(entry.event, Unknown)
    assert (entry.id, entry.session, entry.as_json()) == (4, ID, shape)


@pytest.mark.parametrize("type_", ["message", "tool_call", "run_end", "interaction"])
def test_an_event_without_a_field_that_it_needs_becomes_unknown(type_: str) -> None:
    """Nothing is lost, and nothing is made up."""
    shape = {"seq": 1, "v": 1, "type": type_, "session": ID, "run": 1, "ts": 2.5, "other": [1]}
    entry = Entry.from_json(shape)
    assert isinstance(entry.event, Unknown)
    assert entry.as_json() == shape


_HEAD = {"v": 1, "type": "step_start", "session": ID, "run": 1, "ts": 2.5, "step": 1}


@pytest.mark.parametrize("seq", [None, 0, -1, True, 1.0, "1", [1]])
def test_what_has_no_place_is_no_entry(seq: object) -> None:
    with pytest.raises(ValueError, match="seq"):
        Entry.from_json({**_HEAD, "seq": seq})


@pytest.mark.parametrize("missing", ["session", "run", "ts"])
def test_what_has_no_head_is_no_entry(missing: str) -> None:
    with pytest.raises(ValueError, match=missing):
        Entry.from_json({"seq": 1, **{key: value for key, value in _HEAD.items() if key != missing}})


@pytest.mark.parametrize(
    "change",
    [
        {"v": "one"},
        {"v": None},
        {"type": "step_end", "usage": 3},
        {"type": "step_end", "usage": {"teacups": 3}},
        {"type": "reply", "text": "", "calls": [3]},
        {"type": "reply", "text": "", "calls": [{"teacups": 3}]},
        {"type": "reply", "text": "", "calls": None},
    ],
    ids=str,
)
def test_a_field_of_another_shape_makes_an_unknown_event_or_no_entry(change: dict[str, Any]) -> None:
    """A store reads what someone may have edited: it gets ValueError or Unknown, no other error."""
    try:
        entry = Entry.from_json({"seq": 1, **_HEAD, **change})
    except ValueError:
        return
    assert isinstance(entry.event, Unknown)
    assert entry.as_json() == {"seq": 1, **_HEAD, **change}
