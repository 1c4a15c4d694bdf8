"""What twelve small packs asked the contract for: ends of a run, processes in a line, notes, folders, feeds, owners."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pegboard import (
    Agent,
    Answer,
    Deny,
    EndRun,
    Entry,
    Event,
    Finish,
    GuardedCall,
    Host,
    Interaction,
    ModelEvent,
    ModelReply,
    ModelRequest,
    Outcome,
    PegboardError,
    ProceedModel,
    ProceedTool,
    ProcessSpec,
    Prompt,
    RunEnd,
    TextDelta,
    Tool,
    ToolContext,
    ToolResult,
    ToolRun,
    Usage,
    UsageError,
    hookimpl,
    hooks,
    implements,
    tool,
)
from pegboard.base.errors import Disposed
from pegboard.events import Called, Note, Progress, Replied, Returned, RunStart, Text
from pegboard.process.pipes import Completed
from pegboard.record.feed import Feed
from pegboard.testing import PackFolder, ScriptedModel, call, recorded

OpenHost = Callable[..., Host]
posix = pytest.mark.skipif(os.name == "nt", reason="there is no `sh`")


class Pack(ModuleType):
    """A pack made of functions, each the implementation of the hook that it is named after."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        super().__init__("pack")
        vars(self).update({name: hookimpl(function) for name, function in functions.items()})


async def turns(number: int = 50) -> None:
    """Let everything that is ready go on."""
    for _ in range(number):
        await asyncio.sleep(0)


def notes(agent: Agent) -> list[Note]:
    """Return what packs have noted with an agent's session."""
    return [event for event in recorded(agent, all_of_it=True) if isinstance(event, Note)]


def tries(attempt: Callable[[], object], found: list[object]) -> None:
    """Keep what an attempt returned, or its error."""
    try:
        found.append(attempt())
    except Exception as error:
        found.append(error)


# -- EndRun


class Passing:
    """Passes the request on, and keeps what comes back as an error."""

    def __init__(self) -> None:
        self.saw: list[BaseException] = []

    @implements(hooks.wrap_model_call)
    async def watch(self, request: ModelRequest, proceed: ProceedModel) -> ModelReply:
        try:
            return await proceed(request)
        except BaseException as error:
            self.saw.append(error)
            raise


class Ending:
    """Ends the run after the reply, with whatever it was made with."""

    def __init__(self, *end: Any) -> None:
        self.end = end

    @implements(hooks.wrap_model_call)
    async def stop(self, request: ModelRequest, proceed: ProceedModel) -> ModelReply:
        await proceed(request)
        raise EndRun(*self.end)


@pytest.mark.parametrize("reason", ["limit", "blocked", "completed"])
async def test_end_run_ends_the_run_with_its_reason_and_text(
    host: Host, agent: Agent, scripted_model: ScriptedModel, reason: str
) -> None:
    await host.load_pack("budget", Ending(reason, "the budget is used up"))
    scripted_model.will((TextDelta("A reply."), Finish(Usage(3, 4))))

    end = await agent.followup("Go on.").wait()

    assert (end.reason, end.text, end.usage) == (reason, "the budget is used up", Usage(3, 4))
    assert recorded(agent)[-1] == end
    assert not any(isinstance(event, Replied) for event in recorded(agent, all_of_it=True))
    assert host.faults == []


async def test_end_run_passes_through_the_wrappers_around_it(
    host: Host, agent: Agent, scripted_model: ScriptedModel
) -> None:
    outer, middle, inner = Passing(), Passing(), Passing()
    packs = {"inner": inner, "stop": Ending("limit", "enough"), "middle": middle, "outer": outer}
    for name, pack in packs.items():
        await host.load_pack(name, pack)
    scripted_model.will("A reply.")

    end = await agent.followup("Go on.").wait()

    assert (end.reason, end.text) == ("limit", "enough")
    assert [str(error) for error in (*outer.saw, *middle.saw)] == ["enough", "enough"]
    assert inner.saw == []


async def test_a_wrapper_may_answer_in_place_of_an_end(host: Host, agent: Agent, scripted_model: ScriptedModel) -> None:
    class Forgiving:
        @implements(hooks.wrap_model_call, tryfirst=True)
        async def retry(self, request: ModelRequest, proceed: ProceedModel) -> ModelReply:
            try:
                return await proceed(request)
            except EndRun:
                await host.unload_pack("stop")
                return await proceed(request)

    await host.load_pack("stop", Ending("limit", "enough"))
    await host.load_pack("forgiving", Forgiving())
    scripted_model.will("First.", "Second.", "Third.")

    assert (await agent.followup("Go on.").wait()).reason == "limit"  # its plan was made before
    assert (await agent.followup("Go on.").wait()).text == "Third."


async def test_in_wrap_tool_call_end_run_is_a_failure_like_any_other(
    host: Host, agent: Agent, scripted_model: ScriptedModel
) -> None:
    class Impatient:
        @implements(hooks.wrap_tool_call)
        async def stop(self, call: ToolRun, proceed: ProceedTool) -> Outcome:
            raise EndRun("limit", "enough")

    host.tools.register(look)
    await host.load_pack("impatient", Impatient())
    scripted_model.will(call("look"), "I saw nothing.")

    end = await agent.followup("Look.").wait()

    assert (end.reason, end.text) == ("completed", "I saw nothing.")
    (result,) = (event for event in recorded(agent) if isinstance(event, Returned))
    assert (result.status, result.code) == ("error", "TOOL_FAILED")
    assert "wrap_tool_call of pack `impatient` failed: EndRun: enough" in result.content


