"""`pegboard why`: why a tool is, or is not, offered; everything that hides it, and how to take that away."""

import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import replace

import click

from pegboard.base.errors import UsageError
from pegboard.base.text import one_line
from pegboard.cli.group import Options
from pegboard.cli.opening import open_host, report_faults
from pegboard.cli.sessions import in_session
from pegboard.cli.tools import Given, explainer, newest_given
from pegboard.host.host import Host
from pegboard.why.explanation import NOBODY, Explanation, Reason

_EXAMPLES = """\b
Examples:
  pegboard why grep
  pegboard why write --agent review
  pegboard why grep --session 7f3a90c2 --json
"""


@click.command(epilog=_EXAMPLES)
@click.argument("tool")
@click.option("--agent", "name", metavar="NAME", help="Definition in [agents.NAME]; main if not given.")
@click.option("--session", metavar="ID", help="Whether the newest run of this session was given it.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.pass_obj
def why(options: Options, tool: str, name: str | None, session: str | None, as_json: bool) -> None:
    """Say why a model would, or would not, be offered TOOL in the current directory.

    What hides it is told with what decided that, in this order: pack state, config, exposure, grant, restriction. For a
    tool that is offered: which guards are asked when it is called, and which permission rule applies.
    """
    if session is not None:
        explanation, subject = in_session(
            options, session, lambda host: _then_and_now(host, tool, name, session), require=False
        )
    else:
        host = open_host(options, require=False)
        explanation, subject = asyncio.run(_now(host, tool, name or "main"))
        report_faults(host)
    if as_json:
        click.echo(json.dumps(explanation.as_json(), indent=1))
        return
    for line in _told(explanation, subject):
        click.echo(line)


async def _now(host: Host, tool: str, name: str) -> tuple[Explanation, str]:
    """Return the explanation and, for the first line, of whom it is."""
    async with host:
        explanation = (await explainer(host, name)).explain(tool)
        return explanation, f"{'is' if explanation.offered else 'is not'} offered to `{one_line(name, 40)}`"


async def _then_and_now(host: Host, tool: str, name: str | None, session: str) -> tuple[Explanation, str]:
    given = await newest_given(host, session)
    if name is None and given.agent != "main" and given.agent not in host.config.table("agents"):
        told = f"session {session} is of agent `{given.agent}`, which the configuration does not define"
        raise UsageError(f"{told}; name one to compare with: --agent main")
    now = (await explainer(host, name or given.agent)).explain(tool)
    was, whom = "was" if given.has(tool) else "was not", one_line(given.agent, 40)
    return _compared(given, now), f"{was} offered to `{whom}` in run {given.run} of {session}"


def _compared(given: Given, now: Explanation) -> Explanation:
    """Return what the record says, explained by what is so now; where both differ, the reasons say it."""
    if given.has(now.tool):
        reasons = now.reasons
        if not now.offered:
            reasons = tuple(replace(reason, text=f"no longer: {reason.text}") for reason in reasons)
        return replace(now, offered=True, reasons=reasons)
    if not now.offered:
        return now
    source = f"session {given.session}, run {given.run}"
    if given.child:
        told = "another agent began the session; what it granted is not recorded"
        return replace(now, offered=False, reasons=(Reason("grant", told, source),))
    told = "it was not there when that run began; a run that begins now is offered it"
    return replace(now, offered=False, reasons=(Reason("pack state", told, source),))


def _told(explanation: Explanation, subject: str) -> Iterator[str]:
    name = one_line(explanation.tool, 80)
    asks = any(reason.kind == "permission rule" for reason in explanation.reasons)
    yield f"{name} {subject}{', and asks each time' if asks else ''}"
    rows: list[tuple[str, str, str]] = [
        (reason.kind, _here(reason.text), _here(reason.source)) for reason in explanation.reasons
    ]
    entry = explanation.entry
    if explanation.offered and entry:
        facts = f"{entry.tool.effect}, {entry.tool.concurrency}, definition {entry.tool.hash[:8]}"
        rows.insert(0, ("source", _here(entry.source), facts))
    kinds = max(len(kind) for kind, _, _ in rows) if rows else 0
    texts = min(max((len(text) for _, text, _ in rows), default=0), 72)
    for kind, text, source in rows:
        yield f"  {kind:<{kinds}}  {text:<{texts}}  {source}".rstrip()
    yield from _to_mend(explanation)


def _to_mend(explanation: Explanation) -> Iterator[str]:
    """Say how to have it offered again, unless something that nobody can change stands in the way."""
    reasons = explanation.reasons
    if any(reason.text.startswith(NOBODY) for reason in reasons):
        yield "  all names that are known: pegboard tools --all"
        return
    if any(reason.kind == "exposure" for reason in reasons):
        return
    mends = list(dict.fromkeys(_here(reason.mend) for reason in reasons if reason.mend))
    if len(mends) == 1:
        yield f"  to offer it again: {mends[0]}"
    elif mends:
        yield "  to offer it again, all of this:"
        yield from (f"    {mend}" for mend in mends)


def _here(text: str) -> str:
    """Return the text on one line, with the names of files below the current directory as they are from here."""
    try:
        here = os.path.join(os.getcwd(), "")
    except OSError:
        here = ""
    return one_line(text.replace(here, "") if len(here) > 1 else text, 500)
