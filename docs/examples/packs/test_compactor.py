"""A context compactor: the model reads a short history, the record keeps all of it."""

from collections.abc import Sequence

import pytest
from pegboard import Agent, Message, Prompt, UserMessage, hooks, implements
from pegboard.events import Replied
from pegboard.testing import ScriptedModel, recorded
from pydantic import BaseModel, Field


class Settings(BaseModel):
    """`[packs.compactor]`: how many earlier inputs are sent whole, with all that followed them."""

    inputs: int = Field(default=3, ge=1)


class Compactor:
    """Puts one line in the place of what is older; it cuts before an input, so calls and results stay together."""

    def __init__(self, settings: Settings) -> None:
        self.inputs = settings.inputs

    @implements(hooks.assemble_prompt)
    def shorten(self, agent: Agent, prompt: Prompt) -> Prompt | None:
        inputs = [place for place, message in enumerate(prompt.messages) if isinstance(message, UserMessage)]
        if prompt.phase == "snapshot" or len(inputs) <= self.inputs:
            return None
        cut = inputs[-self.inputs]
        return prompt.telling([summary(prompt.messages[:cut]), *prompt.messages[cut:]])


def summary(messages: Sequence[Message]) -> UserMessage:
    asked = "; ".join(message.text[:60] for message in messages if isinstance(message, UserMessage))
    return UserMessage(f"(Left out here; I had asked: {asked})")


@pytest.mark.pegboard(packs={"compactor": Compactor}, config="[packs.compactor]\ninputs = 1")
async def test_the_model_reads_less_than_is_recorded(agent: Agent, scripted_model: ScriptedModel) -> None:
    scripted_model.will("One.", "Two.", "Three.")
    for text in ("First?", "Second?", "Third?"):
        await agent.followup(text).wait()

    told = list(scripted_model.requests[2].messages)
    assert told[0] == UserMessage("(Left out here; I had asked: First?)")
    assert [message.text for message in told[1:] if isinstance(message, UserMessage)] == ["Second?", "Third?"]
    said = [event.text for event in recorded(agent, all_of_it=True) if isinstance(event, Replied)]
    assert said == ["One.", "Two.", "Three."]
