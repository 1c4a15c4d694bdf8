"""`pegboard hooks`: which hooks there are, who implements one, in which order, and why."""

import json

import click

from pegboard.base.text import one_line, printable
from pegboard.cli.group import Options
from pegboard.cli.opening import open_host
from pegboard.host.host import Host

_EXAMPLES = """\b
Examples:
  pegboard hooks
  pegboard hooks guard_tool_call
  pegboard hooks filter_entry --json
"""


@click.command(epilog=_EXAMPLES)
@click.argument("hook", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@click.pass_obj
def hooks(options: Options, hook: str | None, as_json: bool) -> None:
    """List the hooks, or show who implements HOOK, in the order of the calls, each with the reason for its place.

    Your configuration has the last word: `[hooks.order]`, for example `guard_tool_call = ["audit", "*"]`.
    """
    host = open_host(options, require=False)
    if hook is None:
        _list(host, as_json)
    else:
        _explain(host, hook, as_json)


def _list(host: Host, as_json: bool) -> None:
    rows = []
    for name, owner in host.hooks().items():
        policy = host.hook_policy(name)
        packs = [pack for pack, _ in host.hook_order(name)]
        rows.append({"hook": name, "from": owner, "kind": policy.kind, "failure": policy.failure, "packs": packs})
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        click.echo(f"{row['hook']:<20} {row['kind']:<11} ", nl=False)
        click.secho(f"on failure: {row['failure']:<18} ", dim=True, nl=False)
        click.echo(one_line(" ".join(row["packs"]), 60) if row["packs"] else "-")


def _explain(host: Host, hook: str, as_json: bool) -> None:
    order = host.hook_order(hook)
    if as_json:
        rows = [{"pack": pack, "position": place, "reason": why} for place, (pack, why) in enumerate(order, 1)]
        click.echo(json.dumps(rows, indent=1))
        return
    policy = host.hook_policy(hook)
    click.secho(f"{hook}: {policy.kind}; on failure: {policy.failure}", dim=True)
    if not order:
        click.echo("no active pack implements it")
    for place, (pack, why) in enumerate(order, 1):
        click.echo(f"  {place}  {printable(pack):<20} ", nl=False)
        click.secho(printable(why), dim=True)
