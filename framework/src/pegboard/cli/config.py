"""`pegboard config`: where settings come from, what they are, and what is wrong with them."""

import json

import click

from pegboard.cli.group import Options
from pegboard.cli.packs import read_packs
from pegboard.config import user_file
from pegboard.text import printable


@click.group(epilog="Examples: pegboard config path  ·  pegboard config show  ·  pegboard config check")
def config() -> None:
    """Show, locate and check the configuration."""


@config.command()
def path() -> None:
    """Print where your own configuration file is (it need not exist)."""
    click.echo(user_file())


@config.command(epilog="Example: PEGBOARD_PACKS_WORKSPACE_ENABLED=false pegboard config show")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@click.pass_obj
def show(options: Options, as_json: bool) -> None:
    """Show every setting that some layer sets, with who set it."""
    read = read_packs(options)[0]
    settings = list(read.settings())
    for problem in read.problems:
        click.echo(f"warning: {printable(str(problem))}", err=True)
    if as_json:
        rows = [{"key": ".".join(s.path), "value": s.value, "where": s.where} for s in settings]
        click.echo(json.dumps(rows, indent=1, default=str))
        return
    if not settings and not read.problems:
        click.echo(f"nothing is set; everything has its default (your file would be {user_file()})")
    for setting in settings:
        shown = printable(json.dumps(setting.value, ensure_ascii=False, default=str))
        click.echo(f"{'.'.join(setting.path)} = {shown}", nl=False)
        click.secho(f"   {printable(setting.where)}", dim=True)


@config.command()
@click.pass_obj
def check(options: Options) -> None:
    """Check everything, the packs' own settings too, and tell all problems at once. Exit 1 if there are any."""
    from pegboard.errors import ConfigError
    from pegboard.host import Host

    found = [pack.distribution for pack in read_packs(options)[1]]
    host = Host.open(disable=options.disable, distributions=found)
    if host.setting_problems:
        raise ConfigError(host.setting_problems)
    click.echo("the configuration is in order")
