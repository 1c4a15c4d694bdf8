"""What a body may ask of its surroundings, made for one call."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pegboard.base.cancel import CancelSignal
from pegboard.calls.extra_texts import ExtraTexts
from pegboard.process.pipes import Completed
from pegboard.process.processes import Process, complete
from pegboard.process.spec import ProcessSpec
from pegboard.values.tool import ToolContext

if TYPE_CHECKING:
    from pegboard.agents.run import Run


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Of one call: its run, the pack that brought its tool, the signal that tells its body to stop."""

    run: "Run"
    pack: str
    signal: CancelSignal
    contexts: ExtraTexts

    def context(self, conclude: Callable[[], None], *, approved: bool, answer: str | None) -> ToolContext:
        """Return what the body gets as `ctx`."""
        run, loop, session = self.run, asyncio.get_running_loop(), self.run.agent.session
        return ToolContext(
            session.directory,
            session.id,
            self.signal,
            spawn=self._spawn,
            progress=lambda text: loop.call_soon_threadsafe(run.progress, text, self.pack),
            wait=partial(_wait_in_thread, loop),
            note=run.note,
            run=self._run_process,
            add_context=self.contexts.add_of_tool,
            conclude=conclude,
            output=run.output,
            result_chars=run.agent.definition.limits.result_chars,
            approved=approved,
            answer=answer,
            on_ask=run.on_ask,
        )

    async def _spawn(self, spec: ProcessSpec) -> Process:
        agent = self.run.agent
        return await agent.services.spawn(replace(spec, owner=self.pack, session=agent.session.id))

    async def _run_process(self, spec: ProcessSpec, *, cap: int = 30_000) -> Completed:
        return await complete(await self._spawn(spec), self.signal, cap)


def _wait_in_thread(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any]) -> Any:
    """Let the event loop do something async for a body in a worker thread, and wait for it there."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run_coroutine_threadsafe(work, loop).result()
    work.close()
    raise RuntimeError("`ctx.wait` is for sync bodies in a worker thread; an async body awaits")
