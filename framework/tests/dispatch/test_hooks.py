"""Every hook of the kernel: when it is asked, what it may change, what its failure does, and whom it sees.

Order and the hooks of agents, observers, steps and guards are in `test_dispatch.py`; the order of each hook is in
`test_hook_order.py`.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pegboard import (
    Accept,
    Agent,
    Answer,
    Ask,
    AssistantMessage,
    Block,
    Deny,
    EndRun,
    Entry,
    Finish,
    GuardedCall,
    Host,
    Interaction,
    ModelError,
    ModelProvider,
    ModelReply,
    ModelRequest,
    Outcome,
    PackFailure,
    PegboardError,
    ProcessRefused,
    ProcessSpec,
    Prompt,
    Run,
    RunEnd,
    Section,
    TextDelta,
    ToolContext,
    ToolError,
    ToolRun,
    Usage,
    UsageError,
    UserMessage,
    hookimpl,
    hooks,
    hookspec,
    implements,
    tool,
)
from pegboard.base.errors import Disposed
from pegboard.dispatch.dispatcher import HookFailure
from pegboard.events import Answered, Asked, Called, Note, Progress, Replied, Returned, RunStart, StepStart, Text
from pegboard.record.stores import MemoryStore
from pegboard.testing import ScriptedModel, call, recorded

HostWith = Callable[..., Host]


class Pack(ModuleType):
    """A pack made of functions, each the implementation of the hook that it is named after."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        super().__init__("pack")
        marked = {name: f if hasattr(f, "pegboard_impl") else hookimpl(f) for name, f in functions.items()}
        vars(self).update(marked)


@pytest.fixture
def host_with(open_host: Callable[..., Host]) -> HostWith:
    """Open a host whose packs are these objects, each named by its keyword; all are active."""

    def open_(config: str = "", *, starting_seconds: float = 20.0, **packs: object) -> Host:
        host = open_host(config, packs=packs, starting_seconds=starting_seconds)
        assert [(pack.name, pack.reason) for pack in host.packs if pack.state != "active"] == []
        return host

    return open_


bodies: list[str] = []


@pytest.fixture(autouse=True)
def no_bodies_yet() -> Iterator[None]:
    """Forget what the bodies of an earlier test did."""
    bodies.clear()
    yield
    bodies.clear()


@tool(effect="read")
async def peek(path: str = "") -> str:
    """Peek at a path."""
    bodies.append(path)
    return f"peeked at {path}"


@tool(effect="write")
async def poke(path: str = "") -> str:
    """Poke at a path."""
    bodies.append(path)
    return f"poked at {path}"


@tool(effect="read")
async def stumble() -> str:
    """Fail, always."""
    raise ToolError("a stone")


@tool(effect="read")
async def linger(ctx: ToolContext) -> str:
    """Wait until told to stop."""
    bodies.append("begins")
    return f"stopped: {await ctx.cancel.wait()}"


BENCH = Pack(register_tools=lambda: [peek, poke, stumble, linger])


@dataclass
class Ran:
    """A run that has ended."""

    host: Host
    agent: Agent
    end: RunEnd
    model: ScriptedModel

    @property
    def results(self) -> list[Returned]:
        """How its calls ended, as it is recorded."""
        return [event for event in recorded(self.agent) if isinstance(event, Returned)]

    @property
    def faults(self) -> list[tuple[str, str, str]]:
        """What was contained: pack, hook and text."""
        return [(fault.pack, fault.hook, fault.text) for fault in self.host.faults]


async def one_run(host: Host, directory: Path, *turns: Any, text: str = "go", **options: Any) -> Ran:
    """Let a new agent go through one run with a model that answers with these turns."""
    model = ScriptedModel(*(turns or ("done",)))
    agent = await host.create_agent(directory=directory, model=model)
    return Ran(host, agent, await host.submit(agent, text, **options).wait(), model)


def ran(host: Host, directory: Path, *turns: Any, **options: Any) -> Ran:
    """The same in a loop of its own, in which the host starts and stops."""

    async def main() -> Ran:
        async with host:
            return await one_run(host, directory, *turns, **options)

    return asyncio.run(main())


