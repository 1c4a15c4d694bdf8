"""Working with a recorded session: in its directory, with the definition and the model it had, asked or resumed."""

import os
import shlex
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import click

from pegboard.base.errors import ModelError, PegboardError, UsageError
from pegboard.base.text import count, one_line, printable
from pegboard.cli.group import Options
from pegboard.cli.opening import load_host, report_faults, tell_what_is_missing
from pegboard.cli.reading import working_directory
from pegboard.cli.watching import to_the_end
from pegboard.host.host import Host
from pegboard.record.folds import start_of
from pegboard.record.paused_turn import TurnRecord, last_turn
from pegboard.record.stores import MemoryStore
from pegboard.values.interactions import Interaction

MAX_SHOWN_LINES: Final = 100
_DIFF_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}

_T = TypeVar("_T")
Work = Callable[[Host], Awaitable[_T]]


def in_session(options: Options, identity: str, work: Work[_T], *, require: bool = True) -> _T:
    """Do something with a session, in a host that has the settings of the directory that the session works in.

    Raises:
        UsageError: there is no such session, or it can't be told which one is meant.
        PegboardError: its directory can't be entered.
    """

    async def there(host: Host) -> tuple[str, _T | None]:
        async with host:
            start = start_of(await host.entries(identity, limit=1))
            if start is None:
                told = " (no active pack keeps sessions)" if isinstance(await host.store(), MemoryStore) else ""
                raise UsageError(f"there is no session {one_line(identity, 40)}{told}")
            if start.directory != here:  # both are real paths
                return start.directory, None
            tell_what_is_missing(host, options)
            return "", await work(host)

    for _ in range(2):
        here = os.path.realpath(working_directory() or "/")
        host = load_host(options, require=require)
        elsewhere, result = to_the_end(there(host))
        report_faults(host)
        if not elsewhere:
            break
        try:
            os.chdir(elsewhere)
        except OSError as error:
            told = f"the directory {elsewhere} of session {identity} can't be entered: {error.strerror}"
            raise PegboardError(told) from None
    return result  # type: ignore[return-value]  # the second time there is one


async def turn_of(host: Host, identity: str) -> TurnRecord | None:
    """Return what a session's newest turn has come to."""
    return last_turn(await host.entries(identity))


async def check_pausable(host: Host) -> None:
    """Refuse to pause where nothing outlives this process.

    Raises:
        UsageError: no pack keeps sessions.
    """
    if isinstance(await host.store(), MemoryStore):
        raise UsageError("--on-ask pause needs a pack that keeps sessions; without one nobody could answer later")


def check_model(host: Host, route: str) -> None:
    """Refuse a route that can't be opened before anything begins.

    Raises:
        UsageError: with the routes there are.
    """
    try:
        host.model(route)
    except ModelError as error:
        raise UsageError(str(error)) from error


def how_to_answer(open_ones: Sequence[Interaction]) -> str:
    """Return the command that answers the first open question."""
    first = open_ones[0]
    said = "y" if first.kind == "permission" else shlex.quote(next(iter(first.options), "your answer"))
    return f"pegboard answer {first.session} {first.id} {one_line(said, 80)}"


async def tell_what_is_open(host: Host, root: str) -> None:
    """Print what is open after a run has paused, and how to go on."""
    if open_ones := await host.interactions(root):
        told = f"paused: {count(len(open_ones), 'question')} open"
        click.secho(f"{told} · {how_to_answer(open_ones)} · pegboard resume {root}", fg="yellow")


def show_question(asked: Interaction) -> None:
    """Print a question with what belongs to it, escaped."""
    kind = "asks" if asked.kind == "question" else "needs a yes"
    click.secho(f"{asked.session} {asked.id}  {one_line(asked.tool, 40)} {kind}: {one_line(asked.reason, 400)}")
    for option in asked.options:
        click.secho(f"    {one_line(option, 200)}", dim=True)
    for touch in asked.touches:
        click.secho(f"    {one_line(touch, 200)}", dim=True)
    if title := asked.present.get("title"):
        click.echo(f"  {one_line(str(title), 400)}")
    lines = str(asked.present.get("diff", "")).split("\n")
    for line in lines[:MAX_SHOWN_LINES] if any(lines) else ():
        click.secho(f"    {printable(line[:200])}", fg=_DIFF_COLOURS.get(line[:1]))
    if len(lines) > MAX_SHOWN_LINES:
        click.secho(f"    ({count(len(lines) - MAX_SHOWN_LINES, 'more line')})", dim=True)
