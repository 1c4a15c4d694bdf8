"""Fixtures for every test of the repository: packs made on the spot, an isolated home, the real command line."""

import importlib
import io
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from pegboard import Host
from pegboard.__main__ import main
from pegboard.cli.group import _pack_commands
from pegboard.cli.installed import installed
from pegboard.packs.discovery import discover
from pegboard.testing import PackFolder

# The suite tries the same few examples each time; HYPOTHESIS_PROFILE=explore tries many new ones.
_SLOW_IS_FINE = [HealthCheck.too_slow]
settings.register_profile(
    "steady", derandomize=True, max_examples=40, deadline=None, suppress_health_check=_SLOW_IS_FINE
)
settings.register_profile("explore", max_examples=300, deadline=None, suppress_health_check=_SLOW_IS_FINE)
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
        with _unimported(pack_folder.path):
            return Host.open(environ={}, distributions=discover([str(pack_folder.path)]), **options)

    return open_


@contextmanager
def _unimported(folder: Path) -> Iterator[None]:
    """Forget again what is imported meanwhile from below `folder`."""
    before = set(sys.modules)
    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(f"{folder}{os.sep}"):
                del sys.modules[name]


@pytest.fixture
def pegboard(home: Home, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line in this process as in one of its own, in `tmp_path/work` unless `cwd` is given.

    For what it prints and how it exits; where the process is the point, as with signals, take `pegboard_process`.
    """
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)

    def run(
        *arguments: str, cwd: Path | None = None, stdin: str | bytes = "", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        with _unimported(tmp_path), _process_state(cwd or work, {**home.environ, **(env or {})}) as patch:
            out, err = io.BytesIO(), io.BytesIO()
            patch.setattr(sys, "argv", ["pegboard", *arguments])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), "utf-8"))
            patch.setattr(sys, "stdout", io.TextIOWrapper(out, "utf-8", write_through=True))
            patch.setattr(sys, "stderr", io.TextIOWrapper(err, "utf-8", "backslashreplace", write_through=True))
            code = _exit_code(main)
            return subprocess.CompletedProcess(
                ["pegboard", *arguments], code, out.getvalue().decode("utf-8"), err.getvalue().decode("utf-8")
            )

    return run


@contextmanager
def _process_state(cwd: Path, env: Mapping[str, str]) -> Iterator[pytest.MonkeyPatch]:
    """A working directory, an environment and empty caches, as a new process has them; all is put back."""
    before = dict(os.environ)
    importlib.invalidate_caches()
    installed.cache_clear()
    _pack_commands.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        os.environ.update(env)
        try:
            yield patch
        finally:
            os.environ.clear()
            os.environ.update(before)
            installed.cache_clear()
            _pack_commands.cache_clear()


def _exit_code(program: Callable[[], None]) -> int:
    """Run a program to its end; returns what its process would exit with."""
    try:
        program()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:
        traceback.print_exc()
        return 1
    return 0


@pytest.fixture
def pegboard_process(home: Home, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line in a process of its own, in `tmp_path/work` unless `cwd` is given."""
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)

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
