"""The loop of a run with a model: before each step the packs are asked, then the model, then its calls are run."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from pegboard.agents.prompting import assemble_history
from pegboard.agents.run import Run, Step
from pegboard.base.errors import ModelError
from pegboard.base.isolation import being_cancelled, describe
from pegboard.base.slotted import direct_init
from pegboard.calls.batch import Batch, identified
from pegboard.calls.results import failed
from pegboard.dispatch.dispatcher import HookFailure, Misfit, Stop
from pegboard.record.journal import RecordLost
from pegboard.record.paused_turn import TurnRecord
from pegboard.values.codes import LIMIT, TRUNCATED
from pegboard.values.events import Event, Replied, Said, StepEnd, StepStart, Text
from pegboard.values.messages import AssistantMessage, Message, ToolCall, Transcript, Usage, UserMessage
from pegboard.values.models import Finish, ModelEvent, ModelReply, ModelRequest, TextDelta
from pegboard.values.verdicts import EndRun, Enter, Reject


@dataclass(slots=True)
class Tally:
    """What is counted over a turn, across its pauses: calls, and whether a reply was cut off."""

    calls: int = 0
    cut_off: bool = False

    @classmethod
    def of(cls, turn: TurnRecord) -> "Tally":
        """Count what a turn has come to."""
        return cls(turn.calls, turn.cut_off)


async def converse(run: Run) -> str:
    """Ask the model, run its calls, and so on until it owes nothing and nobody steers; returns its last answer.

    Raises:
        EndRun: the run ends otherwise.
    """
    return await _go_on(run, Tally(), 1, (run.said,))


async def take_up(run: Run, turn: TurnRecord) -> str:
    """Go on with a turn that had paused: first the calls that waited, then the model as in `converse`.

    Raises:
        EndRun: the run ends otherwise; paused, if a person is asked again.
    """
    run.journal.step, tally = turn.step, Tally.of(turn)
    batch = Batch.taken_up(run.calls_env, turn.open, turn.batches[-1] if turn.batches else None)
    await run.settle(batch)
    if not turn.route or (batch.conclusion is not None and await _is_over(run)):
        return batch.conclusion or (batch.results[-1].content if batch.results else "")
    return await _go_on(run, tally, turn.step + 1, ())


async def _go_on(run: Run, tally: Tally, first: int, said: tuple[str, ...]) -> str:
    agent, text = run.agent, ""
    for number in range(first, agent.definition.limits.steps + 1):
        claimed = agent.inbox.claim()  # not before there is a step for it
        taken = await _take_step(run, tally, number, claimed, said)
        said = ()
        if taken is None:
            return text
        text = taken.text
        if taken.is_last and await _is_over(run):
            return text
        run.check()
    raise EndRun("limit", f"the run was stopped after {agent.definition.limits.steps} steps")


async def _is_over(run: Run) -> bool:
    """Whether nobody steers: the packs may, when the model owes nothing more."""
    agent = run.agent
    run.check()
    if not agent.inbox.steered:
        await agent.services.dispatcher.in_order("run_stopping", run, scope=agent.scope)
        run.check()
    return not agent.inbox.steered


@direct_init
@dataclass(frozen=True, slots=True)
class _Taken:
    """What a step came to: the text that would be the run's, and whether nothing is owed after it."""

    text: str
    is_last: bool


async def _take_step(
    run: Run, tally: Tally, number: int, claimed: tuple[str, ...], said_first: tuple[str, ...]
) -> _Taken | None:
    """One model request and its tool calls; None if no pack let anything enter the first step."""
    agent, asks = run.agent, run.agent.services.dispatcher.plan
    try:
        history: Sequence[Message] | None = None
        if asks("assemble_prompt", agent.scope):
            history = await assemble_history(agent, run.snapshot)
            run.check()
        new = tuple([UserMessage(text) for text in (*claimed, *said_first)])
        if asks("agent_pre_step", agent.scope):
            new = await _pre_step(run, number, new)
        run.check()
    except BaseException as error:
        if claimed:
            agent.drop_texts(claimed, error.text if isinstance(error, EndRun) else describe(error))
        raise
    if not new and number == 1:
        return None
    journal = run.journal
    journal.step = number
    before = run.usage
    said: list[Event] = [Said(*journal.head(), number, message.text) for message in new]
    recorded = await journal.record(StepStart(*journal.head(), number), *said)
    # As the filters left it.
    entered = tuple([UserMessage(event.text) for event in recorded if isinstance(event, Said)])
    try:
        reply = await _ask_model(run, history, entered)
        calls, given_ids = identified(reply.message.calls, f"{run.number}-{number}")
        (told,) = await journal.record(Replied(*journal.head(), number, reply.message.text, calls))
        if journal.filters and isinstance(told, Replied) and told.text:
            journal.show_filtered(Text(*journal.head(), number, told.text))  # no delta of it was shown as it came
        if reply.stop == "max-tokens":
            return await _reject(run, tally, reply.message.text, calls)
        if not calls:
            return _Taken(reply.message.text, is_last=True)
        return await _run_calls(run, tally, calls, given_ids)
    finally:
        await journal.record(StepEnd(*journal.head(), number, run.usage - before))


