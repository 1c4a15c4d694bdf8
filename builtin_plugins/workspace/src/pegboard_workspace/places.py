"""Paths inside the session's directory: what the guards saw is what is opened, whatever is swapped meanwhile."""

import errno
import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pegboard import ToolContext, ToolError, Touch

MAX_FILE_BYTES: Final = 10_000_000
MAX_PATH_BYTES: Final = 4000
MAX_NAME_BYTES: Final = 255
_CAN_OPEN_BENEATH: Final = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_EXTRA_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
# Of names that are no UTF-8 the bytes are shown so; the backslash of a name that looks alike is shown so, too.
_ESCAPED: Final = re.compile(rb"\\x(5c|[89a-f][0-9a-f])")


@dataclass(frozen=True, slots=True)
class Place:
    """A real path inside `root`; `parts` lead there from it, none of them a link when it was resolved."""

    root: Path
    parts: tuple[str, ...]

    @classmethod
    def of(cls, root: Path, name: str) -> "Place":
        """The place of a file that a walk has found."""
        return cls(root, tuple(name.split("/")))

    @property
    def path(self) -> Path:
        """The absolute path."""
        return self.root.joinpath(*self.parts)

    @property
    def shown(self) -> str:
        """The path relative to the session's directory, with slashes."""
        return show("/".join(self.parts)) or "."


def show(path: str) -> str:
    """Return a path as text that can be passed back; bytes of a name that are no UTF-8 become escapes."""
    if path.isascii() and "\\" not in path:
        return path
    encoded = os.fsencode(path)
    if os.sep == "/":
        encoded = _ESCAPED.sub(lambda found: b"\\x5c" + found[0][1:], encoded)
    return encoded.decode("utf-8", "backslashreplace")


def meant(path: str) -> str:
    """Return the path that a shown one means: escapes are bytes again."""
    if "\\x" not in path or os.sep != "/":
        return path
    return os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), os.fsencode(path)))


def touch(path: str, *, content: bool = False) -> Iterable[Touch]:
    """What a call that names a path will use; of what can be no path nothing, and the body refuses it."""
    with suppress(ValueError):
        if "\0" not in path:
            return [Touch.path(meant(path), content=content)]
    return []


def locate(directory: Path, path: str) -> Place:
    """Resolve a path from a model or person.

    Raises:
        ToolError: it is no path, or leads outside `directory`.
    """
    if "\0" in path or not path.strip():
        raise ToolError(f"{path!r} is not a path")
    try:
        encoded = os.fsencode(meant(path))
    except UnicodeEncodeError:
        raise ToolError(f"{path!r} is not a path") from None
    if len(encoded) > MAX_PATH_BYTES or any(len(part) > MAX_NAME_BYTES for part in encoded.split(os.fsencode(os.sep))):
        raise ToolError(f"the path is too long ({len(encoded):,} bytes)")
    return _inside(directory, os.path.realpath(directory / meant(path)), path)


def guarded(ctx: ToolContext, path: str) -> Place:
    """Return the place that the guards were asked about: a link that leads elsewhere by now is not followed again.

    Raises:
        ToolError: it is no path, or leads outside the session's directory.
    """
    place = locate(ctx.directory, path)
    resolved = next((touch.value for touch in ctx.touches if touch.kind == "path"), None)
    return place if resolved is None else _inside(ctx.directory, resolved, path)


def guarded_existing(ctx: ToolContext, path: str) -> Place:
    """Return the place that the guards were asked about, if something is there.

    Raises:
        ToolError: it is no path, leads outside, or is not there.
    """
    place = guarded(ctx, path)
    if not os.path.exists(place.path):
        raise ToolError(f"`{place.shown}` does not exist")
    return place


def _inside(directory: Path, real: str, path: str) -> Place:
    root = str(directory)
    if real != root and not real.startswith(root.rstrip(os.sep) + os.sep):
        raise ToolError(f"`{path}` is outside the session's directory; only what is inside it can be used")
    return Place(directory, Path(real).relative_to(directory).parts)


def read_bytes(place: Place) -> bytes:
    """Return a regular file's bytes.

    Raises:
        ToolError: it is missing, no regular file, too large, or may not be read.
    """
    descriptor, size = open_file(place)
    try:
        if size > MAX_FILE_BYTES:
            raise ToolError(f"`{place.shown}` is {size:,} bytes; files up to {MAX_FILE_BYTES:,} can be used")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ToolError(explain(place, error)) from None
    finally:
        os.close(descriptor)


def open_file(place: Place) -> tuple[int, int]:
    """Open a regular file to read it; returns the descriptor, which the caller closes, and the size in bytes.

    Raises:
        ToolError: it is missing, no regular file, or may not be read.
    """
    try:
        descriptor = open_beneath(place, os.O_RDONLY)
    except OSError as error:
        raise ToolError(explain(place, error)) from None
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode):
        return descriptor, found.st_size
    os.close(descriptor)
    folder = stat.S_ISDIR(found.st_mode)
    raise ToolError(f"`{place.shown}` is a folder; `glob` lists what is in it" if folder else _no_file(place))


def open_beneath(place: Place, flags: int) -> int:
    """Open a place component by component, following no link, so that nothing swapped in meanwhile leads elsewhere."""
    if not place.parts or not _CAN_OPEN_BENEATH:
        descriptor = os.open(place.path, flags | _EXTRA_FLAGS)
    else:
        parent = open_folder(place)
        try:
            descriptor = os.open(place.parts[-1], flags | _EXTRA_FLAGS, dir_fd=parent)
        finally:
            os.close(parent)
    try:
        check_opened(descriptor, place.path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


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


def check_opened(descriptor: int, path: Path) -> None:
    """Hold what was opened to the path that was allowed, where the system tells: a folder may have been moved.

    Raises:
        OSError: it is another one.
    """
    try:
        real = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return
    if real.casefold() != str(path).casefold():  # some file systems have no letter case
        raise OSError(errno.ESTALE, "something was moved or replaced after the call was allowed; try again")


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
