"""Reading what was recorded, in a test that does not wait."""

from pegboard.agents.agent import Agent
from pegboard.values.events import Event


def recorded(agent: Agent, *, all_of_it: bool = False) -> list[Event]:
    """Return the events of an agent's session: those that `--json` shows, or all of them.

    Works inside and outside of an event loop, with a store that answers at once, such as the one in memory.
    """
    reading = agent.host.entries(agent.id)
    try:
        reading.send(None)
    except StopIteration as read:
        return [entry.event for entry in read.value if all_of_it or entry.event.streamed]
    reading.close()
    raise TypeError("this host's store does not answer at once; use `await host.entries(agent.id)`")
