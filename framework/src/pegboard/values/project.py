"""What a directory brings for Pegboard, as it was read."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROJECT_FILE: Final = "pegboard.toml"


@dataclass(frozen=True, slots=True)
class Project:
    """A directory with what it brings: `files` by their names in it, with `/` between folders, as they were read.

    `others` are links, devices and the like, which are never read, each with what it is. `hash` is the SHA-256, in hex,
    over all of it. With `problems` it can never be trusted.
    """

    path: Path
    files: Mapping[str, bytes]
    others: Mapping[str, str]
    hash: str
    problems: tuple[str, ...] = ()

    @property
    def file(self) -> Path:
        """Where its settings stand, or would."""
        return self.path / PROJECT_FILE
