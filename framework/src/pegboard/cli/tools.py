"""`pegboard tools`: what a model would be offered, what it would not and why, and what a session's newest run was."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from pegboard.base.errors import PegboardError, UsageError
from pegboard.base.frozen import thaw
from pegboard.base.text import one_line
from pegboard.cli.group import Options
from pegboard.cli.opening import new_session, open_host, report_faults
from pegboard.cli.screen import width
from pegboard.dispatch.dispatcher import HookFailure
from pegboard.host.host import Host
from pegboard.record.folds import snapshots, start_of
from pegboard.record.stores import MemoryStore
from pegboard.values.events import RunStart, SnapshotTaken
from pegboard.why.explanation import Explainer, Explanation, source_of

_EXAMPLES = """\b
Examples:
  pegboard tools
  pegboard tools --all
  pegboard tools --session 7f3a90c2 --json
  pegboard --disable workspace tools --agent review
"""
_KEYS = ("name", "source", "pack", "exposure", "effect", "concurrency", "description", "parameters", "hash")
Row = Mapping[str, Any]


@click.command(epilog=_EXAMPLES)
@click.option("--agent", "name", metavar="NAME", help="Definition in [agents.NAME]; main if not given.")
@click.option("--session", metavar="ID", help="What the newest run of this session was given, from its record.")
@click.option("--all", "everything", is_flag=True, help="Also what is not offered, with what hides it.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list with the full definitions.")
@click.pass_obj
def tools(options: Options, name: str | None, session: str | None, everything: bool, as_json: bool) -> None:
    """List the tools that a model would be offered in the current directory.

    `pegboard why TOOL` tells everything that hides one of them.
    """
    if session is not None and (everything or name is not None):
        raise UsageError("--session shows what a run was given; --all and --agent are about a run that would begin now")
    host = open_host(options, require=False)
    rows = asyncio.run(_recorded(host, session) if session is not None else _live(host, name or "main", everything))
    report_faults(host)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    elif rows:
        _print(rows)
    elif session is not None:
        click.echo("that run was given no tools")
    else:
        click.echo("no tools; `pegboard packs` shows what is installed and why it is off")


# -- what a run that began now would be given


async def _live(host: Host, name: str, everything: bool) -> list[Row]:
    async with host:
        answers = await explainer(host, name)
        if not everything:
            return [entry.as_json() for entry in answers.snapshot.offered]
        return [_told(answers.explain(known), answers.pack_of(known)) for known in answers.names()]


async def explainer(host: Host, name: str) -> Explainer:
    """Make an agent of a definition, in a session that is not kept, and what explains its tools.

    Raises:
        PegboardError: a run would end before it began, because a pack fails.
    """
    agent = await host.create_agent(name, session=new_session())
    try:
        return await Explainer.of(agent)
    except HookFailure as failure:
        raise PegboardError(f"nothing can be offered: {failure}") from failure


def _told(explanation: Explanation, pack: str) -> Row:
    """Return a tool with whether it is offered; of one that is not there all that is known is whose it would be."""
    known = explanation.entry.as_json() if explanation.entry else _row(explanation.tool, pack)
    why = None if explanation.offered else explanation.reasons[0].kind
    return {**known, "offered": explanation.offered, "why": why}


# -- what a run was given


@dataclass(frozen=True, slots=True)
class Given:
    """What a session's record says of its newest run. `child`: another agent's run began the session."""

    session: str
    run: int
    agent: str
    child: bool
    rows: tuple[Row, ...]

    def has(self, name: str) -> bool:
        """Whether the run was given the tool."""
        return any(row["name"] == name for row in self.rows)


async def newest_given(host: Host, identity: str) -> Given:
    """Return what the newest run of a session was given.

    Raises:
        UsageError: there is no such session, or it had no run.
        PegboardError: the record can't be read.
    """
    entries = await host.entries(identity)
    start = start_of(entries)
    if start is None:
        why = " (no active pack keeps sessions)" if isinstance(await host.store(), MemoryStore) else ""
        raise UsageError(f"there is no session {identity}{why}")
    begun = [entry.event for entry in entries if isinstance(entry.event, RunStart)]
    if not begun:
        raise UsageError(f"session {identity} had no run yet, so nothing was given to one")
    newest = max(begun, key=lambda event: event.run)
    taken = snapshots(entries).get(newest.run)
    if taken is None:
        raise PegboardError(f"the record of session {identity} does not say what run {newest.run} was given")
    rows = await _rows_of(host, taken)
    return Given(identity, newest.run, newest.agent, start.parent is not None, rows)


async def _recorded(host: Host, identity: str) -> list[Row]:
    async with host:
        return list((await newest_given(host, identity)).rows)


async def _rows_of(host: Host, taken: SnapshotTaken) -> tuple[Row, ...]:
    """Return the whole definitions if the record keeps them, else what it says of each tool."""
    noted: list[dict[str, Any]] = [thaw(tool) for tool in taken.tools]
    if taken.definitions:
        try:
            kept = json.loads(await (await host.store()).get_blob(taken.definitions))
            if [(one["name"], one["hash"]) for one in kept] == [(one["name"], one["hash"]) for one in noted]:
                return tuple(kept)
            told = "they are of other tools"
        except (LookupError, ValueError, TypeError, RecursionError) as error:
            told = f"{type(error).__name__}: {error}"
        click.echo(f"warning: the recorded definitions can't be read ({one_line(told)})", err=True)
    return tuple(_row(one["name"], one["pack"]) | one for one in noted)


def _row(name: str, pack: str) -> dict[str, Any]:
    """Return a tool in the shape of `Offered.as_json`, with null for what is not known of it."""
    return {**dict.fromkeys(_KEYS), "name": name, "source": source_of(pack), "pack": pack}


# -- printing


def _print(rows: Iterable[Row]) -> None:
    shown = [[one_line(str(row[key] or "-"), 40) for key in ("name", "effect", "pack")] for row in rows]
    first = min(max(14, *(len(cells[0]) for cells in shown)), 40)
    for (name, effect, pack), row in zip(shown, rows, strict=True):
        if row.get("why"):
            told = f"not offered: {row['why']}  (pegboard why {name})"
        else:
            told = (row["description"] or "").split(". ")[0]
        click.secho(f"{name:<{first}} {effect:<6}", nl=False, dim=bool(row.get("why")))
        click.secho(f" {pack:<12} {one_line(told, max(width() - first - 22, 30))}".rstrip(), dim=True)
