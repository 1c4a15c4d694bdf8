"""Rules `alone`, `neighbour` and `residue`: whole lives of a host with the pack, each with one run of an agent."""

import asyncio
import gc
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pegboard import Agent, Event, Host, PegboardError, Run, RunEnd, Touch, hooks, implements, tool
from pegboard.events import Returned
from pegboard.hookspecs import KERNEL_HOOKS
from pegboard.testing.contract.report import Finding
from pegboard.testing.contract.specimen import Specimen
from pegboard.testing.models import ScriptedModel, call

_EXECUTOR: Final = ("asyncio_", "pegboard-tool")  # threads that Python and the kernel keep for later


@tool(effect="read", inline=True)
def probe_reading() -> str:
    """Do nothing, so that every hook of a call is asked."""
    return "nothing"


@tool(effect="write", touches=lambda path: [Touch.path(path)], inline=True)
def probe_writing(path: str) -> str:
    """Do nothing, so that guards are asked about a write to a path."""
    return f"nothing was written to {path}"


_PROBES: Final = (probe_reading, probe_writing)
_GUARD_FAULTS: Final = ("the guard failed", "the guard did not answer")
_FAILED: Final = ("TOOL_FAILED", "INVALID_TOOL_OUTPUT")  # a pack may also block, deny or hide: that is its decision


class _BreaksAtOnce:
    """A neighbour that can't be loaded."""

    @implements(hooks.register_tools)
    def register_tools(self) -> None:
        raise RuntimeError("the neighbour breaks, on purpose")


class _BreaksAlways:
    """A neighbour whose every observer raises."""

    @implements(hooks.run_starting)
    def run_starting(self, run: Run) -> None:
        raise RuntimeError("the neighbour breaks, on purpose")

    @implements(hooks.observe)
    def observe(self, event: Event) -> None:
        raise RuntimeError("the neighbour breaks, on purpose")

    @implements(hooks.run_stopping)
    def run_stopping(self, run: Run) -> None:
        raise RuntimeError("the neighbour breaks, on purpose")

    @implements(hooks.agent_disposed)
    def agent_disposed(self, agent: Agent) -> None:
        raise RuntimeError("the neighbour breaks, on purpose")


_NEIGHBOURS: Final[Mapping[str, object]] = {"a-broken-neighbour": _BreaksAtOnce, "a-raising-neighbour": _BreaksAlways}


def check_alone(specimen: Specimen) -> Iterator[Finding]:
    """Yield what fails in a life of the pack without others."""
    mend = "make it work with default settings, no network and no other pack; say what is missing in a result"
    for what in asyncio.run(_live(specimen)):
        yield Finding("alone", what, specimen.reference, mend)


def check_neighbour(specimen: Specimen) -> Iterator[Finding]:
    """Yield what fails beside two packs that raise."""
    mend = "rely on no other pack's success: ask `host.is_active`, and contain what others may break"
    for what in asyncio.run(_live(specimen, _NEIGHBOURS)):
        yield Finding("neighbour", f"beside packs that fail, {what}", specimen.reference, mend)


def check_residue(specimen: Specimen) -> Iterator[Finding]:
    """Yield what is left of the pack after it went."""
    for what, mend in asyncio.run(_residue(specimen)):
        yield Finding("residue", what, specimen.reference, mend)


async def _live(specimen: Specimen, packs: Mapping[str, object] | None = None) -> list[str]:
    """Live through one host with one agent and one run; returns what went wrong with the pack."""
    async with specimen.open(packs=packs) as host:
        pack = next(pack for pack in host.packs if pack.name == specimen.name)
        if pack.state != "active":
            return [f"the pack is {pack.state}: {pack.reason}"]
        try:
            events = await _run_once(specimen, host)
        except PegboardError as error:
            return [f"no agent can be created: {error}"]
        wrong = list(_failures(specimen, events))
    faults = [f"`{fault.hook}` fails: {fault.text}" for fault in host.faults if fault.pack == specimen.name]
    return list(dict.fromkeys([*wrong, *faults]))


async def _run_once(specimen: Specimen, host: Host) -> list[Event]:
    """Let an agent read, write and end; returns what was seen of it, also where the record fails."""
    seen: list[Event] = []
    undo = [*(host.tools.register(probe) for probe in _PROBES), host.listen(seen.append)]
    calls = (call("probe_reading"), call("probe_writing", path="plan.txt"))
    agent = await host.create_agent(model=ScriptedModel(*calls, "Nothing was done."), directory=Path.cwd())
    try:
        end = await agent.followup("Do nothing.", allow_writes=True).wait()
        specimen.run_ms = round(end.ms, 1)
        specimen.registered.extend(entry.tool for entry in agent.view().offered if entry.pack == specimen.name)
    finally:
        await host.dispose(agent)
        for dispose in undo:
            dispose()
    return [*seen, end]


