"""`shell`: what a command sees, what comes of its output, and that nothing of it is left running."""

import asyncio
import json
import os
import re
import shutil
import signal
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pegboard import Host, Session, ToolCall, ToolResult
from pegboard_workspace import shell as shell_module

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="these commands are for bash"),
    pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed"),
]

Call = Callable[..., ToolResult]


@pytest.fixture
def run(call: Call) -> Call:
    """Run a command with a yes to writes."""
    return lambda command, **options: call("shell", allow_writes=True, command=command, **options)


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ignores TERM gets a tenth of a second."""
    monkeypatch.setattr(shell_module, "GRACE_SECONDS", 0.1)


@pytest.fixture
def alive(project: Path) -> Iterator[Callable[[str], bool]]:
    """Whether the process whose id a command wrote to a file still runs; ends it after the test."""
    asked: set[int] = set()

    def alive_(name: str) -> bool:
        number = int((project / name).read_text())
        asked.add(number)
        for _ in range(100):  # a killed process needs a moment to be gone
            if not _runs(number):
                return False
            time.sleep(0.01)
        return True

    yield alive_
    for number in asked:
        if _runs(number):
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


def _runs(number: int) -> bool:
    """Whether a process is there and no zombie that waits for its parent."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{number}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


# -- what comes back


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_the_exit_code_comes_first(run: Call, code: int) -> None:
    result = run(f"echo hello; exit {code}")

    assert (result.status, result.content) == ("ok", f"exit {code}\nhello")
    assert result.summary == f"exit {code}, 1 line"


def test_a_command_that_was_killed_is_not_taken_for_a_success(run: Call) -> None:
    assert not run("kill -9 $$").content.startswith("exit 0")


def test_output_and_errors_come_together_in_order(run: Call) -> None:
    result = run("echo one; echo two >&2; echo three")

    assert result.content == "exit 0\none\ntwo\nthree"


def test_a_command_runs_in_the_session_directory_with_bash(run: Call, project: Path) -> None:
    result = run('pwd -P; [[ -n "$BASH_VERSION" ]] && echo bash')

    assert result.content == f"exit 0\n{project.resolve()}\nbash"


def test_standard_input_is_closed(run: Call) -> None:
    assert run("cat; read answer; echo $?").content == "exit 0\n1"


def test_a_syntax_error_is_the_commands_own_failure(run: Call) -> None:
    result = run("if")

    assert result.status == "ok"
    assert re.match(r"exit [12]\n", result.content)
    assert "syntax error" in result.content


@pytest.mark.parametrize("output", ["Größe 中 𝄞", "x" + "é" * 8000, "é" * 14_999], ids=["short", "odd", "long"])
def test_output_that_is_shown_whole_is_shown_unchanged(run: Call, project: Path, output: str) -> None:
    (project / "a.txt").write_text(output, "utf-8")

    assert run("cat a.txt").content == f"exit 0\n{output}"


def test_output_that_is_no_utf_8_is_shown_with_replacements(run: Call) -> None:
    result = run(r"printf 'a\xffb\0c'")

    assert result.content == "exit 0\na\ufffdb\0c"


def test_of_long_output_head_and_tail_are_kept_and_the_middle_is_counted(run: Call) -> None:
    result = run("for i in $(seq 1 20000); do echo line $i; done")

    whole = "".join(f"line {number}\n" for number in range(1, 20_001))
    shown = result.content.removeprefix("exit 0\n")
    head, said, tail = re.split(r"\n\[cut: ([\d,]+) of [^\]]+ kept as output [0-9a-f]{12}\]\n", shown)
    assert whole.startswith(head)
    assert (whole.rstrip("\n")).endswith(tail)
    # the last line end is not shown
    assert len(head) + len(tail) + 1 + int(said.replace(",", "")) == len(whole)


