"""A pause that outlives its process: asked in one, answered in another, resumed in a third; some of them are killed."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pegboard import (
    Agent,
    Answer,
    Entry,
    Event,
    Host,
    NeedsApproval,
    Run,
    RunEnd,
    Tool,
    ToolContext,
    ToolResult,
    UsageError,
    folds,
    hooks,
    implements,
    tool,
)
from pegboard.config.places import Places
from pegboard.events import Answered, Called, Returned, RunStart, StepEnd, StepStart
from pegboard.testing import PackFolder, ScriptedModel, call
from pegboard.testing.jsonl import JsonlStore

pytestmark = pytest.mark.skipif(os.name == "nt", reason="processes are killed with SIGKILL")

# The model does what its task says: replies are divided by ` / `, calls by `, `, a call is a tool and a word.
WORK = """
import json, os, signal
from dataclasses import replace
from pegboard import (
    Ask, AssistantMessage, Deny, Finish, ModelProvider, NeedsAnswer, NeedsApproval, TextDelta, ToolCall, ToolContext,
    ToolResult, UserMessage, WaitsForSessions, hooks, implements, tool,
)

def did(ctx, what):
    with open(ctx.directory / "did", "a") as file:
        file.write(what + "\\n")

def doing(tool_name):
    @tool(name=tool_name, effect="read")
    async def body(ctx: ToolContext, word: str = "") -> str:
        '''Write down what was done.'''
        did(ctx, f"{tool_name} {word}".strip())
        return f"{tool_name} {word} was done"
    return body

@tool(effect="read")
async def careful(ctx: ToolContext, word: str = "") -> str:
    '''Ask before it is done.'''
    if not ctx.approved:
        raise NeedsApproval("it can't be undone")
    did(ctx, f"careful {word}".strip())
    return "it was done with care"

@tool(effect="read")
async def which(ctx: ToolContext) -> str:
    '''Ask which one.'''
    if not ctx.answer:
        raise NeedsAnswer("Which one?", ("left", "right"))
    did(ctx, f"which {ctx.answer}")
    return f"the {ctx.answer} one"

@tool(effect="read")
async def die(ctx: ToolContext) -> str:
    '''Kill the process that runs this.'''
    did(ctx, "die")
    os.kill(os.getpid(), signal.SIGKILL)

@tool(effect="read")
async def delegate(ctx: ToolContext, word: str) -> str:
    '''Let a child do it.'''
    did(ctx, "delegate")
    child = await Pack.host.create_agent(parent=agent_of(ctx))
    return ended(child, await Pack.host.submit(child, word, on_ask=ctx.on_ask).wait())

async def taken_up(ctx, job):
    session = await Pack.host.open_session(job)
    child = await Pack.host.create_agent(session=session, parent=agent_of(ctx))
    return ended(child, await (await Pack.host.resume(child)).wait())

def agent_of(ctx):
    return next(agent for agent in Pack.host.agents if agent.id == ctx.session)

def ended(child, end):
    if end.reason == "paused":
        raise WaitsForSessions(child.id, (child.id,))
    return f"the child said: {end.text}"

class Model:
    label = "does its task"

    async def stream(self, request):
        messages = list(request.messages)
        place = max(number for number, message in enumerate(messages) if isinstance(message, UserMessage))
        replies = sum(isinstance(message, AssistantMessage) for message in messages[place:])
        lines = messages[place].text.split(" / ")
        if replies < len(lines):
            for number, wanted in enumerate(lines[replies].split(", ")):
                name, _, word = wanted.partition(" ")
                arguments = json.dumps({"word": word} if word else {})
                yield ToolCall(f"{request.run}-{replies}-{number}", name, arguments)
        else:
            told = [message.content for message in messages[place:] if isinstance(message, ToolResult)]
            yield TextDelta("; ".join(told))
        yield Finish()

class Pack:
    @implements(hooks.register_tools)
    def register_tools(self):
        plain = [doing("ask"), doing("look"), doing("deny")]
        return [*plain, careful, which, die, replace(delegate, resume=taken_up)]

    @implements(hooks.host_started)
    def host_started(self, host):
        Pack.host = host

    @implements(hooks.register_models)
    def register_models(self):
        return [ModelProvider("task", "does its task", lambda argument: Model())]

    @implements(hooks.guard_tool_call)
    def guard_tool_call(self, call):
        if call.name == "ask" or call.name == "die" and "ask" in os.environ.get("DIE", ""):
            return Ask("is it wanted?")
        return Deny("never") if call.name == "deny" else None
