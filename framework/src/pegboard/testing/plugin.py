"""The pytest plugin for pack authors: `host`, `agent`, `scripted_model` and `workspace_dir`, made anew for each test.

    @pytest.mark.pegboard(packs={"tickets": Tickets}, config="[packs.tickets]\\ntracker = 'printers'")
    async def test_a_ticket_is_listed(agent):
        result = await agent.call_tool("list_tickets")
        assert result.status == "ok"

`packs` are objects, by name, `policy` names those that claim policy, `installed` are names of packs in the environment,
`config` is the user's file. Nothing else is seen: no other installed pack, no file and no variable of whoever runs the
tests. `async def` tests that use `host` or `agent` run in their event loop.
"""

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # imported when a test uses a fixture: a plugin must not slow down or cover what it does not test
    from pegboard.agents.agent import Agent
    from pegboard.host.host import Host
    from pegboard.testing.models import ScriptedModel


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers", "pegboard(packs={}, installed=[], policy=[], config=''): what the fixture `host` is made of"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test in the event loop of its host."""
    runner = pyfuncitem.funcargs.get("_pegboard_runner")
    if not isinstance(runner, asyncio.Runner) or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    runner.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture
def _pegboard_runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def workspace_dir(tmp_path: Path) -> Path:
    """An empty directory for an agent to work in."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def scripted_model() -> "ScriptedModel":
    """The model of the fixture `agent`: `scripted_model.will(call("greet", name="Ada"), "done")`."""
    from pegboard.testing.models import ScriptedModel

    return ScriptedModel()


@pytest.fixture
def host(request: pytest.FixtureRequest, tmp_path: Path, _pegboard_runner: asyncio.Runner) -> "Iterator[Host]":
    """A host that is up, with what the marker `pegboard` names; a pack that is not active fails the test."""
    marker = request.node.get_closest_marker("pegboard")
    opened = _open(tmp_path / "pegboard", **(marker.kwargs if marker else {}))
    _pegboard_runner.run(opened.start())
    try:
        if bad := [f"{pack.name} is {pack.state}: {pack.reason}" for pack in opened.packs if pack.state != "active"]:
            pytest.fail("; ".join(bad), pytrace=False)
        yield opened
    finally:
        _pegboard_runner.run(opened.stop())


@pytest.fixture
def agent(
    host: "Host", workspace_dir: Path, scripted_model: "ScriptedModel", _pegboard_runner: asyncio.Runner
) -> "Agent":
    """An agent of `host` in `workspace_dir`, with `scripted_model`."""
    return _pegboard_runner.run(host.create_agent(directory=workspace_dir, model=scripted_model))


def _open(
    folder: Path,
    *,
    packs: dict[str, Any] | None = None,
    installed: tuple[str, ...] = (),
    policy: tuple[str, ...] = (),
    config: str = "",
) -> "Host":
    from pegboard.config.places import Places
    from pegboard.host.host import Host
    from pegboard.packs.discovery import discover

    folder.mkdir()
    places = Places(folder / "config.toml", folder / "state")
    places.config_file.write_text(config, "utf-8")
    found = [distribution for distribution in discover() if distribution.pack and distribution.pack[0] in installed]
    if missing := set(installed) - {distribution.pack[0] for distribution in found if distribution.pack}:
        pytest.fail(f"not installed: {', '.join(sorted(missing))}", pytrace=False)
    return Host.open(environ={}, distributions=found, packs=packs, policy=policy, places=places)
