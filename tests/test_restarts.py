"""A session that outlives its process: the reference store as an installed pack, two processes, one of them killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pegboard import Host, PegboardError
from pegboard.testing import PackFolder

FIRST = """
import asyncio, sys
from pathlib import Path
from pegboard import Host, hooks, implements, tool
from pegboard.testing import ScriptedModel, call

@tool(effect="read")
async def linger() -> str:
    '''Never end.'''
    print(agent.id, flush=True)
    await asyncio.sleep(60)
    return "late"

class Tools:
    @implements(hooks.register_tools)
    def register_tools(self):
        return [linger]

async def main():
    global agent
    async with Host.open(environ={}, packs={"tools": Tools}) as host:
        model = ScriptedModel(call("linger") if sys.argv[1] == "linger" else "It is done.")
        agent = await host.create_agent(directory=Path.cwd(), model=model)
        await agent.followup("begin").wait()
        print(agent.id, flush=True)

asyncio.run(main())
"""
SECOND = """
import asyncio, json, sys
from pegboard import Host, PegboardError, folds
from pegboard.testing import ScriptedModel

async def main():
    async with Host.open(environ={}) as host:
        try:
            session = await host.open_session(sys.argv[1])
        except PegboardError as error:
            print(json.dumps({"refused": str(error)}))
            return
        model = ScriptedModel("And on.")
        agent = await host.create_agent(session=session, model=model)
        end = await agent.followup("go on").wait()
        entries = await host.entries(agent.id)
        runs = folds.runs(entries)
        print(json.dumps({
            "ids": [entry.id for entry in entries],
            "reasons": [run.reason for run in runs.values()],
            "open": [len(run.open_calls) + len(run.open_steps) for run in runs.values()],
            "roles": [type(message).__name__ for message in model.requests[0].messages],
            "statuses": [message.status for message in model.requests[0].messages if hasattr(message, "status")],
            "directory": str(session.directory),
            "text": end.text,
        }))

asyncio.run(main())
"""


@pytest.fixture
def folder(home: Any, pack_folder: PackFolder) -> PackFolder:
    """The reference store, installed as pack `jsonl` for subprocesses."""
    pack_folder.add("jsonl", reference="pegboard.testing.jsonl:JsonlPack")
    return pack_folder


def begin(tmp_path: Path, how: str) -> "subprocess.Popen[str]":
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    return subprocess.Popen([sys.executable, "-c", FIRST, how], cwd=work, stdout=subprocess.PIPE, text=True)


def go_on(session: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", SECOND, session], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_another_process_goes_on_with_a_session(folder: PackFolder, tmp_path: Path) -> None:
    first = begin(tmp_path, "answer")
    session = (first.communicate(timeout=60)[0]).strip()

    told = go_on(session)

    assert told["ids"] == list(range(1, len(told["ids"]) + 1))
    assert (told["reasons"], told["text"]) == (["completed", "completed"], "And on.")
    assert told["roles"] == ["UserMessage", "AssistantMessage", "UserMessage"]
    assert told["directory"] == str(tmp_path / "work")


def test_after_a_kill_the_run_has_its_end_and_the_call_its_result(folder: PackFolder, tmp_path: Path) -> None:
    """Rule 10, DESIGN §3.3: a call under way is indeterminate and is never run again."""
    first = begin(tmp_path, "linger")
    assert first.stdout is not None
    session = first.stdout.readline().strip()
    os.kill(first.pid, signal.SIGKILL)
    first.communicate(timeout=60)

    told = go_on(session)

    assert told["reasons"] == ["interrupted", "completed"]
    assert told["open"] == [0, 0]
    assert told["statuses"] == ["indeterminate"]
    assert told["roles"] == ["UserMessage", "AssistantMessage", "ToolResult", "UserMessage"]


def test_a_session_whose_driver_lives_is_not_taken_over(folder: PackFolder, tmp_path: Path) -> None:
    first = begin(tmp_path, "linger")
    assert first.stdout is not None
    session = first.stdout.readline().strip()
    try:
        assert f"under way in process {first.pid}" in go_on(session)["refused"]
    finally:
        first.kill()
        first.communicate(timeout=60)


@pytest.mark.parametrize("session", ["../evil", "/etc/passwd", "", "AAAAAAAA", "0" * 300, "deadbeef"])
def test_a_session_that_is_none_is_refused_in_one_line(
    folder: PackFolder, open_host: Callable[..., Host], tmp_path: Path, session: str
) -> None:
    """Case 21."""

    async def go() -> None:
        async with open_host() as host:
            await host.open_session(session)

    with pytest.raises(PegboardError) as refused:
        asyncio.run(go())

    assert "\n" not in str(refused.value)
    kept = tmp_path / "home/.local/state/pegboard/packs/jsonl"
    assert [path for path in kept.rglob("*") if path.is_file()] == []
    assert not list(tmp_path.rglob("evil*"))


@pytest.mark.needs("models")
def test_a_store_that_cannot_be_had_stops_the_command(pegboard: Any, home: Any, folder: PackFolder) -> None:
    """DESIGN §3.1: never a silent fall-back to memory."""
    state = home.path / ".local" / "state" / "pegboard"
    state.mkdir(parents=True, mode=0o700)
    (state / "packs").write_text("a file where a folder belongs")

    ended = pegboard("run", "What is here?")

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("pegboard: sessions can't be kept: session_store of pack `jsonl` failed")
