"""The loop of a run with a model: before each step the packs are asked, then the model, then its calls are run."""

import asyncio
from dataclasses import dataclass, replace

from pegboard.agents import Agent
from pegboard.dispatch import describe
from pegboard.errors import ModelError
from pegboard.events import StepEnd, StepStart, Text
from pegboard.messages import AssistantMessage, ToolCall, Transcript, UserMessage
from pegboard.models import Finish, Model, ModelEvent, ModelRequest, TextDelta
from pegboard.runs import Run, RunOver
from pegboard.verdicts import Reject


@dataclass(frozen=True, slots=True)
class Step:
    """What `agent_pre_step` sees: the step about to begin and the messages that are new in it."""

    agent: Agent
    run: int
    number: int
    messages: tuple[UserMessage, ...]

    def may_enter(self, messages: object) -> bool:
        """Whether `Enter` may bring these messages: a tuple of UserMessages."""
        return isinstance(messages, tuple) and all(isinstance(message, UserMessage) for message in messages)

    def entering(self, messages: tuple[UserMessage, ...]) -> "Step":
        """Return the step with other new messages."""
        return replace(self, messages=messages)


async def converse(run: Run, text: str) -> str:
    """Ask the model, run its calls, and so on until it answers; returns the answer.

    Raises:
        RunOver: the run ends otherwise.
    """
    limits = run.agent.definition.limits
    messages: tuple[UserMessage, ...] = (UserMessage(text),)
    while run.step < limits.steps:
        number = run.step + 1
        step = await run.dispatcher.fold_step(Step(run.agent, run.number, number, messages))
        if isinstance(step, Reject):
            raise RunOver("blocked", step.reason)
        if not step.messages and number == 1:
            return ""
        run.step = number
        run.agent.session.messages.extend(step.messages)
        messages = ()
        reply = await _take_step(run)
        if not reply.calls:
            return reply.text
        run.check()
    raise RunOver("limit", f"the run was stopped after {limits.steps} steps")


async def _take_step(run: Run) -> AssistantMessage:
    """One model request and its tool calls, between a step's start and its end record."""
    run.record(StepStart(*run.head(), run.step))
    before = run.usage
    try:
        reply = await _ask_model(run)
        run.agent.session.messages.append(reply)
        for call in reply.calls:
            await run.call(call)
        return reply
    finally:
        run.record(StepEnd(*run.head(), run.step, run.usage - before))


async def _ask_model(run: Run) -> AssistantMessage:
    """Make one request and show its text as it comes.

    Raises:
        ModelError: from the model, or because it failed otherwise or its stream had no end.
    """
    model = run.agent.model
    if model is None:
        raise ModelError("this agent has no model", "route")
    request = ModelRequest(run.agent.definition.prompt, Transcript(run.agent.session.messages), run.snapshot.tools)
    reply = _Reply()
    try:
        await _stream(run, model, request, reply)
    except (ModelError, RunOver, KeyboardInterrupt):
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and (run.signal.cancelled or _being_cancelled()):
            raise
        raise ModelError(f"the model failed: {describe(error)}", "response") from error
    if reply.finish is None:
        raise ModelError("the model's reply was cut off; run it again", "response")
    run.usage += reply.finish.usage
    if reply.finish.stop == "max-tokens":
        raise RunOver("max-tokens", "".join(reply.text))
    return AssistantMessage("".join(reply.text), tuple(reply.calls))


async def _stream(run: Run, model: Model, request: ModelRequest, reply: "_Reply") -> None:
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


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
