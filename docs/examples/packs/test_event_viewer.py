"""An event viewer: prints the timeline of every session, as it happens."""

import pytest
from pegboard import Agent, Event, Feed, Host, RunEnd, hooks, implements, tool
from pegboard.events import Called, Returned, RunStart, Said
from pegboard.testing import ScriptedModel, call


class Viewer:
    """Follows all agents at its own pace: a slow terminal holds up no run, and sees the last line all the same."""

    @implements(hooks.host_started)
    def watch(self, host: Host) -> None:
        self.feed = host.events()
        host.start_task(show(self.feed))

    @implements(hooks.host_stopping)
    async def finish(self, host: Host) -> None:
        await self.feed.caught_up()


async def show(feed: Feed) -> None:
    async with feed:
        async for item in feed:
            if line := told(item.event):
                print(f"{item.event.session} {item.seq:>3} {line}")


def told(event: Event) -> str | None:
    match event:
        case RunStart():
            return f"run {event.run} of {event.agent} with {event.label}"
        case Said():
            return f" > {event.text}"
        case Called():
            return f" {event.name} {dict(event.arguments or {})}"
        case Returned():
            return f" {event.name}: {event.status}, {event.summary}"
        case RunEnd():
            return f"{event.reason}: {event.text}"
    return None


@tool(effect="read")
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@pytest.mark.pegboard(packs={"viewer": Viewer})
async def test_a_timeline(agent: Agent, scripted_model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> None:
    agent.tools.register(double)
    scripted_model.will(call("double", number=21), "It is 42.")

    await agent.followup("Double 21.").wait()
    await agent.host.stop()
    first, *lines = (line[13:] for line in capsys.readouterr().out.splitlines())
    assert first == "run 1 of main with scripted in the test"
    assert lines == [" > Double 21.", " double {'number': 21}", " double: ok, done", "completed: It is 42."]
