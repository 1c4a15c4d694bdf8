"""Finding a program on PATH, but never one that the project itself brings (security case 54)."""

import os
import shutil
from pathlib import Path


def find_program(name: str, root: Path) -> str | None:
    """Return the real path of a program, or None.

    Relative entries of PATH are passed over, and so is what lies in the session's directory, be it by a link.
    """
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if not Path(folder).is_absolute() or Path(folder).is_relative_to(root):
            continue
        found = shutil.which(name, path=folder)
        if found and not (real := Path(found).resolve()).is_relative_to(root):
            return str(real)
    return None
