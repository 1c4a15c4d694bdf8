"""The kernel's own commands as data, so that help can be printed without importing any of them."""

from collections.abc import Mapping
from typing import Final

# name -> (module:attribute of the click command, one-line help)
KERNEL_COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "run": ("pegboard.cli.run:run", "Run one task on the current directory and answer it."),
    "resume": ("pegboard.cli.resume:resume", "Go on with a session that paused for a person."),
    "answer": ("pegboard.cli.answer:answer", "Answer what a paused session asks."),
    "call": ("pegboard.cli.call:call", "Call one tool through the whole pipeline, without a model."),
    "tools": ("pegboard.cli.tools:tools", "List the tools that a model would be offered."),
    "why": ("pegboard.cli.why:why", "Say why a tool is, or is not, offered."),
    "hooks": ("pegboard.cli.hooks:hooks", "List the hooks, and who implements one, in which order."),
    "packs": ("pegboard.cli.packs:packs", "Show which packs are installed and what became of each."),
    "check": ("pegboard.cli.check:check", "Check a pack against the contract that every pack keeps."),
    "trust": ("pegboard.cli.trust:trust", "Look at what a project brings, and decide whether it counts."),
    "config": ("pegboard.cli.config:config", "Show, locate, check and describe the configuration."),
}
