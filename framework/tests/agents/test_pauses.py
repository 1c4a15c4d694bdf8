"""What needs a person: the run pauses, answers are recorded in order, a new run carries out what was allowed."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pytest
from pegboard import (
    Agent,
    Answer,
    Ask,
    Definition,
    Deny,
    Entry,
    Event,
    Finish,
    GuardedCall,
    Host,
    Interaction,
    Limits,
    NeedsAnswer,
    NeedsApproval,
    Outcome,
    ProceedTool,
    Run,
    RunEnd,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    ToolRun,
    Touch,
    UsageError,
    WaitsForSessions,
    folds,
    hooks,
    implements,
    tool,
)
from pegboard.events import Answered, Asked, Called, Returned, RunStart
from pegboard.testing import ScriptedModel, call, recorded
from pegboard.values.messages import AssistantMessage, UserMessage

E = TypeVar("E", bound=Event)


class Work:
    """Tools that keep what they did, and a guard that asks about some of them. It may change its mind."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.asked: list[tuple[str, str]] = []
        self.verdicts: dict[str, Ask | Deny] = {
            "ask": Ask("is it wanted?"),
            "ask_person": Ask("a person decides", person=True),
            "deny": Deny("never"),
        }

    @implements(hooks.guard_tool_call)
    def guard(self, call: GuardedCall) -> Ask | Deny | None:
        self.asked.append((call.name, call.phase))
        return self.verdicts.get(call.name)

    @implements(hooks.register_tools)
    def tools(self) -> list[Tool]:
        plain = [doing(name, self.did) for name in ("ask", "ask_person", "deny", "look")]
        return [*plain, careful(self.did), which(self.did)]


def doing(name: str, did: list[str], **options: Any) -> Tool:
    """Return a tool that only keeps what it did."""

    @tool(name=name, effect="read", **options)
    async def body(word: str = "") -> str:
        """Do something."""
        did.append(f"{name} {word}".strip())
        return f"{name} was done {len(did)}"

    return body


def careful(did: list[str], **options: Any) -> Tool:
    """Return a tool that asks before its first effect."""

    @tool(name="careful", effect="read", **options)
    async def body(ctx: ToolContext, word: str = "") -> str:
        """Do what can't be undone."""
        if not ctx.approved:
            raise NeedsApproval("it can't be undone")
        did.append(f"careful {word}".strip())
        return "careful was done"

    return body


def which(did: list[str]) -> Tool:
    """Return a tool that asks a person for a text."""

    @tool(name="which", effect="read")
    async def body(ctx: ToolContext) -> str:
        """Ask which one."""
        if not ctx.answer:
            raise NeedsAnswer("Which one?", ("left", "right"))
        did.append(f"which {ctx.answer}")
        return f"the {ctx.answer} one"

    return body


def reply(*calls: ToolCall) -> tuple[ToolCall | Finish, ...]:
    """Return one reply with these calls."""
    return (*calls, Finish())


async def turns(number: int = 50) -> None:
    """Let everything that is ready go on."""
    for _ in range(number):
        await asyncio.sleep(0)


async def end_of(run: Run | None, *, whole: bool = False) -> RunEnd:
    """Wait for the end of a run, or of the whole turn; one that never ends must not hold up the tests."""
    assert run is not None
    async with asyncio.timeout(20):
        return await (run.finish() if whole else run.wait())


@dataclass(frozen=True)
class House:
    """A host with the tools of `Work`, an agent in it, and what a test asks of both."""

    host: Host
    agent: Agent
    model: ScriptedModel
    work: Work

    def begin(self, *script: Any, said: str = "Go on.", **options: Any) -> Run:
        """Submit an input; what needs a person pauses the run."""
        self.model.will(*script)
        return self.host.submit(self.agent, said, on_ask="pause", **options)

    async def paused(self, *script: Any) -> Run:
        """Run until it pauses."""
        run = self.begin(*script)
        assert (await end_of(run)).reason == "paused"
        return run

    async def open(self) -> list[Interaction]:
        """What waits for an answer."""
        return list(await self.host.interactions(self.agent.root.id))

    async def answer(self, number: int, answer: Answer) -> Run | None:
        """Answer one interaction of the agent's own session."""
        return await self.host.answer(self.agent.id, number, answer)

    async def answers(self, *answers: Answer) -> Run:
        """Answer what is open, first one first; returns the run that goes on."""
        begun: Run | None = None
        for given in answers:
            first = (await self.open())[0]
            begun = await self.host.answer(first.session, first.id, given)
        assert begun is not None
        return begun

    async def refuses(self, number: int, answer: Any) -> str:
        """Give an answer that is refused; returns why. What is open stays as it is."""
        before = await self.open()
        with pytest.raises(UsageError) as refused:
            await self.answer(number, answer)
        assert await self.open() == before
        return str(refused.value)

    def all(self, kind: type[E]) -> list[E]:
        """What was recorded of a kind."""
        return [event for event in recorded(self.agent, all_of_it=True) if isinstance(event, kind)]

    def results(self) -> list[ToolResult]:
        """The results in the transcript."""
        return [message for message in self.agent.session.messages if isinstance(message, ToolResult)]

    def codes(self) -> list[str | None]:
        """The codes of the results in the transcript."""
        return [result.code for result in self.results()]

    async def limited(self, **limits: Any) -> "House":
        """The same with another agent that has these limits."""
        model = ScriptedModel()
        definition = Definition(limits=Limits(**limits))
        agent = await self.host.create_agent(definition, model=model, directory=self.agent.session.directory)
        return replace(self, agent=agent, model=model)


pytestmark = pytest.mark.pegboard(packs={"work": Work})
YES, NO = Answer.yes(), Answer.no()


@pytest.fixture
def house(host: Host, agent: Agent, scripted_model: ScriptedModel) -> House:
    """A host with the tools of `Work`, and an agent."""
    return House(host, agent, scripted_model, host.pack_object("work"))


# -- a run pauses


async def test_a_call_that_needs_a_person_pauses_the_run_and_its_body_is_not_called(house: House) -> None:
    """B7, B8."""
    run = house.begin(call("ask", word="it"))
    end = await end_of(run)

    assert (end.reason, end.run, house.work.did, len(house.model.requests)) == ("paused", 1, [], 1)
    (asked,) = await house.open()
    assert (asked.kind, asked.tool, asked.pack, asked.reason) == ("permission", "ask", "work", "is it wanted?")
    assert (asked.session, asked.root, asked.run) == (house.agent.id, house.agent.id, 1)
    assert dict(asked.arguments) == {"word": "it"}
    assert house.agent.status == "idle"