def in_host(host: Host, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a coroutine while the host is up."""

    async def main() -> Any:
        async with host:
            return await work()

    return asyncio.run(main())


def raising(error: BaseException) -> Callable[..., Any]:
    """Return a hook body that raises."""

    def fail() -> Any:
        raise error

    return fail


def raising_later(error: BaseException) -> Callable[..., Any]:
    """Return an async hook body that raises."""

    async def fail() -> Any:
        await asyncio.sleep(0)
        raise error

    return fail


async def until(condition: Callable[[], object]) -> None:
    """Let the others go on until something is so."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)


def void(_value: object) -> None:
    """Let a lambda return nothing."""


# -- session_store


def test_a_packs_store_keeps_the_sessions_and_is_asked_for_once(host_with: HostWith, tmp_path: Path) -> None:
    store, asked = MemoryStore(), []

    async def session_store(host: Host) -> MemoryStore:
        asked.append(host)
        return store

    host = host_with(cellar=Pack(session_store=session_store))

    async def main() -> list[str]:
        return [(await one_run(host, tmp_path)).agent.id for _ in range(2)]

    sessions = in_host(host, main)

    assert asked == [host]
    assert [head.id for head in asyncio.run(store.sessions())] == sessions[::-1]


def test_the_first_store_is_taken_and_nobody_is_asked_after_it(host_with: HostWith) -> None:
    first, asked = MemoryStore(), []
    none = Pack(session_store=lambda host: asked.append("none"))
    last = Pack(session_store=lambda host: asked.append("last"))
    host = host_with(zz=none, mm=Pack(session_store=lambda host: first), aa=last)

    assert asyncio.run(host.store()) is first
    assert asked == ["none"]


def test_memory_is_used_only_when_no_pack_returns_a_store(host_with: HostWith) -> None:
    host = host_with(shy=Pack(session_store=lambda: None))

    assert isinstance(asyncio.run(host.store()), MemoryStore)


@pytest.mark.parametrize(
    ("session_store", "told"),
    [
        (raising(OSError("the disk is full")), "session_store of pack `cellar` failed: OSError: the disk is full"),
        (raising_later(OSError("later")), "session_store of pack `cellar` failed: OSError: later"),
        (lambda: "no store", "session_store of pack `cellar` returned str, which has no `append`"),
    ],
)
def test_a_store_that_cannot_be_had_ends_the_run_and_is_never_replaced_by_memory(
    host_with: HostWith, tmp_path: Path, session_store: Callable[..., Any], told: str
) -> None:
    asked: list[None] = []

    def counted() -> Any:
        asked.append(None)
        return session_store()

    host = host_with(cellar=Pack(session_store=counted), other=Pack(observe=lambda event: bodies.append(event.type)))

    took = ran(host, tmp_path)

    assert took.end.reason == "error"
    assert told in took.end.text
    assert (took.model.requests, bodies, len(asked)) == ([], [], 1)
    with pytest.raises(PegboardError, match="can't be kept"):
        asyncio.run(host.store())


# -- host_started and host_stopping


def test_packs_hear_that_the_host_is_up_before_there_is_an_agent_and_wait_for_each_other(host_with: HostWith) -> None:
    order: list[str] = []

    async def slow(host: Host) -> None:
        order.append(f"aa {len(host.agents)} begins")
        await asyncio.sleep(0.01)
        order.append("aa ends")

    host = host_with(aa=Pack(host_started=slow), bb=Pack(host_started=lambda: order.append("bb")))

    async def main() -> None:
        await host.start()

    in_host(host, main)  # a second start tells nobody

    assert order == ["aa 0 begins", "aa ends", "bb"]


@pytest.mark.parametrize("fail", [raising, raising_later])
def test_a_pack_that_cannot_start_becomes_inactive_and_nothing_of_it_stays(
    host_with: HostWith, tmp_path: Path, fail: Callable[..., Callable[..., Any]]
) -> None:
    async def host_started(host: Host) -> None:
        host.on_stop(lambda: bodies.append("undone"))
        host.start_task(asyncio.sleep(3600))
        await asyncio.sleep(0)
        answer = fail(ValueError("no wire"))()
        if answer is not None:
            await answer

    bad = Pack(
        host_started=host_started, register_tools=lambda: [peek], observe=lambda event: bodies.append(event.type)
    )
    host = host_with(bad=bad, good=Pack())

    took = ran(host, tmp_path)

    states = {pack.name: (pack.state, pack.reason) for pack in host.packs}
    assert states == {"bad": ("failed", "host_started failed: ValueError: no wire"), "good": ("active", "")}
    assert (bodies, took.agent.view().names) == (["undone"], ())


def test_a_pack_that_needs_one_that_cannot_start_waits(open_host: Callable[..., Host], pack_folder: Any) -> None:
    code = "import pegboard\nclass Pack:\n    @pegboard.hookimpl\n    def host_started(self):\n        "
    pack_folder.add("base", code + "raise ValueError('no wire')\n")
    pack_folder.add("upper", code + "raise AssertionError('not to be asked')\n", requires=["base"])
    host = open_host()

    async def main() -> None:
        return None

    in_host(host, main)

    assert [(pack.name, pack.state) for pack in host.packs] == [("base", "failed"), ("upper", "waiting")]
    assert host.packs[1].reason == "it needs pack `base`, which is failed"


def test_what_is_registered_at_the_start_belongs_to_its_pack_until_it_is_unloaded(host_with: HostWith) -> None:
    async def host_started(host: Host) -> None:
        await asyncio.sleep(0)
        host.tools.register(peek)

    host = host_with(aa=Pack(host_started=lambda host: host.tools.register(poke)), bb=Pack(host_started=host_started))

    async def main() -> list[list[tuple[str, str]]]:
        seen = [[(offered.tool.name, offered.pack) for offered in host.snapshot().offered]]
        await host.unload_pack("bb")
        return [*seen, [(offered.tool.name, offered.pack) for offered in host.snapshot().offered]]

    assert in_host(host, main) == [[("peek", "bb"), ("poke", "aa")], [("poke", "aa")]]


def test_packs_hear_of_the_stop_when_the_agents_are_gone_and_their_own_things_are_there(
    host_with: HostWith, tmp_path: Path
) -> None:
    seen: list[Any] = []

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            seen.append("task ended")

    def host_started(host: Host) -> None:
        host.start_task(work())
        host.on_stop(lambda: seen.append("undone"))
        host.tools.register(peek)

    def host_stopping(host: Host) -> None:
        seen.append((len(host.agents), host.snapshot().names))

    host = host_with(aa=Pack(host_started=host_started, host_stopping=host_stopping))

    ran(host, tmp_path)

    assert seen == [(0, ("peek",)), "task ended", "undone"]


@pytest.mark.parametrize("fail", [raising, raising_later])
def test_a_pack_that_fails_at_the_stop_is_reported_and_the_others_are_told(
    host_with: HostWith, tmp_path: Path, fail: Callable[..., Callable[..., Any]]
) -> None:
    told: list[str] = []
    packs = {name: Pack(host_stopping=lambda name=name: told.append(name)) for name in ("aa", "cc")}
    host = host_with(bb=Pack(host_stopping=fail(SystemExit(3))), **packs)

    took = ran(host, tmp_path)

    assert told == ["cc", "aa"]
    assert took.faults == [("bb", "host_stopping", "SystemExit: 3")]


# -- run_starting


def test_all_packs_connect_at_once(host_with: HostWith, tmp_path: Path) -> None:
    """Each waits for the other: one after the other they would never end."""
    met = [asyncio.Event(), asyncio.Event()]

    def pack(mine: int) -> Pack:
        async def run_starting(run: Run) -> None:
            met[mine].set()
            await met[1 - mine].wait()
            bodies.append(f"{mine}")

        return Pack(run_starting=run_starting)

    ran(host_with(aa=pack(0), bb=pack(1), cc=Pack(run_starting=lambda: bodies.append("sync"))), tmp_path)

    assert sorted(bodies) == ["0", "1", "sync"]


def test_what_is_registered_while_a_run_starts_is_in_its_snapshot_with_its_pack(
    host_with: HostWith, tmp_path: Path
) -> None:
    async def run_starting(run: Run) -> None:
        await asyncio.sleep(0)
        run.agent.tools.register(peek)

    took = ran(host_with(late=Pack(run_starting=run_starting)), tmp_path, call("peek"), "done")

    assert [[one.name for one in request.tools] for request in took.model.requests] == [["peek"], ["peek"]]
    assert [(event.pack, event.effect) for event in recorded(took.agent) if isinstance(event, Called)] == [
        ("late", "read")
    ]


def test_what_is_unfinished_at_the_deadline_goes_on_and_appears_with_the_next_message(
    host_with: HostWith, tmp_path: Path
) -> None:
    """DESIGN §3.1: they go on as tasks; what they register appears with the next message."""
    connected = asyncio.Event()

    async def run_starting(run: Run) -> None:
        if run.number == 1:
            await connected.wait()
            run.agent.tools.register(peek)
            bodies.append("registered")

    host = host_with(starting_seconds=0.01, slow=Pack(run_starting=run_starting))

    async def main() -> list[list[str]]:
        took = await one_run(host, tmp_path, "one", "two")
        connected.set()
        await until(lambda: bodies)
        await host.submit(took.agent, "again").wait()
        return [[one.name for one in request.tools] for request in took.model.requests]

    assert in_host(host, main) == [[], ["peek"]]


def test_what_still_connects_ends_with_its_agent(host_with: HostWith, tmp_path: Path) -> None:
    async def run_starting(run: Run) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            bodies.append("ended")

    host = host_with(starting_seconds=0.01, slow=Pack(run_starting=run_starting))

    async def main() -> list[str]:
        took = await one_run(host, tmp_path)
        before = list(bodies)
        await took.agent.dispose()
        return before

    assert (in_host(host, main), bodies) == ([], ["ended"])


@pytest.mark.parametrize("fail", [raising, raising_later])
def test_a_pack_that_cannot_connect_is_reported_and_the_run_goes_on(
    host_with: HostWith, tmp_path: Path, fail: Callable[..., Callable[..., Any]]
) -> None:
    took = ran(host_with(aa=Pack(run_starting=fail(OSError("no wire")))), tmp_path)

    assert (took.end.reason, took.faults) == ("completed", [("aa", "run_starting", "OSError: no wire")])


def test_a_run_that_is_cancelled_while_packs_connect_waits_for_nobody(host_with: HostWith, tmp_path: Path) -> None:
    async def run_starting(run: Run) -> None:
        run.cancel("enough")
        await asyncio.sleep(3600)

    host = host_with(starting_seconds=3600, slow=Pack(run_starting=run_starting))

    took = in_host(host, lambda: asyncio.wait_for(one_run(host, tmp_path), 30))  # or it would wait for an hour

    assert (took.end.reason, took.end.text, took.model.requests) == ("aborted", "enough", [])


# -- assemble_prompt


def told_by(took: Ran) -> list[str]:
    """The prompts that the model got, without the definition's own section."""
    own = took.agent.definition.prompt
    return [request.prompt.removeprefix(own).strip() for request in took.model.requests]


def test_sections_are_assembled_once_a_run_and_each_pack_sees_what_the_one_before_it_made(
    host_with: HostWith, tmp_path: Path
) -> None:
    seen: list[tuple[str, list[str]]] = []

    async def add(agent: Agent, prompt: Prompt) -> Prompt | None:
        return prompt.adding("rules", "Be kind.") if prompt.phase == "snapshot" else None

    def look(agent: Agent, prompt: Prompt) -> None:
        seen.append((prompt.phase, [section.name for section in prompt.sections]))

    took = ran(
        host_with(bb=Pack(assemble_prompt=add), aa=Pack(assemble_prompt=look), bench=BENCH),
        tmp_path,
        call("peek"),
        "done",
    )

    assert told_by(took) == ["Be kind.", "Be kind."]
    assert seen == [("snapshot", ["definition", "rules"]), ("step", ["snapshot"]), ("step", ["snapshot"])]


def test_a_pack_may_drop_sections(host_with: HostWith, tmp_path: Path) -> None:
    def drop(prompt: Prompt) -> Prompt | None:
        return replace(prompt, sections=(Section("mine", "Only this."),)) if prompt.phase == "snapshot" else None

    assert told_by(ran(host_with(aa=Pack(assemble_prompt=drop)), tmp_path)) == ["Only this."]


def test_an_omitted_tool_is_neither_shown_nor_run(host_with: HostWith, tmp_path: Path) -> None:
    def omit(prompt: Prompt) -> Prompt | None:
        return prompt.omitting(["peek"]) if prompt.phase == "snapshot" else None

    took = ran(host_with(bench=BENCH, aa=Pack(assemble_prompt=omit)), tmp_path, call("peek"), "done")

    assert "peek" not in [one.name for one in took.model.requests[0].tools]
    assert ([result.code for result in took.results], bodies) == (["UNKNOWN_TOOL"], [])


def test_another_history_is_sent_and_the_record_stays_as_it_is(host_with: HostWith, tmp_path: Path) -> None:
    def forget(prompt: Prompt) -> Prompt | None:
        return prompt.telling([UserMessage("Once upon a time.")]) if prompt.phase == "step" else None

    took = ran(host_with(bench=BENCH, aa=Pack(assemble_prompt=forget)), tmp_path, call("peek"), "done")

    assert [list(request.messages) for request in took.model.requests] == [
        [UserMessage("Once upon a time."), UserMessage("go")],
        [UserMessage("Once upon a time.")],
    ]
    assert [type(message).__name__ for message in took.agent.session.messages] == [
        "UserMessage", "AssistantMessage", "ToolResult", "AssistantMessage",
    ]  # fmt: skip


def in_phase(phase: str, answer: Callable[[Prompt], Any]) -> Callable[..., Any]:
    """Return an implementation that answers in one phase only."""
    return lambda agent, prompt: answer(prompt) if prompt.phase == phase else None


PROMPT_FAILURES: dict[str, tuple[Callable[..., Any], str]] = {
    "raises": (raising(ValueError("no")), "ValueError: no"),
    "raises later": (raising_later(ValueError("no")), "ValueError: no"),
    "text": (in_phase("snapshot", lambda prompt: "Be kind."), "it returned str, not Prompt or None"),
    "text for a step": (in_phase("step", lambda prompt: "Be kind."), "it returned str, not Prompt or None"),
    "more tools": (
        in_phase("snapshot", lambda prompt: replace(prompt, tools=(*prompt.tools, "shell"))),
        "a prompt may omit tools, never add any",
    ),
    "no section": (
        in_phase("snapshot", lambda prompt: replace(prompt, sections=("Be kind.",))),  # type: ignore[arg-type]
        "a section that is no Section with a text",
    ),
    "an early history": (
        in_phase("snapshot", lambda prompt: prompt.telling([UserMessage("hi")])),
        "a history in phase `snapshot`",
    ),
    "a late section": (
        in_phase("step", lambda prompt: prompt.adding("late", "Be kind.")),
        "they are fixed for the run",
    ),
    "a late omission": (in_phase("step", lambda prompt: prompt.omitting(["peek"])), "they are fixed for the run"),
    "no message": (in_phase("step", lambda prompt: prompt.telling(["hi"])), "something that is no message"),  # type: ignore[list-item]
}


@pytest.mark.parametrize(("implementation", "told"), PROMPT_FAILURES.values(), ids=PROMPT_FAILURES)
def test_a_pack_that_fails_to_assemble_ends_the_run_before_the_model_is_asked(
    host_with: HostWith, tmp_path: Path, implementation: Callable[..., Any], told: str
) -> None:
    took = ran(host_with(bench=BENCH, aa=Pack(assemble_prompt=implementation)), tmp_path)

    assert took.end.reason == "error"
    assert took.end.text.startswith("assemble_prompt of pack `aa` failed: ")
    assert told in took.end.text
    assert took.model.requests == []


def test_a_preview_is_assembled_like_a_run_and_records_nothing(host_with: HostWith, tmp_path: Path) -> None:
    host = host_with(aa=Pack(assemble_prompt=lambda prompt: prompt.adding("rules", "Be kind.")))

    async def main() -> tuple[str, bool]:
        agent = await host.create_agent(directory=tmp_path)
        return (await host.preview(agent)).prompt, agent.session.draft

    prompt, draft = in_host(host, main)

    assert prompt.endswith("\n\nBe kind.")
    assert draft


# -- wrap_model_call


def test_wrappers_nest_the_agents_outermost_and_sync_and_async_ones_mix(host_with: HostWith, tmp_path: Path) -> None:
    def wrapping(name: str) -> Callable[..., Any]:
        async def wrap(request: ModelRequest, proceed: Any) -> ModelReply:
            bodies.append(f"{name} in")
            reply: ModelReply = await proceed(request)
            bodies.append(f"{name} out")
            return reply

        return wrap

    def passing(request: ModelRequest, proceed: Any) -> Any:
        bodies.append("sync")
        return proceed(request)

    host = host_with(
        aa=Pack(wrap_model_call=wrapping("aa")),
        bb=Pack(wrap_model_call=passing),
        cc=Pack(agent_created=lambda agent: agent.register(Pack(wrap_model_call=wrapping("agent")))),
    )

    ran(host, tmp_path)

    assert bodies == ["agent in", "sync", "aa in", "aa out", "agent out"]


def test_a_wrapper_may_ask_the_model_again(host_with: HostWith, tmp_path: Path) -> None:
    async def retry(request: ModelRequest, proceed: Any) -> ModelReply:
        try:
            reply: ModelReply = await proceed(request)
        except ModelError:
            reply = await proceed()
        return reply

    took = ran(host_with(aa=Pack(wrap_model_call=retry)), tmp_path, ModelError("busy", "rate-limit"), "done")

    assert (took.end.reason, took.end.text, took.end.steps) == ("completed", "done", 1)
    assert took.model.requests[0] == took.model.requests[1]


def test_a_wrapper_may_fall_back_to_another_route(host_with: HostWith, tmp_path: Path) -> None:
    spare = ScriptedModel("from the spare")

    async def fall_back(request: ModelRequest, proceed: Any) -> ModelReply:
        try:
            reply: ModelReply = await proceed(request)
        except ModelError:
            reply = await proceed(replace(request, route="spare:small"))
        return reply

    opened: list[str] = []
    provider = ModelProvider("spare", "for tests", lambda argument: opened.append(argument) or spare)  # type: ignore[func-returns-value]
    packs = {"aa": Pack(wrap_model_call=fall_back), "models": Pack(register_models=lambda: [provider])}

    took = ran(host_with(**packs), tmp_path, ModelError("down", "connection"))

    assert (took.end.text, opened, len(spare.requests)) == ("from the spare", ["small"], 1)


def test_a_route_that_nobody_provides_is_an_error_of_the_run(host_with: HostWith, tmp_path: Path) -> None:
    wrap = Pack(wrap_model_call=lambda request, proceed: proceed(replace(request, route="nowhere")))

    took = ran(host_with(aa=wrap), tmp_path)

    assert took.end.reason == "error"
    assert "no active pack provides the model route `nowhere`" in took.end.text


def test_a_wrapper_may_answer_instead_of_the_model(host_with: HostWith, tmp_path: Path) -> None:
    def cached(request: ModelRequest, proceed: Any) -> ModelReply:
        return ModelReply(AssistantMessage("from the cache"))

    took = ran(host_with(aa=Pack(wrap_model_call=cached)), tmp_path)

    assert (took.end.text, took.end.usage, took.model.requests) == ("from the cache", Usage(), [])


def test_a_wrapper_sees_what_the_root_and_all_its_descendants_have_used(host_with: HostWith, tmp_path: Path) -> None:
    """DESIGN §3.1; what each request costs is counted up to the root."""
    seen: list[tuple[str, int]] = []

    async def budget(request: ModelRequest, proceed: Any) -> ModelReply:
        seen.append((request.session, request.usage.input_tokens))
        reply: ModelReply = await proceed(request)
        assert reply.usage.input_tokens in (1, 10, 100)
        return reply

    host = host_with(aa=Pack(wrap_model_call=budget))

    async def main() -> list[str]:
        agents: list[Agent] = []
        for tokens in (1, 10, 100):
            model = ScriptedModel((TextDelta("ok"), Finish(Usage(tokens, 0))))
            parent = agents[-1] if agents else None
            agents.append(await host.create_agent(directory=tmp_path, model=model, parent=parent))
        stranger = await host.create_agent(directory=tmp_path, model=ScriptedModel([Finish(Usage(10, 0))]))
        for agent in (agents[2], agents[0], agents[1], stranger):
            await host.submit(agent, "go").wait()
        return [agent.id for agent in (agents[2], agents[0], agents[1], stranger)]

    grandchild, root, child, stranger = in_host(host, main)

    assert seen == [(grandchild, 0), (root, 100), (child, 101), (stranger, 0)]


WRAPPER_FAILURES: dict[str, tuple[Callable[..., Any], str]] = {
    "raises": (raising(ValueError("no")), "ValueError: no"),
    "raises later": (raising_later(ValueError("no")), "ValueError: no"),
    "exits": (raising(SystemExit(3)), "SystemExit: 3"),
    "cancels": (raising_later(asyncio.CancelledError()), "CancelledError"),
    "text": (lambda: "hello", "it returned str, not ModelReply"),
    "nothing": (lambda: None, "it returned NoneType, not ModelReply"),
    "a message": (lambda: AssistantMessage("hello"), "it returned AssistantMessage, not ModelReply"),
}


@pytest.mark.parametrize(("wrapper", "told"), WRAPPER_FAILURES.values(), ids=WRAPPER_FAILURES)
def test_a_wrapper_of_the_model_that_fails_ends_the_run_and_is_named(
    host_with: HostWith, tmp_path: Path, wrapper: Callable[..., Any], told: str
) -> None:
    took = ran(host_with(aa=Pack(wrap_model_call=wrapper), bb=Pack()), tmp_path)

    assert (took.end.reason, took.end.text) == ("error", f"wrap_model_call of pack `aa` failed: {told}")
    assert took.model.requests == []


def test_what_the_model_raises_is_no_failure_of_the_packs_around_it(host_with: HostWith, tmp_path: Path) -> None:
    async def wrap(request: ModelRequest, proceed: Any) -> Any:
        return await proceed(request)

    took = ran(host_with(aa=Pack(wrap_model_call=wrap)), tmp_path, ModelError("no key; set one", "auth"))

    assert (took.end.reason, took.end.text) == ("error", "no key; set one")


def test_going_on_with_something_else_than_a_request_ends_the_run(host_with: HostWith, tmp_path: Path) -> None:
    took = ran(host_with(aa=Pack(wrap_model_call=lambda request, proceed: proceed("hello"))), tmp_path)

    assert (took.end.reason, took.model.requests) == ("error", [])
    assert "str, not ModelRequest" in took.end.text


@pytest.mark.parametrize("proceeds", [False, True])
def test_a_wrapper_may_end_the_run_for_a_reason_of_its_own(host_with: HostWith, tmp_path: Path, proceeds: bool) -> None:
    async def budget(request: ModelRequest, proceed: Any) -> ModelReply:
        if proceeds:
            await proceed(request)
        raise EndRun("limit", "the budget is used up")

    outer = Pack(wrap_model_call=lambda request, proceed: proceed(request))

    took = ran(host_with(aa=Pack(wrap_model_call=budget), bb=outer), tmp_path, call("peek"))

    assert (took.end.reason, took.end.text) == ("limit", "the budget is used up")
    assert (len(took.model.requests), took.results) == (proceeds, [])


@pytest.mark.parametrize("swallows", [False, True])
def test_cancelling_reaches_the_model_through_a_wrapper_even_if_that_swallows_it(
    host_with: HostWith, tmp_path: Path, swallows: bool
) -> None:
    asked = asyncio.Event()

    async def wrap(request: ModelRequest, proceed: Any) -> Any:
        asked.set()
        try:
            return await asyncio.sleep(3600, proceed)
        except asyncio.CancelledError:
            bodies.append("cancelled")
            if not swallows:
                raise
            return ModelReply(AssistantMessage("as if nothing had happened"))

    host = host_with(aa=Pack(wrap_model_call=wrap))

    async def main() -> RunEnd:
        agent = await host.create_agent(directory=tmp_path, model=ScriptedModel())
        run = host.submit(agent, "go")
        await asked.wait()
        run.cancel("enough")
        return await run.wait()

    end = in_host(host, main)

    assert ((end.reason, end.text), bodies) == (("aborted", "enough"), ["cancelled"])


def test_a_reply_that_a_wrapper_cut_at_its_limit_ends_the_run(host_with: HostWith, tmp_path: Path) -> None:
    wrap = Pack(wrap_model_call=lambda request, proceed: ModelReply(AssistantMessage("so far"), stop="max-tokens"))

    took = ran(host_with(aa=wrap), tmp_path)

    assert (took.end.reason, took.end.text) == ("max-tokens", "so far")


# -- wrap_tool_call


def test_wrappers_of_a_body_nest_and_see_the_call(host_with: HostWith, tmp_path: Path) -> None:
    def wrapping(name: str) -> Callable[..., Any]:
        async def wrap(call: ToolRun, proceed: Any) -> Outcome:
            bodies.append(f"{name} {call.name} {call.pack} {call.arguments['path']} {call.agent.status}")
            outcome: Outcome = await proceed()
            bodies.append(f"{name} {outcome.status} {outcome.value}")
            return outcome

        return wrap

    packs = {"aa": Pack(wrap_tool_call=wrapping("aa")), "bb": Pack(wrap_tool_call=wrapping("bb"))}

    took = ran(host_with(bench=BENCH, **packs), tmp_path, call("peek", path="x"), "done")

    assert bodies == [
        "bb peek bench x running", "aa peek bench x running", "x", "aa ok peeked at x", "bb ok peeked at x",
    ]  # fmt: skip
    assert [(result.status, result.content) for result in took.results] == [("ok", "peeked at x")]


@pytest.mark.parametrize(
    "turn", [call("peek", path=3), call("nothing"), call("poke")], ids=["invalid", "unknown", "denied"]
)
def test_a_call_whose_body_does_not_run_is_not_wrapped(host_with: HostWith, tmp_path: Path, turn: Any) -> None:
    """AC-T28, T36."""

    def wrap(call: ToolRun, proceed: Any) -> Any:
        bodies.append("wrapped")
        return proceed()

    took = ran(host_with(bench=BENCH, aa=Pack(wrap_tool_call=wrap)), tmp_path, turn, "done")

    assert ([result.status == "ok" for result in took.results], bodies) == ([False], [])


async def _twice(call: ToolRun, proceed: Any) -> Any:
    await proceed()
    return await proceed()


async def _at_once(call: ToolRun, proceed: Any) -> Any:
    return (await asyncio.gather(proceed(), proceed()))[1]


@pytest.mark.parametrize("wrap", [_twice, _at_once])
def test_a_body_never_runs_a_second_time(host_with: HostWith, tmp_path: Path, wrap: Callable[..., Any]) -> None:
    """Rule 8."""
    took = ran(host_with(bench=BENCH, aa=Pack(wrap_tool_call=wrap)), tmp_path, call("peek", path="x"), "done")

    assert bodies == ["x"]
    assert [(result.status, result.code) for result in took.results] == [("error", "TOOL_FAILED")]
    assert "a second time; it runs once" in took.results[0].content


def test_a_cached_value_is_rendered_like_the_bodys_own(host_with: HostWith, tmp_path: Path) -> None:
    """T37: a wrapper may answer instead of the body."""
    wrap = Pack(wrap_tool_call=lambda call, proceed: Outcome.of("from the cache"))

    took = ran(host_with(bench=BENCH, aa=wrap), tmp_path, call("peek"), "done")

    assert [(result.status, result.content, result.summary) for result in took.results] == [
        ("ok", "from the cache", "1 line")
    ]
    assert bodies == []


async def _another_value(call: ToolRun, proceed: Any) -> Any:
    return replace(await proceed(), value=["not", "text"])


async def _spoken_over(call: ToolRun, proceed: Any) -> Any:
    return replace(await proceed(), content="as I say", value=3)


LIES: dict[str, Callable[..., Any]] = {
    "cached": lambda call, proceed: Outcome.of(["not", "text"]),
    "changed": _another_value,
    "changed with its text": _spoken_over,
    "made by hand": lambda call, proceed: Outcome("ok", "fine", "fine", value=7),
    "without value": lambda call, proceed: Outcome("ok", "fine", "fine"),
}


@pytest.mark.parametrize("wrap", LIES.values(), ids=LIES)
def test_what_a_wrapper_returns_is_held_to_the_tools_contract(
    host_with: HostWith, tmp_path: Path, wrap: Callable[..., Any]
) -> None:
    """T39: what is returned is checked against the output contract again."""
    took = ran(host_with(bench=BENCH, aa=Pack(wrap_tool_call=wrap)), tmp_path, call("peek"), "done")

    assert [(result.status, result.code) for result in took.results] == [("error", "INVALID_TOOL_OUTPUT")]


def test_a_wrapper_may_say_a_good_value_in_other_words(host_with: HostWith, tmp_path: Path) -> None:
    async def wrap(call: ToolRun, proceed: Any) -> Outcome:
        outcome: Outcome = await proceed()
        return outcome.saying("as I say")

    took = ran(host_with(bench=BENCH, aa=Pack(wrap_tool_call=wrap)), tmp_path, call("peek"), "done")

    assert [(result.status, result.content) for result in took.results] == [("ok", "as I say")]


@pytest.mark.parametrize("status", ["ok", "error"])
def test_an_outcome_whose_content_is_no_text_is_an_error(host_with: HostWith, tmp_path: Path, status: Any) -> None:
    wrap = Pack(wrap_tool_call=lambda call, proceed: Outcome(status, 3, "fine", value="x"))  # type: ignore[arg-type]

    took = ran(host_with(bench=BENCH, aa=wrap), tmp_path, call("peek"), "done")

    assert [(result.status, result.code) for result in took.results] == [("error", "TOOL_FAILED")]
    assert "whose content is no text" in took.results[0].content


@pytest.mark.parametrize(
    ("wrap", "told"),
    [
        (raising(ValueError("no")), "ValueError: no"),
        (raising_later(ValueError("no")), "ValueError: no"),
        (raising(SystemExit(3)), "SystemExit: 3"),
        (lambda: "hello", "it returned str, not Outcome"),
        (lambda: None, "it returned NoneType, not Outcome"),
    ],
)
def test_a_wrapper_of_a_body_that_fails_is_an_error_result_and_the_run_goes_on(
    host_with: HostWith, tmp_path: Path, wrap: Callable[..., Any], told: str
) -> None:
    took = ran(host_with(bench=BENCH, aa=Pack(wrap_tool_call=wrap)), tmp_path, call("peek"), "done")

    (result,) = took.results
    assert (result.status, result.code) == ("error", "TOOL_FAILED")
    assert result.content == f"Error: wrap_tool_call of pack `aa` failed: {told}"
    assert took.end.reason == "completed"


def test_cancelling_reaches_the_body_inside_its_wrappers(host_with: HostWith, tmp_path: Path) -> None:
    """Rule 9, T37."""

    async def wrap(call: ToolRun, proceed: Any) -> Any:
        outcome = await proceed()
        bodies.append(f"{call.cancel.cause} {outcome.status}")
        return outcome

    host = host_with(bench=BENCH, aa=Pack(wrap_tool_call=wrap))

    async def main() -> Ran:
        agent = await host.create_agent(directory=tmp_path, model=(model := ScriptedModel(call("linger"), "done")))
        run = host.submit(agent, "go")
        await until(lambda: bodies)
        run.cancel("enough")
        return Ran(host, agent, await run.wait(), model)

    took = in_host(host, main)

    assert bodies == ["begins", "enough aborted"]
    assert (took.end.reason, [result.code for result in took.results]) == ("aborted", ["ABORTED"])


def test_a_body_does_not_begin_when_its_run_was_cancelled_inside_a_wrapper(host_with: HostWith, tmp_path: Path) -> None:
    """AC-T31: cancelled before the body is before dispatch, whoever stands around it."""

    async def wrap(call: ToolRun, proceed: Any) -> Any:
        assert call.agent.current_run is not None
        call.agent.current_run.cancel("enough")
        return await proceed()

    took = ran(host_with(bench=BENCH, aa=Pack(wrap_tool_call=wrap)), tmp_path, call("peek"), "done")

    assert (took.end.reason, bodies) == ("aborted", [])
    assert [result.code for result in took.results] == ["ABORTED_BEFORE_DISPATCH"]


def test_a_wrapper_may_tell_a_body_to_stop_and_the_run_goes_on(host_with: HostWith, tmp_path: Path) -> None:
    async def too_slow(call: ToolRun, proceed: Any) -> Any:
        asyncio.get_running_loop().call_soon(call.cancel.cancel, "too slow")
        return await proceed()

    took = ran(host_with(bench=BENCH, aa=Pack(wrap_tool_call=too_slow)), tmp_path, call("linger"), "done")

    assert [result.code for result in took.results] == ["ABORTED"]
    assert took.end.reason == "completed"


# -- tool_post_execute


def test_every_result_is_shown_whatever_became_of_the_call(host_with: HostWith, tmp_path: Path) -> None:
    """AC-T28, T36: a denied call passes through it too."""
    seen: list[tuple[str, str, str | None]] = []

    async def look(call: ToolRun, result: Outcome) -> None:
        seen.append((call.name, result.status, result.code))

    turns = [call("peek"), call("poke"), call("nothing"), call("peek", path=3), call("stumble")]

    ran(host_with(bench=BENCH, aa=Pack(tool_post_execute=look)), tmp_path, [*turns, Finish()], "done")

    assert seen == [
        ("peek", "ok", None),
        ("poke", "denied", "DENIED"),
        ("nothing", "error", "UNKNOWN_TOOL"),
        ("peek", "error", "INVALID_ARGS"),
        ("stumble", "error", "TOOL_FAILED"),
    ]


def results_after(host_with: HostWith, directory: Path, *posts: Callable[..., Any], turn: Any = None) -> Returned:
    """Let one call end under these implementations, the first of them asked first."""
    packs = {f"p{place}": Pack(tool_post_execute=post) for place, post in enumerate(reversed(posts))}
    took = ran(host_with(bench=BENCH, **packs), directory, turn or call("peek", path="x"), "done")
    (result,) = took.results
    assert took.end.reason == "completed"
    assert took.agent.session.messages[2].content == result.content  # type: ignore[union-attr]
    return result


def test_a_result_may_pass_with_other_content_and_each_pack_sees_the_one_before(
    host_with: HostWith, tmp_path: Path
) -> None:
    async def shout(result: Outcome) -> Accept:
        return Accept(content=result.content.upper())

    def ask(result: Outcome) -> Accept:
        return Accept(content=f"{result.content}?")

    result = results_after(host_with, tmp_path, shout, ask)

    assert (result.status, result.content, result.summary) == ("ok", "PEEKED AT X?", "1 line")


def test_another_value_is_rendered_anew(host_with: HostWith, tmp_path: Path) -> None:
    result = results_after(host_with, tmp_path, lambda result: Accept(value=f"{result.value}\nand y"))

    assert (result.status, result.content, result.summary) == ("ok", "peeked at x\nand y", "2 lines")


def test_another_value_is_held_to_the_tools_contract(host_with: HostWith, tmp_path: Path) -> None:
    """T40."""
    result = results_after(host_with, tmp_path, lambda: Accept(value=None))

    assert (result.status, result.code) == ("error", "INVALID_TOOL_OUTPUT")


def test_accepting_without_a_change_changes_nothing(host_with: HostWith, tmp_path: Path) -> None:
    result = results_after(host_with, tmp_path, lambda: Accept(), lambda: None)

    assert (result.status, result.content) == ("ok", "peeked at x")


def test_a_blocked_result_is_a_failure_that_says_why(host_with: HostWith, tmp_path: Path) -> None:
    result = results_after(host_with, tmp_path, lambda: Block("Look elsewhere."))

    assert (result.status, result.code, result.content) == ("error", "BLOCKED", "Look elsewhere.")
    assert bodies == ["x"]


def test_other_content_for_a_denied_call_leaves_it_denied_and_counted(host_with: HostWith, tmp_path: Path) -> None:
    post = Pack(tool_post_execute=lambda: Accept(content="Ask your administrator."))

    took = ran(host_with(bench=BENCH, aa=post), tmp_path, call("poke"), "done")

    assert [(result.status, result.content) for result in took.results] == [("denied", "Ask your administrator.")]
    assert (took.end.denied, bodies) == (1, [])


POST_FAILURES: dict[str, tuple[Callable[..., Any], str]] = {
    "raises": (raising(ValueError("no")), "ValueError: no"),
    "raises later": (raising_later(ValueError("no")), "ValueError: no"),
    "both": (lambda: Accept(content="x", value="x"), "Accept with both content and value"),
    "both with nothing": (lambda: Accept(content="", value=None), "Accept with both content and value"),
    "text": (lambda: "fine", "it returned str, not Accept, Block or None"),
    "a class": (lambda: Block, "it returned type, not Accept, Block or None"),
    "a verdict": (lambda: Deny("no"), "it returned Deny, not Accept, Block or None"),
    "content that is no text": (lambda: Accept(content=3), "content"),  # type: ignore[arg-type]
    "feedback that is no text": (lambda: Block(3), "feedback"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("post", "told"), POST_FAILURES.values(), ids=POST_FAILURES)
def test_a_pack_that_fails_after_a_call_makes_it_an_error_result(
    host_with: HostWith, tmp_path: Path, post: Callable[..., Any], told: str
) -> None:
    """AC-T27, T40."""
    result = results_after(host_with, tmp_path, post)

    assert (result.status, result.code, bodies) == ("error", "TOOL_FAILED", ["x"])
    assert result.content.startswith("Error: tool_post_execute of pack `p0` failed: ")
    assert told in result.content


@pytest.mark.parametrize("turn", [call("poke"), call("stumble"), call("nothing")], ids=["denied", "failed", "unknown"])
def test_no_call_that_failed_gets_a_value(host_with: HostWith, tmp_path: Path, turn: Any) -> None:
    result = results_after(host_with, tmp_path, lambda: Accept(value="fine"), turn=turn)

    assert result.status != "ok"
    assert "another value for a call that failed" in result.content
    assert bodies == []


# -- prepare_process


LISTING = ProcessSpec(argv=("ls", "-l"), cwd=Path("/"), env={"LANG": "C"})


def refused(host: Host, spec: ProcessSpec = LISTING) -> str:
    """Try to start a process; returns why that was refused."""

    async def main() -> str:
        with pytest.raises(ProcessRefused) as refusal:
            await host.spawn(spec)
        return str(refusal.value)

    told: str = in_host(host, main)
    return told


def test_a_pack_may_refuse_a_process(host_with: HostWith) -> None:
    async def refuse(spec: ProcessSpec) -> Deny:
        return Deny(f"no {spec.argv[0]} here")

    assert re.fullmatch(
        "no /.*/ls here", refused(host_with(aa=Pack(prepare_process=refuse)))
    )  # found before it is asked


def test_each_pack_sees_the_process_as_the_one_before_it_made_it_but_for_its_owner(host_with: HostWith) -> None:
    seen: list[ProcessSpec] = []

    async def sandbox(spec: ProcessSpec) -> ProcessSpec:
        return replace(spec, argv=("jail", *spec.argv), env={}, cwd=Path("/tmp"), owner="forged", session="forged")

    def look(spec: ProcessSpec) -> Deny:
        seen.append(spec)
        return Deny("seen enough")

    refused(host_with(bb=Pack(prepare_process=sandbox), aa=Pack(prepare_process=look)), replace(LISTING, owner="me"))

    (one,) = seen
    assert (one.argv[0], Path(one.argv[1]).name, one.argv[2:]) == ("jail", "ls", ("-l",))
    assert (one.env, one.cwd) == ({}, Path("/tmp"))
    assert (one.owner, one.session) == ("me", None)


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        (raising(ValueError("broken")), "ValueError: broken"),
        (raising_later(ValueError("broken")), "ValueError: broken"),
        (lambda: True, "it returned bool, not ProcessSpec, Deny or None"),
        (lambda: ("ls",), "it returned tuple, not ProcessSpec, Deny or None"),
        (lambda: Deny, "it returned type, not ProcessSpec, Deny or None"),
    ],
)
def test_a_pack_that_fails_to_prepare_a_process_refuses_it(
    host_with: HostWith, prepare: Callable[..., Any], told: str
) -> None:
    """Rule 6."""
    refusal = refused(host_with(aa=Pack(prepare_process=prepare)))

    assert "prepare_process of pack `aa` failed" in refusal
    assert told in refusal


