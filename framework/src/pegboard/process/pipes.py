"""Processes as the system sees them: a program from PATH, an environment, pipes, a group; and how output is kept."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pegboard.base.errors import PegboardError
from pegboard.base.text import one_line

if TYPE_CHECKING:
    import asyncio

    from pegboard.process.spec import ProcessSpec

# What a process gets of our environment: enough to find programs and know the user, nothing that may be a secret.
_PASSED: Final = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TERM|TMPDIR|TEMP|TMP|VIRTUAL_ENV|CONDA_PREFIX|PWD"
    r"|JAVA_HOME|GOPATH|GOROOT|CARGO_HOME|RUSTUP_HOME|NVM_DIR|PYENV_ROOT|PYTHONPATH|NODE_PATH"
    r"|SYSTEMROOT|COMSPEC|PATHEXT|WINDIR|APPDATA|LOCALAPPDATA|PROGRAMFILES|USERPROFILE",
    re.IGNORECASE if sys.platform == "win32" else 0,
)
_INSIDE: Final = {"PEGBOARD_INSIDE": "1"}

Target = Literal["null", "pipe", "stdout"]

# As much as Linux lets a pipe hold.
_REST_BYTES: Final = 1 << 20


def find_program(name: str, root: Path) -> str | None:
    """Return the path of a program on PATH, or None.

    Relative entries of PATH are passed over, and what leads to or through `root`, be it by a link (case 54). The path
    is not the resolved one: some programs look at the name by which they were called.
    """
    if os.path.dirname(name):
        return None
    suffixes = ("", *os.environ.get("PATHEXT", "").split(os.pathsep)) if sys.platform == "win32" else ("",)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        for suffix in suffixes if os.path.isabs(folder) else ():
            found = os.path.join(folder, name + suffix)
            if os.path.isfile(found) and os.access(found, os.X_OK) and not _leads_through(Path(found), root):
                return found
    return None


def located(name: str, root: Path) -> str:
    """Return an absolute path as it is, and that of a name as `find_program` finds it.

    Raises:
        PegboardError: it is not there.
    """
    found = name if os.path.isabs(name) else find_program(name, root)
    if found is None:
        where = f"(or only below {root}, which does not count)"
        raise PegboardError(f"`{one_line(name, 80)}` is not installed {where}; install it, or give its absolute path")
    return found


def _leads_through(path: Path, root: Path) -> bool:
    real = root.resolve()
    if real == real.parent:  # everything is below it: no project's own tree
        return False
    return any(part.resolve().is_relative_to(real) for part in (path, *path.parents))


def environment(environ: Mapping[str, str], env: Mapping[str, str], pass_env: Iterable[str]) -> dict[str, str]:
    """Return `env` on top of what is harmless in an environment, or named in `pass_env` (case 45)."""
    named = set(pass_env)
    passed = {name: value for name, value in environ.items() if _PASSED.fullmatch(name) or name in named}
    return {**passed, **env, **_INSIDE}


class Pipes:
    """Streams to and from one process: `child_*` are for the child, `stdin`, `stdout`, `stderr` ours once connected."""

    def __init__(self) -> None:
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self.child_stdin: int = subprocess.DEVNULL
        self.child_stdout: int = subprocess.DEVNULL
        self.child_stderr: int = subprocess.DEVNULL
        self._ours: dict[str, int] = {}
        self._theirs: list[int] = []
        self._readers: list[tuple[asyncio.ReadTransport, asyncio.StreamReader]] = []

    @classmethod
    @contextmanager
    def opened(cls, stdin: Target, stdout: Target, stderr: Target) -> "Iterator[Pipes]":
        """Open what is wanted; the child's ends are closed on leaving, ours too unless they were connected."""
        pipes = cls()
        try:
            if stdin == "pipe":
                pipes.child_stdin = pipes._open("stdin")
            if stdout == "pipe":
                pipes.child_stdout = pipes._open("stdout")
            if stderr == "pipe":
                pipes.child_stderr = pipes._open("stderr")
            elif stderr == "stdout":
                pipes.child_stderr = subprocess.STDOUT
            yield pipes
        except BaseException:
            pipes.close()
            raise
        finally:
            for descriptor in pipes._theirs:
                os.close(descriptor)

    def _open(self, name: str) -> int:
        """Make a pipe of our own; on Windows the event loop can't read one, there it is asyncio's."""
        if sys.platform == "win32":
            return subprocess.PIPE
        reading, writing = os.pipe()
        ours, theirs = (writing, reading) if name == "stdin" else (reading, writing)
        self._ours[name] = ours
        self._theirs.append(theirs)
        return theirs

    async def connect(self) -> None:
        """Turn our ends into streams."""
        if "stdin" in self._ours:
            self.stdin = await self._writer("stdin")
        if "stdout" in self._ours:
            self.stdout = await self._reader("stdout")
        if "stderr" in self._ours:
            self.stderr = await self._reader("stderr")

    def adopt(self, inner: "asyncio.subprocess.Process") -> None:
        """On Windows: take the streams that asyncio made."""
        if sys.platform == "win32":
            self.stdin, self.stdout, self.stderr = inner.stdin, inner.stdout, inner.stderr

    async def _reader(self, name: str) -> "asyncio.StreamReader":
        import asyncio

        reader = asyncio.StreamReader()
        file = os.fdopen(self._ours.pop(name), "rb", 0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), file
        )
        self._readers.append((transport, reader))
        return reader

    async def _writer(self, name: str) -> "asyncio.StreamWriter":
        import asyncio

        loop = asyncio.get_running_loop()
        file = os.fdopen(self._ours.pop(name), "wb", 0)
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), file
        )
        return asyncio.StreamWriter(transport, protocol, None, loop)

    def close(self) -> None:
        """Close our ends; a reader gets what has arrived, then its end."""
        for transport, reader in self._readers:
            if not transport.is_closing():
                _read_rest(transport.get_extra_info("pipe").fileno(), reader)
                transport.close()
        if self.stdin is not None:
            # What was never read of our input would hold it open; aborting twice would hit another's descriptor.
            writing = self.stdin.transport
            if not writing.is_closing() or writing.get_write_buffer_size():
                writing.abort()
        for descriptor in self._ours.values():
            os.close(descriptor)
        self._ours.clear()


