"""When a model goes round in circles: what counts as the same batch, what as progress, and when it is stopped (B26)."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pegboard import ToolCall, ToolResult
from pegboard_progress.repeats import CORRECTION, Repeats

UUID = "0b6e2c1a-8f0d-4b52-9c77-5d1e6f3a2b4{}"


def result(content: str, **fields: Any) -> ToolResult:
    """Return the result of a call that went well, unless `fields` say otherwise."""
    return ToolResult(**{"call_id": "c", "name": "look", "status": "ok", "content": content, "summary": "", **fields})


def verdicts(contents: Sequence[str], arguments: Sequence[str] = ("{}",), **fields: Any) -> list[str]:
    """Take one call after another, each with the next content and the next (then the last) of the arguments."""
    repeats = Repeats()
    return [
        repeats.take(
            [ToolCall(f"c{number}", "look", arguments[min(number, len(arguments) - 1)])],
            [result(content, call_id=f"c{number}", **fields)],
        )
        for number, content in enumerate(contents)
    ]


def same(one: str, other: str) -> bool:
    """Whether a result counts as a repetition of another."""
    return verdicts([one, other])[-1] == "correct"


# -- counting


def test_the_second_batch_in_a_row_is_corrected_once_and_the_fourth_is_stopped() -> None:
    assert verdicts(["four files"] * 4) == ["", "correct", "", "stop"]


def test_a_batch_that_differs_begins_anew() -> None:
    assert verdicts(["a", "a", "a", "b", "a", "a", "a", "a"]) == ["", "correct", "", "", "", "correct", "", "stop"]


@pytest.mark.parametrize(
    "content", ["ok", "Done.", "true", "null", "", '"ok"', '{"ok": true}', '{"success":true, "timestamp": 1}', "{}"]
)
def test_mere_acknowledgements_are_corrected_and_never_stopped(content: str) -> None:
    assert verdicts([content] * 6) == ["", "correct", "", "", "", ""]


@pytest.mark.parametrize(
    "content",
    ["false", '{"ok": false}', '{"ok": true, "rows": 3}', "[]", '{"status": "pending"}', '{"busy": true}', "0", "{ok"],
)
def test_a_result_that_says_more_than_yes_is_strong_evidence(content: str) -> None:
    assert verdicts([content] * 4)[-1] == "stop"


def test_an_error_that_reads_like_an_acknowledgement_is_strong_evidence() -> None:
    assert verdicts(["done"] * 4, status="error", code="TOOL_FAILED")[-1] == "stop"


def test_one_result_with_content_makes_the_evidence_of_its_batch_strong() -> None:
    repeats, calls = Repeats(), [ToolCall("a", "press", "{}"), ToolCall("b", "look", "{}")]

    assert [repeats.take(calls, [result("ok"), result("the first page")]) for _ in range(4)][-1] == "stop"


# -- what makes two batches the same


def test_the_identity_of_a_call_does_not_count_and_its_name_order_and_end_do() -> None:
    first, second = ToolCall("a", "look", "{}"), ToolCall("b", "list", "{}")
    results = [result("x"), result("y")]

    for calls, told in [
        ([second, first], results),
        ([first, second], [results[0], result("y", status="error", code="TOOL_FAILED")]),
        ([first, second], [results[0], result("y", status="aborted")]),
        ([first, second], results[::-1]),
        ([first], results[:1]),
    ]:
        repeats = Repeats()
        assert [repeats.take([first, second], results), repeats.take(calls, told)] == ["", ""]


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ('{"a": 1, "b": {"c": 2, "d": 3}}', '{"b":{"d":3,"c":2},"a":1}', True),
        ("", "{}", True),
        ('{"a": 1}', '{"a": 2}', False),
        ('{"a": 1}', '{"a": "1"}', False),
        ('{"a": 1}', '{"a": true}', False),
        ('{"a": {}}', '{"a": []}', False),
        ('{"a": 1, "a": 2}', '{"a": 3, "a": 2}', False),
        ('{"a": ', '{"a": ', True),
        ('{"a": ', '{"b": ', False),
        ('{"timestamp": 1}', '{"timestamp": 2}', False),
        ('{"since": "2026-01-01T00:00:00Z"}', '{"since": "2026-01-02T00:00:00Z"}', False),
    ],
)
def test_arguments_are_compared_as_values_and_none_of_them_is_volatile(one: str, other: str, equal: bool) -> None:
    assert (verdicts(["x", "x"], [one, other])[-1] == "correct") is equal


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(
            (f'{{"n": 1, "{key}": 17}}', f'{{"{key}": "18 or so", "n": 1}}')
            for key in ("timestamp", "TimeStamp", "duration", "duration_ms", "elapsed", "requestId", "request_id")
        ),
        *(
            (f'[{{"{key}": "{UUID.format(1)}"}}]', f'[{{"{key}": null}}]')
            for key in ("RequestID", "traceId", "trace-id", "correlationId", "correlation_id")
        ),
        ("at 2026-01-01T10:00:00Z", "at 2025-12-31T23:59:59.123456+01:00"),
        ("2026-01-01 10:00:00 INFO up", "2026-01-01 10:00:01,250 INFO up"),
        ("took 12 ms", "took 1,300ms"),
        ("4 passed in 0.35s", "4 passed in 12.01 seconds"),
        (r'{"out": "ok\t0.005s\n12 ms"}', r'{"out": "ok\t0.11s\n9 ms"}'),
        (f"Request ID: {UUID.format(1)}", f"Request ID: {UUID.format(2)}"),
        (rf'{{"out": "a\nrequest {UUID.format(1)}"}}', rf'{{"out": "a\nrequest {UUID.format(2)}"}}'),
        (f"x-request-id={UUID.format(1)}", f"x-request-id={UUID.format(2).upper()}"),
        (f'lost (traceId "{UUID.format(1)}")', f'lost (traceId "{UUID.format(2)}")'),
        (f"correlation {UUID.format(1)}", f"correlation {UUID.format(2)}"),
        ('log: {"level": 1, "timestamp": 1.5e9}', 'log: {"level": 1, "timestamp": "now"}'),
        (" as it was\n", "as it was"),
    ],
)
def test_what_differs_each_time_is_no_progress(one: str, other: str) -> None:
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f'{{"orderId": "{UUID.format(1)}"}}', f'{{"orderId": "{UUID.format(2)}"}}'),
        (f'{{"id": "{UUID.format(1)}"}}', f'{{"id": "{UUID.format(2)}"}}'),
        (f"order {UUID.format(1)}", f"order {UUID.format(2)}"),
        (f"interrequest {UUID.format(1)}", f"interrequest {UUID.format(2)}"),
        ("request id: 41", "request id: 42"),
        ("due 2026-01-01", "due 2026-01-02"),
        ("the 1980s", "the 1990s"),
        ("order_8ms", "order_9ms"),
        ("version 1.2.3", "version 1.2.4"),
        ("12 files", "13 files"),
        ('{"timestamps": 1}', '{"timestamps": 2}'),
        ('{"a": 1, "timestamp": 1}', '{"a": 2, "timestamp": 1}'),
        ("[]", "{}"),
    ],
)
def test_what_may_be_the_matter_itself_is_progress(one: str, other: str) -> None:
    assert not same(one, other)


# -- going on where an earlier run ended


def test_batches_from_the_record_bring_a_new_run_to_where_the_old_one_was() -> None:
    recorded = ["x", f"x\n\n{CORRECTION}", "x"]

    assert verdicts([*recorded, "x"]) == ["", "correct", "", "stop"]


# -- whatever comes

TEXTS = st.text(st.characters(codec=None), max_size=60)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=8), VALUES, max_size=5)


def shuffled(value: Any) -> Any:
    """Return the same value with the keys of all objects in the opposite order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    return [shuffled(inner) for inner in value] if isinstance(value, list) else value


