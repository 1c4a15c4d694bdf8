"""`pegboard {{ cookiecutter.name }}`: the marked lines of a file, for a person."""

from pathlib import Path

import click

from {{ cookiecutter.__module }}.marks import marked_lines


@click.command(epilog="Example: pegboard {{ cookiecutter.name }} README.md --mark FIXME")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--mark", default="TODO", show_default=True, help="What marks a line.")
def command(file: Path, mark: str) -> None:
    """List the lines of FILE that hold the mark."""
    for line in marked_lines(file.read_text("utf-8", "replace"), mark):
        click.echo(line)
