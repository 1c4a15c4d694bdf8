"""Errors that are told to a person: what happened, where, and how to mend it, in one line each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pegboard.base.text import one_line


class PegboardError(Exception):
    """A failure with one clear line as its message; the command line prints it and exits 1."""

    exit_code = 1


class UsageError(PegboardError):
    """The command line or a call was used wrongly; exits 2."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in the configuration: `where` (a file with line, or a variable), `key` path, and what is wrong."""

    where: str
    key: str
    text: str

    def __str__(self) -> str:
        return "  ".join(one_line(part, 400) for part in (self.where, self.key, self.text) if part)


def aligned(problems: Sequence[Problem]) -> list[str]:
    """Return one line for each problem, place, key and text below each other."""
    rows = [[one_line(part, 400) for part in (problem.where, problem.key, problem.text)] for problem in problems]
    widths = [min(max((len(row[column]) for row in rows), default=0), 60) for column in (0, 1)]
    cells = ([f"{row[column]:<{widths[column]}}" for column in (0, 1) if widths[column]] + [row[2]] for row in rows)
    return ["  ".join(row).rstrip() for row in cells]


class ConfigError(PegboardError):
    """Everything that is wrong with the configuration, told at once."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "".join(f"\n  {line}" for line in aligned(problems))
        advice = "nothing was run. `pegboard config schema` describes every setting."
        super().__init__(f"{count} in the configuration{lines}\n{advice}")


class Disposed(PegboardError):
    """Something was registered, or asked to run, through an agent or a host that is gone (T4)."""


class Conflict(PegboardError):
    """A session's record moved on: another process, or another host, appended to it meanwhile."""


class PackFailure(PegboardError):
    """Why one pack can't be used; the message becomes the reason of its state `failed`."""


ModelErrorKind = Literal["route", "auth", "rate-limit", "context-too-long", "connection", "script", "response"]


class ModelError(PegboardError):
    """A model route could not be opened, or a request failed.

    `kind` classifies it for retries and compaction; the message names the remedy.
    """

    def __init__(self, message: str, kind: ModelErrorKind) -> None:
        self.kind = kind
        super().__init__(message)


class InvalidArguments(PegboardError):
    """A model or person called a tool with arguments that its schema refuses (code INVALID_ARGS, T32)."""

    def __init__(self, violations: Sequence[str]) -> None:
        self.violations = tuple(violations)
        super().__init__(f"invalid arguments: {'; '.join(violations)}")


class UnsupportedSchema(PegboardError, TypeError):
    """A tool's definition says something that its schema can't be, or that Pegboard does not check (T28)."""

    code: Final = "UNSUPPORTED_SCHEMA"

    def __init__(self, violations: Sequence[str]) -> None:
        self.violations = tuple(violations)
        super().__init__(f"unsupported JSON schema: {'; '.join(violations)}")


class ToolError(PegboardError):
    """Raised by a tool body to tell the model, in one line, why it could not do what was asked."""
