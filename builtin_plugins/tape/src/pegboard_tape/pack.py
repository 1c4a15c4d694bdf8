"""The pack: its settings, and the store that it keeps sessions in."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated

from pegboard import Agent, Host, PegboardError, Prompt, SessionStore, Tool, hooks, implements, user_only
from pydantic import BaseModel, ConfigDict, Field, field_validator

from pegboard_tape.anchors import cursor_of
from pegboard_tape.context import SessionContext, Window
from pegboard_tape.links import ChildLink
from pegboard_tape.redact import Redactor
from pegboard_tape.store import TapeStore
from pegboard_tape.tools import PAIR, tape_tools


class Settings(BaseModel):
    """`[packs.tape]`: the absolute `path` of the folder in which sessions are kept; without it, Pegboard's own state.

    `durable`: everything that is recorded survives a power cut, not only questions and answers. `redact`: what looks
    like a secret is masked before it is recorded, or a model or anybody else sees it; replies are then shown whole.

    `window` is how many tokens the models read at once, `reserve` what of it is kept free for a reply. What no longer
    fits is summed up, but for about `turns` whole turns.
    """

    model_config = ConfigDict(extra="forbid")

    path: Annotated[Path | None, user_only] = Field(default=None, strict=False)
    durable: bool = False
    redact: bool = False
    window: int = Field(default=128_000, ge=1000)
    reserve: int = Field(default=8_000, ge=0)
    turns: int = Field(default=2, ge=0)

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        if path is not None and not path.is_absolute():
            raise ValueError("is a relative path; give an absolute one")
        return path


class Tape:
    """Keeps every session in one file, unless another pack brings a store."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._store: TapeStore | None = None
        self._kept: TapeStore | None = None  # the same, where it is the host's

    @implements(hooks.register_tools)
    def register_tools(self) -> Iterable[Tool]:
        """Hand over the tools."""
        return tape_tools(lambda: self._kept)

    @implements(hooks.session_store, trylast=True)
    def session_store(self, host: Host) -> SessionStore:
        """Open the store; it is closed when the host stops."""
        self._kept = self.store(host)
        return self._kept

    @implements(hooks.agent_created)
    def agent_created(self, agent: Agent) -> None:
        """Let the agent's model be told what fits, and its parent's record know how far it has come."""
        settings = self.settings
        window = Window(settings.window, settings.reserve, settings.turns)
        agent.register(SessionContext(agent, window, self._cursor))
        if settings.redact:
            agent.register(Redactor())
        if agent.parent is not None:
            agent.register(ChildLink(agent, lambda: self._kept))

    async def _cursor(self, session: str) -> int:
        """Return the first entry that need be read; only this pack's own store knows a short way to it."""
        if self._kept is None:
            return 1
        return await self._kept.look(partial(cursor_of, session=session))

    @implements(hooks.assemble_prompt)
    async def offer(self, agent: Agent, prompt: Prompt) -> Prompt | None:
        """Leave the tools out where another pack keeps the sessions."""
        if prompt.phase == "step":
            return None
        try:
            ours = await agent.host.store() is self._kept
        except PegboardError:  # a run fails when it is recorded; to look at the tools needs no store
            return None
        return None if ours else prompt.omitting(PAIR)

    def store(self, host: Host) -> TapeStore:
        """Return the open store of this pack, whoever's store the host uses.

        Raises:
            PegboardError: the file can't be used.
        """
        if self._store is None:
            folder = self.settings.path or host.state_dir("tape")
            self._store = TapeStore(folder, durable=self.settings.durable)
        return self._store

    @implements(hooks.host_stopping)
    def close(self, host: Host) -> None:
        """Close the file."""
        if self._store is not None:
            self._store.close()
            self._store = self._kept = None
