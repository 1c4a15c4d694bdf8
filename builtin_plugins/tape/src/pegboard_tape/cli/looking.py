"""`pegboard tape list`, `show` and `search`."""

import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any, Final

import click
from pegboard import ToolError, UsageError
from pegboard.events import SessionStart

from pegboard_tape.cli.opening import as_json_option, find_session, print_json, with_store
from pegboard_tape.facts import Kind
from pegboard_tape.heads import heads
from pegboard_tape.page import page
from pegboard_tape.printing import clock, count, day, duration, one_line
from pegboard_tape.search import Found, Query, search
from pegboard_tape.store import TapeStore
from pegboard_tape.timeline import Line, RunShown, timeline, title
from pegboard_tape.tools import bound, entries_of, hits_as_json
from pegboard_tape.words import fold, terms

_KINDS: Final = ("event", "anchor", "message", "tool_call", "tool_result")
_COLOURS: Final = {"denied": "red", "error": "yellow", "aborted": "yellow", "indeterminate": "red", "pending": "yellow"}
_NAME: Final = 12
_BEFORE: Final = 16  # characters before what was found


@click.command("list", epilog="Examples: pegboard tape list  ·  pegboard tape list --limit 100 --json")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="At most so many.")
@as_json_option
@click.pass_context
def list_sessions(context: click.Context, limit: int, as_json: bool) -> None:
    """List the sessions, the newest first: when, how the last run ended, what was asked first."""
    rows = with_store(context, lambda store: heads(store, limit))
    if as_json:
        print_json(rows)
        return
    if not rows:
        click.echo("no sessions yet; `pegboard run` begins one")
    room = max(_width() - 50, 20)
    for row in rows:
        head = f"{row['session']:<10} {day(row['began'])}  {row['reason']:<11} {count(row['runs'], 'run'):<8}"
        click.echo(f"{head}  {one_line(row['input'], room)}")


@click.command("show", epilog="Examples: pegboard tape show 7f3a  ·  pegboard tape show --html run.html")
@click.argument("session", required=False)
@click.option("--html", "html", type=click.Path(path_type=Path, dir_okay=False), help="Write one page to this file.")
@as_json_option
@click.pass_context
def show(context: click.Context, session: str | None, html: Path | None, as_json: bool) -> None:
    """Show what happened in a session: every run with its times, tokens and results."""

    async def work(store: TapeStore) -> tuple[str, list[RunShown], str]:
        found = await find_session(store, session)
        entries = await entries_of(store, found)
        start = next((entry.event for entry in entries if isinstance(entry.event, SessionStart)), None)
        return found, timeline(entries), start.directory if start else ""

    identity, runs, directory = with_store(context, work)
    if html is not None:
        _write_page(html, page(identity, directory, runs))
        click.echo(f"{html} shows session {identity}", err=as_json)
    elif as_json:
        print_json({"session": identity, "directory": directory, "runs": [run.as_json() for run in runs]})
    else:
        _print_runs(identity, runs)


def _write_page(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}; name another file") from None


def _print_runs(identity: str, runs: list[RunShown]) -> None:
    if not runs:
        click.echo(f"session {identity} has had no run")
    for place, run in enumerate(runs):
        click.echo("\n" * bool(place) + title(run))
        for line in run.lines:
            if line.text or line.kind == "tool":
                _print_line(line)


def _print_line(line: Line) -> None:
    room = _width() - 2 - 10 - 2 - _NAME - 1
    who = one_line(line.who, _NAME)
    colour = _COLOURS.get(line.status)
    click.secho(f"  {clock(line.ts)}  ", dim=True, nl=False)
    if line.kind != "tool" or not line.counts:
        click.secho(f"{who:<{_NAME}} {one_line(line.text, room)}", fg=colour, dim=not line.counts)
    else:
        took = "" if line.ms is None else duration(line.ms)
        told = one_line(line.text, room - 36)
        dots = "·" * max(room - 36 - len(told), 2)
        outcome = one_line(line.outcome or line.status, 24)
        click.echo(f"{who:<{_NAME}} {told} ", nl=False)
        click.secho(f"{dots} {took:>7}", dim=True, nl=False)
        click.secho(f"   {outcome}", fg=colour)


_EXAMPLES = """\b
Examples:
  pegboard tape search "retry policy"
  pegboard tape search src/app/retry.py --kind tool_call --since 2026-01-31
  pegboard tape search atabas --substring --session 7f3a
"""


@click.command("search", epilog=_EXAMPLES)
@click.argument("query")
@click.option("--session", metavar="SESSION", help="Only in this session; in all of them without it.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(_KINDS), help="Only this kind; may be repeated.")
@click.option("--since", metavar="TIME", help="Only what is not older: an ISO date-time.")
@click.option("--until", metavar="TIME", help="Only what is not newer.")
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True, help="At most so many.")
@click.option("--rank", "ranked", is_flag=True, help="The best of the newest 500 first.")
@click.option("--substring", is_flag=True, help="Parts of words too, in the newest 20,000 entries.")
@as_json_option
@click.pass_context
def search_sessions(
    context: click.Context,
    query: str,
    session: str | None,
    kinds: tuple[Kind, ...],
    since: str | None,
    until: str | None,
    limit: int,
    ranked: bool,
    substring: bool,
    as_json: bool,
) -> int:
    """Search what was said and done in every session, the newest first. Exit 1 if nothing is found.

    All words have to be there, as they are typed; nothing is query syntax.
    """
    wanted = Query(query, limit, kinds, _moment("--since", since), _moment("--until", until), ranked, substring)

    async def work(store: TapeStore) -> tuple[Found, list[dict[str, Any]]]:
        sources = None if session is None else {await find_session(store, session): None}

        def look(connection: sqlite3.Connection) -> tuple[Found, list[dict[str, Any]]]:
            found = search(connection, store.blobs.get, wanted, sources)
            return found, hits_as_json(connection, found)

        return await store.look(look)

    found, hits = with_store(context, work)
    if as_json:
        print_json({"hits": hits, "substring": found.substring, "complete": found.complete})
    else:
        _print_found(found, query)
    return 0 if found.hits else 1


def _print_found(found: Found, query: str) -> None:
    room = max(_width() - 55, 20)
    for hit in found.hits:
        head = f"{hit.session:<10} {hit.id:>6}  {day(hit.ts)}  {one_line(hit.name, _NAME):<{_NAME}}"
        click.echo(f"{head}  {one_line(_excerpt(hit.text, query), room)}")
    if not found.complete:
        click.secho("the time was over; there may be more", fg="yellow", err=True)
    elif not found.hits:
        click.secho("nothing found", fg="yellow", err=True)
    elif found.substring:
        click.secho("found as parts of words, in the newest 20,000 entries", dim=True, err=True)


def _excerpt(text: str, query: str) -> str:
    """Return a text from a little before the first word that was looked for."""
    flat = " ".join(text.split())
    places = [place for term in terms(query) if (place := fold(flat).find(term)) > _BEFORE]
    return f"…{flat[min(places) - _BEFORE :]}" if places else flat


def _moment(option: str, text: str | None) -> float | None:
    try:
        return bound(option, text)
    except ToolError as error:
        raise UsageError(str(error)) from None


def _width() -> int:
    if not sys.stdout.isatty():
        return 100
    return min(max(shutil.get_terminal_size((100, 24)).columns, 60), 120)
