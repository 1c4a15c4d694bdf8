"""Files of Pegboard's own: whole or not at all, for their owner only, never through a link, one writer at a time."""

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pegboard.base.errors import PegboardError

_MAX_BYTES: Final = 64 * 1024 * 1024
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_QUIET: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class PrivateFileError(PegboardError):
    """A file of Pegboard's own can't be used: `path`, and the `reason` with its remedy."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path} {reason}")


def read_private(path: Path) -> bytes | None:
    """Return a file's content, or None if there is none.

    Raises:
        PrivateFileError: it, or its folder, is a link or no plain file, can't be read, or is absurdly large.
    """
    _refuse_links(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | _NOFOLLOW | _QUIET)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PrivateFileError(path, _reading_failed(error)) from None
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise PrivateFileError(path, "can't be read: it is no plain file; move it away")
        if status.st_size > _MAX_BYTES:
            raise PrivateFileError(path, f"is larger than {_MAX_BYTES:,} bytes; move it away")
        try:
            return file.readall()
        except OSError as error:
            raise PrivateFileError(path, _reading_failed(error)) from None


def write_private(path: Path, content: bytes) -> None:
    """Replace a file's content at once, whatever happens meanwhile; makes its folder.

    Raises:
        PrivateFileError: it can't be written, or a link is in the way; what was there before still is.
    """
    import tempfile

    make_private_folder(path.parent)
    _refuse_links(path)
    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise PrivateFileError(path, f"can't be written: {error.strerror}; it is as it was before") from None
    _keep_rename(path.parent)


def make_private_folder(folder: Path) -> None:
    """Make a folder that only its owner can look into, with the folders above it.

    Raises:
        PrivateFileError: it is a link or a file, or can't be made.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.path.islink(folder):
            raise PrivateFileError(folder, _LINK)
        if stat.S_IMODE(folder.stat().st_mode) & 0o077 and os.name != "nt":
            folder.chmod(0o700)
    except OSError as error:
        raise PrivateFileError(folder, f"can't be made private: {error.strerror}") from None


@contextlib.contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file, made if need be, against other threads and processes; waits for it.

    Raises:
        PrivateFileError: the file can't be made, or is a link.
    """
    make_private_folder(path.parent)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _NOFOLLOW | _QUIET, 0o600)
    except OSError as error:
        reason = _LINK if error.errno == errno.ELOOP else f"can't be locked: {error.strerror}"
        raise PrivateFileError(path, reason) from None
    try:
        _lock(descriptor)
        yield
    finally:
        os.close(descriptor)  # the lock goes with it


_LINK: Final = "is a link; Pegboard's own files are never read or written through one, remove it"


def _refuse_links(path: Path) -> None:
    for part in (path.parent, path):
        if os.path.islink(part):
            raise PrivateFileError(part, _LINK)


def _reading_failed(error: OSError) -> str:
    return _LINK if error.errno == errno.ELOOP else f"can't be read: {error.strerror}"


if sys.platform == "win32":

    def _lock(descriptor: int) -> None:
        import msvcrt

        while True:
            try:
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
                return
            except OSError as error:  # it gives up after ten seconds, we do not
                if error.errno != errno.EDEADLK:
                    raise
else:

    def _lock(descriptor: int) -> None:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _keep_rename(folder: Path) -> None:
    """Make a rename survive a power cut, where the platform can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
