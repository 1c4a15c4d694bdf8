"""Who sees what: scopes, their layers, the views through them, and that everything goes away with its owner."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pegboard import Agent, Deny, GuardedCall, Host, Tool, ToolView, UsageError, hooks, implements, tool
from pegboard.base.errors import Disposed
from pegboard.base.scopes import Disposer, Layered, Scope
from pegboard.config.places import Places
from pegboard.tools.registry import ToolRegistry

Entries = tuple[tuple[str, ...], ...]
Main = Callable[[Host, Agent, Agent], Awaitable[None]]


def seen(layers: Sequence[Sequence[str]], own: bool) -> tuple[Entries, bool]:
    """Resolve a view that shows what it was made from."""
    return tuple(map(tuple, layers)), own


def fail(text: str) -> None:
    """Raise."""
    raise RuntimeError(text)


def flat(view: tuple[Entries, bool]) -> list[str]:
    """Return the entries of a view, the farthest layer first."""
    return [entry for layer in view[0] for entry in layer]


def named(name: str, says: str = "") -> Tool:
    """Return a tool of that name whose body returns `says`."""

    @tool(name=name, effect="read")
    async def body() -> str:
        """Say something."""
        return says or name

    return body


def two_agents(tmp_path: Path, main: Main, *tools: str, **packs: object) -> None:
    """Run `main(host, a, b)` in a host whose agents see `tools`."""

    async def lived() -> None:
        async with Host.open(environ={}, distributions=[], packs=packs, places=places(tmp_path)) as host:
            for name in tools:
                host.tools.register(named(name, f"host's {name}"))
            a, b = [await host.create_agent(directory=tmp_path) for _ in "ab"]
            await main(host, a, b)

    asyncio.run(lived())


def places(tmp_path: Path) -> Places:
    """Return places that nobody else uses."""
    return Places(tmp_path / "config.toml", tmp_path / "state")


async def content(agent: Agent, name: str) -> str:
    """Call a tool without arguments; returns what a model would read."""
    return (await agent.call_tool(name)).content


# -- scopes: what they own (T2 to T4)


def test_a_disposer_undoes_once_however_often_it_is_called() -> None:
    """T4."""
    undone: list[str] = []
    scope = Scope("s")
    dispose = scope.effect(lambda: undone.append("effect"))

    dispose()
    dispose()
    scope.dispose()

    assert undone == ["effect"]


def test_disposing_a_scope_undoes_the_rest_newest_first_and_only_once() -> None:
    """T4."""
    undone: list[int] = []
    scope = Scope("s")
    disposers = [scope.effect(partial(undone.append, n)) for n in range(4)]

    disposers[1]()
    scope.dispose()
    scope.dispose()
    disposers[3]()

    assert undone == [1, 3, 2, 0]


def test_an_undo_that_raises_starves_no_other_and_the_first_error_is_raised() -> None:
    """T4."""
    undone: list[str] = []
    scope = Scope("s")
    scope.effect(lambda: undone.append("oldest"))
    scope.effect(partial(fail, "older"))
    scope.effect(partial(fail, "newest"))

    with pytest.raises(RuntimeError, match="newest"):
        scope.dispose()

    assert (undone, scope.disposed) == (["oldest"], True)


def test_an_effect_of_a_disposed_scope_is_refused_and_not_kept() -> None:
    """T4, AC-T03."""
    scope = Scope("the scope")
    scope.dispose()

    with pytest.raises(Disposed, match="the scope was disposed; nothing can be registered through it"):
        scope.effect(lambda: pytest.fail("it was kept"))

    scope.dispose()


def test_what_an_undo_wants_to_register_meanwhile_is_refused() -> None:
    """T4: a scope that is going takes nothing in, so nothing is left when it has gone."""
    registry: Layered[str, Any] = Layered(seen)
    scope = Scope("s")

    def register() -> None:
        registry.add(scope, "late")

    scope.effect(register)

    with pytest.raises(Disposed):
        scope.dispose()

    assert len(registry) == 0


def test_an_undo_that_undoes_another_leaves_each_undone_once() -> None:
    """T4."""
    undone: list[str] = []
    scope = Scope("s")
    first = scope.effect(lambda: undone.append("first"))

    def both() -> None:
        undone.append("second")
        first()

    scope.effect(both)

    scope.dispose()

    assert undone == ["second", "first"]


def test_a_scope_is_identified_by_itself_and_not_by_its_name() -> None:
    """T3."""
    registry: Layered[str, Any] = Layered(seen)
    root = Scope("root")
    twins = Scope("twin", root), Scope("twin", root)

    registry.add(twins[0], "mine")

    assert [flat(registry.view(twin)) for twin in twins] == [["mine"], []]


# -- layers and views (T1, T2, T5, T6)


def family() -> tuple[Scope, Scope, Scope, Scope]:
    """Return a root, a child and a grandchild of it, and the child's sibling."""
    root = Scope("root")
    child = Scope("child", root)
    return root, child, Scope("grandchild", child), Scope("sibling", root)


