"""`pegboard tape verify`, `stats` and `gc`."""

from typing import Any

import click

from pegboard_tape.cli.opening import as_json_option, print_json, with_store
from pegboard_tape.printing import count, duration, one_line, safe, size
from pegboard_tape.store import TapeStore
from pegboard_tape.upkeep import Sweep, find_rubbish, statistics, sweep
from pegboard_tape.upkeep import verify as verify_store

_DAY = 86_400.0


@click.command("verify", epilog="Example: pegboard tape verify")
@as_json_option
@click.pass_context
def verify(context: click.Context, as_json: bool) -> int:
    """Check that everything is whole: the file, its index, every entry and blob. Exit 1 if anything is not."""

    async def work(store: TapeStore) -> tuple[str, list[str], int]:
        (entries,) = await store.look(lambda c: c.execute("SELECT count(*) FROM entry").fetchone())
        return str(store.path), await verify_store(store), entries

    path, problems, entries = with_store(context, work)
    if as_json:
        print_json({"path": path, "entries": entries, "problems": problems})
    elif not problems:
        click.echo(f"{path} is whole · {count(entries, 'entry', 'entries')}")
    for problem in () if as_json else problems:
        click.secho(safe(problem), fg="red")
    if problems and not as_json:
        click.echo(f"{count(len(problems), 'problem')} · what can be read: pegboard tape export SESSION", err=True)
    return 1 if problems else 0


@click.command("stats", epilog="Example: pegboard tape stats --json")
@as_json_option
@click.pass_context
def stats(context: click.Context, as_json: bool) -> None:
    """Tell how much is kept, which tokens were used, and how often each tool was called."""

    async def work(store: TapeStore) -> dict[str, Any]:
        blobs = [at.st_size for _, at in store.blobs.kept()]
        files = [path.stat().st_size for path in store.path.parent.glob(f"{store.path.name}*")]
        kept = {"path": str(store.path), "bytes": sum(files), "blobs": len(blobs), "blob_bytes": sum(blobs)}
        return {**kept, **await store.look(statistics)}

    told = with_store(context, work)
    if as_json:
        print_json(told)
        return
    entries = sum(told["entries"].values())
    click.echo(f"{told['path']} · {size(told['bytes'])}, {count(told['blobs'], 'blob')} of {size(told['blob_bytes'])}")
    click.echo(f"{count(told['sessions'], 'session')} · {count(entries, 'entry', 'entries')}")
    masked = f" · {count(told['masked'], 'secret')} masked" if told["masked"] else ""
    click.echo(f"{told['tokens']['input']:,} tokens in, {told['tokens']['output']:,} out{masked}")
    for tool in told["tools"]:
        mean = duration(tool["ms"] / tool["calls"])
        failed = f"{tool['failed']} failed" if tool["failed"] else ""
        click.echo(
            f"  {one_line(tool['name'], 24):<24} {count(tool['calls'], 'call'):>10}  {mean:>8} each  {failed}".rstrip()
        )


@click.command("gc", epilog="Examples: pegboard tape gc  ·  pegboard tape gc --older-than 90 --dry-run")
@click.option("--older-than", "days", type=click.FloatRange(0), help="Also forget sessions untouched for so many days.")
@click.option("--dry-run", is_flag=True, help="Only tell what would go.")
@as_json_option
@click.pass_context
def gc(context: click.Context, days: float | None, dry_run: bool, as_json: bool) -> None:
    """Delete blobs that no entry names and, if you say so, old sessions: whole, and for good.

    Sessions that are paused, or have a run without an end, stay.
    """

    async def work(store: TapeStore) -> Sweep:
        older_than = None if days is None else days * _DAY
        return await (find_rubbish if dry_run else sweep)(store, older_than)

    gone = with_store(context, work)
    if as_json:
        told = {"sessions": list(gone.sessions), "kept": list(gone.kept), "blobs": len(gone.blobs), "bytes": gone.bytes}
        print_json({**told, "dry_run": dry_run})
        return
    parts = [count(len(gone.sessions), "session"), f"{count(len(gone.blobs), 'blob')} of {size(gone.bytes)}"]
    click.echo(f"{'would delete' if dry_run else 'deleted'} {' and '.join(parts)}")
    if gone.kept:
        click.echo(f"{count(len(gone.kept), 'old session')} stay, paused or without an end: {', '.join(gone.kept[:5])}")
