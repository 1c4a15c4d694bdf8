"""A ticket tool: two tools that share what the pack was given in its settings."""

from collections.abc import Iterable
from typing import Literal

import pytest
from pegboard import Agent, Tool, ToolError, hooks, implements, tool
from pydantic import BaseModel


class Settings(BaseModel):
    """`[packs.tickets]`."""

    tracker: str = "printers"


class Tickets:
    """Lists and closes tickets of one tracker."""

    def __init__(self, settings: Settings) -> None:
        self.tracker = settings.tracker
        self.status = {"T-1": "open", "T-2": "closed"}

    @implements(hooks.register_tools)
    def tools(self) -> Iterable[Tool]:
        @tool(effect="read", concurrency="parallel", examples=["Which tickets are open?"])
        def list_tickets(status: Literal["open", "closed"] = "open") -> list[str]:
            """List tickets of the tracker.

            Args:
                status: Which tickets.
            """
            return [f"{self.tracker}/{ticket}" for ticket, is_ in self.status.items() if is_ == status]

        @tool
        def close_ticket(ticket: str) -> str:
            """Close an open ticket."""
            if self.status.get(ticket) != "open":
                raise ToolError(f"{ticket} is not open; list_tickets says which are")
            self.status[ticket] = "closed"
            return f"{ticket} is closed"

        return list_tickets, close_ticket


@pytest.mark.pegboard(packs={"tickets": Tickets}, config="[packs.tickets]\ntracker = 'scanners'")
async def test_tickets_are_listed_freely_and_closed_with_a_yes(agent: Agent) -> None:
    assert "scanners/T-1" in (await agent.call_tool("list_tickets")).content
    assert (await agent.call_tool("list_tickets", {"status": "lost"})).code == "INVALID_ARGS"
    assert (await agent.call_tool("close_ticket", {"ticket": "T-1"})).status == "denied"

    assert (await agent.call_tool("close_ticket", {"ticket": "T-1"}, allow_writes=True)).status == "ok"
    again = await agent.call_tool("close_ticket", {"ticket": "T-1"}, allow_writes=True)
    assert again.content == "Error: T-1 is not open; list_tickets says which are"