def test_views_inherit_down_the_chain_and_never_up_or_sideways() -> None:
    """T2."""
    registry: Layered[str, Any] = Layered(seen)
    root, child, grandchild, sibling = family()

    for scope in (grandchild, child, root):
        registry.add(scope, scope.name)

    assert flat(registry.view(grandchild)) == ["root", "child", "grandchild"]
    assert flat(registry.view(child)) == ["root", "child"]
    assert flat(registry.view(sibling)) == flat(registry.view(root)) == ["root"]


def test_reading_makes_no_layer_and_an_emptied_one_is_given_up() -> None:
    """T1."""
    registry: Layered[str, Any] = Layered(seen)
    scopes = family()

    for scope in scopes:
        registry.view(scope)
        registry.own(scope)
    before = len(registry)
    undo = [registry.add(scopes[1], "a"), registry.add(scopes[1], "b")]
    during = len(registry)
    undo[0]()
    half = len(registry)
    undo[1]()

    assert (before, during, half, len(registry)) == (0, 1, 1, 0)


def test_disposing_a_scope_gives_its_layer_up_and_leaves_the_others() -> None:
    """T1, T4."""
    registry: Layered[str, Any] = Layered(seen)
    root, child, grandchild, _ = family()
    for scope in (root, child, grandchild):
        registry.add(scope, f"{scope.name} 1")
        registry.add(scope, f"{scope.name} 2")

    child.dispose()

    assert len(registry) == 2
    assert flat(registry.view(grandchild)) == ["root 1", "root 2", "grandchild 1", "grandchild 2"]


def test_own_entries_keep_their_order_and_equal_ones_are_independent() -> None:
    """T24: equal registrations are two."""
    registry: Layered[str, Any] = Layered(seen)
    scope = Scope("s")
    registry.add(scope, "b")
    twin = registry.add(scope, "same")
    registry.add(scope, "a")
    registry.add(scope, "same")

    twin()
    twin()

    assert registry.own(scope) == ("b", "a", "same")


def test_a_resolver_can_tell_the_viewers_own_layer_even_if_nobody_above_has_one() -> None:
    """T12: the layers given to it are those of the whole chain, an empty one for who contributed nothing."""
    registry: Layered[str, Any] = Layered(seen)
    root, child, grandchild, _ = family()
    registry.add(child, "a")

    assert registry.view(child) == (((), ("a",)), True)
    assert registry.view(grandchild) == (((), ("a",)), False)
    assert flat(registry.view(root)) == []


def test_scopes_without_a_layer_share_the_view_of_the_nearest_one_above() -> None:
    """T1: two hundred agents with nothing of their own cost one view."""
    registry: Layered[str, Any] = Layered(seen)
    root, child, grandchild, sibling = family()
    registry.add(root, "a")

    shared = registry.view(root)

    assert registry.view(child) is registry.view(grandchild) is registry.view(sibling) is shared