async def _run_calls(run: Run, tally: Tally, calls: Sequence[ToolCall], given_ids: frozenset[str]) -> _Taken:
    """Run the calls of a reply, all or none: over the limit of the turn each gets a result without running."""
    limit = run.agent.definition.limits.tool_calls
    if tally.calls + len(calls) > limit:
        over = failed(LIMIT, f"the limit of {limit} tool calls is reached; nothing of this reply was run")
        await run.settle(Batch.rejected(run.calls_env, calls, over))
        raise EndRun("limit", f"the run was stopped: {limit} tool calls are its limit")
    tally.calls += len(calls)
    batch = Batch.of(run.calls_env, calls, given_ids)
    await run.settle(batch)
    return _Taken(batch.conclusion or "", is_last=batch.conclusion is not None)


async def _reject(run: Run, tally: Tally, text: str, calls: Sequence[ToolCall]) -> _Taken:
    """Run nothing of a reply that was cut off: the model may try once more in a turn (B19)."""
    if calls:
        told = "your reply was cut off at its length limit, so none of its calls was run; send fewer or shorter ones"
        await run.settle(Batch.rejected(run.calls_env, calls, failed(TRUNCATED, told)))
    if not calls or tally.cut_off:
        raise EndRun("max-tokens", text)
    tally.cut_off = True
    return _Taken("", is_last=False)


async def _pre_step(run: Run, number: int, messages: tuple[UserMessage, ...]) -> tuple[UserMessage, ...]:
    """Let the packs reject the step or change the messages that are new in it; returns these.

    Raises:
        EndRun: one rejects it.
    """
    given = Step(run.agent, run.number, number, messages)
    step = await run.agent.services.dispatcher.fold("agent_pre_step", run.agent.scope, given, _accept)
    if isinstance(step, Reject):
        raise EndRun("blocked", step.reason)
    left: tuple[UserMessage, ...] = step.messages
    return left


def _accept(step: Step, answer: object) -> Step | Stop:
    match answer:
        case Reject():
            return Stop(answer)
        case Enter(messages) if step.may_enter(messages):
            return step.entering(messages)
        case Enter():
            raise Misfit("Enter without a tuple of UserMessages, not Enter, Reject or None")
    raise Misfit(f"{type(answer).__name__}, not Enter, Reject or None")


async def _ask_model(run: Run, history: Sequence[Message] | None, entered: tuple[UserMessage, ...]) -> ModelReply:
    """Make one request, inside the packs' wrappers, and show its text as it comes.

    Raises:
        ModelError: from the model, or because it failed otherwise or its stream had no end.
    """
    run.check()  # a cancel that came while something was recorded interrupted nothing
    agent = run.agent
    messages: Sequence[Message] = Transcript(agent.session.messages) if history is None else (*history, *entered)
    request = ModelRequest(
        run.snapshot.prompt,
        messages,
        run.snapshot.tools,
        agent.definition.model,
        agent.id,
        run.number,
        run.step,
        agent.root.usage,
    )

    dispatcher = agent.services.dispatcher
    if not dispatcher.plan("wrap_model_call", agent.scope):
        unchanged = await _one_request(run, request)
        run.check()
        return unchanged
    reply: ModelReply = await dispatcher.around(
        "wrap_model_call", agent.scope, partial(_one_request, run), request, wanted=ModelReply
    )
    run.check()
    if not _is_reply(reply):
        raise ModelError("a pack around the model returned a reply that is none", "response")
    return reply


def _is_reply(reply: ModelReply) -> bool:
    message = reply.message
    return isinstance(message, AssistantMessage) and isinstance(message.text, str) and all(map(_is_call, message.calls))


def _is_call(call: object) -> bool:
    return isinstance(call, ToolCall) and all(isinstance(text, str) for text in (call.id, call.name, call.arguments))


async def _one_request(run: Run, request: ModelRequest) -> ModelReply:
    if not isinstance(request, ModelRequest):
        raise ModelError(f"a pack went on with {type(request).__name__}, not ModelRequest", "response")
    model, journal = run.agent.model(request.route), run.journal
    reply = _Reply()
    try:
        events = model.stream(request)
        try:
            async for event in events:
                run.check()
                reply.take(event)
                if isinstance(event, TextDelta):
                    journal.show(Text(*journal.head(), journal.step, event.text))
        finally:
            if close := getattr(events, "aclose", None):
                await close()
    except (ModelError, EndRun, RecordLost, HookFailure, KeyboardInterrupt):
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and (run.signal.cancelled or being_cancelled(error)):
            raise
        raise ModelError(f"the model failed: {describe(error)}", "response") from error
    if reply.finish is None:
        raise ModelError("the model's reply was cut off; run it again", "response")
    run.usage += reply.finish.usage
    run.agent.spend(reply.finish.usage)
    message = AssistantMessage("".join(reply.text), tuple(reply.calls))
    return ModelReply(message, reply.finish.usage, reply.finish.stop)


class _Reply:
    """Collects the events of one model request."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.calls: list[ToolCall] = []
        self.finish: Finish | None = None

    def take(self, event: ModelEvent) -> None:
        match event:
            case TextDelta(str() as delta):
                self.text.append(delta)
            case ToolCall() if _is_call(event):
                self.calls.append(event)
            case Finish(Usage()):
                self.finish = event
            case TextDelta() | ToolCall() | Finish():
                raise ModelError(
                    f"the model's adapter gave a {type(event).__name__} with a field of another type", "response"
                )
