"""On which line of a TOML text each key is set; only asked when something is reported."""

import re
from collections.abc import Iterator
from typing import Any, Final

# Strings and comments as wholes, so that no bracket or line end in them counts. Compiled when first asked.
_PIECE: Final = (
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*|[\[\]{}\n]|[^\[\]{}\n\"'#]+|."
)
_PART: Final = r"""(?:[\w-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')"""
_KEY: Final = rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*="


def index_lines(text: str) -> dict[tuple[str, ...], int]:
    """Return for each key path, and each table, the number of the line that first sets it."""
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, statement in _statements(text):
        if statement.lstrip().startswith("["):
            key = table = _key_of(statement.strip())
        elif found := re.match(_KEY, statement):
            key = table + _key_of(f"{found[1]} = 0")
        else:
            continue
        for length in range(1, len(key) + 1):
            lines.setdefault(key[:length], number)
    return lines


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) of each header and assignment, however many lines its value takes."""
    depth = 0
    number = start = 1
    statement = ""
    for piece in re.findall(_PIECE, text, re.DOTALL):
        if piece == "\n" and depth <= 0:
            yield start, statement
            statement, depth, start = "", 0, number + 1
        elif not piece.startswith("#"):
            statement += piece
            depth += (piece in ("[", "{")) - (piece in ("]", "}"))
        number += piece.count("\n")
    yield start, statement


def _key_of(toml: str) -> tuple[str, ...]:
    """Return the key path that a header or an assignment names."""
    import tomllib

    try:
        value: Any = tomllib.loads(toml)
    except ValueError:
        return ("",)
    path: list[str] = []
    while isinstance(value, dict) and value:
        name, value = next(iter(value.items()))
        path.append(name)
        value = value[0] if isinstance(value, list) and value else value
    return tuple(path)