def test_a_view_is_the_same_object_until_something_on_its_chain_changes() -> None:
    """Rule 1: what is derived from a view may be cached by its identity."""
    registry: Layered[str, Any] = Layered(seen)
    root, child, _, sibling = family()
    for scope in (root, child, sibling):
        registry.add(scope, scope.name)
    before = {scope: registry.view(scope) for scope in (root, child, sibling)}

    undo = registry.add(sibling, "more")
    unrelated = [registry.view(scope) is before[scope] for scope in (root, child, sibling)]
    undo()
    registry.add(root, "above")

    assert unrelated == [True, True, False]
    assert [registry.view(scope) is before[scope] for scope in (root, child, sibling)] == [False] * 3


def test_versions_never_repeat_so_an_old_view_is_never_taken_for_a_new_one() -> None:
    """T16: give a layer up, build another of as many changes, and its view shows the new entries."""
    registry: Layered[str, Any] = Layered(seen)
    root, child, grandchild, _ = family()
    registry.add(grandchild, "below")
    views: list[Any] = []
    for round_ in range(5):
        undo = registry.add(child, f"round {round_}")
        views.append(registry.view(grandchild))
        undo()

    assert [flat(view) for view in views] == [[f"round {n}", "below"] for n in range(5)]
    assert len({id(view) for view in views}) == 5
    assert flat(registry.view(root)) == []


def test_an_addition_that_a_listener_refuses_is_taken_back_with_its_layer() -> None:
    """T5."""
    registry: Layered[str, Any] = Layered(seen)
    scope = Scope("s")
    stop = registry.on_change(partial(fail, "refused"))

    with pytest.raises(RuntimeError, match="refused"):
        registry.add(scope, "a")
    stop()

    assert (len(registry), registry.own(scope)) == (0, ())
    scope.dispose()
    assert len(registry) == 0


def test_an_addition_during_which_its_scope_is_disposed_leaves_nothing() -> None:
    """T5: the listener ended the owner, so nobody would ever take the entry away."""
    registry: Layered[str, Any] = Layered(seen)
    root, child, _, _ = family()
    registry.on_change(child.dispose)

    with pytest.raises(Disposed):
        registry.add(child, "orphan")

    assert (len(registry), flat(registry.view(child))) == (0, [])
    assert flat(registry.view(root)) == []


def test_a_listener_that_reads_at_a_change_reads_what_is_true_then() -> None:
    """T6."""
    registry: Layered[str, Any] = Layered(seen)
    scope = Scope("s")
    heard: list[list[str]] = []
    registry.on_change(lambda: heard.append(flat(registry.view(scope))))

    undo = registry.add(scope, "a")
    registry.add(scope, "b")
    undo()
    undo()

    assert heard == [["a"], ["a", "b"], ["b"]]


def test_a_listener_that_left_hears_no_more_and_leaves_an_equal_one_alone() -> None:
    """T6."""
    registry: Layered[str, Any] = Layered(seen)
    heard: list[str] = []

    def listener() -> None:
        heard.append("changed")

    leave = registry.on_change(listener)
    registry.on_change(listener)
    leave()
    leave()

    registry.add(Scope("s"), "a")

    assert heard == ["changed"]


def test_what_was_discarded_is_gone_from_every_layer_and_its_disposer_does_nothing() -> None:
    """Rule 14: a pack takes what it registered everywhere with it."""
    registry: Layered[str, Any] = Layered(seen)
    root, child, _, _ = family()
    undo = registry.add(child, "theirs")
    registry.add(root, "theirs")
    registry.add(root, "ours")

    registry.discard(lambda entry: entry == "theirs")
    registry.add(child, "theirs")
    undo()

    assert flat(registry.view(child)) == ["ours", "theirs"]


# -- tools of a host and of an agent (AC-T01 to AC-T05)


def test_a_tool_of_one_agent_is_seen_by_that_agent_only(tmp_path: Path) -> None:
    """AC-T01."""

    async def main(host: Host, a: Agent, b: Agent) -> None:
        a.tools.register(named("x"))

        assert (a.view().names, b.view().names, host.snapshot().names) == (("h", "x"), ("h",), ("h",))
        assert [tool.name for tool in a.view().snapshot.tools] == ["h", "x"]

    two_agents(tmp_path, main, "h")


