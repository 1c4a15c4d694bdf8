"""What a pack starts: argv as given, what it may see, what is found for it, and that nothing of it is left."""

import asyncio
import os
import signal
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pegboard import Collected, PegboardError, Process, ProcessRefused, ProcessSpec, collect
from pegboard.process.pipes import Pipes, find_program
from pegboard.process.processes import Processes

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="it looks at /proc")

Prepare = Callable[[ProcessSpec], Awaitable[ProcessSpec]]
FOR_EVER = "while :; do sleep 0.05; done"


async def allow(spec: ProcessSpec) -> ProcessSpec:
    """Change nothing, refuse nothing."""
    return spec


def script(folder: Path, text: str, **options: Any) -> ProcessSpec:
    """Return what runs a shell script."""
    return ProcessSpec(("sh", "-c", text), folder, **options)


def lived(use: Callable[[Processes], Coroutine[Any, Any, None]], prepare: Prepare = allow) -> None:
    """Run `use(processes)`; whatever it leaves is ended."""

    async def main() -> None:
        processes = Processes(prepare)
        try:
            await use(processes)
        finally:
            await processes.end_all()

    asyncio.run(main())


async def said(process: Process) -> str:
    """Wait for a process, end it, and return what it said."""
    async with process:
        await process.wait()
    assert process.stdout
    return (await process.stdout.read()).decode()


async def line(process: Process) -> str:
    """Return the next line that a process says."""
    assert process.stdout
    return (await process.stdout.readline()).decode().rstrip("\n")


def stats() -> Iterator[tuple[int, str, int, int]]:
    """Yield number, state, parent and group of every process that is there."""
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdecimal():
                state, parent, group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
                yield int(folder.name), state, int(parent), int(group)


def children() -> set[int]:
    """Return our own children, zombies too."""
    return {number for number, _, parent, _ in stats() if parent == os.getpid()}


async def until_gone(group: int) -> None:
    """Wait until nothing runs in a group; a member that was killed needs a moment to go."""
    for _ in range(500):
        if not any(found == group and state not in "ZX" for _, state, _, found in stats()):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"something is left in group {group}")


def descriptors() -> int:
    """Count what we hold open."""
    return len(os.listdir("/proc/self/fd"))


def program(folder: Path, name: str, says: str = "planted") -> Path:
    """Make a program that says something, and by which name it was called."""
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / name
    made.write_text(f'#!/bin/sh\necho "{says} ${{0##*/}}"\n')
    made.chmod(0o755)
    return made


# -- what is started


def test_arguments_arrive_as_they_are_and_no_shell_reads_them(tmp_path: Path) -> None:
    """Case 55: a pack that puts `--` before an operand can rely on it."""
    operands = ("--", "-o/tmp/x", "$(id) ; `id` *", "")
    shown = (sys.executable, "-c", "import sys; print(sys.argv[1:])", *operands)

    async def use(processes: Processes) -> None:
        assert await said(await processes.spawn(ProcessSpec(shown, tmp_path))) == f"{list(operands)}\n"

    lived(use)


def test_a_process_runs_in_its_folder_and_leads_a_group_and_session_of_its_own(tmp_path: Path) -> None:
    code = "import os; print(os.getcwd(), os.getpid() == os.getpgid(0) == os.getsid(0))"
    folder = tmp_path.resolve()

    async def use(processes: Processes) -> None:
        process = await processes.spawn(ProcessSpec((sys.executable, "-c", code), tmp_path))
        assert await said(process) == f"{folder} True\n"

    lived(use)


@pytest.mark.parametrize(
    ("options", "stdout", "stderr"),
    [
        ({"stderr": "pipe"}, b"out\n", b"err\n"),
        ({"stderr": "stdout"}, b"out\nerr\n", None),
        ({"stdout": "null", "stderr": "pipe"}, None, b"err\n"),
        ({}, b"out\n", None),
    ],
)
def test_streams_are_there_as_asked_for(
    tmp_path: Path, options: dict[str, Any], stdout: bytes | None, stderr: bytes | None
) -> None:
    async def use(processes: Processes) -> None:
        async with await processes.spawn(script(tmp_path, "echo out; echo err >&2", **options)) as process:
            assert await process.wait() == 0
        assert process.stdin is None
        assert (await process.stdout.read() if process.stdout else None) == stdout
        assert (await process.stderr.read() if process.stderr else None) == stderr

    lived(use)


