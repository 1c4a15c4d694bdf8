"""A chat front end: what needs a yes is put to a room, and the first line that comes back is the answer."""

import asyncio

import pytest
from pegboard import Agent, Answer, Interaction, hooks, implements, tool
from pegboard.testing import ScriptedModel, call


class Chat:
    """Posts a question and waits for a line. It is asked only if the user's `[interactions] front_ends` names it."""

    def __init__(self) -> None:
        self.posted: asyncio.Queue[str] = asyncio.Queue()
        self.lines: asyncio.Queue[str] = asyncio.Queue()

    @implements(hooks.answer_interaction)
    async def ask(self, interaction: Interaction) -> Answer:
        await self.posted.put(f"{interaction.tool} {dict(interaction.arguments)!r}? {interaction.reason}")
        match (await self.lines.get()).split(maxsplit=1):
            case ["yes"]:
                return Answer.yes()
            case ["no", reason]:
                return Answer.no(reason)
        return Answer.no()


@tool
def send(letter: str) -> str:
    """Send a letter."""
    return f"sent: {letter}"


@pytest.mark.pegboard(packs={"chat": Chat}, config='[interactions]\nfront_ends = ["chat"]')
async def test_the_room_decides_about_letters(agent: Agent, scripted_model: ScriptedModel) -> None:
    chat: Chat = agent.host.pack_object("chat")
    agent.tools.register(send)
    scripted_model.will(call("send", letter="Dear Ada"), call("send", letter="Dear Bob"), "One is sent.")

    run = agent.followup("Write to both.")
    async with asyncio.timeout(5):
        assert await chat.posted.get() == "send {'letter': 'Dear Ada'}? no policy pack decides about writes"
        await chat.lines.put("yes")
        await chat.posted.get()
        await chat.lines.put("no not to Bob")
    end = await run.wait()

    assert (end.calls, end.denied) == (2, 1)
    assert "sent: Dear Ada" in repr(scripted_model.requests[1].messages[-1])
    assert "a person said no: not to Bob" in repr(scripted_model.requests[2].messages[-1])
