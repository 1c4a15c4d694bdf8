"""Assembling what a model is told: once a run for the snapshot, and the history before each request."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pegboard.dispatch.dispatcher import Misfit
from pegboard.tools.snapshot import Snapshot
from pegboard.values.messages import AssistantMessage, Message, ToolResult, Transcript, UserMessage
from pegboard.values.prompts import Prompt, Section

if TYPE_CHECKING:
    from pegboard.agents.agent import Agent


async def assemble_snapshot(agent: "Agent", task: str) -> Snapshot:
    """Let the packs change the sections and omit tools; returns what the run may see and execute.

    Raises:
        HookFailure: an implementation failed, or added tools.
    """
    prompt = agent.definition.prompt
    names = agent.view().snapshot.names
    dispatcher = agent.services.dispatcher
    if dispatcher.plan("assemble_prompt", agent.scope):
        given = Prompt("snapshot", (Section("definition", prompt),), names, task=task)
        assembled: Prompt = await dispatcher.fold("assemble_prompt", agent.scope, given, _accept_sections, agent)
        prompt, names = assembled.text, assembled.tools
    return agent.keep_snapshot(prompt, names)


async def assemble_history(agent: "Agent", snapshot: Snapshot) -> Sequence[Message] | None:
    """Let the packs replace the history of one request; returns None when they leave it.

    Raises:
        HookFailure: an implementation failed, or changed something else.
    """
    dispatcher = agent.services.dispatcher
    history = Transcript(agent.session.messages)
    given = Prompt("step", (Section("snapshot", snapshot.prompt),), snapshot.names, history)
    assembled: Prompt = await dispatcher.fold("assemble_prompt", agent.scope, given, _accept_history, agent)
    return None if assembled.messages is history else assembled.messages


def _accept_sections(prompt: Prompt, answer: object) -> Prompt:
    if not isinstance(answer, Prompt):
        raise Misfit(f"{type(answer).__name__}, not Prompt or None")
    if not set(answer.tools) <= set(prompt.tools):
        raise Misfit("more tools than it was given; a prompt may omit tools, never add any")
    if answer.phase != prompt.phase or answer.messages:
        raise Misfit("a history in phase `snapshot`; there is none yet")
    if not all(isinstance(section, Section) and isinstance(section.text, str) for section in answer.sections):
        raise Misfit("a section that is no Section with a text")
    return answer


def _accept_history(prompt: Prompt, answer: object) -> Prompt:
    if not isinstance(answer, Prompt):
        raise Misfit(f"{type(answer).__name__}, not Prompt or None")
    if (answer.phase, answer.sections, answer.tools) != (prompt.phase, prompt.sections, prompt.tools):
        raise Misfit("other sections or tools in phase `step`; they are fixed for the run")
    if answer.messages is not prompt.messages and not all(
        isinstance(message, UserMessage | AssistantMessage | ToolResult) for message in answer.messages
    ):
        raise Misfit("a history with something that is no message")
    return answer
