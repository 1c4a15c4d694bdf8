"""What one step of the run loop costs: an instant model asks for one trivial tool a step, everything in memory.

    .venv/bin/uv run python benchmarks/loop.py [STEPS TOOLS PACKS KIND]
    .venv/bin/uv run python benchmarks/loop.py --profile

Without arguments all cases run, each in a process of its own; with them one case, in this process. KIND is `async` or
`sync`. PACKS implement `agent_pre_step`, `guard_tool_call` and `observe`, and do nothing. With `--profile` the share of
each module in a step is told, as cProfile's own times give it: Python code looks dearer than it is, C code cheaper.
"""

import asyncio
import cProfile
import json
import pstats
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from common import environment, machine, make_packs
from pegboard import Finish, Host, Limits, ModelEvent, ModelRequest, Session, ToolCall
from pegboard.packs.discovery import Distribution, discover

CASES = [
    (100, 10, 5, "async"), (1000, 10, 5, "async"), (100, 1000, 5, "async"), (1000, 1000, 5, "async"),
    (100, 10, 50, "async"), (1000, 10, 50, "async"), (100, 10, 5, "sync"), (1000, 10, 0, "async"),
]  # fmt: skip
BUDGET_US = {5: 100, 50: 300}


class Instant:
    """Asks for `tool_0` in each of so many steps, then answers; stamps the start of every request."""

    label = "instant"

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.stamps: list[float] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield one call, or nothing after the last step."""
        self.stamps.append(time.process_time())
        n = len(self.stamps)
        if n <= self.steps:
            yield ToolCall(f"c{n}", "tool_0", json.dumps({"x": n}))
        yield Finish()


IDLE = """
from pegboard import hookimpl

class Pack:
    @hookimpl
    def agent_pre_step(self, step): pass
    @hookimpl
    def guard_tool_call(self, call): pass
    @hookimpl
    def observe(self, event): pass
"""
TOOLS = """
from pegboard import hookimpl, tool

def make(number):
    @tool(name=f"tool_{number}", effect="read")
    KIND def body(x: int) -> str:
        '''Answer.'''
        return f"ok {x}"
    return body

class Pack:
    @hookimpl
    def register_tools(self):
        return [make(number) for number in range(NUMBER)]
"""


def packs(folder: Path, tools: int, idle: int, kind: str) -> tuple[Distribution, ...]:
    """Write a pack with the tools and packs with nothing to say; return what is found."""
    code = TOOLS.replace("KIND", "async" if kind == "async" else "").replace("NUMBER", str(tools))
    make_packs(folder, idle + 1, IDLE)
    (folder / "bench_pack0.py").write_text(code.replace("     def", "    def"))
    sys.path.insert(0, str(folder))
    return discover([str(folder)])


async def run(
    steps: int, tools: int, idle: int, kind: str, profile: cProfile.Profile | None = None
) -> dict[str, float]:
    """Run one case and return its figures."""
    with tempfile.TemporaryDirectory() as folder:
        host = Host.open(environ={}, distributions=packs(Path(folder), tools, idle, kind))
    model = Instant(steps)
    definition = host.definition().model_copy(update={"limits": Limits(steps=steps + 1, tool_calls=steps)})
    session = Session.new(Path(tempfile.gettempdir()))
    agent = await host.create_agent(definition, session=session, model=model)
    if profile:
        profile.enable()
    end = await host.submit(agent, "go").wait()
    if profile:
        profile.disable()
    if end.reason != "completed" or end.calls != steps:
        raise SystemExit(f"the run did not do what it should: {end}")
    gaps = [(b - a) * 1e6 for a, b in zip(model.stamps, model.stamps[1:], strict=False)]
    tenth = max(len(gaps) // 10, 1)
    return {
        "us_per_step": (model.stamps[-1] - model.stamps[0]) * 1e6 / steps,
        "median_us": statistics.median(gaps),
        "first_tenth_us": statistics.median(gaps[:tenth]),
        "last_tenth_us": statistics.median(gaps[-tenth:]),
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def tell_shares() -> None:
    """Print how much of a step is spent in each module, and in which functions most of all."""
    profile = cProfile.Profile()
    asyncio.run(run(1000, 10, 5, "async", profile))
    shares: dict[str, float] = {}
    functions: list[tuple[float, str]] = []
    for (file, _, name), (_, _, own, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        module = Path(file).stem if file != "~" else "built in"
        shares[module] = shares.get(module, 0) + own
        functions.append((own, f"{module}.{name}"))
    whole = sum(shares.values())
    for module, own in sorted(shares.items(), key=lambda item: -item[1])[:24]:
        print(f"{own / whole:6.1%}  {module}")
    print("dearest: " + ", ".join(f"{name} {own / whole:.1%}" for own, name in sorted(functions, reverse=True)[:12]))


def main() -> None:
    """Run all cases, or the one that the arguments name."""
    if sys.argv[1:] == ["--profile"]:
        tell_shares()
        return
    if len(sys.argv) == 5:
        steps, tools, idle = map(int, sys.argv[1:4])
        print(json.dumps(asyncio.run(run(steps, tools, idle, sys.argv[4]))))
        return
    print(machine())
    env = environment()
    for case in CASES:
        command = [sys.executable, __file__, *map(str, case)]
        rows = [
            json.loads(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)
            for _ in range(5)
        ]
        figures = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        steps, tools, idle, kind = case
        budget = f"  budget {BUDGET_US[idle]} us" if idle in BUDGET_US and kind == "async" else ""
        print(
            f"{steps:>4} steps {tools:>4} tools {idle:>2} packs {kind:<5} {figures['median_us']:6.0f} us a step "
            f"(least of 5 runs {min(row['median_us'] for row in rows):.0f}; "
            f"first tenth {figures['first_tenth_us']:.0f}, last {figures['last_tenth_us']:.0f}), "
            f"{figures['rss_mb']:.0f} MB{budget}",
            flush=True,
        )


if __name__ == "__main__":
    main()