async def test_a_question_pauses_the_run_and_shows_its_options(house: House) -> None:
    """B7."""
    await house.paused(call("which"))

    (asked,) = await house.open()
    assert (asked.kind, asked.tool, asked.reason) == ("question", "which", "Which one?")
    assert tuple(asked.options) == ("left", "right")
    assert house.work.did == []


async def test_the_batch_goes_on_with_its_next_calls(house: House) -> None:
    await house.paused(reply(call("ask"), call("look", word="1"), call("deny"), call("look", word="2")))

    assert house.work.did == ["look 1", "look 2"]
    assert [event.code for event in house.all(Returned)] == [None, "DENIED", None]


async def test_what_needs_a_person_is_asked_in_call_order(house: House) -> None:
    """B9: a body's question, a body's permission, two of guards."""
    batch = reply(call("which"), call("careful"), call("look"), call("ask"), call("ask_person"))
    await house.paused(batch)

    asked = await house.open()
    assert [one.tool for one in asked] == ["which", "careful", "ask", "ask_person"]
    assert [one.kind for one in asked] == ["question", "permission", "permission", "permission"]
    assert [one.person for one in asked] == [True, True, False, True]
    assert [one.id for one in asked] == sorted(one.id for one in asked)
    assert house.work.did == ["look"]


async def test_of_bodies_that_overlap_the_questions_come_in_call_order(house: House) -> None:
    gate = asyncio.Event()

    def parallel(name: str, last: bool) -> Tool:
        @tool(name=name, effect="read", concurrency="parallel")
        async def body(ctx: ToolContext) -> str:
            """Ask, one after the other."""
            if last:
                await gate.wait()
            gate.set()
            if not ctx.approved:
                raise NeedsApproval(name)
            house.work.did.append(name)
            return name

        return body

    for name, last in (("one", True), ("two", False)):
        house.host.tools.register(parallel(name, last))
    async with asyncio.timeout(20):
        await house.paused(reply(call("one"), call("two")), "Done.")

    assert [one.tool for one in await house.open()] == ["one", "two"]
    assert (await end_of(await house.answers(YES, YES))).text == "Done."
    assert sorted(house.work.did) == ["one", "two"]
    assert [result.name for result in house.results()] == ["one", "two"]


async def test_a_guard_that_asks_only_before_dispatch_pauses_as_well(house: House) -> None:
    """Rule 7: the call is recorded once, and its body has not begun."""

    class Late:
        @implements(hooks.guard_tool_call)
        def guard(self, call: GuardedCall) -> Ask | None:
            return Ask("on second thoughts") if call.phase == "dispatch" else None

    await house.host.load_pack("late", Late())
    await house.paused(call("look"), "Done.")
    assert house.work.did == []

    assert (await end_of(await house.answers(YES))).reason == "completed"
    assert house.work.did == ["look"]
    assert (len(house.all(Called)), len(house.all(Returned))) == (1, 1)


# -- nobody to ask


@pytest.mark.parametrize("name", ["ask", "ask_person", "careful"])
async def test_when_nobody_can_be_asked_a_permission_is_a_denial(house: House, name: str) -> None:
    """Case 37."""
    house.model.will(call(name), "It was denied.")

    end = await end_of(house.agent.followup("Go on."))

    assert (end.reason, end.denied, house.work.did) == ("completed", 1, [])
    assert [result.status for result in house.results()] == ["denied"]
    assert (await house.open(), house.all(Asked)) == ([], [])


async def test_when_nobody_can_be_asked_a_question_is_an_error(house: House) -> None:
    house.model.will(call("which"), "Nobody knows.")

    assert (await end_of(house.agent.followup("Go on."))).text == "Nobody knows."
    assert (house.codes(), house.work.did) == (["UNANSWERED"], [])


async def test_a_blanket_yes_answers_what_needs_no_person_and_nothing_else(house: House) -> None:
    run = house.begin(reply(call("ask"), call("ask_person"), call("careful")), allow_writes=True)

    assert (await end_of(run)).reason == "paused"
    assert house.work.did == ["ask"]
    assert [one.tool for one in await house.open()] == ["ask_person", "careful"]


async def test_a_denial_beats_a_question_and_pauses_nothing(house: House) -> None:
    class Strict:
        @implements(hooks.guard_tool_call)
        def guard(self, call: GuardedCall) -> Deny:
            return Deny("not today")

    await house.host.load_pack("strict", Strict())

    assert (await end_of(house.begin(call("ask"), "Denied."))).reason == "completed"
    assert (house.codes(), house.all(Asked)) == (["DENIED"], [])


# -- answers


async def test_after_the_last_answer_a_new_run_carries_it_out_and_asks_the_model(house: House) -> None:
    """B20."""
    first = await house.paused(call("ask", word="it"), "Done.")

    second = await house.answers(YES)
    end = await end_of(second)

    assert second is not first
    assert (end.reason, end.text, end.run) == ("completed", "Done.", 2)
    assert house.work.did == ["ask it"]
    assert [start.resumes for start in house.all(RunStart)][1] == 1
    kinds = [type(message) for message in house.model.requests[1].messages]
    assert kinds == [UserMessage, AssistantMessage, ToolResult]
    assert [ended.reason for ended in house.all(RunEnd)] == ["paused", "completed"]


async def test_the_paused_run_is_never_used_again(house: House) -> None:
    """B20: after its end only answers may still name it."""
    await house.paused(reply(call("ask"), call("ask")), "Done.")
    await end_of(await house.answers(YES, NO))

    events = recorded(house.agent, all_of_it=True)
    after = events[next(place for place, event in enumerate(events) if isinstance(event, RunEnd)) + 1 :]
    assert {type(event) for event in after if event.run == 1} <= {Answered}


async def test_before_the_last_answer_nothing_goes_on(house: House) -> None:
    """B20: answers are only recorded."""
    await house.paused(reply(call("ask", word="1"), call("ask", word="2")))
    (first, second) = await house.open()

    assert await house.answer(first.id, YES) is None
    await turns()

    assert (house.work.did, house.agent.status, len(house.all(RunStart))) == ([], "idle", 1)
    assert await house.open() == [second]


