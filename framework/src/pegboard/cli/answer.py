"""`pegboard answer`: answer what a paused session asks, from any process."""

import json

import click

from pegboard.base.errors import UsageError
from pegboard.cli.group import Options
from pegboard.cli.sessions import how_to_answer, in_session, show_question
from pegboard.host.host import Host
from pegboard.values.interactions import Answer, Interaction

_EXAMPLES = """\b
Examples:
  pegboard answer 7f3a9c01 1 y
  pegboard answer 7f3a9c01 2 n "use the staging server"
  pegboard answer 7f3a9c01 3 "the second one"
"""


@click.command(epilog=_EXAMPLES)
@click.argument("session")
@click.argument("number", type=click.IntRange(min=1))
@click.argument("answer")
@click.argument("reason", default="")
@click.option("--json", "as_json", is_flag=True, help="Print what was answered and what is still open as JSON.")
@click.pass_obj
def answer(options: Options, session: str, number: int, answer: str, reason: str, as_json: bool) -> None:
    """Answer interaction NUMBER of SESSION: y or n, with a REASON for the model, where a permission is wanted.

    A question takes a text, or the number of one of its options. The answer is only recorded; `pegboard resume` goes
    on when nothing is open any more. Only the first open interaction of a session and its children can be answered.
    """
    root, left = in_session(options, session, lambda host: _answer(host, session, number, answer, reason))
    if as_json:
        told = [{"session": one.session, "id": one.id, "kind": one.kind, "reason": one.reason} for one in left]
        click.echo(json.dumps({"session": session, "id": number, "root": root, "open": told}))
    elif left:
        show_question(left[0])
        click.echo(f"answered; {len(left)} more open · {how_to_answer(left)}")
    else:
        click.echo(f"answered; nothing is open any more · pegboard resume {root}")


async def _answer(host: Host, session: str, number: int, said: str, reason: str) -> tuple[str, list[Interaction]]:
    queue = await host.interactions(session)
    asked = next((one for one in queue if (one.session, one.id) == (session, number)), None)
    if asked is None:
        raise UsageError(f"session {session} has no open interaction {number}")
    await host.answer(session, number, read_answer(asked, said, reason))
    return asked.root, await host.interactions(session)


def read_answer(asked: Interaction, said: str, reason: str) -> Answer:
    """Turn what a person typed into an answer of the interaction's kind.

    Raises:
        UsageError: it is none.
    """
    if asked.kind == "question":
        if reason:
            raise UsageError("a question takes one text; put it in quotes")
        place = int(said) - 1 if said.isascii() and said.isdigit() else -1
        return Answer.say(asked.options[place] if 0 <= place < len(asked.options) else said)
    match said.strip().lower():
        case "y" | "yes":
            return Answer(True, reason)
        case "n" | "no":
            return Answer.no(reason)
    raise UsageError(f"interaction {asked.id} wants y or n")
