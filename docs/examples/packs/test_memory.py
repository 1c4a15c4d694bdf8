"""A memory: facts that outlive the session, told to every agent at the start of a run."""

from collections.abc import Iterable

import pytest
from pegboard import Agent, Host, Prompt, Tool, ToolContext, hooks, implements, tool
from pegboard.events import Note
from pegboard.testing import ScriptedModel, call, recorded


class Memory:
    """Keeps one fact a line in the pack's own folder; the tool adds one, a section of the prompt tells them all."""

    @implements(hooks.host_started)
    def open(self, host: Host) -> None:
        self.facts = host.state_dir() / "facts.txt"

    @implements(hooks.register_tools)
    def tools(self) -> Iterable[Tool]:
        @tool
        async def remember(fact: str, ctx: ToolContext) -> str:
            """Remember a fact for all later tasks.

            Args:
                fact: One sentence that makes sense by itself.
            """
            line = " ".join(fact.split())
            with self.facts.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            await ctx.note("remembered", {"fact": line})
            return "kept"

        return [remember]

    @implements(hooks.assemble_prompt)
    def recall(self, agent: Agent, prompt: Prompt) -> Prompt | None:
        if prompt.phase == "step" or not self.facts.exists():
            return None
        return prompt.adding("memory", "What you were told before:\n" + self.facts.read_text("utf-8"))


@pytest.mark.pegboard(packs={"memory": Memory})
async def test_a_fact_is_told_to_a_later_session(agent: Agent, scripted_model: ScriptedModel) -> None:
    scripted_model.will(call("remember", fact="The office\nis closed on Fridays."), "Noted.")
    await agent.followup("Remember when we are closed.", allow_writes=True).wait()
    assert "Fridays" not in scripted_model.requests[1].prompt  # the prompt is fixed for the run
    (note,) = (event for event in recorded(agent, all_of_it=True) if isinstance(event, Note))
    assert (note.pack, note.data) == ("memory", {"fact": "The office is closed on Fridays."})

    later = ScriptedModel("On Fridays.")
    other = await agent.host.create_agent(model=later, directory=agent.session.directory)
    await other.followup("When is the office closed?").wait()

    assert later.requests[0].prompt.endswith("What you were told before:\nThe office is closed on Fridays.\n")