async def test_only_the_first_open_question_can_be_answered(house: House) -> None:
    """B20: out of order."""
    await house.paused(reply(call("ask"), call("ask")))
    (first, second) = await house.open()

    told = await house.refuses(second.id, YES)

    assert f"{first.id}" in told
    assert "first" in told
    assert house.all(Answered) == []


async def test_a_second_answer_is_refused_while_others_are_open(house: House) -> None:
    """B20, case 33."""
    await house.paused(reply(call("ask"), call("ask")))
    (first, _) = await house.open()
    await house.answer(first.id, NO)

    await house.refuses(first.id, YES)

    assert [answered.approved for answered in house.all(Answered)] == [False]


async def test_a_second_answer_is_refused_once_the_run_went_on(house: House) -> None:
    """B20, case 33."""
    await house.paused(call("ask"), "Done.")
    (asked,) = await house.open()
    resumed = await house.answer(asked.id, YES)

    await house.refuses(asked.id, YES)
    await end_of(resumed)
    await house.refuses(asked.id, YES)

    assert house.work.did == ["ask"]


async def test_of_two_answers_at_once_one_counts(house: House) -> None:
    """B20: the double answer."""
    await house.paused(call("ask"), "Done.")
    (asked,) = await house.open()

    both = await asyncio.gather(house.answer(asked.id, YES), house.answer(asked.id, NO), return_exceptions=True)

    (begun,) = [one for one in both if isinstance(one, Run)]
    (refused,) = [one for one in both if isinstance(one, BaseException)]
    assert isinstance(refused, UsageError)
    await end_of(begun)
    (answered,) = house.all(Answered)
    assert house.work.did == (["ask"] if answered.approved else [])


async def test_a_no_is_a_result_that_says_why_and_nothing_is_run(house: House) -> None:
    """B21."""
    await house.paused(reply(call("ask"), call("careful")), "A pity.")

    end = await end_of(await house.answers(Answer.no("not on Fridays"), NO))

    assert (end.reason, end.denied, house.work.did) == ("completed", 2, [])
    assert [result.status for result in house.results()] == ["denied", "denied"]
    assert "not on Fridays" in house.results()[0].content


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("ask", Answer.say("yes")),
        ("careful", Answer.say("yes")),
        ("which", Answer.yes()),
        ("which", Answer.say("")),
        ("which", Answer.say(" \n\t")),
        ("ask", True),
        ("ask", "y"),
        ("ask", None),
        ("ask", Answer("yes")),  # type: ignore[arg-type]
        ("which", Answer(None, 7)),  # type: ignore[arg-type]
    ],
)
async def test_an_answer_of_the_wrong_kind_is_refused(house: House, name: str, answer: Any) -> None:
    """Spec TPS 4.4: the kind must match, and a question has no empty answer."""
    await house.paused(call(name))

    await house.refuses((await house.open())[0].id, answer)

    assert house.all(Answered) == []


async def test_a_no_to_a_question_leaves_it_unanswered(house: House) -> None:
    """Whoever does not want to answer may say so; or it is refused as a wrong kind. The body never gets a text."""
    await house.paused(call("which"), "Nobody knows.")
    (asked,) = await house.open()

    with suppress(UsageError):
        await end_of(await house.answer(asked.id, Answer.no("no idea")))
        assert [result.status == "ok" for result in house.results()] == [False]

    assert house.work.did == []


@pytest.mark.parametrize("number", [0, -1, 2, 99])
async def test_an_answer_to_what_was_never_asked_is_refused(house: House, number: int) -> None:
    await house.paused(call("ask"))

    await house.refuses(number, YES)


async def test_an_answer_to_a_session_that_asked_nothing_is_refused(house: House) -> None:
    await house.paused(call("ask"))
    (asked,) = await house.open()

    for other in ((await house.limited()).agent.id, "0" * 8, "../evil"):
        with pytest.raises(UsageError):
            await house.host.answer(other, asked.id, YES)


async def test_the_answer_to_a_question_reaches_the_body(house: House) -> None:
    await house.paused(call("which"), "Thanks.")

    end = await end_of(await house.answers(Answer.say("left")))

    assert (end.text, house.work.did) == ("Thanks.", ["which left"])
    assert house.results()[0].content == "the left one"


async def test_a_yes_lets_the_body_that_asked_go_on(house: House) -> None:
    await house.paused(call("careful", word="it"), "Done.")
    assert house.work.did == []

    await end_of(await house.answers(YES))

    assert house.work.did == ["careful it"]
    assert (len(house.all(Called)), [result.status for result in house.results()]) == (1, ["ok"])


@pytest.mark.parametrize("error", [NeedsApproval("once more"), NeedsAnswer("Once more?")])
async def test_a_body_that_asks_again_after_its_answer_has_failed(house: House, error: Exception) -> None:
    """B12: never a success."""

    @tool(effect="read")
    async def greedy(ctx: ToolContext) -> str:
        """Ask and ask."""
        house.work.did.append(f"{ctx.approved} {ctx.answer}")
        raise error

    house.host.tools.register(greedy)
    await house.paused(call("greedy"), "Enough.")
    text = Answer.say("here") if isinstance(error, NeedsAnswer) else YES

    end = await end_of(await house.answers(text))

    assert (end.reason, len(house.work.did)) == ("completed", 2)
    assert [result.status for result in house.results()] == ["error"]


async def test_a_sync_body_may_ask_as_well(house: House) -> None:
    @tool(effect="read")
    def slow(ctx: ToolContext) -> str:
        """Ask from a worker thread."""
        if not ctx.approved:
            raise NeedsApproval("it takes long")
        return "it took long"

    house.host.tools.register(slow)
    await house.paused(call("slow"), "Done.")

    await end_of(await house.answers(YES))

    assert [result.content for result in house.results()] == ["it took long"]


async def test_a_question_of_the_guard_and_one_of_the_body_are_both_answered_once(house: House) -> None:
    """B12: the guard's yes is not the body's; one effect, one result, whatever was asked before."""
    house.work.verdicts["careful"] = Ask("is it wanted?")
    run = await house.paused(call("careful"), "Done.")

    assert (await end_of(await house.answers(YES))).reason == "paused"
    assert house.work.did == []
    await house.answers(YES)

    assert (await end_of(run, whole=True)).text == "Done."
    assert (house.work.did, len(house.all(Called)), len(house.all(Returned))) == (["careful"], 1, 1)
    assert [asked.reason for asked in house.all(Asked)] == ["is it wanted?", "it can't be undone"]


