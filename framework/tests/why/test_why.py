"""Why a tool is, or is not, offered: every voice that may say no is named, with what decided, and nothing else."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pegboard import Agent, Definition, Deny, Host, Prompt, Tool, hookimpl, tool
from pegboard.config.layers import Config, Layer
from pegboard.config.places import Places
from pegboard.dispatch.dispatcher import HookFailure
from pegboard.packs.discovery import Distribution, discover
from pegboard.testing import PackFolder
from pegboard.why.explanation import NOBODY, Explanation, Kind, Reason, explain

KINDS = get_args(Kind)


def made(name: str, effect: str = "read", exposure: str = "user-configurable") -> Tool:
    """Return a tool that does nothing."""

    def body() -> str:
        """Do nothing."""
        return name

    return tool(name=name, effect=effect, exposure=exposure)(body)  # type: ignore[arg-type, call-overload, no-any-return]


class Giving:
    """A pack with these tools."""

    def __init__(self, *tools: Tool) -> None:
        self.tools = tools

    @hookimpl
    def register_tools(self) -> Sequence[Tool]:
        return self.tools


def explained(
    names: Iterable[str],
    *,
    do: Callable[[Host, Agent], object] = lambda _host, _agent: None,
    definition: Definition | str = "main",
    grant: Iterable[str] | None = None,
    **options: Any,
) -> dict[str, Explanation]:
    """Open a host, do something with an agent, and return why it has each of these tools, or has not."""

    async def main() -> dict[str, Explanation]:
        options.setdefault("distributions", [])
        options.setdefault("places", Places(Path("/nonexistent/config.toml"), Path("/nonexistent/state")))
        async with Host.open(**{"environ": {}, **options}) as host:
            agent = await host.create_agent(definition, grant=None if grant is None else tuple(grant))
            done = do(host, agent)
            if isinstance(done, Agent):
                agent = done
            elif asyncio.iscoroutine(done):
                agent = await done or agent
            return {name: await explain(agent, name) for name in names}

    return asyncio.run(main())


def why(name: str, **options: Any) -> Explanation:
    """Return the explanation for one tool; see `explained`."""
    return explained([name], **options)[name]


def told(explanation: Explanation) -> list[tuple[str, str, str]]:
    """Return the reasons as tuples."""
    return [(reason.kind, reason.text, reason.source) for reason in explanation.reasons]


# -- each kind, in the order of the kinds


def test_a_tool_that_nothing_hides_is_offered_without_a_reason() -> None:
    found = why("look", packs={"eyes": Giving(made("look"))})

    assert found.as_json() == {"tool": "look", "offered": True, "reasons": []}
    assert found.entry is not None and found.entry.pack == "eyes"


def test_a_name_that_nobody_brings_is_a_matter_of_packs_and_the_nearest_name_is_told() -> None:
    found = why("lok", packs={"eyes": Giving(made("look"))})

    assert not found.offered
    assert told(found) == [("pack state", f"{NOBODY}; did you mean `look`?", "installed packs")]


def test_the_pack_that_would_bring_it_is_off_by_a_line_of_the_users_file(
    open_host: Callable[..., Host], pack_folder: PackFolder, home: Any
) -> None:
    pack_folder.add("eyes", "raise RuntimeError('must not be imported')", tools=["look"])

    found = on(open_host("\n[packs.eyes]\nenabled = false\n"), "look")

    where = f"{home.config_file}:3"
    assert told(found) == [("pack state", "pack `eyes` is disabled: packs.eyes.enabled = false", where)]
    assert found.reasons[0].mend == "pegboard packs enable eyes"


def on(host: Host, name: str) -> Explanation:
    """Explain a tool for a plain agent of a host."""

    async def main() -> Explanation:
        async with host:
            return await explain(await host.create_agent(), name)

    return asyncio.run(main())


def test_packs_that_are_off_by_default_name_the_default(open_host: Callable[..., Host], pack_folder: Any) -> None:
    pack_folder.add("eyes", tools=["look"])

    found = on(open_host('[packs]\ndefault = "off"\n'), "look")

    assert [reason.text for reason in found.reasons] == ['pack `eyes` is disabled: packs.default = "off"']
    assert found.reasons[0].mend == "pegboard packs enable eyes"


def test_every_setting_that_keeps_the_pack_off_is_named_the_one_that_decides_first(
    pack_folder: PackFolder, home: Any, tmp_path: Path
) -> None:
    pack_folder.add("eyes", tools=["look"])
    home.config("[packs.eyes]\nenabled = false\n")
    host = Host.open(
        environ={"PEGBOARD_PACKS_EYES_ENABLED": "false"},
        disable=["eyes"],
        distributions=discover([str(pack_folder.path)]),
    )

    sources = ["--disable", "PEGBOARD_PACKS_EYES_ENABLED", f"{home.config_file}:2"]
    assert [(reason.source, reason.mend) for reason in on(host, "look").reasons] == list(
        zip(sources, ["leave out --disable eyes", f"unset {sources[1]}", "pegboard packs enable eyes"], strict=True)
    )


@pytest.mark.parametrize(
    ("weaker", "stronger"),
    [
        ("[packs.eyes]\nenabled = false\n", {"PEGBOARD_PACKS_EYES_ENABLED": "true"}),
        ('[packs]\ndefault = "off"\n', {"PEGBOARD_PACKS_DEFAULT": "on"}),
    ],
)
def test_a_setting_that_a_stronger_one_overrides_is_not_named(
    pack_folder: PackFolder, home: Any, weaker: str, stronger: dict[str, str]
) -> None:
    pack_folder.add("eyes", tools=["look"])
    home.config(weaker)

    host = Host.open(environ=stronger, disable=["eyes"], distributions=discover([str(pack_folder.path)]))

    assert [reason.source for reason in on(host, "look").reasons] == ["--disable"]


def test_a_pack_whose_import_failed_is_named_with_what_it_raised(
    open_host: Callable[..., Host], pack_folder: PackFolder
) -> None:
    pack_folder.add("eyes", "import libfoo_that_is_not_there", tools=["look"])

    (reason,) = on(open_host(), "look").reasons

    assert reason.kind == "pack state"
    assert reason.text.startswith("pack `eyes` is failed: ModuleNotFoundError")
    assert reason.mend == "pegboard packs doctor eyes"


def test_a_pack_that_waits_is_named_with_the_one_that_it_waits_for(
    open_host: Callable[..., Host], pack_folder: PackFolder, home: Any
) -> None:
    pack_folder.add("base", "class Pack: pass")
    pack_folder.add("eyes", "class Pack: pass", tools=["look"], requires=["base"])

    found = on(open_host("[packs.base]\nenabled = false\n"), "look")

    assert told(found) == [
        ("pack state", "pack `eyes` is waiting: it needs pack `base`, which is disabled", "default"),
        ("pack state", "pack `base` is disabled: packs.base.enabled = false", f"{home.config_file}:2"),
    ]


def test_an_active_pack_that_has_not_registered_what_it_reserves_is_said_to(
    open_host: Callable[..., Host], pack_folder: PackFolder
) -> None:
    pack_folder.add("eyes", "class Pack: pass", tools=["look"])

    (reason,) = on(open_host(), "look").reasons

    assert (reason.kind, reason.text) == ("pack state", "pack `eyes` is active, but has not registered it")


def test_of_two_packs_that_claim_a_name_both_are_told_and_how_to_choose(
    open_host: Callable[..., Host], pack_folder: PackFolder, home: Any
) -> None:
    pack_folder.add("eyes", "class Pack: pass", tools=["look"])
    pack_folder.add("view", "class Pack: pass", tools=["look"])

    first, second = on(open_host("[packs.eyes]\nenabled = false\n"), "look").reasons

    assert first.text.startswith("pack `eyes` is disabled")
    assert second.text == "pack `view` is failed: conflict: tool `look` belongs to `eyes`"
    assert second.mend == f'write look = "view" under [tools.owner] in {home.config_file}'


def test_the_pack_that_the_user_gave_the_name_to_is_the_one_that_counts(
    open_host: Callable[..., Host], pack_folder: PackFolder, home: Any
) -> None:
    for name in ("eyes", "view"):
        pack_folder.add(name, "class Pack: pass", tools=["look"])

    (reason,) = on(open_host('[tools.owner]\nlook = "view"\n'), "look").reasons

    assert (reason.kind, reason.source) == ("config", f"{home.config_file}:2")
    assert reason.text == "[tools.owner] gives the name to pack `view`, which brings no such tool"


def test_a_tool_that_is_switched_off_in_several_places_names_them_all(
    pack_folder: PackFolder, home: Any, tmp_path: Path
) -> None:
    """§3.5: also an untrusted project's off-list adds up."""
    home.config('[tools]\n\noff = ["look"]\n')
    repo = tmp_path / "repo"
    (repo / ".git").mkdir(parents=True)
    (repo / "pegboard.toml").write_text('[tools]\noff = ["hear", "look"]\n', "utf-8")

    found = why(
        "look",
        packs={"eyes": Giving(made("look"))},
        environ={"PEGBOARD_TOOLS_OFF": "look,hear"},
        places=None,
        directory=repo,
    )

    assert {reason.kind for reason in found.reasons} == {"config"}
    sources = ["PEGBOARD_TOOLS_OFF", f"{repo / 'pegboard.toml'}:2", f"{home.config_file}:3"]
    assert [reason.source for reason in found.reasons] == sources