def _read_rest(descriptor: int, reader: "asyncio.StreamReader") -> None:
    """Feed what waits in a pipe to its reader; only so much, as a process that left its group may write for ever."""
    with suppress(BlockingIOError):
        left = _REST_BYTES
        while left > 0 and (chunk := os.read(descriptor, min(left, 65536))):
            reader.feed_data(chunk)
            left -= len(chunk)


async def launch(spec: "ProcessSpec") -> "tuple[asyncio.subprocess.Process, Pipes]":
    """Start a process with its pipes.

    Raises:
        PegboardError: the program is not there, or the system can't start it.
    """
    import asyncio

    program = located(spec.argv[0], spec.cwd)
    try:
        with Pipes.opened(spec.stdin, spec.stdout, spec.stderr) as pipes:
            # Before the process is there: nothing may come between its start and the object that ends it.
            await pipes.connect()
            inner = await asyncio.create_subprocess_exec(
                program,
                *spec.argv[1:],
                cwd=spec.cwd,
                env=environment(os.environ, spec.env, spec.pass_env),
                stdin=pipes.child_stdin,
                stdout=pipes.child_stdout,
                stderr=pipes.child_stderr,
                start_new_session=True,
                creationflags=0x200 if sys.platform == "win32" else 0,  # CREATE_NEW_PROCESS_GROUP
            )
            pipes.adopt(inner)
    except (OSError, ValueError) as error:
        at = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        told = one_line(f"{at}{getattr(error, 'strerror', None) or error}", 300)
        raise PegboardError(f"`{one_line(spec.argv[0], 80)}` could not be started: {told}") from None
    return inner, pipes


def is_taken(number: int) -> bool:
    """Whether some process has this number.

    If that of a reaped leader is taken again, a stranger has it, and the leader's group is gone: as long as it has
    members, the system gives its number to nobody.
    """
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def group_runs(leader: int) -> bool:
    """Whether anything runs in the group of a reaped leader; zombies don't count, some containers never reap them."""
    if is_taken(leader):
        return False
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    if not os.path.exists("/proc/self/stat"):
        return True
    return any(group == leader and state not in (b"Z", b"X") for state, group in _states())


def _states() -> Iterator[tuple[bytes, int]]:
    """Yield state and group of every process, on Linux."""
    for number in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            state, _parent, group = Path("/proc", number, "stat").read_bytes().rpartition(b")")[2].split()[:3]
            yield state, int(group)


async def kill_tree(pid: int) -> None:
    """Windows has no groups to kill, but a program that ends a process with all it started."""
    import asyncio
    import subprocess

    program = os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "taskkill.exe")
    command = [program, "/T", "/F", "/PID", str(pid)]
    await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False)


@dataclass(slots=True)
class Collected:
    """Output up to a cap: its beginning and its end are kept, the middle is counted in `left_out` (bytes)."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    left_out: int = 0

    def text(self) -> str:
        """Return what was kept as text, with a line that says how much is missing."""
        if not self.left_out:
            return (self.head + self.tail).decode("utf-8", "replace")
        head, tail = (bytes(part).decode("utf-8", "replace") for part in (self.head, self.tail))
        return f"{head}\n… ({self.left_out:,} bytes left out) …\n{tail}"


@dataclass(frozen=True, slots=True)
class Completed:
    """A process that ran to its end: its exit code, its output as text, and how many bytes of that were left out."""

    returncode: int
    text: str
    left_out: int = 0


async def collect(stream: "asyncio.StreamReader", into: Collected, *, head: int, tail: int) -> None:
    """Read a stream to its end, or until cancelled; keep the first `head` and the last `tail` bytes of it."""
    while chunk := await stream.read(65536):
        room = max(head - len(into.head), 0)
        into.head += chunk[:room]
        into.tail += chunk[room:]
        if (over := len(into.tail) - tail) > 0:
            into.left_out += over
            del into.tail[:over]
