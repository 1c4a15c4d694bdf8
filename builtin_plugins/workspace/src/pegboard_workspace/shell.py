"""`shell`: one command in a process group of its own, without input, without secrets, ended with all it started."""

import sys
from collections.abc import Iterable
from typing import Final

from pegboard import Collected, Process, ProcessSpec, Tool, ToolContext, ToolError, Touch, collect, tool
from typing_extensions import TypedDict

MAX_SECONDS: Final = 3600.0
GRACE_SECONDS: Final = 2.0
HEAD_BYTES: Final = 500_000
TAIL_BYTES: Final = 500_000


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
        process = await _start(command, ctx, passed)
        output = Collected()
        assert process.stdout is not None  # noqa: S101  # it was asked for
        reader = asyncio.create_task(collect(process.stdout, output, head=HEAD_BYTES, tail=TAIL_BYTES))
        try:
            timed_out = await _wait(process, ctx, seconds)
        finally:
            await process.end()  # which ends the stream, too
            await asyncio.wait({reader})
        if timed_out:
            raise ToolError(f"the command was ended after {seconds:g} s; its output so far:\n{output.text()}")
        return Ran(exit_code=process.returncode or 0, output=output.text(), left_out=output.left_out)

    return shell


async def _start(command: str, ctx: ToolContext, pass_env: tuple[str, ...]) -> Process:
    if "\0" in command or not command.strip():
        raise ToolError("the command is empty or has a NUL in it")
    if sys.platform == "win32":
        program = ("pwsh", "-NoProfile", "-NonInteractive", "-Command")
    else:
        program = ("bash", "--noprofile", "--norc", "-c")
    argv = (*program, command)
    return await ctx.spawn(ProcessSpec(argv, ctx.directory, pass_env=pass_env, stderr="stdout", grace=GRACE_SECONDS))


async def _wait(process: Process, ctx: ToolContext, seconds: float) -> bool:
    """Wait for the command's own end, a cancel or the time-out; returns whether it was the last."""
    import asyncio

    ended = asyncio.ensure_future(process.wait())
    cancelled = asyncio.ensure_future(ctx.cancel.wait())
    try:
        done, _ = await asyncio.wait({ended, cancelled}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return not done
    finally:
        cancelled.cancel()
        ended.cancel()