async def test_a_body_that_raises_end_run_has_failed(agent: Agent, scripted_model: ScriptedModel) -> None:
    @tool(effect="read")
    def stop() -> str:
        """Stop."""
        raise EndRun("limit", "enough")

    agent.tools.register(stop)
    scripted_model.will(call("stop"), "It went on.")

    assert (await agent.followup("Stop.").wait()).text == "It went on."


@tool(effect="read")
def look() -> str:
    """Look around."""
    return "a room"


# -- ctx.run


def running(script: str, done: list[Completed], **options: Any) -> Tool:
    """Return a tool that runs a shell script to its end and keeps what came of it."""

    @tool(effect="read")
    async def run(ctx: ToolContext) -> str:
        """Run the script."""
        done.append(await ctx.run(ProcessSpec(("sh", "-c", script), ctx.directory), **options))
        return done[-1].text

    return run


@posix
@pytest.mark.parametrize(
    ("script", "came"),
    [
        ("echo here; cat in", Completed(0, "here\ninside")),
        ("echo lost; exit 3", Completed(3, "lost\n")),
        ("echo unheard >&2", Completed(0, "")),
        ("kill -9 $$", Completed(-9, "")),
    ],
)
async def test_ctx_run_returns_the_exit_code_and_the_output(
    agent: Agent, workspace_dir: Path, script: str, came: Completed
) -> None:
    (workspace_dir / "in").write_text("inside")
    done: list[Completed] = []
    agent.tools.register(running(script, done))

    assert (await agent.call_tool("run")).status == "ok"
    assert done == [came]


@posix
async def test_ctx_run_leaves_out_the_middle_of_what_is_over_the_cap(agent: Agent) -> None:
    done: list[Completed] = []
    agent.tools.register(running("printf 'begin'; printf '%01000d' 0; printf 'end'", done, cap=30))

    await agent.call_tool("run")

    assert done[0].left_out == 1008 - 30
    assert done[0].text.startswith("begin0")
    assert done[0].text.endswith("0end")
    assert "978 bytes left out" in done[0].text


@posix
async def test_ctx_run_keeps_no_more_than_its_default_cap(agent: Agent) -> None:
    done: list[Completed] = []
    agent.tools.register(running("printf '%050000d' 0", done))

    await agent.call_tool("run")

    assert done[0].left_out == 20_000


@posix
async def test_a_sync_body_waits_for_ctx_run(agent: Agent) -> None:
    @tool(effect="read")
    def run(ctx: ToolContext) -> str:
        """Run a script."""
        done: Completed = ctx.wait(ctx.run(ProcessSpec(("echo", "here"), ctx.directory)))
        return done.text

    agent.tools.register(run)

    assert (await agent.call_tool("run")).content == "here\n"


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what happens outside of the event loop."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110  # there is nothing that would tell
            await asyncio.sleep(0.01)


async def number_in(file: Path) -> int:
    """Wait for a number, and its line's end, in a file."""
    await until(lambda: file.exists() and file.read_text().endswith("\n"))
    return int(await asyncio.to_thread(file.read_text))


def is_gone(pid: int) -> bool:
    """Whether there is no such process, or only what nobody has reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z"


@posix
async def test_a_cancel_ends_what_ctx_run_runs_and_all_it_started(
    agent: Agent, scripted_model: ScriptedModel, workspace_dir: Path
) -> None:
    done: list[Completed] = []
    agent.tools.register(running("sleep 600 & echo $! >pid; wait", done))
    scripted_model.will(call("run"))

    run = agent.followup("Run it.")
    started = await number_in(workspace_dir / "pid")
    run.cancel("enough")
    end = await run.wait()

    assert (end.reason, end.text) == ("aborted", "enough")
    assert done[0].returncode == -15
    await until(lambda: is_gone(started))


@posix
async def test_the_timeout_of_a_tool_ends_what_ctx_run_runs(agent: Agent) -> None:
    done: list[Completed] = []
    agent.tools.register(replace(running("sleep 600", done), timeout=0.05))

    assert (await agent.call_tool("run")).code == "TIMEOUT"
    assert done[0].returncode < 0


@posix
async def test_what_ctx_run_starts_after_a_cancel_ends_at_once(agent: Agent) -> None:
    done: list[Completed] = []

    @tool(effect="read")
    async def run(ctx: ToolContext) -> str:
        """Run a script, too late."""
        ctx.cancel.cancel("too late")
        done.append(await ctx.run(ProcessSpec(("sh", "-c", "sleep 600"), ctx.directory)))
        return "never said"

    agent.tools.register(run)

    assert (await agent.call_tool("run")).code == "ABORTED"
    assert done[0].returncode < 0


class Refusing:
    @implements(hooks.prepare_process)
    def refuse(self, spec: ProcessSpec) -> Deny:
        return Deny(f"{os.path.basename(spec.argv[0])} of `{spec.owner}` stays out")


@posix
async def test_what_a_pack_refuses_ctx_run_does_not_start(host: Host, agent: Agent) -> None:
    done: list[Completed] = []
    await host.load_pack("runner", Pack(register_tools=lambda: [running("echo here", done)]))
    await host.load_pack("refusing", Refusing())

    result = await agent.call_tool("run")

    assert (result.status, result.code, done) == ("error", "TOOL_FAILED", [])
    assert "sh of `runner` stays out" in result.content


@posix
async def test_prepare_process_sees_where_the_program_is_and_whose_it_is(host: Host, agent: Agent) -> None:
    """Case 54: so that what a pack puts before the program looks nothing up below the directory."""

    @tool(effect="read")
    async def run(ctx: ToolContext) -> str:
        """Run a program in somebody else's name."""
        spec = ProcessSpec(("sh", "-c", "echo here"), ctx.directory, owner="seeing", session="another")
        async with await host.spawn(spec):
            return (await ctx.run(spec)).text

    seen: list[ProcessSpec] = []
    await host.load_pack("seeing", Pack(prepare_process=lambda spec: seen.append(spec)))
    await host.load_pack("runner", Pack(register_tools=lambda: [run]))

    assert (await agent.call_tool("run")).content == "here\n"
    assert [os.path.basename(spec.argv[0]) for spec in seen if os.path.isabs(spec.argv[0])] == ["sh", "sh"]
    assert [spec.owner for spec in seen] == ["runner", "runner"]
    assert seen[1].session == agent.id