def test_a_process_is_owned_by_the_pack_that_starts_it_and_names_its_agent(host_with: HostWith, tmp_path: Path) -> None:
    @tool(effect="read")
    async def start(ctx: ToolContext) -> str:
        """Start a process."""
        await ctx.spawn(LISTING)
        return "started"

    def refuse(spec: ProcessSpec) -> Deny:
        return Deny(f"{spec.owner} {spec.session}")

    host = host_with(starter=Pack(register_tools=lambda: [start]), aa=Pack(prepare_process=refuse))

    took = ran(host, tmp_path, call("start"), "done")

    assert f"starter {took.agent.id}" in took.results[0].content


# -- filter_entry


def redacting(entry: Entry) -> Entry:
    """Take the secret out of every text."""
    return entry.rewriting(lambda text: text.replace("hunter2", "***"))


async def redacting_later(entry: Entry) -> Entry:
    """The same in the other colour."""
    await asyncio.sleep(0)
    return redacting(entry)


@tool(effect="read")
async def confess(path: str = "") -> str:
    """Tell the secret."""
    bodies.append(path)
    return "it is hunter2"


VAULT = Pack(register_tools=lambda: [confess])


@pytest.mark.parametrize("redact", [redacting, redacting_later])
def test_what_a_filter_takes_out_reaches_neither_model_nor_record_nor_anybody_who_watches(
    host_with: HostWith, tmp_path: Path, redact: Callable[..., Any]
) -> None:
    observed: list[object] = []
    listened: list[object] = []
    host = host_with(
        vault=VAULT, aa=Pack(filter_entry=redact), watch=Pack(observe=lambda event: observed.append(event))
    )
    host.listen(listened.append)

    async def main() -> tuple[Ran, list[object]]:
        feed = host.events()
        took = await one_run(host, tmp_path, call("confess"), "so it is hunter2", text="hunter2?")
        feed.close()
        return took, [item.event async for item in feed]

    took, followed = in_host(host, main)

    requests = [list(request.messages) for request in took.model.requests]
    record = recorded(took.agent, all_of_it=True)
    assert "hunter2" not in repr([observed, listened, followed, record, took.end, requests])
    assert (observed, followed) == (record, listened)
    assert requests[0] == [UserMessage("***?")]
    assert requests[1][-1].content == "it is ***"
    assert took.end.text == "so it is ***"