@pytest.mark.parametrize("exposure", ["diagnostic", "runtime-only"])
def test_a_tool_that_is_for_no_model_says_so(exposure: str) -> None:
    """Rule 5."""
    (reason,) = why("look", packs={"eyes": Giving(made("look", exposure=exposure))}).reasons

    assert (reason.kind, reason.source) == ("exposure", "pack eyes")
    assert exposure in reason.text


def test_what_runtime_policy_decides_is_not_said_to_be_off() -> None:
    """Rule 5: the off-list does not apply to `system-model`."""
    packs = {"eyes": Giving(made("look", exposure="system-model"))}

    assert why("look", packs=packs, environ={"PEGBOARD_TOOLS_OFF": "look"}).offered


def test_a_definition_that_does_not_list_the_tool_is_named_with_its_line(
    open_host: Callable[..., Host], pack_folder: PackFolder, home: Any
) -> None:
    pack_folder.add("eyes", "class Pack: pass")

    (_, reason) = on(open_host('[agents.main]\ntools = ["hear"]\n'), "look").reasons

    assert (reason.kind, reason.source) == ("grant", f"{home.config_file}:2")
    assert reason.text == "`tools` of agent `main` does not name it"


def test_a_grant_that_a_program_gave_is_the_programs() -> None:
    (reason,) = why("look", packs={"eyes": Giving(made("look"))}, grant=["hear"]).reasons

    assert (reason.kind, reason.source) == ("grant", "this program")


