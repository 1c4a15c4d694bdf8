"""Tasks that belong to a scope and to the pack that started them."""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from pegboard.base.isolation import current_pack
from pegboard.base.scopes import Scope
from pegboard.dispatch.dispatcher import Fault

if TYPE_CHECKING:
    pass


class Tasks:
    """Tasks that belong to a scope: cancelled and awaited when it ends, their failures reported."""

    def __init__(self, scope: Scope, faults: list[Fault]) -> None:
        self._scope = scope
        self._faults = faults
        self._tasks: dict[asyncio.Task[Any], str] = {}

    def start(self, work: Coroutine[Any, Any, Any], hook: str = "start_task") -> "asyncio.Task[Any]":
        """Run a coroutine as a task of the scope.

        Raises:
            Disposed: the scope is gone; the coroutine is closed.
        """
        try:
            self._scope.check()
        except BaseException:
            work.close()
            raise
        return self.adopt(asyncio.get_running_loop().create_task(work), hook, current_pack.get())

    def adopt(self, task: "asyncio.Task[Any]", hook: str, pack: str) -> "asyncio.Task[Any]":
        """Own a task that was started elsewhere, for a pack."""
        self._tasks[task] = pack
        task.add_done_callback(lambda done: self._ended(done, pack, hook))
        return task

    def _ended(self, task: "asyncio.Task[Any]", pack: str, hook: str) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()):
            self._faults.append(Fault(pack, hook, f"{type(error).__name__}: {error}"))

    async def end(self, pack: str | None = None) -> None:
        """Cancel the tasks, those of one pack if it is named, newest first, and wait until they have ended."""
        while mine := [task for task, owner in self._tasks.items() if pack is None or owner == pack]:
            for task in reversed(mine):
                task.cancel()
            await asyncio.wait(mine)
            await asyncio.sleep(0)  # lets the done callbacks run

    def __len__(self) -> int:
        return len(self._tasks)
