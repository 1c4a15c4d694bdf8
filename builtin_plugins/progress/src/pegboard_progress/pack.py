"""The pack's hooks: it follows each session's replies and results, and speaks up when they repeat."""

from collections.abc import Awaitable
from dataclasses import dataclass, field

from pegboard import (
    Accept,
    Agent,
    EndRun,
    Event,
    ModelReply,
    ModelRequest,
    Outcome,
    ProceedModel,
    Run,
    ToolCall,
    ToolResult,
    ToolRun,
    hooks,
    implements,
)
from pegboard.events import Replied, Returned, RunStart
from pegboard.folds import result_of

from pegboard_progress.repeats import CORRECTION, Repeats

_TRUNCATED = "TRUNCATED"


@dataclass(slots=True)
class _Turn:
    """What a session's newest turn has come to: its last reply's calls, their results so far, and the count."""

    repeats: Repeats = field(default_factory=Repeats)
    calls: tuple[ToolCall, ...] = ()
    results: dict[str, ToolResult] = field(default_factory=dict)
    judged: bool = False
    stop: bool = False

    def take(self, event: Event) -> None:
        """Follow the record by one event."""
        if isinstance(event, Replied):
            self.calls, self.results, self.judged = event.calls, {}, False
        elif isinstance(event, Returned):
            self.results[event.id] = result_of(event)
            if len(self.results) == len(self.calls) and not self.judged:
                self.judge()

    def judge(self) -> bool:
        """Compare a batch whose results are all there with those before it; returns whether the model is to be told."""
        self.judged = True
        results = [self.results[call.id] for call in self.calls if call.id in self.results]
        if any(result.code == _TRUNCATED for result in results):
            return False  # nothing of it ran
        verdict = self.repeats.take(self.calls, results)
        self.stop = verdict == "stop"
        return verdict == "correct"


class Progress:
    """One `_Turn` for each live session; all of it is a fold of the record, so a restart goes on counting."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}

    @implements(hooks.run_starting)
    async def read_what_went_before(self, run: Run) -> None:
        """Count what the turn that this run goes on with did in another process."""
        session = run.agent.id
        if run.resumes and session not in self._turns:
            for entry in await run.agent.host.entries(session):
                self.follow(entry.event)

    @implements(hooks.observe)
    def follow(self, event: Event) -> None:
        """Follow every session; a run that goes on with a paused one keeps its count."""
        if isinstance(event, RunStart) and not event.resumes:
            self._turns[event.session] = _Turn()
        elif turn := self._turns.get(event.session):
            turn.take(event)

    @implements(hooks.tool_post_execute)
    def tell_the_model(self, call: ToolRun, result: Outcome) -> Accept | None:
        """Judge a batch with its last result, and say beside it that it repeats the one before."""
        turn = self._turns.get(call.agent.id)
        if turn is None or len(turn.results) + 1 != len(turn.calls) or all(one.id != call.id for one in turn.calls):
            return None
        last = ToolResult(call.id, call.name, result.status, result.content, result.summary, result.code)
        turn.results[call.id] = last
        return Accept(contexts=(CORRECTION,)) if turn.judge() else None

    @implements(hooks.wrap_model_call)
    def stop_the_run(self, request: ModelRequest, proceed: ProceedModel) -> Awaitable[ModelReply]:
        """Ask the model no more when it has repeated itself often enough."""
        turn = self._turns.get(request.session)
        if turn is not None and turn.stop:
            raise EndRun("limit", "the run was stopped: the model repeats the same calls, with the same results")
        return proceed(request)

    @implements(hooks.agent_disposed)
    def forget(self, agent: Agent) -> None:
        """Keep nothing of a session that has no agent any more."""
        self._turns.pop(agent.id, None)
