"""What a directory brings for Pegboard: found, and read once without following a link."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pegboard.values.project import PROJECT_FILE, Project

LOCK_FILE: Final = "pegboard.lock"
FOLDER: Final = ".agents"
MAX_FILE_BYTES: Final = 1024 * 1024
MAX_BYTES: Final = 64 * 1024 * 1024
MAX_FILES: Final = 10_000
_MAX_DEPTH: Final = 64
_FLAGS: Final = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)
_BY_DESCRIPTOR: Final = {os.open, os.stat, os.readlink} <= os.supports_dir_fd and os.scandir in os.supports_fd


def read_project(directory: Path) -> Project | None:
    """Return what `directory` brings, or the nearest folder above it up to the one that holds `.git`; None if nothing.

    The home directory, the root of the file system and what is above them are never a project. Nothing raises: what
    can't be read is in its `problems`.
    """
    folder = os.path.realpath(directory)
    home = _home()
    while folder != os.path.dirname(folder) and not (home == folder or home.startswith(folder + os.sep)):
        if any(os.path.lexists(os.path.join(folder, name)) for name in (PROJECT_FILE, LOCK_FILE, FOLDER)):
            return _read(folder)
        if os.path.lexists(os.path.join(folder, ".git")):
            return None
        folder = os.path.dirname(folder)
    return None


def _home() -> str:
    return os.path.realpath(os.path.expanduser("~"))


def _read(folder: str) -> Project:
    reader = _Reader()
    try:
        parent = os.open(folder, _FLAGS | getattr(os, "O_DIRECTORY", 0)) if _BY_DESCRIPTOR else folder
    except OSError as error:
        return Project(Path(folder), {}, {}, "", (f"{folder} can't be read: {error.strerror}",))
    try:
        for name in (PROJECT_FILE, LOCK_FILE, FOLDER):
            reader.take(parent, name, name, folders=name == FOLDER)
    finally:
        if isinstance(parent, int):
            os.close(parent)
    digest = "" if reader.problems else _hash(reader)
    return Project(Path(folder), reader.files, reader.others, digest, tuple(reader.problems))


@dataclass(slots=True)
class _Reader:
    """Reads below one folder by descriptors, so that nothing that is swapped meanwhile leads out of it (C.3 case 11).

    A parent is a descriptor, or a path where the platform has no such calls.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    bytes_left: int = MAX_BYTES
    entries_left: int = MAX_FILES

    def take(self, parent: int | str, name: str, relative: str, *, folders: bool) -> None:
        """Read the file or folder `name`; `relative` is what it is called in the project."""
        target = name if isinstance(parent, int) else os.path.join(parent, name)
        at = parent if isinstance(parent, int) else None
        try:
            mode = os.stat(target, dir_fd=at, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                self.others[relative] = f"link to {os.readlink(target, dir_fd=at)}"
            elif stat.S_ISREG(mode):
                self._take_file(os.open(target, _FLAGS, dir_fd=at), relative)
            elif stat.S_ISDIR(mode) and folders:
                self._take_folder(target, at, relative)
            else:
                self.others[relative] = _kind(mode)
        except FileNotFoundError:
            return
        except OSError as error:
            self.problems.append(f"{relative} can't be read: {error.strerror}")

    def _take_file(self, descriptor: int, relative: str) -> None:
        with open(descriptor, "rb", buffering=0) as file:
            if not stat.S_ISREG(mode := os.fstat(descriptor).st_mode):
                self.others[relative] = _kind(mode)
                return
            room = min(self.bytes_left, MAX_FILE_BYTES) if relative == PROJECT_FILE else self.bytes_left
            content = _read_up_to(file.read, room + 1)
        if len(content) > room:
            all_of_it = f"all files together are larger than {MAX_BYTES:,} bytes"
            self.problems.append(
                f"{relative} is larger than {MAX_FILE_BYTES:,} bytes" if room == MAX_FILE_BYTES else all_of_it
            )
        else:
            self.files[relative] = content
            self.bytes_left -= len(content)

    def _take_folder(self, target: str, at: int | None, relative: str) -> None:
        if relative.count("/") >= _MAX_DEPTH:
            self.problems.append(f"{relative} is nested more than {_MAX_DEPTH} folders deep")
            return
        folder: int | str = target if at is None else os.open(target, _FLAGS | os.O_DIRECTORY, dir_fd=at)
        try:
            with os.scandir(folder) as entries:
                names = sorted(entry.name for _, entry in zip(range(self.entries_left + 1), entries, strict=False))
            self.entries_left -= len(names)
            if self.entries_left < 0:
                self.problems.append(f"{FOLDER} holds more than {MAX_FILES:,} files and folders")
            for name in names:
                if self.problems:
                    return
                self.take(folder, name, f"{relative}/{name}", folders=True)
        finally:
            if isinstance(folder, int):
                os.close(folder)


def _read_up_to(read: Callable[[int], bytes | None], limit: int) -> bytes:
    """Read until the end or the limit; a single read may return less."""
    parts = []
    while limit > 0 and (part := read(min(limit, 1024 * 1024))):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "folder"
    return "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"


def _hash(reader: _Reader) -> str:
    import hashlib

    digest = hashlib.sha256()
    entries = [(os.fsencode(name), b"file", content) for name, content in reader.files.items()]
    entries += [(os.fsencode(name), b"other", os.fsencode(what)) for name, what in reader.others.items()]
    for name, kind, content in sorted(entries):
        for part in (name, kind, content):
            digest.update(b"%d:" % len(part))
            digest.update(part)
    return digest.hexdigest()
