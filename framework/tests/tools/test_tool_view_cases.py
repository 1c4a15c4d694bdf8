"""What a run is told is what it may run: exposure, the off-list, the closed snapshot, and whose snapshot it is.

Scopes, layers and restrictions by themselves are in `test_scopes.py`, grants in `test_agents.py`.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pegboard import (
    Agent,
    Definition,
    Finish,
    Host,
    ModelRequest,
    Prompt,
    Step,
    Tool,
    ToolContext,
    UsageError,
    hookimpl,
    tool,
)
from pegboard.config.places import Places
from pegboard.events import Returned, RunStart, SnapshotTaken
from pegboard.testing import ScriptedModel, call, recorded
from pegboard.values.tool import Concurrency, Exposure

Main = Callable[[Host], Awaitable[None]]
EXPOSURES: tuple[Exposure, ...] = ("user-configurable", "system-model", "diagnostic", "runtime-only")


class Pack(ModuleType):
    """A pack made of functions, each the implementation of the hook that it is named after."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        super().__init__("pack")
        vars(self).update({name: hookimpl(function) for name, function in functions.items()})


def named(name: str, says: str = "", exposure: Exposure = "user-configurable") -> Tool:
    """Return a read tool of that name whose body returns `says`."""

    @tool(name=name, effect="read", exposure=exposure)
    async def body() -> str:
        """Say something."""
        return says or f"the host's {name}"

    return body


def opened(folder: Path, config: str = "", packs: Mapping[str, object] | None = None) -> Host:
    """Open a host of its own, with these packs, all of which are active."""
    folder.mkdir(exist_ok=True)
    places = Places(folder / "config.toml", folder / "state")
    places.config_file.write_text(config, "utf-8")
    host = Host.open(environ={}, distributions=[], packs=packs, places=places)
    assert [pack.reason for pack in host.packs if pack.state != "active"] == []
    return host


def live(tmp_path: Path, main: Main, *tools: str | Tool, config: str = "", **packs: object) -> None:
    """Run `main(host)` in a host whose agents see `tools`."""

    async def lived() -> None:
        async with opened(tmp_path, config, packs) as host:
            for made in tools:
                host.tools.register(named(made) if isinstance(made, str) else made)
            await main(host)

    asyncio.run(lived())


async def talk(host: Host, directory: Path, *turns: Any, **options: Any) -> tuple[Agent, ScriptedModel]:
    """Let a new agent go through one run with a model that answers with these turns, then `done`."""
    model = ScriptedModel(*turns, "done")
    agent = await host.create_agent(options.pop("definition", "main"), directory=directory, model=model, **options)
    await agent.followup("go").wait()
    return agent, model


def offered(request: ModelRequest) -> list[str]:
    """Return the names of the tools in a request."""
    return [tool.name for tool in request.tools]


def results(agent: Agent) -> list[str | None]:
    """Return what the calls of an agent came to: the content of a success, the code of anything else."""
    events = [event for event in recorded(agent) if isinstance(event, Returned)]
    return [event.content if event.status == "ok" else event.code for event in events]


def told(request: ModelRequest) -> bytes:
    """Return what a provider would send of the tools, keys in their order."""
    parts = [{"name": t.name, "description": t.description, "parameters": t.parameters} for t in request.tools]
    return json.dumps(parts, ensure_ascii=False).encode("utf-8", "surrogatepass")


# -- what a model is told (T14 to T16)


def test_tools_are_told_by_name_in_every_step_and_run_whatever_order_they_came_in(tmp_path: Path) -> None:
    """AC-T36, T15."""

    async def main(host: Host) -> None:
        agent, model = await talk(host, tmp_path, call("a"))
        model.will("again")
        agent.tools.register(named("b"))
        await agent.followup("again").wait()

        assert [offered(request) for request in model.requests] == [["a", "m", "z"]] * 2 + [["a", "b", "m", "z"]]

    live(tmp_path, main, "z", "a", "m")