def test_the_end_that_a_run_returns_is_the_recorded_one(host_with: HostWith, tmp_path: Path) -> None:
    took = ran(host_with(aa=Pack(filter_entry=redacting)), tmp_path, "the word is hunter2")

    assert took.end.text == "the word is ***"
    assert took.end == recorded(took.agent)[-1]


def test_a_history_that_a_pack_replaced_brings_nothing_unfiltered_either(host_with: HostWith, tmp_path: Path) -> None:
    def forget(prompt: Prompt) -> Prompt | None:
        return prompt.telling([]) if prompt.phase == "step" else None

    host = host_with(aa=Pack(filter_entry=redacting), bb=Pack(assemble_prompt=forget))

    took = ran(host, tmp_path, text="hunter2?")

    assert list(took.model.requests[0].messages) == [UserMessage("***?")]


def test_the_result_of_a_call_without_a_model_is_filtered_too(host_with: HostWith, tmp_path: Path) -> None:
    """The program may hand it to another model."""
    host = host_with(vault=VAULT, aa=Pack(filter_entry=redacting))

    async def main() -> Any:
        agent = await host.create_agent(directory=tmp_path)
        return await agent.call_tool("confess")

    result = in_host(host, main)

    assert result.content == "it is ***"


def test_a_body_gets_the_arguments_that_the_model_wrote_and_the_record_the_filtered_ones(
    host_with: HostWith, tmp_path: Path
) -> None:
    host = host_with(vault=VAULT, aa=Pack(filter_entry=redacting))

    took = ran(host, tmp_path, call("confess", path="hunter2"), "done")

    (called,) = [event for event in recorded(took.agent) if isinstance(event, Called)]
    replied = next(event for event in recorded(took.agent, all_of_it=True) if isinstance(event, Replied))
    assert bodies == ["hunter2"]
    assert dict(called.arguments or {}) == {"path": "***"}
    assert replied.calls[0].arguments == '{"path": "***"}'