async def test_the_packs_around_a_body_see_the_call_that_runs_and_no_other(house: House) -> None:
    """B8: neither wrapper nor post while it waits, each once when it runs."""
    seen: list[str] = []

    class Around:
        @implements(hooks.wrap_tool_call)
        async def wrap(self, call: ToolRun, proceed: ProceedTool) -> Outcome:
            seen.append(f"wrap {call.name}")
            return await proceed()

        @implements(hooks.tool_post_execute)
        def post(self, call: ToolRun, result: Outcome) -> None:
            seen.append(f"post {result.status}")

    await house.host.load_pack("around", Around())
    await house.paused(reply(call("ask"), call("ask")), "Done.")
    assert seen == []

    await end_of(await house.answers(YES, NO))
    assert seen == ["wrap ask", "post ok", "post denied"]


# -- what an approval is good for


async def test_an_approval_is_good_for_one_call(house: House) -> None:
    """Case 31: the same call again, and in another session, is asked about again."""
    await house.paused(call("ask", word="it"), call("ask", word="it"), "Done.")
    again = await house.answers(YES)
    assert (await end_of(again)).reason == "paused"
    assert house.work.did == ["ask it"]

    other = await house.limited()
    await other.paused(call("ask", word="it"))
    assert house.work.did == ["ask it"]


async def test_two_equal_calls_of_a_reply_are_two_questions(house: House) -> None:
    """An approval is bound to a call, not only to what it would do."""
    await house.paused(reply(call("ask", word="it"), call("ask", word="it")), "Done.")

    await end_of(await house.answers(YES, NO))

    assert house.work.did == ["ask it"]
    assert [result.status for result in house.results()] == ["ok", "denied"]


async def test_an_approval_of_a_tool_that_changed_is_stale(house: House) -> None:
    """Case 32, DESIGN §3.3."""

    def version(description: str) -> Tool:
        made = doing("tune", house.work.did)
        return replace(made, description=description)

    house.work.verdicts["tune"] = Ask("is it wanted?")
    withdraw = house.host.tools.register(version("Tune it softly."))
    await house.paused(call("tune"), "Stale.")
    withdraw()
    house.host.tools.register(version("Tune it, and delete the rest."))

    end = await end_of(await house.answers(YES))

    assert (end.reason, house.work.did) == ("completed", [])
    assert house.codes() == ["STALE_APPROVAL"]


async def test_an_approval_of_a_tool_that_is_gone_runs_nothing(house: House) -> None:
    house.work.verdicts["tune"] = Ask("is it wanted?")
    withdraw = house.host.tools.register(doing("tune", house.work.did))
    await house.paused(call("tune"), "It is gone.")
    withdraw()

    assert (await end_of(await house.answers(YES))).text == "It is gone."
    assert ([result.status for result in house.results()], house.work.did) == (["error"], [])


async def test_an_approval_of_a_tool_that_was_taken_from_the_agent_runs_nothing(house: House) -> None:
    """Rule 3: narrowing is live."""
    await house.paused(call("ask"), "It is gone.")
    house.agent.restrict(deny=["ask"])

    assert (await end_of(await house.answers(YES))).text == "It is gone."
    assert ([result.status for result in house.results()], house.work.did) == (["error"], [])


async def test_an_approval_of_a_path_that_leads_elsewhere_by_now_is_stale(house: House) -> None:
    """Case 32: touches are resolved when a person is asked and again before the body runs."""
    directory = house.agent.session.directory
    (directory / "plan").mkdir()
    (directory / "secret").mkdir()
    (directory / "link").symlink_to("plan")
    house.work.verdicts["empty"] = Ask("is it wanted?")
    empty = doing("empty", house.work.did, touches=lambda word: [Touch.path(word)])
    house.host.tools.register(empty)
    await house.paused(call("empty", word="link"), "Stale.")
    (directory / "link").unlink()
    (directory / "link").symlink_to("secret")

    end = await end_of(await house.answers(YES))

    assert (end.reason, house.work.did, house.codes()) == ("completed", [], ["STALE_APPROVAL"])


@pytest.mark.parametrize("changed", [True, False], ids=["changed", "left alone"])
async def test_an_approval_binds_to_the_bytes_that_stood_there(house: House, changed: bool) -> None:
    """A person may have typed meanwhile what they said yes to overwriting."""
    file = house.agent.session.directory / "plan"
    file.write_text("as it was shown")
    house.work.verdicts["empty"] = Ask("is it wanted?")
    house.host.tools.register(doing("empty", house.work.did, touches=lambda word: [Touch.path(word, content=True)]))
    await house.paused(call("empty", word="plan"), "On.")
    if changed:
        file.write_text("typed meanwhile")

    await end_of(await house.answers(YES))

    assert house.codes() == (["STALE_APPROVAL"] if changed else [None])
    assert bool(house.work.did) is not changed


async def test_an_approval_binds_to_the_directory_and_not_to_its_name(house: House) -> None:
    """Issue 25 case 18: a folder that was swapped for another one of that name gets no approved command."""
    directory = house.agent.session.directory
    await house.paused(call("ask"), "Stale.")
    directory.rename(directory.with_name("elsewhere"))
    directory.mkdir()

    end = await end_of(await house.answers(YES))

    assert (end.reason, house.work.did, house.codes()) == ("completed", [], ["STALE_APPROVAL"])


async def test_an_approval_is_never_good_for_arguments_that_a_filter_has_changed(house: House) -> None:
    """Case 32: what is recorded is not what the model asked for, so it is not carried out in its place."""

    class Redacting:
        @implements(hooks.filter_entry)
        def filter(self, entry: Entry) -> Entry:
            return entry.rewriting(lambda text: text.replace("hunter2", "[secret]"))

    await house.host.load_pack("redacting", Redacting())
    await house.paused(call("ask", word="hunter2"), "Done.")

    assert (await end_of(await house.answers(YES))).reason == "completed"
    assert house.work.did in ([], ["ask hunter2"])
    assert house.codes() == ([None] if house.work.did else ["STALE_APPROVAL"])


class Failing:
    """A guard that fails from some moment on."""

    fails = False

    @implements(hooks.guard_tool_call)
    def guard(self, call: GuardedCall) -> None:
        if self.fails:
            raise RuntimeError("no policy today")


async def test_a_guard_that_changed_its_mind_has_the_last_word(house: House) -> None:
    """Rule 7: an approval never beats a denial."""
    await house.paused(call("ask"), "Denied.")
    house.work.verdicts["ask"] = Deny("not any more")

    end = await end_of(await house.answers(YES))

    assert (end.reason, end.denied, house.work.did, house.codes()) == ("completed", 1, [], ["DENIED"])
    assert "not any more" in house.results()[0].content