def test_input_is_closed_unless_a_pipe_is_asked_for(tmp_path: Path) -> None:
    async def use(processes: Processes) -> None:
        assert await said(await processes.spawn(ProcessSpec(("cat",), tmp_path))) == ""
        talking = await processes.spawn(ProcessSpec(("cat",), tmp_path, stdin="pipe"))
        assert talking.stdin
        talking.stdin.write(b"hello\n")
        await talking.stdin.drain()
        assert await line(talking) == "hello"
        talking.stdin.close()
        assert await talking.wait() == 0

    lived(use)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"argv": ()}, "`argv` must be a tuple with the program first"),
        ({"argv": "rm -rf x"}, "a shell line is none"),
        ({"argv": ["sh"]}, "`argv` must be a tuple"),
        ({"argv": ("sh", "a\0b")}, "`argv[1]` must be a text without NUL"),
        ({"argv": ("sh", 3)}, "`argv[1]` must be a text"),
        ({"argv": ("",)}, "`argv[0]` must be an absolute path or a name"),
        ({"argv": ("./run",)}, "`argv[0]` must be an absolute path or a name to look up on PATH, not './run'"),
        ({"cwd": Path("here")}, "`cwd` must be an absolute Path"),
        ({"cwd": "/"}, "`cwd` must be an absolute Path, not '/'"),
        ({"cwd": Path("/a\0b")}, "`cwd` must be an absolute Path"),
        ({"env": ["A"]}, "`env` must be a mapping"),
        ({"env": {"A=B": "c"}}, "'A=B' is no name of a variable"),
        ({"env": {"": "c"}}, "'' is no name of a variable"),
        ({"env": {"A": 1}}, "the value of the variable A must be a text"),
        ({"pass_env": "HOME"}, "`pass_env` a tuple of names"),
        ({"pass_env": ("A\0",)}, "is no name of a variable"),
        ({"stdin": "stdout"}, "`stdin` must be one of null, pipe, not 'stdout'"),
        ({"stdout": "file"}, "`stdout` must be one of pipe, null"),
        ({"stderr": None}, "`stderr` must be one of pipe, null, stdout, not None"),
        ({"grace": -1}, "`grace` must be 0 to 600 seconds, not -1"),
        ({"grace": float("nan")}, "`grace` must be 0 to 600 seconds, not nan"),
    ],
)
def test_a_wrong_specification_is_refused_naming_the_part(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    async def never(_spec: ProcessSpec) -> ProcessSpec:
        raise AssertionError("nobody is asked about it")

    async def use(processes: Processes) -> None:
        with pytest.raises(PegboardError) as refused:
            await processes.spawn(replace(ProcessSpec(("true",), tmp_path), **change))
        assert told in str(refused.value)
        assert len(str(refused.value).splitlines()) == 1

    lived(use, never)


def test_an_error_never_shows_the_value_of_a_variable(tmp_path: Path) -> None:
    async def use(processes: Processes) -> None:
        with pytest.raises(PegboardError) as refused:
            await processes.spawn(script(tmp_path, "true", env={"TOKEN": "s3cret\0"}))
        assert "TOKEN" in str(refused.value)
        assert "s3cret" not in str(refused.value)

    lived(use)


# -- what it sees


def seen_by(folder: Path, **options: Any) -> dict[str, str]:
    """Return the environment of a process."""
    seen: dict[str, str] = {}

    async def use(processes: Processes) -> None:
        text = await said(await processes.spawn(ProcessSpec(("env",), folder, **options)))
        seen.update((name, value) for name, _, value in (part.partition("=") for part in text.splitlines()))

    lived(use)
    return seen


def test_a_process_sees_nothing_of_ours_that_may_be_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 45."""
    for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "PEGBOARD_PACKS_MODELS_KEY", "LD_PRELOADED", "MY_PATH"):
        monkeypatch.setenv(name, "hidden")
    monkeypatch.setenv("LC_TIME", "C")

    seen = seen_by(tmp_path)

    assert "hidden" not in seen.values()
    assert {"PATH": os.environ["PATH"], "LC_TIME": "C", "PEGBOARD_INSIDE": "1"}.items() <= seen.items()


def test_variables_are_let_through_by_name_and_added_by_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "ours")
    monkeypatch.setenv("TOKEN_TOO", "hidden")

    seen = seen_by(tmp_path, pass_env=("TOKEN", "ABSENT"), env={"LANG": "xx", "EMPTY": "", "PEGBOARD_INSIDE": "0"})

    assert {"TOKEN": "ours", "LANG": "xx", "EMPTY": "", "PEGBOARD_INSIDE": "1"}.items() <= seen.items()
    assert not {"TOKEN_TOO", "ABSENT"} & seen.keys()


def test_a_process_inherits_no_descriptor_of_ours(tmp_path: Path) -> None:
    async def use(processes: Processes) -> None:
        async with await processes.spawn(ProcessSpec(("cat",), tmp_path, stdin="pipe", stderr="pipe")) as other:
            held = await said(await processes.spawn(ProcessSpec(("ls", "/proc/self/fd"), tmp_path)))
            assert other.returncode is None
        assert held.split() == ["0", "1", "2", "3"]  # the last is the folder that `ls` reads

    lived(use)


# -- which program is found


@pytest.mark.parametrize("way", ["its folder", "a folder below", "a relative entry", "an empty entry", "a link to it"])
def test_a_program_that_the_project_brings_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Case 54: a `bwrap` in the workspace, first on PATH."""
    project = tmp_path / "project"
    planted = program(project, "bwrap")
    below = program(project / "bin", "bwrap").parent
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "bwrap").symlink_to(planted)
    ways = {"its folder": project, "a folder below": below, "a relative entry": "bin", "an empty entry": ""}
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", str(ways.get(way, tmp_path / "outside")))

    async def use(processes: Processes) -> None:
        with pytest.raises(PegboardError, match="`bwrap` is not installed"):
            await processes.spawn(ProcessSpec(("bwrap",), project))

    lived(use)


