"""A cost guard: what an agent and all its children use is limited, and nothing more is asked or called after that."""

import pegboard as pb
import pytest
from pegboard import Agent, Deny, EndRun, GuardedCall, ModelReply, ModelRequest, ProceedModel, hooks, implements
from pegboard.testing import ScriptedModel, call
from pydantic import BaseModel


class Settings(BaseModel):
    """`[packs.budget]`: how many tokens an agent of a person may use, with everything that it starts."""

    tokens: int = 100_000


class Budget:
    """Stops before the request that nothing is left for, and refuses the calls of the reply that took the last."""

    def __init__(self, settings: Settings) -> None:
        self.tokens = settings.tokens

    def spent(self, usage: pb.Usage) -> str | None:
        used = usage.input_tokens + usage.output_tokens
        return f"{used} of {self.tokens} tokens are used" if used >= self.tokens else None

    @implements(hooks.wrap_model_call, tryfirst=True)
    async def stop(self, request: ModelRequest, proceed: ProceedModel) -> ModelReply:
        if spent := self.spent(request.usage):
            raise EndRun("limit", spent)
        return await proceed(request)

    @implements(hooks.guard_tool_call)
    def refuse(self, call: GuardedCall) -> Deny | None:
        return Deny(spent) if (spent := self.spent(call.agent.root.usage)) else None


@pb.tool(effect="read")
def look() -> str:
    """Look around."""
    return "a room"


@pytest.mark.pegboard(packs={"budget": Budget}, config="[packs.budget]\ntokens = 100")
async def test_a_run_ends_when_its_tokens_are_spent(agent: Agent, scripted_model: ScriptedModel) -> None:
    agent.tools.register(look)
    scripted_model.will(
        (call("look"), pb.Finish(pb.Usage(50, 10))), (call("look"), pb.Finish(pb.Usage(70, 10))), "Never said."
    )

    end = await agent.followup("Look twice.").wait()

    assert (end.calls, end.denied, len(scripted_model.requests)) == (2, 1, 2)
    assert (end.reason, end.text) == ("limit", "140 of 100 tokens are used")
    assert (await agent.call_tool("look")).code == "DENIED"
    child = await agent.host.create_agent(parent=agent, model=ScriptedModel("Never said either."))
    assert (await child.followup("Look for me.").wait()).reason == "limit"