async def test_a_guard_that_fails_after_the_approval_denies(house: House) -> None:
    """Case 36, rule 6."""
    failing = Failing()
    await house.host.load_pack("failing", failing)
    await house.paused(call("ask"), "Denied.")
    failing.fails = True

    await end_of(await house.answers(YES))

    assert (house.work.did, house.codes()) == ([], ["DENIED"])


async def test_a_guard_that_wants_a_person_by_now_has_had_one(house: House) -> None:
    await house.paused(call("ask"), "Done.")
    house.work.verdicts["ask"] = Ask("a person decides", person=True)

    await end_of(await house.answers(YES))

    assert house.work.did == ["ask"]


async def test_guards_are_asked_again_in_both_phases_and_a_no_asks_nobody(house: House) -> None:
    """Rule 7."""
    await house.paused(reply(call("ask"), call("ask_person")), "Done.")
    house.work.asked.clear()

    await end_of(await house.answers(YES, NO))

    assert [one for one in house.work.asked if one[0] == "ask"] == [("ask", "intent"), ("ask", "dispatch")]
    assert house.work.did == ["ask"]


async def test_a_resumed_call_keeps_the_old_snapshots_definitions(house: House) -> None:
    """DESIGN §3.3: what was registered meanwhile is there for the model, the pending call is as it was."""
    await house.paused(call("ask"), call("fresh"), "Done.")
    house.host.tools.register(doing("fresh", house.work.did))

    await end_of(await house.answers(YES))

    assert house.work.did == ["ask", "fresh"]


# -- front ends


class Phone:
    """A front end that says nothing until a test makes it, and keeps what it was asked."""

    def __init__(self) -> None:
        self.given: Any = None
        self.rings = False
        self.picked_up = asyncio.Event()
        self.seen: list[Interaction] = []
        self.cancelled = 0

    @implements(hooks.answer_interaction)
    async def answer(self, interaction: Interaction) -> Answer | None:
        self.seen.append(interaction)
        try:
            if self.rings:
                await self.picked_up.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        answer: Answer | None = self.given
        return answer


with_phones = pytest.mark.pegboard(
    packs={"work": Work, "phone": Phone, "desk": Phone}, config="[interactions]\nfront_ends = ['phone', 'desk']\n"
)


@pytest.fixture
def phone(host: Host) -> Phone:
    """One of two front ends."""
    found: Phone = host.pack_object("phone")
    return found


@pytest.fixture
def desk(host: Host) -> Phone:
    """The other one."""
    found: Phone = host.pack_object("desk")
    return found


@with_phones
@pytest.mark.parametrize("name", ["ask", "careful"])
async def test_a_front_end_that_answers_spares_the_pause(house: House, phone: Phone, name: str) -> None:
    phone.given = YES

    end = await end_of(house.begin(call(name), "Done."))

    assert (end.reason, house.work.did, len(phone.seen)) == ("completed", [name], 1)
    assert [answered.by for answered in house.all(Answered)] == ["phone"]


@with_phones
async def test_a_front_end_answers_a_question_with_a_text(house: House, phone: Phone) -> None:
    phone.given = Answer.say("right")

    assert (await end_of(house.begin(call("which"), "Thanks."))).text == "Thanks."
    assert house.work.did == ["which right"]


@with_phones
async def test_what_no_front_end_answers_pauses_the_run(house: House, phone: Phone, desk: Phone) -> None:
    await house.paused(call("ask"), "Done.")

    assert (len(phone.seen), len(desk.seen), house.work.did) == (1, 1, [])
    await end_of(await house.answers(YES))
    assert (len(phone.seen), house.work.did) == (1, ["ask"])


@with_phones
async def test_the_first_front_end_wins_and_the_other_is_cancelled(house: House, phone: Phone, desk: Phone) -> None:
    phone.rings, desk.given = True, NO

    end = await end_of(house.begin(call("ask"), "Denied."))

    assert (end.reason, phone.cancelled, house.work.did) == ("completed", 1, [])
    assert [answered.by for answered in house.all(Answered)] == ["desk"]


@with_phones
async def test_the_program_answers_while_a_front_end_rings(house: House, phone: Phone) -> None:
    phone.rings = True
    run = house.begin(call("ask"), "Done.")
    async with asyncio.timeout(20):
        asked = await house.host.next_interaction(house.agent.id)

    await house.answer(asked.id, YES)

    assert ((await end_of(run)).reason, phone.cancelled, house.work.did) == ("completed", 1, ["ask"])


@with_phones
@pytest.mark.parametrize("given", [True, "yes", Answer.say("yes"), Answer("yes")])  # type: ignore[arg-type]
async def test_what_is_no_yes_of_a_front_end_allows_nothing(house: House, phone: Phone, given: Any) -> None:
    phone.given = given

    await end_of(house.begin(call("ask"), "Done."))

    assert house.work.did == []


@with_phones
@pytest.mark.parametrize("given", [YES, Answer.say(""), Answer.say("  "), "left"])
async def test_what_is_no_text_of_a_front_end_answers_no_question(house: House, phone: Phone, given: Any) -> None:
    phone.given = given

    await end_of(house.begin(call("which"), "Done."))

    assert house.work.did == []


@with_phones
async def test_a_front_end_is_asked_by_default_too(house: House, phone: Phone) -> None:
    """Whatever `on_ask` is."""
    phone.given = YES
    house.model.will(call("careful"), "Done.")

    await end_of(house.agent.followup("Go on."))

    assert house.work.did == ["careful"]


@with_phones
async def test_a_cancel_while_a_front_end_rings_is_no_pause(house: House, phone: Phone) -> None:
    phone.rings = True
    run = house.begin(reply(call("ask"), call("look")))
    await turns()
    assert len(phone.seen) == 1

    run.cancel("enough")

    assert ((await end_of(run)).reason, phone.cancelled, house.work.did) == ("aborted", 1, [])
    assert (len(house.results()), await house.open()) == (2, [])


# -- the whole turn


