"""The kernel's own guard: paths that no tool writes without a person, and writes that no pack decides about."""

import os
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final

from pegboard.calls.pack_views import GuardedCall
from pegboard.config.places import Places
from pegboard.hookspecs import hooks
from pegboard.values.hook_markers import PROJECT, implements
from pegboard.values.verdicts import Ask

KERNEL_PACK: Final = PROJECT

_OF_PEGBOARD: Final = frozenset(("pegboard.toml", "pegboard.lock"))
_FILES_OF_GIT: Final = frozenset((".gitmodules", ".gitconfig")) | {
    f"{name}.{kind}"
    for name in (
        ".pre-commit-config",
        ".pre-commit-hooks",
        "lefthook",
        ".lefthook",
        "lefthook-local",
        ".lefthook-local",
    )
    for kind in ("yml", "yaml", "toml")
}
_FOLDERS_OF_GIT: Final = frozenset((".git", ".husky", ".githooks"))
_FILES_OF_CI: Final = frozenset(("jenkinsfile", ".cirrus.star")) | {
    f"{name}.{kind}"
    for name in (
        *(".gitlab-ci", "azure-pipelines", ".travis", "bitbucket-pipelines", ".drone", ".cirrus"),
        *(".woodpecker", "appveyor", ".appveyor"),
    )
    for kind in ("yml", "yaml")
}
_FOLDERS_OF_CI: Final = frozenset((".circleci", ".buildkite", ".woodpecker", ".azure-pipelines", ".teamcity"))
# Folders in which only some are orders; replacing the whole folder replaces these.
_FORGES: Final = frozenset((".github", ".gitlab", ".gitea", ".forgejo"))
_ORDERS_OF_FORGES: Final = frozenset(("workflows", "actions", "ci"))
# Two spellings of one name: some file systems drop these from it, or cut it at them.
_IGNORED: Final = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]|:.*")


class KernelPolicy:
    """Registered for every agent under the kernel's name; `claimed` tells whether an active pack claims policy now."""

    def __init__(self, places: Places, claimed: Callable[[], bool]) -> None:
        self._places = places
        self._claimed = claimed

    @implements(hooks.guard_tool_call)
    def guard(self, call: GuardedCall) -> Ask | None:
        """Ask a person about writes to what Pegboard, git or a CI service would take orders from (DESIGN §3.5).

        And about every other write while no pack that claims policy is active (rule 6).
        """
        if call.tool.effect != "write":
            return None
        directory = call.agent.session.directory
        paths = [touch.value for touch in call.touches if touch.kind == "path"]
        if reasons := [reason for path in paths if (reason := protected_reason(path, self._places, directory))]:
            return Ask("; ".join(reasons), person=True)
        return None if self._claimed() else Ask("no policy pack decides about writes")


def protected_reason(path: str, places: Places, directory: Path) -> str | None:
    """Return why the real path `path` may be written by no tool without a person, or None if it may.

    The file need not exist. Letter case counts nowhere, whatever the file system. `directory` is the session's.
    """
    parts = [_plain(part) for part in re.split(r"[/\\]+", path)]
    for folder, text in _own_folders(places):
        if parts[: len(folder)] == folder:
            return text
    for index, part in enumerate(parts):
        if not part.startswith(".") and part not in _WITHOUT_DOT and not part.endswith(".git"):
            continue
        if what := _reason(part, parts[index + 1 :], parts[index - 1] if index else ""):
            return f"{_shown(path, directory)} {what}"
    return None


def _reason(part: str, below: list[str], above: str) -> str | None:
    if part in _OF_PEGBOARD or part == ".agents":
        return "is read by Pegboard as a project's settings"
    if part in _FOLDERS_OF_GIT or (part in _FILES_OF_GIT and not below) or (above == ".config" and part == "git"):
        return "is where git, or a hook of it, takes orders from"
    if part.endswith(".git") and below and below[0] in ("hooks", "config", "info", "modules"):
        return "is where git takes orders from"
    if part in _FOLDERS_OF_CI or (part in _FILES_OF_CI and not below):
        return "is run by a CI service"
    if part in _FORGES and (not below or below[0] in _ORDERS_OF_FORGES):
        return "is run by a CI service"
    return None


_WITHOUT_DOT: Final = frozenset(
    name for name in (*_OF_PEGBOARD, *_FILES_OF_GIT, *_FILES_OF_CI, "git") if not name.startswith(".")
)


def _plain(part: str) -> str:
    """Return a name as every file system would find it: without case, trailing dots and spaces, and streams."""
    if part.isascii() and ":" not in part:
        return part.lower().rstrip(". ") or part
    return _IGNORED.sub("", part.casefold()).rstrip(". ") or part


@lru_cache(maxsize=16)
def _own_folders(places: Places) -> tuple[tuple[list[str], str], ...]:
    """Return the folders that are Pegboard's own, as given and with all links followed, split into names."""
    config, state = "holds your own Pegboard settings", "is what Pegboard itself remembers"
    named = [(places.config_file.parent, config), (places.config_file, config), (places.state_dir, state)]
    found: dict[str, str] = {}
    for folder, text in named:
        for spelled in (os.path.abspath(folder), os.path.realpath(folder)):
            found[spelled] = f"{folder} {text}"
    return tuple(([_plain(part) for part in re.split(r"[/\\]+", spelled)], text) for spelled, text in found.items())


def _shown(path: str, directory: Path) -> str:
    start = f"{directory}{os.sep}"
    return path[len(start) :] if path.startswith(start) else path
