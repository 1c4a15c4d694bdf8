"""`pegboard resume`: go on with a paused session when everything has its answer."""

import click

from pegboard.base.errors import UsageError
from pegboard.base.text import count, printable
from pegboard.cli.group import Options
from pegboard.cli.screen import JsonLines, Screen
from pegboard.cli.sessions import check_model, how_to_answer, in_session, tell_what_is_open, turn_of
from pegboard.cli.watching import exit_code, watch
from pegboard.host.host import Host
from pegboard.record.folds import start_of
from pegboard.values.events import Event, Returned


@click.command(epilog="Examples: pegboard resume 7f3a9c01  ·  pegboard resume --json 7f3a9c01")
@click.argument("session")
@click.option("-m", "--model", "route", metavar="ROUTE", help="Another model route than the paused run had.")
@click.option("--allow-writes", is_flag=True, help="Say yes, for this run, to every question that needs no person.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON event a line.")
@click.pass_obj
def resume(options: Options, session: str, route: str | None, allow_writes: bool, as_json: bool) -> int:
    """Go on with SESSION, which paused: the calls that have a yes are made, then the model is asked.

    Works from any directory and any process. Exit 0 completed, 3 paused again, 130 cancelled, 1 any other end.
    """
    return in_session(options, session, lambda host: _resume(host, session, route, allow_writes, as_json))


async def _resume(host: Host, session: str, route: str | None, allow_writes: bool, as_json: bool) -> int:
    start = start_of(await host.entries(session, limit=1))
    if start is not None and start.parent is not None:
        raise UsageError(f"session {session} is part of session {start.parent}; resume that one")
    if open_ones := await host.interactions(session):
        told = f"session {session} has {count(len(open_ones), 'question')} open"
        raise UsageError(f"{told} · {how_to_answer(open_ones)}")
    turn = await turn_of(host, session)
    if turn is None or not turn.paused:
        raise UsageError(f"session {session} is not paused; there is nothing to resume")
    definition = host.definition(turn.agent)
    if turn.route:
        definition = definition.model_copy(update={"model": route or turn.route})
        check_model(host, definition.model)
    agent = await host.create_agent(definition, name=turn.agent, session=await host.open_session(session))
    failed: list[Event] = []
    if as_json:
        host.listen(JsonLines())
    elif turn.route:
        host.listen(Screen())
    host.listen(lambda event: failed.append(event) if isinstance(event, Returned) and event.status != "ok" else None)
    end = await watch(await host.resume(agent, allow_writes=allow_writes, on_ask="pause"))
    if not as_json and not turn.route and end.reason == "completed":
        click.echo(printable(end.text), err=bool(failed))
    if not as_json and end.reason == "paused":
        await tell_what_is_open(host, session)
    return exit_code(end) or int(not turn.route and bool(failed))
