"""What a call will use, as it is now: real paths, what stands there, and which directory it all lies in."""

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pegboard.base.frozen import thaw
from pegboard.values.tool import Tool, Touch, no_touches

_MAX_HASHED: Final = 16_000_000


def resolve_touches(tool: Tool, arguments: Mapping[str, Any], directory: Path) -> tuple[Touch, ...]:
    """Ask the tool what a call will use; paths become real paths, so that a guard sees where links lead."""
    if tool.touches is no_touches:
        return ()
    return tuple(_resolved(touch, directory) for touch in tool.touches(**thaw(arguments)))


def _resolved(touch: Touch, directory: Path) -> Touch:
    if touch.kind != "path":
        return touch
    real = os.path.realpath(directory / touch.value)
    return Touch("path", real, touch.content, _digest(real) if touch.content else "")


class RealPaths:
    """Makes many paths real ones; a folder that holds several of them is resolved once."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        self._folders: dict[str, str] = {}

    def of(self, path: str) -> str:
        """Return the real path of a path that is relative to the directory, or absolute."""
        folder, name = os.path.split(os.path.join(self._directory, path))
        if name in ("", ".", ".."):
            return os.path.realpath(os.path.join(folder, name))
        real = self._folders.get(folder)
        if real is None:
            real = self._folders[folder] = os.path.realpath(folder)
        whole = f"{real.rstrip(os.sep)}{os.sep}{name}"
        return os.path.realpath(whole) if os.path.islink(whole) else whole


def identity(directory: Path) -> str:
    """Return what tells a directory from another one of its name."""
    try:
        found = os.stat(directory)
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"


def _digest(path: str) -> str:
    """Return the SHA-256 of a regular file's bytes, of a very large one what changes with them; "" of anything else."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError:
        return ""
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return ""
        if found.st_size > _MAX_HASHED:
            return f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"
        with open(descriptor, "rb", closefd=False) as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""
    finally:
        os.close(descriptor)
