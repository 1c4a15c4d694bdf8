"""One run's own page of the record: what it appends, what it only shows, and which outputs are kept whole."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pegboard.base.errors import PegboardError
from pegboard.base.frozen import freeze
from pegboard.base.isolation import current_pack, describe
from pegboard.base.scopes import Scope
from pegboard.base.text import one_line
from pegboard.record.recorder import Recorder
from pegboard.record.session import Session
from pegboard.values.events import Event, Note, Progress, Returned


class RecordLost(Exception):
    """The store could not keep an entry: the run must end, and a tool must not run unrecorded."""


class Journal:
    """Writes for one run. `run` and `step` are the numbers that its events bear; `writing`: an append is under way.

    `agent` is the definition's name. What somebody who watches raises is handed to `on_raised`.
    """

    __slots__ = ("_on_raised", "_recorder", "_scope", "_session", "agent", "run", "step", "writing")

    def __init__(
        self, recorder: Recorder, session: Session, scope: Scope, agent: str, on_raised: Callable[[Exception], object]
    ) -> None:
        self._recorder = recorder
        self._session = session
        self._scope = scope
        self.agent = agent
        self._on_raised = on_raised
        self.run = self.step = 0
        self.writing = False

    def head(self) -> tuple[str, int, float]:
        """The head of an event that happens now."""
        return self._session.id, self.run, time.time()

    @property
    def filters(self) -> bool:
        """Whether a pack filters what is recorded: then nothing is shown that did not go through it."""
        return self._recorder.filters(self._scope)

    async def record(self, *events: Event, filtered: bool = False, beside: bool = False) -> Sequence[Event]:
        """Append events; returns them as they were recorded. `beside`: not in the run's own task.

        Raises:
            RecordLost: they were not.
        """
        self.writing = self.writing or not beside
        try:
            recorded, raised = await self._recorder.record(
                self._session, self._scope, events, self.agent, filtered=filtered
            )
        except PegboardError as lost:
            raise RecordLost(f"the session can't be recorded: {lost}") from lost
        except Exception as error:  # a store that raises what it may not
            raise RecordLost(f"the session can't be recorded: {describe(error)}") from error
        finally:
            self.writing = self.writing and beside
        if raised is not None:
            self._on_raised(raised)
        return recorded

    async def note(self, name: str, data: Mapping[str, Any]) -> None:
        """Record a pack's own fact: JSON data under a name of the pack's. Any task may do so, whatever the run does.

        Raises:
            RecordLost: it was not recorded.
        """
        note = Note(*self.head(), pack=current_pack.get(), name=name, data=freeze(dict(data)))
        await self.record(note, beside=True)

    def show(self, event: Event) -> None:
        """Tell whoever watches about something that is not recorded, unless what is recorded is filtered."""
        if not self.filters:
            self.show_filtered(event)

    def show_filtered(self, event: Event) -> None:
        """Tell whoever watches about something that the filters have seen."""
        if raised := self._recorder.show(event, self._session.last):
            self._on_raised(raised)

    def progress(self, text: str, pack: str | None = None) -> None:
        """Show a line to whoever watches; it is the calling pack's unless one is named."""
        self.show(Progress(*self.head(), pack=current_pack.get() if pack is None else pack, text=text))

    # -- results that are kept whole

    async def filtered(self, returned: Returned) -> Returned:
        """Return a result as the filters leave it; recorded with `filtered=True` they don't see it again."""
        left = await self._recorder.filter(returned, self._session, self._scope)
        assert isinstance(left, Returned)  # noqa: S101  # a filter keeps the kind
        return left

    async def keep(self, returned: Returned) -> Returned:
        """Keep the whole text of a result; returns that with its key.

        Raises:
            PegboardError: it can't be kept.
        """
        key = await self._recorder.keep(returned.content.encode("utf-8", "surrogatepass"))
        return replace(returned, output=key)

    async def output(self, name: str) -> str:
        """Return the whole text of a result of this session that was cut.

        Raises:
            LookupError: the session has no such output.
        """
        key = self._session.outputs.get(name)
        if key is None:
            raise LookupError(f"this session has no output {one_line(name, 40)}")
        return (await self._recorder.kept(key)).decode("utf-8", "surrogatepass")
