"""`pegboard tape export` and `import`: a session as JSON lines, whole, with what it keeps as blobs."""

from typing import BinaryIO

import click

from pegboard_tape.cli.opening import as_json_option, find_session, print_json, with_store
from pegboard_tape.jsonl import export_lines, import_lines
from pegboard_tape.printing import count
from pegboard_tape.store import TapeStore


@click.command("export", epilog="Examples: pegboard tape export 7f3a > run.jsonl  ·  pegboard tape export -o run.jsonl")
@click.argument("session", required=False)
@click.option("-o", "--output", type=click.File("wb"), default="-", help="The file to write; stdout without it.")
@click.pass_context
def export_session(context: click.Context, session: str | None, output: BinaryIO) -> None:
    """Write a session as JSON lines: one entry a line, before it the blobs that it names."""

    async def work(store: TapeStore) -> list[bytes]:
        return await export_lines(store, await find_session(store, session))

    for line in with_store(context, work):
        output.write(line)


@click.command("import", epilog="Examples: pegboard tape import run.jsonl  ·  pegboard tape import - < run.jsonl")
@click.argument("file", type=click.File("rb"))
@as_json_option
@click.pass_context
def import_session(context: click.Context, file: BinaryIO, as_json: bool) -> None:
    """Read a session that `export` wrote: all of it or nothing. What is there already is left as it is."""
    data = file.read()
    session, added = with_store(context, lambda store: import_lines(store, data.splitlines()))
    if as_json:
        print_json({"session": session, "added": added})
    else:
        click.echo(f"session {session} · {count(added, 'entry', 'entries')} added")