# -- ctx.note


async def test_a_body_notes_a_fact_under_its_packs_name(host: Host, agent: Agent) -> None:
    @tool(effect="read")
    async def learn(ctx: ToolContext) -> str:
        """Learn something."""
        await ctx.note("learnt", {"facts": ["one", "two"]})
        return "kept"

    await host.load_pack("memory", Pack(register_tools=lambda: [learn]))

    assert (await agent.call_tool("learn")).status == "ok"
    events = recorded(agent, all_of_it=True)
    kinds = [type(event) for event in events if isinstance(event, Called | Note | Returned)]
    assert kinds == [Called, Note, Returned]
    (note,) = notes(agent)
    assert (note.pack, note.name, note.run) == ("memory", "learnt", 1)
    assert note.as_json()["data"] == {"facts": ["one", "two"]}


async def test_a_sync_body_notes_too(host: Host, agent: Agent) -> None:
    @tool(effect="read")
    def learn(ctx: ToolContext) -> str:
        """Learn something."""
        ctx.wait(ctx.note("learnt", {"fact": 1}))
        return "kept"

    await host.load_pack("memory", Pack(register_tools=lambda: [learn]))

    assert (await agent.call_tool("learn")).status == "ok"
    assert [(note.pack, note.as_json()["data"]) for note in notes(agent)] == [("memory", {"fact": 1})]


async def test_a_note_is_filtered_like_everything_that_is_recorded(host: Host, agent: Agent) -> None:
    @tool(effect="read")
    async def learn(ctx: ToolContext) -> str:
        """Learn something."""
        await ctx.note("learnt", {"fact": "hunter2"})
        return "kept"

    agent.tools.register(learn)
    await host.load_pack("redactor", Pack(filter_entry=redacted))

    await agent.call_tool("learn")

    assert notes(agent)[0].as_json()["data"] == {"fact": "***"}


def redacted(entry: Entry) -> Entry:
    """Mask the secret."""
    return entry.rewriting(lambda text: text.replace("hunter2", "***"))


# -- host.state_dir


def asking(host: Host, found: list[object]) -> dict[str, Callable[..., Any]]:
    """Return an implementation of each hook that asks for its pack's folder."""

    def ask() -> None:
        tries(lambda: host.state_dir().name, found)

    async def ask_later() -> None:
        await asyncio.sleep(0)
        ask()

    async def around_model(request: ModelRequest, proceed: ProceedModel) -> ModelReply:
        ask()
        reply = await proceed(request)
        ask()
        return reply

    async def around_tool(call: ToolRun, proceed: ProceedTool) -> Outcome:
        ask()
        outcome = await proceed()
        ask()
        return outcome

    plain = ("agent_created", "assemble_prompt", "agent_pre_step", "tool_post_execute", "filter_entry", "run_stopping")
    return {
        **dict.fromkeys(plain, ask),
        "run_starting": ask_later,
        "wrap_model_call": around_model,
        "wrap_tool_call": around_tool,
    }


HOOKS_THAT_ARE_CALLED_BY_A_RUN = sorted(set(asking(None, [])))  # type: ignore[arg-type]


@pytest.mark.parametrize("hook", HOOKS_THAT_ARE_CALLED_BY_A_RUN)
async def test_a_hook_gets_the_folder_of_its_own_pack(host: Host, hook: str) -> None:
    found: list[object] = []
    await host.load_pack("asking", Pack(**{hook: asking(host, found)[hook]}))
    host.tools.register(look)
    agent = await host.create_agent(model=ScriptedModel(call("look"), "Done."))

    await agent.followup("Look.").wait()

    assert set(found) == {"asking"}
    assert host.faults == []


