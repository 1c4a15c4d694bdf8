"""What Pegboard itself remembers for a user: packs switched on and off by command, and what was consented to."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pegboard.base.errors import UsageError
from pegboard.base.files import PrivateFileError, one_at_a_time, read_private, write_private
from pegboard.config.layers import KeyPath, Table
from pegboard.config.places import Places

# Tables of the state that are no settings.
NO_SETTINGS: Final = ("consents",)
_HEADER: Final = "# Written by Pegboard. Your own settings belong into your own file: pegboard config path\n\n"
_REMEDY: Final = "mend it, or move it away: what commands switched and what you consented to is then forgotten"


class State:
    """Reads and changes the machine-owned state; two processes that change it at once lose nothing."""

    def __init__(self, places: Places) -> None:
        self.file = places.state_file
        self._lock = places.state_dir / "state.lock"

    def read(self) -> tuple[Table, str]:
        """Return all tables, and the text they were read from; both empty if nothing is remembered yet.

        Raises:
            PrivateFileError: it can't be read, or is damaged.
        """
        content = read_private(self.file)
        if content is None:
            return {}, ""
        import tomllib

        try:
            text = content.decode("utf-8").replace("\r\n", "\n")
            return tomllib.loads(text), text
        except (ValueError, RecursionError) as error:
            told = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise PrivateFileError(self.file, f"is damaged ({told}); {_REMEDY}") from None

    def get(self, *path: str) -> Any:
        """Return what is remembered at `path`, or None.

        Raises:
            PrivateFileError: the state can't be read.
        """
        value: Any = self.read()[0]
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def set(self, path: KeyPath, value: Any) -> None:
        """Remember a value: a text, number, boolean, date, or a list or table of these.

        Raises:
            UsageError: it can't be kept as TOML, or `path` leads through something that is no table.
            PrivateFileError: the state can't be read or written; it is as it was before.
        """

        def change(data: Table) -> bool:
            table = _inner(data, path)
            changed = path[-1] not in table or table[path[-1]] != value
            table[path[-1]] = value
            return changed

        self._change(change)

    def remove(self, path: KeyPath) -> bool:
        """Forget a value or a table, and the tables that are empty without it; returns whether it was there.

        Raises:
            PrivateFileError: the state can't be read or written; it is as it was before.
        """
        return self._change(lambda data: _remove(data, path))

    def _change(self, change: Callable[[Table], bool]) -> bool:
        import tomli_w

        with one_at_a_time(self._lock):
            data = self.read()[0]
            if not change(data):
                return False
            try:
                content = (_HEADER + tomli_w.dumps(data)).encode("utf-8")
            except (TypeError, ValueError) as error:
                raise UsageError(f"this can't be kept in {self.file}: {error}") from None
            write_private(self.file, content)
            return True


@dataclass(frozen=True, slots=True)
class Consent:
    """What a person agreed to: the subject, and the hash of what was shown."""

    subject: str
    hash: str


class Consents:
    """What a person agreed to, for one project or (without a path) for what the user's own files bring.

    A consent is bound to the project's real path and to a hash of what was agreed to: something changed, or the same
    thing in another project, is not agreed to. Every method raises PrivateFileError if the state can't be used.
    """

    def __init__(self, places: Places, project_path: Path | None = None) -> None:
        self._state = State(places)
        self._project = "" if project_path is None else path_text(project_path)

    def given(self, subject: str, hash: str) -> bool:
        """Whether a person agreed to this subject with this very hash."""
        return bool(hash) and self._state.get("consents", self._project, subject) == hash

    def give(self, subject: str, hash: str) -> None:
        """Record that a person agrees; replaces what was agreed to for the subject before.

        Raises:
            UsageError: the subject or the hash is empty, or can't be kept.
        """
        if not subject or not hash:
            raise UsageError("a consent needs a subject and a hash")
        self._state.set(("consents", self._project, subject), hash)

    def revoke(self, subject: str) -> bool:
        """Take a consent back; returns whether there was one."""
        return self._state.remove(("consents", self._project, subject))

    def list(self) -> tuple[Consent, ...]:
        """Return everything that is agreed to, by subject."""
        given = self._state.get("consents", self._project)
        rows = given.items() if isinstance(given, dict) else ()
        return tuple(Consent(subject, hash) for subject, hash in sorted(rows) if isinstance(hash, str))


def path_text(path: Path | str) -> str:
    """Return a path, all links in it followed, as text that TOML can hold whatever bytes its names are of."""
    raw = os.fsencode(os.path.realpath(path))
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return f"bytes:{raw.hex()}"


def _inner(data: Table, path: KeyPath) -> Table:
    for index, key in enumerate(path[:-1]):
        data = data.setdefault(key, {})
        if not isinstance(data, dict):
            raise UsageError(f"`{'.'.join(path[: index + 1])}` is no table")
    return data


def _remove(data: Table, path: KeyPath) -> bool:
    inner = data.get(path[0])
    if len(path) == 1:
        return data.pop(path[0], None) is not None
    found = isinstance(inner, dict) and _remove(inner, path[1:])
    if found and not inner:
        del data[path[0]]
    return found