@tool(effect="read")
def find(pattern: str, kinds: dict[str, list[int]] | None = None, *, limit: int = 10) -> list[str]:
    """Find something: é, "quoted".

    Args:
        pattern: What to look for.
        kinds: Which.
        limit: How many.
    """
    return []


def test_schemas_are_the_same_bytes_in_every_step_and_in_two_hosts(tmp_path: Path) -> None:
    """T16: however the tools came about: by a pack, by the program, in another order, after others that went."""
    sent: list[bytes] = []

    async def by_packs(host: Host) -> None:
        _, model = await talk(host, tmp_path, call("a"), call("z"))
        sent.extend(told(request) for request in model.requests)

    async def by_the_program(host: Host) -> None:
        gone = host.tools.register(named("gone"))
        for made in (find, named("z"), named("a")):
            host.tools.register(made)
        gone()
        _, model = await talk(host, tmp_path)
        sent.extend(told(request) for request in model.requests)

    pack = Pack(register_tools=lambda: [named("a"), find, named("z")])
    live(tmp_path / "one", by_packs, bench=pack)
    live(tmp_path / "two", by_the_program)

    assert (len(sent), set(sent)) == (4, {sent[0]})


SENT = """
import json
from dataclasses import dataclass
from typing import Literal
from pegboard import tool

@dataclass
class Place:
    line: int
    kind: Literal["file", "folder", "link"]
    tags: set[str]

@tool(effect="read")
def look(place: Place, depth: Literal["deep", "flat"] = "flat", tags: frozenset[int] = frozenset()) -> str:
    '''Look at a place.'''

print(look.hash, json.dumps(look.parameters))
"""