def test_the_tool_of_an_agent_goes_away_with_it_and_that_is_told_once(tmp_path: Path) -> None:
    """AC-T02, T6."""

    async def main(host: Host, a: Agent, b: Agent) -> None:
        a.tools.register(named("x"))
        changes: list[tuple[str, ...]] = []
        host.tools.on_change(lambda: changes.append(a.view().names))

        await a.dispose()

        assert changes == [("h",)]
        assert b.view().names == ("h",)

    two_agents(tmp_path, main, "h")


def test_restrictions_are_told_as_changes_and_guards_are_not(tmp_path: Path) -> None:
    """T6."""

    class Guard:
        @implements(hooks.guard_tool_call)
        def no(self, call: GuardedCall) -> Deny | None:
            return Deny("no")

    async def main(host: Host, a: Agent, b: Agent) -> None:
        changes: list[str] = []
        host.tools.on_change(lambda: changes.append("changed"))

        a.register(Guard())()
        assert changes == []
        lift = a.restrict(deny=["h"])
        assert changes == ["changed"]
        lift()
        lift()
        assert changes == ["changed"] * 2

    two_agents(tmp_path, main, "h")


class Everything:
    """Implementations of anything."""

    @implements(hooks.guard_tool_call)
    def guard(self, call: GuardedCall) -> None:
        """Abstain."""


async def _nothing() -> None:
    """A task that does nothing."""


THROUGH_AN_AGENT: dict[str, Callable[[Agent], object]] = {
    "a tool": lambda agent: agent.tools.register(named("x")),
    "a hook": lambda agent: agent.register(Everything()),
    "a restriction": lambda agent: agent.restrict(deny=["h"]),
    "a restriction to nothing": lambda agent: agent.restrict(allow=[]),
    "later input": lambda agent: agent.inject("text"),
    "input": lambda agent: agent.followup("text"),
    "input for the next step": lambda agent: agent.steer("text"),
    "a task": lambda agent: agent.tasks.start(_nothing()),
    "input through the host": lambda agent: agent.host.submit(agent, "text"),
    "a child": lambda agent: agent.host.create_agent(parent=agent),
    "a call": lambda agent: agent.call_tool("h"),
}


@pytest.mark.parametrize("what", THROUGH_AN_AGENT)
def test_nothing_can_be_registered_or_begun_through_a_disposed_agent(tmp_path: Path, what: str) -> None:
    """AC-T03, T4."""

    async def main(host: Host, a: Agent, b: Agent) -> None:
        await a.dispose()

        with pytest.raises(Disposed):
            made = THROUGH_AN_AGENT[what](a)
            if isinstance(made, Coroutine):
                await made

        assert (host.snapshot().names, b.view().names, host.agents) == (("h",), ("h",), (b,))
        assert (await content(b, "h"), host.faults) == ("host's h", [])

    two_agents(tmp_path, main, "h")


def test_nothing_can_be_registered_through_a_host_that_has_stopped(tmp_path: Path) -> None:
    """T4."""

    async def main() -> None:
        host = Host.open(environ={}, distributions=[], places=places(tmp_path))
        async with host:
            dispose = host.tools.register(named("x"))
        dispose()

        with pytest.raises(Disposed):
            host.tools.register(named("x"))
        with pytest.raises(Disposed):
            await host.create_agent(directory=tmp_path)
        assert host.snapshot().names == ()

    asyncio.run(main())


@pytest.mark.parametrize("agents_first", [False, True])
def test_the_nearest_tool_of_a_name_runs_whoever_was_first(tmp_path: Path, agents_first: bool) -> None:
    """AC-T04, T7."""

    async def main(host: Host, a: Agent, b: Agent) -> None:
        own: Disposer | None = a.tools.register(named("t1", "a's")) if agents_first else None
        host.tools.register(named("t1", "host's"))
        own = own or a.tools.register(named("t1", "a's"))

        assert [await content(a, "t1"), await content(b, "t1")] == ["a's", "host's"]
        own()
        assert [await content(a, "t1"), await content(b, "t1")] == ["host's"] * 2

    two_agents(tmp_path, main)


