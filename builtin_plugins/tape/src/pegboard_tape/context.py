"""What a model is told of its session: from the last checkpoint on, within its window, and noted for each request."""

import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pegboard import (
    Agent,
    Message,
    ModelError,
    ModelReply,
    ModelRequest,
    PegboardError,
    PerTools,
    ProceedModel,
    Prompt,
    Tool,
    hooks,
    implements,
)

from pegboard_tape.anchors import COMPACTION, OVERFLOW
from pegboard_tape.fitting import Budget, checkpoint_part, cost, cut, elide
from pegboard_tape.ledger import Ledger, Part, estimate
from pegboard_tape.manifest import NAME, manifest, ranges
from pegboard_tape.summary import sum_up


@dataclass(frozen=True, slots=True)
class Window:
    """A model's window in tokens, what of it is kept free for the reply, how many earlier turns stay if they fit."""

    tokens: int
    reserve: int
    turns: int


@dataclass(frozen=True, slots=True)
class _Request:
    """What a request is besides its messages."""

    step: int
    prompt: str
    definitions: str


class SessionContext:
    """The implementations of one agent, with what they know of its session.

    `cursor` tells the first entry of a session that need be read.
    """

    def __init__(self, agent: Agent, window: Window, cursor: Callable[[str], Awaitable[int]]) -> None:
        self._agent = agent
        self._window = window
        self._cursor = cursor
        self._ledger: Ledger | None = None
        self._requests = 0
        self._definitions = PerTools(_definitions)

    @implements(hooks.assemble_prompt)
    async def assemble(self, agent: Agent, prompt: Prompt) -> Prompt | None:
        """Tell what counts now, summed up where it no longer fits; None where that is the whole transcript."""
        run = agent.current_run
        if prompt.phase == "snapshot" or run is None:
            return None
        ledger = await self._follow()
        request = _Request(run.step + 1, prompt.text, self._definitions(run.snapshot.tools))
        extra = estimate(request.prompt) + estimate(request.definitions) + (estimate(run.said) if not run.step else 0)
        budget = Budget(self._window.tokens, self._window.reserve, extra)
        told, elided = elide(await self._within(ledger, budget, COMPACTION), budget.input)
        if cost(told) > budget.input:
            raise PegboardError(
                f"the window of {budget.window:,} tokens is full: this turn alone is about {cost(told):,} and "
                f"{budget.input:,} are left for it; begin a new task, or raise packs.tape.window if the model has more"
            )
        await self._note(ledger, request, told, elided, budget)
        return None if ledger.is_plain and not elided else prompt.telling(part.message for part in told)

    @implements(hooks.wrap_model_call)
    async def recover(self, request: ModelRequest, proceed: ProceedModel) -> ModelReply:
        """Sum up and ask once more when the model says that it was told too much."""
        try:
            return await proceed(request)
        except ModelError as error:
            shorter = await self._shorter(request) if error.kind == "context-too-long" else None
            if shorter is None:
                raise
            return await proceed(replace(request, messages=shorter))

    async def _follow(self) -> Ledger:
        """Return what the record has come to."""
        agent = self._agent
        if self._ledger is None:
            self._ledger = Ledger(await self._cursor(agent.id))
        self._ledger.take(await agent.host.entries(agent.id, self._ledger.last))
        return self._ledger

    async def _within(self, ledger: Ledger, budget: Budget, name: str) -> list[Part]:
        """Return what is to be told, after summing up what no longer fits."""
        if cost(_told(ledger)) > budget.input:
            before, kept = cut(ledger.parts(), ledger.turn, budget, self._window.turns)
            if before:
                await self._sum_up(ledger, before, kept, budget, name)
        return _told(ledger)

    async def _sum_up(
        self, ledger: Ledger, before: Sequence[Part], kept: Sequence[Part], budget: Budget, name: str
    ) -> None:
        """Record a checkpoint that stands for these parts, and follow it."""
        run, earlier = self._agent.current_run, ledger.checkpoint
        if run is None:
            return
        run.progress("summing up what was said before: the model's window is nearly full")
        messages = [part.message for part in before]
        summary, by = await sum_up(self._agent, earlier.summary if earlier else "", messages, budget.input)
        state = {
            "summary": summary,
            "cursorOrderSeq": kept[0].entry if kept else ledger.last + 1,
            "range": {"fromOrderSeq": before[0].entry, "toOrderSeq": before[-1].entry},
            "sourceMessageIds": [part.entry for part in before],
        }
        await run.note(name, {"state": state, "meta": {"by": by, "earlier": earlier.entry if earlier else None}})
        await self._follow()

    async def _shorter(self, request: ModelRequest) -> list[Message] | None:
        """Return about half of what was told, or None if there is nothing that could be left out."""
        ledger = await self._follow()
        before = cost(_told(ledger))
        half = Budget(int(before * 0.6), 0, 0)
        told, elided = elide(await self._within(ledger, half, OVERFLOW), half.input)
        if cost(told) >= before:
            return None
        asked = _Request(request.step, request.prompt, self._definitions(request.tools))
        await self._note(ledger, asked, told, elided, half)
        return [part.message for part in told]

    async def _note(
        self, ledger: Ledger, request: _Request, told: Sequence[Part], elided: Sequence[int], budget: Budget
    ) -> None:
        """Record what a request is made of."""
        run = self._agent.current_run
        if run is None:
            return
        self._requests += 1
        parts = {
            "session": self._agent.id,
            "run": run.number,
            "step": request.step,
            "requestSeq": self._requests,
            "latestEntryId": ledger.last,
            **_contents(ledger, told),
            "elided": list(elided),
            "tokenBudget": {**asdict(budget), "input": budget.input, "estimate": cost(told)},
            "hashes": {
                "prompt": _sha256(request.prompt.encode("utf-8", "replace")),
                "toolDefinitions": _sha256(request.definitions.encode()),
                "messages": _sha256(b"".join(part.digest for part in told)),
            },
        }
        await run.note(NAME, manifest(parts, time.time()))


def _told(ledger: Ledger) -> list[Part]:
    parts = ledger.parts()
    return [checkpoint_part(ledger.checkpoint), *parts] if ledger.checkpoint else parts


def _contents(ledger: Ledger, told: Sequence[Part]) -> dict[str, Any]:
    """Return which entries are in, and which are out and why."""
    checkpoint = ledger.checkpoint
    order = [part.entry for part in ledger.parts()]
    included = [part.entry for part in told if checkpoint is None or part.entry != checkpoint.entry]
    return {
        "reconstructionAnchorEntryId": checkpoint.entry if checkpoint else None,
        "included": ranges(included, order),
        "excludedRanges": [[1, checkpoint.cursor - 1, "summed up"]] if checkpoint else [],
    }


def _definitions(tools: tuple[Tool, ...]) -> str:
    return json.dumps([tool.definition for tool in tools], sort_keys=True)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