@pytest.mark.parametrize(("root", "entry"), [("link", "project"), ("project", "link"), ("project", "link/out")])
def test_a_link_does_not_hide_where_the_project_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str, entry: str
) -> None:
    """Case 54: nor does a folder of the project that leads out again, where it pleases."""
    program(tmp_path / "project", "bwrap")
    program(tmp_path / "elsewhere", "bwrap")
    (tmp_path / "link").symlink_to(tmp_path / "project")
    (tmp_path / "project" / "out").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("PATH", str(tmp_path / entry))

    assert find_program("bwrap", tmp_path / root) is None


def test_a_planted_program_hides_no_installed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = program(tmp_path / "project", "sayer")
    installed = program(tmp_path / "bin", "sayer", says="installed")
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, (planted.parent, installed.parent, os.defpath))))

    async def use(processes: Processes) -> None:
        assert await said(await processes.spawn(ProcessSpec(("sayer",), planted.parent))) == "installed sayer\n"
        assert await said(await processes.spawn(ProcessSpec((str(planted),), planted.parent))) == "planted sayer\n"

    lived(use)


def test_what_is_no_program_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one" / "sayer").mkdir(parents=True)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "sayer").write_text("not executable")
    found = program(tmp_path / "three", "sayer")
    folders = [tmp_path / name for name in ("one", "two", "none", "three")]
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))

    assert find_program("sayer", tmp_path / "project") == str(found)


def test_a_program_is_called_by_the_name_it_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as busybox, rustup, and the Python of a virtual environment look at that name."""
    target = program(tmp_path / "lib", "multi", says="called")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sayer").symlink_to(target)
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]]))

    async def use(processes: Processes) -> None:
        assert await said(await processes.spawn(ProcessSpec(("sayer",), tmp_path / "project"))) == "called sayer\n"

    lived(use)


def test_programs_are_found_from_the_root_of_the_file_system() -> None:
    """Everything is below it; that makes it nobody's own tree."""
    assert find_program("sh", Path("/"))


