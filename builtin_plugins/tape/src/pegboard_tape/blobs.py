"""Bytes kept in files named by their SHA-256: large entries, and outputs that a model pages through."""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from pegboard import PegboardError

_KEY: Final = re.compile(r"[0-9a-f]{64}")
_PART: Final = ".part-"


class Blobs:
    """The files in one folder, which is made when there is something to keep; only its owner can read them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, data: bytes) -> str:
        """Keep bytes; returns their key. A file that is there already has them.

        Raises:
            PegboardError: they can't be written.
        """
        key = hashlib.sha256(data).hexdigest()
        path = self.folder / key
        try:
            if path.exists():
                os.utime(path)  # so that `gc` knows that somebody is about to name it
                return key
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(path, data)
        except OSError as error:
            raise PegboardError(f"{path} can't be written: {error.strerror}; make room, or see who owns it") from None
        return key

    def get(self, key: str) -> bytes:
        """Return the bytes kept under a key.

        Raises:
            LookupError: there are none.
            PegboardError: they can't be read.
        """
        path = self.folder / key
        if not _KEY.fullmatch(key) or not path.is_file():
            raise LookupError(f"there is no blob {key[:80]!r}")
        try:
            return path.read_bytes()
        except OSError as error:
            raise PegboardError(f"{path} can't be read: {error.strerror}; see who owns it") from None

    def is_whole(self, key: str) -> bool:
        """Whether the bytes are there and are those that the key stands for."""
        try:
            return hashlib.sha256(self.get(key)).hexdigest() == key
        except (LookupError, PegboardError):
            return False

    def kept(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield what is kept: its key, and its size and times."""
        with suppress(FileNotFoundError):
            for path in sorted(self.folder.iterdir()):
                if _KEY.fullmatch(path.name):
                    yield path.name, path.stat()

    def remove(self, key: str) -> None:
        """Take bytes away."""
        if _KEY.fullmatch(key):
            (self.folder / key).unlink(missing_ok=True)

    def _write(self, path: Path, data: bytes) -> None:
        file, part = tempfile.mkstemp(prefix=_PART, dir=self.folder)  # only its owner may read it
        try:
            with open(file, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(file)
            os.replace(part, path)
        except BaseException:
            os.unlink(part)
            raise
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)  # the name, too
        finally:
            os.close(folder)