@given(OBJECTS, OBJECTS, st.sampled_from([None, 1, "\t"]))
def test_the_order_of_keys_and_the_spacing_never_matter(
    arguments: dict[str, Any], told: dict[str, Any], indent: int | str | None
) -> None:
    asked = [json.dumps(arguments), json.dumps(shuffled(arguments), indent=indent)]

    assert verdicts([json.dumps(told), json.dumps(shuffled(told), indent=indent)], asked) == ["", "correct"]


@given(OBJECTS, st.integers(0, 3), st.integers(), st.integers())
def test_any_change_of_a_value_begins_anew_wherever_it_is(
    told: dict[str, Any], depth: int, before: int, after: int
) -> None:
    def with_(value: Any) -> str:
        for _ in range(depth):
            value = [told, {"matter": value}]
        return json.dumps({**told, "matter": value})

    assert (verdicts([with_(before), with_(after)])[-1] == "correct") is (before == after)
    assert (verdicts(["x", "x"], [with_(before), with_(after)])[-1] == "correct") is (before == after)


@given(OBJECTS, st.datetimes(), st.datetimes(), st.uuids(), st.uuids(), st.floats(0, 1e6), st.floats(0, 1e6))
def test_times_durations_and_ids_of_requests_never_count(
    told: dict[str, Any], began: Any, began_again: Any, id: Any, other: Any, took: float, took_again: float
) -> None:
    def text(at: Any, request: Any, ms: float) -> str:
        head = {"timestamp": at.timestamp(), "Trace_Id": str(request), "log": f"{at.isoformat()} in {ms:.3f} ms"}
        return json.dumps({**told, **head}) + "".join(["\n", f"{at.isoformat()}Z request-id: {request}, {ms:.2f} s"])

    assert same(text(began, id, took), text(began_again, other, took_again))


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=4))
def test_any_text_can_be_taken_and_the_same_again_is_the_same(batch: list[tuple[str, str, str]]) -> None:
    repeats = Repeats()
    calls = [ToolCall("c", name, arguments) for name, arguments, _ in batch]
    results = [result(content) for _, _, content in batch]

    assert [repeats.take(calls, results) for _ in range(2)] == ["", "correct"]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        "[" + "9" * 100_000 + "]",
        "1" * 200_000,
        "1,1." * 50_000,
        "2026-01-01T00:00:00." + "1" * 200_000,
        "request id" * 20_000 + "-aaaa-aaaa-aaaa-",
        "request id:" + " " * 200_000 + "-aaaa-aaaa-aaaa-",
        '"timestamp":"' * 20_000,
        '"elapsed": ' + "1e" * 100_000,
    ],
)
def test_text_that_is_made_to_hurt_is_taken_like_any_other(text: str) -> None:
    """Were it read again from each of its characters, this would not end."""
    assert verdicts([text, text], [text]) == ["", "correct"]
    assert not same(text, text.replace("1", "2").replace("9", "8").replace("a", "b").replace("[", " {") + "x")
