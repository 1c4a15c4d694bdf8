"""Lazy retrieval: the manual is read for the first task that speaks of it, and offered to those that do."""

import asyncio
from pathlib import Path

import pytest
from pegboard import Agent, Prompt, Run, Tool, hooks, implements, tool
from pegboard.testing import ScriptedModel, call


class Manual:
    """Brings `search_manual` to an agent whose task needs it; `run_starting` is awaited before the tools are fixed."""

    @implements(hooks.run_starting)
    async def connect(self, run: Run) -> None:
        agent = run.agent
        if "manual" not in run.said.lower() or agent.view().get("search_manual"):
            return
        run.progress("reading the manual")
        agent.tools.register(searching(await asyncio.to_thread(read_pages, agent.session.directory / "manual")))

    @implements(hooks.assemble_prompt)
    def point(self, agent: Agent, prompt: Prompt) -> Prompt | None:
        if prompt.phase == "step" or "search_manual" not in prompt.tools:
            return None
        if "manual" not in prompt.task.lower():
            return prompt.omitting(["search_manual"])
        return prompt.adding("manual", "Search the manual before you say how something is done.")


def read_pages(folder: Path) -> dict[str, str]:
    return {page.name: page.read_text("utf-8") for page in sorted(folder.glob("*.md"))}


def searching(pages: dict[str, str]) -> Tool:
    @tool(effect="read", concurrency="parallel")
    def search_manual(word: str) -> dict[str, str]:
        """Return the pages of the manual that contain a word."""
        return {name: text for name, text in pages.items() if word.lower() in text.lower()}

    return search_manual


@pytest.mark.pegboard(packs={"manual": Manual})
async def test_the_manual_is_there_when_a_task_needs_it(
    agent: Agent, scripted_model: ScriptedModel, workspace_dir: Path
) -> None:
    (workspace_dir / "manual").mkdir()
    (workspace_dir / "manual" / "lids.md").write_text("Turn the lid to the left.")
    scripted_model.will("Hello.", call("search_manual", word="lid"), "To the left.", "Goodbye.")

    for task in ("Say hello.", "How does the lid open? See the manual.", "Say goodbye."):
        await agent.followup(task).wait()

    plain, first, second, last = scripted_model.requests
    assert (first.tools[0].name, "Search the manual" in first.prompt) == ("search_manual", True)
    assert plain.tools == last.tools == ()
    assert "Turn the lid to the left." in repr(second.messages[-1])
