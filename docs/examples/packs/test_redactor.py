"""A redactor: keys are masked before anything is recorded, so neither the record nor the model ever has them."""

import re

import pytest
from pegboard import Agent, Entry, Event, Finish, Prompt, TextDelta, hooks, implements, tool
from pegboard.events import Text
from pegboard.testing import ScriptedModel, call, recorded

KEY = re.compile(r"sk-[\w-]{8,}")


def mask(text: str) -> str:
    return KEY.sub("sk-***", text)


class Redactor:
    """Masks what looks like a key: in every text of every entry, and in the prompt that other packs assembled."""

    @implements(hooks.filter_entry)
    def record(self, entry: Entry) -> Entry:
        return entry.rewriting(mask)

    @implements(hooks.assemble_prompt, trylast=True)
    def prompt(self, agent: Agent, prompt: Prompt) -> Prompt | None:
        return prompt.rewriting(mask) if prompt.phase == "snapshot" else None


@tool(effect="read")
def read_settings(path: str) -> str:
    """Read the settings."""
    return f"{path}: key = sk-from-the-file-1234"


class Retold:
    @implements(hooks.assemble_prompt)
    def retell(self, agent: Agent, prompt: Prompt) -> Prompt | None:
        return prompt.telling(prompt.messages) if prompt.phase == "step" else None


@pytest.mark.pegboard(packs={"redactor": Redactor}, config="[agents.main]\nprompt = 'Use sk-in-the-prompt-1234'")
async def test_no_key_is_recorded_shown_or_read_by_the_model(agent: Agent, scripted_model: ScriptedModel) -> None:
    agent.tools.register(read_settings)
    agent.register(Retold())
    shown: list[Event] = []
    agent.host.listen(shown.append)
    answer = (TextDelta("It is sk-from-"), TextDelta("the-file-1234."), Finish())
    scripted_model.will(call("read_settings", path="sk-in-the-path-1234"), answer)

    end = await agent.followup("My key is sk-from-the-person-1234.").wait()

    assert end.text == "It is sk-***."
    assert [event.text for event in shown if isinstance(event, Text)] == ["It is sk-***."]
    assert not KEY.search(repr((shown, recorded(agent, all_of_it=True))))
    assert not KEY.search(repr([(request.prompt, *request.messages) for request in scripted_model.requests]))
    assert "key = sk-***" in (await agent.call_tool("read_settings", {"path": "x"})).content
