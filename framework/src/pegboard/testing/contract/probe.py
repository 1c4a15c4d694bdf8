"""The process that checks one pack: `python -m pegboard.testing.contract.probe DISTRIBUTION declared|bare REPORT`.

Each fact is a line of JSON in the report, written at once: the pack may end this process at any moment.
"""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pegboard.base.text import one_line
from pegboard.testing.contract.code import check_hooks, check_settings
from pegboard.testing.contract.declared import check_entry_points
from pegboard.testing.contract.imports import Watch, check_disabled, check_import
from pegboard.testing.contract.lives import check_alone, check_neighbour, check_residue
from pegboard.testing.contract.report import Finding
from pegboard.testing.contract.sources import check_public_names
from pegboard.testing.contract.specimen import Specimen
from pegboard.testing.contract.tools import check_handed_over, check_registered

Check = Callable[[], Iterator[Finding]]


def main() -> None:
    """Check the pack that the command line names."""
    distribution, declared, report = sys.argv[1:]
    specimen = Specimen(distribution, declared == "declared")
    with Path(report).open("a", encoding="utf-8") as file, contextlib.redirect_stdout(sys.stderr):

        def write(**fact: Any) -> None:
            file.write(json.dumps(fact) + "\n")
            file.flush()

        write(distribution=specimen.own.name, version=specimen.own.version)
        check_all(specimen, write)
        write(end=True)
    os._exit(0)  # a thread that the pack left would hold up an orderly end


def check_all(specimen: Specimen, write: Callable[..., None]) -> None:
    """Check the rules in order; where a rule needs another one that does not hold, end there."""

    def holds(rule: str, check: Check) -> bool:
        write(begin=rule)
        found = list(check())
        for finding in found:
            write(finding={key: one_line(text, 500) for key, text in asdict(finding).items()})
        return not found

    watch = Watch(specimen)
    holds("disabled", lambda: check_disabled(specimen))
    holds("public-names", lambda: check_public_names(specimen))
    holds("import", lambda: check_import(specimen, watch))
    write(import_ms=watch.cpu_ms)
    if specimen.target is None:
        return
    holds("settings", lambda: check_settings(specimen))
    if specimen.instance is None or not holds("hooks", lambda: check_hooks(specimen)):
        return
    holds("tools", lambda: check_handed_over(specimen))
    lives = holds("alone", lambda: check_alone(specimen))
    write(run_ms=specimen.run_ms)
    holds("tools", lambda: check_registered(specimen))
    holds("entry-points", lambda: check_entry_points(specimen))
    if lives:
        holds("neighbour", lambda: check_neighbour(specimen))
        holds("residue", lambda: check_residue(specimen))


if __name__ == "__main__":
    main()