def test_a_second_tool_of_a_name_in_one_layer_is_refused_and_the_first_still_works(tmp_path: Path) -> None:
    """AC-T05, T7: the message on the host's layer points to the agent's."""

    async def main(host: Host, a: Agent, b: Agent) -> None:
        a.tools.register(named("x", "first"))

        with pytest.raises(UsageError, match=r"`x` is taken by this program$"):
            a.tools.register(named("x", "second"))
        with pytest.raises(UsageError, match=r"`h` is taken.*to replace it for one agent, use agent\.tools\.register"):
            host.tools.register(named("h", "second"))

        assert [await content(a, "x"), await content(b, "h")] == ["first", "host's h"]

    two_agents(tmp_path, main, "h")


def test_a_refused_tool_leaves_the_name_free_for_another_layer(tmp_path: Path) -> None:
    """T5, T7: a listener that refuses leaves no trace, on the host and on an agent."""

    async def main(host: Host, a: Agent, b: Agent) -> None:
        stop = host.tools.on_change(partial(fail, "no"))
        for register in (host.tools.register, a.tools.register):
            with pytest.raises(RuntimeError, match="no"):
                register(named("x"))
        with pytest.raises(RuntimeError, match="no"):
            a.restrict(deny=["h"])
        stop()

        assert (a.view().names, b.view().names) == (("h",), ("h",))
        a.tools.register(named("x", "at last"))
        assert await content(a, "x") == "at last"

    two_agents(tmp_path, main, "h")


def test_what_a_pack_registered_on_the_host_and_on_agents_goes_away_with_it(tmp_path: Path) -> None:
    """Rule 14, T4."""

    class Guest:
        @implements(hooks.host_started)
        def up(self, host: Host) -> None:
            host.tools.register(named("everywhere"))
            for agent in host.agents:
                agent.tools.register(named("here"))
                agent.restrict(deny=["h"])

    async def main(host: Host, a: Agent, b: Agent) -> None:
        await host.load_pack("guest", Guest())
        during = a.view().names

        await host.unload_pack("guest")

        assert (during, a.view().names, b.view().names) == (("everywhere", "here"), ("h",), ("h",))

    two_agents(tmp_path, main, "h")


# -- restrictions (AC-T08 to AC-T14)


def test_a_denied_tool_is_absent_for_the_agent_and_there_for_all_others(tmp_path: Path) -> None:
    """AC-T08, T22: executing it is no different from a name that never existed."""

    async def main(host: Host, a: Agent, b: Agent) -> None:
        a.restrict(deny=["bash"])

        assert (a.view().names, b.view().names) == (("read",), ("bash", "read"))
        gone, never = await a.call_tool("bash"), await a.call_tool("nosuch")
        assert gone.code == never.code == "UNKNOWN_TOOL"
        assert gone.content == never.content.replace("nosuch", "bash") == 'Error: unknown tool "bash"'
        assert await content(b, "bash") == "host's bash"

    two_agents(tmp_path, main, "bash", "read")


def test_an_allow_list_hides_all_other_inherited_tools_and_none_of_the_agents_own(tmp_path: Path) -> None:
    """AC-T09."""

    async def main(host: Host, a: Agent, b: Agent) -> None:
        a.tools.register(named("report"))
        a.restrict(allow=["read"])

        assert (a.view().names, b.view().names) == (("read", "report"), ("bash", "read"))
        assert await content(a, "report") == "report"

    two_agents(tmp_path, main, "bash", "read")


