"""What to start as a process, and what no system could start."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pegboard.base.errors import PegboardError
from pegboard.base.text import one_line

if TYPE_CHECKING:
    pass


_TARGETS: Final = {"stdin": ("null", "pipe"), "stdout": ("pipe", "null"), "stderr": ("pipe", "null", "stdout")}


_MAX_GRACE: Final = 600.0


class ProcessRefused(PegboardError):
    """A pack refused to let a process start; the message is its reason."""


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What to start. `argv[0]` is an absolute path, or a name that is looked up on PATH but never below `cwd`.

    `env` is added to a minimal environment, `pass_env` names variables that are let through from ours. `stdout` and
    `stderr` `pipe` give streams; `stderr` may go where `stdout` goes. `grace` is how many seconds the group has after
    the polite signal. `owner` (a pack) and `session` are filled in by the host.
    """

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict)
    pass_env: tuple[str, ...] = ()
    stdin: Literal["null", "pipe"] = "null"
    stdout: Literal["pipe", "null"] = "pipe"
    stderr: Literal["pipe", "null", "stdout"] = "null"
    grace: float = 2.0
    owner: str = ""
    session: str | None = None

    def check(self) -> None:
        """Refuse what no system could start.

        Raises:
            PegboardError: naming the part and what is wrong with it; never a value of `env`.
        """
        for wrong in self._mistakes():
            raise PegboardError(one_line(f"no process can be started from this: {wrong}", 400))

    def _mistakes(self) -> Iterator[str]:
        if not isinstance(self.argv, tuple) or not self.argv:
            yield "`argv` must be a tuple with the program first; a shell line is none"
        for place, argument in enumerate(self.argv):
            if not isinstance(argument, str) or "\0" in argument:
                yield f"`argv[{place}]` must be a text without NUL"
        if not self.argv[0] or (os.path.dirname(self.argv[0]) and not os.path.isabs(self.argv[0])):
            yield f"`argv[0]` must be an absolute path or a name to look up on PATH, not {self.argv[0]!r}"
        if not isinstance(self.cwd, Path) or not self.cwd.is_absolute() or "\0" in str(self.cwd):
            yield f"`cwd` must be an absolute Path, not {self.cwd!r}"
        if not isinstance(self.env, Mapping) or not isinstance(self.pass_env, tuple):
            yield "`env` must be a mapping, `pass_env` a tuple of names"
        for name in (*self.env, *self.pass_env):
            if not isinstance(name, str) or not name or "=" in name or "\0" in name:
                yield f"{name!r} is no name of a variable"
        for name, value in self.env.items():
            if not isinstance(value, str) or "\0" in value:
                yield f"the value of the variable {name} must be a text without NUL"
        for part, allowed in _TARGETS.items():
            if getattr(self, part) not in allowed:
                yield f"`{part}` must be one of {', '.join(allowed)}, not {getattr(self, part)!r}"
        if not isinstance(self.grace, int | float) or not 0 <= self.grace <= _MAX_GRACE:
            yield f"`grace` must be 0 to {_MAX_GRACE:g} seconds, not {self.grace!r}"
