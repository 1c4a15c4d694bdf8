"""`pegboard tools`: what a model would be offered."""

import asyncio
import json

import click

from pegboard.cli.group import Options
from pegboard.cli.opening import new_session, open_host, report_faults
from pegboard.cli.screen import width
from pegboard.host import Host
from pegboard.snapshot import Snapshot
from pegboard.text import one_line


@click.command(epilog="Examples: pegboard tools  ·  pegboard tools --json  ·  pegboard --disable workspace tools")
@click.option("--agent", "name", metavar="NAME", default="main", show_default=True, help="Definition in [agents.NAME].")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list with the full definitions.")
@click.pass_obj
def tools(options: Options, name: str, as_json: bool) -> None:
    """List the tools that a model would be offered in the current directory."""
    host = open_host(options)
    snapshot = asyncio.run(_snapshot(host, name))
    report_faults(host)
    if as_json:
        click.echo(json.dumps([entry.as_json() for entry in snapshot.offered], indent=1))
        return
    if not snapshot.tools:
        click.echo("no tools; `pegboard packs` shows what is installed and why it is off")
    for entry in snapshot.offered:
        click.echo(f"{entry.tool.name:<14} {entry.tool.effect:<6}", nl=False)
        click.secho(f" {entry.pack:<12} {one_line(entry.tool.description.split('. ')[0], width() - 36)}", dim=True)


async def _snapshot(host: Host, name: str) -> Snapshot:
    async with host:
        return await host.preview(await host.create_agent(name, session=new_session()))