def test_each_wrong_restriction_has_an_error_of_its_own_and_changes_nothing(tmp_path: Path) -> None:
    """AC-T10, T17."""

    async def main(host: Host, a: Agent, b: Agent) -> None:
        a.tools.register(named("own"))
        before = a.view()
        told: list[str] = []
        wrong: list[Callable[[], Disposer]] = [
            lambda: a.restrict(),
            lambda: a.services.tools.restrict(host.scope, None, ["read"]),
            lambda: a.restrict(allow=["own"]),
            lambda: a.restrict(deny=["ghost"]),
        ]
        for restrict in wrong:
            with pytest.raises(UsageError) as caught:
                restrict()
            told.append(str(caught.value))

        assert told == [
            "a restriction needs `allow` or `deny`; with neither it would do nothing",
            "only an agent can be restricted; to switch a tool off for all, use [tools] off",
            "tool `own` is the agent's own; a restriction filters inherited tools only",
            "there is no inherited tool `ghost`; known: bash, read",
        ]
        assert (a.view() is before, b.view().names) == (True, ("bash", "read"))

    two_agents(tmp_path, main, "bash", "read")


def test_where_nothing_is_inherited_an_agents_own_tool_is_still_its_own(tmp_path: Path) -> None:
    """AC-T10, T13: own names are unknown to a restriction, also when the host has no tool at all."""

    async def main(host: Host, a: Agent, b: Agent) -> None:
        a.tools.register(named("own"))

        with pytest.raises(UsageError, match="`own` is the agent's own"):
            a.restrict(deny=["own"])
        with pytest.raises(UsageError, match=r"no inherited tool `ghost`; known: \(none\)"):
            a.restrict(deny=["ghost"])

    two_agents(tmp_path, main)


def test_a_name_that_is_both_inherited_and_own_may_be_restricted_and_the_own_one_stays(tmp_path: Path) -> None:
    """T12, T13."""

    async def main(host: Host, a: Agent, b: Agent) -> None:
        undo = a.tools.register(named("read", "a's"))

        a.restrict(deny=["read"])

        assert await content(a, "read") == "a's"
        undo()
        assert a.view().names == ("bash",)

    two_agents(tmp_path, main, "bash", "read")


def test_a_tool_that_is_hidden_may_be_named_again(tmp_path: Path) -> None:
    """T13: restrictable is what would be inherited without any restriction."""

    async def main(host: Host, a: Agent, b: Agent) -> None:
        lift = a.restrict(deny=["read"])

        a.restrict(deny=["read", "bash"])
        lift()

        assert a.view().names == ()

    two_agents(tmp_path, main, "bash", "read")


def test_restrictions_intersect_and_each_is_lifted_by_itself(tmp_path: Path) -> None:
    """AC-T11, T20."""

    async def main(host: Host, a: Agent, b: Agent) -> None:
        first = a.restrict(allow=["a", "b"])
        a.restrict(allow=["b", "c"])
        both = a.view().names

        first()
        first()

        assert (both, a.view().names) == (("b",), ("b", "c"))

    two_agents(tmp_path, main, "a", "b", "c")


@pytest.mark.parametrize(("allow", "deny", "shows"), [(["a"], None, ("a",)), (None, ["a"], ("z",))])
def test_a_later_tool_is_judged_by_the_restriction_that_was_there(
    tmp_path: Path, allow: list[str] | None, deny: list[str] | None, shows: tuple[str, ...]
) -> None:
    """AC-T12, T19: filters are live."""

    async def main(host: Host, a: Agent, b: Agent) -> None:
        a.restrict(allow=allow, deny=deny)

        host.tools.register(named("z"))

        assert (a.view().names, b.view().names) == (shows, ("a", "z"))

    two_agents(tmp_path, main, "a")


def test_a_restriction_keeps_the_names_that_it_was_given(tmp_path: Path) -> None:
    """T19: filters are copied when they are made."""

    async def main(host: Host, a: Agent, b: Agent) -> None:
        names = ["a"]
        a.restrict(allow=iter(names))
        a.restrict(deny=names)
        names.append("b")

        assert a.view().names == ()

        host.tools.register(named("b"))
        assert a.view().names == ()

    two_agents(tmp_path, main, "a")


