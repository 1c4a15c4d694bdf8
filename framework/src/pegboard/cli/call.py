"""`pegboard call`: one tool through the whole pipeline, without a model."""

import json
import sys
from collections.abc import Mapping
from typing import Any

import click

from pegboard.base.errors import UsageError
from pegboard.base.text import did_you_mean, printable
from pegboard.cli.group import Options
from pegboard.cli.opening import new_session, open_host, report_faults
from pegboard.cli.screen import JsonLines
from pegboard.cli.sessions import check_pausable, tell_what_is_open
from pegboard.cli.watching import exit_code, to_the_end, watch
from pegboard.host.host import Host
from pegboard.values.events import RunEnd
from pegboard.values.messages import ToolCall, ToolResult
from pegboard.values.tool import OnAsk

_EXAMPLES = """\b
Examples:
  pegboard call read path=README.md
  pegboard call grep pattern='def main' glob='*.py'
  pegboard call write --allow-writes '{"path": "note.txt", "content": "hello"}'
"""


@click.command(epilog=_EXAMPLES)
@click.argument("tool")
@click.argument("arguments", nargs=-1)
@click.option("--agent", "name", metavar="NAME", default="main", show_default=True, help="Definition in [agents.NAME].")
@click.option("--allow-writes", is_flag=True, help="Say yes to every question that needs no person.")
@click.option(
    "--on-ask",
    type=click.Choice(["deny", "pause"]),
    default="deny",
    show_default=True,
    help="What becomes of a question that nobody answers: a denial, or the call waits for `pegboard answer`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON event a line.")
@click.pass_obj
def call(
    options: Options,
    tool: str,
    arguments: tuple[str, ...],
    name: str,
    allow_writes: bool,
    on_ask: OnAsk,
    as_json: bool,
) -> int:
    """Call TOOL with ARGUMENTS: one JSON object (`-` reads it from the pipe), or key=value pairs.

    The call goes through the same checks and guards as a model's. Exit 0 if it succeeded, 1 if it failed or was
    denied, 3 if it waits for a person, 130 if it was cancelled.
    """
    host = open_host(options)
    end, result = to_the_end(_call(host, tool, arguments, name, allow_writes, on_ask, as_json))
    report_faults(host)
    if not as_json and result is not None:
        click.echo(printable(result.content), err=result.status != "ok")
    return exit_code(end) or int(result is None or result.status != "ok")


async def _call(
    host: Host,
    tool: str,
    arguments: tuple[str, ...],
    name: str,
    allow_writes: bool,
    on_ask: OnAsk,
    as_json: bool,
) -> tuple[RunEnd, ToolResult | None]:
    async with host:
        if on_ask == "pause":
            await check_pausable(host)
        agent = await host.create_agent(name, session=new_session())
        offered = (await host.preview(agent)).get(tool)
        if offered is None:
            near = did_you_mean(tool, agent.view().names)
            raise UsageError(f"there is no tool `{tool}`{near} (`pegboard tools` lists them)")
        asked = ToolCall("call-1", tool, read_arguments(arguments, offered.tool.parameters))
        if as_json:
            host.listen(JsonLines())
        run, results = host.submit_call(agent, asked, allow_writes=allow_writes, on_ask=on_ask)
        end = await watch(run)
        if end.reason == "paused" and not as_json:
            await tell_what_is_open(host, agent.id)
        return end, results[0] if results else None


def read_arguments(arguments: tuple[str, ...], schema: Mapping[str, Any]) -> str:
    """Return the arguments as JSON text.

    In `key=value` a value is taken as text where the schema wants a string, as JSON otherwise.

    Raises:
        UsageError: an argument is neither JSON nor a pair.
    """
    if arguments == ("-",):
        return sys.stdin.read()
    if len(arguments) == 1 and arguments[0].lstrip().startswith(("{", "[")):
        return arguments[0]
    properties = schema.get("properties", {})
    pairs: dict[str, Any] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals:
            raise UsageError(f"`{argument}` is neither a JSON object nor key=value")
        pairs[key] = value if _wants_text(properties.get(key, {})) else _json_or_text(value)
    return json.dumps(pairs)


def _wants_text(schema: Any) -> bool:
    options = schema.get("anyOf", [schema]) if isinstance(schema, Mapping) else []
    return any(isinstance(option, Mapping) and option.get("type") == "string" for option in options)


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value
