"""What a person and a program meet when a run pauses: `--on-ask`, `answer`, `resume`, exit codes, one-line hints."""

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pegboard.testing import PackFolder

Pegboard = Callable[..., subprocess.CompletedProcess[str]]

# The model calls the tools that its task names, then tells what they said.
WORK = """
import json
from pegboard import (
    Ask, AssistantMessage, Finish, ModelProvider, NeedsAnswer, NeedsApproval, TextDelta, ToolCall, ToolContext,
    ToolResult, UserMessage, hookimpl, tool,
)

def did(ctx, what):
    with open(ctx.directory / "did", "a") as file:
        file.write(what + "\\n")

@tool(effect="read")
async def ask(ctx: ToolContext, word: str = "") -> str:
    '''Do what a guard asks about.'''
    did(ctx, "ask")
    return "ask was done"

@tool(effect="read")
async def look(ctx: ToolContext) -> str:
    '''Look.'''
    did(ctx, "look")
    return "look was done"

@tool(effect="read")
async def which(ctx: ToolContext) -> str:
    '''Ask which one.'''
    if not ctx.answer:
        raise NeedsAnswer("Which one\\x1b[31m, left\\nor right?", ("left", "right"))
    did(ctx, f"which {ctx.answer}")
    return f"the {ctx.answer} one"

class Model:
    label = "does its task"

    async def stream(self, request):
        messages = list(request.messages)
        place = max(number for number, message in enumerate(messages) if isinstance(message, UserMessage))
        if place == len(messages) - 1:
            for number, name in enumerate(messages[place].text.split()):
                yield ToolCall(f"{request.run}-{number}", name, "")
        else:
            told = [message.content for message in messages[place:] if isinstance(message, ToolResult)]
            yield TextDelta("; ".join(told))
        yield Finish()

class Pack:
    @hookimpl
    def register_tools(self):
        return [ask, look, which]

    @hookimpl
    def register_models(self):
        return [ModelProvider("task", "does its task", lambda argument: Model())]

    @hookimpl
    def guard_tool_call(self, call):
        return Ask("is it\\x1b[31m wanted?") if call.name == "ask" else None
"""


class Place:
    """Where commands run, and what they do there."""

    def __init__(self, folder: Path, pegboard: Pegboard, packs: PackFolder) -> None:
        self.folder = folder
        self.run = pegboard
        self.packs = packs

    @property
    def did(self) -> list[str]:
        """What bodies did."""
        file = self.folder / "did"
        return file.read_text("utf-8").splitlines() if file.exists() else []

    def keep(self) -> None:
        """Install a store that lasts."""
        self.packs.add("jsonl", reference="pegboard.testing.jsonl:JsonlPack")

    def pause(self, task: str) -> str:
        """Run until it pauses; returns the session."""
        self.keep()
        ended = self.run("run", "--on-ask", "pause", "--json", task)
        assert ended.returncode == 3, ended.stderr
        session: str = json.loads(ended.stdout.splitlines()[0])["session"]
        return session


@pytest.fixture
def place(pegboard: Pegboard, home: Any, pack_folder: PackFolder, tmp_path: Path) -> Place:
    """A folder and a pack with things to ask about; nothing is kept yet."""
    pack_folder.add("work", WORK)
    home.config('[agents.main]\nmodel = "task"\n')
    return Place(tmp_path / "work", pegboard, pack_folder)


def refused(ended: "subprocess.CompletedProcess[str]", code: int) -> str:
    """The one line that says why a command did nothing."""
    assert (ended.returncode, ended.stdout) == (code, ""), ended.stderr
    lines = ended.stderr.splitlines()
    assert len(lines) == 1, ended.stderr
    assert lines[0].startswith("pegboard: ")
    return lines[0]


# -- run and call


def test_a_paused_run_ends_with_exit_3_and_the_commands_to_go_on(place: Place) -> None:
    """UX: the hint is copy-pasteable, and works when it is typed."""
    place.keep()

    ended = place.run("run", "--on-ask", "pause", "ask look")

    assert (ended.returncode, place.did) == (3, ["look"])
    (hint,) = [line for line in (ended.stdout + ended.stderr).splitlines() if line.startswith("paused: ")]
    told, answer, resume = hint.split(" · ")
    session = answer.split()[2]
    assert told == "paused: 1 question open"
    assert (answer, resume) == (f"pegboard answer {session} 1 y", f"pegboard resume {session}")
    for command in (answer, resume):
        typed = place.run(*shlex.split(command)[1:])
        assert typed.returncode == 0, typed.stderr
    assert place.did == ["look", "ask"]
    assert "ask was done; look was done" in typed.stdout


