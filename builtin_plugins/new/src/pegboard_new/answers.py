"""The answers that the template asks for, each checked before anything is written."""

import keyword
import re
import sys
from collections.abc import Collection
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Final

from pegboard import UsageError

LICENSES: Final = ("Apache-2.0", "MIT", "Proprietary")
BUILT_IN: Final = (
    "agent-plugins",
    "codegraph",
    "mcp",
    "models",
    "new",
    "permissions",
    "progress",
    "skills",
    "subagents",
    "tape",
    "workspace",
)
_RESERVED: Final = ("default", "pegboard", "all")
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST: Final = 32
_LONGEST_DISTRIBUTION: Final = len("pegboard-") + _LONGEST
_UNSAFE: Final = re.compile(r"[\"\\{}]")


@dataclass(frozen=True, slots=True)
class Answers:
    """What the template is filled with."""

    name: str
    description: str
    author: str
    license: str
    distribution: str


def check_name(name: str, commands: Collection[str]) -> str:
    """Return a pack's name, which is also that of its command.

    Raises:
        UsageError: it is no name, or it is taken by a pack or by one of these commands.
    """
    _check_shape(name, "pack", _LONGEST)
    if keyword.iskeyword(name) or keyword.issoftkeyword(name) or name in sys.stdlib_module_names:
        raise UsageError(f"`{name}` is a word of Python; choose another name for the pack")
    if name in BUILT_IN or name in _RESERVED:
        raise UsageError(f"`{name}` is a name of Pegboard's own; choose another one for the pack")
    if name in {entry.name for entry in entry_points(group="pegboard.packs")}:
        raise UsageError(f"a pack named `{name}` is installed; choose another name, or uninstall it first")
    if name in commands:
        raise UsageError(f"`pegboard {name}` is a command already, and the pack's would have that name; choose another")
    return name


def check_distribution(distribution: str) -> str:
    """Return a distribution's name, of which the module's is made.

    Raises:
        UsageError: it is no name, or Python would find another module under it.
    """
    _check_shape(distribution, "distribution", _LONGEST_DISTRIBUTION)
    module = distribution.replace("-", "_")
    found = find_spec(module)
    if keyword.iskeyword(module) or (found is not None and found.origin is not None):  # a mere folder has no origin
        raise UsageError(f"there is a module `{module}` already; choose another name with --distribution")
    return distribution


def check_description(text: str) -> str:
    """Return a description.

    Raises:
        UsageError: it says nothing, or is no line of text.
    """
    if not (checked := check_text(text, "description")):
        raise UsageError("the description is empty; say in one line what the pack does")
    return checked


def check_text(text: str, what: str) -> str:
    """Return one line of text that means the same in TOML, Markdown and a docstring; a full stop at its end is cut.

    Raises:
        UsageError: it is something else.
    """
    text = text.strip().removesuffix(".")
    if not text.isprintable() or len(text) > 90 or _UNSAFE.search(text):
        raise UsageError(f"the {what} is one line of at most 90 characters without quotes, backslashes and braces")
    return text


def _check_shape(name: str, what: str, longest: int) -> None:
    if len(name) > longest or not _NAME.fullmatch(name):
        allowed = f"lower-case letters, digits and single dashes, at most {longest}"
        raise UsageError(f"{name[:longest]!r} is no name for a {what}: {allowed}")
