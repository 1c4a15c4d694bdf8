"""What one hook call costs, failures isolated, beside bare pluggy calling the same objects; and what registering costs.

    .venv/bin/uv run python benchmarks/hooks.py

Implementations do nothing. Ours are called through the dispatcher as an agent sees them; pluggy's `hook(...)` isolates
nothing and awaits nothing, so of async implementations the caller awaits what it returned, in order. pluggy has no fold
and nests nothing: there it calls all of them with the same arguments.
"""

import asyncio
import inspect
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pluggy
from common import machine
from pegboard import Host, Outcome, hookimpl
from pegboard.base.scopes import Scope
from pegboard.config.places import Places
from pegboard.dispatch.dispatcher import Dispatcher
from pegboard.dispatch.guards import ask_all
from pegboard.hookspecs import Hooks
from pegboard.values.hook_markers import PROJECT

ROUNDS = 60
CALLS = 100
NUMBERS = (1, 10, 50)
RESULT = Outcome("ok", "", "")
Work = Callable[[], Awaitable[object]]


class Plain:
    """Does nothing, without async."""

    @hookimpl
    def observe(self, event: object) -> None:
        """Nothing."""

    @hookimpl
    def guard_tool_call(self, call: object) -> None:
        """Nothing."""

    @hookimpl
    def agent_pre_step(self, step: object) -> None:
        """Nothing."""

    @hookimpl
    def wrap_tool_call(self, call: object, proceed: Work) -> Awaitable[object]:
        """Go on."""
        return proceed()


class Async:
    """Does nothing, with async. `observe` may not be async."""

    @hookimpl
    async def guard_tool_call(self, call: object) -> None:
        """Nothing."""

    @hookimpl
    async def agent_pre_step(self, step: object) -> None:
        """Nothing."""

    @hookimpl
    async def wrap_tool_call(self, call: object, proceed: Work) -> object:
        """Go on."""
        return await proceed()


async def body(_call: object) -> Outcome:
    """What the wrappers are around."""
    return RESULT


async def go_on() -> Outcome:
    """What pluggy's callers give as `proceed`."""
    return RESULT


def ours(dispatcher: Dispatcher, scope: Scope, payload: object) -> dict[str, Work]:
    """Return one call for each kind, as the kernel makes it."""

    async def observers() -> None:
        dispatcher.notify("observe", payload, scope)

    return {
        "observers": observers,
        "guards": lambda: ask_all(dispatcher.plan("guard_tool_call", scope), payload),
        "fold": lambda: dispatcher.fold("agent_pre_step", scope, payload, lambda value, _answer: value),
        "around": lambda: dispatcher.around("wrap_tool_call", scope, body, payload, wanted=Outcome),
    }


def theirs(hook: Any, payload: object) -> dict[str, Work]:
    """Return the same calls through pluggy, answers awaited in order where they must be."""

    def calling(name: str, **arguments: object) -> Work:
        async def call() -> None:
            for answer in getattr(hook, name)(**arguments):
                if inspect.isawaitable(answer):
                    await answer

        return call

    return {
        "observers": calling("observe", event=payload),
        "guards": calling("guard_tool_call", call=payload),
        "fold": calling("agent_pre_step", step=payload),
        "around": calling("wrap_tool_call", call=payload, proceed=go_on),
    }


async def cpu_us(work: Work, calls: int) -> float:
    """Return the CPU time of one of so many calls, in microseconds."""
    before = time.process_time()
    for _ in range(calls):
        await work()
    return (time.process_time() - before) * 1e6 / calls


async def compare(label: str, works: dict[str, Work], calls: int = CALLS) -> None:
    """Print one line: medians, leasts and the ratio to the last of the works, whose rounds are interleaved."""
    rounds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS + 5):
        for name, work in works.items():
            rounds[name].append(await cpu_us(work, calls))
    warm = {name: times[5:] for name, times in rounds.items()}
    told = "   ".join(
        f"{name} {statistics.median(times):7.1f} us (least {min(times):6.1f})" for name, times in warm.items()
    )
    first, last = next(iter(warm.values())), list(warm.values())[-1]
    ratio = statistics.median(first) / statistics.median(last)
    print(f"{label:<28} {told}   ratio {ratio:4.2f} (of leasts {min(first) / min(last):4.2f})", flush=True)


async def calls() -> None:
    """Measure one call of each kind."""
    payload = object()
    for colour in (Plain, Async):
        for kind in ("observers", "guards", "fold", "around")[colour is Async :]:
            for number in NUMBERS:
                objects = [colour() for _ in range(number)]
                faults: list[object] = []
                dispatcher, manager = Dispatcher(faults.append), pluggy.PluginManager(PROJECT)
                manager.add_hookspecs(Hooks)
                for place, one in enumerate(objects):
                    dispatcher.register(f"pack{place}", one)
                    manager.register(one)
                scope = Scope("agent", dispatcher.host)
                pair = {
                    "pegboard": ours(dispatcher, scope, payload)[kind],
                    "pluggy": theirs(manager.hook, payload)[kind],
                }
                each = 1 if colour is Async and kind == "guards" else CALLS // 10 if number > 1 else CALLS
                await compare(f"{kind}, {number} {colour.__name__.lower()}", pair, each)
                if faults:
                    raise SystemExit(f"an implementation failed: {faults[0]}")


async def registration() -> None:
    """Measure an object that one agent sees: registered, asked once, and gone again."""
    packs = {f"pack{number}": Plain() for number in range(10)}
    payload = object()
    with TemporaryDirectory() as folder:
        places = Places(Path(folder) / "config.toml", Path(folder) / "state")
        async with Host.open(environ={}, distributions=[], packs=packs, places=places) as host:
            agent = await host.create_agent(directory=Path(folder))

            async def on_agent() -> None:
                dispose = agent.register(Plain())
                await ask_all(agent.services.dispatcher.plan("guard_tool_call", agent.scope), payload)
                dispose()

            async def shared_manager() -> None:
                one = Plain()
                shared.register(one)
                shared.hook.guard_tool_call(call=payload)
                shared.unregister(one)

            async def manager_of_its_own() -> None:
                manager = pluggy.PluginManager(PROJECT)
                manager.add_hookspecs(Hooks)
                for one in (*packs.values(), Plain()):
                    manager.register(one)
                manager.hook.guard_tool_call(call=payload)

            shared = pluggy.PluginManager(PROJECT)
            shared.add_hookspecs(Hooks)
            for one in packs.values():
                shared.register(one)
            works = {"agent.register": on_agent, "one manager": shared_manager, "manager each": manager_of_its_own}
            await compare("10 packs and the agent's own", works, 5)


async def main() -> None:
    """Print all lines."""
    print(machine(), f"pluggy {pluggy.__version__}", sep=", ")
    await calls()
    await registration()


if __name__ == "__main__":
    asyncio.run(main())
