"""What packs, adapters and moments once made go wrong in a call or a step: each was a fault, and is none any more."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pegboard import (
    Agent,
    Answer,
    Ask,
    AssistantMessage,
    Definition,
    Deny,
    Entry,
    Finish,
    Host,
    Limits,
    ModelReply,
    NeedsAnswer,
    NeedsApproval,
    Outcome,
    Reject,
    Run,
    RunEnd,
    TextDelta,
    ToolCall,
    ToolContext,
    Touch,
    WaitsForSessions,
    tool,
)
from pegboard.events import Dropped, Note, Replied, Returned
from pegboard.record.stores import MemoryStore
from pegboard.testing import ScriptedModel, call

from .test_pipeline_cases import BENCH, FRONT_ENDS, Pack, Took, bench, bodies, opened, ran, reply, until


@pytest.fixture(autouse=True)
def _no_body_ran_yet() -> None:
    bodies.clear()


Drive = Callable[[Host, Agent], Awaitable[RunEnd]]


def driven(
    folder: Path, drive: Drive, *turns: Any, config: str = "", definition: Definition | str = "main", **packs: Any
) -> Took:
    """Let a scripted model take its turns while `drive` does what a program would."""

    async def main() -> Took:
        async with opened(folder, config, **{"bench": BENCH, **packs}) as host:
            agent = await host.create_agent(definition, directory=folder, model=ScriptedModel(*turns, "done"))
            return Took(host, agent, await drive(host, agent))

    return asyncio.run(main())


class Hanging:
    """A model that never answers."""

    label = "hanging"

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def stream(self, request: Any) -> Any:
        """Hang."""
        self.asked.set()
        await asyncio.Event().wait()
        yield Finish()


async def ends_when_cancelled(run: Run) -> bool:
    """Cancel, and tell whether the run ends; one that does not is torn down."""
    run.cancel("enough")
    await asyncio.wait({run.task}, timeout=5)
    ended = run.task.done()
    while not run.task.done():
        run.task.cancel()
        await asyncio.sleep(0.01)
    return ended


# -- cancels at bad moments


def test_a_cancel_that_comes_while_a_step_is_recorded_keeps_the_model_from_being_asked(tmp_path: Path) -> None:
    """Rule 9."""
    runs: list[Run] = []

    class Slow(MemoryStore):
        async def append(self, session: str, entries: Sequence[Entry], *, expect: int) -> None:
            if any(entry.event.type == "step_start" for entry in entries):
                runs[0].cancel("enough")
            await super().append(session, entries, expect=expect)

    async def main() -> tuple[RunEnd, bool]:
        async with opened(tmp_path, bench=BENCH, slow=Pack(session_store=lambda: Slow())) as host:
            model = Hanging()
            agent = await host.create_agent(directory=tmp_path, model=model)
            runs.append(agent.followup("go"))
            return await asyncio.wait_for(runs[0].wait(), 10), model.asked.is_set()

    end, asked = asyncio.run(main())

    assert (end.reason, end.text, asked) == ("aborted", "enough", False)


def test_a_prompt_that_is_never_assembled_can_be_cancelled(tmp_path: Path) -> None:
    began = asyncio.Event()

    async def hang(agent: Any, prompt: Any) -> None:
        began.set()
        await asyncio.Event().wait()

    async def main() -> bool:
        async with opened(tmp_path, bench=BENCH, slow=Pack(assemble_prompt=hang)) as host:
            agent = await host.create_agent(directory=tmp_path, model=ScriptedModel("done"))
            run = agent.followup("go")
            await began.wait()
            return await ends_when_cancelled(run)

    assert asyncio.run(main())


def test_a_note_that_is_recorded_beside_a_run_does_not_make_it_uncancellable(tmp_path: Path) -> None:
    written = asyncio.Event()
    notes: list[asyncio.Task[None]] = []

    class Slow(MemoryStore):
        async def append(self, session: str, entries: Sequence[Entry], *, expect: int) -> None:
            if any(isinstance(entry.event, Note) for entry in entries):
                await written.wait()
            await super().append(session, entries, expect=expect)

    async def note(step: Any) -> None:
        notes.append(asyncio.create_task(step.agent.current_run.note("x", {})))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.02, written.set)

    async def main() -> bool:
        packs = {"slow": Pack(session_store=lambda: Slow()), "notes": Pack(agent_pre_step=note)}
        async with opened(tmp_path, bench=BENCH, **packs) as host:
            model = Hanging()
            agent = await host.create_agent(directory=tmp_path, model=model)
            run = agent.followup("go")
            await model.asked.wait()
            return await ends_when_cancelled(run)

    assert asyncio.run(main())


@pytest.mark.parametrize("who", ["the run", "a wrapper"])
def test_a_cancel_whose_cause_reads_timeout_is_no_timeout(tmp_path: Path, who: str) -> None:
    """T44: only the tool's own time limit is."""

    async def wrap(call: Any, proceed: Any) -> Outcome:
        if who == "a wrapper":
            asyncio.get_running_loop().call_later(0.02, call.cancel.cancel, "timeout")
        return await proceed()  # type: ignore[no-any-return]

    async def drive(_host: Host, agent: Agent) -> RunEnd:
        run = agent.followup("go")
        await until(lambda: bodies)
        if who == "the run":
            run.cancel("timeout")
        return await run.wait()

    assert driven(tmp_path, drive, call("stop"), wraps=Pack(wrap_tool_call=wrap)).codes == ["ABORTED"]


