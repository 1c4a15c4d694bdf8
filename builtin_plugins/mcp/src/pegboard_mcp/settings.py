"""`[packs.mcp]`: the servers of the configuration."""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from pegboard_mcp.servers import NAME, NAME_LENGTH, Deadlines, Server

_Name = Annotated[str, StringConstraints(pattern=rf"^{NAME}$", max_length=NAME_LENGTH)]
_Seconds = Annotated[float, Field(gt=0, le=86_400)]


class ServerSettings(BaseModel):
    """`[packs.mcp.servers.NAME]`: a `command` that is started, or a `url`; timeouts are in seconds.

    In all texts `${NAME}` stands for a variable of your environment. `roots`: it is told the directories of the live
    sessions, if it asks; some servers then take these in place of what their arguments say.
    """

    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    transport: Literal["http", "sse"] = "http"
    headers: dict[str, str] = {}
    connect_timeout: _Seconds = 20
    list_timeout: _Seconds = 10
    call_timeout: _Seconds = 60
    roots: bool = True
    enabled: bool = True

    @model_validator(mode="after")
    def _one_way_to_reach_it(self) -> "ServerSettings":
        if self.enabled and bool(self.command) == bool(self.url):
            raise PydanticCustomError("server", "either `command` or `url` is needed, and not both")
        if self.url and not self.url.startswith(("http://", "https://", "${")):
            raise PydanticCustomError("server", "`url` begins with http:// or https://")
        return self

    def server(self, name: str) -> Server:
        """Return the server of that name."""
        deadlines = Deadlines(self.connect_timeout, self.list_timeout, self.call_timeout)
        if self.command:
            made = Server.stdio(name, self.command, *self.args, env=self.env, cwd=self.cwd, deadlines=deadlines)
        else:
            reached = Server.sse if self.transport == "sse" else Server.http
            made = reached(name, self.url, headers=self.headers, deadlines=deadlines)
        return replace(made, roots=self.roots)


class Settings(BaseModel):
    """`[packs.mcp]`: servers by name."""

    servers: dict[_Name, ServerSettings] = {}