@pytest.mark.parametrize(("path", "name"), [(".", "sayer"), ("", "sayer"), ("sub", "sayer"), ("{}", "sub/sayer")])
def test_nothing_relative_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, name: str) -> None:
    """Neither a program by its relative path, nor one in a relative entry of PATH, wherever we happen to be."""
    program(tmp_path, "sayer")
    program(tmp_path / "sub", "sayer")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", path.format(tmp_path))

    assert find_program(name, tmp_path / "project") is None


# -- what the system refuses


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"argv": ("no-such-program-here",)}, "`no-such-program-here` is not installed"),
        ({"argv": ("/nowhere/prog",)}, "`/nowhere/prog` could not be started: /nowhere/prog: No such file"),
        ({"argv": (os.__file__,)}, f"could not be started: {os.__file__}: Permission denied"),
        ({"cwd": Path("/nowhere")}, "true` could not be started: /nowhere: No such file"),
        ({"argv": ("true", "x" * 10_000_000)}, "Argument list too long"),
        ({"argv": ("true", "\ud800")}, "true` could not be started"),
    ],
)
def test_what_the_system_can_not_start_is_one_clear_error(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    async def use(processes: Processes) -> None:
        before = descriptors(), children()
        with pytest.raises(PegboardError) as failed:
            await processes.spawn(replace(ProcessSpec(("true",), tmp_path, stdin="pipe", stderr="pipe"), **change))
        await asyncio.sleep(0)
        assert told in str(failed.value)
        assert len(str(failed.value).splitlines()) == 1
        assert (descriptors(), children()) == before

    lived(use)


def test_without_descriptors_there_is_one_clear_error(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def use(processes: Processes) -> None:
        before = descriptors()
        highest = max(int(number) for number in os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, usual[1]))
        fillers = []
        try:
            with suppress(OSError):
                while True:
                    fillers.append(os.dup(0))
            with pytest.raises(PegboardError, match="`/bin/sh` could not be started: Too many open files"):
                await processes.spawn(ProcessSpec(("/bin/sh",), tmp_path, stdin="pipe"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, usual)
            for filler in fillers:
                os.close(filler)
        assert descriptors() == before

    lived(use)


# -- packs are asked first


def test_a_refusal_starts_nothing_and_gives_its_reason(tmp_path: Path) -> None:
    """Cases 23 and 52: an untrusted workspace, a sandbox that is required and absent."""

    async def refuse(_spec: ProcessSpec) -> ProcessSpec:
        raise ProcessRefused("no bwrap here")

    async def use(processes: Processes) -> None:
        before = children()
        with pytest.raises(ProcessRefused, match="no bwrap here"):
            await processes.spawn(script(tmp_path, "touch started"))
        assert len(processes) == 0
        assert children() == before

    lived(use, refuse)
    assert not (tmp_path / "started").exists()


def test_a_prepare_that_breaks_starts_nothing(tmp_path: Path) -> None:
    async def broken(_spec: ProcessSpec) -> ProcessSpec:
        raise RuntimeError("broken")

    async def use(processes: Processes) -> None:
        before = children()
        with pytest.raises(RuntimeError):
            await processes.spawn(script(tmp_path, "touch started"))
        assert children() == before

    lived(use, broken)
    assert not (tmp_path / "started").exists()


def test_what_prepare_returns_is_what_runs_and_it_is_asked_every_time(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    asked: list[str] = []

    async def sandbox(spec: ProcessSpec) -> ProcessSpec:
        asked.append(spec.argv[-1])
        return replace(spec, argv=("env", "BOXED=yes", *spec.argv), cwd=inside)

    async def use(processes: Processes) -> None:
        for text in ("echo 1 $BOXED; pwd", "echo 2 $BOXED; pwd"):
            told = await said(await processes.spawn(script(tmp_path, text)))
            assert told == f"{text[5]} yes\n{inside.resolve()}\n"
        assert asked == ["echo 1 $BOXED; pwd", "echo 2 $BOXED; pwd"]

    lived(use, sandbox)


def test_prepare_sees_the_program_that_was_found_and_may_put_another_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 54: a sandbox would look the bare name up anew, and might find what the project brings."""
    planted = program(tmp_path / "project", "sayer")
    installed = program(tmp_path / "bin", "sayer", says="installed")
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, (planted.parent, installed.parent, os.environ["PATH"]))))

    async def sandbox(spec: ProcessSpec) -> ProcessSpec:
        assert spec.argv == (str(installed), "x")
        return replace(spec, argv=("env", *spec.argv))

    async def use(processes: Processes) -> None:
        assert await said(await processes.spawn(ProcessSpec(("sayer", "x"), planted.parent))) == "installed sayer\n"

    lived(use, sandbox)


def test_what_prepare_returns_is_checked_too(tmp_path: Path) -> None:
    async def empty(spec: ProcessSpec) -> ProcessSpec:
        return replace(spec, argv=())

    async def use(processes: Processes) -> None:
        with pytest.raises(PegboardError, match="`argv` must be a tuple"):
            await processes.spawn(script(tmp_path, "true"))

    lived(use, empty)


def test_prepare_can_not_move_a_process_to_another_owner(tmp_path: Path) -> None:
    async def steal(spec: ProcessSpec) -> ProcessSpec:
        return replace(spec, owner="thief", session="other")

    async def use(processes: Processes) -> None:
        process = await processes.spawn(script(tmp_path, FOR_EVER, owner="mine", session="s1"))
        assert (process.spec.owner, process.spec.session) == ("mine", "s1")
        await processes.end_owned("mine")
        assert process.returncode is not None

    lived(use, steal)


# -- its end


def test_wait_tells_the_leaders_own_end_though_a_grandchild_holds_the_pipes(tmp_path: Path) -> None:
    async def use(processes: Processes) -> None:
        process = await processes.spawn(script(tmp_path, "sleep 600 & echo $!; exit 3", stdin="pipe", stderr="pipe"))
        assert await process.wait() == process.returncode == 3
        grandchild = int(await line(process))
        assert grandchild in {number for number, *_ in stats()}
        await process.end()
        await until_gone(process.pid)
        assert process.stdout and await process.stdout.read() == b""

    lived(use)


@pytest.mark.parametrize("leader", ["exit 0", FOR_EVER])
def test_a_daemon_that_stays_in_the_group_ends_with_it(tmp_path: Path, leader: str) -> None:
    """Case 46; its parent is gone, its streams are closed, it ignores TERM."""
    daemon = f"(trap '' TERM; sh -c 'trap \"\" TERM; {FOR_EVER}' </dev/null >/dev/null 2>&1 &)"

    async def use(processes: Processes) -> None:
        process = await processes.spawn(script(tmp_path, f"{daemon}; echo ready; {leader}", grace=0.1))
        assert await line(process) == "ready"
        await process.end()
        await until_gone(process.pid)

    lived(use)


def test_what_ignores_the_polite_signal_is_killed_and_leaves_no_zombie(tmp_path: Path) -> None:
    """Case 47."""

    async def use(processes: Processes) -> None:
        process = await processes.spawn(script(tmp_path, f"trap '' TERM; echo ready; {FOR_EVER}", grace=0.1))
        assert await line(process) == "ready"
        await process.end()
        assert process.returncode == -signal.SIGKILL
        assert process.pid not in children()

    lived(use)


def test_what_heeds_the_polite_signal_ends_in_its_own_way(tmp_path: Path) -> None:
    async def use(processes: Processes) -> None:
        tidy = f"trap 'echo tidied; exit 7' TERM; echo ready; {FOR_EVER}"
        process = await processes.spawn(script(tmp_path, tidy, grace=60))
        assert await line(process) == "ready"
        await process.end()
        assert process.returncode == 7
        assert await line(process) == "tidied"

    lived(use)


def test_the_grace_is_for_the_whole_group_not_only_for_its_leader(tmp_path: Path) -> None:
    worker = f"trap 'sleep 0.2; echo tidied > tidied; exit' TERM; echo ready; {FOR_EVER}"

    async def use(processes: Processes) -> None:
        process = await processes.spawn(script(tmp_path, f"({worker}) & wait", grace=60))
        assert await line(process) == "ready"
        await process.end()

    lived(use)
    assert (tmp_path / "tidied").exists()


def test_a_zombie_that_nobody_reaps_uses_up_no_grace(tmp_path: Path) -> None:
    """As orphans are in a container whose first process reaps none; here the parent has left the group, and sleeps."""
    code = """import os, time
if not os.fork():
    if not os.fork():
        os._exit(0)
    os.setsid()
    print(os.getpid(), flush=True)
time.sleep(600)"""

    async def use(processes: Processes) -> None:
        process = await processes.spawn(ProcessSpec((sys.executable, "-c", code), tmp_path, grace=60))
        parent = int(await line(process))
        try:
            await asyncio.wait_for(process.end(), 30)
        finally:
            os.kill(parent, signal.SIGKILL)
        assert process.returncode == -signal.SIGTERM

    lived(use)


def test_ending_twice_and_at_once_and_after_its_own_end_is_harmless(tmp_path: Path) -> None:
    async def use(processes: Processes) -> None:
        process = await processes.spawn(script(tmp_path, FOR_EVER))
        await asyncio.gather(*(process.end() for _ in range(5)))
        first = process.returncode
        await process.end()
        process.signal(signal.SIGTERM)
        assert first == process.returncode == -signal.SIGTERM
        over = await processes.spawn(script(tmp_path, "exit 4"))
        await over.wait()
        await over.end()
        assert over.returncode == 4
        assert len(processes) == 0

    lived(use)


def test_whoever_is_cancelled_while_ending_does_not_stop_the_ending(tmp_path: Path) -> None:
    async def use(processes: Processes) -> None:
        process = await processes.spawn(script(tmp_path, f"trap '' TERM; echo ready; {FOR_EVER}", grace=0.2))
        assert await line(process) == "ready"
        ending = asyncio.create_task(process.end())
        await asyncio.sleep(0.02)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        assert process.returncode is None
        await process.end()
        assert process.returncode == -signal.SIGKILL

    lived(use)


def test_a_cancelled_block_ends_its_process(tmp_path: Path) -> None:
    async def use(processes: Processes) -> None:
        process = await processes.spawn(script(tmp_path, FOR_EVER))

        async def block() -> None:
            async with process:
                await process.wait()

        task = asyncio.create_task(block())
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert process.returncode is not None

    lived(use)


def test_a_loop_that_goes_down_during_the_grace_leaves_nothing(tmp_path: Path) -> None:
    started: list[Process] = []

    async def main() -> None:
        process = await Processes(allow).spawn(script(tmp_path, f"trap '' TERM; echo ready; {FOR_EVER}", grace=600))
        assert await line(process) == "ready"
        started.append(process)
        ending = asyncio.ensure_future(process.end())
        await asyncio.sleep(0.02)
        assert not ending.done()

    asyncio.run(main())
    assert started[0].returncode == -signal.SIGKILL
    assert started[0].pid not in children()


def test_a_signal_reaches_the_whole_group(tmp_path: Path) -> None:
    worker = f"trap 'echo got it; exit' USR1; echo ready; {FOR_EVER}"

    async def use(processes: Processes) -> None:
        process = await processes.spawn(script(tmp_path, f"trap '' USR1; ({worker}) & wait"))
        assert await line(process) == "ready"
        process.signal(signal.SIGUSR1)
        assert await line(process) == "got it"

    lived(use)


def test_a_stranger_that_got_the_number_of_an_ended_process_is_left_alone(tmp_path: Path) -> None:
    async def use(processes: Processes) -> None:
        stranger = await processes.spawn(script(tmp_path, FOR_EVER))

        async def wait() -> int:
            return 0

        inner: Any = SimpleNamespace(pid=stranger.pid, returncode=0, wait=wait)
        ours = Process(script(tmp_path, "true"), inner, Pipes(), lambda: None)
        ours.signal(signal.SIGKILL)
        await ours.end()
        stranger.signal(signal.SIGTERM)
        assert await stranger.wait() == -signal.SIGTERM

    lived(use)


# -- its output


def test_what_has_arrived_can_be_read_after_the_end(tmp_path: Path) -> None:
    """More than a reader takes unasked (128 KiB): the rest waits in the pipe when the process has ended."""
    size = 131_072 + 60_000

    async def use(processes: Processes) -> None:
        for _ in range(5):
            process = await processes.spawn(ProcessSpec(("head", "-c", str(size), "/dev/zero"), tmp_path))
            assert len(await said(process)) == size

    lived(use)


def test_output_is_collected_with_its_beginning_and_its_end(tmp_path: Path) -> None:
    async def use(processes: Processes) -> None:
        process = await processes.spawn(script(tmp_path, "printf 'aaaaabbbbbccccc'"))
        output = Collected()
        assert process.stdout
        await collect(process.stdout, output, head=4, tail=3)
        assert (bytes(output.head), bytes(output.tail), output.left_out) == (b"aaaa", b"ccc", 8)
        assert output.text() == "aaaa\n… (8 bytes left out) …\nccc"

    lived(use)


def test_endless_output_without_a_newline_takes_little_memory(tmp_path: Path) -> None:
    """Case 48, with 64 MiB."""
    size = 64 << 20

    async def use(processes: Processes) -> None:
        process = await processes.spawn(ProcessSpec(("head", "-c", str(size), "/dev/zero"), tmp_path))
        output = Collected()
        assert process.stdout
        tracemalloc.start()
        try:
            await collect(process.stdout, output, head=1000, tail=2000)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert (len(output.head), len(output.tail), output.left_out) == (1000, 2000, size - 3000)
        assert peak < 4 << 20

    lived(use)


def test_output_that_nobody_reads_takes_little_memory(tmp_path: Path) -> None:
    """Case 48: then the process has to wait, and can be ended."""

    async def use(processes: Processes) -> None:
        tracemalloc.start()
        try:
            process = await processes.spawn(ProcessSpec(("cat", "/dev/zero"), tmp_path))
            await asyncio.sleep(0.2)
            await process.end()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert process.stdout and len(await process.stdout.read()) > 131_072
        assert peak < 8 << 20

    lived(use)


@pytest.mark.parametrize("collected", [True, False])
def test_errors_without_end_block_nothing(tmp_path: Path, collected: bool) -> None:
    """Case 49: collected and capped, or not asked for."""
    noisy = "head -c 5000000 /dev/zero >&2; echo answered"

    async def use(processes: Processes) -> None:
        async with await processes.spawn(script(tmp_path, noisy, stderr="pipe" if collected else "null")) as process:
            errors = Collected()
            reading = process.stderr and asyncio.create_task(collect(process.stderr, errors, head=10, tail=10))
            assert await line(process) == "answered"
        if reading:
            await reading
            assert errors.left_out == 5_000_000 - 20

    lived(use)


# -- many, and at any moment


def test_fifty_at_once_leave_no_process_and_no_descriptor(tmp_path: Path) -> None:
    text = f"sleep 600 & echo ready; {FOR_EVER}"

    async def use(processes: Processes) -> None:
        before = descriptors(), children()
        spec = script(tmp_path, text, stdin="pipe", stderr="pipe")
        started = await asyncio.gather(*(processes.spawn(spec) for _ in range(50)))
        assert await asyncio.gather(*map(line, started)) == ["ready"] * 50
        assert len(processes) == 50
        await processes.end_all()
        for process in started:
            await until_gone(process.pid)
        assert (descriptors(), children(), len(processes)) == (*before, 0)

    lived(use)


def test_input_that_is_never_read_holds_no_descriptor(tmp_path: Path) -> None:
    """A grandchild that left the group has the other end of the pipe; our own close of it would wait for ever."""
    text = "exec 3<&0; setsid sh -c 'echo $$; exec sleep 600 >/dev/null' <&3 & wait"

    async def use(processes: Processes) -> None:
        before = descriptors()
        process = await processes.spawn(script(tmp_path, text, stdin="pipe"))
        runaway = int(await line(process))
        try:
            assert process.stdin
            process.stdin.write(b"x" * 1_000_000)
            process.stdin.close()
            await process.end()
            assert descriptors() == before
        finally:
            os.kill(runaway, signal.SIGKILL)

    lived(use)


@pytest.mark.parametrize("close", [True, False])
def test_a_process_that_takes_no_input_can_be_ended(tmp_path: Path, close: bool) -> None:
    async def use(processes: Processes) -> None:
        before = descriptors()
        process = await processes.spawn(script(tmp_path, "exec <&-; echo closed; sleep 600", stdin="pipe"))
        assert await line(process) == "closed"
        assert process.stdin
        process.stdin.write(b"x" * 1_000_000)
        if close:
            process.stdin.close()
        await process.end()
        assert descriptors() == before

    lived(use)


@pytest.mark.parametrize("again", [False, True])
def test_a_spawn_that_is_cancelled_at_any_moment_leaves_no_process(tmp_path: Path, again: bool) -> None:
    async def slowly(spec: ProcessSpec) -> ProcessSpec:
        await asyncio.sleep(0)
        return spec

    async def use(processes: Processes) -> None:
        before = descriptors(), children()
        cancelled = 0
        for moments in range(30):
            spawning = asyncio.create_task(processes.spawn(script(tmp_path, FOR_EVER, stdin="pipe", grace=0.5)))
            for _ in range(moments):
                await asyncio.sleep(0)
            cancelled += spawning.cancel()
            if again:
                await asyncio.sleep(0)
                spawning.cancel()
            await asyncio.wait({spawning})
            if not spawning.cancelled():
                await spawning.result().end()
            assert (descriptors(), children(), len(processes)) == (*before, 0)
        assert cancelled > 5

    lived(use, slowly)


def test_a_spawn_that_is_cancelled_leaves_nothing_of_what_the_process_started(tmp_path: Path) -> None:
    """The process is there, and has a child, before whoever wanted it knows."""
    text = f"sleep 600 & {FOR_EVER}"

    async def use(processes: Processes) -> None:
        before = children()
        for moments in range(15):
            spawning = asyncio.create_task(processes.spawn(script(tmp_path, text, grace=0.5)))
            for _ in range(moments):
                await asyncio.sleep(0)
            time.sleep(0.03)  # noqa: ASYNC251  # the loop stands still while the process goes on
            groups = children() - before
            spawning.cancel()
            await asyncio.wait({spawning})
            if not spawning.cancelled():
                await spawning.result().end()
            for group in groups:
                await until_gone(group)

    lived(use)


def test_a_process_that_is_being_started_while_all_are_ended_is_ended_too(tmp_path: Path) -> None:
    async def use(_processes: Processes) -> None:
        before = children()
        for moments in range(15):
            processes = Processes(allow)
            spawning = asyncio.create_task(processes.spawn(script(tmp_path, FOR_EVER, grace=0.5)))
            for _ in range(moments):
                await asyncio.sleep(0)
            await processes.end_all()
            await asyncio.wait({spawning})
            assert children() == before
            assert len(processes) == 0

    lived(use)


def test_nothing_starts_once_all_were_ended(tmp_path: Path) -> None:
    asked: list[ProcessSpec] = []

    async def note(spec: ProcessSpec) -> ProcessSpec:
        asked.append(spec)
        return spec

    async def use(processes: Processes) -> None:
        await processes.end_all()
        with pytest.raises(ProcessRefused, match="the host is stopping"):
            await processes.spawn(script(tmp_path, "touch started"))

    lived(use, note)
    assert not asked
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("end", ["end_all", "end_owned"])
def test_what_prepare_allows_too_late_does_not_start(tmp_path: Path, end: str) -> None:
    async def use(_processes: Processes) -> None:
        allowed = asyncio.Event()

        async def late(spec: ProcessSpec) -> ProcessSpec:
            await allowed.wait()
            return spec

        processes = Processes(late)
        spawning = asyncio.create_task(processes.spawn(script(tmp_path, "touch started", owner="mine")))
        await asyncio.sleep(0)
        await (processes.end_all() if end == "end_all" else processes.end_owned("mine"))
        allowed.set()
        with pytest.raises(ProcessRefused, match="is stopping"):
            await spawning
        assert not (tmp_path / "started").exists()

    lived(use)


@pytest.mark.parametrize("by", ["owner", "session"])
def test_one_owners_and_one_sessions_processes_end_alone(tmp_path: Path, by: str) -> None:
    """Rule 14."""

    async def use(processes: Processes) -> None:
        mine = await processes.spawn(script(tmp_path, FOR_EVER, owner="a", session="a"))
        other = await processes.spawn(script(tmp_path, FOR_EVER, owner="b", session="b"))
        await (processes.end_owned("a") if by == "owner" else processes.end_session("a"))
        assert mine.returncode is not None
        assert other.returncode is None
        assert len(processes) == 1
        assert await said(await processes.spawn(script(tmp_path, "echo again", owner="a"))) == "again\n"

    lived(use)
