"""`pegboard mcp`: which servers there are, whether they can be reached, what their tools are, saying yes to them."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
from pegboard import Host, UsageError, one_line

from pegboard_mcp.hub import PACK, Hub, Offer

_EXAMPLES = """\b
Examples:
  pegboard mcp list
  pegboard mcp test github
  pegboard mcp tools github
  pegboard mcp accept github
"""

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(epilog=_EXAMPLES)
def mcp() -> None:
    """Look at the MCP servers of your configuration, and of your packs."""


@mcp.command("list")
@_json
@click.pass_obj
def list_servers(options: Any, as_json: bool) -> None:
    """List the servers, without starting or reaching any."""

    async def rows(hub: Hub) -> list[dict[str, Any]]:
        return [_row(hub, name, offer) for name, offer in hub.offers.items()]

    found = _with_hub(options, rows)
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    if not found:
        click.echo("no servers; write one under [packs.mcp.servers.NAME] in your file: pegboard config path")
    for row in found:
        told = row["reason"] or row["told"]
        click.echo(f"  {row['state']:<8} {row['name']:<14} {row['transport']:<6} {told}  {row['source']}".rstrip())


@mcp.command()
@click.argument("server", required=False)
@_json
@click.pass_obj
def tools(options: Any, server: str | None, as_json: bool) -> None:
    """Connect, and list the tools of SERVER, or of all, with what is not offered and why."""

    async def rows(hub: Hub) -> list[dict[str, Any]]:
        chosen = _chosen(hub, server)
        await hub.connect(only={offer.server.name for offer in chosen})
        return [row for offer in chosen for row in _tools(offer)]

    found = _with_hub(options, rows)
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    for row in found:
        head = one_line(row["name"], 64)
        if row["offered"]:
            click.echo(f"{head:<40} {one_line((row['description'] or '').split('. ')[0], 60)}".rstrip())
        else:
            click.secho(f"{head:<40} not offered: {row['reason']}", dim=True)
    if not found:
        click.echo("no tools")


@mcp.command()
@click.argument("server", required=False)
@_json
@click.pass_obj
def test(options: Any, server: str | None, as_json: bool) -> int:
    """Connect to SERVER, or to all, and say how that went; exit 1 unless each can be used."""

    async def rows(hub: Hub) -> list[dict[str, Any]]:
        chosen = _chosen(hub, server)
        await hub.connect(only={offer.server.name for offer in chosen})
        return [_health(offer) for offer in chosen]

    found = _with_hub(options, rows)
    if as_json:
        click.echo(json.dumps(found, indent=1))
    else:
        for row in found:
            for line in _report(row):
                click.echo(line)
    return 0 if all(row["state"] in ("up", "off") for row in found) else 1


@mcp.command()
@click.argument("server")
@click.option("--yes", is_flag=True, help="Accept without being asked.")
@_json
@click.pass_obj
def accept(options: Any, server: str, yes: bool, as_json: bool) -> int:
    """Say yes to a project's SERVER as it is configured, and to the tools of SERVER that changed; shows both first."""
    if os.environ.get("PEGBOARD_INSIDE"):
        raise UsageError("pegboard mcp accept: an agent started this process; only a person may accept a server")

    async def accepted(hub: Hub) -> dict[str, Any]:
        (offer,) = _chosen(hub, server)
        facts: dict[str, Any] = {"server": server, "consented": False, "changes": [], "accepted": False}
        if offer.state == "asks":
            _show(as_json, [offer.server.origin, f"  {offer.server.told()}", f"  {offer.server.source}"])
            if not _agrees(yes, as_json, f"start {server} for this project?", server):
                return facts
            hub.consent(offer.server)
            facts["consented"] = True
        await hub.connect(only={server})
        facts["changes"] = [{"tool": change.name, "diff": change.diff()} for change in offer.changes]
        for change in offer.changes:
            _show(as_json, [change.diff(), ""])
        if offer.changes and not _agrees(yes, as_json, "accept these tools as they are now?", server):
            return facts
        hub.accept(offer)
        _show(as_json, [_verdict(offer, facts["consented"])])
        return {**facts, "accepted": True}

    facts = _with_hub(options, accepted)
    if as_json:
        click.echo(json.dumps(facts, indent=1))
    return 0 if facts["accepted"] else 1


# -- around a host


def _with_hub(options: Any, work: Callable[[Hub], Coroutine[Any, Any, Any]]) -> Any:
    async def run() -> Any:
        async with _opened(options) as hub:
            return await work(hub)

    return asyncio.run(run())