def test_fifty_megabytes_of_output_take_no_memory(run: Call) -> None:
    """Case 48: cut at the cap, memory bounded."""
    run("true")
    tracemalloc.start()
    try:
        result = run("yes | head -c 50000000")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert "of 1,000,0" in result.content
    assert len(result.content) <= 40_000
    assert peak < 15_000_000


# -- what a command sees


def test_secrets_of_the_host_are_not_visible(run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 45: only the allow-listed variables are there."""
    names = ["OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "DATABASE_URL", "HTTPS_PROXY", "BASH_ENV"]
    names += ["SSH_AUTH_SOCK", "PEGBOARD_X", "LD_PRELOAD_X", "PATH_TO_SECRET", "MY_HOME"]
    for name in names:
        monkeypatch.setenv(name, "hunter2")

    result = run("env; cat /proc/$$/environ 2>/dev/null | tr '\\0' '\\n'; declare -p")

    assert "hunter2" not in result.content
    assert not [name for name in names if re.search(rf"\b{name}=", result.content)]


def test_what_programs_need_is_visible(run: Call, home: Any) -> None:
    result = run('echo "$HOME"; echo "$PEGBOARD_INSIDE"; command -v ls')

    assert result.content.startswith(f"exit 0\n{home.path}\n1\n/")


def test_pass_env_lets_named_variables_through_and_no_others(
    run: Call, home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.config('[packs.workspace]\npass_env = ["DEPLOY_TOKEN", "NOT_SET"]\n')
    monkeypatch.setenv("DEPLOY_TOKEN", "passed")
    monkeypatch.setenv("DEPLOY_TOKEN_2", "hidden")

    result = run("env")

    assert "DEPLOY_TOKEN=passed" in result.content
    assert "hidden" not in result.content
    assert "NOT_SET" not in result.content


def test_start_up_files_of_the_user_are_not_run(run: Call, home: Any, project: Path) -> None:
    for name in (".bashrc", ".bash_profile", ".profile"):
        (home.path / name).write_text("echo started up\n")

    assert run("echo hello").content == "exit 0\nhello"


# -- what may not begin


def test_without_a_yes_to_writes_no_command_runs(call: Call, project: Path) -> None:
    result = call("shell", command="touch made")

    assert result.status == "denied"
    assert "--allow-writes" in result.content
    assert not (project / "made").exists()


def test_without_bash_there_is_a_clear_error(run: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert run("echo hello").content.startswith("Error: `bash` is not installed")


@pytest.mark.parametrize("where", ["inside", "relative"])
def test_a_bash_inside_the_session_directory_is_not_taken(
    run: Call, project: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Case 54, for the program that runs every command."""
    (project / "bin").mkdir()
    (project / "bin/bash").write_text("#!/bin/sh\necho planted\n")
    (project / "bin/bash").chmod(0o755)
    monkeypatch.chdir(project)
    first = str(project / "bin") if where == "inside" else "bin"
    monkeypatch.setenv("PATH", os.pathsep.join([first, os.environ["PATH"]]))

    result = run("echo hello")

    assert "planted" not in result.content


@pytest.mark.parametrize("command", ["", "  ", "\n", "echo a\0b"])
def test_what_is_no_command_is_refused(run: Call, command: str) -> None:
    result = run(command)

    assert result.content == "Error: the command is empty or has a NUL in it"


@pytest.mark.parametrize("timeout", [0, -1, 3601, 1e300, "10", True])
def test_a_timeout_out_of_range_is_refused(run: Call, project: Path, timeout: object) -> None:
    result = run("touch made", timeout=timeout)

    assert result.status == "error"
    assert "timeout" in result.content
    assert not (project / "made").exists()


def test_a_command_too_long_for_the_system_is_one_clear_error(run: Call) -> None:
    result = run("true " + "x" * 5_000_000)

    assert result.status == "error"
    assert "could not be started" in result.content
    assert len(result.content) < 300


def test_a_directory_that_is_gone_is_one_clear_error(run: Call, tmp_path: Path, workspace_host: Any) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()

    async def go() -> ToolResult:
        host = workspace_host()
        agent = await host.create_agent(session=Session.new(gone))
        gone.rmdir()
        run_, results = host.submit_call(agent, ToolCall("1", "shell", '{"command": "true"}'), allow_writes=True)
        await run_.wait()
        return results[0]

    result = asyncio.run(go())

    assert result.status == "error"
    assert "could not be started" in result.content


# -- nothing is left running


def test_what_a_command_leaves_running_ends_with_it(run: Call, project: Path, alive: Callable[[str], bool]) -> None:
    """Case 46: the group is ended; a child that keeps the output open does not delay the result."""
    result = run("(sleep 2; touch late) & echo $! > pid; echo started")

    assert result.content == "exit 0\nstarted"
    assert not (project / "late").exists()
    assert not alive("pid")


def test_what_a_command_leaves_running_silently_ends_with_it(run: Call, alive: Callable[[str], bool]) -> None:
    result = run("(trap '' TERM HUP; sleep 30) >/dev/null 2>&1 & echo $! > pid; echo started")

    assert result.content == "exit 0\nstarted"
    assert not alive("pid")


@pytest.mark.skipif(shutil.which("setsid") is None, reason="setsid is not installed")
def test_a_child_that_left_the_group_does_not_delay_the_result(run: Call, project: Path) -> None:
    """A daemon may live on (only a sandbox could end it), but nobody waits for it."""
    result = run(
        "setsid bash -c 'echo $$ > pid; sleep 2; touch late' & while [ ! -s pid ]; do sleep 0.01; done; echo hi"
    )

    late = (project / "late").exists()
    with suppress(ProcessLookupError):
        os.killpg(int((project / "pid").read_text()), signal.SIGKILL)
    assert result.content == "exit 0\nhi"
    assert not late


def test_after_its_timeout_a_command_ends_with_its_children(
    run: Call, alive: Callable[[str], bool], short_grace: None
) -> None:
    result = run("echo before; sleep 30 & echo $! > child; echo $$ > parent; wait", timeout=0.3)

    assert result.status == "error"
    assert "ended after 0.3 s" in result.content
    assert "before" in result.content
    assert not alive("parent")
    assert not alive("child")


def test_what_ignores_term_is_killed(run: Call, alive: Callable[[str], bool], short_grace: None) -> None:
    """Case 47: KILL after the grace time, no zombie."""
    command = (
        "trap '' TERM; (trap '' TERM; echo $BASHPID > child; sleep 30; sleep 30) & echo $$ > parent; wait; sleep 30"
    )
    result = run(command, timeout=0.3)

    assert "ended after 0.3 s" in result.content
    assert not alive("parent")
    assert not alive("child")


def test_the_settings_decide_the_timeout_when_a_call_does_not(run: Call, home: Any, short_grace: None) -> None:
    home.config("[packs.workspace]\nshell_timeout = 0.2\n")

    assert "ended after 0.2 s" in run("sleep 30").content


def test_cancelling_the_run_ends_the_command_and_its_children(
    project: Path, alive: Callable[[str], bool], workspace_host: Callable[[], Host], short_grace: None
) -> None:
    """Rule 9: the signal reaches processes; success after it is an abort."""

    async def go() -> tuple[ToolResult, str]:
        host = workspace_host()
        agent = await host.create_agent(session=Session.new(project))
        command = "trap 'exit 0' TERM; sleep 30 & echo $! > child; echo $$ > parent; touch ready; wait"
        call = ToolCall("1", "shell", json.dumps({"command": command}))
        run, results = host.submit_call(agent, call, allow_writes=True)
        while not (project / "ready").exists():  # noqa: ASYNC110  (another process makes it)
            await asyncio.sleep(0.01)
        run.cancel("a person pressed Ctrl-C")
        end = await run.wait()
        return results[0], end.reason

    result, _ = asyncio.run(go())

    assert (result.status, result.code) == ("aborted", "ABORTED")
    assert not alive("parent")
    assert not alive("child")