@pytest.mark.parametrize("hook", ["host_started", "host_stopping"])
def test_a_pack_gets_its_folder_when_the_host_goes_up_and_down(open_host: OpenHost, hook: str) -> None:
    found: list[Path] = []
    host = open_host(packs={"asking": Pack(**{hook: lambda host: found.append(host.state_dir())})})

    async def main() -> None:
        async with host:
            assert host.faults == []

    asyncio.run(main())
    assert found == [host.places.state_dir / "packs" / "asking"]


@pytest.mark.parametrize("sync", [False, True])
async def test_a_body_gets_the_folder_of_the_pack_that_brought_the_tool(host: Host, agent: Agent, sync: bool) -> None:
    @tool(effect="read")
    async def where() -> str:
        """Say where things are kept."""
        await asyncio.sleep(0)
        return host.state_dir().name

    @tool(name="where", effect="read")
    def where_sync() -> str:
        """Say where things are kept."""
        return host.state_dir().name

    await host.load_pack("keeper", Pack(register_tools=lambda: [where_sync if sync else where]))

    assert (await agent.call_tool("where")).content == "keeper"


async def test_a_task_of_a_pack_gets_its_folder(host: Host) -> None:
    found: list[object] = []

    async def work() -> None:
        await asyncio.sleep(0)
        tries(lambda: host.state_dir().name, found)

    await host.load_pack("keeper", Pack(host_started=lambda host: host.start_task(work())))
    await turns()

    assert found == ["keeper"]


async def test_outside_of_a_pack_the_folder_must_be_asked_for_by_name(host: Host) -> None:
    await host.load_pack("keeper", Pack())

    with pytest.raises(UsageError, match=r"state_dir: it can't be told which pack calls; name it"):
        host.state_dir()
    with pytest.raises(UsageError, match="no pack `keper` is installed; did you mean `keeper`"):
        host.state_dir("keper")
    assert host.state_dir("keeper").is_dir()


async def test_nobody_is_taken_for_the_pack_whose_body_started_the_run(host: Host, agent: Agent) -> None:
    """A run of a child is begun from a body; what other packs do in that run is not the body's pack's doing."""
    found: list[object] = []

    def ask() -> None:
        tries(lambda: host.state_dir().name, found)

    @tool(effect="read")
    async def delegate() -> str:
        """Start a child."""
        child = await host.create_agent(parent=agent, model=ScriptedModel(call("look"), "Done."))
        return (await child.followup("Look.").wait()).text

    host.tools.register(look)
    await host.load_pack("delegating", Pack(register_tools=lambda: [delegate]))
    await host.load_pack("other", Pack(guard_tool_call=ask, observe=ask, wrap_model_call=passing(ask)))

    assert (await agent.call_tool("delegate")).content == "Done."
    assert {str(one) for one in found} == {"other", "state_dir: it can't be told which pack calls; name it"}


