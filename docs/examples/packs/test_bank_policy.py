"""A bank's policy: a small transfer is free, for any other write a person is asked, and no teller moves a huge sum."""

import pytest
from pegboard import Agent, Answer, Ask, Deny, GuardedCall, Host, hooks, implements, tool
from pegboard.testing import ScriptedModel, call
from pydantic import BaseModel


class Settings(BaseModel):
    """`[packs.bank]`: the amounts above which a person is asked, and above which a teller is refused."""

    ask_above: int = 100
    never_above: int = 10_000


class Bank:
    """Claims policy: nobody asks about writes but this pack, so it has to, whatever the write and whoever the agent."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @implements(hooks.guard_tool_call)
    def ask(self, call: GuardedCall) -> Ask | None:
        small = call.name == "transfer" and 0 < call.arguments["amount"] <= self.settings.ask_above
        return None if small or call.tool.effect == "read" else Ask(f"{call.name} needs a yes", person=True)

    @implements(hooks.agent_created)
    def bind(self, agent: Agent) -> None:
        if agent.name == "teller":
            agent.register(Ceiling(self.settings.never_above))


class Ceiling:
    """Binds one agent. What guards an agent guards its children too, whatever their definition."""

    def __init__(self, highest: int) -> None:
        self.highest = highest

    @implements(hooks.guard_tool_call)
    def refuse(self, call: GuardedCall) -> Deny | None:
        amount = call.arguments["amount"] if call.name == "transfer" else 0
        return Deny(f"no teller moves {amount}") if amount > self.highest else None


@pytest.mark.pegboard(packs={"bank": Bank}, policy=["bank"], config="[agents.teller]")
async def test_a_tellers_helper_is_bound_like_the_teller(host: Host) -> None:
    @tool
    def transfer(amount: int) -> str:
        """Transfer money."""
        return f"{amount} moved"

    host.tools.register(transfer)
    model = ScriptedModel(*(call("transfer", amount=amount) for amount in (10, 1_000, 100_000)), "Done.")
    helper = await host.create_agent(parent=await host.create_agent("teller"), model=model)
    run = host.submit(helper, "Pay.", on_ask="wait")
    asked = await host.next_interaction()
    await host.answer(asked.session, asked.id, Answer.yes())
    assert (asked.pack, asked.arguments["amount"], (await run.wait()).denied) == ("bank", 1_000, 1)
    assert ["moved" in repr(request.messages[-1]) for request in model.requests[1:]] == [True, True, False]