def test_filters_see_what_the_one_before_made_and_all_entries_in_order(host_with: HostWith, tmp_path: Path) -> None:
    seen: list[Entry] = []
    host = host_with(bb=Pack(filter_entry=redacting), aa=Pack(filter_entry=lambda entry: seen.append(entry)))

    took = ran(host, tmp_path, "hunter2", text="hunter2?")

    assert [entry.id for entry in seen] == list(range(1, len(seen) + 1))
    assert [entry.event for entry in seen] == recorded(took.agent, all_of_it=True)
    assert "hunter2" not in repr(seen)


def test_where_a_pack_filters_live_text_comes_whole_and_filtered(host_with: HostWith, tmp_path: Path) -> None:
    """Deltas are no entries: no filter sees one, so none may be shown; a secret may be split between two."""
    filtered: list[str] = []
    shown: list[str] = []

    def redact(entry: Entry) -> Entry:
        filtered.append(entry.event.type)
        return redacting(entry)

    host = host_with(aa=Pack(filter_entry=redact))
    host.listen(lambda event: shown.append(event.text) if isinstance(event, Text) else None)

    ran(host, tmp_path, [TextDelta("it is hun"), TextDelta("ter2!"), Finish()])

    assert shown == ["it is ***!"]
    assert ("reply" in filtered, "text" in filtered) == (True, False)


@pytest.mark.parametrize("filters", [False, True])
def test_progress_that_no_filter_sees_is_not_shown_where_a_pack_filters(
    host_with: HostWith, tmp_path: Path, filters: bool
) -> None:
    shown: list[str] = []
    packs = {"aa": Pack(filter_entry=redacting)} if filters else {}
    host = host_with(bb=Pack(run_starting=lambda run: run.progress("found hunter2")), **packs)
    host.listen(lambda event: shown.append(event.text) if isinstance(event, Progress) else None)

    ran(host, tmp_path)

    assert shown == ([] if filters else ["found hunter2"])


def _another_kind(entry: Entry) -> Entry:
    return replace(entry, event=StepStart(entry.session, entry.event.run, entry.event.ts, 1))


FILTER_FAILURES: dict[str, tuple[Callable[..., Any], str]] = {
    "raises": (raising(ValueError("broken")), "ValueError: broken"),
    "raises later": (raising_later(ValueError("broken")), "ValueError: broken"),
    "exits": (raising(SystemExit(3)), "SystemExit: 3"),
    "text": (lambda entry: "***", "it returned str, not Entry or None"),
    "an event": (lambda entry: entry.event, "not Entry or None"),
    "another place": (lambda entry: replace(entry, id=entry.id + 1), "a filter may only change what it was given"),
    "another kind": (_another_kind, "a filter may only change what it was given"),
    "another session": (
        lambda entry: replace(entry, event=replace(entry.event, session="0" * 8)),
        "a filter may only change what it was given",
    ),
    "another run": (
        lambda entry: replace(entry, event=replace(entry.event, run=7)),
        "a filter may only change what it was given",
    ),
}


@pytest.mark.parametrize(("broken", "told"), FILTER_FAILURES.values(), ids=FILTER_FAILURES)
def test_where_a_filter_fails_the_texts_are_withheld_and_say_so(
    host_with: HostWith, tmp_path: Path, broken: Callable[..., Any], told: str
) -> None:
    def only_results(entry: Entry) -> Any:
        if isinstance(entry.event, Returned):
            return broken(entry) if broken.__code__.co_argcount else broken()
        return None

    took = ran(host_with(vault=VAULT, aa=Pack(filter_entry=only_results)), tmp_path, call("confess"), "done")

    withheld = "[withheld: filter_entry of pack `aa` failed]"
    (result,) = took.results
    assert (result.status, result.content, result.summary) == ("ok", withheld, withheld)
    assert took.model.requests[1].messages[-1].content == withheld  # type: ignore[union-attr]
    ((pack, hook, text),) = took.faults
    assert (pack, hook, told in text) == ("aa", "filter_entry", True)
    assert took.end.text == "done"


def test_one_failing_filter_withholds_what_the_others_let_pass(host_with: HostWith, tmp_path: Path) -> None:
    packs = {"aa": Pack(filter_entry=raising(ValueError("no"))), "bb": Pack(filter_entry=redacting)}

    took = ran(host_with(**packs), tmp_path, "the word is hunter2")

    assert took.end.text == "[withheld: filter_entry of pack `aa` failed]"
    assert (took.end.reason, took.end.steps) == ("completed", 1)


def test_a_filter_cannot_record_anything_itself(host_with: HostWith, tmp_path: Path) -> None:
    """It would wait for itself forever."""
    running: list[Run] = []

    async def meddle(entry: Entry) -> None:
        if isinstance(entry.event, RunStart):
            await running[0].note("seen", {})

    host = host_with(aa=Pack(filter_entry=meddle, run_starting=lambda run: running.append(run)))

    took = ran(host, tmp_path)

    assert took.end.reason == "completed"
    assert [text for _, _, text in took.faults if "can't record anything itself" in text] != []
    assert not [event for event in recorded(took.agent, all_of_it=True) if isinstance(event, Note)]


# -- run_stopping


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_pack_may_make_the_model_go_on(host_with: HostWith, tmp_path: Path, colour: str) -> None:
    def once_more(run: Run) -> None:
        bodies.append(f"asked at step {run.step}")
        if run.step == 1:
            run.agent.steer("are you sure?")

    async def once_more_later(run: Run) -> None:
        await asyncio.sleep(0)
        once_more(run)

    stopping = once_more if colour == "sync" else once_more_later

    took = ran(host_with(aa=Pack(run_stopping=stopping)), tmp_path, "yes", "quite")

    assert (took.end.text, took.end.steps) == ("quite", 2)
    assert took.model.requests[1].messages[-1] == UserMessage("are you sure?")
    assert bodies == ["asked at step 1", "asked at step 2"]


def test_nobody_is_asked_about_the_end_of_a_run_that_did_not_complete(host_with: HostWith, tmp_path: Path) -> None:
    stopping = Pack(run_stopping=lambda: bodies.append("asked"))

    took = ran(host_with(aa=stopping), tmp_path, ModelError("down", "connection"))

    assert (took.end.reason, bodies) == ("error", [])


def test_the_model_is_not_stopped_between_its_calls(host_with: HostWith, tmp_path: Path) -> None:
    stopping = Pack(run_stopping=lambda run: bodies.append(f"stopping at {run.step}"))

    ran(host_with(bench=BENCH, aa=stopping), tmp_path, call("peek", path="x"), "done")

    assert bodies == ["x", "stopping at 2"]


@pytest.mark.parametrize("fail", [raising, raising_later])
def test_a_pack_that_fails_at_the_end_of_a_run_is_reported_and_the_others_may_steer(
    host_with: HostWith, tmp_path: Path, fail: Callable[..., Callable[..., Any]]
) -> None:
    def once_more(run: Run) -> None:
        if run.step == 1:
            run.agent.steer("more")

    host = host_with(aa=Pack(run_stopping=fail(ValueError("no"))), bb=Pack(run_stopping=once_more))

    took = ran(host, tmp_path, "one", "two")

    assert (took.end.reason, took.end.text) == ("completed", "two")
    assert took.faults == [("aa", "run_stopping", "ValueError: no")] * 2


# -- answer_interaction


def front_ends(*names: str) -> str:
    """The user's configuration that lets these packs answer."""
    return f"[interactions]\nfront_ends = [{', '.join(map(repr, names))}]\n"


def asking(*, person: bool = False, phase: str = "") -> Pack:
    """Return a guard that asks a person, in one phase only if it is named."""
    return Pack(guard_tool_call=lambda call: Ask("sure?", person) if phase in ("", call.phase) else None)


def test_a_front_end_that_the_user_did_not_name_is_never_asked(host_with: HostWith, tmp_path: Path) -> None:
    """Security case 22."""
    bold = Pack(answer_interaction=lambda: bodies.append("asked") or Answer.yes())  # type: ignore[func-returns-value]
    named = Pack(answer_interaction=lambda: Answer.no("not today"))
    host = host_with(front_ends("phone"), bench=BENCH, bold=bold, phone=named)

    took = ran(host, tmp_path, call("poke"), "done")

    assert [result.status for result in took.results] == ["denied"]
    assert "a person said no: not today" in took.results[0].content
    assert bodies == []


@pytest.mark.parametrize("config", ["", "[interactions]\nfront_ends = []\n"])
def test_without_named_front_ends_nobody_is_asked(host_with: HostWith, tmp_path: Path, config: str) -> None:
    """Security case 22."""
    bold = Pack(answer_interaction=lambda: bodies.append("asked") or Answer.yes())  # type: ignore[func-returns-value]

    took = ran(host_with(config, bench=BENCH, bold=bold), tmp_path, call("poke"), "done")

    assert ([result.status for result in took.results], bodies) == (["denied"], [])


def test_what_the_program_or_an_unnamed_pack_registers_on_an_agent_is_not_asked_either(
    host_with: HostWith, tmp_path: Path
) -> None:
    """Security case 22: being on the agent makes nobody a front end."""
    bold = Pack(answer_interaction=lambda: bodies.append("asked") or Answer.yes())  # type: ignore[func-returns-value]
    packs = {"bold": Pack(agent_created=lambda agent: agent.register(bold)), "phone": Pack(), "bench": BENCH}
    host = host_with(front_ends("phone"), **packs)

    async def main() -> RunEnd:
        model = ScriptedModel(call("poke"), "done")
        agent = await host.create_agent(directory=tmp_path, model=model, setup=lambda agent: void(agent.register(bold)))
        return await host.submit(agent, "go").wait()

    assert (in_host(host, main).denied, bodies) == (1, [])


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_named_front_end_sees_the_question_and_its_yes_runs_the_body(
    host_with: HostWith, tmp_path: Path, colour: str
) -> None:
    seen: list[Interaction] = []

    def answer(interaction: Interaction) -> Answer:
        seen.append(interaction)
        return Answer.yes()

    async def answer_later(interaction: Interaction) -> Answer:
        await asyncio.sleep(0)
        return answer(interaction)

    phone = Pack(answer_interaction=answer if colour == "sync" else answer_later)
    host = host_with(front_ends("phone"), bench=BENCH, strict=asking(person=True), phone=phone)

    took = ran(host, tmp_path, call("poke", path="x"), "done")

    (one,) = seen
    assert (one.session, one.root, one.run, one.id) == (took.agent.id, took.agent.id, 1, 1)
    assert (one.kind, one.tool, one.pack, one.person) == ("permission", "poke", "strict", True)
    assert (one.reason, dict(one.arguments)) == ("sure?; no policy pack decides about writes", {"path": "x"})
    assert ([result.status for result in took.results], bodies) == (["ok"], ["x"])