def test_a_child_is_told_which_parent_gave_it_less() -> None:
    """Rule 11."""
    parents: list[Agent] = []

    async def child(host: Host, agent: Agent) -> Agent:
        parents.append(agent)
        return await host.create_agent(Definition(), name="helper", parent=agent, grant=["hear"])

    found = why("look", packs={"eyes": Giving(made("look"), made("hear"))}, do=child)

    text = f"the grant that `helper` has from its parent `main` ({parents[0].id}) does not name it"
    assert told(found) == [("grant", text, f"agent {parents[0].id}")]


def test_a_childs_own_list_is_not_blamed_for_what_its_parent_was_not_given() -> None:
    async def child(host: Host, agent: Agent) -> Agent:
        return await host.create_agent(Definition(tools=("look",)), name="helper", parent=agent)

    found = why("look", packs={"eyes": Giving(made("look"))}, definition=Definition(tools=("hear",)), do=child)

    assert told(found) == [("grant", "`tools` of agent `main` does not name it", "this program")]


class Strict:
    """A pack that restricts every agent."""

    def __init__(self, **restriction: Sequence[str]) -> None:
        self.restriction = restriction

    @hookimpl
    def agent_created(self, agent: Agent) -> None:
        agent.restrict(**self.restriction)


def test_a_restriction_names_its_pack_and_the_agent_that_it_is_on() -> None:
    eyes = Giving(made("look"), made("hear"))
    parents: list[Agent] = []

    async def child(host: Host, agent: Agent) -> Agent:
        parents.append(agent)
        agent.restrict(allow=["hear"])
        return await host.create_agent(Definition(), name="helper", parent=agent, grant=["look"])

    found = why("look", packs={"eyes": eyes, "strict": Strict(deny=["look"])}, do=child)

    parent = f"agent {parents[0].id}"
    assert told(found)[:2] == [
        ("restriction", f"pack strict hides it from {parent}", "pack strict"),
        ("restriction", f"this program restricts {parent} to other tools", "this program"),
    ]
    assert len(found.reasons) == 3  # the pack restricts the child too