def test_allowing_nothing_leaves_only_the_agents_own_tools_and_denying_nothing_does_nothing(tmp_path: Path) -> None:
    """AC-T13, T18, rule 13: absent is not empty."""

    async def main(host: Host, a: Agent, b: Agent) -> None:
        for agent in (a, b):
            agent.tools.register(named("own"))
        a.restrict(allow=[])
        b.restrict(deny=[])

        assert (a.view().names, b.view().names) == (("own",), ("own", "read"))

    two_agents(tmp_path, main, "read")


@pytest.mark.parametrize("child_first", [False, True])
def test_what_a_parent_is_denied_is_absent_in_its_child_too(tmp_path: Path, child_first: bool) -> None:
    """AC-T14, T21, rule 11: whether the child or the restriction came first; siblings keep the tool."""

    async def main(host: Host, a: Agent, b: Agent) -> None:
        if not child_first:
            a.restrict(deny=["web"])
        child = await host.create_agent(parent=a, grant=["read", "web"])
        if child_first:
            a.restrict(deny=["web"])

        assert (a.view().names, child.view().names, b.view().names) == (("read",), ("read",), ("read", "web"))
        assert (await child.call_tool("web")).code == "UNKNOWN_TOOL"

    two_agents(tmp_path, main, "read", "web")


def test_what_a_child_is_denied_stays_with_its_parent_and_its_sibling(tmp_path: Path) -> None:
    """T21."""

    async def main(host: Host, a: Agent, b: Agent) -> None:
        child, sibling = [await host.create_agent(parent=a) for _ in range(2)]

        child.restrict(deny=["web"])

        assert [agent.view().names for agent in (child, sibling, a)] == [("read",), *[("read", "web")] * 2]

    two_agents(tmp_path, main, "read", "web")


# -- the view against a naive model (T12)

NAMES = "abcde"
Op = tuple[str, int, Any]


@dataclass
class Model:
    """What T12 says, without layers, caches or versions: `entries` are (scope, tool) and (scope, allow, deny)."""

    chains: list[list[int]]
    tools: dict[int, tuple[int, Tool]] = field(default_factory=dict)
    filters: dict[int, tuple[int, frozenset[str] | None, frozenset[str]]] = field(default_factory=dict)

    def of(self, scope: int) -> dict[str, Tool]:
        """Return a scope's own tools."""
        return {tool.name: tool for owner, tool in self.tools.values() if owner == scope}

    def inherited(self, scope: int) -> dict[str, Tool]:
        """Return what the scopes above have, the nearest of each name."""
        found: dict[str, Tool] = {}
        for above in self.chains[scope][:-1]:
            found.update(self.of(above))
        return found

    def view(self, scope: int) -> dict[str, Tool]:
        """Return what the scope sees: inherited, if every filter of the chain admits it, then its own."""
        chain = self.chains[scope]
        filters = [(allow, deny) for owner, allow, deny in self.filters.values() if owner in chain]
        admitted = {
            name: tool
            for name, tool in self.inherited(scope).items()
            if all((allow is None or name in allow) and name not in deny for allow, deny in filters)
        }
        return {**admitted, **self.of(scope)}


names = st.lists(st.sampled_from(NAMES), max_size=3)
operations = st.one_of(
    st.tuples(st.just("register"), st.integers(0, 6), st.sampled_from(NAMES)),
    st.tuples(st.just("register"), st.integers(0, 6), st.sampled_from(NAMES)),
    st.tuples(st.just("restrict"), st.integers(0, 6), st.tuples(st.none() | names, st.none() | names)),
    st.tuples(st.just("undo"), st.integers(0, 40), st.none()),
    st.tuples(st.just("end"), st.integers(1, 6), st.none()),
)


def tools_of(view: ToolView) -> dict[str, Tool]:
    """Return the tools of a view as it answers for each name."""
    return {name: offered.tool for name in view.names if (offered := view.get(name))}


