"""`pegboard tape anchors` and `handoff`."""

import asyncio
import json
from typing import Any

import click
from pegboard import Host, PegboardError, Session, UsageError

from pegboard_tape.cli.opening import as_json_option, find_session, open_host, print_json, with_store
from pegboard_tape.facts import PACK
from pegboard_tape.pack import Tape
from pegboard_tape.printing import day, one_line
from pegboard_tape.store import TapeStore
from pegboard_tape.tools import anchors as anchors_of
from pegboard_tape.tools import entries_of


@click.command("anchors", epilog="Examples: pegboard tape anchors 7f3a  ·  pegboard tape anchors --limit 1 --json")
@click.argument("session", required=False)
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True, help="Only the newest.")
@as_json_option
@click.pass_context
def anchors(context: click.Context, session: str | None, limit: int, as_json: bool) -> None:
    """Show where a session can be taken up from: its begin, handoffs, compactions. Oldest first."""

    async def work(store: TapeStore) -> list[dict[str, Any]]:
        return anchors_of(await entries_of(store, await find_session(store, session)))

    found = with_store(context, work)[-limit:]
    if as_json:
        print_json(found)
        return
    for anchor in found:
        payload = anchor["payload"]
        state = payload.get("data", {}).get("state")
        told = state.get("summary", "") if isinstance(state, dict) else payload.get("directory", "")
        head = f"{anchor['entryId']:>6}  {day(payload['ts'])}  {one_line(anchor['name'], 28):<28}"
        click.echo(f"{head}  {one_line(str(told), 60)}")


@click.command("handoff", epilog='Examples: pegboard tape handoff 7f3a "The parser is done; tests are missing."')
@click.argument("session")
@click.argument("summary")
@click.option("--name", default="", help="What the anchor is called; handoff/manual without it.")
@as_json_option
@click.pass_context
def handoff(context: click.Context, session: str, summary: str, name: str, as_json: bool) -> None:
    """Sum a session up yourself: its next run begins from SUMMARY instead of from what was said before."""
    told = asyncio.run(_handoff(open_host(context), session, summary, name))
    if as_json:
        print_json(told)
    else:
        click.echo(f"{told['name']} · the session goes on from your summary: pegboard run --session {told['session']}")


async def _handoff(host: Host, beginning: str, summary: str, name: str) -> dict[str, Any]:
    async with host:
        pack: Tape = host.pack_object(PACK)
        session = await host.open_session(await find_session(pack.store(host), beginning))
        _check(session)
        agent = await host.create_agent(session=session)
        result = await agent.call_tool("tape_handoff", {"name": name, "state": {"summary": summary}})
        if result.status != "ok":
            raise PegboardError(result.content)
        return {"session": session.id, **json.loads(result.content)}


def _check(session: Session) -> None:
    if session.paused:
        raise UsageError(f"session {session.id} waits for an answer; `pegboard resume {session.id}` first")
