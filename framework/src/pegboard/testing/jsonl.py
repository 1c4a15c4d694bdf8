"""A reference store: one file of JSON lines for each session. Small, durable, usable by several processes at once.

One line holds what one append brought: a line that was torn by a crash is what nobody was told was kept.
"""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pegboard.base.errors import Conflict, PegboardError
from pegboard.hookspecs import hooks
from pegboard.record.stores import SessionHead, SessionStore
from pegboard.values.entries import Entry
from pegboard.values.hook_markers import implements

if TYPE_CHECKING:
    from pegboard.host.host import Host

_ID: Final = re.compile(r"[0-9a-f]{8,32}")
_KEY: Final = re.compile(r"[0-9a-f]{64}")


class JsonlPack:
    """Keeps sessions in the folder `jsonl` of Pegboard's state: a pack named `jsonl`."""

    @implements(hooks.session_store)
    def session_store(self, host: "Host") -> SessionStore:
        """Return the store."""
        return JsonlStore(host.state_dir("jsonl"))


class JsonlStore:
    """See `SessionStore`; `folder` must exist. What others may not read, they can't: modes are 0700 and 0600."""

    def __init__(self, folder: Path) -> None:
        self._sessions = folder / "sessions"
        self._blobs = folder / "blobs"
        for made in (self._sessions, self._blobs):
            made.mkdir(mode=0o700, exist_ok=True)

    async def append(self, session: str, entries: Sequence[Entry], *, expect: int) -> None:
        """Write one line and let it reach the disk.

        Raises:
            ValueError: the entries are another session's, or not numbered from `expect` + 1.
        """
        path = self._file(session)
        if not _follow(entries, session, expect):
            raise ValueError(f"session {session} takes its own entries only, numbered from {expect + 1}")
        line = (json.dumps([entry.as_json() for entry in entries]) + "\n").encode()
        with _locked(path, write=True) as file:
            kept, end = _read_lines(file, path)
            if len(kept) != expect:
                raise Conflict(f"session {session} has {len(kept)} entries, not {expect}: it went on elsewhere")
            try:
                os.ftruncate(file, end)  # what a crash left half-written
                _write_all(file, line)
            except OSError as error:
                with suppress(OSError):
                    os.ftruncate(file, end)
                raise PegboardError(f"{path} can't be written: {error.strerror}; nothing was added to it") from None
        if not end:
            _sync_folder(self._sessions)

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> Sequence[Entry]:
        """Read the whole file; ids are dense, so that `after` is also a place in it."""
        path = self._file(session)
        try:
            with _locked(path, write=False) as file:
                return _read_lines(file, path)[0][after : None if limit is None else after + limit]
        except FileNotFoundError:
            return []

    async def sessions(self) -> Sequence[SessionHead]:
        """Read every file; the session that began last comes first."""
        heads = []
        for path in self._sessions.glob("*.jsonl"):
            if _ID.fullmatch(path.stem) and (entries := await self.read(path.stem)):
                heads.append(SessionHead(path.stem, entries[0], entries[-1].id))
        return sorted(heads, key=lambda head: head.start.event.ts, reverse=True)

    async def put_blob(self, data: bytes) -> str:
        """Write the bytes under their hash; a file that is there already has them."""
        key = hashlib.sha256(data).hexdigest()
        path = self._blobs / key
        if path.exists():
            return key
        try:
            file, part = tempfile.mkstemp(dir=self._blobs)  # only its owner may read it
            try:
                _write_all(file, data)
                os.replace(part, path)
            except BaseException:
                os.unlink(part)
                raise
            finally:
                os.close(file)
        except OSError as error:
            raise PegboardError(f"{path} can't be written: {error.strerror}") from None
        _sync_folder(self._blobs)
        return key

    async def get_blob(self, key: str) -> bytes:
        """Read the bytes back."""
        path = self._blobs / key
        if not _KEY.fullmatch(key) or not path.exists():
            raise LookupError(f"there is no blob {key[:80]!r}")
        with _locked(path, write=False) as file:
            return _read_all(file, path)

    def _file(self, session: str) -> Path:
        if not _ID.fullmatch(session):
            raise ValueError(f"{session[:40]!r} is no session id; ids are 8 to 32 digits of lower-case hex")
        return self._sessions / f"{session}.jsonl"


@contextmanager
def _locked(path: Path, *, write: bool) -> Iterator[int]:
    """Open a file and lock it against other processes, and other stores of this one, for as long as it is open.

    Raises:
        FileNotFoundError: it is to be read, and is not there.
        PegboardError: it can't be opened.
    """
    import fcntl

    if path.is_symlink():  # said plainly; O_NOFOLLOW refuses one that comes after this look
        raise PegboardError(f"{path} is a symbolic link; sessions are kept in plain files only, put one in its place")
    try:
        flags = os.O_RDWR | os.O_CREAT if write else os.O_RDONLY
        file = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not write:
            raise
        raise PegboardError(f"{path} can't be opened: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX if write else fcntl.LOCK_SH)
        yield file
    finally:
        os.close(file)


def _follow(entries: Sequence[Entry], session: str, last: int) -> bool:
    return all((entry.session, entry.id) == (session, place) for place, entry in enumerate(entries, last + 1))


def _write_all(file: int, data: bytes) -> None:
    """Append to a file and let it reach the disk. One write may take a part only: what a full disk has left."""
    os.lseek(file, 0, os.SEEK_END)
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
    os.fsync(file)


def _sync_folder(path: Path) -> None:
    """Let the names of new files reach the disk."""
    folder = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read_all(file: int, path: Path) -> bytes:
    try:
        with open(file, "rb", closefd=False) as stream:
            return stream.read()
    except OSError as error:
        raise PegboardError(f"{path} can't be read: {error.strerror}") from None


def _read_lines(file: int, path: Path) -> tuple[list[Entry], int]:
    """Return the entries, and the length of what is whole: a last line without an end is not.

    Raises:
        PegboardError: a line before it is not what `append` writes.
    """
    data = _read_all(file, path)
    end = data.rfind(b"\n") + 1
    entries: list[Entry] = []
    for number, line in enumerate(data[:end].split(b"\n")[:-1], 1):
        try:
            shapes = json.loads(line.decode())
            read = [Entry.from_json(shape) for shape in shapes]
            if not isinstance(shapes, list) or not _follow(read, path.stem, len(entries)):
                raise ValueError
        except (ValueError, TypeError, AttributeError, RecursionError, PegboardError):
            raise PegboardError(
                f"{path}, line {number}, is damaged: its entries are not those from {len(entries) + 1}; put the file "
                "back as it was, or move it away to go on without this session"
            ) from None
        entries += read
    return entries, end
