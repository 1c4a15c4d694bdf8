"""The loop of a run with a model: before each step the packs are asked, then the model, then its calls are run."""

import asyncio
from collections.abc import Sequence
from functools import partial

from pegboard.answers import being_cancelled, describe
from pegboard.dispatch import HookFailure, Misfit, Stop
from pegboard.errors import ModelError
from pegboard.events import Event, Replied, Said, StepEnd, StepStart, Text
from pegboard.messages import AssistantMessage, Message, ToolCall, Transcript, UserMessage
from pegboard.models import Finish, ModelEvent, ModelReply, ModelRequest, TextDelta
from pegboard.pipeline import RecordLost
from pegboard.prompting import assemble_history
from pegboard.runs import Run, Step
from pegboard.verdicts import EndRun, Enter, Reject


async def converse(run: Run) -> str:
    """Ask the model, run its calls, and so on until it owes nothing and nobody steers; returns its last answer.

    Raises:
        EndRun: the run ends otherwise.
    """
    agent, text = run.agent, ""
    messages = (*agent.inbox.claim(), run.said)
    for number in range(1, agent.definition.limits.steps + 1):
        reply = await _take_step(run, number, messages)
        if reply is None:
            return text
        if not reply.calls:
            text = reply.text
            if not agent.inbox.steered:
                await agent.kernel.dispatcher.in_order("run_stopping", run, scope=agent.scope)
                run.check()
            if not agent.inbox.steered:
                return text
        run.check()
        messages = agent.inbox.claim()
    raise EndRun("limit", f"the run was stopped after {agent.definition.limits.steps} steps")


async def _take_step(run: Run, number: int, texts: tuple[str, ...]) -> AssistantMessage | None:
    """One model request and its tool calls; None if no pack let anything enter the first step."""
    agent = run.agent
    history = await assemble_history(agent, run.snapshot)
    run.check()
    given = Step(agent, run.number, number, tuple(UserMessage(text) for text in texts))
    step = await agent.kernel.dispatcher.fold("agent_pre_step", agent.scope, given, _accept)
    run.check()
    if isinstance(step, Reject):
        raise EndRun("blocked", step.reason)
    if not step.messages and number == 1:
        return None
    run.step = number
    before = run.usage
    said: list[Event] = [Said(*run.head(), number, message.text) for message in step.messages]
    recorded = await run.record(StepStart(*run.head(), number), *said)
    entered = tuple(UserMessage(event.text) for event in recorded if isinstance(event, Said))  # as the filters left it
    try:
        reply = await _ask_model(run, history, entered)
        (told,) = await run.record(Replied(*run.head(), number, reply.text, reply.calls))
        if run.filtered and isinstance(told, Replied) and told.text:
            run.show_filtered(Text(*run.head(), number, told.text))  # no delta of it was shown as it came
        for call in reply.calls:
            await run.call(call)
        return reply
    finally:
        await run.record(StepEnd(*run.head(), number, run.usage - before))


def _accept(step: Step, answer: object) -> Step | Stop:
    match answer:
        case Reject():
            return Stop(answer)
        case Enter(messages) if step.may_enter(messages):
            return step.entering(messages)
        case Enter():
            raise Misfit("Enter without a tuple of UserMessages, not Enter, Reject or None")
    raise Misfit(f"{type(answer).__name__}, not Enter, Reject or None")


async def _ask_model(run: Run, history: Sequence[Message] | None, entered: tuple[UserMessage, ...]) -> AssistantMessage:
    """Make one request, inside the packs' wrappers, and show its text as it comes.

    Raises:
        ModelError: from the model, or because it failed otherwise or its stream had no end.
    """
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

    reply: ModelReply = await agent.kernel.dispatcher.around(
        "wrap_model_call", agent.scope, partial(_one_request, run), request, wanted=ModelReply
    )
    run.check()
    if reply.stop == "max-tokens":
        raise EndRun("max-tokens", reply.message.text)
    return reply.message


async def _one_request(run: Run, request: ModelRequest) -> ModelReply:
    if not isinstance(request, ModelRequest):
        raise ModelError(f"a pack went on with {type(request).__name__}, not ModelRequest", "response")
    model = run.agent.model(request.route)
    reply = _Reply()
    try:
        events = model.stream(request)
        try:
            async for event in events:
                run.check()
                if isinstance(event, TextDelta):
                    run.show(Text(*run.head(), run.step, event.text))
                reply.take(event)
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
            case TextDelta(delta):
                self.text.append(delta)
            case ToolCall():
                self.calls.append(event)
            case Finish():
                self.finish = event