async def test_a_model_is_not_taken_for_the_pack_that_wraps_its_requests(host: Host) -> None:
    found: list[object] = []

    class Asking(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            tries(lambda: host.state_dir().name, found)
            async for event in super().stream(request):
                yield event

    await host.load_pack("wrapping", Pack(wrap_model_call=passing(lambda: None)))
    agent = await host.create_agent(model=Asking("Done."))

    assert (await agent.followup("Go on.").wait()).text == "Done."
    assert [type(one) for one in found] == [UsageError]


def passing(do: Callable[[], object]) -> Callable[..., Any]:
    """Return a wrapper that does something and goes on."""

    async def wrap(proceed: Callable[[], Any]) -> Any:
        do()
        return await proceed()

    return wrap


# -- pack_object


async def test_pack_object_is_the_instance_or_the_module(host: Host) -> None:
    class Chat:
        """A pack with a state of its own."""

    module = ModuleType("notes")
    await host.load_pack("chat", Chat)
    await host.load_pack("notes", module)

    assert isinstance(host.pack_object("chat"), Chat)
    assert host.pack_object("chat") is host.pack_object("chat")
    assert host.pack_object("notes") is module


async def test_there_is_no_object_of_a_pack_that_is_not_active(host: Host) -> None:
    await host.load_pack("chat", Pack())
    with pytest.raises(UsageError, match="no pack `chta` is installed; did you mean `chat`"):
        host.pack_object("chta")

    await host.unload_pack("chat")

    with pytest.raises(UsageError, match="pack `chat` is disabled: it was unloaded"):
        host.pack_object("chat")


# -- policy


@tool
def change() -> str:
    """Change something."""
    return "changed"


@pytest.mark.pegboard(packs={"bank": Pack()}, policy=["bank"])
async def test_a_pack_of_the_program_that_claims_policy_decides_about_writes(agent: Agent) -> None:
    agent.tools.register(change)

    assert (await agent.call_tool("change")).status == "ok"


@pytest.mark.pegboard(packs={"bank": Pack()})
async def test_without_a_claim_of_policy_the_kernel_asks_about_writes_itself(agent: Agent) -> None:
    agent.tools.register(change)

    assert (await agent.call_tool("change")).status == "denied"


def test_a_pack_that_claims_policy_is_required(open_host: OpenHost) -> None:
    """Rule 6."""
    broken = Pack(register_tools=lambda: ["no tool"])

    with pytest.raises(PegboardError, match=r"pack `bank` is failed .* it claims policy"):
        open_host(packs={"bank": broken}, policy=["bank"])


def test_a_claim_of_policy_for_a_pack_that_is_not_there_is_refused(open_host: OpenHost) -> None:
    with pytest.raises(UsageError, match="`policy` names `bnak`, which is not among `packs`; did you mean `bank`"):
        open_host(packs={"bank": Pack()}, policy=["bnak"])


# -- next_interaction


async def next_of(host: Host, session: str | None = None) -> Interaction:
    """Wait for the next question; one that nobody hears of must not hold up the tests."""
    async with asyncio.timeout(10):
        return await host.next_interaction(session)


async def test_next_interaction_waits_for_a_question(host: Host, agent: Agent, scripted_model: ScriptedModel) -> None:
    agent.tools.register(change)
    scripted_model.will(call("change"), "Done.")
    waiting = asyncio.ensure_future(next_of(host))
    await turns()
    assert not waiting.done()

    run = host.submit(agent, "Change it.", on_ask="wait")
    asked = await waiting
    assert asked == await next_of(host) == host.open_interactions()[0]
    await host.answer(asked.session, asked.id, Answer.yes())

    assert (asked.tool, (await run.wait()).denied) == ("change", 0)
    assert host.open_interactions() == ()


async def test_next_interaction_of_a_root_passes_over_those_of_others(host: Host, agent: Agent) -> None:
    host.tools.register(change)
    other = await host.create_agent(model=ScriptedModel(call("change"), "Done."))
    child = await host.create_agent(parent=agent, model=ScriptedModel(call("change"), "Done."))
    waiting = asyncio.ensure_future(next_of(host, agent.id))

    first = host.submit(other, "Change it.", on_ask="wait")
    await next_of(host, other.id)
    await turns()
    assert not waiting.done()
    second = host.submit(child, "Change it.", on_ask="wait")

    assert ((asked := await waiting).session, asked.root) == (child.id, agent.id)
    for run in (first, second):
        run.cancel("enough")
        await run.wait()


# -- prompt.task


async def test_the_prompt_of_a_snapshot_knows_the_runs_input(
    host: Host, agent: Agent, scripted_model: ScriptedModel
) -> None:
    tasks: list[tuple[str, str]] = []
    await host.load_pack("reader", Pack(assemble_prompt=lambda prompt: tasks.append((prompt.phase, prompt.task))))
    scripted_model.will("One.", "Two.")

    await agent.followup("First.").wait()
    await agent.followup("Second.").wait()

    assert tasks == [("snapshot", "First."), ("step", ""), ("snapshot", "Second."), ("step", "")]


async def test_a_pack_that_rewrites_sections_keeps_the_rest_of_the_prompt(
    host: Host, agent: Agent, scripted_model: ScriptedModel
) -> None:
    seen: list[Prompt] = []

    class Loud:
        @implements(hooks.assemble_prompt)
        def shout(self, agent: Agent, prompt: Prompt) -> Prompt | None:
            return prompt.adding("extra", "and more").rewriting(str.upper) if prompt.phase == "snapshot" else None

    await host.load_pack("seeing", Pack(assemble_prompt=lambda prompt: seen.append(prompt)))
    await host.load_pack("loud", Loud())
    host.tools.register(look)
    scripted_model.will("One.")

    await agent.followup("First.").wait()

    assert [section.name for section in seen[0].sections] == ["definition", "extra"]
    assert (seen[0].tools, seen[0].task) == (("look",), "First.")
    assert scripted_model.requests[0].prompt.endswith("AND MORE")


# -- feeds


class Following:
    """Opens a feed when the host is up, and keeps what it read."""

    def __init__(self) -> None:
        self.read: list[Event] = []

    @implements(hooks.host_started)
    def follow(self, host: Host) -> None:
        self.feed = host.events()
        host.start_task(self.go_on())

    async def go_on(self) -> None:
        async with self.feed:
            async for item in self.feed:
                self.read.append(item.event)


async def rest_of(feed: Feed) -> list[Event]:
    """Return what is left in a feed that is closed; one that is not must not hold up the tests."""
    async with asyncio.timeout(10):
        return [item.event async for item in feed]


async def caught_up(feed: Feed) -> None:
    """Wait for a feed's reader; one that never catches up must not hold up the tests."""
    async with asyncio.timeout(10):
        await feed.caught_up()


async def test_a_feed_closes_with_the_pack_that_opened_it(
    host: Host, agent: Agent, scripted_model: ScriptedModel
) -> None:
    feeds: list[Feed] = []
    await host.load_pack("viewer", Pack(host_started=lambda host: feeds.append(host.events())))
    scripted_model.will("One.", "Two.")
    await agent.followup("First.").wait()

    await host.unload_pack("viewer")
    await agent.followup("Second.").wait()

    assert [event.input for event in await rest_of(feeds[0]) if isinstance(event, RunStart)] == ["First."]


async def test_a_feed_of_the_program_outlives_the_packs(
    host: Host, agent: Agent, scripted_model: ScriptedModel
) -> None:
    feed = host.events()
    await host.load_pack("other", Pack())
    await host.unload_pack("other")
    scripted_model.will("One.")

    await agent.followup("First.").wait()
    feed.close()

    assert isinstance((await rest_of(feed))[-1], RunEnd)


async def test_a_feed_closes_on_leaving_its_block(host: Host, agent: Agent, scripted_model: ScriptedModel) -> None:
    scripted_model.will("One.", "Two.")

    async with host.events() as feed:
        await agent.followup("First.").wait()
    await agent.followup("Second.").wait()

    assert [event.text for event in await rest_of(feed) if isinstance(event, RunEnd)] == ["One."]


async def test_a_reader_has_caught_up_when_it_has_had_all_there_is(
    host: Host, agent: Agent, scripted_model: ScriptedModel
) -> None:
    viewer = Following()
    await host.load_pack("viewer", viewer)
    scripted_model.will("One.", "Two.")

    for text in ("First.", "Second."):
        end = await agent.followup(text).wait()
        await caught_up(viewer.feed)
        assert viewer.read[-1] == end


async def test_a_slow_reader_has_not_caught_up_while_it_handles_an_event(
    host: Host, agent: Agent, scripted_model: ScriptedModel
) -> None:
    gate = asyncio.Event()
    scripted_model.will("One.")
    async with host.events(agent.id, after=0) as feed:

        async def read() -> None:
            async for _item in feed:
                await gate.wait()

        host.start_task(read())
        await agent.followup("First.").wait()
        waiting = asyncio.ensure_future(caught_up(feed))
        await turns()
        assert not waiting.done()
        gate.set()
        await waiting


async def test_nobody_waits_for_a_reader_that_has_gone(host: Host, agent: Agent, scripted_model: ScriptedModel) -> None:
    """A viewer whose terminal is closed must not hold up a host that stops."""

    class Broken(Following):
        async def go_on(self) -> None:
            async with self.feed:
                async for _item in self.feed:
                    raise BrokenPipeError("nobody looks")

        @implements(hooks.host_stopping)
        async def finish(self, host: Host) -> None:
            await caught_up(self.feed)

    await host.load_pack("viewer", Broken())
    scripted_model.will("One.")
    await agent.followup("First.").wait()

    await host.stop()

    assert [(fault.pack, fault.text) for fault in host.faults] == [("viewer", "BrokenPipeError: nobody looks")]


async def test_a_reader_has_caught_up_when_it_has_read_a_closed_feed_to_its_end(
    host: Host, agent: Agent, scripted_model: ScriptedModel
) -> None:
    feed = host.events()
    scripted_model.will("One.")
    await agent.followup("First.").wait()
    feed.close()

    waiting = asyncio.ensure_future(caught_up(feed))
    await turns()
    assert not waiting.done()
    read = await rest_of(feed)

    await waiting
    assert isinstance(read[-1], RunEnd)


# -- agent.start_task


def lasting(ended: list[str]) -> Callable[[], Any]:
    """Return a coroutine function that works until it is cancelled, and then needs a few turns to end."""

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("ended")

    return work


async def test_a_task_of_an_agent_is_cancelled_and_awaited_with_it(host: Host, agent: Agent) -> None:
    ended: list[str] = []
    other = await host.create_agent()
    other.start_task(lasting(ended)())
    await turns()

    await agent.dispose()
    assert ended == []
    await other.dispose()
    assert ended == ["ended"]


async def test_a_task_that_a_pack_starts_on_an_agent_goes_away_with_the_pack(host: Host) -> None:
    ended: list[str] = []
    await host.load_pack("busy", Pack(agent_created=lambda agent: agent.start_task(lasting(ended)())))
    agent = await host.create_agent()
    await turns()

    await host.unload_pack("busy")

    assert (ended, agent.status) == (["ended"], "idle")


async def test_a_task_of_an_agent_that_fails_is_reported(host: Host) -> None:
    async def work() -> None:
        raise ValueError("broken")

    await host.load_pack("busy", Pack(agent_created=lambda agent: agent.start_task(work())))
    await host.create_agent()
    await turns()

    assert [(fault.pack, fault.hook, fault.text) for fault in host.faults] == [
        ("busy", "start_task", "ValueError: broken")
    ]


async def test_an_agent_that_is_gone_starts_no_task(agent: Agent) -> None:
    await agent.dispose()
    work = asyncio.sleep(0)

    with pytest.raises(Disposed):
        agent.start_task(work)
    with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):  # it was closed
        await work


