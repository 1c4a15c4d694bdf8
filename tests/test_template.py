"""The template end to end: what `pegboard new` writes is built, installed, tested, used and taken away again.

In an environment that has nothing but our wheels and what they need; no file is edited.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs("models", "new", "workspace")

ROOT = Path(__file__).parent.parent
TOOLS = Path(sys.executable).parent
OURS = ("framework", "builtin_plugins/models", "builtin_plugins/new", "builtin_plugins/workspace")
OPTIONS = {  # those that nobody gives are the tutorial's
    "two-words": ("--license", "MIT", "--author", "Zoë O'Neil", "--distribution", "acme-two"),
    "a-name-as-long-as-a-name-can-be1": ("--license", "Proprietary", "--distribution", "d" * 41),
}


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and a home and a working directory beside it."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"

    def pip(self, *arguments: str | Path) -> None:
        """Install, or uninstall, with uv."""
        verb, *rest = arguments
        self.run([TOOLS / "uv", "pip", verb, "-q", "--python", self.python, *rest])

    def pegboard(self, *arguments: str | Path) -> str:
        """Run its command line; returns what it printed."""
        return self.run([self.python, "-m", "pegboard", *arguments])

    def run(self, command: Sequence[str | Path], cwd: Path | None = None) -> str:
        """Run a command that must succeed; returns what it printed."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PEGBOARD_", "PYTHON"))}
        home = {name: str(self.folder / "home") for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME")}
        path = os.pathsep.join([str(self.folder / "bin"), str(self.python.parent), kept["PATH"]])
        ended = subprocess.run(
            list(map(str, command)),
            cwd=cwd or self.folder / "work",
            env={**kept, **home, "PATH": path, "UV_CONSTRAINT": str(ROOT / "constraints.txt")},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert ended.returncode == 0, f"{command}: exit {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    def make_pip(self) -> None:
        """Let `pip` on the path be uv, which installs what it has installed before without a network."""
        program = self.folder / "bin" / "pip"
        program.parent.mkdir()
        line = f'verb=$1; shift; [ "$1" != -y ] || shift; exec {TOOLS}/uv pip "$verb" -q --python {self.python} "$@"'
        program.write_text(f"#!/bin/sh\n{line}\n", "utf-8")
        program.chmod(0o755)


def build(environment: Environment, project: Path, into: Path) -> Path:
    """Build a project's wheel; returns it."""
    before = set(into.glob("*.whl"))
    environment.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", into], cwd=project)
    (wheel,) = set(into.glob("*.whl")) - before
    return wheel


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with our wheels, and with what pack authors test with."""
    if not (TOOLS / "uv").exists():
        pytest.skip("uv is not installed")
    made = Environment(tmp_path_factory.mktemp("environment"))
    for name in ("home", "work", "wheels"):
        (made.folder / name).mkdir()
    made.run([TOOLS / "uv", "venv", "-q", "--python", sys.executable, made.folder / "venv"])
    wheels = [build(made, ROOT / project, made.folder / "wheels") for project in OURS]
    made.pip("install", "pytest", *wheels)
    made.make_pip()
    return made


@pytest.mark.parametrize("name", OPTIONS)
def test_a_new_pack_works_from_its_first_minute_to_its_last(environment: Environment, name: str) -> None:
    work = environment.folder / "work"
    tool = f"{name.replace('-', '_')}_marks"
    before = set(work.iterdir())

    environment.pegboard("new", name, *OPTIONS[name], "--no-input")
    (project,) = set(work.iterdir()) - before
    environment.pip("install", "--no-deps", build(environment, project, environment.folder / "wheels"))

    assert "14 passed" in environment.run([environment.python, "-m", "pytest", "-q"], cwd=project)
    assert "10 rules, 0 findings" in environment.pegboard("check", name)
    assert tool in environment.pegboard("tools")
    (work / "plan.txt").write_text("done\nTODO: tell the others\n", "utf-8")
    assert "2: TODO: tell the others" in environment.pegboard("run", "-m", "offline", "Which marks are in plan.txt?")
    assert environment.pegboard(name, "plan.txt") == "2: TODO: tell the others\n"

    environment.pegboard("packs", "disable", name)
    assert tool not in environment.pegboard("tools")
    environment.pip("uninstall", project.name)
    assert name not in environment.pegboard("packs", "list", "--load")


def test_no_new_pack_is_named_like_one_of_ours() -> None:
    from pegboard_new.answers import BUILT_IN

    ours = {folder.parent.name for folder in ROOT.glob("builtin_plugins/*/pyproject.toml")}

    assert ours - {"all"} <= set(BUILT_IN)


@pytest.mark.parametrize("name", OPTIONS)
def test_what_is_generated_is_clean(environment: Environment, tmp_path: Path, name: str) -> None:
    environment.pegboard("new", name, *OPTIONS[name], "--into", tmp_path)
    (project,) = tmp_path.iterdir()

    environment.run([TOOLS / "ruff", "check", "-q"], cwd=project)
    environment.run([TOOLS / "ruff", "format", "--check"], cwd=project)


def test_what_is_generated_passes_the_type_checker(environment: Environment, tmp_path: Path) -> None:
    environment.pegboard("new", "tickets", "--into", tmp_path)

    checked = environment.run(
        [TOOLS / "mypy", "--python-executable", environment.python], cwd=tmp_path / "pegboard-tickets"
    )

    assert "no issues found in 4 source files" in checked


@pytest.mark.skipif(sys.platform == "win32", reason="the tutorial's commands are a shell's")
def test_the_tutorial_says_what_happens(environment: Environment, tmp_path: Path) -> None:
    """Commands are run, files written, differences applied; each line of output that is shown is really there."""
    page = (ROOT / "docs/tutorials/first-pack.md").read_text("utf-8")
    printed, folder = "", tmp_path
    for before, language, block in re.findall(r"([^\n]*)\n\n```(sh|python|diff|text)\n(.*?)^```$", page, re.M | re.S):
        match language:
            case "sh":
                printed = environment.run(["sh", "-c", f"exec 2>&1\n{block}true"], cwd=folder)
                folder = tmp_path / "pegboard-tickets"
            case "python":
                (folder / re.findall(r"`(\S+)`", before)[-1]).write_text(block, "utf-8")
            case "diff":
                (tmp_path / "change.diff").write_text(block, "utf-8")
                environment.run(["git", "apply", tmp_path / "change.diff"], cwd=folder)
            case "text":
                assert [line for line in block.splitlines() if line not in printed] == [], printed