class Replay:
    """Does the same to a registry and to the model, and compares what every scope sees after each step."""

    def __init__(self, parents: Sequence[int]) -> None:
        self.registry = ToolRegistry()
        self.scopes = [Scope("root")]
        chains = [[0]]
        for place, parent in enumerate(parents, 1):
            self.scopes.append(Scope(f"scope {place}", self.scopes[parent % place]))
            chains.append([*chains[parent % place], place])
        self.model = Model(chains)
        self.undo: list[Disposer] = []
        self.known: list[tuple[dict[str, Tool], ToolView | None]] = [({}, None)] * len(chains)

    def apply(self, op: Op) -> None:
        """Do one operation; one that must be refused changes nothing."""
        kind, number, what = op
        scope = number % len(self.scopes)
        match kind:
            case "register":
                self.register(scope, named(what))
            case "restrict":
                self.restrict(scope, *what)
            case "undo" if self.undo:
                chosen = number % len(self.undo)
                self.undo[chosen]()
                self.model.tools.pop(chosen, None)
                self.model.filters.pop(chosen, None)
            case "end" if scope:
                self.scopes[scope].dispose()
                for entries in (self.model.tools, self.model.filters):
                    for key in [key for key, entry in entries.items() if entry[0] == scope]:
                        del entries[key]

    def register(self, scope: int, tool: Tool) -> None:
        if self.scopes[scope].disposed or tool.name in self.model.of(scope):
            with pytest.raises((Disposed, UsageError)):
                self.registry.register(self.scopes[scope], tool, "")
        else:
            self.model.tools[len(self.undo)] = scope, tool
            self.undo.append(self.registry.register(self.scopes[scope], tool, ""))

    def restrict(self, scope: int, allow: Iterable[str] | None, deny: Iterable[str] | None) -> None:
        wanted = {*(allow or ()), *(deny or ())}
        absent = scope == 0 or (allow is None and deny is None)
        if absent or not wanted <= self.model.inherited(scope).keys() or self.scopes[scope].disposed:
            with pytest.raises((Disposed, UsageError)):
                self.registry.restrict(self.scopes[scope], allow, deny)
        else:
            allowed = None if allow is None else frozenset(allow)
            self.model.filters[len(self.undo)] = scope, allowed, frozenset(deny or ())
            self.undo.append(self.registry.restrict(self.scopes[scope], allow, deny))

    def compare(self) -> None:
        """Compare every view: names, which tool of the name, identity, and that a view never changed afterwards."""
        for number, scope in enumerate(self.scopes):
            expected, view = self.model.view(number), self.registry.view(scope)
            assert tools_of(view) == expected
            assert view.names == tuple(sorted(expected))
            assert [offered.tool for offered in view.snapshot.offered] == [expected[name] for name in sorted(expected)]
            assert self.registry.view(scope) is view
            before, old = self.known[number]
            if old is not None:
                assert tools_of(old) == before
                assert view is not old or expected == before
            self.known[number] = expected, view


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.lists(operations, max_size=25))
@example([0], [("register", 1, "a"), ("restrict", 1, (["a"], None))])
@example([0, 1], [("register", 1, "a"), ("restrict", 2, (None, ["a"])), ("register", 2, "a"), ("end", 1, None)])
def test_a_view_is_what_the_rule_says_whatever_was_done_in_whatever_order(parents: list[int], ops: list[Op]) -> None:
    """T12, T13, T19 to T21."""
    replay = Replay(parents)
    for op in ops:
        replay.apply(op)
        replay.compare()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=30))
def test_the_snapshot_of_a_view_is_the_same_bytes_however_it_came_about(ops: list[tuple[bool, int]]) -> None:
    """T15, T16."""
    registry, root = ToolRegistry(), Scope("root")
    tools = [named(f"t{number}") for number in range(10)]
    live: dict[int, Disposer] = {}
    for add, number in ops:
        if add and number not in live:
            live[number] = registry.register(root, tools[number], "")
        elif not add and number in live:
            live.pop(number)()
    other = ToolRegistry()
    elsewhere = Scope("other")
    for number in sorted(live, reverse=True):
        other.register(elsewhere, tools[number], "")

    mine, theirs = registry.view(root).snapshot, other.view(elsewhere).snapshot

    assert (mine.names, mine.hash, mine.as_json()) == (theirs.names, theirs.hash, theirs.as_json())
