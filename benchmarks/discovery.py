"""What finding the packs costs with 0, 50 and 200 of them, beside importlib-metadata; a disabled one costs no import.

.venv/bin/uv run python benchmarks/discovery.py
"""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from common import environment, machine, make_packs

OURS = """
import time
import pegboard.packs.discovery as d
a = time.process_time(); n = sum(x.pack is not None for x in d.discover()); b = time.process_time()
print((b - a) * 1000, n)
"""
THEIRS = """
import time
import importlib_metadata as m
a = time.process_time(); n = len([e.dist.name for e in m.entry_points(group='pegboard.packs')]); b = time.process_time()
print((b - a) * 1000, n)
"""
DISABLED = """
import sys
from pegboard import Host
Host.open(disable=[f'bench{n}' for n in range(200)])
print(sum(name.startswith('bench_pack') for name in sys.modules))
"""


def measure(code: str, folder: Path) -> tuple[float, str]:
    """Return the median of nine child processes in milliseconds, and how many packs were found."""
    env = environment(folder)
    printed = [
        subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(10)
    ][1:]
    return statistics.median(float(row[0]) for row in printed), printed[0][1]


def main() -> None:
    """Print one line a number of packs."""
    print(machine())
    with tempfile.TemporaryDirectory() as base:
        for number in (0, 50, 200):
            folder = make_packs(Path(base) / str(number), number)
            (ours, found), (theirs, _) = measure(OURS, folder), measure(THEIRS, folder)
            budget = "  budget 6 ms" if number == 200 else ""
            print(
                f"{number:>3} packs ({found} found): scan {ours:5.2f} ms, importlib-metadata {theirs:6.2f} ms{budget}"
            )
        env = environment(Path(base) / "200")
        imported = subprocess.run([sys.executable, "-c", DISABLED], env=env, capture_output=True, text=True, check=True)
        print(f"200 packs disabled: {imported.stdout.strip()} imported")


if __name__ == "__main__":
    main()
