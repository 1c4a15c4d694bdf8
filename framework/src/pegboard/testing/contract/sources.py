"""Rule `public-names`: what a pack's source takes from Pegboard, read without importing anything."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pegboard
from pegboard.testing.contract.report import Finding
from pegboard.testing.contract.specimen import Specimen

PUBLIC_MODULES: Final = (
    "pegboard",
    "pegboard.events",
    "pegboard.folds",
    "pegboard.schemas",
    "pegboard.testing",
)
_TOP: Final = frozenset([*pegboard.__all__, "__version__", *(name.partition(".")[2] for name in PUBLIC_MODULES[1:])])


def check_public_names(specimen: Specimen) -> Iterator[Finding]:
    """Yield every import, and every attribute of `pegboard`, that is not public."""
    for file in specimen.sources if specimen.packages[0].partition(".")[0] != "pegboard" else ():
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", 0) or 0
            where, mend = specimen.show(file, line), "mend it: Python can't read the file"
            yield Finding("public-names", f"the source is no Python: {error}", where, mend)
            continue
        for line, name, instead in _private_names(tree):
            yield _finding(specimen, file, line, name, instead)


def _finding(specimen: Specimen, file: Path, line: int, name: str, instead: str) -> Finding:
    mend = (
        f"write `from pegboard import {instead}`"
        if instead in pegboard.__all__
        else (
            f"use what {', '.join(f'`{module}`' for module in PUBLIC_MODULES)} make public, or ask for what is missing"
        )
    )
    return Finding("public-names", f"`{name}` is not public and may go without notice", specimen.show(file, line), mend)


def _private_names(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Yield (line, what is taken, its last name) for each use of something private."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    if alias.name.startswith("pegboard.") and alias.name not in PUBLIC_MODULES:
                        yield node.lineno, alias.name, ""
            case ast.ImportFrom(module=str(module), names=names, level=0):
                for alias in names:
                    if _is_private(module, alias.name):
                        yield node.lineno, f"{module}.{alias.name}", alias.name
            case ast.Attribute(value=ast.Name(id="pegboard"), attr=name) if name not in _TOP:
                yield node.lineno, f"pegboard.{name}", name


def _is_private(module: str, name: str) -> bool:
    if module == "pegboard":
        return name not in _TOP and name != "*"
    if module in PUBLIC_MODULES:
        return name.startswith("_")
    return module.startswith("pegboard.")
