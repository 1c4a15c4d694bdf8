"""Reading a TOML file a person wrote: as any editor saves it, with one clear problem if it is none."""

import re
from pathlib import Path

from pegboard.base.errors import Problem
from pegboard.config.layers import Layer


def read_toml(kind: str, path: Path, problems: list[Problem]) -> Layer | None:
    """Return a file as a layer, or None if there is none, or with a problem if it can't be read."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            problems.append(Problem(str(path), "", "can't be read: it is a pipe, socket or device"))
            return None
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(Problem(str(path), "", f"can't be read: {error.strerror}"))
        return None
    return parse_toml(kind, path, content, problems)


def parse_toml(kind: str, path: Path, content: bytes, problems: list[Problem]) -> Layer | None:
    """Return the content of a file as a layer, or None with a problem."""
    import tomllib  # not before there is something to read

    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
        return Layer(kind, str(path), tomllib.loads(text), text)
    except UnicodeDecodeError as error:
        problems.append(Problem(str(path), "", f"is not UTF-8 (byte {error.start}); save it as UTF-8"))
    except RecursionError:
        problems.append(Problem(str(path), "", "is not valid TOML: nested too deeply"))
    except ValueError as error:
        found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error))
        where, told = (f"{path}:{found[2]}", found[1]) if found else (str(path), str(error))
        problems.append(Problem(where, "", f"is not valid TOML: {told}"))
    return None
