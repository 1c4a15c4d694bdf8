"""The pack: its settings, and what it does at each hook."""

from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import PurePath
from typing import Annotated

from pegboard import Agent, Deny, GuardedCall, Prompt, Tool, hooks, implements, narrowing
from pydantic import BaseModel

from {{ cookiecutter.__module }}.marks import marks_tool


class Settings(BaseModel):
    """`[packs.{{ cookiecutter.name }}]`: what marks a line, and the names of files that no tool may write."""

    mark: str = "TODO"
    frozen: Annotated[list[str], narrowing] = ["*.lock"]


class {{ cookiecutter.__class }}:
    """{{ cookiecutter.description }}."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @implements(hooks.register_tools)
    def register_tools(self) -> Iterable[Tool]:
        """Hand over the tool."""
        return [marks_tool(self.settings.mark)]

    @implements(hooks.guard_tool_call)
    def guard_tool_call(self, call: GuardedCall) -> Deny | None:
        """Keep frozen files from every tool that writes, whichever pack it is from."""
        if call.tool.effect == "read":
            return None
        names = [PurePath(touch.value).name for touch in call.touches if touch.kind == "path"]
        frozen = [name for name in names if any(fnmatch(name, pattern) for pattern in self.settings.frozen)]
        return Deny(f"{frozen[0]} is frozen (packs.{{ cookiecutter.name }}.frozen)") if frozen else None

    @implements(hooks.assemble_prompt)
    def assemble_prompt(self, agent: Agent, prompt: Prompt) -> Prompt | None:
        """Tell the model what a mark is, once a run, if the agent has the tool."""
        if prompt.phase == "step" or "{{ cookiecutter.__tool }}" not in prompt.tools:
            return None
        return prompt.adding("{{ cookiecutter.name }}", f"Lines with {self.settings.mark} are open work.")