def test_one_yes_holds_for_both_phases_of_its_call_and_for_no_other_call(host_with: HostWith, tmp_path: Path) -> None:
    """Rule 7, T35: the approval is bound to the hash of the call."""
    hashes: list[str] = []
    guarded: list[tuple[str, str]] = []

    def guard(call: GuardedCall) -> Ask:
        guarded.append((call.phase, call.hash))
        return Ask("sure?")

    def answer(interaction: Interaction) -> Answer:
        hashes.append(interaction.hash)
        return Answer(len(hashes) < 3)

    packs = {"strict": Pack(guard_tool_call=guard), "phone": Pack(answer_interaction=answer), "bench": BENCH}
    turns = [call("peek", path="x"), call("peek", path="y"), call("peek", path="x")]

    took = ran(host_with(front_ends("phone"), **packs), tmp_path, [*turns, Finish()], "done")

    assert [result.status for result in took.results] == ["ok", "ok", "denied"]
    assert guarded[:4] == [
        ("intent", hashes[0]),
        ("dispatch", hashes[0]),
        ("intent", hashes[1]),
        ("dispatch", hashes[1]),
    ]
    assert (hashes[2] == hashes[0], hashes[1] == hashes[0]) == (True, False)


def test_a_question_that_comes_up_only_before_the_body_is_put_all_the_same(host_with: HostWith, tmp_path: Path) -> None:
    phone = Pack(answer_interaction=lambda: Answer.no())
    host = host_with(front_ends("phone"), bench=BENCH, late=asking(phase="dispatch"), phone=phone)

    took = ran(host, tmp_path, call("peek"), "done")

    assert ([result.status for result in took.results], bodies) == (["denied"], [])


def test_a_blanket_yes_does_not_answer_for_a_person_but_a_front_end_does(host_with: HostWith, tmp_path: Path) -> None:
    """Rule 6: `--allow-writes` is never a person's answer."""
    phone = Pack(answer_interaction=lambda interaction: Answer(interaction.arguments["path"] == "x"))
    host = host_with(front_ends("phone"), bench=BENCH, strict=asking(person=True), phone=phone)
    turns = [call("poke", path="x"), call("poke", path="y"), Finish()]

    took = ran(host, tmp_path, turns, "done", allow_writes=True)

    assert ([result.status for result in took.results], bodies) == (["ok", "denied"], ["x"])


def test_nobody_is_asked_about_what_is_denied_anyway(host_with: HostWith, tmp_path: Path) -> None:
    """Deny beats ask."""
    phone = Pack(answer_interaction=lambda: bodies.append("asked") or Answer.yes())  # type: ignore[func-returns-value]
    no = Pack(guard_tool_call=lambda: Deny("never"))
    host = host_with(front_ends("phone"), bench=BENCH, aa=asking(person=True), no=no, phone=phone)

    took = ran(host, tmp_path, call("poke"), "done")

    assert ([result.content for result in took.results], bodies) == (["Error: denied by no: never"], [])


def test_the_first_answer_wins_and_the_others_are_cancelled(host_with: HostWith, tmp_path: Path) -> None:
    async def dawdle() -> Answer:
        try:
            await asyncio.sleep(3600)
        finally:
            bodies.append("cancelled")
        return Answer.no()

    async def quick() -> Answer:
        await asyncio.sleep(0)
        return Answer.yes()

    packs = {"slow": Pack(answer_interaction=dawdle), "phone": Pack(answer_interaction=quick)}

    took = ran(host_with(front_ends("slow", "phone"), bench=BENCH, **packs), tmp_path, call("poke", path="x"), "done")

    answers = [event for event in recorded(took.agent, all_of_it=True) if isinstance(event, Answered)]
    assert [(answer.id, answer.approved, answer.by) for answer in answers] == [(1, True, "phone")]
    assert bodies == ["cancelled", "x"]


def test_a_front_end_that_abstains_leaves_the_answer_to_the_others(host_with: HostWith, tmp_path: Path) -> None:
    async def later() -> Answer:
        await asyncio.sleep(0.01)
        return Answer.yes()

    packs = {"shy": Pack(answer_interaction=lambda: None), "phone": Pack(answer_interaction=later)}

    took = ran(host_with(front_ends("shy", "phone"), bench=BENCH, **packs), tmp_path, call("poke"), "done")

    assert [result.status for result in took.results] == ["ok"]