def test_posts_that_hang_after_a_cancel_share_one_grace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 10: the run has its end, and every call a result."""
    monkeypatch.setattr("pegboard.calls.body.GRACE_SECONDS", 0.05)
    seen: list[str] = []

    async def hang(call: Any) -> None:
        seen.append(call.name)
        await asyncio.Event().wait()

    async def drive(_host: Host, agent: Agent) -> RunEnd:
        run = agent.followup("go")
        await until(lambda: seen)
        assert await ends_when_cancelled(run)
        return await run.wait()

    took = driven(tmp_path, drive, reply(*[call("peek")] * 6), slow=Pack(tool_post_execute=hang))

    assert (took.end.reason, len(took.returned)) == ("aborted", 6)


# -- what changes while a person thinks


@pytest.mark.parametrize("asks", ["the body", "a guard at dispatch", "a guard at intent"])
def test_a_link_that_moves_while_a_person_thinks_leads_nowhere(tmp_path: Path, asks: str) -> None:
    """Rule 7, case 32: the approval is of what was shown, whoever asked for it."""
    work = tmp_path / "work"
    (work / "ok").mkdir(parents=True)
    (work / ".git" / "hooks").mkdir(parents=True)
    link = work / "link"
    link.symlink_to("ok")
    wrote: list[Path] = []

    @tool(effect="write", touches=lambda path: [Touch.path(path)])
    async def put(path: str, ctx: ToolContext) -> str:
        """Put a file."""
        if asks == "the body" and not ctx.approved:
            raise NeedsApproval("sure?")
        wrote.append((ctx.directory / path).resolve())
        return "written"

    def move(interaction: Any) -> Answer:
        link.unlink()
        link.symlink_to(".git/hooks")
        return Answer.yes()

    guard = Pack(guard_tool_call=lambda call: Ask("sure?", person=True) if call.phase in asks else None)

    async def main() -> Took:
        packs = {"bench": bench(put), "phone": Pack(answer_interaction=move), "asks": guard}
        async with opened(tmp_path / "config", FRONT_ENDS, **packs) as host:
            model = ScriptedModel(call("put", path="link/pre-commit"), "done")
            agent = await host.create_agent(directory=work, model=model)
            return Took(host, agent, await agent.followup("go", allow_writes=True).wait())

    assert asyncio.run(main()).codes == ["DENIED"]
    assert wrote == []


def test_a_yes_with_a_text_answers_no_question(tmp_path: Path) -> None:
    @tool(effect="read")
    async def both(ctx: ToolContext) -> str:
        """Ask twice."""
        if not ctx.approved:
            raise NeedsApproval("may I?")
        if ctx.answer is None:
            raise NeedsAnswer("which?")
        return ctx.answer

    def phone(interaction: Any) -> Answer:
        return Answer(True, "go ahead") if interaction.kind == "permission" else Answer.say("blue")

    took = ran(tmp_path, call("both"), config=FRONT_ENDS, bench=bench(both), phone=Pack(answer_interaction=phone))

    assert took.content == "blue"


# -- wrappers and guards that do what they may not


@pytest.mark.parametrize("returns", [Outcome.of("cached"), Outcome("error", "too slow", "too slow", "SLOW")])
def test_a_body_that_its_wrapper_does_not_wait_for_is_awaited_before_anything_else_begins(
    tmp_path: Path, returns: Outcome
) -> None:
    """Rule 9, T45."""
    log: list[str] = []

    @tool(effect="read")
    async def slow() -> str:
        """Take a while."""
        log.append("begin")
        for _ in range(10):
            await asyncio.sleep(0.005)
        log.append("end")
        return "slow"

    @tool(effect="read")
    async def after() -> str:
        """Come after it."""
        log.append("after")
        return "after"

    left: list[asyncio.Future[Outcome]] = []

    async def wrap(call: Any, proceed: Any) -> Outcome:
        if call.name != "slow":
            return await proceed()  # type: ignore[no-any-return]
        left.append(asyncio.ensure_future(proceed()))
        await asyncio.wait(left, timeout=0.01)
        return returns

    ran(tmp_path, reply(call("slow"), call("after")), bench=bench(slow, after), wraps=Pack(wrap_tool_call=wrap))

    assert log == ["begin", "end", "after"]


@pytest.mark.parametrize("how", ["timeout", "wait_for"])
def test_a_wrapper_may_use_asyncio_to_limit_a_bodys_time(tmp_path: Path, how: str) -> None:
    """T37: that call fails, the run goes on."""

    async def wrap(call: Any, proceed: Any) -> Outcome:
        if how == "wait_for":
            return await asyncio.wait_for(proceed(), 0.05)  # type: ignore[no-any-return]
        async with asyncio.timeout(0.05):
            return await proceed()  # type: ignore[no-any-return]

    took = ran(tmp_path, reply(call("stop"), call("peek")), wraps=Pack(wrap_tool_call=wrap))

    assert (took.end.reason, took.codes[0]) == ("completed", "TOOL_FAILED")


def test_a_wrapper_with_a_task_group_does_not_swallow_what_the_body_needs(tmp_path: Path) -> None:
    @tool(effect="read")
    async def careful(ctx: ToolContext) -> str:
        """Ask first."""
        if not ctx.approved:
            raise NeedsApproval("may I?")
        return "did it"

    async def wrap(call: Any, proceed: Any) -> Outcome:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(proceed())
        return task.result()  # type: ignore[no-any-return]

    packs = {"phone": Pack(answer_interaction=lambda: Answer.yes()), "wraps": Pack(wrap_tool_call=wrap)}

    assert ran(tmp_path, call("careful"), config=FRONT_ENDS, bench=bench(careful), **packs).content == "did it"


@pytest.mark.parametrize(
    "made",
    [
        Outcome("weird", "x", "x"),  # type: ignore[arg-type]
        Outcome("error", "x", "x", 5),  # type: ignore[arg-type]
        Outcome("error", "x", "several\nlines " + "x" * 5000, "X"),
    ],
    ids=["status", "code", "summary"],
)
def test_an_outcome_that_is_none_is_not_recorded_as_it_is(tmp_path: Path, made: Outcome) -> None:
    async def wrap(call: Any, proceed: Any) -> Outcome:
        await proceed()
        return made

    took = ran(tmp_path, reply(call("peek"), call("peek")), wraps=Pack(wrap_tool_call=wrap))

    assert took.end.reason == "completed"
    for event in took.returned:
        assert event.status == "error"
        assert isinstance(event.code, str)
        assert "\n" not in event.summary
        assert len(event.summary) < 1000


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_guard_whose_answer_can_not_even_be_looked_at_is_a_denial(tmp_path: Path, colour: str) -> None:
    """Rule 6: guards fail closed."""

    class Evil:
        @property
        def __class__(self) -> type:
            raise RuntimeError("no class")

    async def guard(call: Any) -> Any:
        return Evil()

    ran(tmp_path, call("peek"), evil=Pack(guard_tool_call=guard if colour == "async" else lambda call: Evil()))

    assert bodies == []


@pytest.mark.parametrize("reason", [3, None, object()])
def test_a_refusal_without_a_text_is_a_denial_that_can_be_recorded(tmp_path: Path, reason: Any) -> None:
    took = ran(tmp_path, call("peek"), odd=Pack(guard_tool_call=lambda: Deny(reason)))

    assert (took.codes, took.end.reason) == (["DENIED"], "completed")
    assert "whose reason is no text" in took.content


@pytest.mark.parametrize(
    "needs", [lambda: NeedsAnswer("q", [1]), lambda: WaitsForSessions(5, []), lambda: NeedsApproval(None)]
)
def test_a_need_that_is_no_text_is_the_tools_error(tmp_path: Path, needs: Callable[[], Exception]) -> None:
    @tool(effect="read")
    async def odd() -> str:
        """Need something odd."""
        raise needs()

    took = ran(tmp_path, call("odd"), bench=bench(odd))

    assert took.codes == ["TOOL_FAILED"]
    assert "takes texts, not" in took.content


# -- models that say what they may not


@pytest.mark.parametrize(
    "event",
    [
        ToolCall("c", "peek", {"path": "x"}),  # type: ignore[arg-type]
        ToolCall(5, "peek", "{}"),  # type: ignore[arg-type]
        ToolCall("c", None, "{}"),  # type: ignore[arg-type]
        TextDelta(None),  # type: ignore[arg-type]
        Finish(usage=None),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_a_field_of_another_type_is_the_adapters_error(tmp_path: Path, event: Any) -> None:
    """Rule 10: and no call is left without a result."""
    took = ran(tmp_path, [TextDelta("x"), event, Finish()])

    called = [one for event in took.events if isinstance(event, Replied) for one in event.calls]
    assert (took.end.reason, called, took.returned) == ("error", [], [])
    assert "the model's adapter gave a" in took.end.text


@pytest.mark.parametrize(
    "made",
    [
        lambda: ModelReply("text"),
        lambda: ModelReply(AssistantMessage("x", ("peek",))),
        lambda: ModelReply(AssistantMessage(None)),
    ],
)
def test_a_forged_reply_is_the_packs_error(tmp_path: Path, made: Callable[[], ModelReply]) -> None:
    async def wrap(request: Any, proceed: Any) -> ModelReply:
        await proceed(request)
        return made()

    took = ran(tmp_path, wraps=Pack(wrap_model_call=wrap))

    assert (took.end.reason, took.end.text) == ("error", "a pack around the model returned a reply that is none")


# -- input that was claimed, and turns that paused


@pytest.mark.parametrize("how", ["the last step", "a rejection", "a failure"])
def test_steered_input_that_enters_no_step_is_not_lost_without_a_trace(tmp_path: Path, how: str) -> None:
    """L19."""
    agents: list[Agent] = []

    @tool(effect="read")
    async def steer() -> str:
        """Steer."""
        agents[0].steer("and this")
        return "steered"

    def pre(step: Any) -> Reject | None:
        if step.number == 1 or how == "the last step":
            return None
        if how == "a failure":
            raise ValueError("no")
        return Reject("no")

    async def drive(_host: Host, agent: Agent) -> RunEnd:
        agents.append(agent)
        end = await agent.followup("go").wait()
        await agent.settled()
        return end

    limits = Limits(steps=1) if how == "the last step" else Limits()
    packs = {"bench": bench(steer), "pre": Pack(agent_pre_step=pre)}
    took = driven(tmp_path, drive, call("steer"), definition=Definition(limits=limits), **packs)

    told = [event.inputs for event in took.events if isinstance(event, Dropped)]
    said = [event for event in took.events if getattr(event, "text", "") == "and this"]
    assert told == [("and this",)] or said


def test_a_call_that_had_begun_to_wait_is_not_told_to_have_never_begun(tmp_path: Path) -> None:
    @tool(effect="read")
    async def delegate() -> str:
        """Delegate."""
        raise WaitsForSessions("job", [])

    async def resume(ctx: ToolContext, job: str) -> str:
        return "resumed"

    def starting(run: Run) -> None:
        if run.resumes:
            run.cancel("enough")

    async def drive(host: Host, agent: Agent) -> RunEnd:
        assert (await host.submit(agent, "go", on_ask="pause").wait()).reason == "paused"
        return await (await host.resume(agent)).wait()

    packs = {"bench": bench(replace(delegate, resume=resume)), "starts": Pack(run_starting=starting)}

    assert driven(tmp_path, drive, call("delegate"), **packs).codes == ["ABORTED"]


def test_a_call_that_waits_for_others_is_not_told_to_have_never_begun_when_its_run_is_cancelled(tmp_path: Path) -> None:
    """Rule 10."""
    runs: list[Run] = []

    @tool(effect="read")
    async def delegate() -> str:
        """Delegate."""
        raise WaitsForSessions("job", [])

    async def resume(ctx: ToolContext, job: str) -> str:
        return "resumed"

    @tool(effect="read")
    async def last() -> str:
        """Cancel the run."""
        runs[0].cancel("enough")
        return "x"

    async def drive(host: Host, agent: Agent) -> RunEnd:
        runs.append(host.submit(agent, "go", on_ask="pause"))
        return await runs[0].wait()

    took = driven(
        tmp_path, drive, reply(call("delegate"), call("last")), bench=bench(replace(delegate, resume=resume), last)
    )

    assert (took.end.reason, took.codes) == ("aborted", ["ABORTED", "ABORTED"])


def test_a_success_that_is_to_end_the_run_still_does_after_a_pause(tmp_path: Path) -> None:
    """T47."""

    @tool(effect="read")
    async def finish(ctx: ToolContext) -> str:
        """Finish."""
        ctx.conclude()
        return "the end"

    async def main() -> tuple[RunEnd, int]:
        model = ScriptedModel(reply(call("finish"), call("poke")), "asked again")
        async with opened(tmp_path, bench=bench(finish)) as host:
            agent = await host.create_agent(directory=tmp_path, model=model)
            run = host.submit(agent, "go", on_ask="pause")
            assert (await run.wait()).reason == "paused"
            await host.answer(agent.id, 1, Answer.yes())
            return await run.finish(), len(model.requests)

    end, requests = asyncio.run(main())

    assert (end.reason, end.text, requests) == ("completed", "the end", 1)


def test_a_tool_that_is_gone_when_its_call_is_taken_up_says_why(tmp_path: Path) -> None:
    """Rule 3."""

    async def drive(host: Host, agent: Agent) -> RunEnd:
        assert (await host.submit(agent, "go", on_ask="pause").wait()).reason == "paused"
        agent.restrict(deny=["poke"])
        again = await host.answer(agent.id, 1, Answer.yes())
        assert again is not None
        return await again.wait()

    took = driven(tmp_path, drive, call("poke"))

    assert [event.code for event in took.events if isinstance(event, Returned)] == ["WITHDRAWN"]
    assert took.content.endswith("a restriction of this program hides it")