async def test_several_pauses_in_one_turn_have_one_end(house: House) -> None:
    run = await house.paused(call("ask", word="1"), call("look"), call("which"), "All done.")
    whole = asyncio.ensure_future(end_of(run, whole=True))

    assert (await end_of(await house.answers(YES))).reason == "paused"
    assert not whole.done()
    last = await house.answers(Answer.say("left"))

    assert await whole == await end_of(last)
    assert ((await whole).text, (await whole).run) == ("All done.", 3)
    assert house.work.did == ["ask 1", "look", "which left"]
    assert [start.resumes for start in house.all(RunStart)][1:] == [1, 2]
    assert (await end_of(run)).reason == "paused"


async def test_a_turn_that_never_paused_ends_with_its_run(house: House) -> None:
    run = house.begin(call("look"), "Done.")

    assert await end_of(run, whole=True) == await end_of(run)


async def test_whoever_asks_late_gets_the_same_end_of_the_turn(house: House) -> None:
    run = await house.paused(call("ask"), "Done.")
    last = await end_of(await house.answers(YES))

    assert await end_of(run, whole=True) == last


async def test_the_results_of_a_reply_are_in_call_order_whatever_was_committed_first(house: House) -> None:
    """B4: the model never reads a result before the one of an earlier call."""
    batch = reply(call("ask", word="1"), call("look"), call("careful"), call("deny"))
    await house.paused(batch, "Done.")
    assert [type(message) for message in house.agent.session.messages[:2]] == [UserMessage, AssistantMessage]

    await end_of(await house.answers(YES, YES))

    assert [event.name for event in house.all(Returned)] == ["look", "deny", "ask", "careful"]
    assert [result.name for result in house.results()] == ["ask", "look", "careful", "deny"]
    assert list(house.model.requests[1].messages) == house.agent.session.messages[:6]
    entries = await house.host.entries(house.agent.id)
    assert list(folds.transcript(entries)) == house.agent.session.messages


async def test_approved_calls_run_in_call_order_whatever_is_parallel(house: House) -> None:
    """DESIGN §3.3."""
    await house.paused(reply(*(call("ask", word=str(number)) for number in range(4))), "Done.")

    await end_of(await house.answers(YES, NO, YES, YES))

    assert house.work.did == ["ask 0", "ask 2", "ask 3"]


async def test_a_call_without_a_model_pauses_and_goes_on_without_one(house: House) -> None:
    """`pegboard call --on-ask pause`."""
    run, _ = house.host.submit_call(house.agent, call("ask", word="it"), on_ask="pause")
    assert ((await end_of(run)).reason, house.work.did) == ("paused", [])

    resumed = await house.answers(YES)
    end = await end_of(resumed)

    assert (end.reason, end.text, house.work.did) == ("completed", "ask was done 1", ["ask it"])
    assert await end_of(run, whole=True) == end
    assert (house.model.requests, [result.status for result in house.results()]) == ([], ["ok"])


# -- what is counted across a pause


async def test_the_cap_on_calls_counts_across_a_pause(house: House) -> None:
    """B22: a call that waited counts once."""
    house = await house.limited(tool_calls=3)
    await house.paused(reply(call("ask"), call("look")), call("look"), call("look", word="too many"))

    end = await end_of(await house.answers(YES))

    assert end.reason == "limit"
    assert house.work.did == ["look", "ask", "look"]
    assert house.codes() == [None, None, None, "LIMIT"]


async def test_the_cap_on_calls_counts_what_was_denied_in_a_pause(house: House) -> None:
    """B22."""
    house = await house.limited(tool_calls=2)
    await house.paused(call("ask"), call("look"), call("look", word="too many"))

    assert (await end_of(await house.answers(NO))).reason == "limit"
    assert house.work.did == ["look"]


async def test_the_cap_on_steps_counts_across_a_pause(house: House) -> None:
    """B22."""
    house = await house.limited(steps=2)
    await house.paused(call("ask"), call("look"), "Never said.")

    assert (await end_of(await house.answers(YES))).reason == "limit"
    assert (len(house.model.requests), house.work.did) == (2, ["ask", "look"])


async def test_a_new_input_begins_to_count_anew(house: House) -> None:
    house = await house.limited(tool_calls=2)
    await house.paused(call("ask"), call("look"), "Done.")
    assert (await end_of(await house.answers(YES))).reason == "completed"

    assert (await end_of(house.begin(reply(call("look"), call("look")), "Done."))).reason == "completed"


def same(did: list[str]) -> Tool:
    """Return a tool that asks, and whose result is always the same."""

    @tool(effect="read")
    async def same(ctx: ToolContext) -> str:
        """Do the same again."""
        if not ctx.approved:
            raise NeedsApproval("once more?")
        did.append("same")
        return "Nothing has changed in the room since the last look."

    return same


async def test_the_room_of_a_step_is_shared_across_a_pause(house: House) -> None:
    """What was committed before the pause takes its part of `batch_chars`; no body is called twice for it."""
    house = await house.limited(batch_chars=1000)

    def long(name: str) -> Tool:
        @tool(name=name, effect="read")
        async def body() -> str:
            """Say much."""
            house.work.did.append(name)
            return name * 100

        return body

    house.work.verdicts["long_two"] = Ask("is it wanted?")
    for name in ("long_one", "long_two"):
        house.host.tools.register(long(name))
    await house.paused(reply(call("long_two"), call("long_one")), "Done.")

    assert (await end_of(await house.answers(YES))).text == "Done."

    assert house.work.did == ["long_one", "long_two"]
    assert house.codes() == ["DOES_NOT_FIT", None]
    assert sum(len(result.content) for result in house.results()) <= 1000


async def test_what_the_run_was_allowed_goes_on_after_its_pause(house: House) -> None:
    """The blanket yes of the paused run holds for the turn, in the process that was given it; it answers no person."""
    run = house.begin(call("ask_person"), call("ask"), call("ask_person"), allow_writes=True)
    assert (await end_of(run)).reason == "paused"

    resumed = await house.answers(YES)

    assert (await end_of(resumed)).reason == "paused"
    assert house.work.did == ["ask_person", "ask"]


async def test_an_approved_call_that_concludes_ends_the_turn(house: House) -> None:
    """T47."""

    @tool(effect="read")
    async def finish(ctx: ToolContext) -> str:
        """Be done."""
        ctx.conclude()
        return "This is the answer."

    house.work.verdicts["finish"] = Ask("is it wanted?")
    house.host.tools.register(finish)
    await house.paused(call("finish"), "Never said.")

    end = await end_of(await house.answers(YES))

    assert (end.reason, end.text, len(house.model.requests)) == ("completed", "This is the answer.", 1)


# -- what waits behind a pause