FRONT_END_FAILURES: dict[str, tuple[Callable[..., Any], str]] = {
    "raises": (raising(OSError("no line")), "OSError: no line"),
    "raises later": (raising_later(OSError("no line")), "OSError: no line"),
    "says True": (lambda: True, "it returned bool, not Answer or None"),
    "says yes": (lambda: "yes", "it returned str, not Answer or None"),
    "says a class": (lambda: Answer, "it returned type, not Answer or None"),
    "approves with a text": (lambda: Answer("no"), "an Answer that is neither yes, no nor a text"),  # type: ignore[arg-type]
    "approves with a number": (lambda: Answer(1), "an Answer that is neither yes, no nor a text"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("answer", "told"), FRONT_END_FAILURES.values(), ids=FRONT_END_FAILURES)
def test_a_front_end_that_fails_is_reported_and_says_neither_yes_nor_no(
    host_with: HostWith, tmp_path: Path, answer: Callable[..., Any], told: str
) -> None:
    """Fail closed: what is no answer is no yes."""
    host = host_with(front_ends("phone"), bench=BENCH, phone=Pack(answer_interaction=answer))

    took = ran(host, tmp_path, call("poke"), "done")

    assert ([result.status for result in took.results], bodies) == (["denied"], [])
    ((pack, hook, text),) = took.faults
    assert (pack, hook, told in text) == ("phone", "answer_interaction", True)
    answers = [event for event in recorded(took.agent, all_of_it=True) if isinstance(event, Answered)]
    assert [(one.approved, one.text, one.by) for one in answers] == [(False, "nobody answered", "")]


def test_a_text_is_no_yes_to_a_permission(host_with: HostWith, tmp_path: Path) -> None:
    host = host_with(front_ends("phone"), bench=BENCH, phone=Pack(answer_interaction=lambda: Answer.say("well...")))

    took = ran(host, tmp_path, call("poke"), "done")

    assert ([result.status for result in took.results], bodies) == (["denied"], [])


def test_a_run_may_wait_for_an_answer_that_the_program_gives(host_with: HostWith, tmp_path: Path) -> None:
    host = host_with(bench=BENCH)

    async def main() -> tuple[Interaction, list[str], int]:
        agent = await host.create_agent(directory=tmp_path, model=ScriptedModel(call("poke", path="x"), "done"))
        run = host.submit(agent, "go", on_ask="wait")
        await until(host.open_interactions)
        (interaction,) = host.open_interactions(agent.id)
        before = list(bodies)
        with pytest.raises(UsageError, match="no open interaction 2"):
            await host.answer(agent.id, 2, Answer.yes())
        await host.answer(agent.id, 1, Answer.yes())
        with pytest.raises(UsageError, match="no open interaction 1"):
            await host.answer(agent.id, 1, Answer.no())
        await run.wait()
        return interaction, before, len(host.open_interactions())

    interaction, before, left = in_host(host, main)

    assert (interaction.tool, before, bodies, left) == ("poke", [], ["x"], 0)


@pytest.mark.parametrize("approved", ["no", 1, "yes"])
def test_the_program_too_answers_with_yes_or_no_only(host_with: HostWith, tmp_path: Path, approved: Any) -> None:
    host = host_with(bench=BENCH)

    async def main() -> RunEnd:
        agent = await host.create_agent(directory=tmp_path, model=ScriptedModel(call("poke"), "done"))
        run = host.submit(agent, "go", on_ask="wait")
        await until(host.open_interactions)
        with pytest.raises(UsageError, match="Answer"):
            await host.answer(agent.id, 1, Answer(approved))
        await host.answer(agent.id, 1, Answer.no())
        return await run.wait()

    assert (in_host(host, main).denied, bodies) == (1, [])


def test_the_program_answers_while_front_ends_still_think_or_after_they_have_failed(
    host_with: HostWith, tmp_path: Path
) -> None:
    async def dawdle() -> Answer:
        try:
            await asyncio.sleep(3600)
        finally:
            bodies.append("cancelled")
        return Answer.no()

    packs = {"slow": Pack(answer_interaction=dawdle), "bad": Pack(answer_interaction=raising(OSError("no line")))}
    host = host_with(front_ends("slow", "bad"), bench=BENCH, **packs)

    async def main() -> RunEnd:
        agent = await host.create_agent(directory=tmp_path, model=ScriptedModel(call("poke", path="x"), "done"))
        run = host.submit(agent, "go", on_ask="wait")
        await until(lambda: host.faults)
        await host.answer(agent.id, 1, Answer.yes())
        return await run.wait()

    assert (in_host(host, main).denied, bodies) == (0, ["cancelled", "x"])


@pytest.mark.parametrize("on_ask", ["deny", "wait"])
def test_cancelling_while_a_person_is_asked_withdraws_the_question(
    host_with: HostWith, tmp_path: Path, on_ask: str
) -> None:
    async def dawdle() -> Answer:
        try:
            await asyncio.sleep(3600)
        finally:
            bodies.append("front end cancelled")
        return Answer.yes()

    host = host_with(front_ends("phone"), bench=BENCH, phone=Pack(answer_interaction=dawdle))

    async def main() -> tuple[RunEnd, list[Any], int]:
        agent = await host.create_agent(directory=tmp_path, model=ScriptedModel(call("poke"), "done"))
        run = host.submit(agent, "go", on_ask=on_ask)  # type: ignore[arg-type]
        await until(host.open_interactions)
        await asyncio.sleep(0)
        run.cancel("enough")
        end = await run.wait()
        return end, recorded(agent, all_of_it=True), len(host.open_interactions())

    end, events, left = in_host(host, main)

    assert (end.reason, end.text, left, bodies) == ("aborted", "enough", 0, ["front end cancelled"])
    assert [event.approved for event in events if isinstance(event, Answered)] == [False]
    assert [event.status for event in events if isinstance(event, Returned)] != ["ok"]


def test_of_a_tree_of_agents_only_the_first_open_question_can_be_answered(host_with: HostWith, tmp_path: Path) -> None:
    """DESIGN §3.3: ordered interactions."""
    host = host_with(bench=BENCH)

    async def main() -> tuple[list[str], list[str]]:
        root = await host.create_agent(directory=tmp_path)
        children, runs = [], []
        for name in ("x", "y"):
            model = ScriptedModel(call("poke", path=name), "done")
            children.append(await host.create_agent(directory=tmp_path, model=model, parent=root))
            runs.append(host.submit(children[-1], "go", on_ask="wait"))
            await until(lambda: len(host.open_interactions(root.id)) == len(runs))
        first, second = host.open_interactions(root.id)
        with pytest.raises(UsageError, match=f"interaction 1 of session {first.session} comes first"):
            await host.answer(second.session, second.id, Answer.yes())
        for interaction in (first, second):
            await host.answer(interaction.session, interaction.id, Answer.yes())
            await until(lambda interaction=interaction: interaction not in host.open_interactions())  # type: ignore[misc]
        await asyncio.gather(*(run.wait() for run in runs))
        return [first.session, second.session], [child.id for child in children]

    asked, sessions = in_host(host, main)

    assert (asked, bodies) == (sessions, ["x", "y"])


def test_questions_of_two_trees_do_not_wait_for_each_other(host_with: HostWith, tmp_path: Path) -> None:
    host = host_with(bench=BENCH)

    async def main() -> None:
        runs = []
        for name in ("x", "y"):
            model = ScriptedModel(call("poke", path=name), "done")
            agent = await host.create_agent(directory=tmp_path, model=model)
            runs.append(host.submit(agent, "go", on_ask="wait"))
        await until(lambda: len(host.open_interactions()) == 2)
        for interaction in reversed(host.open_interactions()):
            await host.answer(interaction.session, interaction.id, Answer.yes())
            await until(lambda: len(bodies) == 1)
        await asyncio.gather(*(run.wait() for run in runs))

    in_host(host, main)

    assert bodies == ["y", "x"]


def test_questions_of_one_tree_are_put_to_front_ends_one_after_the_other(host_with: HostWith, tmp_path: Path) -> None:
    async def answer(interaction: Interaction) -> Answer:
        bodies.append("asked")
        await asyncio.sleep(0.01)
        bodies.append("answered")
        return Answer.no()

    host = host_with(front_ends("phone"), bench=BENCH, phone=Pack(answer_interaction=answer))

    async def main() -> None:
        root = await host.create_agent(directory=tmp_path)
        models = [ScriptedModel(call("poke"), "done") for _ in range(2)]
        children = [await host.create_agent(directory=tmp_path, model=model, parent=root) for model in models]
        await asyncio.gather(*(host.submit(child, "go").wait() for child in children))

    in_host(host, main)

    assert bodies == ["asked", "answered"] * 2


def test_a_filtered_question_keeps_its_hash_and_shows_no_secret(host_with: HostWith, tmp_path: Path) -> None:
    seen: list[Interaction] = []

    def answer(interaction: Interaction) -> Answer:
        seen.append(interaction)
        return Answer.yes()

    packs = {"phone": Pack(answer_interaction=answer), "zz": Pack(filter_entry=redacting), "bench": BENCH}

    took = ran(host_with(front_ends("phone"), **packs), tmp_path, call("poke", path="hunter2"), "done")

    (asked,) = [event for event in recorded(took.agent) if isinstance(event, Asked)]
    assert (dict(seen[0].arguments), dict(asked.arguments)) == ({"path": "***"}, {"path": "***"})
    assert (bodies, seen[0].hash) == (["hunter2"], asked.hash)


# -- guards of policy packs


async def _hang(call: GuardedCall) -> None:
    await asyncio.sleep(3600)


@pytest.mark.parametrize("guard", [_hang, raising(ValueError("broken"))], ids=["hangs", "raises"])
def test_a_policy_pack_that_raises_or_hangs_denies_within_its_deadline(
    host_with: HostWith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guard: Callable[..., Any]
) -> None:
    """Security case 36."""
    monkeypatch.setattr("pegboard.dispatch.guards.GUARD_SECONDS", 0.02)
    host = host_with(bench=BENCH, policy=Pack(guard_tool_call=guard))

    took = ran(host, tmp_path, call("peek"), "done", allow_writes=True)

    assert [(result.status, result.pack) for result in took.results] == [("denied", "policy")]
    assert (took.end.reason, bodies) == ("completed", [])


# -- observe


def test_an_observer_hears_of_what_the_store_has_already(host_with: HostWith, tmp_path: Path) -> None:
    """DESIGN §3.1: after commit."""
    store = MemoryStore()
    kept: list[bool] = []

    def look(event: Any) -> None:
        reading = store.read(event.session)
        try:
            reading.send(None)
        except StopIteration as read:
            kept.append(event in [entry.event for entry in read.value])

    host = host_with(cellar=Pack(session_store=lambda: store), aa=Pack(observe=look))

    took = ran(host, tmp_path)

    assert kept == [True] * len(recorded(took.agent, all_of_it=True))


def test_an_observer_that_is_disposed_of_hears_no_more(host_with: HostWith, tmp_path: Path) -> None:
    heard: list[str] = []
    host = host_with()

    async def main() -> list[str]:
        agent = await host.create_agent(directory=tmp_path, model=ScriptedModel("one", "two"))
        undo = agent.register(Pack(observe=lambda event: heard.append(event.type)))
        await host.submit(agent, "go").wait()
        before = list(heard)
        undo()
        undo()
        await host.submit(agent, "go").wait()
        return before

    before = in_host(host, main)

    assert (before[-1], heard) == ("run_end", before)


# -- one agent's own implementations (every hook that runs for an agent)


def noting(hook: str, who: str, noted: list[tuple[str, str]]) -> Callable[..., Any]:
    """Return an implementation of a hook that notes the session that it was asked about."""

    async def wrap_model_call(request: ModelRequest, proceed: Any) -> Any:
        noted.append((who, request.session))
        return await proceed(request)

    async def wrap_tool_call(call: ToolRun, proceed: Any) -> Any:
        noted.append((who, call.agent.id))
        return await proceed()

    special: dict[str, Callable[..., Any]] = {
        "wrap_model_call": wrap_model_call,
        "wrap_tool_call": wrap_tool_call,
        "run_starting": lambda run: noted.append((who, run.agent.id)),
        "run_stopping": lambda run: noted.append((who, run.agent.id)),
        "assemble_prompt": lambda agent: noted.append((who, agent.id)),
        "agent_pre_step": lambda step: noted.append((who, step.agent.id)),
        "guard_tool_call": lambda call: noted.append((who, call.agent.id)),
        "tool_post_execute": lambda call: noted.append((who, call.agent.id)),
        "filter_entry": lambda entry: noted.append((who, entry.session)),
        "observe": lambda event: noted.append((who, event.session)),
        "prepare_process": lambda spec: noted.append((who, spec.session)) or Deny("no"),  # type: ignore[func-returns-value]
    }
    return special[hook]


@tool(effect="read")
async def launch(ctx: ToolContext) -> str:
    """Start a process."""
    await ctx.spawn(LISTING)
    return "started"


@pytest.mark.parametrize(
    "hook",
    [
        "run_starting", "assemble_prompt", "agent_pre_step", "wrap_model_call", "guard_tool_call", "wrap_tool_call",
        "tool_post_execute", "prepare_process", "filter_entry", "run_stopping", "observe",
    ],
)  # fmt: skip
def test_what_is_registered_on_an_agent_sees_that_agent_only_and_the_hosts_sees_all(
    host_with: HostWith, tmp_path: Path, hook: str
) -> None:
    """DESIGN §3.1; T23."""
    noted: list[tuple[str, str]] = []
    packs = {"bench": Pack(register_tools=lambda: [launch]), "aa": Pack(**{hook: noting(hook, "host", noted)})}
    host = host_with(**packs)

    async def main() -> list[str]:
        agents = []
        for _ in range(2):
            model = ScriptedModel(call("launch"), "done")
            agents.append(await host.create_agent(directory=tmp_path, model=model))
            agents[-1].register(Pack(**{hook: noting(hook, agents[-1].id, noted)}))
        for agent in agents:
            await host.submit(agent, "go").wait()
        return [agent.id for agent in agents]

    one, two = in_host(host, main)

    mine = {(who, session) for who, session in noted if who != "host"}
    assert mine == {(one, one), (two, two)}
    # A process that was refused by the agent's own is not shown to the host's.
    hosts = {session for who, session in noted if who == "host"}
    assert hosts == (set() if hook == "prepare_process" else {one, two})


def test_a_front_end_on_an_agent_answers_for_that_agent_only(host_with: HostWith, tmp_path: Path) -> None:
    answering = Pack(answer_interaction=lambda: Answer.yes())
    phone = Pack(agent_created=lambda agent: void(agent.register(answering)) if agent.name == "main" else None)
    host = host_with(front_ends("phone"), bench=BENCH, phone=phone)

    async def main() -> list[int]:
        denied = []
        for name in ("main", "other"):
            model = ScriptedModel(call("poke"), "done")
            agent = await host.create_agent(name=name, directory=tmp_path, model=model)
            denied.append((await host.submit(agent, "go").wait()).denied)
        return denied

    assert in_host(host, main) == [0, 1]


def test_nothing_can_be_registered_on_an_agent_that_is_gone(host_with: HostWith, tmp_path: Path) -> None:
    """T4."""
    host = host_with()

    async def main() -> None:
        agent = await host.create_agent(directory=tmp_path)
        await agent.dispose()
        with pytest.raises(Disposed):
            agent.register(Pack(observe=lambda event: None))

    in_host(host, main)


def test_an_implementation_on_an_agent_is_checked_like_a_packs(host_with: HostWith, tmp_path: Path) -> None:
    host = host_with()

    async def main() -> None:
        agent = await host.create_agent(directory=tmp_path)
        with pytest.raises(PackFailure, match="`guard_tool_call` has no argument `kall`; did you mean `call`"):
            agent.register(Pack(guard_tool_call=lambda kall: None))

    in_host(host, main)


# -- hooks that packs bring: register_hookspecs and host.call_hook


class Kitchen:
    """What the pack `cook` lets others do."""

    @hookspec("collect")
    def dishes(self, season: str) -> list[str] | None:
        """What can be cooked."""

    @hookspec("first")
    def knife(self, food: str) -> str | None:
        """What cuts this food."""

    @hookspec("fold")
    def taste(self, who: str, soup: str) -> str | None:
        """Season the soup."""

    @hookspec("in order")
    def opened(self, hour: int) -> None:
        """The kitchen has opened."""

    @hookspec("observers", sync=True)
    def served(self, dish: str) -> None:
        """Something was served."""

    @hookspec("around")
    def oven(self, dish: str, proceed: Any) -> Any:
        """Around baking."""


COOK = Pack(register_hookspecs=lambda: [Kitchen])


def asked_in(host: Host, hook: str, *arguments: object) -> Any:
    """Ask a pack's own hook."""
    return in_host(host, lambda: host.call_hook(hook, *arguments))


def test_a_collect_returns_all_items_with_their_packs(host_with: HostWith) -> None:
    async def many(season: str) -> list[str]:
        return [f"{season} soup", f"{season} pie"]

    host = host_with(
        cook=COOK,
        aa=Pack(dishes=lambda season: (f"{season} cake",)),
        bb=Pack(dishes=many),
        cc=Pack(dishes=lambda: None),
    )

    dishes = asked_in(host, "dishes", "plum")

    assert dishes == [("aa", "plum cake"), ("bb", "plum soup"), ("bb", "plum pie")]


@pytest.mark.parametrize(
    ("dishes", "told"),
    [(raising(ValueError("no")), "ValueError: no"), (lambda: 3, "TypeError: 'int' object is not iterable")],
)
def test_a_pack_that_has_nothing_to_collect_is_reported_and_the_others_are_asked(
    host_with: HostWith, dishes: Callable[..., Any], told: str
) -> None:
    host = host_with(cook=COOK, aa=Pack(dishes=dishes), bb=Pack(dishes=lambda: ["pie"]))

    assert asked_in(host, "dishes", "plum") == [("bb", "pie")]
    assert [(fault.pack, fault.hook, fault.text) for fault in host.faults] == [("aa", "dishes", told)]


def test_a_first_returns_one_answer_with_its_pack_or_none(host_with: HostWith) -> None:
    async def sharp(food: str) -> str | None:
        return "long knife" if food == "bread" else None

    host = host_with(
        cook=COOK, zz=Pack(knife=sharp), aa=Pack(knife=lambda food: "any knife" if food != "egg" else None)
    )

    async def main() -> list[Any]:
        return [await host.call_hook("knife", food) for food in ("bread", "meat", "egg")]

    assert in_host(host, main) == [("zz", "long knife"), ("aa", "any knife"), None]


def test_a_fold_returns_its_last_argument_as_the_packs_left_it(host_with: HostWith) -> None:
    async def salt(who: str, soup: str) -> str:
        return f"{soup}, salted by {who}"

    packs = {"aa": Pack(taste=lambda soup: soup.upper()), "bb": Pack(taste=salt), "cc": Pack(taste=lambda: None)}

    assert asked_in(host_with(cook=COOK, **packs), "taste", "Ada", "soup") == "SOUP, SALTED BY ADA"


@pytest.mark.parametrize(
    ("hook", "implementation", "told"),
    [
        ("taste", raising(ValueError("burnt")), "taste of pack `aa` failed: ValueError: burnt"),
        ("taste", lambda: 3, "taste of pack `aa` failed: it returned int, not str"),
        ("knife", raising_later(ValueError("blunt")), "knife of pack `aa` failed: ValueError: blunt"),
    ],
)
def test_a_fold_or_a_first_that_fails_is_an_error_of_the_caller(
    host_with: HostWith, hook: str, implementation: Callable[..., Any], told: str
) -> None:
    arguments = ("Ada", "soup")[: 2 if hook == "taste" else 1]

    with pytest.raises(HookFailure, match=told):
        asked_in(host_with(cook=COOK, aa=Pack(**{hook: implementation})), hook, *arguments)


@pytest.mark.parametrize("hook", ["opened", "served"])
def test_those_who_only_hear_are_told_in_order_and_their_failures_contained(host_with: HostWith, hook: str) -> None:
    packs = {name: Pack(**{hook: lambda name=name: bodies.append(name)}) for name in ("cc", "aa")}
    host = host_with(cook=COOK, bb=Pack(**{hook: raising(SystemExit(3))}), **packs)

    assert asked_in(host, hook, 7) is None
    assert bodies == ["aa", "cc"]
    assert [(fault.pack, fault.hook, fault.text) for fault in host.faults] == [("bb", hook, "SystemExit: 3")]


def test_a_sync_hook_of_a_pack_contains_an_awaitable_as_a_failure(host_with: HostWith) -> None:
    """DESIGN §3.1: an awaitable where none may be is that implementation's failure."""

    async def late() -> None:
        raise AssertionError("never awaited")

    host = host_with(cook=COOK, aa=Pack(served=lambda: late()))

    asked_in(host, "served", "pie")

    assert [(fault.pack, fault.text) for fault in host.faults] == [("aa", "it is async; this hook must be sync")]


def test_what_an_implementation_registers_belongs_to_its_own_pack_not_to_the_caller(host_with: HostWith) -> None:
    async def opened() -> None:
        await asyncio.sleep(0)
        host.tools.register(peek)

    host: Host = host_with(cook=COOK, aa=Pack(opened=opened))

    async def main() -> list[tuple[str, str]]:
        await host.call_hook("opened", 7)
        return [(offered.tool.name, offered.pack) for offered in host.snapshot().offered]

    assert in_host(host, main) == [("peek", "aa")]


@pytest.mark.parametrize(
    ("hook", "told"),
    [
        ("dishs", "no active pack brings a hook `dishs`; did you mean `dishes`?"),
        ("observe", "no active pack brings a hook `observe`"),
        ("oven", "hook `oven` is of kind `around`, which only the kernel can call"),
    ],
)
def test_only_hooks_that_packs_bring_can_be_called(host_with: HostWith, hook: str, told: str) -> None:
    with pytest.raises(LookupError, match=told.replace("?", r"\?")):
        asked_in(host_with(cook=COOK), hook, "x")


def states(host: Host) -> dict[str, tuple[str, str]]:
    """State and reason of each pack."""
    return {pack.name: (pack.state, pack.reason) for pack in host.packs}


def test_the_hooks_of_a_pack_are_known_whichever_pack_loads_first(host_with: HostWith) -> None:
    assert asked_in(host_with(cook=COOK, aa=Pack(dishes=lambda: ["pie"])), "dishes", "x") == [("aa", "pie")]


def test_an_optional_implementation_does_nothing_where_the_owner_is_off_or_absent(open_host: Any) -> None:
    guest = Pack(dishes=hookimpl(optionalhook=True)(lambda: ["pie"]))

    for packs, config in (({}, ""), ({"cook": COOK}, "[packs.cook]\nenabled = false\n")):
        host = open_host(config, packs={"guest": guest, **packs})
        assert states(host)["guest"] == ("active", "")
        with pytest.raises(LookupError):
            asked_in(host, "dishes", "x")

    host = open_host("[packs.cook]\nenabled = true\n", packs={"guest": guest, "cook": COOK})
    assert asked_in(host, "dishes", "x") == [("guest", "pie")]


def spoon() -> Callable[..., Any]:
    """Return a generator function."""

    def stir() -> Any:
        yield

    return stir


BAD_GUESTS: dict[str, tuple[Callable[..., Any], str]] = {
    "an unknown name": (hookimpl(specname="dishs")(lambda: None), "there is no hook `dishs`; did you mean `dishes`?"),
    "an unknown argument": (
        hookimpl(specname="dishes")(lambda saison: None),
        "`dishes` has no argument `saison`; did you mean `season`? (it gets `season`)",
    ),
    "a wrapper": (
        hookimpl(specname="dishes", wrapper=True)(spoon()),
        "`dishes` is implemented as a wrapper; Pegboard's hooks take plain functions only",
    ),
    "an old wrapper": (
        hookimpl(specname="dishes", hookwrapper=True)(spoon()),
        "`dishes` is implemented as a wrapper; Pegboard's hooks take plain functions only",
    ),
    "a generator": (hookimpl(specname="taste")(spoon()), "`taste` must return its answer, not yield it"),
    "a coroutine": (
        hookimpl(specname="served")(raising_later(ValueError())),
        "`served` must be a plain function, not async",
    ),
}


@pytest.mark.parametrize(("implementation", "told"), BAD_GUESTS.values(), ids=BAD_GUESTS)
def test_an_implementation_that_does_not_fit_another_packs_hook_is_refused_at_load(
    open_host: Any, implementation: Callable[..., Any], told: str
) -> None:
    host = open_host(packs={"cook": COOK, "guest": Pack(visit=implementation)})

    assert states(host) == {"cook": ("active", ""), "guest": ("failed", told)}


@pytest.mark.parametrize("options", [{"wrapper": True}, {"hookwrapper": True}])
def test_a_wrapper_is_refused_also_where_its_hook_may_be_absent(open_host: Any, options: dict[str, Any]) -> None:
    """The owner may come later, and would get a generator for an answer."""
    guest = Pack(visit=hookimpl(specname="dishes", optionalhook=True, **options)(spoon()))

    assert states(open_host(packs={"guest": guest}))["guest"] == (
        "failed", "`dishes` is implemented as a wrapper; Pegboard's hooks take plain functions only",
    )  # fmt: skip


@pytest.mark.parametrize("hook", ["register_tools", "register_models"])
@pytest.mark.parametrize(
    ("register", "told"),
    [
        (lambda: asyncio.sleep(0), "it is async; this hook must be sync"),
        (raising(SystemExit(3)), "SystemExit: 3"),
        (lambda: 3, "TypeError: 'int' object is not iterable"),
    ],
)
def test_a_pack_that_cannot_hand_over_what_it_brings_is_inactive_with_its_reason(
    open_host: Any, hook: str, register: Callable[..., Any], told: str
) -> None:
    host = open_host(packs={"good": BENCH, "guest": Pack(**{hook: lambda: register()})})

    assert states(host) == {"good": ("active", ""), "guest": ("failed", f"{hook} of pack `guest` failed: {told}")}


class Observing:
    """Claims a name of the kernel's."""

    @hookspec("observers")
    def observe(self, event: object) -> None:
        """Taken."""


class Unmarked:
    """Has nothing to hand over."""

    def dishes(self) -> None:
        """Not marked."""


BAD_SPECS: dict[str, tuple[Callable[..., Any], str]] = {
    "a kernel's name": (lambda: [Observing], "conflict: hook `observe` belongs to `pegboard`"),
    "another pack's name": (lambda: [Kitchen], "conflict: hook `dishes` belongs to `cook`"),
    "nothing marked": (lambda: [Unmarked], "is no class with methods marked `@hookspec(...)`"),
    "no class": (lambda: [Kitchen()], "is no class with methods marked `@hookspec(...)`"),
    "raises": (raising(ValueError("no")), "register_hookspecs of pack `guest` failed: ValueError: no"),
    "no list": (lambda: 3, "register_hookspecs of pack `guest` failed: TypeError: 'int' object is not iterable"),
    "awaitable": (
        lambda: asyncio.sleep(0),
        "register_hookspecs of pack `guest` failed: it is async; this hook must be sync",
    ),
}


@pytest.mark.parametrize(("register_hookspecs", "told"), BAD_SPECS.values(), ids=BAD_SPECS)
def test_a_pack_with_bad_hooks_of_its_own_is_failed_and_the_others_keep_theirs(
    open_host: Any, register_hookspecs: Callable[..., Any], told: str
) -> None:
    packs = {"cook": COOK, "guest": Pack(register_hookspecs=register_hookspecs, register_tools=lambda: [peek])}
    host = open_host(packs=packs)

    assert states(host)["cook"] == ("active", "")
    assert states(host)["guest"][0] == "failed"
    assert told in states(host)["guest"][1]
    assert (host.hooks()["dishes"], host.hooks()["observe"], host.snapshot().names) == ("cook", "pegboard", ())


def test_hooks_may_be_handed_over_by_a_method_of_any_name(host_with: HostWith) -> None:
    class Cook:
        @implements(hooks.register_hookspecs)
        def what_we_bring(self) -> list[type]:
            return [Kitchen]

    assert host_with(cook=Cook).hooks()["dishes"] == "cook"


def test_unloading_a_pack_takes_its_hooks_away_and_loading_it_brings_them_back(host_with: HostWith) -> None:
    guest = Pack(dishes=hookimpl(optionalhook=True)(lambda: ["pie"]))
    host = host_with(cook=COOK, guest=guest)

    async def main() -> list[Any]:
        seen = [await host.call_hook("dishes", "x")]
        await host.unload_pack("cook")
        seen.append("dishes" in host.hooks())
        with pytest.raises(LookupError, match="no active pack brings a hook `dishes`"):
            await host.call_hook("dishes", "x")
        await host.load_pack("cook", COOK)
        return [*seen, await host.call_hook("dishes", "x")]

    assert in_host(host, main) == [[("guest", "pie")], False, [("guest", "pie")]]


def test_unloading_a_pack_takes_its_implementations_away_on_agents_too(host_with: HostWith, tmp_path: Path) -> None:
    on_agent = Pack(observe=lambda event: bodies.append("agent"))
    pack = Pack(observe=lambda event: bodies.append("host"), agent_created=lambda agent: void(agent.register(on_agent)))
    host = host_with(aa=pack)

    async def main() -> set[str]:
        agent = await host.create_agent(directory=tmp_path, model=ScriptedModel("one", "two"))
        await host.submit(agent, "go").wait()
        heard = set(bodies)
        bodies.clear()
        await host.unload_pack("aa")
        await host.submit(agent, "go").wait()
        return heard

    assert (in_host(host, main), bodies) == ({"agent", "host"}, [])


def test_a_pack_that_implements_a_hook_whose_owner_was_unloaded_cannot_be_loaded(host_with: HostWith) -> None:
    host = host_with(cook=COOK)

    async def main() -> None:
        await host.unload_pack("cook")
        with pytest.raises(PegboardError, match="pack `guest` is failed: there is no hook `dishes`"):
            await host.load_pack("guest", Pack(dishes=lambda: None))

    in_host(host, main)


def test_a_pack_that_was_refused_at_load_leaves_no_hook_behind(host_with: HostWith) -> None:
    host = host_with()
    bad = Pack(register_hookspecs=lambda: [Kitchen], guard_tool_call=lambda kall: None)

    async def main() -> None:
        with pytest.raises(PegboardError, match="`guard_tool_call` has no argument `kall`"):
            await host.load_pack("bad", bad)
        await host.load_pack("cook", COOK)

    in_host(host, main)

    assert host.hooks().get("dishes") == "cook"
