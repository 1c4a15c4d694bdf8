"""`pegboard run`: one task on the current directory."""

import os
import sys
from dataclasses import dataclass

import click

from pegboard.base.errors import UsageError
from pegboard.cli.group import Options
from pegboard.cli.opening import new_session, open_host, report_faults
from pegboard.cli.screen import JsonLines, Screen
from pegboard.cli.sessions import check_model, check_pausable, in_session, tell_what_is_open, turn_of
from pegboard.cli.watching import exit_code, to_the_end, watch
from pegboard.host.host import Host
from pegboard.values.tool import OnAsk

MAX_TASK_BYTES = 1_000_000


_EXAMPLES = """\b
Examples:
  pegboard run "Where are retries counted?"
  git diff | pegboard run -
  pegboard run -m scripted:turns.toml --allow-writes "fix the test"
  pegboard run --on-ask pause "tidy the changelog"
"""


@click.command(epilog=_EXAMPLES)
@click.argument("task", required=False)
@click.option("-m", "--model", "route", metavar="ROUTE", help="Model route: offline, scripted:FILE, ...")
@click.option("--agent", "name", metavar="NAME", help="Definition in [agents.NAME]; main without it.")
@click.option("--session", metavar="ID", help="Go on with a session that is kept, in its directory.")
@click.option("--allow-writes", is_flag=True, help="Say yes, for this run, to every question that needs no person.")
@click.option(
    "--on-ask",
    type=click.Choice(["deny", "pause"]),
    default="deny",
    show_default=True,
    help="What becomes of a question that nobody answers: a denial, or the run pauses until `pegboard answer`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON event a line.")
@click.pass_obj
def run(
    options: Options,
    task: str | None,
    route: str | None,
    name: str | None,
    session: str | None,
    allow_writes: bool,
    on_ask: OnAsk,
    as_json: bool,
) -> int:
    """Run one TASK on the current directory and stream what happens.

    TASK may come from a pipe. Exit 0 completed (also with denied calls), 3 paused, 130 cancelled, 1 any other end.
    """
    task_ = _Task(read_task(task), route, name, allow_writes, on_ask, as_json)
    if session is not None:
        return in_session(options, session, lambda host: task_.run(host, session))
    host = open_host(options)
    code = to_the_end(_run(host, task_))
    report_faults(host)
    return code


async def _run(host: Host, task: "_Task") -> int:
    async with host:
        return await task.run(host)


@dataclass(frozen=True, slots=True)
class _Task:
    """What a person wants done, and how."""

    text: str
    route: str | None
    name: str | None
    allow_writes: bool
    on_ask: OnAsk
    as_json: bool

    async def run(self, host: Host, session: str | None = None) -> int:
        """Do it, in a new session or in one that is kept; returns the exit code."""
        turn = None if session is None else await turn_of(host, session)
        if turn is not None and turn.paused:
            raise UsageError(f"session {session} is paused; `pegboard resume {session}` goes on with it")
        name = self.name or (turn.agent if turn else "main")
        definition = host.definition(name)
        if route := self.route or (turn.route if turn else ""):
            definition = definition.model_copy(update={"model": route})
        check_model(host, definition.model)
        opened = new_session() if session is None else await host.open_session(session)
        await host.store()  # a store that can't be had is told before anything begins
        if self.on_ask == "pause":
            await check_pausable(host)
        agent = await host.create_agent(definition, name=name, session=opened)
        host.listen(JsonLines() if self.as_json else Screen())
        end = await watch(host.submit(agent, self.text, allow_writes=self.allow_writes, on_ask=self.on_ask))
        if end.reason == "paused" and not self.as_json:
            await tell_what_is_open(host, agent.id)
        return exit_code(end)


def read_task(task: str | None) -> str:
    """Return the task from the argument, or from the pipe if it is `-` or missing.

    Raises:
        UsageError: there is none, it is empty, too large, or not text.
    """
    if task in (None, "-"):
        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError('no task given; for example: pegboard run "Where are retries counted?"')
        raw = sys.stdin.buffer.read(MAX_TASK_BYTES + 1)
    else:
        raw = os.fsencode(task or "")
    if len(raw) > MAX_TASK_BYTES:
        raise UsageError(f"the task is larger than {MAX_TASK_BYTES:,} bytes; put it into a file and name the file")
    try:
        text = raw.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise UsageError(f"the task is not UTF-8 (byte {error.start})") from None
    if not text:
        raise UsageError('the task is empty; for example: pegboard run "Where are retries counted?"')
    return text
