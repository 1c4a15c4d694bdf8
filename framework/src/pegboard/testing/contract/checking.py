"""Checks one pack in a fresh process, with a home and a working directory of its own, and reads what it wrote."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from pegboard.testing.contract.report import Finding, Report
from pegboard.testing.contract.subject import Subject, subject_of

# Variables of whoever checks are not the pack's, but for the one that says that an agent began this.
_OURS: Final = ("PEGBOARD_", "PYTEST_", "COV_")
_KEPT: Final = ("PEGBOARD_INSIDE",)


def check_pack(target: object, *, timeout: float = 120.0) -> Report:
    """Check a pack against the whole contract. `target` is a name, a project's folder, a class or a module.

    Its code runs in another process, with your rights, for at most `timeout` seconds.

    Raises:
        UsageError: there is no such pack.
    """
    with tempfile.TemporaryDirectory(prefix="pegboard-check-", ignore_cleanup_errors=True) as made:
        folder = Path(made).resolve()
        for name in ("metadata", "home", "work"):
            (folder / name).mkdir()
        subject = subject_of(target, folder / "metadata")
        how = _run(subject, folder, timeout)
        lines = list(_lines(folder / "report"))
        if {"end": True} not in lines:
            lines.append({"finding": asdict(_cut_short(lines, how, folder))})
        return Report.from_lines(subject.name, lines)


def _run(subject: Subject, folder: Path, timeout: float) -> str:
    """Run the checks to their end, and end what they left running; returns how they ended."""
    probe = (sys.executable, "-m", "pegboard.testing.contract.probe")
    argv = (*probe, subject.distribution, "declared" if subject.declared else "bare", str(folder / "report"))
    with (folder / "errors").open("wb") as errors:
        process = subprocess.Popen(  # noqa: S603 - this Python, with a module of this package
            argv,
            cwd=folder / "work",
            env=_environment(subject, folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        try:
            return f"ended with exit {process.wait(timeout)}"
        except subprocess.TimeoutExpired:
            return f"was not over after {timeout:g} s"
        finally:
            with suppress(OSError, AttributeError):  # AttributeError: on Windows there are no groups
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.wait()


def _environment(subject: Subject, folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS) or name in _KEPT}
    home = str(folder / "home")
    own = {"HOME": home, "XDG_CONFIG_HOME": home, "XDG_STATE_HOME": home, "XDG_CACHE_HOME": home}
    own["PYTHONPATH"] = os.pathsep.join(subject.path)
    return {**kept, **own, "PYDANTIC_DISABLE_PLUGINS": "__all__"}


def _lines(report: Path) -> Iterator[Mapping[str, Any]]:
    with suppress(FileNotFoundError):
        for line in report.read_text("utf-8").splitlines():
            with suppress(ValueError):  # the last one, if the process died while it wrote
                yield json.loads(line)


def _cut_short(lines: list[Mapping[str, Any]], how: str, folder: Path) -> Finding:
    rule = next((line["begin"] for line in reversed(lines) if "begin" in line), "disabled")
    said = (folder / "errors").read_text("utf-8", "replace").strip().splitlines()
    last = f"; its last words: {said[-1][:300]}" if said else ""
    mend = "find what ends or holds up the process there, and leave that to the host"
    return Finding(rule, f"the process that checked `{rule}` {how}{last}", "the whole pack", mend)
