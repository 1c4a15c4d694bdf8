"""The pack: its settings and the tools that it hands over."""

from collections.abc import Iterable

from pegboard import Tool, hooks, implements
from pydantic import BaseModel, Field

from pegboard_workspace.ask import ask_user
from pegboard_workspace.edit import edit, write
from pegboard_workspace.find import glob
from pegboard_workspace.output import read_output
from pegboard_workspace.read import read
from pegboard_workspace.search import grep
from pegboard_workspace.shell import shell_tool


class Settings(BaseModel):
    """`[packs.workspace]`: how long a shell command may run by default (seconds), and which variables it may see."""

    shell_timeout: float = Field(default=120, gt=0, le=3600)
    pass_env: list[str] = []


class Workspace:
    """Tools that stay inside the session's directory; `shell` is confined by nothing but the guards."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @implements(hooks.register_tools)
    def register_tools(self) -> Iterable[Tool]:
        """Hand over the tools."""
        shell = shell_tool(self.settings.shell_timeout, self.settings.pass_env)
        return [read, glob, grep, write, edit, shell, read_output, ask_user]