def test_schemas_are_the_same_bytes_in_two_processes(tmp_path: Path) -> None:
    """T16: no order of a set gets into them."""
    printed = {
        subprocess.run(
            [sys.executable, "-c", SENT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(printed) == 1


def test_nothing_of_the_view_changes_while_nothing_is_registered(tmp_path: Path) -> None:
    """Rule 1: what a provider derives from the tools may be cached by their identity, across runs and agents."""

    async def main(host: Host) -> None:
        requests = [request for _ in range(2) for request in (await talk(host, tmp_path, call("a")))[1].requests]

        assert (len(requests), {id(request.tools) for request in requests}) == (4, {id(requests[0].tools)})

    live(tmp_path, main, "a", "b")


def test_a_prompt_may_be_given_in_any_order_and_the_tools_stay_in_theirs(tmp_path: Path) -> None:
    """T15."""
    turned = Pack(
        assemble_prompt=lambda prompt: replace(prompt, tools=prompt.tools[::-1]) if prompt.phase == "snapshot" else None
    )

    async def main(host: Host) -> None:
        _, model = await talk(host, tmp_path)

        assert offered(model.requests[0]) == ["a", "b", "c"]

    live(tmp_path, main, "a", "b", "c", pack=turned)


# -- exposure and the off-list (rule 5, TS4 to TS6, TS16)


@pytest.mark.parametrize("off", [False, True])
@pytest.mark.parametrize("exposure", EXPOSURES)
def test_a_model_is_told_and_may_call_what_its_exposure_says(tmp_path: Path, exposure: Exposure, off: bool) -> None:
    """Rule 5, TS4, TS5, TS6: the off-list counts for what is user-configurable, and for nothing else."""
    shown = exposure == "system-model" or (exposure == "user-configurable" and not off)

    async def main(host: Host) -> None:
        agent, model = await talk(host, tmp_path, call("x"), call("y"))

        assert offered(model.requests[0]) == ["x", "y"] if shown else ["y"]
        assert results(agent) == ["ran" if shown else "UNKNOWN_TOOL", "the host's y"]

    config = '[tools]\noff = ["x", "nobody"]' if off else ""
    live(tmp_path, main, named("x", "ran", exposure), "y", config=config)


@pytest.mark.parametrize("exposure", ["diagnostic", "runtime-only"])
def test_nobody_is_asked_about_what_no_model_may_see(tmp_path: Path, exposure: Exposure) -> None:
    """Rule 5, TS5, T22: a model's call of it is that of a tool which is not there; its body and all guards rest."""
    asked: list[str] = []

    async def main(host: Host) -> None:
        agent, _ = await talk(host, tmp_path, call("hidden"))

        (hidden,) = [event for event in recorded(agent) if isinstance(event, Returned)]
        assert hidden.content.startswith('Error: unknown tool "hidden"')
        assert (hidden.pack, asked) == (None, [])

    guard = Pack(guard_tool_call=lambda call: asked.append(call.name))
    live(tmp_path, main, named("hidden", exposure=exposure), pack=guard)


def test_switching_off_leaves_all_others_and_counts_for_an_agents_own_tools_too(tmp_path: Path) -> None:
    """TS4, rule 13: an empty list switches nothing off."""

    async def main(host: Host) -> None:
        agent = await host.create_agent(directory=tmp_path)
        agent.tools.register(named("exec", "own"))
        agent.tools.register(named("mine", "own"))

        assert agent.view().names == ("mine", "write")
        assert (await agent.call_tool("exec")).code == "UNKNOWN_TOOL"

    async def none_off(host: Host) -> None:
        assert (await host.create_agent(directory=tmp_path)).view().names == ("exec", "read", "write")

    live(tmp_path / "some", main, "read", "exec", "write", config='[tools]\noff = ["read", "exec"]')
    live(tmp_path / "none", none_off, "read", "exec", "write", config="[tools]\noff = []")


def test_it_is_the_nearest_tool_of_a_name_whose_exposure_counts(tmp_path: Path) -> None:
    """Rule 5, T7: an agent's own tool that the off-list does not concern stands in the place of one that is off."""

    async def main(host: Host) -> None:
        agent = await host.create_agent(directory=tmp_path)
        before = agent.view().names
        undo = agent.tools.register(named("plan", "own", "system-model"))
        during = await agent.call_tool("plan")
        undo()

        assert (before, during.content, agent.view().names) == ((), "own", ())

    live(tmp_path, main, "plan", config='[tools]\noff = ["plan"]')


ODD_NAMES = ("__proto__", "__class__", "__init__", "constructor", "toString", "hasOwnProperty", "get", "names", "")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_that_every_object_has_is_just_a_name(tmp_path: Path, name: str) -> None:
    """TS16: looking it up finds nothing, neither for a call, nor for a grant, a restriction or the off-list."""

    async def main(host: Host) -> None:
        agent, _ = await talk(host, tmp_path, call(name), definition=Definition(tools=("x", name)))

        assert (agent.view().names, results(agent)) == (("x",), ["UNKNOWN_TOOL"])
        with pytest.raises(UsageError, match="no inherited tool"):
            agent.restrict(allow=[name])

    live(tmp_path, main, "x", config=f'[tools]\noff = ["{name}"]')


@pytest.mark.parametrize("name", ["constructor", "get", "names", "proto__"])
def test_a_tool_of_any_lawful_name_is_user_configurable_unless_it_says_otherwise(tmp_path: Path, name: str) -> None:
    """TS16."""

    async def main(host: Host) -> None:
        agent, model = await talk(host, tmp_path, call(name))

        assert (offered(model.requests[0]), results(agent)) == ([name], ["ran"])
        assert host.snapshot().offered[0].tool.exposure == "user-configurable"

    async def off(host: Host) -> None:
        assert (await host.create_agent(directory=tmp_path)).view().names == ()

    live(tmp_path / "on", main, named(name, "ran"))
    live(tmp_path / "off", off, named(name, "ran"), config=f'[tools]\noff = ["{name}"]')


def test_no_tool_has_a_name_that_is_magic(tmp_path: Path) -> None:
    """TS16, rule 4."""
    for name in ("__proto__", "__class__", "toString", "hasOwnProperty", ""):
        with pytest.raises(TypeError, match="a name is a lower-case letter"):
            named(name or "\0")


# -- what is registered during a run comes with the next message (rule 3)


@tool(effect="read")
async def widen(ctx: ToolContext) -> str:
    """Do what the test says."""
    _WIDENING[-1]()
    return "widened"


_WIDENING: list[Callable[[], object]] = []


async def _widen_by(agent: Agent, how: str) -> Callable[[], object]:
    """Prepare one way to give an agent a tool `late`; returns what does it."""
    host = agent.host
    if how == "another definition":
        return lambda: host.start_task(host.rebind(agent, Definition()))
    if how == "a lifted restriction":
        host.tools.register(named("late"))
        return agent.restrict(deny=["late"])
    if how == "the host":
        return lambda: host.tools.register(named("late"))
    return lambda: agent.tools.register(named("late", "the host's late"))


@pytest.mark.parametrize("how", ["the agent", "the host", "a lifted restriction", "another definition"])
def test_what_a_body_adds_is_told_and_run_from_the_next_message_on(tmp_path: Path, how: str) -> None:
    """Rule 3, rule 1: however a view is widened, and nothing widens a run under way."""

    async def main(host: Host) -> None:
        model = ScriptedModel(call("widen"), call("late"), "one", call("late"), "two")
        definition = Definition(tools=("widen",)) if how == "another definition" else Definition()
        if how == "another definition":
            host.tools.register(named("late"))
        agent = await host.create_agent(definition, directory=tmp_path, model=model)
        _WIDENING[:] = [await _widen_by(agent, how)]
        await agent.followup("first").wait()
        await agent.followup("second").wait()

        assert [offered(request) for request in model.requests] == [["widen"]] * 3 + [["late", "widen"]] * 2
        assert results(agent) == ["widened", "UNKNOWN_TOOL", "the host's late"]

    live(tmp_path, main, widen)


def test_a_run_is_recorded_with_exactly_the_tools_that_it_was_told(tmp_path: Path) -> None:
    """Rule 3: name and hash of each, anew only when they differ."""

    async def main(host: Host) -> None:
        agent, model = await talk(host, tmp_path, call("a"))
        model.will("again", "and again")
        await agent.followup("again").wait()
        agent.tools.register(named("b"))
        await agent.followup("and again").wait()

        events = recorded(agent, all_of_it=True)
        starts = [event for event in events if isinstance(event, RunStart)]
        taken = [event for event in events if isinstance(event, SnapshotTaken)]
        assert [start.tools for start in starts] == [("a",), ("a",), ("a", "b")]
        assert [snapshot.hash for snapshot in taken] == [starts[0].hash, starts[2].hash]
        for snapshot, request in zip(taken, (model.requests[0], model.requests[-1]), strict=True):
            assert [(one["name"], one["hash"]) for one in snapshot.tools] == [(t.name, t.hash) for t in request.tools]

    live(tmp_path, main, "a")


def test_the_whole_definitions_are_kept_as_the_same_bytes_by_every_host(tmp_path: Path) -> None:
    """T16, rule 3: what a model was told can be read from the record alone."""
    keys: list[str] = []

    async def main(host: Host) -> None:
        agent, model = await talk(host, tmp_path)
        (taken,) = [event for event in recorded(agent, all_of_it=True) if isinstance(event, SnapshotTaken)]
        kept = json.loads(await (await host.store()).get_blob(taken.definitions))
        keys.append(taken.definitions)

        assert kept == [json.loads(json.dumps(one.as_json())) for one in agent.view().offered]
        assert [(one["name"], one["parameters"]) for one in kept] == [
            (told.name, told.parameters) for told in model.requests[0].tools
        ]

    live(tmp_path / "one", main, find, "a", "z")
    live(tmp_path / "two", main, "z", "a", find)

    assert (len(keys), len(set(keys))) == (2, 1)


# -- narrowing is live (rule 3, TS13, TS14)

Narrow = Callable[[Host, Agent], Awaitable[object]]


async def _restrict(host: Host, agent: Agent) -> None:
    agent.restrict(deny=["t"])


async def _restrict_the_parent(host: Host, agent: Agent) -> None:
    assert agent.parent is not None
    agent.parent.restrict(deny=["t"])


async def _unload(host: Host, agent: Agent) -> None:
    await host.unload_pack("brings")


async def _shadow(host: Host, agent: Agent) -> None:
    agent.tools.register(named("t", "another"))


async def _replace(host: Host, agent: Agent) -> None:
    await host.unload_pack("brings")
    host.tools.register(named("t", "another"))


NARROWING: dict[str, tuple[Narrow, str]] = {
    "restricted": (_restrict, "a restriction of this program hides it"),
    "its parent is restricted": (_restrict_the_parent, "a restriction of this program hides it"),
    "its pack is unloaded": (_unload, "whoever brought it took it away"),
    "shadowed": (_shadow, "this program brought another tool of its name"),
    "replaced by an equal one": (_replace, "this program brought another tool of its name"),
}


@pytest.mark.parametrize("how", NARROWING)
def test_a_tool_that_is_withdrawn_during_a_run_fails_at_the_call_and_says_why(tmp_path: Path, how: str) -> None:
    """Rule 3, TS14, TS17, AC-T04: what the model was told stays as it was, the others still run."""

    async def main(host: Host) -> None:
        parent = await host.create_agent(directory=tmp_path)
        model = ScriptedModel(call("t"), call("t"), call("other"), "done")
        agent = await host.create_agent(parent=parent, model=model)

        async def narrow(step: Step) -> None:
            if step.number == 2:
                await NARROWING[how][0](host, agent)

        agent.register(Pack(agent_pre_step=narrow))
        await agent.followup("go").wait()

        assert [offered(request) for request in model.requests] == [["other", "t"]] * 4
        assert results(agent) == ["the pack's", "WITHDRAWN", "the host's other"]
        withdrawn = [event for event in recorded(agent) if isinstance(event, Returned)][1]
        assert withdrawn.content == f"Error: `t` was withdrawn: {NARROWING[how][1]}"

    live(tmp_path, main, "other", brings=Pack(register_tools=lambda: [named("t", "the pack's")]))


@pytest.mark.parametrize("concurrency", ["parallel", "exclusive"])
def test_a_tool_that_a_call_takes_away_is_gone_for_the_next_call_of_the_reply(
    tmp_path: Path, concurrency: Concurrency
) -> None:
    """Rule 3, T38, T45: what runs alone is looked up when its turn has come."""

    async def main(host: Host) -> None:
        @tool(effect="read", concurrency=concurrency)
        async def take() -> str:
            """Take a tool away."""
            undo()
            return "taken"

        host.tools.register(take)
        undo = host.tools.register(named("t"))
        agent, _ = await talk(host, tmp_path, [call("t"), call("take"), call("t"), Finish()])

        assert results(agent) == ["the host's t", "taken", "WITHDRAWN"]

    live(tmp_path, main)


def test_a_tool_that_comes_back_as_it_was_may_be_called_again(tmp_path: Path) -> None:
    """Rule 3: the live view decides at each call."""

    async def main(host: Host) -> None:
        model = ScriptedModel(call("t"), call("t"), "done")
        agent = await host.create_agent(directory=tmp_path, model=model)
        lift = agent.restrict(deny=["t"])
        lift()
        undo = [lambda: None]

        def change(step: Step) -> None:
            undo[0]()
            if step.number == 1:
                undo[0] = agent.restrict(deny=["t"])

        agent.register(Pack(agent_pre_step=change))
        await agent.followup("go").wait()

        assert results(agent) == ["WITHDRAWN", "the host's t"]

    live(tmp_path, main, "t")


def test_a_tool_that_is_withdrawn_while_its_body_runs_ends_as_it_ends(tmp_path: Path) -> None:
    """Rule 9: a started body is awaited; the next call of it fails."""

    async def main(host: Host) -> None:
        @tool(effect="read")
        async def leave() -> str:
            """Take itself away."""
            undo()
            return "left"

        undo = host.tools.register(leave)
        agent, _ = await talk(host, tmp_path, call("leave"), call("leave"))

        assert results(agent) == ["left", "WITHDRAWN"]

    live(tmp_path, main)


# -- a run executes only what is in its own session's snapshot (rule 2, TS8 to TS10, TS15)


@pytest.mark.parametrize("first", ["a", "b"])
def test_no_agent_ever_runs_what_another_one_was_told(tmp_path: Path, first: str) -> None:
    """TS8: whoever published last, and while both are under way."""

    async def main(host: Host) -> None:
        models = {name: ScriptedModel(call("x"), call("question"), "done") for name in "ab"}
        agents = {name: await host.create_agent(directory=tmp_path, model=models[name]) for name in "ab"}
        agents["b"].restrict(deny=["question"])
        for name in "ab":
            agents[name].tools.register(named("x", f"{name}'s x"))
        agents["a"].tools.register(named("y"))
        order = ("a", "b") if first == "a" else ("b", "a")
        await asyncio.gather(*[agents[name].followup("go").wait() for name in order])

        assert [offered(models[name].requests[0]) for name in "ab"] == [["question", "x", "y"], ["x"]]
        assert results(agents["a"]) == ["a's x", "the host's question"]
        assert results(agents["b"]) == ["b's x", "UNKNOWN_TOOL"]

    live(tmp_path, main, "question")


def test_a_session_without_an_agent_has_no_tools_to_run(tmp_path: Path) -> None:
    """TS8, TS15: an unknown session and one whose agent is gone fall back on nobody's snapshot."""

    async def main(host: Host) -> None:
        agent, _ = await talk(host, tmp_path, call("x"))
        await agent.dispose()

        for session in (agent.id, "5e551015e551015e"):
            with pytest.raises(UsageError, match="has no live agent"):
                host.submit_call(session, call("x"))

    live(tmp_path, main, "x")


def test_an_agent_that_goes_away_before_its_call_calls_nothing(tmp_path: Path) -> None:
    """TS15: nobody is asked about it, and no body runs."""
    asked: list[str] = []

    async def main(host: Host) -> None:
        @tool(effect="read")
        async def leave(ctx: ToolContext) -> str:
            """End the agent that calls it."""
            host.start_task(agent.dispose())
            return await ctx.cancel.wait()

        host.tools.register(leave)
        model = ScriptedModel([call("leave"), call("x"), Finish()])
        agent = await host.create_agent(directory=tmp_path, model=model)
        end = await agent.followup("go").wait()

        assert (end.reason, end.text) == ("aborted", "the agent was disposed of")
        assert results(agent) == ["ABORTED", "ABORTED_BEFORE_DISPATCH"]
        assert "x" not in asked

    live(tmp_path, main, "x", pack=Pack(guard_tool_call=lambda call: asked.append(call.name)))


def test_what_a_draft_was_shown_is_what_its_first_run_has(tmp_path: Path) -> None:
    """TS9, rule 2: a draft's snapshot carries over on first write; before that nothing is recorded."""

    async def main(host: Host) -> None:
        model = ScriptedModel(call("x"), "done")
        agent = await host.create_agent(directory=tmp_path, model=model)
        shown = await host.preview(agent)
        assert list(await host.entries(agent.id)) == []
        run = agent.followup("go")
        await run.wait()

        (taken,) = [event for event in recorded(agent, all_of_it=True) if isinstance(event, SnapshotTaken)]
        assert (run.snapshot is shown, taken.hash, results(agent)) == (True, shown.hash, ["the host's x"])

    live(tmp_path, main, "x")


@pytest.mark.parametrize("pack", ["none", "slow"])
def test_several_snapshots_of_one_session_at_once_are_each_complete(tmp_path: Path, pack: str) -> None:
    """TS10: and a later call works."""

    async def dawdle(prompt: Prompt) -> Prompt:
        await asyncio.sleep(0)
        return prompt.adding("slow", "text") if prompt.phase == "snapshot" else prompt

    async def main(host: Host) -> None:
        agent = await host.create_agent(directory=tmp_path)
        snapshots = await asyncio.gather(*[host.preview(agent) for _ in range(3)])

        assert [snapshot.names for snapshot in snapshots] == [("a", "b", "c")] * 3
        assert len({snapshot.hash for snapshot in snapshots}) == 1
        assert (await agent.call_tool("c")).content == "the host's c"

    packs: dict[str, Any] = {"slow": Pack(assemble_prompt=dawdle)} if pack == "slow" else {}
    live(tmp_path, main, "a", "b", "c", **packs)


def test_an_absent_list_of_tools_stays_absent_wherever_a_definition_goes(tmp_path: Path) -> None:
    """TS18, rule 13: through the configuration, a rebind and the record."""

    async def main(host: Host) -> None:
        host.tools.register(named("x"))
        free, none = [await host.create_agent(name, directory=tmp_path) for name in ("free", "none")]
        before = free.view().names, none.view().names
        await host.rebind(free, Definition.model_validate(host.definition("free").model_dump(mode="json")))
        await host.rebind(none, Definition.model_validate(host.definition("none").model_dump(mode="json")))

        assert before == (free.view().names, none.view().names) == (("x",), ())

    live(tmp_path, main, config='[agents.free]\nprompt = "p"\n[agents.none]\ntools = []')


# -- what was advertised is what could run

NAMES = "abcd"
names = st.frozensets(st.sampled_from(NAMES), max_size=3)
filters = st.tuples(st.none() | names, names).filter(lambda f: f != (None, frozenset()))
changes = st.one_of(
    st.tuples(st.just("host"), st.sampled_from(NAMES), st.sampled_from(EXPOSURES)),
    st.tuples(st.just("own"), st.sampled_from(NAMES), st.sampled_from(EXPOSURES)),
    st.tuples(st.just("restrict"), filters, st.none()),
    st.tuples(st.just("restrict parent"), filters, st.none()),
    st.tuples(st.just("undo"), st.integers(0, 30), st.none()),
)
Change = tuple[str, Any, Any]


@dataclass
class Truth:
    """What the rules say that an agent sees, kept apart from the product: no layers, no caches, no views."""

    off: frozenset[str]
    grant: frozenset[str] | None
    entries: list[tuple[str, Any] | None]

    def of(self, owner: str) -> dict[str, Tool]:
        """Return the tools that were registered there."""
        return {entry[1].name: entry[1] for entry in self.entries if entry is not None and entry[0] == owner}

    def view(self) -> dict[str, Tool]:
        """Rule 1: inherited as far as every filter admits it, then its own; then the off-list and the grant."""
        filters = [entry[1] for entry in self.entries if entry is not None and entry[0].startswith("restrict")]
        seen = {
            name: tool
            for name, tool in self.of("host").items()
            if all((allow is None or name in allow) and name not in deny for allow, deny in filters)
        }
        seen.update(self.of("own"))
        return {
            name: tool
            for name, tool in seen.items()
            if (self.grant is None or name in self.grant)
            and not (name in self.off and tool.exposure == "user-configurable")
        }

    def shown(self) -> dict[str, Tool]:
        """Return what a model may be told of it (rule 5)."""
        return {n: t for n, t in self.view().items() if t.exposure in ("user-configurable", "system-model")}


class Life:
    """An agent below another one, and the truth about it; each change is done to both."""

    def __init__(self, truth: Truth, agent: Agent) -> None:
        self.truth = truth
        self.agent = agent
        self.ran: list[Tool] = []
        self.undo: list[Callable[[], None]] = []

    def register(self, owner: str, name: str, exposure: Exposure) -> None:
        """Register a new tool of the name, unless that owner has one."""
        if name in self.truth.of(owner):
            return

        @tool(name=name, effect="read", exposure=exposure)
        async def body(step: int) -> str:
            """Say that it ran."""
            self.ran.append(body)
            return "ran"

        registry = self.agent.host.tools if owner == "host" else self.agent.tools
        self.undo.append(registry.register(body))
        self.truth.entries.append((owner, body))

    def restrict(self, owner: str, allow: frozenset[str] | None, deny: frozenset[str]) -> None:
        """Restrict the agent or its parent to some of what is inherited."""
        inherited = self.truth.of("host").keys()
        allow, deny = (None if allow is None else allow & inherited), deny & inherited
        agent = self.agent if owner == "restrict" else self.agent.parent
        assert agent is not None
        self.undo.append(agent.restrict(allow=allow, deny=deny))
        self.truth.entries.append((owner, (allow, deny)))

    def apply(self, change: Change) -> None:
        """Do one change."""
        kind, what, more = change
        if kind in ("host", "own"):
            self.register(kind, what, more)
        elif kind != "undo":
            self.restrict(kind, *what)
        elif self.undo:
            self.undo[what % len(self.undo)]()
            self.truth.entries[what % len(self.undo)] = None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    off=names,
    grant=st.none() | names,
    before=st.lists(changes, max_size=8),
    steps=st.lists(st.tuples(st.lists(changes, max_size=2), st.sampled_from(NAMES)), min_size=1, max_size=5),
)
@example(frozenset(), None, [("host", "a", "user-configurable")], [([("own", "a", "user-configurable")], "a")])
@example(frozenset("a"), frozenset("ab"), [("host", "a", "system-model"), ("host", "b", "diagnostic")], [([], "a")])
def test_a_call_is_executed_if_and_only_if_it_was_advertised_and_still_is_there(
    tmp_path: Path,
    off: frozenset[str],
    grant: frozenset[str] | None,
    before: Sequence[Change],
    steps: Sequence[tuple[Iterable[Change], str]],
) -> None:
    """Rules 1 to 3, T12, T38: one resolver feeds schemas, look-up and execution."""

    async def main(host: Host) -> None:
        # Other arguments each time, so that no call looks like the one before it.
        model = ScriptedModel(*[call(name, step=number) for number, (_, name) in enumerate(steps)], "done")
        parent = await host.create_agent(directory=tmp_path)
        agent = await host.create_agent(parent=parent, grant=NAMES if grant is None else grant, model=model)
        life = Life(Truth(off, grant, []), agent)
        for one in before:
            life.apply(one)
        snapshot = life.truth.shown()
        expected: list[tuple[bool, Tool | None]] = []

        def meanwhile(step: Step) -> None:
            if step.number > len(steps):
                return
            for one in steps[step.number - 1][0]:
                life.apply(one)
            name = steps[step.number - 1][1]
            still = name in snapshot and life.truth.view().get(name) is snapshot[name]
            expected.append((name in snapshot, snapshot[name] if still else None))

        agent.register(Pack(agent_pre_step=meanwhile))
        await agent.followup("go").wait()

        assert [offered(request) for request in model.requests] == [sorted(snapshot)] * (len(steps) + 1)
        assert life.ran == [made for _, made in expected if made is not None]
        codes = ["ran" if made else "WITHDRAWN" if known else "UNKNOWN_TOOL" for known, made in expected]
        assert results(agent) == codes

    live(tmp_path, main, config=f"[tools]\noff = {json.dumps(sorted(off))}")
