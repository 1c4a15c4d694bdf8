"""The command line as a person and a program meet it: streams, exit codes, interrupts, pipes, bad input."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.needs("models", "workspace")

Pegboard = Callable[..., subprocess.CompletedProcess[str]]
HEAD = {"v", "type", "session", "run", "ts"}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with a text file and a script that sleeps in the shell, with a child in the background."""
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "a.txt").write_text("alpha\nbeta\n", "utf-8")
    calls = '[{ tool = "shell", args = { command = "echo $$ > pid; sleep 60 & sleep 60" } }]'
    (folder / "sleep.toml").write_text(f"[[turns]]\ncalls = {calls}\n[[turns]]\ntext = 'never'\n", "utf-8")
    return folder


@contextmanager
def sleeping(work: Path, home: Any) -> Iterator[subprocess.Popen[str]]:
    """A run in the middle of a shell command."""
    command = [sys.executable, "-m", "pegboard", "run", "--allow-writes", "-m", "scripted:sleep.toml", "go"]
    started = subprocess.Popen(
        command, cwd=work, env={**os.environ, **home.environ}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        for _ in range(200):
            if (work / "pid").is_file() and (work / "pid").read_text():
                break
            time.sleep(0.05)
        yield started
    finally:
        started.kill()
        started.communicate()


def group_is_gone(work: Path) -> bool:
    """Whether nothing of the shell's process group lives, after at most a second."""
    group = (work / "pid").read_text().strip()
    for _ in range(20):
        listed = subprocess.run(["ps", "-A", "-o", "pgid=,stat="], capture_output=True, text=True, check=True).stdout
        if not any(row[0] == group and row[1][0] != "Z" for row in map(str.split, listed.splitlines())):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_ctrl_c_cancels_the_run_ends_its_processes_and_exits_130(work: Path, home: Any) -> None:
    with sleeping(work, home) as run:
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=15)

    assert run.returncode == 130
    assert out.splitlines()[-1].startswith("aborted · interrupted · 1 step · 1 call")
    assert err == ""
    assert group_is_gone(work)


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_a_second_ctrl_c_ends_at_once_and_leaves_no_process(work: Path, home: Any) -> None:
    script = (work / "sleep.toml").read_text("utf-8").replace("sleep 60 & sleep 60", "trap '' TERM INT; sleep 60")
    (work / "sleep.toml").write_text(script, "utf-8")
    with sleeping(work, home) as run:
        run.send_signal(signal.SIGINT)
        time.sleep(0.2)
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=15)

    assert run.returncode == 130
    assert "Traceback" not in err
    assert group_is_gone(work)


