"""`pegboard new`: a new pack from the template, from flags or from answers on a terminal."""

import shlex
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import click
from pegboard import UsageError

from pegboard_new.answers import LICENSES, Answers, check_description, check_distribution, check_name, check_text
from pegboard_new.template import generate, questions

_EXAMPLES = """\b
Examples:
  pegboard new
  pegboard new tickets --description "Lists the tickets of a tracker" --license MIT --no-input
  pegboard new tickets --distribution acme-tickets --into ~/src
"""


@click.command(epilog=_EXAMPLES)
@click.argument("name", required=False)
@click.option("--description", metavar="TEXT", help="What the pack does, in one line.")
@click.option("--author", metavar="NAME", help="Who is named as its author; nobody if not given.")
@click.option("--license", "license_", type=click.Choice(LICENSES), help=f"Its licence; {LICENSES[0]} if not given.")
@click.option("--distribution", metavar="NAME", help="What pip installs; pegboard-NAME if not given.")
@click.option("--into", type=click.Path(path_type=Path), default=Path("."), help="Where to make its folder; here.")
@click.option("--no-input", is_flag=True, help="Ask nothing; what is not given is the default.")
@click.pass_context
def new(
    ctx: click.Context,
    name: str | None,
    description: str | None,
    author: str | None,
    license_: str | None,
    distribution: str | None,
    into: Path,
    no_input: bool,
) -> None:
    """Start a pack of your own in a new folder: a tool, a guard, settings, a command, and tests that pass.

    On a terminal it asks for what is not given. NAME is what the configuration calls the pack, and its command.
    """
    ask = _Asking(sys.stdin.isatty() and not no_input)
    commands = _commands_around(ctx)
    name = ask("name", name, None, lambda given: check_name(given, commands))
    answers = Answers(
        name,
        ask("description", description, questions()["description"], check_description),
        ask("author", author, "", lambda given: check_text(given, "author")),
        ask("license", license_, LICENSES[0], str, click.Choice(LICENSES)),
        ask("distribution", distribution, f"pegboard-{name}", check_distribution),
    )
    _tell(generate(answers, into), answers)


class _Asking:
    """Takes what is given; asks for the rest on a terminal, until the answer will do, or takes the default."""

    def __init__(self, on_terminal: bool) -> None:
        self._on_terminal = on_terminal

    def __call__(
        self, key: str, given: str | None, default: str | None, check: Callable[[str], str], kind: Any = None
    ) -> str:
        if given is not None:
            return check(given)
        if not self._on_terminal:
            if default is None:
                raise UsageError(f"which {key}? write `pegboard new {key.upper()}`")
            return check(default)
        text = questions()["__prompts__"][key]
        return str(click.prompt(text, default=default, type=kind, value_proc=None if kind else _checking(check)))


def _checking(check: Callable[[str], str]) -> Callable[[str], str]:
    """Let a refused answer be asked for again, with the reason."""

    def convert(answer: str) -> str:
        try:
            return check(answer)
        except UsageError as error:
            raise click.UsageError(str(error)) from error

    return convert


def _commands_around(ctx: click.Context) -> Collection[str]:
    """Return the names of the commands beside this one."""
    above = ctx.parent
    return above.command.list_commands(above) if above and isinstance(above.command, click.Group) else ()


def _tell(project: Path, answers: Answers) -> None:
    files = sum(path.is_file() for path in project.rglob("*"))
    click.echo(f"{project}: {files} files of a pack that works; make it yours\n")
    for line in (
        f"cd {shlex.quote(str(project))}",
        "pip install -e '.[dev]'",
        "pytest",
        "pegboard check .",
        f"pegboard {answers.name} README.md",
    ):
        click.echo(f"  {line}")
