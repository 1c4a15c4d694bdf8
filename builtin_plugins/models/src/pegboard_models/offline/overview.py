"""What is here: told from the README, the project's manifest and the names of the files."""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from pegboard import Tool, ToolCall, ToolResult

from pegboard_models.offline.evidence import numbered_lines
from pegboard_models.offline.routing import is_list, is_reader

_READ: Final = 60
_QUOTED: Final = 8
_SHOWN: Final = 16
_PATTERNS: Final = ("README*", "{pyproject.toml,setup.cfg,package.json,Cargo.toml,go.mod}", "*")
_ORNAMENT: Final = re.compile(r"^\W*$|^\s*(<|\.\. |:\w|\[?!\[|\[!\[)")
Calls = list[tuple[str, dict[str, Any]]]
Round = list[tuple[ToolCall, ToolResult]]


def look(tools: Sequence[Tool]) -> Calls:
    """Return the calls that look for what a project says of itself; none if nothing here lists files and reads."""
    lister = next((tool for tool in tools if is_list(tool) and tool.effect == "read"), None)
    reader = next(filter(is_reader, tools), None)
    return [(lister.name, {"pattern": one}) for one in _PATTERNS] if lister and reader else []


def read(tools: Sequence[Tool], found: Round) -> Calls:
    """Return the calls that read the README and the manifest that stand nearest to the top."""
    reader = next(filter(is_reader, tools))
    chosen = [min(paths, key=_nearness) for _, result in found[:2] if (paths := _paths(result))]
    return [(reader.name, {"path": path, "start": 1, "end": _READ}) for path in chosen]


def tell(rounds: list[Round]) -> str:
    """Return the beginning of what was read, line by line, and the names at the top."""
    parts = []
    for call, result in rounds[1] if len(rounds) > 1 else ():
        lines = numbered_lines(result.content) if result.status == "ok" else {}
        said = [n for n in sorted(lines) if not _ORNAMENT.match(lines[n])][:_QUOTED]
        if said:
            quoted = "\n".join(f"    {number:>5}  {lines[number].strip()[:160]}" for number in said)
            parts.append(f"  {json.loads(call.arguments)['path']}:{said[0]}-{said[-1]}\n{quoted}")
    listed = rounds[0][-1][1]
    names = list(dict.fromkeys(path.partition("/")[0] + "/" * ("/" in path) for path in _paths(listed)))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    there = f"At the top ({listed.summary} in all): {' '.join(names[:_SHOWN])}{more}"
    head = "This is what it says of itself:\n" if parts else "There is no README to quote from.\n"
    return head + "\n".join([*parts, there] if names else parts)


def _paths(result: ToolResult) -> list[str]:
    if result.status != "ok" or result.content == "no file matches":
        return []
    return [line for line in result.content.splitlines() if not line.startswith("(")]


def _nearness(path: str) -> tuple[int, bool, str]:
    return path.count("/"), not path.lower().endswith((".md", ".rst", ".txt", ".toml")), path
