"""Whatever is asked, answered, cancelled, restarted or cut off, in whatever order: no effect twice, none unapproved."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pegboard import (
    Agent,
    Answer,
    Ask,
    AssistantMessage,
    Deny,
    Entry,
    Event,
    Finish,
    GuardedCall,
    Host,
    Interaction,
    ModelEvent,
    ModelRequest,
    NeedsAnswer,
    NeedsApproval,
    PegboardError,
    Run,
    RunEnd,
    TextDelta,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    UsageError,
    UserMessage,
    folds,
    hooks,
    implements,
    tool,
)
from pegboard.config.places import Places
from pegboard.events import Answered, Asked, Called, Returned, RunStart, StepEnd, StepStart
from pegboard.record.process_identity import this_driver
from pegboard.testing.jsonl import JsonlStore

# What a call may be: plain, parallel, asked about by a guard (by phase), by its body, by both, denied, failing.
KINDS = ("plain", "parallel", "ask", "late", "person", "careful", "careful_parallel", "both", "which", "deny", "broken")
MUST_BE_ASKED = frozenset({"ask", "late", "person", "careful", "careful_parallel", "both", "which"})
Plan = Sequence[Sequence[str]]
Op = tuple[str, int]


async def turns(number: int) -> None:
    """Let the others go on for so many turns of the loop."""
    for _ in range(number):
        await asyncio.sleep(0)


class PowerCut(PegboardError):
    """The store is gone."""


class Cut(JsonlStore):
    """The reference store, whose power is cut with the `left`-th append: before it reaches the disk, or after."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.left: int | None = None
        self.after = self.dead = False

    async def append(self, session: str, entries: Sequence[Entry], *, expect: int) -> None:
        """Write, unless the power is off; whoever appends when it goes never hears of it."""
        await asyncio.sleep(0)
        if self.left is not None:
            self.left -= 1
            if self.left <= 0 and not self.dead:
                self.dead = True
                if self.after:
                    await super().append(session, entries, expect=expect)
        if self.dead:
            raise PowerCut("the power is off")
        await super().append(session, entries, expect=expect)

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> Sequence[Entry]:
        """Read, unless the power is off."""
        if self.dead:
            raise PowerCut("the power is off")
        return await super().read(session, after, limit)


class Work:
    """Tools of every kind, their guard, and the store; it keeps what took effect, and with which hash.

    In another `version` every tool has another description.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Cut(folder)
        self.effects: Counter[str] = Counter()
        self.version = 1
        self.guarded: dict[str, str] = {}
        self.hashes: dict[str, str] = {}

    @implements(hooks.session_store)
    def session_store(self, host: Host) -> Cut:
        return self.store

    @implements(hooks.guard_tool_call)
    async def guard(self, call: GuardedCall) -> Ask | Deny | None:
        await asyncio.sleep(0)
        self.guarded[str(call.arguments["word"])] = call.hash
        match call.name:
            case "ask" | "both":
                return Ask("is it wanted?")
            case "late":
                return Ask("is it wanted?") if call.phase == "dispatch" else None
            case "person":
                return Ask("a person decides", person=True)
            case "deny":
                return Deny("never")
        return None

    @implements(hooks.register_tools)
    def tools(self) -> list[Tool]:
        return [self.tool(kind) for kind in KINDS]

    def tool(self, kind: str) -> Tool:
        """Return the tool of a kind; all take a word that is theirs alone."""
        parallel = "parallel" in kind

        @tool(name=kind, effect="read", concurrency="parallel" if parallel else "exclusive")
        async def body(ctx: ToolContext, word: str) -> str:
            """Take effect, once."""
            await turns(len(word) % 3)
            if ("careful" in kind or kind == "both") and not ctx.approved:
                raise NeedsApproval("it can't be undone")
            if kind == "which" and not ctx.answer:
                raise NeedsAnswer("Which one?")
            self.effects[word] += 1
            self.hashes[word] = self.guarded[word]
            await turns(2)
            if kind == "broken":
                raise ValueError("it is broken")
            return f"{word} was done"

        return replace(body, description=f"Version {self.version}")


class Planned:
    """A model that does what its input says: a JSON list of replies, each a list of kinds of calls."""

    label = "planned"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the reply that comes after those in the transcript; it has no other memory."""
        messages = list(request.messages)
        place = max(number for number, message in enumerate(messages) if isinstance(message, UserMessage))
        said = messages[place]
        assert isinstance(said, UserMessage)
        plan: Plan = json.loads(said.text)
        replies = sum(isinstance(message, AssistantMessage) for message in messages[place:])
        await turns(1)
        if replies < len(plan):
            for number, kind in enumerate(plan[replies]):
                identity = f"{place}-{replies}-{number}"
                yield ToolCall(identity, kind, json.dumps({"word": f"{kind} {identity}"}))
        else:
            yield TextDelta("Done.")
        yield Finish()


