"""One tool call from the model's words to its result: looked up, checked, guarded, run, ended; always one result."""

import asyncio
import contextlib
import contextvars
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
from pegboard import (
    Ask,
    CancelSignal,
    Deny,
    GuardedCall,
    Host,
    InvalidArguments,
    Output,
    Run,
    Session,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    Touch,
    hookimpl,
    tool,
)
from pegboard.testing import recorded


class Hooks(ModuleType):
    """A module made of functions, each the implementation of the hook that it is named after."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        super().__init__("hooks")
        vars(self).update({name: hookimpl(function) for name, function in functions.items()})


class Outcome(NamedTuple):
    """What became of one call."""

    result: ToolResult
    handed_out: list[ToolResult]
    called: dict[str, Any]
    returned: dict[str, Any]
    end: dict[str, Any]


Call = Callable[..., Outcome]


@pytest.fixture
def call(
    open_host: Callable[..., Host], pack_folder: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Call:  # fmt: skip
    """Take one call of a tool of pack `bench` through the pipeline, beside other packs; a hang is cancelled."""

    def call_(
        made: Tool,
        arguments: str = "{}",
        *,
        name: str | None = None,
        allow_writes: bool = True,
        claims_policy: tuple[str, ...] = (),
        meanwhile: Callable[[Run], Awaitable[None]] | None = None,
        **packs: object,
    ) -> Outcome:
        for pack, object_ in {"bench": Hooks(register_tools=lambda: [made]), **packs}.items():
            monkeypatch.setitem(sys.modules, f"probe_{pack}", SimpleNamespace(pack=object_))
            pack_folder.add(pack, reference=f"probe_{pack}:pack", policy=pack in claims_policy)
        host = open_host()
        assert [pack.reason for pack in host.packs if pack.state != "active"] == []

        async def main() -> Outcome:
            async with host:
                agent = await host.create_agent(session=Session.new(tmp_path))
                asked = ToolCall("call-1", name or made.name, arguments)
                run, results = host.submit_call(agent, asked, allow_writes=allow_writes)
                rescue = asyncio.get_running_loop().call_later(4, run.cancel, "the test gave up waiting")
                if meanwhile:
                    await meanwhile(run)
                await run.wait()
                rescue.cancel()
                events = [event.as_json() for event in recorded(agent)]
                assert [event["type"] for event in events] == ["run_start", "tool_call", "tool_result", "run_end"]
                (result,) = agent.session.messages
                assert isinstance(result, ToolResult)
                return Outcome(result, results, *events[1:])

        return asyncio.run(main())

    return call_


def reading(body: Callable[..., Any], **options: Any) -> Tool:
    """Make a read tool of a function that has no docstring."""
    body.__doc__ = "A tool of this test."
    return tool(effect="read", **{"name": "probe", **options})(body)


def untouched() -> Tool:
    """Make a tool whose body must not run."""

    def body(path: str = "") -> str:
        raise AssertionError("the body ran")

    return reading(body)


# -- looked up and checked


def test_an_unknown_tool_is_named_and_the_nearest_is_suggested(call: Call) -> None:
    """AC-T35."""
    outcome = call(untouched(), '{"path": "a"}', name="prob")

    assert (outcome.result.status, outcome.result.code) == ("error", "UNKNOWN_TOOL")
    assert outcome.result.content == 'Error: unknown tool "prob"; did you mean `probe`?'
    assert (outcome.called["arguments"], outcome.called["pack"], outcome.called["effect"]) == (
        {"path": "a"},
        None,
        None,
    )


@pytest.mark.parametrize("name", ["", "\x1b[2J", "a\nb", "\ud800", "x" * 100_000, "mcp__a__b"])
def test_an_unknown_name_of_any_kind_is_one_printable_line(call: Call, name: str) -> None:
    """Rule 15."""
    outcome = call(untouched(), name=name or "\u200b")

    assert outcome.result.code == "UNKNOWN_TOOL"
    assert outcome.result.content.isprintable()
    assert len(outcome.result.content) < 300


def test_refused_arguments_are_named_and_no_guard_and_no_body_sees_them(call: Call) -> None:
    """AC-T23, T32."""
    asked: list[str] = []

    outcome = call(untouched(), '{"paht": "a"}', cc=Hooks(guard_tool_call=lambda: asked.append("asked")))

    assert (outcome.result.status, outcome.result.code) == ("error", "INVALID_ARGS")
    assert outcome.result.content == "Error: invalid arguments: paht is not a parameter (there are: path)"
    assert (asked, outcome.called["arguments"]) == ([], {"paht": "a"})


HOSTILE = {
    "truncated": '{"path": ',
    "list": "[1]",
    "10,000 levels": '{"path": ' + "[" * 10_000 + "]" * 10_000 + "}",
    "900 levels": '{"path": ' + "[" * 900 + "]" * 900 + "}",
    "an integer of 5,000 digits": '{"path": ' + "9" * 5_000 + "}",
    "an integer of 4,000 digits": '{"path": ' + "9" * 4_000 + "}",
    "not a number": '{"path": NaN}',
    "infinite": '{"path": 1e999}',
    "a lone surrogate": '{"path": "\ud800"}',
    "an escaped lone surrogate": '{"path": "\\udcff"}',
    "a lone surrogate as a key": '{"\ud800": 1}',
    "text": "rm -rf /",
}


@pytest.mark.parametrize("arguments", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("name", ["probe", "nobody"])
def test_hostile_arguments_end_as_one_result_and_a_record_that_is_json(call: Call, name: str, arguments: str) -> None:
    outcome = call(untouched(), arguments, name=name)

    assert outcome.result.code == {"probe": "INVALID_ARGS", "nobody": "UNKNOWN_TOOL"}[name]
    assert outcome.end["reason"] == "completed"
    for event in outcome[2:]:
        json.dumps(event, allow_nan=False).encode("ascii")


@pytest.mark.parametrize("levels", [150, 199, 250, 500, 800, 950, 990])
def test_a_record_of_nested_arguments_can_always_be_printed(call: Call, levels: int) -> None:
    outcome = call(untouched(), '{"path": ' + "[" * levels + "]" * levels + "}", name="nobody")

    json.dumps(outcome.called)


def test_malformed_arguments_are_recorded_as_absent_and_not_as_empty(call: Call) -> None:
    """TS11, T46 in DESIGN §6."""
    assert call(untouched(), '{"path": ').called["arguments"] is None


def test_empty_arguments_call_the_body_with_its_defaults(call: Call) -> None:
    outcome = call(_at(), "")

    assert (outcome.result.content, outcome.called["arguments"]) == ("at .", {})


def _at() -> Tool:
    def at(path: str = ".") -> str:
        return f"at {path}"

    return reading(at)


@pytest.mark.parametrize("error", [InvalidArguments(["x is missing"]), ValueError("broken"), SystemExit(2)])
def test_a_check_of_arguments_that_fails_in_any_way_is_one_error_result(call: Call, error: BaseException) -> None:
    """T43: a tool made by hand brings its own check."""

    class Own:
        schema: dict[str, Any] = {"type": "object"}  # noqa: RUF012

        def parse(self, text: str, read: dict[str, Any] | None = None) -> dict[str, Any]:
            raise error

    output = Output(dict, lambda value: value, str, str)
    made = Tool("probe", "By hand.", Own(), output, lambda: "ran", effect="read")

    outcome = call(made)

    assert (outcome.result.status, outcome.end["reason"]) == ("error", "completed")
    assert str(error) in outcome.result.content


# -- guarded


def test_what_a_guard_does_to_the_arguments_does_not_reach_the_body(call: Call) -> None:
    """T33: arguments are a snapshot."""
    given: list[Any] = []

    def body(paths: list[str], options: dict[str, list[int]]) -> str:
        given.append((paths, options))
        return "ran"

    def meddle(call: GuardedCall) -> None:
        for change in (
            lambda: call.arguments["paths"].append("forged"),
            lambda: call.arguments["options"].clear(),
            lambda: call.arguments.update(paths=[]),  # type: ignore[attr-defined]
        ):
            try:
                change()
            except (AttributeError, TypeError):
                continue

    outcome = call(reading(body), '{"paths": ["a"], "options": {"b": [1]}}', cc=Hooks(guard_tool_call=meddle))

    assert outcome.result.status == "ok"
    assert given == [(["a"], {"b": [1]})]
    assert outcome.called["arguments"] == {"paths": ["a"], "options": {"b": [1]}}


def test_a_guard_sees_agent_tool_pack_and_arguments_of_the_call(call: Call) -> None:
    seen: list[GuardedCall] = []
    made = _at()

    call(made, '{"path": "a"}', cc=Hooks(guard_tool_call=lambda call: seen.append(call)))

    first = seen[0]
    assert (first.id, first.name, first.tool, first.pack) == ("call-1", "probe", made, "bench")
    assert (dict(first.arguments), first.agent.name) == ({"path": "a"}, "main")


def test_the_hash_of_a_call_is_the_same_at_both_askings(call: Call) -> None:
    """Rule 7."""
    hashes: list[str] = []
    guard = Hooks(guard_tool_call=lambda call: hashes.append(call.hash))

    outcome = call(_at(), '{"path": "é"}', cc=guard)

    assert outcome.result.content == "at é"
    assert len(set(hashes)) == 1
    assert len(hashes[0]) == 64


def test_guards_decide_before_the_call_is_recorded_and_again_before_its_body(call: Call) -> None:
    """Rule 7."""
    order: list[str] = []

    def body() -> str:
        order.append("body")
        return ""

    def note(event: Any) -> None:
        if event.type == "tool_call":
            order.append("recorded")

    call(reading(body), cc=Hooks(guard_tool_call=lambda call: order.append(call.phase), observe=note))

    assert order == ["intent", "recorded", "dispatch", "body"]


def test_a_guard_is_shown_where_links_lead(call: Call, tmp_path: Path) -> None:
    """DESIGN §3.4: touches are resolved with realpath."""
    seen: list[tuple[Touch, ...]] = []
    (tmp_path / "link").symlink_to(tmp_path / "real" / "file")
    touches = lambda path: [Touch.path(path), Touch.path("/etc/../etc/x"), Touch.command(path)]  # noqa: E731

    call(
        _touching(touches), '{"path": "link/../link"}', cc=Hooks(guard_tool_call=lambda call: seen.append(call.touches))
    )

    root = Path(os.path.realpath(tmp_path))
    expected = (
        Touch.path(os.path.realpath(tmp_path / "link/../link")),
        Touch.path(os.path.realpath("/etc/x")),
        Touch.command("link/../link"),
    )
    assert seen == [expected, expected]
    assert Path(expected[0].value).is_relative_to(root / "real")


def _touching(touches: Callable[..., Any]) -> Tool:
    def body(path: str) -> str:
        return f"used {path}"

    return reading(body, touches=touches)


def test_a_link_that_moves_between_the_two_askings_refuses_the_call(call: Call, tmp_path: Path) -> None:
    """Rule 7."""
    link = tmp_path / "link"
    link.symlink_to("innocent")

    def move(call: GuardedCall) -> None:
        link.unlink()
        link.symlink_to("secret")

    outcome = call(
        _touching(lambda path: [Touch.path(path)]), '{"path": "link"}', cc=Hooks(guard_tool_call=move)
    )  # fmt: skip

    assert (outcome.result.status, outcome.returned["pack"]) == ("denied", "pegboard")
    assert "what `probe` would use changed after it was allowed" in outcome.result.content


def _raise(error: BaseException) -> Any:
    raise error


TOUCHES: dict[str, Callable[..., Any]] = {
    "raise": lambda path: _raise(ValueError("no idea")),
    "exit": lambda path: _raise(SystemExit(0)),
    "cancel": lambda path: _raise(asyncio.CancelledError()),
    "raise while told": lambda path: (Touch.path(_raise(ValueError(name))) for name in "a"),
    "are None": lambda path: None,
    "are text": lambda path: [path],
    "do not take the argument": list,
    "are not a path": lambda path: [Touch.path("a\0b")],
    "are a number": lambda path: [Touch.path(5)],  # type: ignore[arg-type]
}


@pytest.mark.parametrize("touches", TOUCHES.values(), ids=TOUCHES)
def test_a_call_is_refused_if_it_cannot_be_told_what_it_would_use(call: Call, touches: Callable[..., Any]) -> None:
    outcome = call(_touching(touches), '{"path": "a"}')

    assert (outcome.result.status, outcome.returned["pack"]) == ("denied", "bench")
    assert "it can't be told what `probe` would use" in outcome.result.content


# -- the kernel's own rule (rule 6)


def writing(body: Callable[..., Any] | None = None) -> Tool:
    """Make a write tool."""

    def change() -> str:
        return "changed"

    function = body or change
    function.__doc__ = "Change something."
    return tool(effect="write", name="probe")(function)


def test_a_write_is_denied_unless_writes_are_allowed(call: Call) -> None:
    denied = call(writing(), allow_writes=False)

    assert (denied.result.status, denied.returned["pack"]) == ("denied", "pegboard")
    assert "--allow-writes" in denied.result.content
    assert denied.end["denied"] == 1


def test_a_read_needs_no_permission(call: Call) -> None:
    assert call(_at(), allow_writes=False).result.status == "ok"


def test_allowing_writes_says_yes_to_the_kernels_question(call: Call) -> None:
    assert call(writing(), allow_writes=True).result.content == "changed"


def test_allowing_writes_answers_a_guards_plain_question(call: Call) -> None:
    asking = Hooks(guard_tool_call=lambda call: Ask("really?"))

    assert call(_at(), cc=asking).result.status == "ok"


def test_a_guards_plain_question_about_a_read_is_denied_when_nobody_can_answer(call: Call) -> None:
    outcome = call(_at(), allow_writes=False, cc=Hooks(guard_tool_call=lambda call: Ask("really?")))

    assert (outcome.result.status, outcome.returned["pack"]) == ("denied", "cc")
    assert "really?" in outcome.result.content


def test_a_question_for_a_person_is_denied_even_when_writes_are_allowed(call: Call) -> None:
    asking = Hooks(guard_tool_call=lambda call: Ask("you there?", person=True))

    outcome = call(untouched(), cc=asking)

    assert (outcome.result.status, outcome.returned["pack"]) == ("denied", "cc")
    assert "a person must answer" in outcome.result.content


def test_allowing_writes_does_not_answer_a_denial(call: Call) -> None:
    """Rule 6: never to deny rules."""
    outcome = call(writing(), cc=Hooks(guard_tool_call=lambda call: Deny("protected")))

    assert (outcome.result.status, outcome.returned["pack"]) == ("denied", "cc")


def test_a_pack_that_claims_policy_decides_instead_of_the_kernel(call: Call) -> None:
    outcome = call(writing(), allow_writes=False, claims_policy=("cc",), cc=Hooks(guard_tool_call=lambda call: None))

    assert outcome.result.content == "changed"


def test_a_pack_that_only_guards_does_not_switch_the_kernels_rule_off(call: Call) -> None:
    outcome = call(writing(), allow_writes=False, cc=Hooks(guard_tool_call=lambda call: None))

    assert (outcome.result.status, outcome.returned["pack"]) == ("denied", "pegboard")


# -- bodies


def test_an_async_body_runs_in_the_thread_of_the_loop(call: Call) -> None:
    async def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert call(reading(where)).result.content == "true"


@pytest.mark.parametrize(("inline", "told"), [(False, "false"), (True, "true")])
def test_a_sync_body_runs_in_a_thread_of_its_own_unless_inline(call: Call, inline: bool, told: str) -> None:
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert call(reading(where, inline=inline)).result.content == told


def test_a_body_may_take_the_context_of_its_call(call: Call, tmp_path: Path) -> None:
    def where(ctx: ToolContext) -> str:
        return f"{ctx.directory} {ctx.cancel.cancelled}"

    assert call(reading(where)).result.content == f"{tmp_path.resolve()} False"


def test_a_sync_body_sees_the_context_variables_of_the_caller(call: Call) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="lost")

    def read_it() -> str:
        return variable.get()

    variable.set("kept")

    assert call(reading(read_it)).result.content == "kept"


class Unspeakable(Exception):
    """An error without text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class UnspeakableTool(ToolError):
    """A tool error without text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Rude(BaseException):
    """An error that is no Exception."""


FAILURES: dict[str, tuple[BaseException, str]] = {
    "an error": (ValueError("broken"), "ValueError: broken"),
    "an error without text": (KeyError(), "KeyError"),
    "a tool error": (ToolError("there is no such file"), "Error: there is no such file"),
    "an exit": (SystemExit(3), "SystemExit(3)"),
    "the end of an iterator": (StopIteration(), "StopIteration"),
    "a cancellation of its own": (asyncio.CancelledError("mine"), "CancelledError"),
    "the end of a generator": (GeneratorExit(), "GeneratorExit"),
    "no Exception at all": (Rude("rude"), "Rude"),
    "an error whose text fails": (Unspeakable(), "Unspeakable"),
    "a tool error whose text fails": (UnspeakableTool(), ""),
    "a group": (ExceptionGroup("several", [ValueError("a"), ValueError("b")]), "several"),
    "a lone surrogate": (ValueError("\ud800"), "ValueError"),
}


@pytest.mark.parametrize("colour", ["async", "sync", "inline"])
@pytest.mark.parametrize(("error", "told"), FAILURES.values(), ids=FAILURES)
def test_whatever_a_body_raises_is_one_error_result_of_a_run_that_goes_on(
    call: Call, monkeypatch: pytest.MonkeyPatch, error: BaseException, told: str, colour: str
) -> None:
    """T39, T43: a failing body ends neither the run nor the process, and does not hang."""
    monkeypatch.setattr("pegboard.calls.body.GRACE_SECONDS", 0.1)

    def body() -> str:
        raise error

    async def async_body() -> str:
        raise error

    outcome = call(reading(async_body if colour == "async" else body, inline=colour == "inline"), meanwhile=_soon)

    assert (outcome.result.status, outcome.result.code) == ("error", "TOOL_FAILED")
    assert told in outcome.result.content
    assert outcome.result.summary.isprintable()
    assert outcome.end["reason"] == "completed"


async def _soon(run: Run) -> None:
    """Give a call that hangs half a second and then cancel it, so that a failing test ends."""
    waiting = asyncio.ensure_future(run.wait())
    await asyncio.wait([waiting], timeout=0.5)
    run.cancel("the test gave up waiting")


# -- what a body promises


def test_text_is_what_the_model_reads_and_other_values_are_json(call: Call) -> None:
    def numbers() -> dict[str, list[int]]:
        return {"é": [1, 2]}

    outcome = call(reading(numbers))

    assert json.loads(outcome.result.content) == {"é": [1, 2]}
    assert "é" in outcome.result.content


def test_render_and_summarize_say_how_a_value_reads(call: Call) -> None:
    def numbers() -> list[int]:
        return [1, 2]

    outcome = call(
        reading(numbers, render=lambda value: f"sum {sum(value)}", summarize=lambda value: f"{len(value)} n")
    )

    assert (outcome.result.content, outcome.result.summary, outcome.returned["summary"]) == ("sum 3", "2 n", "2 n")


def _returning(annotation: Any, value: Any) -> Callable[..., Any]:
    def body() -> Any:
        return value

    body.__annotations__["return"] = annotation
    return body


LIES: dict[str, tuple[Any, Any]] = {
    "nothing for text": (str, None),
    "a number for text": (str, 5),
    "text for a number": (int, "five"),
    "digits for a number": (int, "5"),
    "a boolean for a number": (int, True),
    "a list for an object": (dict[str, int], [1]),
    "a wrong member": (list[int], [1, "x"]),
    "something for nothing": (None, 5),
    "what is no JSON": (Any, object()),
    "an open file": (Any, threading.Lock()),
}


@pytest.mark.parametrize(("annotation", "value"), LIES.values(), ids=LIES)
def test_a_value_of_another_type_than_promised_is_invalid_tool_output(
    call: Call, annotation: Any, value: Any
) -> None:  # fmt: skip
    """T8, T39, AC-T26."""
    outcome = call(reading(_returning(annotation, value)))

    assert (outcome.result.status, outcome.result.code) == ("error", "INVALID_TOOL_OUTPUT")
    assert "`probe` returned what it does not promise" in outcome.result.content


RENDERERS: dict[str, dict[str, Callable[..., Any]]] = {
    "render raises": {"render": lambda value: 1 / 0},
    "render exits": {"render": lambda value: sys.exit(1)},
    "render gives no text": {"render": lambda value: 5},
    "summarize raises": {"summarize": lambda value: 1 / 0},
    "summarize exits": {"summarize": lambda value: sys.exit(1)},
    "summarize gives no text": {"summarize": lambda value: None},
}


@pytest.mark.parametrize("options", RENDERERS.values(), ids=RENDERERS)
def test_a_value_that_cannot_be_shown_is_invalid_tool_output(call: Call, options: dict[str, Any]) -> None:
    """T39."""
    outcome = call(reading(_returning(str, "fine"), **options))

    assert (outcome.result.status, outcome.result.code) == ("error", "INVALID_TOOL_OUTPUT")
    assert isinstance(outcome.result.content, str)
    assert isinstance(outcome.result.summary, str)


def test_a_summary_is_one_printable_line_whatever_the_tool_says(call: Call) -> None:
    """Rule 15, case 44: a tool can't forge a line of the screen."""
    outcome = call(reading(_returning(str, "fine"), summarize=lambda value: "ok\n  2  shell \x1b[2J"))

    assert outcome.result.summary.isprintable()