def test_the_hint_counts_what_is_open(place: Place) -> None:
    place.keep()

    ended = place.run("run", "--on-ask", "pause", "ask which ask")

    assert "paused: 3 questions open · pegboard answer " in ended.stdout + ended.stderr


def test_the_screen_shows_what_is_asked_and_no_escapes_of_it(place: Place) -> None:
    """Rule 15."""
    place.keep()

    ended = place.run("run", "--on-ask", "pause", "ask which")

    told = ended.stdout + ended.stderr
    assert "\x1b" not in told
    assert "wanted?" in told
    assert "Which one" in told


def test_in_a_pipe_every_line_is_json_and_the_last_is_the_end(place: Place) -> None:
    place.keep()

    ended = place.run("run", "--on-ask", "pause", "--json", "ask look")

    events = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ended.returncode == 3
    assert (events[-1]["type"], events[-1]["reason"]) == ("run_end", "paused")
    (asked,) = [event for event in events if event["type"] == "interaction"]
    assert (asked["id"], asked["kind"], asked["tool"], asked["person"]) == (1, "permission", "ask", False)
    assert asked["session"] == events[-1]["session"]


def test_without_a_store_that_lasts_a_pause_is_refused_before_anything_runs(
    place: Place, without_store: tuple[str, ...]
) -> None:
    """DESIGN §3.6: exit 2."""
    for command in (("run", "--on-ask", "pause", "ask look"), ("call", "--on-ask", "pause", "ask")):
        line = refused(place.run(*without_store, *command), 2)
        assert "pause" in line

    assert place.did == []


def test_by_default_nobody_is_asked(place: Place) -> None:
    """Case 37: exit 0 completed, also with denied calls."""
    place.keep()

    for options in ((), ("--on-ask", "deny")):
        ended = place.run("run", *options, "ask")
        assert (ended.returncode, place.did) == (0, [])
        assert "1 denied" in ended.stdout


@pytest.mark.parametrize("how", ["wait", "allow", ""])
def test_there_is_no_other_way_to_ask(place: Place, how: str) -> None:
    place.keep()

    assert place.run("run", "--on-ask", how, "ask").returncode == 2
    assert place.did == []


def test_a_blanket_yes_leaves_nothing_to_pause_for(place: Place) -> None:
    place.keep()

    assert place.run("run", "--on-ask", "pause", "--allow-writes", "ask").returncode == 0
    assert place.did == ["ask"]


def test_a_call_pauses_and_is_resumed_without_a_model(place: Place) -> None:
    place.keep()
    ended = place.run("call", "--on-ask", "pause", "ask")
    assert (ended.returncode, place.did) == (3, [])
    (hint,) = [line for line in (ended.stdout + ended.stderr).splitlines() if line.startswith("paused: ")]
    _, answer, resume = hint.split(" · ")

    assert place.run(*answer.split()[1:]).returncode == 0
    ended = place.run(*resume.split()[1:])

    assert (ended.returncode, place.did) == (0, ["ask"]), ended.stderr
    assert "ask was done" in ended.stdout


# -- answer


def test_the_answers_are_recorded_one_after_the_other_and_the_last_says_how_to_go_on(place: Place) -> None:
    session = place.pause("ask which")

    first = place.run("answer", session, "1", "y")
    second = place.run("answer", session, "2", "left")

    assert (first.returncode, second.returncode) == (0, 0)
    assert f"pegboard answer {session} 2" in first.stdout + first.stderr
    assert f"pegboard resume {session}" in second.stdout + second.stderr
    assert place.did == []


@pytest.mark.parametrize(("said", "does"), [("y", ["ask"]), ("n", [])])
def test_y_and_n_answer_a_permission(place: Place, said: str, does: list[str]) -> None:
    session = place.pause("ask")

    assert place.run("answer", session, "1", said).returncode == 0
    assert place.run("resume", session).returncode == 0
    assert place.did == does


@pytest.mark.parametrize("said", ["left", "n", "-1"])
def test_any_text_answers_a_question(place: Place, said: str) -> None:
    """`n` may as well mean that there is no answer; it never reaches the body as anything else."""
    session = place.pause("which")

    assert place.run("answer", session, "1", "--", said).returncode == 0
    assert place.run("resume", session).returncode == 0
    assert place.did == [f"which {said}"] or (said == "n" and place.did == [])


@pytest.mark.parametrize(("task", "said"), [("ask", "maybe"), ("which", " \n ")])
def test_an_answer_that_is_none_is_refused(place: Place, task: str, said: str) -> None:
    session = place.pause(task)

    refused(place.run("answer", session, "1", said), 2)

    assert place.run("resume", session).returncode != 0
    assert place.did == []


@pytest.mark.parametrize("number", ["2", "0", "one"])
def test_a_number_that_was_not_asked_is_refused(place: Place, number: str) -> None:
    session = place.pause("ask")

    ended = place.run("answer", session, "--", number, "y")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 1
    assert place.run("resume", session).returncode != 0


