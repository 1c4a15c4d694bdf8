"""A sandbox wrapper: every process of every pack starts under `nice`, at home in its own directory, or not at all."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from pegboard import Agent, Deny, ProcessSpec, ToolContext, hooks, implements, tool

FORBIDDEN = {"curl", "ssh"}


class Sandbox:
    """Sees what `ctx.run`, `ctx.spawn` and `host.spawn` are about to start, and says what starts instead."""

    @implements(hooks.prepare_process)
    def wrap(self, spec: ProcessSpec) -> ProcessSpec | Deny:
        program = Path(spec.argv[0]).resolve()
        if program.name in FORBIDDEN or program.is_relative_to(spec.cwd):
            return Deny(f"{program.name} is not for the sandbox")
        return replace(spec, argv=("nice", "-n", "5", *spec.argv), env={**spec.env, "HOME": str(spec.cwd)})


@tool(effect="read")
async def start(argv: list[str], ctx: ToolContext) -> str:
    """Start a program and return what it prints."""
    done = await ctx.run(ProcessSpec(tuple(argv), ctx.directory), cap=20_000)
    return done.text


@pytest.mark.skipif(os.name == "nt", reason="there is no `nice`")
@pytest.mark.pegboard(packs={"sandbox": Sandbox})
async def test_a_process_starts_in_the_sandbox_or_not_at_all(agent: Agent, workspace_dir: Path) -> None:
    agent.tools.register(start)

    inside = await agent.call_tool("start", {"argv": ["sh", "-c", "nice; echo $HOME; echo $0"]})
    refused = await agent.call_tool("start", {"argv": ["/usr/bin/curl", "example.org"]})
    (workspace_dir / "made.sh").touch()
    own = await agent.call_tool("start", {"argv": [str(workspace_dir / "made.sh")]})

    niceness, home, program = inside.content.split()
    assert (niceness, home) == (str(os.nice(0) + 5), str(agent.session.directory))
    assert os.path.isabs(program)  # `nice` was given the path, so it looks nothing up by itself
    assert refused.status == own.status == "error"
    assert "curl is not for the sandbox" in refused.content
    assert "made.sh is not for the sandbox" in own.content
