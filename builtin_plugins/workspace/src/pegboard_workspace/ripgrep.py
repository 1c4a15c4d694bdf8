"""Running ripgrep over files that we chose: it only reads and matches, what is ignored or binary is decided here."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pegboard import ToolError

# Everything that ripgrep would decide by itself is switched off.
_PLAIN: Final = ("--no-config", "--no-ignore", "--hidden", "--text", "--no-messages", "--no-require-git")
# A line that this does not match whole has bytes that are no UTF-8, or a carriage return inside.
_ORDINARY_LINE: Final = r"[^\r]*\r?"
_BATCH_BYTES: Final = 100_000


def find(root: Path) -> str | None:
    """Return ripgrep's path, or None; one inside the session's directory or found by a relative PATH is not taken."""
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if Path(folder).is_absolute()]
    found = shutil.which("rg", path=os.pathsep.join(folders))
    if found is None or Path(found).resolve().is_relative_to(root):
        return None
    return found


def search(
    program: str, root: Path, names: Sequence[str], pattern: str, ignore_case: bool, cancelled: Callable[[], bool]
) -> Iterator[tuple[str, int, str]]:
    """Yield (path, line number, line without its end) for every match, in no particular order."""
    flags = ["--json", "--crlf", *(["--ignore-case"] if ignore_case else []), "-e", pattern]
    for output in _run(program, root, flags, names, cancelled):
        for line in output.splitlines():
            event = json.loads(line)
            if event["type"] == "match":
                data = event["data"]
                text = _text(data["lines"]).removesuffix("\n").removesuffix("\r")
                yield _path(data["path"]), data["line_number"], text.removeprefix("\ufeff")


def odd_files(program: str, root: Path, names: Sequence[str], cancelled: Callable[[], bool]) -> set[str]:
    """Return the files in which the engines might see different lines; they are searched in Python in any case."""
    flags = ["--files-with-matches", "--null", "--invert-match", "--line-regexp", "-e", _ORDINARY_LINE]
    found: set[str] = set()
    for output in _run(program, root, flags, names, cancelled):
        found.update(os.fsdecode(name) for name in output.split(b"\0") if name)
    return found


def _run(
    program: str, root: Path, flags: Sequence[str], names: Sequence[str], cancelled: Callable[[], bool]
) -> Iterator[bytes]:
    for batch in _batches(names):
        if cancelled():
            return
        command = [program, *_PLAIN, *flags, "--", *batch]
        ended = subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, check=False)  # noqa: S603
        if ended.returncode not in (0, 1) and not ended.stdout:
            reason = ended.stderr.decode("utf-8", "replace").strip().splitlines()
            if reason:
                raise ToolError(f"ripgrep refused the search: {reason[-1][:300]}")
        yield ended.stdout


def _batches(names: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for name in names:
        batch.append(name)
        size += len(os.fsencode(name)) + 1
        if size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _text(data: dict[str, Any]) -> str:
    return data["text"] if "text" in data else base64.b64decode(data["bytes"]).decode("utf-8", "replace")


def _path(data: dict[str, Any]) -> str:
    return data["text"] if "text" in data else os.fsdecode(base64.b64decode(data["bytes"]))
