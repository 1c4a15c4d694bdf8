"""`pegboard trust`: a person looks at what a project brings and decides whether it counts."""

import json
import sys
from pathlib import Path

import click

from pegboard.base.errors import PegboardError, UsageError
from pegboard.base.text import one_line, printable
from pegboard.cli.installed import installed
from pegboard.cli.project_notes import brings, rows
from pegboard.cli.reading import policy_packs, refuse_inside
from pegboard.config.layers import Config
from pegboard.config.places import Places
from pegboard.trust.accepted import Trust
from pegboard.trust.project import read_project
from pegboard.trust.project_rules import ProjectPart, project_part
from pegboard.values.project import Project

_EXAMPLES = """\b
Examples:
  pegboard trust
  pegboard trust ../other --yes
  pegboard trust --revoke
"""


@click.command(epilog=_EXAMPLES)
@click.argument("path", required=False)
@click.option("--yes", is_flag=True, help="Trust it without being asked.")
@click.option("--revoke", is_flag=True, help="Trust it no longer.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def trust(path: str | None, yes: bool, revoke: bool, as_json: bool) -> int:
    """Show what the project at PATH (default: here) brings, what changed, and ask whether to trust it.

    Trust holds for exactly these files: a change asks again. Exit 1 if it is not trusted in the end.
    """
    refuse_inside("pegboard trust")
    directory = _directory(path)
    project = read_project(directory)
    known = Trust(Places.default())
    if revoke:
        return _revoke(known, project.path if project else directory, as_json)
    if project is None:
        _say(as_json, {"path": str(directory), "trusted": False, "brings": {}})
        click.echo(f"nothing to trust in {printable(str(directory))}", err=as_json)
        return 0
    if project.problems:
        raise PegboardError(f"{project.path} can't be trusted: {'; '.join(project.problems)}")
    trusted = known.trusts(project)
    if not as_json:
        _show(project, known, trusted)
    if not trusted and _agrees(yes, as_json):
        known.accept(project)
        trusted = True
        click.echo("trusted; a change asks again", err=as_json)
    _say(as_json, _facts(project, known, trusted))
    return 0 if trusted else 1


def _directory(path: str | None) -> Path:
    try:
        directory = Path(path or ".").resolve(strict=True)
    except (OSError, RuntimeError):
        raise UsageError(f"{path or 'the current directory'} does not exist") from None
    return directory if directory.is_dir() else directory.parent


def _revoke(known: Trust, path: Path, as_json: bool) -> int:
    was = known.revoke(path)
    _say(as_json, {"path": str(path), "trusted": False, "revoked": was})
    click.echo(f"{printable(str(path))} {'is no longer trusted' if was else 'was not trusted'}", err=as_json)
    return 0


def _show(project: Project, known: Trust, trusted: bool) -> None:
    click.echo(f"{printable(str(project.path))} {'is trusted already' if trusted else 'brings'}")
    for name, told in brings(project).items():
        click.echo(f"  {one_line(name, 60):<20} {one_line(told)}")
    part = _part(project)
    for told, problems in (
        ("has no effect, trusted or not:", part.refused),
        ("would stop every command here until it is mended:", part.problems),
    ):
        for line in (told, *rows(project, problems)) if problems else ():
            click.echo(line)
    if not trusted:
        again = known.was_trusted(project.path)
        click.echo(f"\n{'changed since you trusted it' if again else 'all of it'}:\n{known.diff(project)}\n")


def _agrees(yes: bool, as_json: bool) -> bool:
    if yes:
        return True
    if as_json or sys.stdin is None or not sys.stdin.isatty():
        click.echo("not trusted: nobody to ask here · look at it, then: pegboard trust --yes", err=True)
        return False
    if click.confirm("trust it?", default=False, err=True):
        return True
    click.echo("not trusted; commands go on without these settings", err=True)
    return False


def _part(project: Project) -> ProjectPart:
    """Return what would be taken of the project if it were trusted."""
    names = frozenset(found.pack[0] for found in installed() if found.pack)
    return project_part(project, True, Config(), policy_packs(), names)


def _facts(project: Project, known: Trust, trusted: bool) -> dict[str, object]:
    return {
        "path": str(project.path),
        "hash": project.hash,
        "trusted": trusted,
        "brings": brings(project),
        "never_taken": [str(problem) for problem in _part(project).refused],
        "diff": known.diff(project),
    }


def _say(as_json: bool, facts: dict[str, object]) -> None:
    if as_json:
        click.echo(json.dumps(facts, indent=1))