async def test_what_is_queued_waits_until_the_turn_has_ended(house: House) -> None:
    await house.paused(call("ask"), "Done.", "And next.")
    queued = house.begin(said="What next?")
    await turns()
    assert (queued.number, house.agent.status, len(house.model.requests)) == (0, "idle", 1)

    resumed = await house.answers(YES)

    assert ((await end_of(queued)).text, queued.number, resumed.number) == ("And next.", 3, 2)
    assert [message.text for message in house.agent.session.messages if isinstance(message, UserMessage)] == [
        "Go on.",
        "What next?",
    ]


async def test_what_was_queued_before_the_pause_waits_too(house: House) -> None:
    run = house.begin(call("ask"), "Done.", "And next.")
    queued = house.begin(said="What next?")
    assert (await end_of(run)).reason == "paused"
    await turns()
    assert queued.number == 0

    await end_of(await house.answers(YES))

    assert (await end_of(queued)).text == "And next."


async def test_what_is_steered_into_a_pause_waits_and_is_not_lost(house: House) -> None:
    await house.paused(call("ask"), "Done.", "Heard.", "Heard again.")
    house.agent.steer("Mind the gap.")
    house.agent.inject("Mind the step.")
    await turns()
    assert len(house.model.requests) == 1

    await end_of(await house.answers(YES))
    async with asyncio.timeout(20):
        await house.agent.settled()

    said = [message.text for message in house.agent.session.messages if isinstance(message, UserMessage)]
    assert sorted(said) == ["Go on.", "Mind the gap.", "Mind the step."]


async def test_what_is_queued_in_a_pause_can_be_dropped(house: House) -> None:
    await house.paused(call("ask"), "Done.")
    queued = house.begin(said="What next?")

    queued.cancel("not needed")

    assert ((await end_of(queued)).reason, queued.number) == ("aborted", 0)
    assert (await end_of(await house.answers(YES))).text == "Done."


async def test_the_agent_goes_on_with_new_input_after_the_turn(house: House) -> None:
    await house.paused(call("ask"), "Done.", "New.")
    await end_of(await house.answers(NO))

    end = await end_of(house.agent.followup("Something new."))

    assert (end.text, end.run) == ("New.", 3)


@pytest.mark.parametrize("answered", [0, 1])
async def test_what_is_still_open_can_not_be_resumed(house: House, answered: int) -> None:
    await house.paused(reply(call("ask"), call("ask")))
    for _ in range(answered):
        first, *_ = await house.open()
        await house.answer(first.id, YES)

    with pytest.raises(UsageError):
        await end_of(await house.host.resume(house.agent))

    assert (house.work.did, len(house.all(RunStart))) == ([], 1)


async def test_what_is_not_paused_can_not_be_resumed(house: House) -> None:
    with pytest.raises(UsageError):
        await end_of(await house.host.resume(house.agent))

    await house.paused(call("ask"), "Done.")
    await end_of(await house.answers(YES))
    with pytest.raises(UsageError):
        await end_of(await house.host.resume(house.agent))
    assert (house.work.did, len(house.all(RunStart))) == (["ask"], 2)


# -- cancel and dispose


async def lingering(house: House) -> asyncio.Event:
    """Register a tool `linger` that is asked about and works until it is cancelled; returns when it has begun."""
    begun = asyncio.Event()

    @tool(effect="read")
    async def linger(ctx: ToolContext) -> str:
        """Work on and on."""
        house.work.did.append("linger")
        begun.set()
        await ctx.cancel.wait()
        return "cancelled in time"

    house.work.verdicts["linger"] = Ask("is it wanted?")
    house.host.tools.register(linger)
    return begun


async def test_a_cancel_of_the_resumed_run_gives_every_call_a_result(house: House) -> None:
    begun = await lingering(house)
    await house.paused(reply(call("ask", word="1"), call("linger"), call("ask", word="2"), call("look")))
    resumed = await house.answers(YES, YES, YES)
    async with asyncio.timeout(20):
        await begun.wait()

    resumed.cancel("enough")
    end = await end_of(resumed)

    assert (end.reason, len(house.model.requests)) == ("aborted", 1)
    assert house.work.did == ["look", "ask 1", "linger"]
    assert house.codes() == [None, "ABORTED", "ABORTED_BEFORE_DISPATCH", None]
    assert await house.open() == []


async def test_after_a_cancelled_resume_an_old_approval_is_not_used_again(house: House) -> None:
    """B13."""
    await house.paused(reply(call("ask"), call("ask")), "New.")
    resumed = await house.answers(YES, YES)
    resumed.cancel("enough")
    assert (await end_of(resumed)).reason == "aborted"
    before = list(house.work.did)

    with pytest.raises(UsageError):
        await end_of(await house.host.resume(house.agent))
    assert (await end_of(house.agent.followup("Something new."))).text == "New."

    assert (house.work.did, len(house.results())) == (before, 2)


async def test_whoever_waits_for_the_turn_hears_of_the_cancel(house: House) -> None:
    run = await house.paused(call("ask"))
    whole = asyncio.ensure_future(end_of(run, whole=True))
    resumed = await house.answers(YES)

    resumed.cancel("enough")

    assert await whole == await end_of(resumed)
    assert (await whole).reason == "aborted"


async def test_a_run_that_is_cancelled_after_it_asked_leaves_nothing_open(house: House) -> None:
    """Spec TPS 4.4: an abort clears what is pending; every call has a result."""
    begun = await lingering(house)
    del house.work.verdicts["linger"]
    run = house.begin(reply(call("ask"), call("linger"), call("look")), "New.")
    async with asyncio.timeout(20):
        await begun.wait()

    run.cancel("enough")
    end = await end_of(run)

    assert (end.reason, await house.open()) == ("aborted", [])
    assert [result.name for result in house.results()] == ["ask", "linger", "look"]
    assert house.results()[0].status in ("aborted", "denied")
    await house.refuses(1, YES)
    assert (await end_of(house.agent.followup("Something new."))).text == "New."
    assert house.work.did == ["linger"]


async def test_a_disposed_agent_leaves_its_question_open_for_another(house: House) -> None:
    """The answer may come when no agent lives; whoever drives the session next goes on."""
    run = await house.paused(call("ask"), "Never said.")
    whole = asyncio.ensure_future(end_of(run, whole=True))
    await house.host.dispose(house.agent)
    assert (await whole).reason in ("paused", "aborted")
    (asked,) = await house.open()

    assert await house.answer(asked.id, YES) is None
    session = await house.host.open_session(house.agent.id)
    agent = await house.host.create_agent(session=session, model=ScriptedModel("Done."))
    end = await end_of(await house.host.resume(agent))

    assert (end.text, end.run, house.work.did) == ("Done.", 2, ["ask"])
    assert [type(message) for message in session.messages[:3]] == [UserMessage, AssistantMessage, ToolResult]


