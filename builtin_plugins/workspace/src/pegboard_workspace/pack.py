"""The pack: its settings and the tools that it hands over."""

from collections.abc import Iterable

from pegboard import Agent, Host, Tool, hooks, implements
from pydantic import BaseModel, Field

from pegboard_workspace.ask import ask_user
from pegboard_workspace.edit import writing_tools
from pegboard_workspace.find import glob
from pegboard_workspace.marks import Marks
from pegboard_workspace.output import read_output
from pegboard_workspace.read import read_tool
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
        self._marks = Marks()

    @implements(hooks.register_tools)
    def register_tools(self) -> Iterable[Tool]:
        """Hand over the tools."""
        shell = shell_tool(self.settings.shell_timeout, self.settings.pass_env)
        files = (read_tool(self._marks), glob, grep, *writing_tools(self._marks))
        return [*files, shell, read_output, ask_user]

    @implements(hooks.host_started)
    def host_started(self, host: Host) -> None:
        """Learn where the records are."""
        self._marks.host = host

    @implements(hooks.agent_disposed)
    def agent_disposed(self, agent: Agent) -> None:
        """Let go of what an agent's session has seen."""
        self._marks.forget(agent.id)
