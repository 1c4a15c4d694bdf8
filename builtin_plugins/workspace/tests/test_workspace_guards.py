"""A guard on paths stops every tool that would use them, also those that find their paths while they run."""

import asyncio
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pegboard import Agent, Deny, GuardedCall, Host, ToolCall, ToolResult, hooks, implements

HIDDEN = "the hidden word"


class Secrets:
    """Says no to whatever is in a folder `secrets`."""

    @implements(hooks.guard_tool_call)
    def guard_tool_call(self, call: GuardedCall) -> Deny | None:
        """Look at the paths of a call."""
        secret = any(touch.kind == "path" and "/secrets" in touch.value for touch in call.touches)
        return Deny("secrets are not for models") if secret else None


@pytest.fixture
def guarded(workspace_host: Callable[[], Host], project: Path) -> Iterator[Callable[..., ToolResult]]:
    """Call tools of one agent that has the guard; the folder holds a secret and a file of its own."""
    (project / "secrets").mkdir()
    (project / "secrets/key.txt").write_text(f"{HIDDEN}\n")
    (project / "own.txt").write_text("no hidden word\n")
    with asyncio.Runner() as runner:
        host = workspace_host()

        async def begin() -> Agent:
            agent = await host.create_agent(directory=project)
            agent.register(Secrets())
            return agent

        agent = runner.run(begin())

        def call(name: str, **arguments: Any) -> ToolResult:
            async def go() -> ToolResult:
                run, results = host.submit_call(agent, ToolCall("1", name, json.dumps(arguments)), allow_writes=True)
                await run.wait()
                return results[0]

            return runner.run(go())

        yield call


CALLS = [
    ("read", {"path": "secrets/key.txt"}),
    ("read", {"path": "link/key.txt"}),
    ("read", {"path": "secrets"}),
    ("glob", {"pattern": "*"}),
    ("glob", {"pattern": "*", "path": "secrets"}),
    ("glob", {"pattern": "nothing*"}),
    ("grep", {"pattern": "hidden word"}),
    ("grep", {"pattern": "hidden", "path": "secrets/key.txt"}),
    ("grep", {"pattern": "hidden", "glob": "secrets/**"}),
    ("write", {"path": "secrets/key.txt", "content": "x"}),
    ("write", {"path": "link/new.txt", "content": "x"}),
    ("edit", {"path": "secrets/key.txt", "edits": [{"old": "hidden", "new": "open"}]}),
]


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[f"{name} {arguments}" for name, arguments in CALLS])
def test_a_guard_on_a_folder_stops_every_tool(
    guarded: Callable[..., ToolResult], project: Path, engine: str, name: str, arguments: dict[str, Any]
) -> None:
    """Issue 25, case 3: it stopped `read` and not `grep`."""
    (project / "link").symlink_to("secrets")

    result = guarded(name, **arguments)

    assert HIDDEN not in result.content
    assert "secrets/key.txt" not in result.content.removeprefix("Error: ")
    assert [(path.name, path.read_text()) for path in (project / "secrets").iterdir()] == [("key.txt", f"{HIDDEN}\n")]


@pytest.mark.parametrize(("name", "arguments"), [("glob", {"pattern": "*"}), ("grep", {"pattern": "hidden"})])
def test_a_search_says_how_many_files_were_left_out_and_by_whom(
    guarded: Callable[..., ToolResult], engine: str, name: str, arguments: dict[str, Any]
) -> None:
    lines = guarded(name, **arguments).content.split("\n")

    assert lines[0].startswith("own.txt")
    assert lines[1:] == ["(1 file left out by this program: secrets are not for models)"]


@contextmanager
def swapping(link: Path, *targets: str) -> Iterator[None]:
    """Let a link lead elsewhere again and again, as fast as it goes."""
    done = threading.Event()

    def swap() -> None:
        spare = link.with_name("spare-link")
        while not done.is_set():
            for target in targets:
                spare.symlink_to(target)
                os.replace(spare, link)

    link.symlink_to(targets[0])
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("name", ["read", "grep", "glob"])
def test_a_link_that_is_swapped_between_guard_and_body_leaks_nothing(
    guarded: Callable[..., ToolResult], project: Path, name: str
) -> None:
    """Issue 25, case 18: 129 of 2,500 reads came through."""
    (project / "open").mkdir()
    (project / "open/key.txt").write_text("nothing of interest\n")
    arguments = {"read": {"path": "link/key.txt"}, "grep": {"pattern": "hid", "path": "link"}}
    with swapping(project / "link", "open", "secrets"):
        results = [guarded(name, **arguments.get(name, {"pattern": "*", "path": "link"})) for _ in range(150)]

    assert {"ok", "denied"} <= {result.status for result in results}, "nothing was raced"
    leaks = [result for result in results if HIDDEN in result.content or "secrets/key" in result.content]
    assert not leaks


def test_a_write_through_a_swapped_link_lands_where_it_was_allowed_or_nowhere(
    guarded: Callable[..., ToolResult], project: Path
) -> None:
    (project / "open").mkdir()
    with swapping(project / "link", "open", "secrets"):
        for number in range(150):
            guarded("write", path=f"link/{number}.txt", content="x")

    assert [path.name for path in (project / "secrets").iterdir()] == ["key.txt"]
    assert [*(project / "open").iterdir()]