def _failures(specimen: Specimen, events: Sequence[Event]) -> Iterator[str]:
    """Yield each way in which the pack, and not a decision of it, kept a run from going as it would."""
    end = events[-1]
    if isinstance(end, RunEnd) and end.reason == "error":
        yield f"a run ends with an error: {end.text}"
    for returned in events:
        if isinstance(returned, Returned):
            if returned.code in _FAILED:
                yield f"a call fails: {returned.content}"
            for refusal in returned.refusals:
                if refusal["pack"] == specimen.name and refusal["reason"].startswith(_GUARD_FAULTS):
                    yield f"`guard_tool_call` denies a call by its failure: {refusal['reason']}"


# -- what is left


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a process has that does not go away by itself, each by a name that a person can make something of."""

    tasks: frozenset[str]
    threads: frozenset[str]
    processes: frozenset[str]
    descriptors: frozenset[str]
    surroundings: frozenset[str]

    @classmethod
    def now(cls) -> "Holdings":
        """Take stock."""
        gc.collect()
        running = asyncio.all_tasks() - {asyncio.current_task()}
        threads = (thread for thread in threading.enumerate() if not thread.name.startswith(_EXECUTOR))
        return cls(
            frozenset(str(task.get_coro()) for task in running),
            frozenset(f"{thread.name} ({thread.ident})" for thread in threads),
            frozenset(_children()),
            frozenset(_descriptors()),
            frozenset([f"the current directory={os.getcwd()}", *(f"{k}={v}" for k, v in os.environ.items())]),
        )


_MENDS: Final[Mapping[str, tuple[str, str]]] = {
    "tasks": ("a task goes on", "start it with `host.start_task` or `agent.start_task`, which end it"),
    "threads": ("a thread goes on", "end it in `host_stopping`, or with `host.on_stop`"),
    "processes": ("a process goes on", "start it with `host.spawn` or `ctx.spawn`, which end it"),
    "descriptors": ("a descriptor stays open", "close it in `host_stopping`, or with `host.on_stop`"),
    "surroundings": ("the process is changed", "change no variable and no directory of the process"),
}


async def _residue(specimen: Specimen) -> list[tuple[str, str]]:
    await _live(specimen)  # what is kept for good after the first time, such as a cache, is no residue
    before = Holdings.now()
    await _live(specimen)
    after = Holdings.now()
    found: list[tuple[str, str]] = []
    for kind, (what, mend) in _MENDS.items():
        had, has = getattr(before, kind), getattr(after, kind)
        if kind == "surroundings":  # names, for a value may be a secret
            new = {each.partition("=")[0] for each in has ^ had}
        else:
            new = has - had if len(has) > len(had) else set()
        if new:
            found.append((f"{what} after the pack is gone: {'; '.join(sorted(new))}", mend))
    return [*found, *await _registered_after_unloading(specimen)]


async def _registered_after_unloading(specimen: Specimen) -> list[tuple[str, str]]:
    """Unload the pack while the host lives on, and compare what every agent has with what it had before."""
    async with specimen.open_without() as host:
        watching = await host.create_agent(model=ScriptedModel(), directory=Path.cwd())
        before = set(_registered(host, watching))
        await host.load_pack(specimen.name, specimen.target)
        await _run_once(specimen, host)
        await host.unload_pack(specimen.name)
        left = set(_registered(host, watching)) - before
    mend = "register in a hook of the pack, where the kernel knows whose it is, and it goes with the pack"
    return [(f"{what} is still there after the pack is gone", mend) for what in sorted(left)]


def _registered(host: Host, agent: Agent) -> Iterator[str]:
    yield from (f"tool `{name}`" for name in agent.view().names)
    for hook in KERNEL_HOOKS:
        yield from (f"an implementation of `{hook}` by `{pack}`" for pack, _ in host.hook_order(hook))


def _children() -> Iterator[str]:
    """Yield the live children of this process, where the system tells (`/proc`)."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            identity, _, rest = status.read_text("utf-8", "replace").partition(" (")
            name, _, fields = rest.rpartition(") ")
            if fields.split()[1] == str(os.getpid()):
                yield f"{name} ({identity})"


def _descriptors() -> Iterator[str]:
    """Yield the open descriptors, where the system tells."""
    with suppress(OSError):
        for entry in os.listdir("/proc/self/fd"):
            with suppress(OSError):  # the one that the list itself was read with
                yield f"{os.readlink(f'/proc/self/fd/{entry}')} ({entry})"