class TurnRecord:
    """A session over hosts that come and go, and everything that may be done to it."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder = folder
        self.plan = plan
        self.work = Work(folder)
        self.session = ""
        self.cancel_next: int | None = None
        self.host: Host
        self.agent: Agent

    # -- hosts come and go

    async def start(self) -> None:
        """Open a host, and the session if there is one; resume what has all its answers."""
        places = Places(self.folder / "no.toml", self.folder / "state")
        packs = {"work": self.work}
        self.host = Host.open(environ={}, distributions=[], packs=packs, policy=["work"], places=places)
        await self.host.start()
        known = {head.id for head in await self.work.store.sessions()}
        session = await self.host.open_session(self.session) if self.session in known else None
        self.agent = await self.host.create_agent(session=session, directory=self.folder, model=Planned())
        self.session = self.agent.id

    async def restart(self, number: int = 0) -> None:
        """End one process and begin another one, now and then with other versions of the tools."""
        await self.host.stop()
        self.work.version += number % 5 == 4
        await self.start()

    async def recover(self) -> None:
        """The power comes back: what the last process left has to do."""
        await self.host.stop()
        for file in (self.folder / "sessions").glob("*.jsonl"):
            file.write_text(
                file.read_text("utf-8").replace(json.dumps(this_driver()), '"a process that is gone"'), "utf-8"
            )
        self.work.store.dead, self.work.store.left = False, None
        await self.start()

    # -- what may be done

    async def do(self, op: Op) -> None:
        """Do one thing; then look whether there is still power."""
        kind, number = op
        try:
            await self.OPS[kind](self, number)
        except PowerCut:
            assert self.work.store.dead
        except UsageError:
            raise
        except PegboardError:
            assert self.work.store.dead
        if self.work.store.dead:
            await self.recover()

    async def submit(self, number: int) -> None:
        """Give the agent its plan."""
        await self.follow(
            self.host.submit(self.agent, json.dumps(self.plan), on_ask="pause", allow_writes=number % 5 == 4)
        )

    async def follow(self, run: Run | None) -> None:
        """Let a run go on to its end, or cancel it on its way. One that waits behind a pause is left."""
        if run is None:
            return
        if self.cancel_next is not None:
            await turns(self.cancel_next)
            self.cancel_next = None
            run.cancel("enough")
        await turns(3)
        if run.number:
            async with asyncio.timeout(30):
                await run.wait()

    async def open(self) -> list[Interaction]:
        return list(await self.host.interactions(self.session))

    async def answer(self, number: int) -> None:
        """Answer the first open question: yes more often than no."""
        if not (asked := await self.open()):
            return
        first = asked[0]
        no = number % 4 == 3
        text = Answer.no("no") if no else Answer.yes()
        given = Answer.say("left") if first.kind == "question" else text
        await self.follow(await self.host.answer(first.session, first.id, given))

    async def answer_wrongly(self, number: int) -> None:
        """Answer out of order, twice, in the wrong kind: it is refused and changes nothing."""
        asked = await self.open()
        wrong = [(one.id, Answer.yes()) for one in asked[1:]]
        wrong += [(one.id, Answer.say(" " if one.kind == "question" else "text")) for one in asked[:1]]
        events = await self.events()
        wrong += [(event.id, Answer.yes()) for event in events if isinstance(event, Answered)]
        if wrong:
            with pytest.raises(UsageError):
                await self.host.answer(self.session, *wrong[number % len(wrong)])
            assert await self.open() == asked

    async def answer_twice(self, number: int) -> None:
        """Give two answers to one question at the same time."""
        asked = await self.open()
        if not asked or asked[0].kind == "question":
            return
        given = [self.host.answer(self.session, asked[0].id, answer) for answer in (Answer.yes(), Answer.no())]
        both = await asyncio.gather(*given, return_exceptions=True)
        refused = [one for one in both if isinstance(one, UsageError)]
        assert len(refused) == 1 or self.work.store.dead
        for one in both:
            if isinstance(one, Run):
                await self.follow(one)

    async def cancel(self, number: int) -> None:
        """Let the next run be cancelled after so many turns of the loop."""
        self.cancel_next = number * number // 4

    async def cut(self, number: int) -> None:
        """Let the power go with one of the next appends."""
        self.work.store.left, self.work.store.after = 1 + number // 2, number % 2 == 1

    async def resume(self, number: int) -> None:
        """Resume by hand; refused unless there is something to resume."""
        with suppress(UsageError):
            await self.follow(await self.host.resume(self.agent))

    OPS: ClassVar[dict[str, Any]] = {
        "submit": submit,
        "answer": answer,
        "wrong": answer_wrongly,
        "twice": answer_twice,
        "cancel": cancel,
        "cut": cut,
        "resume": resume,
        "restart": restart,
    }

    async def finish(self) -> None:
        """Answer whatever is open until nothing is."""
        self.work.store.left = self.cancel_next = None
        await self.restart()
        for _ in range(100):
            if not await self.open():
                await self.resume(0)
                if not await self.open():
                    break
            await self.answer(0)
        async with asyncio.timeout(30):
            await self.agent.settled()
        await self.host.stop()

    async def events(self) -> list[Event]:
        """The record."""
        known = {head.id for head in await self.work.store.sessions()}
        return [entry.event for entry in await self.work.store.read(self.session)] if known else []

    # -- what must be true at the end

    async def check(self) -> None:
        """No effect twice, none unapproved, every call one result, every run one end."""
        entries = await self.work.store.read(self.session) if await self.events() else []
        events = [entry.event for entry in entries]
        assert [entry.id for entry in entries] == list(range(1, len(entries) + 1))
        assert max(self.work.effects.values(), default=1) == 1
        check_ends(events)
        check_approvals(events, self.work)
        check_results(events, self.work)
        check_order(folds.transcript(entries))


def count(events: list[Event], kind: type[Event], *names: str) -> Counter[tuple[object, ...]]:
    """How often there is an event of a kind with these fields."""
    return Counter(tuple(getattr(event, name) for name in names) for event in events if isinstance(event, kind))


PAIRS: list[tuple[type[Event], type[Event], list[str]]] = [
    (Called, Returned, ["id"]),
    (StepStart, StepEnd, ["run", "step"]),
    (RunStart, RunEnd, ["run"]),
]


def check_ends(events: list[Event]) -> None:
    """Every call has one result, every step and every run one end (rule 10)."""
    for begin, end, names in PAIRS:
        begun = count(events, begin, *names)
        assert begun == count(events, end, *names)
        assert max(begun.values(), default=1) == 1
    assert max(count(events, Answered, "id").values(), default=1) == 1
    reasons = {event.run: event.reason for event in events if isinstance(event, RunEnd)}
    for start in (event for event in events if isinstance(event, RunStart)):
        assert start.resumes == 0 or reasons[start.resumes] == "paused"
    resumed = Counter(event.resumes for event in events if isinstance(event, RunStart) and event.resumes)
    assert {run: 1 for run, reason in reasons.items() if reason == "paused"} == dict(resumed)


def check_approvals(events: list[Event], work: Work) -> None:
    """What had to be asked about and took effect has a yes, for these arguments and this hash."""
    asked = {event.id: event for event in events if isinstance(event, Asked)}
    allowed: set[tuple[str, str]] = set()
    for answer in [event for event in events if isinstance(event, Answered)]:
        word = str(asked[answer.id].arguments["word"])
        if answer.approved is False:
            assert not work.effects[word], f"{word} was refused"
        else:
            allowed.add((word, asked[answer.id].hash))
    for word in work.effects:
        kind = word.partition(" ")[0]
        assert kind != "deny"
        if kind in MUST_BE_ASKED and not blanket(events, word, kind):
            assert (word, work.hashes[word]) in allowed, f"{word} was never allowed"


def blanket(events: list[Event], word: str, kind: str) -> bool:
    """Whether the run had a blanket yes, which counts for what needs no person."""
    return kind in ("ask", "late") and not any(
        isinstance(event, Asked) and event.arguments["word"] == word for event in events
    )


def check_results(events: list[Event], work: Work) -> None:
    """A success took effect; what took effect is not told to have been denied or never begun."""
    words = {event.id: f"{event.name} {event.id}" for event in events if isinstance(event, Called)}
    for event in events:
        if isinstance(event, Returned):
            done = work.effects[words[event.id]]
            if event.status == "ok":
                assert done, f"{words[event.id]} was told to be done"
            if event.status == "denied" or event.code in ("ABORTED_BEFORE_DISPATCH", "STALE_APPROVAL"):
                assert not done, f"{words[event.id]} took effect and was told to be {event.code}"


def check_order(messages: Sequence[Any]) -> None:
    """The results of every reply follow it, all of them, in call order."""
    left: Iterator[Any] = iter(messages)
    for message in left:
        if isinstance(message, AssistantMessage):
            for wanted in message.calls:
                result = next(left, None)
                assert isinstance(result, ToolResult)
                assert result.call_id == wanted.id
        else:
            assert isinstance(message, UserMessage)


def live(plan: Plan, ops: list[Op]) -> None:
    """Submit a plan, do these things to it, finish it, and look at what is left."""
    trouble: list[Any] = []

    async def main(folder: Path) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: trouble.append(context))
        turn = TurnRecord(folder, plan)
        await turn.start()
        for op in [*ops[:2], ("submit", 0), *ops[2:]]:
            await turn.do(op)
        await turn.finish()
        await turn.check()

    with TemporaryDirectory() as name, patch("os.fsync"):  # the power is cut in the store, not at the wall
        asyncio.run(main(Path(name)))
    assert trouble == []


kinds = st.sampled_from(KINDS)
plans = st.lists(st.lists(kinds, min_size=1, max_size=4), min_size=1, max_size=3)
names = st.sampled_from([*TurnRecord.OPS, "answer", "answer", "answer", "answer", "cancel", "cut"])
operations = st.lists(st.tuples(names, st.integers(0, 15)), min_size=3, max_size=16)


@given(plans, operations)
@settings(report_multiple_bugs=False)
@example([["ask"]], [("cancel", 0), ("restart", 0), ("answer", 0)])
@example([["careful", "ask"]], [("restart", 0), ("restart", 0), ("restart", 4), ("answer", 0), ("answer", 0)])
@example([["both", "careful_parallel", "parallel"]], [("restart", 0), ("answer", 0), ("restart", 0)])
def test_no_effect_comes_twice_and_none_without_its_approval(plan: Plan, ops: list[Op]) -> None:
    """Rules 7, 8 and 10; B12, B13, B20, B21; cases 31 to 33."""
    live(plan, ops)


ANSWERS: list[Op] = [("answer", 0)] * 4


@pytest.mark.parametrize("place", range(36))
def test_wherever_the_power_is_cut_while_the_answers_are_given(place: int) -> None:
    """Rule 10: before and after every single append of the answers and the resumed run."""
    live([["ask", "plain", "careful", "which"], ["plain"]], [("restart", 0), ("restart", 0), ("cut", place), *ANSWERS])


@pytest.mark.parametrize("place", range(48))
def test_wherever_the_power_is_cut_while_it_pauses(place: int) -> None:
    """Rule 10: before and after every single append of the run that pauses."""
    live([["ask", "plain", "careful", "which"]], [("restart", 0), ("cut", place), *ANSWERS])


@pytest.mark.parametrize("moment", range(16))
def test_whenever_the_resumed_run_is_cancelled(moment: int) -> None:
    """Spec TPS 4.4: every pending call has a result, and no approval is used again."""
    plan = [["ask", "careful", "plain", "late"], ["ask"]]
    live(plan, [("restart", 0), ("restart", 0), *ANSWERS[:2], ("cancel", moment), *ANSWERS])
