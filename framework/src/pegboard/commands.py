"""The kernel's own commands as data, so that help can be printed without importing any of them."""

from collections.abc import Mapping
from typing import Final

# name -> (module:attribute of the click command, one-line help)
KERNEL_COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "run": ("pegboard.cli.run:run", "Run one task on the current directory and answer it."),
    "call": ("pegboard.cli.call:call", "Call one tool through the whole pipeline, without a model."),
    "tools": ("pegboard.cli.tools:tools", "List the tools that a model would be offered."),
    "packs": ("pegboard.cli.packs:packs", "Show which packs are installed and what became of each."),
    "config": ("pegboard.cli.config:config", "Show, locate and check the configuration."),
}
