"""Sessions outlive their process: `pegboard run` is durable, and any process answers and goes on."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Pegboard = Callable[..., subprocess.CompletedProcess[str]]

TURNS = """
[[turns]]
calls = [{ tool = "ask_user", args = { question = "Which one?", options = ["left", "right"] } }]
[[turns]]
text = "Done: ${results}"
"""

# Pauses, and is killed before it could tidy anything up.
PAUSES_AND_DIES = """
import asyncio, os, signal
from pathlib import Path
from pegboard import Definition, Host

async def main():
    async with Host.open(environ={}) as host:
        agent = await host.create_agent(Definition(model="scripted:turns.toml"), directory=Path.cwd())
        end = await host.submit(agent, "choose", on_ask="pause").wait()
        print(agent.id, end.reason, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.fixture
def work(tmp_path: Path, pegboard: Pegboard) -> Path:
    """The folder that the command line works in, with a script of turns."""
    (tmp_path / "work" / "turns.toml").write_text(TURNS, "utf-8")
    return tmp_path / "work"


def last_line(ended: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.needs("models", "workspace")
@pytest.mark.skipif(os.name == "nt", reason="a process is killed with SIGKILL")
def test_a_paused_run_is_answered_and_resumed_after_its_process_was_killed(
    pegboard: Pegboard, work: Path, home: Any
) -> None:
    died = subprocess.run(
        [sys.executable, "-c", PAUSES_AND_DIES], cwd=work, capture_output=True, text=True, check=False
    )
    session, reason = died.stdout.split()
    assert (died.returncode, reason) == (-signal.SIGKILL, "paused")

    answered = pegboard("answer", session, "1", "right")
    assert answered.returncode == 0, answered.stderr
    resumed = pegboard("resume", session, "--json")

    assert resumed.returncode == 0, resumed.stderr
    assert last_line(resumed)["text"] == "Done: ask_user: The user answers: right"
    kept = home.path / ".local/state/pegboard/packs/tape"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700


@pytest.mark.needs("models")
def test_a_run_goes_on_with_a_session_of_another_process(pegboard: Pegboard, work: Path) -> None:
    first = last_line(pegboard("run", "--json", "Where is the script?"))
    second = last_line(pegboard("run", "--json", "--session", first["session"], "And what is in it?"))

    assert (second["session"], second["run"]) == (first["session"], 2)


@pytest.mark.needs("models")
def test_a_store_that_can_not_be_opened_stops_a_run_with_the_reason(pegboard: Pegboard, work: Path, home: Any) -> None:
    """Never a silent fall-back to memory."""
    home.config(f"[packs.tape]\npath = '{work}'\n")
    (work / "tape.db").write_text("something else", "utf-8")
    refused = pegboard("run", "hello")

    assert refused.returncode == 1
    assert "not a file that pack `tape` made" in refused.stderr
    assert (work / "tape.db").read_text("utf-8") == "something else"


def test_a_relative_path_is_refused_before_anything_is_made(pegboard: Pegboard, work: Path) -> None:
    refused = pegboard("run", "hello", env={"PEGBOARD_PACKS_TAPE_PATH": "kept"})

    assert "is a relative path; give an absolute one" in refused.stderr
    assert not (work / "kept").exists()
