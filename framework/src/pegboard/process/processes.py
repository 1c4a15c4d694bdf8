"""Starting processes: argv only, in a group of their own, with a minimal environment, gone with their owner."""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pegboard.base.cancel import CancelSignal
from pegboard.process.pipes import (
    Collected,
    Completed,
    Pipes,
    collect,
    group_runs,
    is_taken,
    kill_tree,
    launch,
    located,
)
from pegboard.process.spec import ProcessRefused, ProcessSpec

if TYPE_CHECKING:
    import asyncio

_FIRST_PAUSE: Final = 0.01


class Process:
    """A process that runs, the leader of its group. Use it as `async with`, or call `end()`."""

    def __init__(
        self, spec: ProcessSpec, inner: "asyncio.subprocess.Process", pipes: Pipes, forget: Callable[[], object]
    ) -> None:
        self.spec = spec
        self._forget = forget
        self._inner = inner
        self._pipes = pipes
        self._ending: asyncio.Task[None] | None = None
        self.stdin = pipes.stdin
        self.stdout = pipes.stdout
        self.stderr = pipes.stderr

    @property
    def pid(self) -> int:
        """The process id, and that of its group."""
        return self._inner.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._inner.returncode

    async def wait(self) -> int:
        """Wait for the leader's own end and return its exit code; what it started may run on until `end()`."""
        return await self._inner.wait()

    def signal(self, number: int) -> None:
        """Send a signal to the whole group (on Windows to the leader); harmless when it is gone."""
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._inner.send_signal(number)
            elif self.returncode is None or not is_taken(self.pid):
                os.killpg(self.pid, number)

    async def end(self) -> None:
        """End the group: politely, after `grace` seconds by force; reap it, close its streams; once for all callers.

        What has arrived in the streams can be read afterwards. Whoever is cancelled here leaves the ending under way.
        """
        import asyncio

        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        import asyncio

        # Only a loop that goes down cancels this task: then there is no grace, but all the rest.
        with suppress(asyncio.TimeoutError, asyncio.CancelledError):
            if self.returncode is None:
                self._ask()
                await asyncio.wait_for(self._until_group_is_gone(), self.spec.grace)
        try:
            if sys.platform == "win32":
                await kill_tree(self.pid)
            else:
                self.signal(signal.SIGKILL)
            await self._inner.wait()
        finally:
            self._pipes.close()
            self._forget()

    def _ask(self) -> None:
        if sys.platform == "win32":
            self.signal(signal.CTRL_BREAK_EVENT)
        else:
            self.signal(signal.SIGTERM)

    async def _until_group_is_gone(self) -> None:
        import asyncio

        await self._inner.wait()
        pause = _FIRST_PAUSE
        while sys.platform != "win32" and group_runs(self.pid):
            await asyncio.sleep(pause)
            pause *= 2

    async def __aenter__(self) -> "Process":
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.end()


async def complete(process: Process, cancel: CancelSignal, cap: int) -> Completed:
    """Wait for a process and return what it wrote; a cancel ends it with all it started.

    Of more than `cap` bytes the middle is left out. What the process leaves running does not outlive it.
    """
    import asyncio

    output = Collected()
    reading: asyncio.Task[None] | None = None
    unlink = cancel.on_cancel(lambda: asyncio.ensure_future(process.end()))
    try:
        async with process:
            if process.stdout is not None:
                reading = asyncio.ensure_future(collect(process.stdout, output, head=cap // 3, tail=cap - cap // 3))
            code = await process.wait()
        if reading is not None:
            await reading
    finally:
        unlink()
        if reading is not None:
            reading.cancel()
    return Completed(code, output.text(), output.left_out)


@dataclass(slots=True, eq=False)
class _Asked:
    """A process that `prepare` has yet to allow; it may be withdrawn meanwhile."""

    spec: ProcessSpec
    withdrawn: bool

    def refuse_if_withdrawn(self) -> None:
        if self.withdrawn:
            raise ProcessRefused(
                f"{f'pack `{self.spec.owner}`' if self.spec.owner else 'the host'} is stopping; no process starts"
            )


class Processes:
    """The processes of one host. `prepare` sees every specification before it is started, and may refuse it."""

    def __init__(self, prepare: Callable[[ProcessSpec], Awaitable[ProcessSpec]]) -> None:
        self._prepare = prepare
        self._live: dict[Process, None] = {}
        self._starting: dict[asyncio.Task[Process], ProcessSpec] = {}
        self._asked: list[_Asked] = []
        self._closed = False

    def __len__(self) -> int:
        return len(self._live) + len(self._starting)

    async def spawn(self, spec: ProcessSpec) -> Process:
        """Start a process; being cancelled meanwhile leaves none.

        Raises:
            ProcessRefused: by `prepare`, or because the host or the owner is stopping.
            PegboardError: the specification is wrong, or the system can't start it.
        """
        spec.check()
        # Found before anybody sees it: what a pack puts before it must not have it looked up anew (case 54).
        spec = replace(spec, argv=(located(spec.argv[0], spec.cwd), *spec.argv[1:]))
        asked = _Asked(spec, withdrawn=self._closed)
        asked.refuse_if_withdrawn()
        self._asked.append(asked)
        try:
            prepared = replace(await self._prepare(spec), owner=spec.owner, session=spec.session)
        finally:
            self._asked.remove(asked)
        prepared.check()
        asked.refuse_if_withdrawn()
        return await self._spawn(prepared)

    async def _spawn(self, spec: ProcessSpec) -> Process:
        import asyncio

        starting = asyncio.get_running_loop().create_task(self._start(spec))
        self._starting[starting] = spec
        starting.add_done_callback(self._starting.pop)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            await _end_when_started(starting)
            raise

    async def _start(self, spec: ProcessSpec) -> Process:
        inner, pipes = await launch(spec)
        process = Process(spec, inner, pipes, lambda: self._live.pop(process, None))
        self._live[process] = None
        return process

    async def end_all(self) -> None:
        """End every process, also one that is being started; from then on none is started."""
        self._closed = True
        await self._end(lambda _spec: True)

    async def end_owned(self, owner: str) -> None:
        """End the processes of one pack, also those that are being started."""
        await self._end(lambda spec: spec.owner == owner)

    async def end_session(self, session: str) -> None:
        """End the processes that were started for one session, also those that are being started."""
        await self._end(lambda spec: spec.session == session)

    async def _end(self, chosen: Callable[[ProcessSpec], bool]) -> None:
        import asyncio

        for asked in self._asked:
            asked.withdrawn = asked.withdrawn or chosen(asked.spec)
        starting = [task for task, spec in self._starting.items() if chosen(spec)]
        ending = [asyncio.ensure_future(process.end()) for process in self._live if chosen(process.spec)]
        await asyncio.gather(*starting, *ending, return_exceptions=True)
        late = [process.end() for process in self._live if chosen(process.spec)]
        await asyncio.gather(*late, return_exceptions=True)


async def _end_when_started(starting: "asyncio.Task[Process]") -> None:
    """Whoever wanted a process was cancelled: let it start, then end it, whatever else is cancelled meanwhile."""
    import asyncio

    async def end() -> None:
        with suppress(Exception):
            await (await starting).end()

    ending = asyncio.ensure_future(end())
    while not ending.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(ending)
