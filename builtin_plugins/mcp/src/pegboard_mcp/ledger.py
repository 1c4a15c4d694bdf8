"""What servers said of their tools when they were first seen, so that a definition that changes is noticed.

Whoever configured a server, or accepted a project's, has said yes to the tools that it then has. A definition that is
another one later, under the same configuration, is withheld until a person has seen the difference.
"""

import difflib
import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pegboard import one_line, printable

from pegboard_mcp.listing import Definition
from pegboard_mcp.servers import Server

_MAX_TOOLS: Final = 3_000
TOO_MANY: Final = f"the server has brought more than {_MAX_TOOLS:,} different tools over time"


@dataclass(frozen=True, slots=True)
class Change:
    """A definition that differs from the one that was accepted on `since`."""

    name: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    since: str

    def diff(self) -> str:
        """Return what changed, line by line, safe to print."""
        old, new = (json.dumps(one, indent=1, sort_keys=True, ensure_ascii=False) for one in (self.before, self.after))
        titles = (f"{self.name} accepted {self.since}", f"{self.name} now")
        lines = difflib.unified_diff(old.splitlines(), new.splitlines(), *titles, lineterm="", n=1)
        return "\n".join(printable(line) for line in lines)


@dataclass(slots=True)
class Page:
    """What is remembered of one server under one configuration: its era, and each accepted definition with its day."""

    config: str
    era: str = ""
    tools: dict[str, dict[str, Any]] = field(default_factory=dict)

    def review(self, definitions: Iterable[Definition]) -> tuple[list[Change], list[str]]:
        """Accept what is seen for the first time; returns what differs from what was accepted, and what is too much."""
        changes, refused = [], []
        for one in definitions:
            known = self.tools.get(one.name)
            if known is None and len(self.tools) >= _MAX_TOOLS:
                refused.append(one.name)
            elif known is None:
                self.accept(one)
            elif known["hash"] != one.hash:
                changes.append(Change(one.name, known["definition"], one.as_json(), known["since"]))
        return changes, refused

    def accept(self, one: Definition) -> None:
        """Take a definition for the accepted one."""
        today = time.strftime("%Y-%m-%d")
        self.tools[one.name] = {"hash": one.hash, "since": today, "definition": one.as_json()}


class Ledger:
    """Keeps a page for each server in the pack's own folder; a page that can't be read counts as none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def page(self, server: Server) -> Page:
        """Return what is remembered of a server; of another configuration of it nothing is."""
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            kept = json.loads(self._file(server).read_text("utf-8"))
            if kept["config"] == server.hash:
                tools = {name: _sound(one) for name, one in kept["tools"].items()}
                return Page(server.hash, str(kept["era"]), tools)
        return Page(server.hash)

    def keep(self, server: Server, page: Page) -> None:
        """Write a page, in one move.

        Raises:
            OSError: it can't be written.
        """
        kept = json.dumps({"config": page.config, "era": page.era, "tools": page.tools}, indent=1)
        file = self._file(server)
        with suppress(OSError, ValueError):
            if file.read_text("utf-8") == kept:
                return
        passing = file.with_suffix(f".{os.getpid()}")
        passing.write_text(kept, "utf-8")
        passing.chmod(0o600)
        passing.replace(file)

    def _file(self, server: Server) -> Path:
        return self._folder / f"{one_line(server.name)}.json"


def _sound(one: Any) -> dict[str, Any]:
    """Return a remembered definition if it is one.

    Raises:
        TypeError: it is none.
    """
    if not (isinstance(one["hash"], str) and isinstance(one["since"], str) and isinstance(one["definition"], dict)):
        raise TypeError("no remembered definition")
    return {"hash": one["hash"], "since": one["since"], "definition": one["definition"]}