# -- what is shown live


@pytest.mark.parametrize("of_the_agent", [False, True])
async def test_nothing_that_was_not_filtered_is_shown_to_anybody(
    host: Host, agent: Agent, scripted_model: ScriptedModel, of_the_agent: bool
) -> None:
    @tool(effect="read")
    async def read(path: str, ctx: ToolContext) -> str:
        """Read a file."""
        ctx.progress(f"reading {path} with hunter2")
        await asyncio.sleep(0)
        return "it says hunter2"

    shown: list[Event] = []
    host.listen(shown.append)
    viewer = Following()
    await host.load_pack("viewer", viewer)
    await host.load_pack("talking", Pack(run_starting=lambda run: run.progress("I know hunter2")))
    if of_the_agent:
        agent.register(Pack(filter_entry=redacted))
    else:
        await host.load_pack("redactor", Pack(filter_entry=redacted))
    agent.tools.register(read)
    pieces = (TextDelta("I read it. "), TextDelta("It says hun"), TextDelta("ter2."), Finish())
    scripted_model.will((TextDelta("With hunter2."), call("read", path="hunter2"), Finish()), pieces)

    await agent.followup("Use hunter2.").wait()
    await caught_up(viewer.feed)

    for seen in (shown, viewer.read):
        assert "hunter2" not in repr(seen)
        assert not any(isinstance(event, Progress) for event in seen)
        assert [event.text for event in seen if isinstance(event, Text)] == ["With ***.", "I read it. It says ***."]


