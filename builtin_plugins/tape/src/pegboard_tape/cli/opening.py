"""What the commands share: the store of the user's configuration, a session by the beginning of its id, JSON."""

import asyncio
import json
import re
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from pegboard import Host, UsageError

from pegboard_tape.facts import PACK
from pegboard_tape.pack import Tape
from pegboard_tape.store import TapeStore

_T = TypeVar("_T")
_PREFIX: Final = re.compile(r"[0-9a-f]{1,32}")

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def open_host(context: click.Context) -> Host:
    """Open a host with the global options of the command line; required packs may be missing, to look back."""
    disable = getattr(context.obj, "disable", ())
    return Host.open(disable=disable, directory=Path.cwd(), require=False)


def with_store(context: click.Context, work: Callable[[TapeStore], Awaitable[_T]]) -> _T:
    """Do something with the pack's store; no agent and no connection of another pack is begun."""
    host = open_host(context)
    pack: Tape = host.pack_object(PACK)
    store = pack.store(host)
    try:
        return asyncio.run(_awaited(work(store)))
    finally:
        store.close()


async def find_session(store: TapeStore, beginning: str | None) -> str:
    """Return the session whose id begins so; the newest one without a beginning.

    Raises:
        UsageError: there is none, or more than one.
    """
    if beginning is None:
        heads = await store.sessions()
        if not heads:
            raise UsageError(f"no session is kept in {store.path} yet; `pegboard run` begins one")
        return heads[0].id
    found = await store.look(lambda connection: _beginning_with(connection, beginning))
    if not found:
        raise UsageError(f"there is no session {beginning[:40]!r}; `pegboard tape list` shows those there are")
    if len(found) > 1 and beginning not in found:
        raise UsageError(f"{beginning} is the beginning of several sessions ({', '.join(found[:5])}); give more of it")
    return beginning if beginning in found else found[0]


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=1))


def _beginning_with(connection: sqlite3.Connection, beginning: str) -> list[str]:
    if not _PREFIX.fullmatch(beginning):
        return []
    between = "SELECT id FROM session WHERE id >= ? AND id < ? ORDER BY id LIMIT 9"
    return [row[0] for row in connection.execute(between, (beginning, beginning + "g"))]


async def _awaited(work: Awaitable[_T]) -> _T:
    return await work
