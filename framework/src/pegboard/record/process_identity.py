"""Who drives a run: the process that recorded its start, so that another one knows whether it is gone."""

import os
from functools import cache
from pathlib import Path


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process began, in clock ticks since boot; "" where that can't be known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


_KNOWN: dict[int, str] = {}


def this_driver() -> str:
    """Name this process: pid, its start, and the machine's boot, so that a pid that is used again is another driver."""
    pid = os.getpid()
    if pid not in _KNOWN:
        _KNOWN.clear()  # after a fork
        _KNOWN[pid] = f"{pid} {_started(pid)} {_boot()}".rstrip()
    return _KNOWN[pid]


def is_gone(driver: str) -> bool:
    """Whether the process that a run names has ended for certain. Where that can't be known, it has not."""
    pid, _, rest = driver.partition(" ")
    started, _, boot = rest.partition(" ")
    if not pid.isdecimal() or int(pid) > 2**31 - 1:
        return True
    if boot and _boot() and boot != _boot():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return bool(started) and _started(int(pid)) != started