def test_out_of_order_it_says_which_comes_first(place: Place) -> None:
    """B20."""
    session = place.pause("ask which")

    line = refused(place.run("answer", session, "2", "left"), 2)

    assert "1" in line
    assert "first" in line


def test_a_second_answer_is_refused(place: Place) -> None:
    """Case 33."""
    session = place.pause("ask")
    place.run("answer", session, "1", "n")

    refused(place.run("answer", session, "1", "y"), 2)


@pytest.mark.parametrize("session", ["deadbeef", "../evil", "0" * 300])
def test_a_session_that_is_none_is_refused(place: Place, session: str) -> None:
    """Case 21."""
    place.keep()

    for command in (("answer", session, "1", "y"), ("resume", session)):
        line = refused(place.run(*command), 2)
        assert len(line) < 300


def test_another_sessions_question_is_not_answered(place: Place) -> None:
    asks, other = place.pause("ask"), ""
    ended = place.run("run", "--json", "look")
    other = json.loads(ended.stdout.splitlines()[0])["session"]

    refused(place.run("answer", other, "1", "y"), 2)

    assert place.run("resume", asks).returncode != 0
    assert place.did == ["look"]


def test_without_a_store_there_is_nothing_to_answer(place: Place) -> None:
    for command in (("answer", "deadbeef", "1", "y"), ("resume", "deadbeef")):
        line = refused(place.run(*command), 2)
        assert "deadbeef" in line or "session" in line


def test_a_store_that_can_not_be_had_stops_both_commands(place: Place, home: Any) -> None:
    """DESIGN §3.1: exit 1 with the reason."""
    session = place.pause("ask")
    kept = home.path / ".local" / "state" / "pegboard" / "packs"
    kept.rename(kept.parent / "elsewhere")
    kept.write_text("a file where a folder belongs")

    for command in (("answer", session, "1", "y"), ("resume", session)):
        assert "session_store" in refused(place.run(*command), 1)


# -- resume


def test_what_has_no_pause_is_not_resumed(place: Place) -> None:
    place.keep()
    ended = place.run("run", "--json", "look")
    session = json.loads(ended.stdout.splitlines()[0])["session"]

    line = refused(place.run("resume", session), 2)

    assert session in line
    assert "paused" in line
    assert place.did == ["look"]


def test_what_is_still_open_is_not_resumed_and_the_way_on_is_told(place: Place) -> None:
    session = place.pause("ask which")

    line = refused(place.run("resume", session), 2)

    assert f"pegboard answer {session} 1" in line
    assert place.did == []


def test_a_resumed_run_in_a_pipe_is_json(place: Place) -> None:
    session = place.pause("ask look")
    place.run("answer", session, "1", "y")

    ended = place.run("resume", "--json", session)

    events = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ended.returncode == 0
    assert events[0]["type"] == "run_start"
    assert {event["session"] for event in events} == {session}
    assert (events[0]["resumes"], events[-1]["type"], events[-1]["reason"]) == (1, "run_end", "completed")
    assert [event["name"] for event in events if event["type"] == "tool_result"] == ["ask"]


def test_a_resumed_run_that_pauses_again_ends_with_exit_3_and_a_hint(place: Place) -> None:
    source = place.packs.path / "sample_work.py"
    text = WORK.replace(
        'did(ctx, "ask")', 'if not ctx.approved:\n        raise NeedsApproval("really?")\n    did(ctx, "ask")'
    )
    source.write_text(text, "utf-8")
    session = place.pause("ask")
    place.run("answer", session, "1", "y")

    ended = place.run("resume", session)

    if ended.returncode == 3:  # the guard's yes is not the body's
        assert f"pegboard answer {session} 2 y" in ended.stdout + ended.stderr
        assert place.run("answer", session, "2", "y").returncode == 0
        ended = place.run("resume", session)
    assert (ended.returncode, place.did) == (0, ["ask"])


def test_colours_and_movement_stay_out_of_a_pipe(place: Place) -> None:
    session = place.pause("ask")

    told = [place.run("answer", session, "1", "y"), place.run("resume", session)]

    assert "\x1b" not in "".join(ended.stdout + ended.stderr for ended in told)
    assert "\r" not in "".join(ended.stdout + ended.stderr for ended in told)


@pytest.mark.parametrize("command", ["answer", "resume"])
def test_both_commands_are_listed_and_explained(pegboard: Pegboard, command: str) -> None:
    assert f"  {command} " in pegboard("--help").stdout
    help_ = pegboard(command, "--help")
    assert (help_.returncode, help_.stderr) == (0, "")
    assert f"pegboard {command} " in help_.stdout
