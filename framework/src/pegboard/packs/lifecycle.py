"""The packs of a live host: started, loaded and unloaded while it runs, and everything that they hold, by pack."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pegboard.base.errors import PegboardError, UsageError
from pegboard.base.isolation import current_pack, describe
from pegboard.base.scopes import Disposer, Scope
from pegboard.base.text import one_line
from pegboard.config.layers import Config
from pegboard.dispatch.dispatcher import Dispatcher, Fault, HookFailure, Misfit
from pegboard.dispatch.tasks import Tasks
from pegboard.packs.discovery import in_process
from pegboard.packs.loading import Loader
from pegboard.packs.survey import Pack, survey
from pegboard.process.processes import Processes
from pegboard.process.spec import ProcessRefused, ProcessSpec
from pegboard.values.verdicts import Deny

if TYPE_CHECKING:
    from pegboard.hookspecs import Host


class Packs:
    """Keeps the state of each pack, its tasks, its processes, and what is to be undone when it goes (rule 14)."""

    def __init__(self, host: "Host", config: Config, loader: Loader, dispatcher: Dispatcher) -> None:
        self._host = host
        self._config = config
        self._loader = loader
        self._dispatcher = dispatcher
        self._stops: list[tuple[str, Disposer]] = []
        self._started = False
        self.packs: tuple[Pack, ...] = ()
        self.tasks = Tasks(dispatcher.host, host.faults)
        self.processes = Processes(self._prepare_process)

    # -- going up and down

    async def start(self) -> None:
        """Tell the packs that the host is up; one that fails becomes inactive, and so does what needs it."""
        self._started = True
        for name in dict.fromkeys(one.pack for one in self._dispatcher.plan("host_started")):
            await self._start_pack(name)

    async def stop(self) -> None:
        """Tell the packs, end their tasks and processes, undo what is theirs."""
        await self._dispatcher.in_order("host_stopping", self._host)
        await self.tasks.end()
        await self.processes.end_all()
        self._undo_stops(lambda _pack: True)

    async def _start_pack(self, name: str) -> None:
        try:
            await self._dispatcher.in_order("host_started", self._host, among=(name,))
        except HookFailure as failure:
            failed = failure.fault.text
            await self._take_away(name)
            self._change(name, lambda pack: pack.failed(one_line(f"host_started failed: {failed}", 4000)))
            await self._hold_back_those_that_need(name)

    async def _hold_back_those_that_need(self, name: str) -> None:
        for pack in self.packs:
            if pack.state == "active" and name in pack.needs:
                await self._take_away(pack.name)
                reason = f"it needs pack `{name}`, which is failed"
                self._change(pack.name, partial(replace, state="waiting", reason=reason))
                await self._hold_back_those_that_need(pack.name)

    # -- one pack

    async def load(self, name: str, target: object) -> Pack:
        """Load one more pack, of the program itself.

        Raises:
            UsageError: a pack of that name is active.
            PegboardError: it can't be loaded, with the reason; nothing of it is left.
        """
        if self.is_active(name):
            raise UsageError(f"pack `{name}` is active already")
        self._loader.add_object(name, target)
        (pack,) = self._loader.load(survey([in_process(name)], self._config))
        self.packs = (*(known for known in self.packs if known.name != name), pack)
        if pack.state == "active" and self._started:
            await self._start_pack(name)
        pack = next(known for known in self.packs if known.name == name)
        if pack.state != "active":
            raise PegboardError(f"pack `{name}` is {pack.state}: {pack.reason}")
        return pack

    async def unload(self, name: str) -> None:
        """Take a pack away again with everything it registered, here and on agents; harmless if it is not active."""
        if not self.is_active(name):
            return
        await self._dispatcher.in_order("host_stopping", self._host, among=(name,))
        await self._take_away(name)
        self._change(name, lambda pack: replace(pack, state="disabled", reason="it was unloaded"))

    def is_active(self, name: str) -> bool:
        """Whether a pack of that name is active."""
        return any(pack.name == name and pack.state == "active" for pack in self.packs)

    async def _take_away(self, name: str) -> None:
        await self.tasks.end(name)
        for agent in self._host.agents:  # what still connects for a run
            await agent.tasks.end(name)
        await self.processes.end_owned(name)
        self._undo_stops(lambda pack: pack == name)
        self._loader.undo(name)

    def _change(self, name: str, change: Callable[[Pack], Pack]) -> None:
        self.packs = tuple(change(pack) if pack.name == name else pack for pack in self.packs)

    # -- what a pack holds

    def on_stop(self, undo: Disposer) -> Disposer:
        """Call `undo` when the calling pack, or the host, goes away; newest first. Returns what takes that back."""
        entry = (current_pack.get(), undo)
        self._stops.append(entry)
        return lambda: self._stops.remove(entry) if entry in self._stops else None

    def _undo_stops(self, chosen: Callable[[str], bool]) -> None:
        for entry in reversed(self._stops.copy()):
            if chosen(entry[0]):
                self._stops.remove(entry)
                try:
                    entry[1]()
                except Exception as error:
                    self._host.faults.append(Fault(entry[0], "on_stop", describe(error)))

    async def _prepare_process(self, spec: ProcessSpec) -> ProcessSpec:
        """Let the packs rewrite or refuse what is about to be started; one that fails refuses it."""
        agent = next((agent for agent in self._host.agents if agent.id == spec.session), None)
        scope: Scope = agent.scope if agent else self._dispatcher.host
        try:
            prepared: ProcessSpec = await self._dispatcher.fold("prepare_process", scope, spec, _accept_process)
        except HookFailure as failure:
            raise ProcessRefused(str(failure)) from failure
        return prepared


def _accept_process(before: ProcessSpec, answer: object) -> ProcessSpec:
    if isinstance(answer, Deny):
        raise ProcessRefused(answer.reason)
    if not isinstance(answer, ProcessSpec):
        raise Misfit(f"{type(answer).__name__}, not ProcessSpec, Deny or None")
    return replace(answer, owner=before.owner, session=before.session)


def refuse_missing_packs(packs: Iterable[Pack], config: Config) -> None:
    """Stop unless every required pack is active; one that claims policy is required unless the user disabled it.

    Raises:
        PegboardError: naming the pack, its state and who requires it.
    """
    names = set()
    for pack in packs:
        names.add(pack.name)
        required = config.get("packs", pack.name, "required")
        asked = required is not None and required.value is True
        claims = pack.distribution.claims_policy and pack.state != "disabled"
        if (asked or claims) and pack.state != "active":
            why = f"`required = true` in {required.where}" if required and asked else "it claims policy"
            raise PegboardError(f"pack `{pack.name}` is {pack.state} ({pack.reason}) but required: {why}")
    for name in config.table("packs"):
        required = config.get("packs", name, "required")
        if required and required.value and name not in names:
            told = f"`required = true` in {required.where}"
            raise PegboardError(f"pack `{name}` is not installed but required: {told}")