def test_a_closed_pipe_is_no_traceback(pegboard: Pegboard, work: Path, home: Any) -> None:
    command = [sys.executable, "-m", "pegboard", "run", "--json", "Where is alpha?"]
    run = subprocess.Popen(
        command, cwd=work, env={**os.environ, **home.environ}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert run.stdout and run.stderr
    run.stdout.close()

    assert run.wait(timeout=20) == 1
    assert run.stderr.read() == b""
    run.stderr.close()


def test_json_events_have_the_documented_shape_and_end_with_the_end(pegboard: Pegboard, work: Path) -> None:
    events = [json.loads(line) for line in pegboard("run", "--json", "Where is alpha?", cwd=work).stdout.splitlines()]

    assert all(event.keys() >= HEAD and event["v"] == 1 for event in events)
    assert events[0]["type"] == "run_start"
    assert {"run_start", "step_start", "text", "tool_call", "tool_result", "step_end", "run_end"} == {
        event["type"] for event in events
    }
    assert events[-1]["type"] == "run_end"
    assert events[-1].keys() >= {"reason", "text", "usage"}
    assert events[-1]["reason"] == "completed"


def test_a_run_in_a_pipe_has_neither_colour_nor_movement(pegboard: Pegboard, work: Path) -> None:
    printed = pegboard("run", "Where is alpha?", cwd=work).stdout

    assert "\x1b" not in printed
    assert "\r" not in printed
    assert printed.splitlines()[-1].startswith("completed · 3 steps")


def test_the_task_may_come_from_a_pipe(pegboard: Pegboard, work: Path) -> None:
    by_dash = pegboard("run", "--json", "-", cwd=work, stdin="Where is alpha?\n")
    by_nothing = pegboard("run", "--json", cwd=work, stdin="Where is alpha?\n")

    assert json.loads(by_dash.stdout.splitlines()[0])["input"] == "Where is alpha?"
    assert json.loads(by_nothing.stdout.splitlines()[0])["input"] == "Where is alpha?"


@pytest.mark.parametrize(
    ("arguments", "stdin", "told"),
    [
        (["run", ""], "", "the task is empty"),
        (["run", "   "], "", "the task is empty"),
        (["run"], "", "the task is empty"),
        (["run", "-"], b"\xff\xfea", "the task is not UTF-8 (byte 0)"),
        (["run", "-"], "x" * 1_000_001, "the task is larger than 1,000,000 bytes"),
        (["run", "-m", "gpt9", "x"], "", "no active pack provides the model route `gpt9`"),
        (["run", "-m", "ofline", "x"], "", "did you mean `offline`?"),
        (["run", "-m", "offline:x", "x"], "", "`offline` takes nothing after it"),
        (["run", "-m", "scripted", "x"], "", "`scripted` needs a file"),
        (["run", "--agent", "mian", "x"], "", "no agent `mian` is defined; did you mean `main`?"),
        (["run", "--frob", "x"], "", "No such option '--frob'"),
        (["rnu", "x"], "", "there is no command `rnu`; did you mean `run`?"),
        (["call", "grap"], "", "there is no tool `grap`; did you mean `grep`?"),
        (["call", "read", "path"], "", "`path` is neither a JSON object nor key=value"),
        (["--disable", "wrkspace", "tools"], "", "did you mean `workspace`?"),
    ],
)
def test_bad_use_is_one_clear_line_and_exit_2(
    pegboard: Pegboard, arguments: list[str], stdin: str | bytes, told: str
) -> None:
    ended = pegboard(*arguments, stdin=stdin)

    assert ended.returncode == 2
    assert told in ended.stderr
    assert ended.stderr.startswith("pegboard: ")
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""


def test_a_missing_working_directory_is_one_clear_line(pegboard: Pegboard, tmp_path: Path, home: Any) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = "import os; os.rmdir(os.getcwd()); from pegboard.cli.group import _run; raise SystemExit(_run(['run', 'x']))"
    env = {**os.environ, **home.environ}
    ended = subprocess.run([sys.executable, "-c", code], cwd=gone, env=env, capture_output=True, text=True)

    assert ended.returncode == 2
    assert ended.stderr == "pegboard: the current directory no longer exists; go to one that does\n"


def test_call_prints_the_result_and_its_exit_code_tells_success(pegboard: Pegboard, work: Path) -> None:
    good = pegboard("call", "read", "path=a.txt", "end=1", cwd=work)
    failed = pegboard("call", "read", "path=b.txt", cwd=work)
    denied = pegboard("call", "write", "path=b.txt", "content=x", cwd=work)
    allowed = pegboard("call", "write", "--allow-writes", '{"path": "b.txt", "content": "x"}', cwd=work)

    assert (good.returncode, good.stdout) == (0, "a.txt, lines 1-1 of 2\n     1\talpha\n(read on with start=2)\n")
    assert (failed.returncode, failed.stdout, failed.stderr) == (1, "", "Error: `b.txt` does not exist\n")
    assert (denied.returncode, denied.stdout) == (1, "")
    assert "--allow-writes" in denied.stderr
    assert allowed.returncode == 0
    assert (work / "b.txt").read_text() == "x"


def test_call_with_json_prints_one_run_without_a_model(pegboard: Pegboard, work: Path) -> None:
    events = [
        json.loads(line) for line in pegboard("call", "--json", "read", "path=a.txt", cwd=work).stdout.splitlines()
    ]

    assert [event["type"] for event in events] == ["run_start", "tool_call", "tool_result", "run_end"]
    assert events[0]["model"] == ""
    assert events[2]["status"] == "ok"


def test_text_that_looks_like_a_number_stays_text_where_the_schema_wants_text(pegboard: Pegboard, work: Path) -> None:
    ended = pegboard("call", "--allow-writes", "write", "path=n.txt", "content=42", cwd=work)

    assert ended.returncode == 0, ended.stderr
    assert (work / "n.txt").read_text() == "42"


def test_tools_lists_what_a_model_would_be_offered(pegboard: Pegboard) -> None:
    listed = json.loads(pegboard("tools", "--json").stdout)

    assert {tool["name"] for tool in listed} >= {"read", "glob", "grep", "write", "edit", "shell"}
    shape = {"name", "source", "pack", "exposure", "effect", "concurrency", "description", "parameters", "hash"}
    assert all(tool.keys() >= shape for tool in listed)
    assert [tool["name"] for tool in listed] == sorted(tool["name"] for tool in listed)


def test_escape_sequences_from_a_file_are_shown_not_obeyed(pegboard: Pegboard, work: Path) -> None:
    (work / "evil.txt").write_text("alpha \x1b[2J\x1b]8;;http://x\x07 \u202e\n", "utf-8")

    ended = pegboard("call", "read", "path=evil.txt", cwd=work)

    assert "\x1b" not in ended.stdout
    assert "\\x1b[2J" in ended.stdout
    assert "\\u202e" in ended.stdout


def test_switched_off_everywhere_the_workspace_is_not_imported_and_who_decided_is_told(
    pegboard: Pegboard, home: Any
) -> None:
    def decided(*arguments: str, **environ: str) -> str:
        code = (
            "import sys; from pegboard.cli.group import _run; _run(sys.argv[1:]); "
            "sys.exit(int('pegboard_workspace' in sys.modules))"
        )
        env = {**os.environ, **home.environ, **environ}
        tools = subprocess.run(
            [sys.executable, "-c", code, *arguments, "tools"], env=env, capture_output=True, text=True
        )
        assert tools.returncode == 0, "it was imported"
        assert "grep" not in tools.stdout
        packs = json.loads(pegboard(*arguments, "packs", "list", "--json", env=environ).stdout)
        row = next(pack for pack in packs if pack["name"] == "workspace")
        assert row["state"] == "disabled"
        return str(row["decided_by"])

    assert decided("--disable", "workspace") == "--disable"
    variable = "PEGBOARD_PACKS_WORKSPACE_ENABLED"
    assert decided(**{variable: "false"}) == variable
    file = home.config("[packs.workspace]\nenabled = false\n")
    assert decided() == f"{file}:2"
    assert f"decided by {file}:2" in pegboard("packs", "list", "--effective").stdout
