"""`shell`: one command in a process group of its own, without input, without secrets, ended with all it started."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pegboard import Tool, ToolContext, ToolError, Touch, tool

from pegboard_workspace.programs import find_program

if TYPE_CHECKING:
    from asyncio import Task
    from asyncio.subprocess import Process
from typing_extensions import TypedDict

MAX_SECONDS: Final = 3600.0
GRACE_SECONDS: Final = 2.0
DRAIN_SECONDS: Final = 0.5
HEAD_BYTES: Final = 10_000
TAIL_BYTES: Final = 20_000
# What a command gets of our environment: enough to find programs and know the user, nothing that may be a secret.
_PASSED: Final = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TERM|TMPDIR|TEMP|TMP|VIRTUAL_ENV|CONDA_PREFIX|PWD"
    r"|JAVA_HOME|GOPATH|GOROOT|CARGO_HOME|RUSTUP_HOME|NVM_DIR|PYENV_ROOT|PYTHONPATH|NODE_PATH"
    r"|SYSTEMROOT|COMSPEC|PATHEXT|WINDIR|APPDATA|LOCALAPPDATA|PROGRAMFILES|USERPROFILE",
    re.IGNORECASE if sys.platform == "win32" else 0,
)


class Ran(TypedDict):
    """How a command ended; `left_out` counts the bytes in the middle of the output that are not shown."""

    exit_code: int
    output: str
    left_out: int


def _render(value: Ran) -> str:
    return f"exit {value['exit_code']}\n{value['output']}".rstrip("\n")


def _summarize(value: Ran) -> str:
    lines = value["output"].count("\n")
    return f"exit {value['exit_code']}, {lines} line{'' if lines == 1 else 's'}"


def environment(environ: Mapping[str, str], pass_env: Iterable[str]) -> dict[str, str]:
    """Return the variables that a command may see: the harmless ones and those named in `pass_env`."""
    named = set(pass_env)
    kept = {name: value for name, value in environ.items() if _PASSED.fullmatch(name) or name in named}
    return {**kept, "PEGBOARD_INSIDE": "1"}


def shell_tool(default_timeout: float, pass_env: Iterable[str]) -> Tool:
    """Make the tool with the pack's settings: seconds a command may run by default, and variables to let through."""
    passed = tuple(pass_env)

    @tool(
        effect="write",
        touches=lambda command, **_: [Touch.command(command)],
        render=_render,
        summarize=_summarize,
    )
    async def shell(command: str, ctx: ToolContext, timeout: float | None = None) -> Ran:  # noqa: ASYNC109
        """Run a shell command in the working directory: bash, or pwsh on Windows.

        Standard input is closed. Output and error output come together; of long output the middle is left out. What
        the command leaves running is ended with it.

        Args:
            command: The command line.
            timeout: Seconds after which it is ended.
        """
        import asyncio  # not before a command runs: packs are listed without it

        seconds = default_timeout if timeout is None else timeout
        if not 0 < seconds <= MAX_SECONDS:
            raise ToolError(f"timeout={seconds:g} is out of range; it is more than 0, at most {MAX_SECONDS:g} seconds")
        reading, writing = os.pipe()
        try:
            process = await _start(command, ctx, passed, writing)
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        output = _Output()
        reader = asyncio.create_task(output.drain(reading))
        try:
            timed_out = await _wait(process, ctx, seconds)
        finally:
            _kill_group(process)
            await process.wait()
            await _finish(reader)
        if timed_out:
            raise ToolError(f"the command was ended after {seconds:g} s; its output so far:\n{output.text()}")
        return Ran(exit_code=process.returncode or 0, output=output.text(), left_out=output.left_out)

    return shell


async def _start(command: str, ctx: ToolContext, pass_env: Iterable[str], output: int) -> "Process":
    import asyncio

    if "\0" in command or not command.strip():
        raise ToolError("the command is empty or has a NUL in it")
    if sys.platform == "win32":
        program, flags = "pwsh", ("-NoProfile", "-NonInteractive", "-Command")
    else:
        program, flags = "bash", ("--noprofile", "--norc", "-c")
    found = find_program(program, ctx.directory)
    if found is None:
        raise ToolError(f"`{program}` is not installed, so no command can be run")
    try:
        return await asyncio.create_subprocess_exec(
            found,
            *flags,
            command,
            cwd=ctx.directory,
            env=environment(os.environ, pass_env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(f"the command could not be started: {error.strerror}") from None


async def _wait(process: "Process", ctx: ToolContext, seconds: float) -> bool:
    """Wait for the command's own end; after cancel or timeout its group gets a moment, then it is killed."""
    import asyncio

    ended = asyncio.ensure_future(process.wait())
    cancelled = asyncio.ensure_future(ctx.cancel.wait())
    try:
        done, _ = await asyncio.wait({ended, cancelled}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if ended not in done:
            _signal_group(process, signal.SIGTERM)
            await asyncio.wait({ended}, timeout=GRACE_SECONDS)
        return not done
    finally:
        cancelled.cancel()


class _Output:
    """Collects output up to a cap: its beginning and its end are kept, the middle is counted."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self.left_out = 0

    async def drain(self, reading: int) -> None:
        """Read until the other end of the pipe is closed, or until the task is cancelled."""
        import asyncio

        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader),
            os.fdopen(reading, "rb", 0),
        )
        try:
            while chunk := await reader.read(65536):
                self._take(chunk)
        finally:
            transport.close()

    def _take(self, chunk: bytes) -> None:
        room = max(HEAD_BYTES - len(self._head), 0)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if (over := len(self._tail) - TAIL_BYTES) > 0:
            self.left_out += over
            del self._tail[:over]

    def text(self) -> str:
        """Return what was kept, with a line that says how much is missing."""
        if not self.left_out:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = (bytes(part).decode("utf-8", "replace") for part in (self._head, self._tail))
        return f"{head}\n… ({self.left_out:,} bytes left out) …\n{tail}"


async def _finish(reader: "Task[None]") -> None:
    """Let what is left in the pipe be read; a process that left the group may hold it open for ever."""
    import asyncio

    await asyncio.wait({reader}, timeout=DRAIN_SECONDS)
    reader.cancel()
    await asyncio.wait({reader})


def _signal_group(process: "Process", number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            subprocess.run(["taskkill", "/T", "/F", "/PID", str(process.pid)], capture_output=True, check=False)  # noqa: S603, S607
        else:
            os.killpg(process.pid, number)


def _kill_group(process: "Process") -> None:
    _signal_group(process, getattr(signal, "SIGKILL", signal.SIGTERM))
