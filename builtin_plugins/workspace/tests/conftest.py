"""Fixtures for the workspace tools: calls through the real pipeline, both search engines, a user without rights."""

import asyncio
import json
import os
import shutil
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pegboard import Host, Session, ToolCall, ToolResult
from pegboard.packs.discovery import discover

Call = Callable[..., ToolResult]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty folder, which is the session's directory unless a call says otherwise."""
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
def workspace_host(home: Any) -> Callable[[], Host]:
    """Open a host with the workspace pack alone; the same one each time."""
    opened: list[Host] = []

    def open_() -> Host:
        if not opened:
            mine = [found for found in discover() if found.pack and found.pack[0] == "workspace"]
            opened.append(Host.open(environ={}, distributions=mine))
        return opened[0]

    return open_


@pytest.fixture
def call(workspace_host: Callable[[], Host], project: Path) -> Call:
    """Call a tool through the whole pipeline: `call("read", path="a.txt")` gives its result."""

    def call_(name: str, *, allow_writes: bool = False, inside: Path | None = None, **arguments: Any) -> ToolResult:
        async def go() -> ToolResult:
            host = workspace_host()
            agent = await host.create_agent(session=Session.new(inside or project))
            run, results = host.submit_call(
                agent, ToolCall("1", name, json.dumps(arguments)), allow_writes=allow_writes
            )
            end = await run.wait()
            await host.dispose(agent)
            assert results, f"the call has no result; the run ended as {end.reason}: {end.text}"
            return results[0]

        return asyncio.run(go())

    return call_


@pytest.fixture
def without_ripgrep(tmp_path: Path) -> Callable[[], AbstractContextManager[None]]:
    """A context in which PATH names one empty folder, so that `grep` falls back to Python."""
    empty = tmp_path / "no-programs"
    empty.mkdir()

    @contextmanager
    def context() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", str(empty))
            yield

    return context


@pytest.fixture
def with_ripgrep(monkeypatch: pytest.MonkeyPatch) -> None:
    """ripgrep is on PATH: the machine's, or that of the development tools, which only `uv run` puts there."""
    monkeypatch.setenv("PATH", os.pathsep.join([os.environ.get("PATH", ""), sysconfig.get_path("scripts")]))
    if shutil.which("rg") is None:
        pytest.skip("ripgrep is not installed, so there is nothing to compare with")


@pytest.fixture(params=["ripgrep", "python"])
def engine(
    request: pytest.FixtureRequest, without_ripgrep: Callable[[], AbstractContextManager[None]]
) -> Iterator[str]:
    """Which of the two searches: the test runs once with each."""
    if request.param == "ripgrep":
        request.getfixturevalue("with_ripgrep")
        yield "ripgrep"
    else:
        with without_ripgrep():
            yield "python"


@pytest.fixture
def grep_twice(
    call: Call, with_ripgrep: None, without_ripgrep: Callable[[], AbstractContextManager[None]]
) -> Callable[..., tuple[ToolResult, ToolResult]]:
    """Search once with ripgrep and once in Python."""

    def twice(**arguments: Any) -> tuple[ToolResult, ToolResult]:
        by_ripgrep = call("grep", **arguments)
        with without_ripgrep():
            return by_ripgrep, call("grep", **arguments)

    return twice


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user may enter and write to (pytest's own may only be entered by who runs the tests)."""
    made = Path(tempfile.mkdtemp(prefix="pegboard-public-")).resolve()
    made.chmod(0o777)
    yield made
    for folder, _, _ in os.walk(made):
        os.chmod(folder, 0o700)
    shutil.rmtree(made)