"""

# Pauses, says which session it is, and lives until it is killed or told to go on.
ALIVE = """
import asyncio, sys
from pathlib import Path
from pegboard import Answer, Host, PegboardError

async def main():
    async with Host.open(environ={}) as host:
        agent = await host.create_agent(directory=Path.cwd())
        end = await host.submit(agent, sys.argv[1], on_ask="pause").wait()
        print(agent.id, end.reason, flush=True)
        for line in sys.stdin:
            try:
                if line.startswith("answer"):
                    run = await host.answer(agent.id, int(line.split()[1]), Answer.yes())
                else:
                    run = await host.resume(agent)
                end = await run.wait() if run else None
                print("ended", end.reason if end else None, flush=True)
            except PegboardError as error:
                print("refused", error, flush=True)

asyncio.run(main())
"""

Pegboard = Callable[..., subprocess.CompletedProcess[str]]
OpenHost = Callable[..., Host]


class Place:
    """A folder to work in, with the reference store and the pack of this file installed."""

    def __init__(self, folder: Path, pegboard: Pegboard, open_host: OpenHost) -> None:
        self.folder = folder
        self.pegboard = pegboard
        self._open_host = open_host

    @property
    def did(self) -> list[str]:
        """What bodies did so far, in whatever process."""
        file = self.folder / "did"
        return file.read_text("utf-8").splitlines() if file.exists() else []

    def pause(self, task: str) -> str:
        """Run a task in a process of its own until it pauses; returns the session."""
        ended = self.pegboard("run", "--on-ask", "pause", task)
        assert ended.returncode == 3, ended.stdout + ended.stderr
        return session_of(ended.stdout + ended.stderr)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Begin a command without waiting for it."""
        command = [sys.executable, "-m", "pegboard", *arguments]
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def answer(self, session: str, number: int, answer: str) -> "subprocess.CompletedProcess[str]":
        """Answer in a process of its own."""
        return self.pegboard("answer", session, str(number), answer)

    def resume(self, session: str) -> "subprocess.CompletedProcess[str]":
        """Resume in a process of its own."""
        return self.pegboard("resume", session)

    def entries(self, session: str) -> Sequence[Entry]:
        """What is recorded."""

        async def read() -> Sequence[Entry]:
            async with self._open_host() as host:
                return await host.entries(session)

        return asyncio.run(read())

    def go_on(self, session: str, task: str = "look") -> str:
        """Give the session something new to do, here; returns how that ended."""

        async def drive() -> str:
            async with self._open_host() as host:
                agent = await host.create_agent(session=await host.open_session(session))
                return (await agent.followup(task).wait()).reason

        return asyncio.run(drive())


def session_of(told: str) -> str:
    """Find the session in what a run says."""
    return told.partition("session ")[2].split()[0].strip("·,.`")


@pytest.fixture
def place(pegboard_process: Pegboard, home: Any, pack_folder: PackFolder, tmp_path: Path, open_host: OpenHost) -> Place:
    """Where everything happens."""
    pack_folder.add("jsonl", reference="pegboard.testing.jsonl:JsonlPack")
    pack_folder.add("work", WORK)
    home.config('[agents.main]\nmodel = "task"\n')
    return Place(tmp_path / "work", pegboard_process, open_host)


def results(entries: Sequence[Entry]) -> list[ToolResult]:
    """The results in the transcript."""
    return [message for message in folds.transcript(entries) if isinstance(message, ToolResult)]


def complete(entries: Sequence[Entry]) -> None:
    """Every call has one result, every step and every run one end (rule 10)."""

    def count(kind: type[Event], *names: str) -> Counter[tuple[object, ...]]:
        of = [entry.event for entry in entries if isinstance(entry.event, kind)]
        return Counter(tuple(getattr(event, name) for name in names) for event in of)

    assert count(Called, "id") == count(Returned, "id")
    assert max(count(Called, "id").values(), default=1) == 1
    assert count(StepStart, "run", "step") == count(StepEnd, "run", "step")
    assert count(RunStart, "run") == count(RunEnd, "run")
    assert max(count(RunEnd, "run").values(), default=1) == 1
    assert [entry.id for entry in entries] == list(range(1, len(entries) + 1))


def kill(process: "subprocess.Popen[str]") -> None:
    """End a process as a power cut would."""
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)


