"""Paths inside the session's directory: resolved first, opened without following a link that came in between."""

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pegboard import ToolError

MAX_FILE_BYTES: Final = 10_000_000
MAX_PATH_BYTES: Final = 4000
MAX_NAME_BYTES: Final = 255
_CAN_OPEN_BENEATH: Final = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_EXTRA_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class Place:
    """A real path inside `root`; `parts` lead there from it, none of them a link when it was resolved."""

    root: Path
    parts: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The absolute path."""
        return self.root.joinpath(*self.parts)

    @property
    def shown(self) -> str:
        """The path relative to the session's directory, with slashes."""
        return show("/".join(self.parts)) or "."


def show(path: str) -> str:
    """Return a path as text; bytes of a name that are no UTF-8 become escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def locate(directory: Path, path: str) -> Place:
    """Resolve a path from a model or person.

    Raises:
        ToolError: it is no path, or leads outside `directory`.
    """
    if "\0" in path or not path.strip():
        raise ToolError(f"{path!r} is not a path")
    encoded = os.fsencode(path)
    if len(encoded) > MAX_PATH_BYTES or any(len(part) > MAX_NAME_BYTES for part in encoded.split(os.fsencode(os.sep))):
        raise ToolError(f"the path is too long ({len(encoded):,} bytes)")
    real = os.path.realpath(directory / path)
    root = str(directory)
    if real != root and not real.startswith(root.rstrip(os.sep) + os.sep):
        raise ToolError(f"`{path}` is outside the session's directory; only what is inside it can be used")
    return Place(directory, Path(real).relative_to(directory).parts)


def locate_existing(directory: Path, path: str) -> Place:
    """Resolve a path to something that is there.

    Raises:
        ToolError: it is no path, leads outside, or is not there.
    """
    place = locate(directory, path)
    if not os.path.exists(place.path):
        raise ToolError(f"`{place.shown}` does not exist")
    return place


def read_bytes(place: Place) -> bytes:
    """Return a regular file's bytes.

    Raises:
        ToolError: it is missing, no regular file, too large, or may not be read.
    """
    try:
        descriptor = open_beneath(place, os.O_RDONLY)
    except OSError as error:
        raise ToolError(explain(place, error)) from None
    try:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise ToolError(f"`{place.shown}` is a folder; `glob` lists what is in it")
        if not stat.S_ISREG(found.st_mode):
            raise ToolError(_no_file(place))
        if found.st_size > MAX_FILE_BYTES:
            raise ToolError(f"`{place.shown}` is {found.st_size:,} bytes; files up to {MAX_FILE_BYTES:,} can be used")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ToolError(explain(place, error)) from None
    finally:
        os.close(descriptor)


def open_beneath(place: Place, flags: int, mode: int = 0o666) -> int:
    """Open a place component by component, following no link, so that nothing swapped in meanwhile leads outside."""
    if not place.parts or not _CAN_OPEN_BENEATH:
        return os.open(place.path, flags | _EXTRA_FLAGS, mode)
    parent = open_folder(place)
    try:
        return os.open(place.parts[-1], flags | _EXTRA_FLAGS, mode, dir_fd=parent)
    finally:
        os.close(parent)


def open_folder(place: Place, *, create: bool = False) -> int:
    """Open the folder that holds a place, making missing folders if asked; the caller closes the descriptor."""
    folder = os.open(place.root, os.O_RDONLY | os.O_DIRECTORY)
    for part in place.parts[:-1]:
        try:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def explain(place: Place, error: OSError) -> str:
    """Return one line for an operating system error about a place."""
    match error:
        case FileNotFoundError():
            return f"`{place.shown}` does not exist"
        case NotADirectoryError():
            return f"`{place.shown}` does not exist: a part of it is a file, not a folder"
        case OSError(errno=errno.ENXIO):
            return _no_file(place)
        case PermissionError():
            return f"`{place.shown}` may not be read or written by this user"
        case _:
            return f"`{place.shown}`: {error.strerror or error}"


def _no_file(place: Place) -> str:
    return f"`{place.shown}` is a pipe, socket or device, not a file"
