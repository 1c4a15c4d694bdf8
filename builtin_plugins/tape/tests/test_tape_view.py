"""The effective view: what counts of a record whose corrections are entries themselves."""

from typing import Any

from pegboard import Entry, ToolCall, Usage
from pegboard.events import Called, Note, Replied, Returned, Said, StepEnd, StepStart
from pegboard_tape.facts import fact_of
from pegboard_tape.view import effective

ID = "5e55101a"
HEAD = (ID, 1, 1.0)


def said(text: str) -> Said:
    return Said(*HEAD, 1, text)


def replied(text: str, *calls: str) -> Replied:
    return Replied(*HEAD, 1, text, tuple(ToolCall(call, "grep", "{}") for call in calls))


def called(call: str, word: str = "x") -> Called:
    return Called(*HEAD, 1, call, "grep", {"pattern": word}, "read", "workspace")


def returned(call: str, content: str = "found") -> Returned:
    return Returned(*HEAD, 1, call, "grep", "ok", None, "", content, None, 1.0)


def note(name: str, pack: str = "tape", **data: Any) -> Note:
    return Note(*HEAD, pack, name, data)


def retracted(entry: Any) -> Note:
    return note("message/retracted", entry=entry)


def revised(entry: Any, text: Any) -> Note:
    return note("message/revised", entry=entry, text=text)


def texts(*events: Any, pending: bool = False) -> list[str]:
    entries = [Entry(place, event) for place, event in enumerate(events, 1)]
    return [fact_of(entry.event).text for entry in effective(entries, pending=pending)]


def test_a_retracted_message_is_gone_and_a_revised_one_is_the_newest() -> None:
    """TP7."""
    assert texts(said("a"), said("b"), retracted(1)) == ["b"]
    assert texts(said("a"), revised(1, "better"), revised(1, "best")) == ["best"]
    assert texts(said("a"), revised(1, "better"), retracted(1)) == []


def test_a_revision_brings_a_retracted_message_back() -> None:
    """TP7: re-added, present."""
    assert texts(said("a"), retracted(1), revised(1, "again")) == ["again"]


def test_a_call_counts_with_its_result_and_is_pending_before() -> None:
    """TP8, TP9: hidden from views, there for whoever resumes; the final fact takes its place."""
    assert texts(replied("", "c1"), called("c1")) == [""]
    assert texts(replied("", "c1"), called("c1"), pending=True) == ["", 'grep {"pattern": "x"}']
    assert texts(replied("", "c1"), called("c1"), returned("c1")) == ["", 'grep {"pattern": "x"}', "found"]


def test_of_several_results_the_last_counts_and_all_are_kept() -> None:
    """TPS 2.2: A, B, A again."""
    rows = [replied("", "c1"), called("c1"), returned("c1", "A"), returned("c1", "B"), returned("c1", "A")]
    entries = [Entry(place, event) for place, event in enumerate(rows, 1)]

    assert [entry.id for entry in effective(entries)] == [1, 2, 5]


def test_the_tools_of_a_retracted_reply_go_with_it_and_those_of_a_revised_one_stay() -> None:
    batch = (replied("look", "c1"), called("c1"), returned("c1"))

    assert texts(*batch, retracted(1)) == []
    assert texts(*batch, revised(1, "look again")) == ['grep {"pattern": "x"}', "found", "look again"]


def test_an_id_that_a_model_uses_again_is_another_call() -> None:
    again = (replied("one", "c1"), called("c1"), returned("c1", "first"), replied("two", "c1"), called("c1", "y"))

    assert texts(*again) == ["one", 'grep {"pattern": "x"}', "first", "two"]
    assert texts(*again, returned("c1", "second"), retracted(4)) == ["one", 'grep {"pattern": "x"}', "first"]


def test_what_is_malformed_is_passed_over() -> None:
    """TPS 2.3: never an exception, and never a correction of something else."""
    for wrong in (
        retracted("1"),
        retracted(True),
        retracted(-1),
        retracted(None),
        revised(1, 5),
        note("message/revised"),
    ):
        assert texts(said("a"), wrong)[0] == "a", wrong


def test_machinery_and_the_journal_say_nothing() -> None:
    """TP37: `execution/...` never shows; nor do steps."""
    steps = (StepStart(*HEAD, 1), StepEnd(*HEAD, 1, Usage()), note("execution/begun", pack="other"))

    assert texts(*steps, said("a")) == ["a"]


def test_rows_are_taken_in_the_order_of_their_ids() -> None:
    entries = [Entry(2, retracted(1)), Entry(1, said("a")), Entry(3, said("b"))]

    assert [entry.id for entry in effective(entries)] == [3]
