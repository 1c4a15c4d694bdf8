"""What a model is told of its session: from the last checkpoint on, within its window, and noted for each request."""

import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace

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
from pegboard_tape.fitting import Budget, cost, cut, elide
from pegboard_tape.ledger import Ledger, Part, estimate
from pegboard_tape.manifest import NAME, manifest
from pegboard_tape.summary import OFFLINE, sum_up
from pegboard_tape.told import Told, since_checkpoint


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
        whole = ledger.is_plain and ledger.tokens <= budget.input
        told = Told.whole(ledger) if whole else await self._within(ledger, budget, COMPACTION)
        if run.signal.cancelled:
            return None
        if told.tokens > budget.input and agent.definition.model != OFFLINE:  # which has no window
            raise PegboardError(
                f"the window of {budget.window:,} tokens is full: this turn alone is about {told.tokens:,} and "
                f"{budget.input:,} are left for it; begin a new task, or raise packs.tape.window if the model has more"
            )
        await self._note(ledger, request, told, budget)
        return None if told.messages is None else prompt.telling(told.messages)

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

    async def _within(self, ledger: Ledger, budget: Budget, name: str) -> Told:
        """Return what is to be told, after summing up and cutting what no longer fits."""
        if cost(since_checkpoint(ledger)) > budget.input:
            before, kept = cut(ledger.parts(), ledger.turn, budget, self._window.turns)
            if before:
                await self._sum_up(ledger, before, kept, budget, name)
        parts, elided = elide(since_checkpoint(ledger), budget.input)
        return Told.of(ledger, parts, elided)

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
        if run.signal.cancelled:  # the summary may be half of one
            return
        state = {
            "summary": summary,
            "cursorOrderSeq": kept[0].entry if kept else ledger.last + 1,
            "range": {"fromOrderSeq": before[0].entry, "toOrderSeq": before[-1].entry},
            "sourceMessageIds": [part.entry for part in before],
        }
        await run.note(name, {"state": state, "meta": {"by": by, "earlier": earlier.entry if earlier else None}})
        await self._follow()

    async def _shorter(self, request: ModelRequest) -> Sequence[Message] | None:
        """Return about half of what was told, or None if there is nothing that could be left out."""
        ledger = await self._follow()
        before = cost(since_checkpoint(ledger))
        half = Budget(int(before * 0.6), 0, 0)
        told = await self._within(ledger, half, OVERFLOW)
        if told.messages is None or told.tokens >= before:
            return None
        await self._note(ledger, _Request(request.step, request.prompt, self._definitions(request.tools)), told, half)
        return told.messages

    async def _note(self, ledger: Ledger, request: _Request, told: Told, budget: Budget) -> None:
        """Record what a request is made of."""
        run = self._agent.current_run
        if run is None:
            return
        self._requests += 1
        checkpoint = ledger.checkpoint
        parts = {
            "session": self._agent.id,
            "run": run.number,
            "step": request.step,
            "requestSeq": self._requests,
            "latestEntryId": ledger.last,
            "reconstructionAnchorEntryId": checkpoint.entry if checkpoint else None,
            "included": told.included,
            "excludedRanges": [[1, checkpoint.cursor - 1, "summed up"]] if checkpoint else [],
            "elided": told.elided,
            "tokenBudget": {**asdict(budget), "input": budget.input, "estimate": told.tokens},
            "hashes": {
                "prompt": _sha256(request.prompt),
                "toolDefinitions": _sha256(request.definitions),
                "messages": told.digest,
            },
        }
        await run.note(NAME, manifest(parts, time.time()))


def _definitions(tools: tuple[Tool, ...]) -> str:
    return json.dumps([tool.definition for tool in tools], sort_keys=True)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