async def test_where_nobody_filters_text_and_progress_are_shown_as_they_come(
    host: Host, agent: Agent, scripted_model: ScriptedModel
) -> None:
    shown: list[Event] = []
    host.listen(shown.append)
    other = await host.create_agent()
    other.register(Pack(filter_entry=redacted))
    await host.load_pack("talking", Pack(run_starting=lambda run: run.progress("I know hunter2")))
    scripted_model.will((TextDelta("hun"), TextDelta("ter2"), Finish()))

    await agent.followup("Say it.").wait()

    assert [event.text for event in shown if isinstance(event, Text | Progress)] == ["I know hunter2", "hun", "ter2"]


async def test_the_text_of_a_filter_that_fails_is_not_shown_live_either(
    host: Host, agent: Agent, scripted_model: ScriptedModel
) -> None:
    def broken() -> None:
        raise ValueError("broken")

    shown: list[Event] = []
    host.listen(shown.append)
    await host.load_pack("redactor", Pack(filter_entry=broken))
    scripted_model.will("It is hunter2.")

    await agent.followup("Say hunter2.").wait()

    assert "hunter2" not in repr(shown)
    assert [event.text for event in shown if isinstance(event, Text)] == [
        "[withheld: filter_entry of pack `redactor` failed]"
    ]


# -- whose is what is registered


class Registering:
    """Registers a tool, a guard and a restriction on an agent when it is told to."""

    def __init__(self) -> None:
        self.agent: Agent | None = None

    def register(self) -> None:
        assert self.agent
        agent, self.agent = self.agent, None
        agent.tools.register(change)
        agent.register(Pack(guard_tool_call=lambda call: Deny("no") if call.name == "shout" else None))
        agent.restrict(deny=["look"])

    @implements(hooks.register_tools)
    def tools(self) -> Iterable[Tool]:
        @tool(effect="read")
        async def prepare() -> str:
            """Prepare what is needed."""
            await asyncio.sleep(0)
            self.register()
            return "prepared"

        @tool(effect="read")
        def prepare_in_thread(ctx: ToolContext) -> str:
            """Prepare what is needed, from a worker thread."""

            async def register() -> None:
                self.register()

            ctx.wait(register())
            return "prepared"

        @tool(effect="read", inline=True)
        def prepare_inline() -> str:
            """Prepare what is needed, in the event loop."""
            self.register()
            return "prepared"

        return prepare, prepare_in_thread, prepare_inline


@tool(effect="read")
def shout() -> str:
    """Shout."""
    return "AH"


@pytest.mark.parametrize("name", ["prepare", "prepare_in_thread", "prepare_inline"])
async def test_what_a_body_registers_on_an_agent_is_its_packs_and_goes_away_with_it(
    host: Host, agent: Agent, name: str
) -> None:
    """Rule 14."""
    host.tools.register(look)
    host.tools.register(shout)
    pack = Registering()
    await host.load_pack("preparing", pack)
    pack.agent = agent

    assert (await agent.call_tool(name)).content == "prepared"
    assert (found := agent.view().get("change")) is not None
    assert found.pack == "preparing"
    assert "denied by preparing: no" in (await agent.call_tool("shout")).content
    assert agent.view().get("look") is None
    await host.unload_pack("preparing")

    assert agent.view().names == ("look", "shout")
    assert (await agent.call_tool("shout")).content == "AH"


REGISTERING_HOOKS = ("run_starting", "assemble_prompt", "wrap_model_call", "wrap_tool_call", "run_stopping")


@pytest.mark.parametrize("hook", REGISTERING_HOOKS)
async def test_what_a_hook_registers_on_an_agent_is_its_packs_too(
    host: Host, agent: Agent, scripted_model: ScriptedModel, hook: str
) -> None:
    """Rule 14."""
    done: list[object] = []

    def register() -> None:
        if not done:
            done.append(agent.tools.register(change))

    wraps = hook.startswith("wrap_")
    await host.load_pack("adding", Pack(**{hook: passing(register) if wraps else register}))
    host.tools.register(look)
    scripted_model.will(call("look"), "Done.")

    await agent.followup("Look.").wait()
    assert (found := agent.view().get("change")) is not None
    assert found.pack == "adding"
    await host.unload_pack("adding")

    assert agent.view().names == ("look",)


OWNER = """
from pegboard import hookimpl, tool
from pegboard.testing import ScriptedModel, call

class Pack:
    @hookimpl
    def host_started(self, host):
        self.host = host

    @hookimpl
    def register_tools(self):
        @tool(effect="read")
        async def work(ctx) -> str:
            "Note something, start a child, and let it work."
            await ctx.note("begun", {})
            (agent,) = self.host.roots()
            child = await self.host.create_agent(parent=agent, model=ScriptedModel(call("look"), "Done."))
            return (await child.followup("Look.").wait()).text
        return [work]
"""