class Shy:
    """A pack that leaves tools out of the prompt."""

    def __init__(self, *names: str) -> None:
        self.names = names

    @hookimpl
    def assemble_prompt(self, agent: Agent, prompt: Prompt) -> Prompt:
        return prompt.omitting(self.names)


def test_all_packs_that_leave_a_tool_out_of_the_prompt_are_named() -> None:
    found = why("look", packs={"eyes": Giving(made("look")), "shy": Shy("look"), "coy": Shy("look")})

    assert told(found) == [
        ("restriction", "pack shy leaves it out of the prompt", "pack shy"),
        ("restriction", "pack coy leaves it out of the prompt", "pack coy"),
    ]


def test_a_tool_that_was_left_out_only_once_has_a_reason_too() -> None:
    class Fickle:
        asked = 0

        @hookimpl
        def assemble_prompt(self, agent: Agent, prompt: Prompt) -> Prompt | None:
            self.asked += 1
            return prompt.omitting(["look"]) if self.asked == 1 else None

    found = why("look", packs={"eyes": Giving(made("look")), "fickle": Fickle()})

    assert not found.offered
    assert [reason.kind for reason in found.reasons] == ["pack state"]
    assert "left out this once" in found.reasons[0].text


class Guarding:
    """A pack whose guard refuses everything."""

    @hookimpl
    def guard_tool_call(self, call: Any) -> Deny:
        return Deny("no")


def test_an_offered_tool_names_the_guards_that_will_be_asked_and_then_the_kernels_rule() -> None:
    """Rule 6: without a policy pack a tool that writes asks."""
    found = why(
        "mark",
        packs={"pen": Giving(made("mark", effect="write")), "audit": Guarding()},
        do=lambda _host, agent: agent.register(Guarding()) and None,
    )

    assert found.offered
    assert [(reason.kind, reason.source) for reason in found.reasons] == [
        ("guard", "pack audit"),
        ("guard", "this program"),
        ("guard", "pegboard"),
        ("permission rule", "pegboard"),
    ]
    assert "--allow-writes says yes for one run" in found.reasons[-1].text


def test_where_a_pack_claims_policy_the_kernel_has_no_rule_of_its_own() -> None:
    found = why("mark", packs={"pen": Giving(made("mark", effect="write")), "law": Guarding()}, policy=["law"])

    assert [(reason.kind, reason.source) for reason in found.reasons] == [
        ("guard", "pack law"),
        ("guard", "pegboard"),  # protected paths are nobody else's business
    ]


def test_a_pack_that_fails_in_the_prompt_is_no_explanation_but_a_failure() -> None:
    class Broken:
        @hookimpl
        def assemble_prompt(self, agent: Agent, prompt: Prompt) -> Prompt:
            raise RuntimeError("broken")

    with pytest.raises(HookFailure, match="assemble_prompt of pack `broken` failed: RuntimeError: broken"):
        why("look", packs={"eyes": Giving(made("look")), "broken": Broken()})


def test_what_a_pack_connects_when_a_run_begins_is_there_when_it_is_explained() -> None:
    """§3.6: `why` fires `run_starting` and takes a snapshot as a run does, and records nothing."""

    class Lazy:
        @hookimpl
        async def run_starting(self, run: Any) -> None:
            await asyncio.sleep(0)
            run.agent.tools.register(made("look"))

    class Kept:
        async def record(self, host: Host, agent: Agent) -> None:
            assert (await explain(agent, "look")).offered
            self.entries = list(await host.entries(agent.id))

    kept = Kept()
    explained([], packs={"lazy": Lazy()}, do=kept.record)

    assert kept.entries == []


@pytest.mark.parametrize("name", ["../x", "", "\x1b[31mred\x1b[0m", "\udcff", "a" * 10_000, "look\nhear", "mcp__a__b"])
def test_any_name_gets_an_explanation_of_one_line_a_reason(name: str) -> None:
    found = why(name, packs={"eyes": Giving(made("look"))}, grant=[])

    assert not found.offered
    assert [reason.kind for reason in found.reasons] == ["pack state", "grant"]
    assert all(reason.text.isprintable() and len(reason.text) < 300 for reason in found.reasons)


# -- property: the explanation is the resolver's