@asynccontextmanager
async def _opened(options: Any) -> AsyncIterator[Hub]:
    host = Host.open(disable=options.disable if options else (), directory=Path.cwd(), require=False)
    async with host:
        hub: Hub = host.pack_object(PACK).hub(host)
        await hub.find()
        for notice in hub.notices:
            click.echo(f"warning: {notice}", err=True)
        yield hub


def _chosen(hub: Hub, name: str | None) -> list[Offer]:
    if name is None:
        return list(hub.offers.values())
    if name not in hub.offers:
        known = ", ".join(hub.offers) or "none"
        raise UsageError(f"there is no server `{one_line(name, 60)}` (there are: {known})")
    return [hub.offers[name]]


# -- what is told


def _row(hub: Hub, name: str, offer: Offer) -> dict[str, Any]:
    return {
        "name": name,
        "state": offer.state,
        "reason": offer.reason,
        "transport": offer.server.transport,
        "pack": offer.server.pack,
        "source": offer.server.source,
        "told": offer.server.told(),
        "hash": offer.server.hash,
        "accepted_tools": len(hub.ledger.page(offer.server).tools),
    }


def _tools(offer: Offer) -> Iterable[dict[str, Any]]:
    server = offer.server.name
    notes = {note.name: note.reason for note in offer.notes}
    for name, (tool, _) in offer.tools.items():
        facts = {"description": tool.description, "parameters": dict(tool.parameters), "hash": tool.hash}
        yield {
            "server": server,
            "tool": name,
            "name": tool.name,
            "offered": True,
            "reason": notes.get(name, ""),
            **facts,
        }
    unknown = {"description": None, "parameters": None, "hash": None}
    gone = [(one.name, one.reason) for one in offer.dropped]
    told = "it changed since you accepted it · pegboard mcp accept"
    gone += [(change.name, f"{told} {server}") for change in offer.changes]
    gone += [("(all)", offer.reason)] if offer.state != "up" else []
    for name, reason in gone:
        yield {
            "server": server,
            "tool": name,
            "name": f"{server}: {name}",
            "offered": False,
            "reason": reason,
            **unknown,
        }


def _health(offer: Offer) -> dict[str, Any]:
    facts = offer.connection.facts if offer.connection else None
    return {
        "server": offer.server.name,
        "state": offer.state,
        "reason": offer.reason,
        "told": offer.server.told(),
        "transport": offer.server.transport,
        "source": offer.server.source,
        "protocol": facts.version if facts else None,
        "era": facts.era if facts else None,
        "program": facts.program if facts else None,
        "connect_seconds": round(facts.connect_seconds, 3) if facts else None,
        "list_seconds": round(facts.list_seconds, 3) if facts else None,
        "tools": len(offer.tools),
        "left_out": [{"tool": one.name, "reason": one.reason} for one in offer.dropped],
        "changed": [change.name for change in offer.changes],
    }


def _report(row: dict[str, Any]) -> Iterable[str]:
    yield f"{row['server']}  {row['state']}"
    yield f"  {row['transport']:<9} {row['told']}"
    yield f"  {'from':<9} {row['source']}"
    if row["state"] != "up":
        yield f"  {'why':<9} {row['reason']}"
        return
    yield f"  {'protocol':<9} {row['protocol']} ({row['era']}), {row['program'] or 'which does not say what it is'}"
    yield f"  {'took':<9} {row['connect_seconds']:g} s to connect, {row['list_seconds']:g} s to list its tools"
    yield f"  {'tools':<9} {row['tools']} offered, {len(row['left_out'])} left out, {len(row['changed'])} changed"


def _show(as_json: bool, lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line, err=as_json)


def _agrees(yes: bool, as_json: bool, question: str, server: str) -> bool:
    if yes:
        return True
    if as_json or sys.stdin is None or not sys.stdin.isatty():
        told = f"not accepted: nobody to ask here · look at it, then: pegboard mcp accept {server} --yes"
        click.echo(told, err=True)
        return False
    return click.confirm(question, default=False, err=True)


def _verdict(offer: Offer, consented: bool) -> str:
    if offer.state != "up":
        return f"{'accepted, but ' if consented else ''}{offer.server.name} is {offer.state}: {offer.reason}"
    if consented or offer.changes:
        return "accepted; a change asks again"
    return f"{offer.server.name}: nothing to accept"