@tool(effect="read")
def extra() -> str:
    """What only its owner may bring."""
    return "stolen"


def grabbing(host: Callable[[], Host], found: list[object]) -> dict[str, Callable[..., Any]]:
    """Return an implementation of every hook of a run that tries to register what is reserved for another pack."""

    def grab() -> None:
        for tools in (host().tools, *(agent.tools for agent in host().agents)):
            tries(lambda tools=tools: tools.register(extra), found)  # type: ignore[misc]

    async def grab_later() -> None:
        await asyncio.sleep(0)
        grab()

    async def answer() -> Answer:
        grab()
        return Answer.yes()

    plain = ("agent_created", "agent_disposed", "assemble_prompt", "agent_pre_step", "guard_tool_call", "observe")
    return {
        **dict.fromkeys((*plain, "tool_post_execute", "filter_entry", "run_stopping", "host_stopping"), grab),
        "run_starting": grab_later,
        "guard_tool_call": grab_later,
        "wrap_model_call": passing(grab),
        "wrap_tool_call": passing(grab),
        "answer_interaction": answer,
    }


@pytest.mark.parametrize("off", [False, True])
@pytest.mark.parametrize("hook", sorted(grabbing(lambda: None, [])))  # type: ignore[arg-type,return-value]
def test_no_hook_registers_a_tool_whose_name_another_pack_reserves(
    open_host: OpenHost, pack_folder: PackFolder, hook: str, off: bool
) -> None:
    """Case 16, rule 4: also not while a body of the owner runs, has something recorded, or drives a child."""
    found: list[object] = []
    pack_folder.add("owner", OWNER, tools=["work", "extra"])
    grab = Pack(**{hook: grabbing(lambda: host, found)[hook]})
    config = "[interactions]\nfront_ends = ['greedy']" + ("\n[packs.owner]\nenabled = false" if off else "")
    host = open_host(config, packs={"greedy": grab})

    async def main() -> None:
        async with host:
            host.tools.register(look)
            host.tools.register(change)
            model = ScriptedModel(call("change"), call("look" if off else "work"), "Done.")
            agent = await host.create_agent(model=model)
            await agent.followup("Work.").wait()

    asyncio.run(main())
    assert found
    assert {str(one) for one in found} == {"conflict: tool `extra` is reserved by pack `owner`"}


@pytest.mark.parametrize("sync", [False, True])
def test_no_body_registers_a_tool_whose_name_another_pack_reserves(
    open_host: OpenHost, pack_folder: PackFolder, sync: bool
) -> None:
    """Case 16."""
    pack_folder.add("owner", OWNER, tools=["work", "extra"])

    @tool(effect="read")
    async def grab() -> str:
        """Take what is not ours."""
        host.agents[0].tools.register(extra)
        return "taken"

    @tool(name="grab", effect="read", inline=True)
    def grab_sync() -> str:
        """Take what is not ours."""
        host.tools.register(extra)
        return "taken"

    greedy = Pack(register_tools=lambda: [grab_sync if sync else grab])
    host = open_host(packs={"greedy": greedy})

    async def main() -> ToolResult:
        async with host:
            agent = await host.create_agent()
            result = await agent.call_tool("grab")
            assert agent.view().get("extra") is None
        return result

    result = asyncio.run(main())
    assert result.status == "error"
    assert "tool `extra` is reserved by pack `owner`" in result.content


def test_the_owner_registers_its_reserved_tool_from_a_hook(open_host: OpenHost, pack_folder: PackFolder) -> None:
    code = """
from pegboard import hookimpl, tool

class Pack:
    @hookimpl
    def run_starting(self, run):
        @tool(effect="read")
        def extra() -> str:
            "What only its owner may bring."
            return "mine"
        run.agent.tools.register(extra)
"""
    pack_folder.add("owner", code, tools=["extra"])
    host = open_host()

    async def main() -> ToolResult:
        async with host:
            return await (await host.create_agent()).call_tool("extra")

    assert (asyncio.run(main()).content, host.faults) == ("mine", [])


# -- what a guard registers


@pytest.mark.parametrize("is_async", [False, True])
async def test_what_a_guard_registers_is_its_packs_and_goes_with_it(host: Host, agent: Agent, is_async: bool) -> None:
    """Rule 14, for plain guards and for those that share a task."""

    @tool(effect="read")
    def left_by_a_guard() -> str:
        """Answer."""
        return "here"

    class Plain:
        @implements(hooks.guard_tool_call)
        def look(self, call: GuardedCall) -> None:
            if not call.agent.view().get("left_by_a_guard"):
                call.agent.tools.register(left_by_a_guard)

    class Later(Plain):
        @implements(hooks.guard_tool_call)
        async def look(self, call: GuardedCall) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            Plain.look(self, call)

    @tool(effect="read", name="asked_about")
    def asked_about() -> str:
        """Answer."""
        return "yes"

    await host.load_pack("aa", Later() if is_async else Plain())
    await host.load_pack("bb", Pack())
    agent.tools.register(asked_about)
    await agent.call_tool("asked_about")
    entry = agent.view().get("left_by_a_guard")
    assert entry is not None
    assert entry.pack == "aa"

    await host.unload_pack("aa")

    assert agent.view().names == ("asked_about",)
