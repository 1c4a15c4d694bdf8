"""`scripted:FILE` says and does what a file says, and a file that is no script is refused in one line."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from pegboard.testing import PackFolder

pytestmark = pytest.mark.needs("models", "workspace")

Pegboard = Callable[..., subprocess.CompletedProcess[str]]

REPAIR = """
[[turns]]
text = "I look first."
calls = [{ tool = "read", args = { path = "calc.py" } }]

[[turns]]
calls = [{ tool = "edit", args = { path = "calc.py", edits = [{ old = "a - b", new = "a + b" }] } }]

[[turns]]
calls = [{ tool = "shell", args = { command = "python3 test_calc.py" } }]

[[turns]]
text = "The last step gave: ${results}"
"""


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A repository with a wrong function, its test, and a script that repairs it."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    (folder / "calc.py").write_text("def add(a, b):\n    return a - b\n", "utf-8")
    (folder / "test_calc.py").write_text("from calc import add\nassert add(1, 2) == 3\nprint('passed')\n", "utf-8")
    (folder / "repair.toml").write_text(REPAIR, "utf-8")
    return folder


def test_a_script_edits_a_file_and_runs_its_test_when_writes_are_allowed(pegboard: Pegboard, scratch: Path) -> None:
    ended = pegboard("run", "--allow-writes", "-m", "scripted:repair.toml", "repair it", cwd=scratch)

    assert ended.returncode == 0, ended.stderr
    assert "The last step gave: shell: exit 0\npassed" in ended.stdout
    assert "a + b" in (scratch / "calc.py").read_text("utf-8")


def test_without_the_flag_the_write_is_denied_and_the_answer_says_so(pegboard: Pegboard, scratch: Path) -> None:
    ended = pegboard("run", "-m", "scripted:repair.toml", "repair it", cwd=scratch)

    assert ended.returncode == 0
    assert "denied" in ended.stdout.split("The last step gave:")[1].splitlines()[0]
    assert "--allow-writes" in ended.stdout
    assert "2 denied" in ended.stdout.splitlines()[-1]
    assert "a - b" in (scratch / "calc.py").read_text("utf-8")


def test_a_json_script_is_the_same_thing(pegboard: Pegboard, scratch: Path) -> None:
    script = {"turns": [{"calls": [{"tool": "read", "args": {"path": "calc.py", "end": 1}}]}, {"text": "${results}"}]}
    (scratch / "look.json").write_text(json.dumps(script), "utf-8")

    ended = pegboard("run", "--json", "-m", "scripted:look.json", "look", cwd=scratch)

    assert "def add(a, b):" in json.loads(ended.stdout.splitlines()[-1])["text"]


def test_a_run_that_wants_more_turns_than_the_script_has_ends_with_an_error(pegboard: Pegboard, scratch: Path) -> None:
    (scratch / "short.toml").write_text('[[turns]]\ncalls = [{ tool = "glob", args = { pattern = "*" } }]\n', "utf-8")

    ended = pegboard("run", "-m", "scripted:short.toml", "go", cwd=scratch)

    assert ended.returncode == 1
    assert "has 1 turns and the run wants one more; end it with a turn without calls" in ended.stdout


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "can't be read: No such file"),
        ("[[turns]\n", "can't be parsed"),
        ("[[turn]]\ntext = 'x'\n", "is wrong at turns: Field required"),
        ("[[turns]]\ntxt = 'x'\n", "is wrong at turns.0.txt"),
        (b"\xff\xfe\x00", "can't be parsed: 'utf-8' codec"),
    ],
)
def test_a_file_that_is_no_script_is_refused_in_one_line(
    pegboard: Pegboard, scratch: Path, content: str | bytes | None, told: str
) -> None:
    if content is not None:
        (scratch / "bad.toml").write_bytes(content.encode() if isinstance(content, str) else content)

    ended = pegboard("run", "-m", "scripted:bad.toml", "go", cwd=scratch)

    assert ended.returncode == 2
    assert told in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""


def test_a_script_goes_on_in_another_process_where_it_paused(
    pegboard: Pegboard, scratch: Path, pack_folder: PackFolder
) -> None:
    """B20: three processes; the file is edited once, by the one that resumes."""
    pack_folder.add("jsonl", reference="pegboard.testing.jsonl:JsonlPack")
    (scratch / "ask.toml").write_text(REPAIR.split('[[turns]]\ncalls = [{ tool = "shell"')[0] + ASKS, "utf-8")

    paused = pegboard("run", "--on-ask", "pause", "-m", "scripted:ask.toml", "repair it", cwd=scratch)
    assert paused.returncode == 3, paused.stderr
    assert "a - b" in (scratch / "calc.py").read_text("utf-8")
    session = paused.stdout.split("pegboard resume ")[1].split()[0]
    assert pegboard("answer", session, "1", "y").returncode == 0
    again = pegboard("resume", session)
    assert again.returncode == 3, again.stderr
    assert "a + b" in (scratch / "calc.py").read_text("utf-8")
    assert pegboard("answer", session, "2", "2").returncode == 0
    ended = pegboard("resume", session)

    assert ended.returncode == 0, ended.stderr
    assert "It was ask_user: The user answers: no" in ended.stdout


ASKS = """
[[turns]]
calls = [{ tool = "ask_user", args = { question = "Is that all?", options = ["yes", "no"] } }]

[[turns]]
text = "It was ${results}"
"""
