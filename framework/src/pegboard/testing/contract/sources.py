"""Rule `public-names`: what a pack's source takes from Pegboard, read without importing anything of the pack."""

import ast
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from pegboard.testing.contract.report import Finding
from pegboard.testing.contract.specimen import Specimen

PUBLIC_MODULES: Final = ("pegboard", "pegboard.events", "pegboard.folds", "pegboard.schemas", "pegboard.testing")

# module -> what it makes public
_Names = Mapping[str, frozenset[str]]


def check_public_names(specimen: Specimen) -> Iterator[Finding]:
    """Yield every import, and every attribute of `pegboard`, that is not public."""
    if specimen.reference.startswith("pegboard."):
        return  # the kernel ships it, and keeps both in step
    public = _public_names()
    for file in specimen.sources:
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError) as error:
            where = specimen.show(file, getattr(error, "lineno", 0) or 0)
            yield Finding("public-names", f"the source is no Python: {error}", where, "mend what Python can't read")
            continue
        for line, module, name in _private_names(tree, public):
            what = f"`{module}.{name}` is not public and may go without notice"
            yield Finding("public-names", what, specimen.show(file, line), _mend(name, public))


def _public_names() -> _Names:
    names = {module: set(import_module(module).__all__) for module in PUBLIC_MODULES}
    names["pegboard"] |= {"__version__", *(module.partition(".")[2] for module in PUBLIC_MODULES[1:])}
    return {module: frozenset(found) for module, found in names.items()}


def _private_names(tree: ast.AST, public: _Names) -> Iterator[tuple[int, str, str]]:
    """Yield (line, module, name) for each use of something private."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    above, _, name = alias.name.rpartition(".")
                    if alias.name.startswith("pegboard.") and alias.name not in public:
                        yield node.lineno, above, name
            case ast.ImportFrom(module=str(module), names=names, level=0):
                for alias in names:
                    if _is_private(module, alias.name, public):
                        yield node.lineno, module, alias.name
            case ast.Attribute(value=ast.Name(id="pegboard"), attr=name) if _is_private("pegboard", name, public):
                yield node.lineno, "pegboard", name


def _is_private(module: str, name: str, public: _Names) -> bool:
    if module in public:
        return name not in public[module] and name != "*"
    return module.startswith("pegboard.")


def _mend(name: str, public: _Names) -> str:
    for module in PUBLIC_MODULES:
        if name in public[module]:
            return f"write `from {module} import {name}`"
    return f"use what {', '.join(f'`{module}`' for module in PUBLIC_MODULES)} make public, or ask for what is missing"