EXPOSURES = ("user-configurable", "system-model", "diagnostic", "runtime-only")
OWNERS = {"a1": "pa", "a2": "pa", "b1": "pb", "b2": "pb"}  # `free` is of pa too, but not reserved
NAMES = (*OWNERS, "free", "own", "nobody")
LAYERS = ("user file", "environment")


@dataclass(frozen=True)
class Shape:
    """A world: layers with the packs and tools that they switch off, packs that restrict and omit, and grants.

    `broken` packs fail when they are made; pb needs pa. `own` are the names that the agent has itself.
    """

    off_packs: frozenset[tuple[str, str]] = frozenset()
    off_tools: frozenset[tuple[str, str]] = frozenset()
    broken: frozenset[str] = frozenset()
    exposures: Mapping[str, str] = field(default_factory=dict)
    allow: Mapping[str, frozenset[str]] = field(default_factory=dict)
    deny: frozenset[tuple[str, str]] = frozenset()
    omit: frozenset[tuple[str, str]] = frozenset()
    grant: frozenset[str] | None = None
    child: bool = False
    child_grant: frozenset[str] | None = None
    own: frozenset[str] = frozenset()


some_names = st.frozensets(st.sampled_from(NAMES))
shapes = st.builds(
    Shape,
    off_packs=st.frozensets(st.tuples(st.sampled_from(LAYERS), st.sampled_from(["pa", "pb"])), max_size=2),
    off_tools=st.frozensets(st.tuples(st.sampled_from(LAYERS), st.sampled_from(NAMES)), max_size=4),
    broken=st.frozensets(st.sampled_from(["pa", "pb"]), max_size=1),
    exposures=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(EXPOSURES)),
    allow=st.dictionaries(st.sampled_from(["r1", "r2", ""]), some_names, max_size=1),
    deny=st.frozensets(st.tuples(st.sampled_from(["r1", "r2", ""]), st.sampled_from(NAMES)), max_size=3),
    omit=st.frozensets(st.tuples(st.sampled_from(["r1", "r2"]), st.sampled_from(NAMES)), max_size=3),
    grant=st.none() | some_names,
    child=st.booleans(),
    child_grant=st.none() | some_names,
    own=st.frozensets(st.sampled_from(["own", "free"])),
)


class Meddling:
    """The pack r1 or r2 of a shape: restricts each agent where there is something to restrict, and omits."""

    def __init__(self, name: str, shape: Shape) -> None:
        self.name, self.shape = name, shape

    @hookimpl
    def agent_created(self, agent: Agent) -> None:
        restrict(agent, self.shape, self.name)

    @hookimpl
    def assemble_prompt(self, agent: Agent, prompt: Prompt) -> Prompt:
        return prompt.omitting(name for pack, name in self.shape.omit if pack == self.name)


def restrict(agent: Agent, shape: Shape, pack: str) -> None:
    """Restrict an agent as a shape says; only inherited names may be named."""
    there = agent.view().inherited
    if (allow := shape.allow.get(pack)) is not None:
        agent.restrict(allow=[name for name in allow if name in there])
    if deny := [name for who, name in shape.deny if who == pack and name in there]:
        agent.restrict(deny=deny)


def world(shape: Shape, base: Path) -> Host:
    """Return a host of a shape; `base` holds the metadata that says what pb needs."""
    tools = {name: made(name, exposure=shape.exposures.get(name, EXPOSURES[0])) for name in NAMES}

    def pack(name: str, *names: str) -> object:
        class Brings(Giving):
            def __init__(self) -> None:
                if name in shape.broken:
                    raise RuntimeError("broken")
                super().__init__(*(tools[one] for one in names))

        return Brings

    layers = []
    for kind in LAYERS:
        packs = {name: {"enabled": False} for layer, name in shape.off_packs if layer == kind}
        off = [name for layer, name in sorted(shape.off_tools) if layer == kind]
        layers.append(Layer(kind, kind, {"packs": packs, "tools": {"off": off}}))
    reserved = {owner: {name: "" for name in OWNERS if OWNERS[name] == owner} for owner in ("pa", "pb")}
    distributions = [
        Distribution("dist-pa", "nowhere", ("pa", ""), reserved["pa"]),
        Distribution("dist-pb", str(base), ("pb", ""), reserved["pb"]),
        *(Distribution(f"dist-{name}", "nowhere", (name, "")) for name in ("r1", "r2")),
    ]
    packs = {"pa": pack("pa", "a1", "a2", "free"), "pb": pack("pb", "b1", "b2")}
    packs |= {name: Meddling(name, shape) for name in ("r1", "r2")}
    return Host(Config(tuple(layers)), distributions, packs=packs, places=Places(base / "none", base / "state"))


