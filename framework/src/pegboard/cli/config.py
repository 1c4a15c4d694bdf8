"""`pegboard config`: where settings come from, what they are, what there is to set, and what is wrong with them."""

import json
from collections.abc import Iterable

import click

from pegboard.base.errors import Problem
from pegboard.base.text import printable
from pegboard.cli.group import Options
from pegboard.cli.reading import load_with, read_packs, working_directory
from pegboard.config.places import Places

_EXAMPLES = """\b
Examples:
  pegboard config path
  pegboard config show --effective
  pegboard config schema > pegboard.schema.json
"""


@click.group(epilog=_EXAMPLES)
def config() -> None:
    """Show, locate, check and describe the configuration."""


@config.command(epilog="Example: pegboard config path --json")
@click.option("--json", "as_json", is_flag=True, help="Print your file, what commands remember, and the project's.")
@click.pass_obj
def path(options: Options, as_json: bool) -> None:
    """Print where your own configuration file is (it need not exist)."""
    places = Places.default()
    if not as_json:
        click.echo(places.config_file)
        return
    read = read_packs(options)[0]
    facts = {
        "user": str(places.config_file),
        "state": str(places.state_file),
        "project": str(read.project.file) if read.project else None,
        "trusted": read.trusted,
    }
    click.echo(json.dumps(facts, indent=1))


@config.command(epilog="Example: PEGBOARD_PACKS_WORKSPACE_ENABLED=false pegboard config show")
@click.option("--effective", is_flag=True, help="Show the defaults, too; imports the packs.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@click.pass_obj
def show(options: Options, effective: bool, as_json: bool) -> None:
    """Show every setting that some layer sets, with who set it."""
    read, found = read_packs(options)
    problems = list(read.problems)
    if effective:
        from pegboard.cli.effective import effective_rows

        loader = load_with(read, () if read.unreadable else found)[1]
        rows, wrong = effective_rows(read, found, loader.settings)
        problems += [*loader.problems, *wrong]
    else:
        rows = [(".".join(setting.path), setting.value, setting.where) for setting in read.settings()]
    for problem in dict.fromkeys(problems):
        click.echo(f"warning: {printable(str(problem))}", err=True)
    if as_json:
        shown = [{"key": key, "value": value, "where": where} for key, value, where in rows]
        click.echo(json.dumps(shown, indent=1, default=str))
    else:
        _print(rows, problems)


@config.command(epilog="Example: pegboard config schema > pegboard.schema.json")
@click.pass_obj
def schema(options: Options) -> None:
    """Print a JSON Schema of the whole file, the enabled packs' settings too, for editors to complete and check."""
    from pegboard.cli.effective import file_schema

    read, found = read_packs(options)
    found, loader, dispatcher = load_with(read, () if read.unreadable else found)
    click.echo(json.dumps(file_schema(found, loader.models, dispatcher.specs), indent=1))


@config.command()
@click.pass_obj
def check(options: Options) -> None:
    """Check everything, the packs' own settings too, and tell all problems at once. Exit 1 if there are any."""
    from pegboard.base.errors import ConfigError
    from pegboard.host.host import Host

    found = [pack.distribution for pack in read_packs(options)[1]]
    host = Host.open(disable=options.disable, distributions=found, directory=working_directory())
    if host.setting_problems:
        raise ConfigError(host.setting_problems)
    click.echo("the configuration is in order")


def _print(rows: Iterable[tuple[str, object, str]], problems: Iterable[Problem]) -> None:
    shown = list(rows)
    if not shown and not list(problems):
        click.echo(f"nothing is set; everything has its default (your file would be {Places.default().config_file})")
    for key, value, where in shown:
        text = printable(json.dumps(value, ensure_ascii=False, default=str))
        click.echo(f"{printable(key)} = {text}", nl=False)
        click.secho(f"   {printable(where)}", dim=True)