# -- timeouts and cancelling (rule 9, T44)


@pytest.mark.parametrize("colour", ["async", "sync"])
def test_a_body_is_told_of_its_timeout_and_awaited(call: Call, colour: str) -> None:
    ended: list[str] = []

    async def patient(ctx: ToolContext) -> str:
        ended.append(await ctx.cancel.wait())
        return "fine"

    def patient_thread(ctx: ToolContext) -> str:
        while not ctx.cancel.cancelled:
            time.sleep(0.005)
        ended.append(ctx.cancel.cause or "")
        return "fine"

    outcome = call(reading(patient if colour == "async" else patient_thread, timeout=0.02))

    assert (outcome.result.status, outcome.result.code, ended) == ("error", "TIMEOUT", ["timeout"])
    assert "0.02 s" in outcome.result.content


@pytest.mark.parametrize("colour", ["async", "sync"])
def test_a_success_after_cancelling_becomes_aborted_once_the_body_has_ended(call: Call, colour: str) -> None:
    """AC-T31."""
    began, ended = threading.Event(), threading.Event()

    async def patient(ctx: ToolContext) -> str:
        began.set()
        await ctx.cancel.wait()
        await asyncio.sleep(0.02)
        ended.set()
        return "done"

    def patient_thread(ctx: ToolContext) -> str:
        began.set()
        while not ctx.cancel.cancelled:
            time.sleep(0.005)
        ended.set()
        return "done"

    async def cancel(run: Run) -> None:
        await asyncio.to_thread(began.wait, 3)
        run.cancel("enough")
        await run.wait()
        assert ended.is_set()

    outcome = call(reading(patient if colour == "async" else patient_thread), meanwhile=cancel)

    assert (outcome.result.status, outcome.result.code) == ("aborted", "ABORTED")
    assert outcome.result.content == "tool call aborted"


