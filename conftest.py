"""Fixtures for every test of the repository: packs made on the spot, an isolated home, the real command line."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from pegboard import Host
from pegboard.discovery import discover
from pegboard.testing import PackFolder

# The suite tries the same examples each time; HYPOTHESIS_PROFILE=explore tries new ones.
settings.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


class Home:
    """A home directory of its own; `config` writes the user's configuration file in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environ = {"HOME": str(path), "XDG_CONFIG_HOME": str(path / ".config")}
        self.environ["XDG_STATE_HOME"] = str(path / ".local" / "state")

    @property
    def config_file(self) -> Path:
        """Where the user's configuration is read from."""
        return self.path / ".config" / "pegboard" / "config.toml"

    def config(self, text: str | bytes) -> Path:
        """Write the user's configuration file; returns it."""
        self.config_file.parent.mkdir(parents=True, exist_ok=True)
        self.config_file.write_bytes(text.encode() if isinstance(text, str) else text)
        return self.config_file


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """An empty home, for this process and for subprocesses; no PEGBOARD_ variable is set."""
    made = Home(tmp_path / "home")
    made.path.mkdir()
    for name in [name for name in os.environ if name.startswith("PEGBOARD_")]:
        monkeypatch.delenv(name)
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture
def pack_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackFolder]:
    """An empty folder on `sys.path`, also of subprocesses, in which sample packs are made; none is left imported."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    yield PackFolder(folder)
    for name in [name for name in sys.modules if name.startswith("sample_")]:
        del sys.modules[name]


@pytest.fixture
def open_host(home: Home, pack_folder: PackFolder) -> Callable[..., Host]:
    """Open a host that sees only the packs in `pack_folder`, with a configuration text and further options."""

    def open_(config: str = "", **options: Any) -> Host:
        if config:
            home.config(config)
        before = set(sys.modules)
        try:
            return Host.open(environ={}, distributions=discover([str(pack_folder.path)]), **options)
        finally:
            for name in set(sys.modules) - before:
                if name.startswith("sample_"):
                    del sys.modules[name]

    return open_


@pytest.fixture
def pegboard(home: Home, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the real command line in a subprocess, in `tmp_path/work` unless `cwd` is given."""
    work = tmp_path / "work"
    work.mkdir()

    def run(
        *arguments: str, cwd: Path | None = None, stdin: str | bytes | None = "", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        ended = subprocess.run(
            [sys.executable, "-m", "pegboard", *arguments],
            cwd=cwd or work,
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            env={**os.environ, **home.environ, **(env or {})},
            timeout=60,
            check=False,
        )
        return subprocess.CompletedProcess(
            ended.args, ended.returncode, ended.stdout.decode("utf-8"), ended.stderr.decode("utf-8")
        )

    return run


@pytest.fixture
def without_store() -> tuple[str, ...]:
    """Options of the command line that leave out the pack that keeps sessions, if it is installed."""
    there = any(distribution.pack and distribution.pack[0] == "tape" for distribution in discover())
    return ("--disable", "tape") if there else ()


@pytest.fixture
def without_rights() -> Callable[[], AbstractContextManager[None]]:
    """A context in which file permissions count even when root runs the tests."""

    @contextmanager
    def context() -> Iterator[None]:
        if not hasattr(os, "geteuid") or os.geteuid() != 0:
            yield
            return
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)

    return context


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip a test marked `needs("pack", ...)` where one of these packs is not installed, and say so."""
    installed = {distribution.pack[0] for distribution in discover() if distribution.pack}
    for item in items:
        for marker in item.iter_markers("needs"):
            if missing := set(marker.args) - installed:
                item.add_marker(pytest.mark.skip(reason=f"pack {', '.join(sorted(missing))} is not installed"))
