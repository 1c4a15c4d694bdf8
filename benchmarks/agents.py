"""What creating and disposing of an agent costs beside others that live, and how much memory a live one holds.

    .venv/bin/uv run python benchmarks/agents.py [LIVE PACKS OWN]

Without arguments all cases run, each in a process of its own. PACKS implement `agent_created` and `agent_disposed` and
do nothing. OWN is 1 where `setup` registers a tool and a guard on the agent. Each agent's tools and guards are looked
up once before it goes, so that what is made on first use is counted. The directory is empty.
"""

import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory

from common import environment, machine
from pegboard import Agent, Host, hookimpl, tool
from pegboard.config.places import Places

LIVE = (1, 200, 1000)
PACKS = (0, 5, 50)
ROUNDS = 40
AGENTS = 10


class Idle:
    """A pack that hears of every agent."""

    @hookimpl
    def agent_created(self, agent: Agent) -> None:
        """Nothing."""

    @hookimpl
    def agent_disposed(self, agent: Agent) -> None:
        """Nothing."""


class Guard:
    """An agent's own guard."""

    @hookimpl
    def guard_tool_call(self, call: object) -> None:
        """Nothing."""


@tool(effect="read")
async def own_tool(x: int) -> str:
    """An agent's own tool."""
    return str(x)


def register_own(agent: Agent) -> None:
    """Give an agent a tool and a guard that no other agent sees."""
    agent.tools.register(own_tool)
    agent.register(Guard())


async def create(host: Host, folder: Path, own: bool) -> Agent:
    """Create an agent and look its tools and guards up."""
    agent = await host.create_agent(directory=folder, setup=register_own if own else None)
    agent.view()
    agent.services.dispatcher.plan("guard_tool_call", agent.scope)
    return agent


async def run(live: int, packs: int, own: bool) -> dict[str, float]:
    """Run one case and return its figures: microseconds of CPU for an agent, and kilobytes for a live one."""
    with TemporaryDirectory() as base:
        folder, named = Path(base) / "work", {f"pack{number}": Idle() for number in range(packs)}
        folder.mkdir()
        places = Places(Path(base) / "config.toml", Path(base) / "state")
        async with Host.open(environ={}, distributions=[], packs=named, places=places) as host:
            await (await create(host, folder, own)).dispose()  # what is made once for all
            gc.collect()
            tracemalloc.start()
            held = [await create(host, folder, own) for _ in range(live)]
            gc.collect()
            memory = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
            rounds = [await one_round(host, folder, own) for _ in range(ROUNDS + 5)][5:]
            if len(host.agents) != len(held) or host.faults:
                raise SystemExit(f"{len(host.agents)} agents are left, faults: {host.faults}")
    return {"us": statistics.median(rounds), "least_us": min(rounds), "kb": memory / live / 1024}


async def one_round(host: Host, folder: Path, own: bool) -> float:
    """Create and dispose of some agents; returns what one of them cost."""
    before = time.process_time()
    for _ in range(AGENTS):
        await (await create(host, folder, own)).dispose()
    return (time.process_time() - before) * 1e6 / AGENTS


def main() -> None:
    """Run all cases, or the one that the arguments name."""
    if len(sys.argv) == 4:
        live, packs, own = map(int, sys.argv[1:])
        print(json.dumps(asyncio.run(run(live, packs, bool(own)))))
        return
    print(machine())
    for own in (0, 1):
        for packs in PACKS:
            for live in LIVE:
                command = [sys.executable, __file__, *map(str, (live, packs, own))]
                told = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stdout
                row = json.loads(told)
                what = "a tool and a guard of its own" if own else "nothing of its own"
                print(
                    f"{live:>4} live, {packs:>2} packs, {what:<29} {row['us']:6.0f} us an agent "
                    f"(least {row['least_us']:.0f}), {row['kb']:5.1f} kB a live one",
                    flush=True,
                )


if __name__ == "__main__":
    main()
