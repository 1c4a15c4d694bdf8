"""What the measuring scripts share: CPU time of child processes, sample packs, medians."""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

RUNS = 10
WARM_UPS = 2
_PACK = '''"""A pack for measuring."""
from pegboard import hookimpl, tool


@tool(effect="read")
def tool_{n}(x: int) -> str:
    """A trivial tool."""
    return f"ok {x}"


class Pack:
    @hookimpl
    def register_tools(self):
        return [tool_{n}]
'''


def cpu_ms(command: Sequence[str], env: dict[str, str]) -> float:
    """Return the CPU time (user and system, milliseconds) of one run of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=env, cwd=tempfile.gettempdir(), capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def median_cpu(command: Sequence[str], env: dict[str, str]) -> str:
    """Return the median of ten runs after two warm-ups, with the least and the most."""
    times = [cpu_ms(command, env) for _ in range(RUNS + WARM_UPS)][WARM_UPS:]
    return f"{statistics.median(times):7.1f} ms  ({min(times):.1f} to {max(times):.1f})"


def environment(folder: Path | None = None) -> dict[str, str]:
    """Return an environment with an empty home, bytecode allowed, and a folder of packs on the path."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    home = tempfile.mkdtemp(prefix="pegboard-bench-")
    return {**kept, "HOME": home, "XDG_CONFIG_HOME": home, "PYTHONPATH": str(folder or "")}


def make_packs(folder: Path, number: int, code: str = _PACK) -> Path:
    """Write `number` distributions, each a pack with one tool and entry points of other groups too."""
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(number):
        info = folder / f"bench_pack{n}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: bench-pack{n}\nVersion: 1.0\n\n" + "text\n" * 40)
        (info / "entry_points.txt").write_text(
            f"[console_scripts]\nbench{n} = bench_pack{n}:main\n\n[pegboard.packs]\nbench{n} = bench_pack{n}:Pack\n\n"
            f"[pegboard.commands]\n"
        )
        (folder / f"bench_pack{n}.py").write_text(code.replace("{n}", str(n)))
    return folder


def machine() -> str:
    """Return a line about the machine and the interpreter."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), sys.platform)
    return f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, {model}"
