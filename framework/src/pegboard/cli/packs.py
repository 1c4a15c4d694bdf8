"""`pegboard packs`: what is installed, what became of it, and who decided; listing imports nothing."""

from collections.abc import Iterable

import click

from pegboard.base.errors import ConfigError, PegboardError
from pegboard.base.text import count, one_line, printable
from pegboard.cli.group import Options
from pegboard.cli.reading import find_pack, load_packs, read_packs, refuse_inside, stdout_kept
from pegboard.config.places import Places
from pegboard.packs.discovery import Distribution
from pegboard.packs.survey import Pack

_COLOURS = {"active": "green", "failed": "red", "waiting": "yellow", "disabled": "bright_black"}


_EXAMPLES = """\b
Examples:
  pegboard packs
  pegboard packs list --load --effective
  pegboard packs doctor
"""


@click.group(invoke_without_command=True, epilog=_EXAMPLES)
@click.option("--effective", is_flag=True, help="Show which file, variable or option decided.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@click.pass_context
def packs(ctx: click.Context, effective: bool, as_json: bool) -> int:
    """Show which packs are installed and what became of each.

    Without a subcommand this is `packs list`.
    """
    if ctx.invoked_subcommand is None:
        return int(ctx.invoke(list_packs, load=False, effective=effective, as_json=as_json))
    return 0


@packs.command("list", epilog="Examples: pegboard packs list --effective  ·  pegboard packs list --load --json")
@click.option("--load", is_flag=True, help="Import the packs, to tell active from failed.")
@click.option("--effective", is_flag=True, help="Show which file, variable or option decided.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@click.pass_context
def list_packs(ctx: click.Context, load: bool, effective: bool, as_json: bool) -> int:
    """List the packs and their states.

    Without --load nothing is imported: a pack is enabled, disabled or waiting, or failed for what its static metadata
    says. With it a pack is active or failed.
    """
    options = ctx.find_object(Options) or Options()
    above = ctx.parent.params if ctx.parent else {}  # `packs --json list` means the same as `packs list --json`
    effective, as_json = effective or above.get("effective", False), as_json or above.get("as_json", False)
    config, found = read_packs(options)
    if load:
        found = load_packs(config, found)
    if as_json:
        _print_json([pack.as_json() for pack in found])
    else:
        _print_list(found, effective)
    for problem in config.problems:
        click.echo(f"warning: {printable(str(problem))}", err=True)
    bad = any(pack.state in ("failed", "waiting") for pack in found)
    return 1 if options.strict and bad else 0


@packs.command(epilog="Example: pegboard packs info workspace")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.pass_obj
def info(options: Options, name: str, as_json: bool) -> None:
    """Show what one pack declares; imports nothing."""
    pack = find_pack(read_packs(options)[1], name)
    distribution = pack.distribution
    facts = {
        **pack.as_json(),
        "summary": distribution.summary,
        "object": pack.reference,
        "tools": sorted(distribution.tools),
        "commands": sorted(distribution.commands),
        "claims_policy": distribution.claims_policy,
        "needs": list(pack.needs),
        "location": distribution.location,
    }
    if as_json:
        _print_json(facts)
        return
    for key, value in facts.items():
        shown = " ".join(value) if isinstance(value, list) else str(value if value not in (None, "") else "-")
        click.echo(f"{key:<14} {printable(shown)}")


@packs.command(epilog="Examples: pegboard packs doctor  ·  pegboard packs doctor acme-tickets")
@click.argument("name", required=False)
@click.pass_obj
def doctor(options: Options, name: str | None) -> int:
    """Load every pack and explain what is wrong.

    Exit 1 if a pack failed or waits, or the configuration has problems.
    """
    config, found = read_packs(options)
    if name:
        find_pack(found, name)
    found = load_packs(config, found)
    chosen = [find_pack(found, name)] if name else list(found)
    for problem in config.problems:
        click.echo(f"config    {printable(str(problem))}")
    for pack in chosen:
        _explain(pack)
    bad = [pack for pack in chosen if pack.state in ("failed", "waiting")]
    click.echo(f"{count(len(chosen), 'pack')} looked at, {len(bad)} with a problem" if chosen else "no packs installed")
    return 1 if bad or config.problems else 0


@packs.command(epilog="Example: pegboard packs enable codegraph")
@click.argument("name")
@click.pass_obj
def enable(options: Options, name: str) -> None:
    """Switch a pack on, for you on this machine; your own file is not touched."""
    _switch(options, name, True)


@packs.command(epilog="Example: pegboard packs disable codegraph")
@click.argument("name")
@click.pass_obj
def disable(options: Options, name: str) -> None:
    """Switch a pack off, for you on this machine: it is not imported, its tools are gone."""
    _switch(options, name, False)


def _switch(options: Options, name: str, on: bool) -> None:
    from pegboard.trust.state import State

    refuse_inside(f"pegboard packs {'enable' if on else 'disable'}")
    config, found = read_packs(options)
    find_pack(found, name)
    required = config.get("packs", name, "required")
    if not on and required and required.value is True:
        raise PegboardError(f"pack `{name}` is required by {required.where}; remove that line first")
    State(Places.default()).set(("packs", name, "enabled"), on)

    config, found = read_packs(options)
    pack = find_pack(found, name)
    decided = config.get("packs", name, "enabled")
    reason = f" ({one_line(pack.reason)})" if pack.state in ("failed", "waiting") else ""
    if decided and decided.value is not on:
        click.echo(f"remembered, but {printable(decided.where)} is stronger: {name} is {pack.state}{reason}")
    else:
        click.echo(f"{name} is {pack.state}{reason}")
    if pack.state == "disabled" and pack.distribution.claims_policy:
        click.echo(f"{name} decided about policy; without it a tool that writes runs only with --allow-writes")


def load_pack_command(name: str, owner: Distribution, options: Options) -> click.Command:
    """Import the command that a pack declares.

    Raises:
        PegboardError: the pack is not enabled, or its command can't be imported.
    """
    config, found = read_packs(options)
    pack = next(pack for pack in found if pack.distribution is not None and pack.distribution.name == owner.name)
    if pack.state != "enabled":
        mend = f" · {hint}" if pack.state == "disabled" and (hint := _enabling(pack)) else ""
        raise PegboardError(f"`{name}` is a command of pack `{pack.name}`, which is {pack.state}: {pack.reason}{mend}")
    if config.problems:
        raise ConfigError(config.problems)
    from importlib_metadata import EntryPoint

    try:
        with stdout_kept():
            command = EntryPoint(name=name, value=owner.commands[name], group="pegboard.commands").load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PegboardError(f"command `{name}` of pack `{pack.name}` can't be loaded: {error!r}") from error
    if not isinstance(command, click.Command):
        raise PegboardError(f"command `{name}` of pack `{pack.name}` is {type(command).__name__}, not a click command")
    return command


def _print_json(value: object) -> None:
    import json

    click.echo(json.dumps(value, indent=1))


def _print_list(found: Iterable[Pack], effective: bool) -> None:
    rows = list(found)
    if not rows:
        click.echo("no packs installed; try: pip install pegboard-all")
    names = {pack.name: one_line(pack.name, 40) for pack in rows}
    width = max((len(name) for name in names.values()), default=0)
    for pack in sorted(rows, key=lambda pack: pack.name):
        tools = " ".join(sorted(pack.distribution.tools))
        what = pack.reason or tools or pack.distribution.summary
        version = one_line(pack.distribution.version, 20)
        click.secho(f"{pack.state:<9}", fg=_COLOURS.get(pack.state), nl=False)
        click.echo(f" {names[pack.name]:<{width}}  {version:<8} {one_line(what, 160)}", nl=False)
        click.secho(f"   decided by {printable(pack.decided_by)}" if effective else "", dim=True)


def _explain(pack: Pack) -> None:
    click.secho(f"{pack.state:<9}", fg=_COLOURS.get(pack.state), nl=False)
    click.echo(f" {one_line(f'{pack.name} {pack.distribution.version} ({pack.distribution.name})', 160)}")
    if pack.state in ("failed", "waiting", "disabled"):
        click.echo(f"          why   {printable(pack.reason)}")
        if pack.reference:
            click.echo(
                f"          from  {printable(pack.reference)}, installed at {printable(pack.distribution.location)}"
            )
        click.echo(f"          mend  {_remedy(pack)}")


def _enabling(pack: Pack) -> str:
    """Return the command that switches a disabled pack on, or nothing if what switched it off is stronger."""
    places = Places.default()
    file = pack.decided_by.rpartition(":")[0]
    return f"pegboard packs enable {pack.name}" if file in (str(places.config_file), str(places.state_file)) else ""


def _remedy(pack: Pack) -> str:
    match pack.state:
        case "disabled":
            return f"{hint}, or remove that setting" if (hint := _enabling(pack)) else f"remove {pack.decided_by}"
        case "waiting":
            return "bring back the pack it needs, or switch this one off too"
        case _ if "bad settings" in pack.reason:
            return "correct the settings named above"
        case _:
            return one_line(
                f"repair or upgrade {pack.distribution.name}, or set packs.{pack.name}.enabled = false", 300
            )
