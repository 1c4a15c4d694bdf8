"""The `pegboard` command: help from data alone, a command's module imported only when it runs."""

import os
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

import click

from pegboard.base.errors import PegboardError
from pegboard.base.text import one_line, printable
from pegboard.cli.installed import installed
from pegboard.packs.commands import KERNEL_COMMANDS
from pegboard.packs.discovery import Distribution


@dataclass(slots=True)
class Options:
    """The global options, handed to every command as `ctx.obj`."""

    disable: tuple[str, ...] = ()
    strict: bool = False
    debug: bool = False


class LazyGroup(click.Group):
    """Knows its commands by name and one-line help; packs' commands come from their static metadata."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The kernel's commands in their own order, then the packs' by name."""
        return [*KERNEL_COMMANDS, *(name for name in sorted(_pack_commands()) if name not in KERNEL_COMMANDS)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import one command, and no other."""
        installed()  # before a command's module imports pydantic, see there
        if found := KERNEL_COMMANDS.get(name):
            module, _, attribute = found[0].partition(":")
            return _load_attribute(module, attribute)
        if owner := _pack_commands().get(name):
            from pegboard.cli.packs import load_pack_command

            given = {key: ctx.params[key] for key in ("disable", "strict", "debug") if key in ctx.params}
            return load_pack_command(name, owner, Options(**given))
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        packs = _pack_commands()
        rows = []
        for name in self.list_commands(ctx):
            known = KERNEL_COMMANDS.get(name)
            rows.append((one_line(name, 40), known[1] if known else one_line(packs[name].summary)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command named by the first argument; an unknown one is refused with the nearest name."""
        name = args[0]
        command = self.get_command(ctx, name)
        if command is None:
            from pegboard.base.text import did_you_mean

            near = did_you_mean(name, self.list_commands(ctx))
            raise click.UsageError(f"there is no command `{one_line(name, 80)}`{near}", ctx)
        return name, command, args[1:]


def _load_attribute(module: str, attribute: str) -> click.Command:
    from importlib import import_module

    command: click.Command = getattr(import_module(module), attribute)
    return command


@cache
def _pack_commands() -> dict[str, Distribution]:
    """Return who owns each command of a pack; of several claims the first in load order counts (rule 4)."""
    owners: dict[str, Distribution] = {}
    good = [distribution for distribution in installed() if distribution.problem is None]
    claims = [(name, distribution) for distribution in good for name in distribution.commands]
    if len(claims) > len({name for name, _ in claims}):
        from pegboard.config.layers import Config
        from pegboard.packs.survey import survey

        in_load_order = [pack.distribution for pack in survey(good, Config())]
        claims = [(name, distribution) for distribution in in_load_order for name in distribution.commands]
    for name, distribution in claims:
        owners.setdefault(name, distribution)
    return owners


def _print_version(ctx: click.Context, _option: click.Parameter, given: bool) -> None:
    if given and not ctx.resilient_parsing:
        from pegboard import __version__

        click.echo(f"pegboard {__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog='Try: pegboard run "Where are the settings read?"   Every command has --help with examples.',
)
@click.option("--disable", metavar="PACK", multiple=True, help="Leave a pack out, this once; may be repeated.")
@click.option("--strict", is_flag=True, help="Stop with exit 1 if any pack failed or waits for another.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
@click.pass_context
def pegboard(ctx: click.Context, disable: tuple[str, ...], strict: bool, debug: bool) -> None:
    """Run an agent on the current directory, with exactly the capabilities that your packs give it."""
    ctx.obj = Options(disable, strict, debug)


def main() -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 used wrongly, 130 interrupted."""
    sys.exit(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    try:
        code: Any = pegboard.main(arguments, prog_name="pegboard", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except click.UsageError as error:
        return _complain(f"{error.format_message()} (see `{_help_of(error.ctx)}`)", error.exit_code, arguments)
    except click.ClickException as error:
        return _complain(error.format_message(), error.exit_code, arguments)
    except PegboardError as error:
        return _complain(str(error), error.exit_code, arguments)
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone; Python must not complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _complain(message: str, code: int, arguments: list[str]) -> int:
    if "--debug" in arguments:
        import traceback

        traceback.print_exc()
    click.echo(f"pegboard: {printable(message)}", err=True)
    return code


def _help_of(ctx: click.Context | None) -> str:
    return f"{ctx.command_path if ctx else 'pegboard'} --help"
