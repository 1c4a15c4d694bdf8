"""What a body gets as `ctx`, made for one call."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pegboard.base.cancel import CancelSignal
from pegboard.calls.environment import CallEnv
from pegboard.calls.extra_texts import OF_TOOL, ExtraTexts
from pegboard.process.pipes import Completed
from pegboard.process.processes import Process, complete
from pegboard.process.spec import ProcessSpec
from pegboard.values.tool import ToolContext, Touch


def make_context(
    env: CallEnv,
    pack: str,
    signal: CancelSignal,
    extras: ExtraTexts,
    *,
    touches: tuple[Touch, ...],
    may_touch: Callable[[Iterable[str]], Coroutine[Any, Any, Mapping[str, str]]],
    conclude: Callable[[], None],
    approved: bool,
    answer: str | None,
    by_program: bool,
) -> ToolContext:
    """Return the context of a call; `pack` brought its tool, `signal` tells its body to stop."""
    loop = asyncio.get_running_loop()
    return ToolContext(
        env.directory,
        env.session,
        signal,
        spawn=partial(_spawn, env, pack),
        progress=lambda text: loop.call_soon_threadsafe(env.journal.progress, text, pack),
        wait=partial(_wait_in_thread, loop),
        note=env.journal.note,
        run=partial(_run_process, env, pack, signal),
        touches=touches,
        may_touch=may_touch,
        add_context=extras.adder(OF_TOOL),
        conclude=conclude,
        output=env.journal.output,
        result_chars=env.result_chars,
        approved=approved,
        answer=answer,
        by_program=by_program,
        on_ask=env.on_ask,
    )


async def _spawn(env: CallEnv, pack: str, spec: ProcessSpec) -> Process:
    return await env.spawn(replace(spec, owner=pack, session=env.session))


async def _run_process(
    env: CallEnv, pack: str, signal: CancelSignal, spec: ProcessSpec, *, cap: int = 30_000
) -> Completed:
    return await complete(await _spawn(env, pack, spec), signal, cap)


def _wait_in_thread(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any]) -> Any:
    """Let the event loop do something async for a body in a worker thread, and wait for it there."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run_coroutine_threadsafe(work, loop).result()
    work.close()
    raise RuntimeError("`ctx.wait` is for sync bodies in a worker thread; an async body awaits")