def test_a_run_of_one_call_that_was_cancelled_ends_aborted(call: Call) -> None:
    async def patient(ctx: ToolContext) -> str:
        await ctx.cancel.wait()
        return "done"

    async def cancel(run: Run) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        run.cancel("enough")

    outcome = call(reading(patient), meanwhile=cancel)

    assert outcome.result.code == "ABORTED"
    assert (outcome.end["reason"], outcome.end["text"]) == ("aborted", "enough")


def test_a_failure_before_the_cancel_is_kept(call: Call) -> None:
    """AC-T31, rule 9."""
    runs: list[Run] = []

    async def fail() -> str:
        asyncio.get_running_loop().call_soon(runs[0].cancel, "enough")  # given after the body has failed
        raise ValueError("broken by itself")

    async def keep(run: Run) -> None:
        runs.append(run)

    outcome = call(reading(fail), meanwhile=keep)

    assert (outcome.result.status, outcome.result.code) == ("error", "TOOL_FAILED")
    assert "broken by itself" in outcome.result.content


def test_what_a_tool_says_about_its_failure_is_kept_after_a_cancel(call: Call) -> None:
    """T44: a real error is kept."""

    async def fail(ctx: ToolContext) -> str:
        await ctx.cancel.wait()
        raise ToolError("half of it is written")

    async def cancel(run: Run) -> None:
        await asyncio.sleep(0.02)
        run.cancel("enough")

    outcome = call(reading(fail), meanwhile=cancel)

    assert (outcome.result.status, outcome.result.content) == ("error", "Error: half of it is written")