async def test_of_two_answers_in_the_record_the_first_counts(house: House) -> None:
    """Whoever wrote the second one: nothing of it is kept."""
    await house.paused(call("ask"), "Never said.")
    await house.host.dispose(house.agent)
    await house.answer(1, NO)
    entries = await house.host.entries(house.agent.id)
    last = entries[-1]
    assert isinstance(last.event, Answered)
    second = Entry(last.id + 1, replace(last.event, approved=True, text=""))
    await (await house.host.store()).append(house.agent.id, [second], expect=last.id)

    session = await house.host.open_session(house.agent.id)
    agent = await house.host.create_agent(session=session, model=ScriptedModel("Denied."))

    assert (await end_of(await house.host.resume(agent))).text == "Denied."
    assert house.work.did == []


async def test_what_is_queued_behind_a_pause_ends_with_the_agent(house: House) -> None:
    await house.paused(call("ask"))
    queued = house.begin(said="What next?")

    await house.host.dispose(house.agent)

    assert (await end_of(queued)).reason == "aborted"


async def test_a_new_agent_of_a_paused_session_begins_nothing_before_it_was_resumed(house: House) -> None:
    await house.paused(call("ask"), "Never said.")
    await house.host.dispose(house.agent)
    session = await house.host.open_session(house.agent.id)
    agent = await house.host.create_agent(session=session, model=ScriptedModel("Done.", "And next."))
    other = replace(house, agent=agent)

    queued = house.host.submit(agent, "What next?", on_ask="pause")
    await turns()
    assert (queued.number, house.work.did) == (0, [])
    resumed = await other.answers(YES)

    assert ((await end_of(resumed)).text, (await end_of(queued)).text) == ("Done.", "And next.")


# -- a child's question


class Delegating:
    """A tool that lets a child work, and lets its call wait for what the child asks."""

    def __init__(self, house: House, *script: Any) -> None:
        self.house = house
        self.model = ScriptedModel(*script)
        self.child: Agent | None = None
        self.began = self.resumed = 0

    def tool(self) -> Tool:
        @tool(name="delegate", effect="read")
        async def body() -> str:
            """Let a child do it."""
            host = self.house.host
            self.began += 1
            self.child = await host.create_agent(parent=self.house.agent, model=self.model)
            return self._text(await host.submit(self.child, "Do it.", on_ask="pause").wait())

        return replace(body, resume=self.go_on)

    def _text(self, end: RunEnd) -> str:
        assert self.child is not None
        if end.reason == "paused":
            raise WaitsForSessions("job-1", (self.child.id,))
        return f"the child said: {end.text}"

    async def go_on(self, ctx: ToolContext, job: str) -> str:
        """Take the child's end as the result."""
        assert (job, self.child is not None) == ("job-1", True)
        self.resumed += 1
        child = self.child
        assert child is not None
        return self._text(await (await self.house.host.resume(child)).wait())


async def test_a_childs_question_pauses_the_root_and_its_answer_ends_the_delegation(house: House) -> None:
    """DESIGN §3.3: the body is never called again."""
    delegating = Delegating(house, call("ask", word="for the child"), "It is done.")
    house.host.tools.register(delegating.tool())
    run = await house.paused(call("delegate"), "All done.")
    whole = asyncio.ensure_future(end_of(run, whole=True))
    (asked,) = await house.open()
    assert delegating.child is not None
    assert (asked.session, asked.root, asked.tool) == (delegating.child.id, house.agent.id, "ask")

    await house.host.answer(asked.session, asked.id, YES)
    if not whole.done() and house.agent.status == "idle":
        with suppress(UsageError):  # it has begun by itself
            await house.host.resume(house.agent)

    assert ((await whole).text, house.work.did) == ("All done.", ["ask for the child"])
    assert (delegating.began, delegating.resumed) == (1, 1)
    assert [result.content for result in house.results()] == ["the child said: It is done."]


async def test_a_childs_questions_come_first(house: House) -> None:
    delegating = Delegating(house, call("ask", word="child"), "It is done.")
    house.host.tools.register(delegating.tool())
    await house.paused(reply(call("ask", word="root"), call("delegate")), "All done.")
    first, second = await house.open()
    assert [first.root, second.root] == [house.agent.id] * 2
    assert [dict(one.arguments)["word"] for one in (first, second)] == ["child", "root"]

    await house.refuses(second.id, YES)
    await house.host.answer(first.session, first.id, NO)
    await turns()
    assert house.work.did == []
    await end_of(await house.answers(YES), whole=True)

    assert house.work.did == ["ask root"]
    assert [result.name for result in house.results()] == ["ask", "delegate"]


async def test_a_child_that_asks_again_pauses_the_root_again(house: House) -> None:
    delegating = Delegating(house, call("ask", word="1"), call("careful", word="2"), "It is done.")
    house.host.tools.register(delegating.tool())
    run = await house.paused(call("delegate"), "All done.")
    whole = asyncio.ensure_future(end_of(run, whole=True))

    for _ in range(3):
        if asked := await house.open():
            await house.host.answer(asked[0].session, asked[0].id, YES)
            await turns(200)

    assert (await whole).text == "All done."
    assert (house.work.did, delegating.began) == (["ask 1", "careful 2"], 1)
    assert len(house.all(Returned)) == 1


async def test_a_front_ends_answer_to_a_child_needs_no_pause_of_the_root(house: House) -> None:
    delegating = Delegating(house, call("look"), "It is done.")
    house.host.tools.register(delegating.tool())

    assert (await end_of(house.begin(call("delegate"), "All done."))).text == "All done."
    assert (delegating.began, delegating.resumed) == (1, 0)


async def test_waiting_without_a_way_to_go_on_is_an_error(house: House) -> None:
    @tool(effect="read")
    async def hopeless() -> str:
        """Wait for nobody."""
        raise WaitsForSessions("job", ())

    house.host.tools.register(hopeless)

    assert (await end_of(house.begin(call("hopeless"), "Done."))).reason == "completed"
    assert [result.status for result in house.results()] == ["error"]
