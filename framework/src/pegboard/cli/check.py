"""`pegboard check`: whether a pack keeps the pack contract, and how to mend what it breaks."""

import json

import click

from pegboard.base.text import count, printable
from pegboard.testing.contract.checking import check_pack
from pegboard.testing.contract.report import RULES, Report

_EXAMPLES = """\b
Examples:
  pegboard check tickets         an installed pack
  pegboard check .               the pack whose project this folder is, installed or not
  pegboard check tickets --json
"""


@click.command(epilog=_EXAMPLES)
@click.argument("pack", metavar="PACK|PATH")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def check(pack: str, as_json: bool) -> int:
    """Check a pack against the pack contract; exit 1 if it breaks a rule.

    Its code is run, with your rights, in a process of its own: imported, loaded alone and beside packs that fail,
    unloaded. As tests it is `pegboard.testing.PackContract`.
    """
    report = check_pack(pack)
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=1))
    else:
        _print(report)
    return 0 if report.ok else 1


def _print(report: Report) -> None:
    imported = "" if report.import_ms is None else f" · imported in {report.import_ms:g} ms"
    ran = "" if report.run_ms is None else f" · a run with two calls took {report.run_ms:g} ms"
    click.echo(f"{report.pack} {printable(report.version)} ({printable(report.distribution)}){imported}{ran}")
    for rule, promise in RULES.items():
        found = report.of(rule)
        state, colour = ("broken", "red") if found else ("kept", "green")
        if rule not in report.checked:
            state, colour = "open", "bright_black"
        click.secho(f"  {state:<7}", fg=colour, nl=False)
        click.echo(f" {rule:<13} ", nl=False)
        click.secho(promise, dim=True)
        for finding in found:
            click.echo(f"          {printable(str(finding))}")
    unchecked = len(RULES) - len(report.checked)
    more = f", {unchecked} not checked: they need those that are broken" if unchecked else ""
    click.echo(f"{count(len(RULES), 'rule')}, {count(len(report.findings), 'finding')}{more}")