def explain_all(shape: Shape, base: Path) -> dict[str, Explanation]:
    """Explain every name for the agent of a shape, and check that its answers are the preview's."""

    async def main() -> dict[str, Explanation]:
        async with world(shape, base) as host:

            def setup(agent: Agent) -> None:
                for name in sorted(shape.own):
                    agent.tools.register(made(name, exposure=shape.exposures.get(name, EXPOSURES[0])))
                restrict(agent, shape, "")

            grant = None if shape.grant is None else tuple(shape.grant)
            if shape.child:
                parent = await host.create_agent(Definition(tools=grant), name="top")
                given = None if shape.child_grant is None else tuple(shape.child_grant)
                agent = await host.create_agent(Definition(), name="kid", parent=parent, grant=given, setup=setup)
            else:
                agent = await host.create_agent(Definition(tools=grant), name="top", setup=setup)
            found = {name: await explain(agent, name) for name in NAMES}
            assert {name for name in NAMES if found[name].offered} == set((await host.preview(agent)).names)
            return found

    return asyncio.run(main())


def without(shape: Shape, name: str, reason: Reason) -> Shape:
    """Return the shape without what a reason names, for this tool."""
    match reason.kind:
        case "pack state" if reason.source in LAYERS:
            pack = reason.text.split("`")[1]
            return replace(shape, off_packs=shape.off_packs - {(reason.source, pack)})
        case "pack state":
            return replace(shape, broken=shape.broken - {reason.text.split("`")[1]})
        case "config":
            return replace(shape, off_tools=shape.off_tools - {(reason.source, name)})
        case "exposure":
            return replace(shape, exposures={**shape.exposures, name: "system-model"})
        case "grant" if "`kid`" in reason.text:
            granted = None if shape.child_grant is None else shape.child_grant | {name}
            return replace(shape, child_grant=granted)
        case "grant":
            return replace(shape, grant=(shape.grant or frozenset()) | {name})
        case "restriction" if "prompt" in reason.text:
            return replace(shape, omit=shape.omit - {(reason.source.removeprefix("pack "), name)})
    pack = reason.source.removeprefix("pack ") if reason.source != "this program" else ""
    allow = {who: names | {name} if who == pack else names for who, names in shape.allow.items()}
    return replace(shape, allow=allow, deny=shape.deny - {(pack, name)})


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the metadata of dist-pb, which needs dist-pa."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "METADATA").write_text("Name: dist-pb\nRequires-Dist: dist-pa\n\n", "utf-8")
    return folder


@given(shape=shapes, name=st.sampled_from(NAMES))
def test_offered_is_membership_in_the_preview_and_without_its_reasons_a_hidden_tool_is_offered(
    base: Path, shape: Shape, name: str
) -> None:
    """One resolver (rule 1): in one round for a tool that is there; one that is not has more to tell when it is."""
    was_there = False
    for _ in range(4):
        found = explain_all(shape, base)
        check_wording(found.values())
        if found[name].offered or found[name].reasons[0].text.startswith(NOBODY):
            return
        assert not was_there, f"{shape} still hides {name}: {found[name].reasons}"
        was_there = found[name].entry is not None
        for reason in found[name].reasons:
            shape = without(shape, name, reason)
    pytest.fail(f"{shape} hides {name}: {found[name].reasons}")


def check_wording(found: Iterable[Explanation]) -> None:
    """Every hidden tool has a reason with a source; kinds stand in their order; an offered one names askers only."""
    for explanation in found:
        kinds = [reason.kind for reason in explanation.reasons]
        assert kinds == sorted(kinds, key=KINDS.index)
        assert set(kinds) <= set(KINDS[5:] if explanation.offered else KINDS[:5])
        assert explanation.offered or explanation.reasons
        assert all(reason.text and reason.source for reason in explanation.reasons)


def test_the_kinds_are_those_of_the_design_in_its_order() -> None:
    assert KINDS == ("pack state", "config", "exposure", "grant", "restriction", "guard", "permission rule")
