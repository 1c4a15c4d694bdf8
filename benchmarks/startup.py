"""What the first line costs: `--version`, `--help`, `packs list`, `packs list --load` with 50 packs installed.

    .venv/bin/uv run python benchmarks/startup.py [--peers]

With --peers, llm and bub are installed into throw-away environments and measured in the same run.
"""

import statistics
import sys
import tempfile
from pathlib import Path

from common import RUNS, WARM_UPS, cpu_ms, environment, machine, make_packs, median_cpu

PYTHON = sys.executable
PEGBOARD = str(Path(PYTHON).with_name("pegboard"))
CASES = [
    ("bare Python", [PYTHON, "-c", "pass"], ""),
    ("import click", [PYTHON, "-c", "import click"], ""),
    ("pegboard --version", [PEGBOARD, "--version"], "20"),
    ("pegboard --help", [PEGBOARD, "--help"], "90"),
    ("pegboard packs list", [PEGBOARD, "packs", "list"], "100"),
    ("pegboard packs list --load", [PEGBOARD, "packs", "list", "--load"], "350"),
    ("pegboard tools", [PEGBOARD, "tools"], ""),
]
PEERS = {"llm": ["--version", "--help", "plugins"], "bub": ["--help", "hooks"]}


def main() -> None:
    """Print one line a case."""
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        packs = make_packs(Path(folder) / "packs", 50)
        env = environment(packs)
        # One round after the other, so that a slow minute of the machine is every case's.
        rounds = [[cpu_ms(arguments, env) for _, arguments, _ in CASES] for _ in range(RUNS + WARM_UPS)][WARM_UPS:]
        medians = [statistics.median(times) for times in zip(*rounds, strict=True)]
        for (name, _, budget), median, times in zip(CASES, medians, zip(*rounds, strict=True), strict=True):
            told = f"  budget {budget} ms" if budget else ""
            print(f"{name:<28} {median:6.1f} ms  least {min(times):6.1f}  {median / medians[0]:5.1f} x bare{told}")
    if "--peers" in sys.argv:
        measure_peers()


def measure_peers() -> None:
    """Install each peer into an environment of its own; one that does not install is said so."""
    import subprocess

    for peer, commands in PEERS.items():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            python = Path(folder) / "bin" / "python"
            installed = subprocess.run([python, "-m", "pip", "install", "-q", peer], capture_output=True, check=False)
            if installed.returncode:
                print(f"{peer:<28} does not install here")
                continue
            version = subprocess.run(
                [python, "-c", f"import importlib.metadata as m; print(m.version('{peer}'))"],
                capture_output=True, text=True, check=True,
            ).stdout.strip()  # fmt: skip
            for command in commands:
                name = f"{peer} {version} {command}"
                try:
                    told = median_cpu([str(python.with_name(peer)), command], environment())
                except subprocess.CalledProcessError:
                    told = "does not run here"
                print(f"{name:<28} {told}", flush=True)


if __name__ == "__main__":
    main()
