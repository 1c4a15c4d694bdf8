"""Opening a host for a command: options applied; what was left out is mentioned once, on stderr."""

from pathlib import Path

import click

from pegboard.base.errors import PegboardError, UsageError
from pegboard.base.text import count, printable
from pegboard.cli.group import Options
from pegboard.cli.installed import installed
from pegboard.cli.project_notes import notes
from pegboard.cli.reading import check_disabled_names, stdout_kept, working_directory
from pegboard.host.host import Host
from pegboard.record.session import Session


def open_host(options: Options, *, require: bool = True) -> Host:
    """Load the packs, and say what is missing.

    Raises:
        PegboardError: as `load_host` and `tell_what_is_missing`.
    """
    host = load_host(options, require=require)
    tell_what_is_missing(host, options)
    return host


def load_host(options: Options, *, require: bool = True) -> Host:
    """Load the packs for the current directory. Without `require` a required one may be missing: to look, not to run.

    Raises:
        PegboardError: bad configuration, or a required pack is missing.
    """
    check_disabled_names(options)
    with stdout_kept():
        return Host.open(
            disable=options.disable, distributions=installed(), directory=working_directory(), require=require
        )


def tell_what_is_missing(host: Host, options: Options) -> None:
    """Say on stderr which packs are not there although they should be, and what the project sets without effect.

    Raises:
        PegboardError: with --strict, if any pack is left out.
    """
    for line in notes(host.config, host.places):
        click.echo(line, err=True)
    missing = [pack for pack in host.packs if pack.state in ("failed", "waiting")]
    if missing:
        told = "; ".join(f"{pack.name} {pack.state}: {pack.reason}" for pack in missing)
        line = f"{count(len(missing), 'pack')} left out · {told} · pegboard packs doctor"
        if options.strict:
            raise PegboardError(line)
        click.echo(f"warning: {printable(line)}", err=True)


def new_session() -> Session:
    """Begin a session in the current directory.

    Raises:
        UsageError: it has been removed, or can't be read.
    """
    try:
        return Session.new(Path.cwd())
    except FileNotFoundError:
        raise UsageError("the current directory no longer exists; go to one that does") from None


def report_faults(host: Host) -> None:
    """Say on stderr which hook implementations failed, once for each pack and hook."""
    for pack, hook, text in dict.fromkeys((fault.pack, fault.hook, fault.text) for fault in host.faults):
        click.echo(f"warning: `{hook}` of pack {pack} failed and was left out: {printable(text)}", err=True)
