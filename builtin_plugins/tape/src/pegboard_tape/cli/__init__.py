"""`pegboard tape`: look back at sessions, search them, move them between machines, look after the file."""

import click

from pegboard_tape.cli.anchoring import anchors, handoff
from pegboard_tape.cli.keeping import gc, stats, verify
from pegboard_tape.cli.looking import list_sessions, search_sessions, show
from pegboard_tape.cli.moving import export_session, import_session


@click.group()
def tape() -> None:
    """Look back at sessions: list, show, search, export; look after the file they are kept in.

    SESSION is an id or the beginning of one; where it may be left out, the newest session is meant.
    """


for command in (
    *(list_sessions, show, search_sessions, anchors, handoff),
    *(export_session, import_session, verify, stats, gc),
):
    tape.add_command(command)
