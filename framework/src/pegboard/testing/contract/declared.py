"""Rule `entry-points`: what is declared without import equals what is there after it."""

from collections.abc import Iterator

import click

from pegboard import Tool
from pegboard.dispatch.plans import marked
from pegboard.testing.contract.report import Finding
from pegboard.testing.contract.specimen import Specimen

_WHERE = '[project.entry-points."pegboard.{}"]'


def check_entry_points(specimen: Specimen) -> Iterator[Finding]:
    """Yield each difference; a pack without a distribution of its own declares nothing, so it has none."""
    if specimen.declared:
        yield from _tools(specimen)
        yield from _commands(specimen)
        yield from _guards(specimen)


def _tools(specimen: Specimen) -> Iterator[Finding]:
    where = _WHERE.format("tools")
    registered = {tool.name for tool in specimen.tools if not tool.server}  # foreign names can't be reserved
    for name in sorted(registered - set(specimen.own.tools)):
        what = f"tool `{name}` is registered but its name is not reserved, so another pack may take it"
        yield Finding("entry-points", what, where, f'add `{name} = "{specimen.reference}"`')
    for name, reference in sorted(specimen.own.tools.items()):
        try:
            found = specimen.load(reference)
        except Exception as error:
            what = f"`{name} = {reference}` leads nowhere: {type(error).__name__}: {error}"
            yield Finding("entry-points", what, where, "correct it; it may name the pack's own object")
            continue
        if isinstance(found, Tool) and found.name != name:
            what = f"`{name}` leads to a tool named `{found.name}`"
            yield Finding("entry-points", what, where, "give both the same name")
        if name not in registered:
            what = f"tool `{name}` is reserved but the pack does not register it"
            yield Finding("entry-points", what, where, "remove the line, or hand the tool over in `register_tools`")


def _commands(specimen: Specimen) -> Iterator[Finding]:
    for name, reference in specimen.own.commands.items():
        try:
            command = specimen.load(reference)
        except Exception:  # noqa: S112 - the rule `import` told it
            continue
        if not isinstance(command, click.Command):
            what = f"command `{name}` is a {type(command).__name__}, which the command line can't run"
            mend = f"let `{reference}` be a click command (`@click.command()`)"
            yield Finding("entry-points", what, _WHERE.format("commands"), mend)


def _guards(specimen: Specimen) -> Iterator[Finding]:
    """Who guards must be known without import: a guard that is installed but not active stops every run."""
    where = _WHERE.format("guards")
    declared = specimen.entry_points("pegboard.guards")
    line = f'{specimen.name} = "{specimen.reference}"'
    guards = any(
        hook == "guard_tool_call"
        for container in [specimen.instance, *specimen.classes()]
        for _, hook, _ in marked(container)
    )
    if guards and not declared:
        what = "the pack implements `guard_tool_call` but does not declare it, so its failure would go unnoticed"
        yield Finding("entry-points", what, where, f"add `{line}`")
    elif declared and not guards:
        what = "the pack declares that it guards tool calls but implements no `guard_tool_call`"
        yield Finding("entry-points", what, where, "remove the group, or implement the hook")
    elif guards and declared != {specimen.name: specimen.reference}:
        told = ", ".join(f"{name} = {reference}" for name, reference in declared.items())
        what = f"the guard is declared as `{told}`, which is not what `pegboard.packs` says"
        yield Finding("entry-points", what, where, f"write `{line}`, the same as in `pegboard.packs`")