def test_asked_answered_and_resumed_in_three_processes(place: Place) -> None:
    """Case 33."""
    session = place.pause("ask 1, look 2, which")
    assert place.did == ["look 2"]

    assert place.answer(session, 1, "y").returncode == 0
    assert place.answer(session, 2, "left").returncode == 0
    assert place.did == ["look 2"]
    ended = place.resume(session)

    assert ended.returncode == 0, ended.stderr
    assert "ask 1 was done; look 2 was done; the left one" in ended.stdout
    assert place.did == ["look 2", "ask 1", "which left"]
    entries = place.entries(session)
    complete(entries)
    assert [run.reason for run in folds.runs(entries).values()] == ["paused", "completed"]
    assert [result.name for result in results(entries)] == ["ask", "look", "which"]


def test_a_second_answer_from_another_process_is_refused(place: Place) -> None:
    """Case 33."""
    session = place.pause("ask 1")
    assert place.answer(session, 1, "n").returncode == 0

    assert place.answer(session, 1, "y").returncode != 0
    assert place.resume(session).returncode == 0
    assert place.answer(session, 1, "y").returncode != 0

    assert place.did == []
    assert [result.status for result in results(place.entries(session))] == ["denied"]


def test_several_pauses_each_in_a_process_of_its_own(place: Place) -> None:
    session = place.pause("ask 1 / careful 2 / look 3")
    place.answer(session, 1, "y")
    assert place.resume(session).returncode == 3
    assert place.answer(session, 2, "y").returncode == 0

    assert place.resume(session).returncode == 0

    assert place.did == ["ask 1", "careful 2", "look 3"]
    complete(place.entries(session))


def test_a_session_is_resumed_once(place: Place) -> None:
    session = place.pause("ask 1")
    place.answer(session, 1, "y")
    assert place.resume(session).returncode == 0

    again = place.resume(session)

    assert again.returncode not in (0, 3)
    assert (place.did, len(folds.runs(place.entries(session)))) == (["ask 1"], 2)


def test_a_childs_question_is_answered_and_taken_up_in_other_processes(place: Place) -> None:
    """DESIGN §3.3: the delegating body is never called again, the child goes on in its own session."""
    session = place.pause("delegate ask inner / look")
    (file,) = [path for path in (place.folder.parent / "home").rglob("*.jsonl") if path.stem != session]
    child = file.stem

    assert place.answer(session, 1, "y").returncode != 0
    told = place.answer(child, 1, "y")
    assert told.returncode == 0, told.stderr
    assert f"pegboard resume {session}" in told.stdout + told.stderr
    assert place.resume(child).returncode not in (0, 3)
    ended = place.resume(session)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert place.did == ["delegate", "ask inner", "look"]
    assert "the child said: ask inner was done" in ended.stdout
    for one in (session, child):
        entries = place.entries(one)
        complete(entries)
        assert [run.reason for run in folds.runs(entries).values()] == ["paused", "completed"]


