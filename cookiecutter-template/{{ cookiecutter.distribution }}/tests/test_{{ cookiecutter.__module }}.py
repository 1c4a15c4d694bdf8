"""What the pack does, through the real pipeline and without a network."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from pegboard import Agent, Touch, tool
from pegboard.testing import ScriptedModel, call

from {{ cookiecutter.__module }}.command import command
from {{ cookiecutter.__module }}.pack import {{ cookiecutter.__class }}

pytestmark = pytest.mark.pegboard(packs={"{{ cookiecutter.name }}": {{ cookiecutter.__class }}})


async def test_a_model_gets_the_marked_lines(agent: Agent, scripted_model: ScriptedModel, workspace_dir: Path) -> None:
    (workspace_dir / "plan.txt").write_text("done\nTODO: write more\n", "utf-8")
    scripted_model.will(call("{{ cookiecutter.__tool }}", path="plan.txt"), "One thing is open.")

    end = await agent.followup("What is open?").wait()

    assert end.text == "One thing is open."
    assert "2: TODO: write more" in scripted_model.requests[1].messages[-1].content


async def test_a_file_outside_of_the_directory_is_refused(agent: Agent) -> None:
    result = await agent.call_tool("{{ cookiecutter.__tool }}", {"path": "../secret.txt"})

    assert result.content == "Error: ../secret.txt is outside of the working directory"


async def test_a_frozen_file_is_kept_from_the_tools_of_other_packs(agent: Agent) -> None:
    @tool(effect="write", touches=lambda path, **_: [Touch.path(path)])
    def overwrite(path: str) -> str:
        """Write a file."""
        return "written"

    agent.tools.register(overwrite)

    frozen = await agent.call_tool("overwrite", {"path": "uv.lock"}, allow_writes=True)
    free = await agent.call_tool("overwrite", {"path": "plan.txt"}, allow_writes=True)

    assert (frozen.status, free.status) == ("denied", "ok")


def test_the_command_lists_the_same_for_a_person(tmp_path: Path) -> None:
    (tmp_path / "plan.txt").write_text("FIXME: now\n", "utf-8")

    ended = CliRunner().invoke(command, [str(tmp_path / "plan.txt"), "--mark", "FIXME"])

    assert ended.output == "1: FIXME: now\n"
