"""Putting a file's new bytes in place in one move, unless it is no longer what it was."""

import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from pegboard import ToolError

from pegboard_workspace.places import Place, check_opened, explain, open_beneath, open_folder

_LOCK_SECONDS: Final = 10.0


def replace(place: Place, data: bytes, before: bytes | None) -> None:
    """Put `data` in the place of `before`, or of nothing.

    Raises:
        ToolError: it changed meanwhile, or may not be written; the old file is then still there.
    """
    if not place.parts:
        raise ToolError("the session's directory itself is not a file")
    try:
        folder = open_folder(place, create=True)
    except OSError as error:
        raise ToolError(explain(place, error)) from None
    name = place.parts[-1]
    temporary = f".pegboard-{secrets.token_hex(8)}.tmp"
    try:
        check_opened(folder, place.path.parent)
        _fill(temporary, data, folder, _mode(name, folder))
        with _locked(folder, place):
            if _current(place) != before:
                raise ToolError(f"`{place.shown}` changed while it was being edited; read it again")
            check_opened(folder, place.path.parent)
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        raise ToolError(explain(place, error)) from None
    finally:
        with suppress(FileNotFoundError):  # it has become the file
            os.unlink(temporary, dir_fd=folder)
        os.close(folder)


def _fill(name: str, data: bytes, folder: int, mode: int | None) -> None:
    new = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
    with os.fdopen(new, "wb") as file:
        if mode is not None:
            os.fchmod(new, mode)
        file.write(data)
        file.flush()
        os.fsync(new)


@contextmanager
def _locked(folder: int, place: Place) -> Iterator[None]:
    """Keep other sessions, in whatever process, from replacing a file of this folder; the lock leaves no file behind.

    Raises:
        ToolError: somebody holds it too long.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                raise ToolError(f"the folder of `{place.shown}` is locked by another process; try again") from None
            time.sleep(0.005)
        except OSError:  # some network file systems have no locks
            break
    yield  # closing the folder lets go


def _mode(name: str, folder: int) -> int | None:
    try:
        return stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode) & 0o777
    except FileNotFoundError:
        return None


def _current(place: Place) -> bytes | None:
    try:
        with os.fdopen(open_beneath(place, os.O_RDONLY), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
