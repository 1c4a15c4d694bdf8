"""Which projects a person trusts: bound to the real path and to the hash of everything that the project brings."""

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pegboard.base.errors import PegboardError
from pegboard.base.files import PrivateFileError, read_private, write_private
from pegboard.base.text import count, printable
from pegboard.config.places import Places
from pegboard.trust.project import FOLDER
from pegboard.trust.state import path_text
from pegboard.values.project import Project

_MAX_TEXT: Final = 64 * 1024
_MAX_TEXTS: Final = 1024 * 1024
_MAX_COMPARED: Final = 512 * 1024
_MAX_LINES: Final = 2_000
_MAX_WIDTH: Final = 500


class Trust:
    """Remembers trusted projects, one file each, with what they held when they were accepted."""

    def __init__(self, places: Places) -> None:
        self._folder = places.trust_dir

    def trusts(self, project: Project) -> bool:
        """Whether a person accepted this project exactly as it was read; a record that can't be read says no."""
        record = self._record(project.path, head=True)
        return bool(project.hash) and not project.problems and record.get("hash") == project.hash

    def was_trusted(self, path: Path) -> bool:
        """Whether there is a record of the project, be it of what it holds now or of something older."""
        return bool(self._record(path, head=True))

    def accept(self, project: Project) -> None:
        """Trust the project exactly as it was read.

        Raises:
            PegboardError: it can never be trusted, with the reason.
            PrivateFileError: this can't be remembered.
        """
        import datetime

        import tomli_w

        if project.problems:
            raise PegboardError(f"{project.path} can't be trusted: {'; '.join(project.problems)}")
        record = {
            "path": path_text(project.path),
            "hash": project.hash,
            "time": datetime.datetime.now(datetime.UTC).replace(microsecond=0),
            "files": _described(project),
        }
        write_private(self._file(project.path), tomli_w.dumps(record).encode("utf-8"))

    def revoke(self, path: Path) -> bool:
        """Trust the project no longer; returns whether it was trusted.

        Raises:
            PrivateFileError: the record can't be removed.
        """
        file = self._file(path)
        try:
            file.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise PrivateFileError(file, f"can't be removed: {error.strerror}") from None
        return True

    def diff(self, project: Project) -> str:
        """Return what changed since the project was accepted, as a unified diff; new files in full.

        Whatever a terminal could act on is an escape. What is too long is left out, and that is said.
        """
        files = self._record(project.path).get("files")
        before = {name: entry for name, entry in files.items() if isinstance(entry, dict)} if files else {}
        after = _described(project, texts=True)
        lines: list[str] = []
        # The settings come first: they are not to be pushed behind the cut.
        names = sorted({*before, *after}, key=lambda name: (name.startswith(FOLDER), name))
        for number, name in enumerate(names):
            if before.get(name, {}).get("sha256") == after.get(name, {}).get("sha256"):
                continue
            lines += islice(_changes(name, before.get(name), after.get(name)), _MAX_LINES + 1)
            if len(lines) > _MAX_LINES:
                left = count(len(names) - number - 1, "more file")
                told = f"... cut after {_MAX_LINES:,} lines, {left} not shown; look at {project.path} itself"
                return "\n".join([*lines[:_MAX_LINES], printable(told)])
        return "\n".join(lines)

    def _file(self, path: Path) -> Path:
        import hashlib

        return self._folder / f"{hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()}.toml"

    def _record(self, path: Path, *, head: bool = False) -> dict[str, Any]:
        """Return what is remembered of a project; only the `head` of it, before the contents, is quick to read."""
        import tomllib

        try:
            content = read_private(self._file(path))
            if content and head:
                content = content.partition(b"\n[")[0]
            record = tomllib.loads(content.decode("utf-8")) if content else {}
        except (PrivateFileError, ValueError, RecursionError):
            return {}
        return record if record.get("path") == path_text(path) else {}


def _described(project: Project, texts: bool = False) -> dict[str, dict[str, Any]]:
    """Return of each file its size, its hash and, up to a cap unless all `texts` are asked for, its text."""
    import hashlib

    found: dict[str, dict[str, Any]] = {}
    left = _MAX_TEXTS
    for name, content in project.files.items():
        entry: dict[str, Any] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        text = _text(content)
        if text is not None and (texts or len(content) <= min(_MAX_TEXT, left)):
            entry["text"] = text
            left -= len(content)
        found[_name(name)] = entry
    for name, what in project.others.items():
        found[_name(name)] = {"sha256": f"no file: {_name(what)}"}
    return found


def _text(content: bytes) -> str | None:
    """Return the text of a file, or None if it is binary."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _changes(name: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Iterator[str]:
    import difflib

    yield f"--- {_shown(name) if before else '(not there)'}"
    yield f"+++ {_shown(name) if after else '(removed)'}"
    old, new = _lines(before), _lines(after)
    too_large = before and after and max(before.get("size", 0), after.get("size", 0)) > _MAX_COMPARED
    if old is None or new is None or too_large:
        yield from (f"{sign} {_facts(entry)}" for sign, entry in (("-", before), ("+", after)) if entry)
    elif not before or not after:
        yield from (f"{sign}{_shown(line)}" for sign, side in (("-", old), ("+", new)) for line in _ended(side))
    else:
        yield from map(_shown, islice(difflib.unified_diff(old, new, lineterm=""), 2, None))


def _lines(entry: Mapping[str, Any] | None) -> list[str] | None:
    if entry is None:
        return []
    text = entry.get("text")
    return text.split("\n") if isinstance(text, str) else None


def _ended(lines: list[str]) -> list[str]:
    """Return the lines without the empty one after the last line end."""
    return lines[:-1] if lines[-1:] == [""] else lines


def _facts(entry: Mapping[str, Any]) -> str:
    if "size" not in entry:
        return _shown(str(entry.get("sha256")).removeprefix("no file: "))
    return f"{count(entry['size'], 'byte')}, sha256 {entry['sha256']}, not shown"


def _shown(line: str) -> str:
    shown = printable(line)
    if len(shown) > _MAX_WIDTH:
        return f"{shown[:_MAX_WIDTH]}... ({count(len(shown) - _MAX_WIDTH, 'more character')})"
    return shown


def _name(name: str) -> str:
    """Return a file's name as text that TOML can hold."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