@pytest.fixture
def alive(place: Place) -> "Any":
    """Begin a process that pauses and lives on; it is killed in the end."""
    begun: list[subprocess.Popen[str]] = []

    def begin(task: str) -> "tuple[subprocess.Popen[str], str]":
        command = [sys.executable, "-c", ALIVE, task]
        process = subprocess.Popen(
            command, cwd=place.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        begun.append(process)
        assert process.stdout is not None
        session, reason = process.stdout.readline().split()
        assert reason == "paused"
        return process, session

    yield begin
    for process in begun:
        process.kill()
        process.communicate(timeout=60)


def tell(process: "subprocess.Popen[str]", line: str) -> str:
    """Let the living process do something; returns what came of it."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def test_a_process_killed_while_paused_loses_nothing(place: Place, alive: Any) -> None:
    process, session = alive("ask 1, look 2")
    kill(process)

    assert place.answer(session, 1, "y").returncode == 0
    assert place.resume(session).returncode == 0

    assert place.did == ["look 2", "ask 1"]
    complete(place.entries(session))


def test_a_paused_process_need_not_die_for_another_to_go_on(place: Place, alive: Any) -> None:
    """The paused run has ended: its driver is nobody's obstacle. The one that lived on notices, and does nothing."""
    process, session = alive("ask 1")
    assert place.answer(session, 1, "y").returncode == 0
    assert place.resume(session).returncode == 0

    assert tell(process, "answer 1").startswith("refused")
    told = tell(process, "resume")

    assert told.startswith("refused") or told == "ended error"
    assert place.did == ["ask 1"]
    complete(place.entries(session))


def test_the_process_that_paused_resumes_what_another_one_answered(place: Place, alive: Any) -> None:
    process, session = alive("ask 1")
    assert place.answer(session, 1, "y").returncode == 0

    told = tell(process, "resume")

    assert told == "ended completed" or told.startswith("refused")
    if told.startswith("refused"):  # it has to open the session again to know of the answer
        assert place.did == []
        assert place.resume(session).returncode == 0
    assert place.did == ["ask 1"]
    complete(place.entries(session))


def test_an_answer_of_the_process_that_paused_is_refused_when_another_one_was_first(place: Place, alive: Any) -> None:
    process, session = alive("ask 1, ask 2")
    assert place.answer(session, 1, "n").returncode == 0

    assert tell(process, "answer 1").startswith("refused")

    assert [found.answer is not None for found in folds.interactions(place.entries(session)).values()] == [True, False]


def test_killed_in_the_middle_of_the_resumed_batch(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spec TPS 4.4: what was under way is not known, what comes after it is not run, and no approval is used again."""
    monkeypatch.setenv("DIE", "ask")
    session = place.pause("ask 1, die, ask 2, look 3")
    for number in (1, 2, 3):
        assert place.answer(session, number, "y").returncode == 0
    assert place.resume(session).returncode == -signal.SIGKILL
    assert place.did == ["look 3", "ask 1", "die"]

    again = place.resume(session)
    assert again.returncode not in (0, 3)
    assert place.go_on(session) == "completed"

    assert place.did == ["look 3", "ask 1", "die", "look"]
    entries = place.entries(session)
    complete(entries)
    assert [run.reason for run in folds.runs(entries).values()] == ["paused", "interrupted", "completed"]
    told = [(result.name, result.code) for result in results(entries)]
    assert told[:4] == [("ask", None), ("die", "INDETERMINATE"), ("ask", "ABORTED_BEFORE_DISPATCH"), ("look", None)]


def test_killed_in_the_batch_that_asked(place: Place) -> None:
    """The run never paused: nothing of it is open, and the question gets no answer any more."""
    ended = place.pegboard("run", "--on-ask", "pause", "ask 1, die, look 2")
    assert ended.returncode == -signal.SIGKILL
    (session,) = [path.stem for path in (place.folder.parent / "home").rglob("*.jsonl")]

    assert place.answer(session, 1, "y").returncode != 0
    assert place.go_on(session) == "completed"

    entries = place.entries(session)
    complete(entries)
    assert [run.reason for run in folds.runs(entries).values()] == ["interrupted", "completed"]
    codes = [result.code for result in results(entries)][:3]
    assert codes == ["ABORTED_BEFORE_DISPATCH", "INDETERMINATE", "ABORTED_BEFORE_DISPATCH"]
    assert place.did == ["die", "look"]


@pytest.mark.parametrize("_attempt", range(3))
def test_of_two_processes_that_answer_at_once_one_wins(place: Place, _attempt: int) -> None:
    session = place.pause("ask 1")

    both = [place.start("answer", session, "1", said) for said in ("y", "n")]
    told = [process.communicate(timeout=60) for process in both]

    codes = [process.returncode for process in both]
    assert codes.count(0) == 1, told
    assert "Traceback" not in "".join(text for pair in told for text in pair)
    assert place.resume(session).returncode == 0
    assert place.did == (["ask 1"] if codes[0] == 0 else [])
    complete(place.entries(session))


@pytest.mark.parametrize("_attempt", range(3))
def test_of_two_processes_that_resume_at_once_one_wins(place: Place, _attempt: int) -> None:
    session = place.pause("ask 1, careful 2")
    for number in (1, 2):
        place.answer(session, number, "y")

    both = [place.start("resume", session) for _ in range(2)]
    told = [process.communicate(timeout=60) for process in both]

    assert sorted(process.returncode == 0 for process in both) == [False, True], told
    assert place.did == ["ask 1", "careful 2"]
    entries = place.entries(session)
    complete(entries)
    assert [run.reason for run in folds.runs(entries).values()] == ["paused", "completed"]


class Between(JsonlStore):
    """The reference store, in which another process does something right after the n-th reading of this one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.reads_left = 0
        self.then: Callable[[], Awaitable[object]] | None = None

    @implements(hooks.session_store)
    def session_store(self, host: Host) -> "Between":
        return self

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> Sequence[Entry]:
        """Read, and let the other one be quicker."""
        found = await super().read(session, after, limit)
        self.reads_left -= 1
        if self.reads_left == 0 and self.then is not None:
            await self.then()
        return found


class Two:
    """Two processes, as far as the record can tell, and a session that paused in the first one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Between(folder)
        self.first, self.second = self._open(self.store), self._open(Between(folder))
        self.begun, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.agent: Agent
        self.run: Run

    def _open(self, store: Between) -> Host:
        places = Places(self.folder / "no.toml", self.folder / "state")
        return Host.open(environ={}, distributions=[], packs={"store": store}, places=places)

    @property
    def did(self) -> list[str]:
        """What bodies did."""
        file = self.folder / "did"
        return file.read_text("utf-8").splitlines() if file.exists() else []

    def touchy(self) -> Tool:
        """A tool that asks first, and works until a test lets it end."""

        @tool(effect="read")
        async def touchy(ctx: ToolContext) -> str:
            """Ask first."""
            if not ctx.approved:
                raise NeedsApproval("it can't be undone")
            (ctx.directory / "did").write_text("\n".join([*self.did, "touchy"]), "utf-8")
            self.begun.set()
            await self.gate.wait()
            return "it was done"

        return touchy

    async def pause(self) -> None:
        """Let the first one pause."""
        for host in (self.first, self.second):
            host.tools.register(self.touchy())
        model = ScriptedModel(call("touchy"), "Done.", "New.", "New.")
        self.agent = await self.first.create_agent(directory=self.folder, model=model)
        self.run = self.first.submit(self.agent, "Go on.", on_ask="pause")
        assert (await self.run.wait()).reason == "paused"

    async def resume_in_the_second(self) -> Run:
        """Answer and resume in the other one."""
        assert await self.second.answer(self.agent.id, 1, Answer.yes()) is None
        session = await self.second.open_session(self.agent.id)
        agent = await self.second.create_agent(session=session, model=ScriptedModel("Done elsewhere."))
        return await self.second.resume(agent)

    async def events(self) -> list[Event]:
        """The record."""
        return [entry.event for entry in await self.second.entries(self.agent.id)]


def with_two(folder: Path, test: Callable[[Two], Awaitable[None]]) -> None:
    """Run a test with two hosts and a session that has paused."""

    async def main() -> None:
        two = Two(folder)
        async with asyncio.timeout(30), two.first, two.second:
            await two.pause()
            await test(two)

    asyncio.run(main())


@pytest.mark.parametrize("lives", [True, False])
@pytest.mark.parametrize("read", range(1, 9))
def test_wherever_another_process_is_quicker_with_its_answer_one_counts(tmp_path: Path, read: int, lives: bool) -> None:
    """Case 33: between any two looks at the record; whoever is told that an answer counts, its answer counts."""

    async def answer(host: Host, session: str, said: Answer) -> bool:
        try:
            run = await host.answer(session, 1, said)
            return run is None or (await run.wait()).reason == "completed"
        except UsageError:
            return False

    async def test(two: Two) -> None:
        if not lives:
            await two.first.dispose(two.agent)
        counted: list[bool] = []

        async def quicker() -> None:
            counted.append(await answer(two.second, two.agent.id, Answer.no()))

        two.store.reads_left, two.store.then = read, quicker
        counted.append(await answer(two.first, two.agent.id, Answer.yes()))
        answered = [event.approved for event in await two.events() if isinstance(event, Answered)]
        assert (len(answered), counted.count(True)) == (1, 1)
        assert two.did == ["touchy"] * (answered == [True] and lives)

    with_two(tmp_path, test)


@pytest.mark.parametrize("read", range(1, 9))
def test_wherever_another_process_is_quicker_to_resume_the_body_runs_once(tmp_path: Path, read: int) -> None:
    """Rule 8."""

    async def test(two: Two) -> None:
        await two.first.dispose(two.agent)
        await two.first.answer(two.agent.id, 1, Answer.yes())
        session = await two.first.open_session(two.agent.id)
        agent = await two.first.create_agent(session=session, model=ScriptedModel("Done."))

        async def resume_only() -> None:
            opened = await two.second.open_session(two.agent.id)
            other = await two.second.create_agent(session=opened, model=ScriptedModel("Done elsewhere."))
            await (await two.second.resume(other)).wait()

        two.store.reads_left, two.store.then = read, resume_only
        with suppress(UsageError):
            await (await two.first.resume(agent)).wait()
        assert two.did == ["touchy"]
        complete(await two.second.entries(two.agent.id))

    with_two(tmp_path, test)


def test_what_was_queued_has_an_end_when_another_process_has_ended_the_turn(tmp_path: Path) -> None:
    """The one that paused learns of it as soon as it looks; nothing that it was given waits for ever."""

    async def test(two: Two) -> None:
        queued = two.agent.followup("What next?")
        assert (await (await two.resume_in_the_second()).wait()).text == "Done elsewhere."

        with pytest.raises(UsageError):
            await two.first.resume(two.agent)

        assert (await queued.wait()).reason in ("completed", "error")
        assert two.did == ["touchy"]
        complete(await two.second.entries(two.agent.id))

    with_two(tmp_path, test)


def test_whoever_waits_for_the_turn_is_not_told_the_end_of_another_one(tmp_path: Path) -> None:
    async def test(two: Two) -> None:
        whole = asyncio.ensure_future(two.run.finish())
        await (await two.resume_in_the_second()).wait()
        with pytest.raises(UsageError):
            await two.first.resume(two.agent)

        other = await two.agent.followup("Something new.").wait()
        await asyncio.sleep(0)
        assert not whole.done() or (await whole).run != other.run
        whole.cancel()

    with_two(tmp_path, test)


def test_while_another_process_resumes_nothing_else_begins(tmp_path: Path) -> None:
    """DESIGN §3.3: a session has one driver; another one takes over only when that is gone."""

    async def test(two: Two) -> None:
        two.gate.clear()
        resumed = await two.resume_in_the_second()
        await two.begun.wait()

        with pytest.raises(UsageError):
            await two.first.resume(two.agent)
        other = two.agent.followup("Something new.")
        for _ in range(50):
            await asyncio.sleep(0)
        two.gate.set()

        assert (await resumed.wait()).text == "Done elsewhere."
        other.cancel("enough")
        await other.wait()
        assert two.did == ["touchy"]
        complete(await two.second.entries(two.agent.id))

    with_two(tmp_path, test)


def test_an_answer_after_the_tool_changed_runs_nothing(place: Place, pack_folder: PackFolder) -> None:
    """Case 32: the approval is bound to the definition, also when another version of the pack is there by then."""
    session = place.pause("ask 1")
    module = pack_folder.path / "sample_work.py"
    module.write_text(WORK.replace("Write down what was done.", "Write down what was done, then delete it."), "utf-8")

    place.answer(session, 1, "y")
    ended = place.resume(session)

    assert (ended.returncode, place.did) == (0, [])
    assert [result.code for result in results(place.entries(session))] == ["STALE_APPROVAL"]


def test_an_answer_after_the_pack_went_away_runs_nothing(place: Place) -> None:
    session = place.pause("ask 1")
    place.answer(session, 1, "y")

    ended = place.pegboard("--disable", "work", "resume", session)

    assert ended.returncode != 0
    assert "Traceback" not in ended.stderr
    assert place.did == []


def test_arguments_that_were_changed_in_the_record_are_not_run(place: Place) -> None:
    """Case 32: what a person saw is what runs."""
    session = place.pause("ask 1")
    (file,) = (place.folder.parent / "home").rglob("*.jsonl")
    text = file.read_text("utf-8")
    changed = text.replace('{\\"word\\": \\"1\\"}', '{\\"word\\": \\"2\\"}')
    assert changed != text
    file.write_text(changed, "utf-8")

    place.answer(session, 1, "y")
    ended = place.resume(session)

    assert place.did in ([], ["ask 1"]), ended
    if not place.did:
        assert [result.code for result in results(place.entries(session))] == ["STALE_APPROVAL"]


def test_the_caps_count_across_processes(place: Place, home: Any) -> None:
    """B22."""
    home.config('[agents.main]\nmodel = "task"\nlimits = { tool_calls = 2 }\n')
    session = place.pause("ask 1 / look 2 / look 3")
    place.answer(session, 1, "y")

    ended = place.resume(session)

    assert (ended.returncode, place.did) == (1, ["ask 1", "look 2"])
    assert [result.code for result in results(place.entries(session))] == [None, None, "LIMIT"]