@pytest.mark.parametrize("colour", ["async", "sync"])
@pytest.mark.parametrize("signal", ["timeout", "cancel"])
def test_a_body_that_never_ends_is_indeterminate_and_the_run_ends(
    call: Call, monkeypatch: pytest.MonkeyPatch, colour: str, signal: str
) -> None:
    """Rule 9."""
    monkeypatch.setattr("pegboard.calls.body.GRACE_SECONDS", 0.05)
    released = threading.Event()

    async def endless() -> str:
        await asyncio.Event().wait()
        return "late"

    def endless_thread() -> str:
        released.wait(5)
        return "late"

    async def cancel(run: Run) -> None:
        await asyncio.sleep(0.02)
        if signal == "cancel":
            run.cancel("enough")
        await run.wait()

    body = endless if colour == "async" else endless_thread
    outcome = call(reading(body, timeout=0.02 if signal == "timeout" else None), meanwhile=cancel)
    released.set()

    assert (outcome.result.status, outcome.result.code) == ("indeterminate", "INDETERMINATE")
    assert "whether it took effect is not known" in outcome.result.content
    assert outcome.end["reason"] == "error"


def test_the_result_of_a_body_that_never_ends_is_handed_out_like_any_other(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pegboard.calls.body.GRACE_SECONDS", 0.02)

    async def endless() -> str:
        await asyncio.Event().wait()
        return "late"

    outcome = call(reading(endless, timeout=0.02))

    assert outcome.handed_out == [outcome.result]


def test_a_body_that_breaks_the_signal_is_abandoned_all_the_same(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pegboard.calls.body.GRACE_SECONDS", 0.05)

    async def hostile(ctx: ToolContext) -> str:
        ctx.cancel.on_cancel(lambda: 1 / 0)
        await asyncio.sleep(1)
        return "late"

    async def cancel(run: Run) -> None:
        await asyncio.sleep(0.02)
        with contextlib.suppress(ZeroDivisionError):
            run.cancel("enough")

    assert call(reading(hostile), meanwhile=cancel).result.code == "INDETERMINATE"


ENDLESS = """
import asyncio, pathlib, time
import pegboard.calls.body
from pegboard import Host, Session, ToolCall

pegboard.calls.body.GRACE_SECONDS = 0.05

async def main():
    async with Host.open() as host:
        agent = await host.create_agent(session=Session.new(pathlib.Path.cwd()))
        run, _ = host.submit_call(agent, ToolCall("1", "endless", ""))
        print((await run.wait()).as_json()["reason"])

asyncio.run(main())
"""

ENDLESS_PACK = """
import time
from pegboard import hookimpl, tool

@tool(effect="read", timeout=0.05)
def endless() -> str:
    '''Never end.'''
    while True:
        time.sleep(60)

class Pack:
    @hookimpl
    def register_tools(self):
        return [endless]
"""


def test_a_sync_body_that_never_ends_does_not_keep_the_process_alive(pack_folder: Any, home: Any) -> None:
    """Rule 9."""
    pack_folder.add("endless", ENDLESS_PACK)

    ended = subprocess.run([sys.executable, "-c", ENDLESS], capture_output=True, text=True, timeout=30, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "error\n", "")


# -- the signal itself


def test_a_signal_is_given_once_and_the_first_cause_counts() -> None:
    order: list[str] = []
    signal = CancelSignal()
    signal.on_cancel(lambda: order.append("first"))
    signal.on_cancel(lambda: order.append("second"))

    signal.cancel("mine")
    signal.cancel("yours")

    assert (signal.cancelled, signal.cause, order) == (True, "mine", ["second", "first"])


def test_a_callback_added_after_the_signal_runs_at_once() -> None:
    order: list[str] = []
    signal = CancelSignal()
    signal.cancel("mine")

    signal.on_cancel(lambda: order.append("late"))()

    assert order == ["late"]


def test_disposing_a_callback_twice_leaves_an_equal_one_alone() -> None:
    """AC-T17: equal functions are independent registrations; disposers are idempotent (rule 14)."""
    order: list[str] = []

    def note() -> None:
        order.append("told")

    signal = CancelSignal()
    dispose = signal.on_cancel(note)
    signal.on_cancel(note)

    dispose()
    dispose()
    signal.cancel("mine")

    assert order == ["told"]


def test_one_failing_callback_does_not_keep_the_others_from_hearing() -> None:
    order: list[str] = []
    signal = CancelSignal()
    signal.on_cancel(lambda: order.append("first"))
    signal.on_cancel(lambda: 1 / 0)

    with contextlib.suppress(ZeroDivisionError):
        signal.cancel("mine")

    assert order == ["first"]


def test_waiting_for_a_signal_returns_its_cause() -> None:
    async def main() -> str:
        signal = CancelSignal()
        asyncio.get_running_loop().call_soon(signal.cancel, "mine")
        return await signal.wait() + " " + await signal.wait()

    assert asyncio.run(main()) == "mine mine"
