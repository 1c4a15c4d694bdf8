"""In which order the implementations of each hook are called, who may change that, and how it is explained."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pegboard import Agent, Host, ModelRequest, ToolRun, UsageError, hookimpl, hooks, tool
from pegboard.base.errors import ConfigError
from pegboard.hookspecs import KERNEL_HOOKS
from pegboard.testing import ScriptedModel, call

OpenHost = Callable[..., Host]


class Pack(ModuleType):
    """A pack made of functions, each the implementation of the hook that it is named after."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        super().__init__("pack")
        marked = {name: f if hasattr(f, "pegboard_impl") else hookimpl(f) for name, f in functions.items()}
        vars(self).update(marked)


# DESIGN §3.1, "Order".
LOAD = (
    "register_hookspecs", "register_tools", "register_models", "host_started", "agent_created", "run_starting",
    "guard_tool_call", "run_stopping", "answer_interaction", "observe",
)  # fmt: skip
REVERSED = ("host_stopping", "agent_disposed")
PLUGGY = (
    "session_store", "assemble_prompt", "agent_pre_step", "wrap_model_call", "wrap_tool_call", "tool_post_execute",
    "prepare_process", "filter_entry",
)  # fmt: skip


def five(hook: str) -> dict[str, Pack]:
    """Return five packs with implementations of a hook, which differ in their wishes."""
    wishes: dict[str, dict[str, Any]] = {
        "aa": {}, "bb": {"trylast": True}, "cc": {}, "dd": {"tryfirst": True}, "ee": {"trylast": True},
    }  # fmt: skip
    return {name: Pack(**{hook: hookimpl(**wish)(lambda: None)}) for name, wish in wishes.items()}


def test_every_hook_of_the_kernel_has_an_order() -> None:
    assert {*LOAD, *REVERSED, *PLUGGY} == KERNEL_HOOKS
    assert len(LOAD) + len(REVERSED) + len(PLUGGY) == len(KERNEL_HOOKS)


def order_of(host: Host, hook: str) -> list[tuple[str, str]]:
    """Return who is called and why then, without the kernel's own guard."""
    return [(pack, why) for pack, why in host.hook_order(hook) if pack != "pegboard"]


def test_the_kernels_own_guard_stands_in_the_order_under_its_name(open_host: OpenHost) -> None:
    """What the kernel objects to it says through the same hook as a pack."""
    order = open_host(packs=five("guard_tool_call")).hook_order("guard_tool_call")

    assert order[5:] == [("pegboard", "load order")]


@pytest.mark.parametrize("hook", LOAD)
def test_load_order_heeds_no_wish(open_host: OpenHost, hook: str) -> None:
    host = open_host(packs=five(hook))

    assert order_of(host, hook) == [(name, "load order") for name in ("aa", "bb", "cc", "dd", "ee")]


@pytest.mark.parametrize("hook", REVERSED)
def test_what_ends_is_told_in_reverse(open_host: OpenHost, hook: str) -> None:
    host = open_host(packs=five(hook))

    assert host.hook_order(hook) == [(name, "load order, reversed") for name in ("ee", "dd", "cc", "bb", "aa")]


@pytest.mark.parametrize("hook", PLUGGY)
def test_folds_and_wrappers_are_called_in_pluggys_order_and_each_place_has_its_reason(
    open_host: OpenHost, hook: str
) -> None:
    host = open_host(packs=five(hook))

    assert host.hook_order(hook) == [
        ("dd", "tryfirst"),
        ("cc", "last registered first"),
        ("aa", "last registered first"),
        ("bb", "trylast"),
        ("ee", "trylast"),
    ]


def test_a_hook_that_nobody_implements_has_an_empty_order_and_one_that_is_none_an_error(open_host: OpenHost) -> None:
    host = open_host()

    assert host.hook_order("observe") == []
    with pytest.raises(UsageError, match=r"there is no hook `obsrve`; did you mean `observe`\?"):
        host.hook_order("obsrve")


@tool(effect="read")
async def peek() -> str:
    """Peek."""
    return "peeked"


def noting(hook: str, who: str, order: list[str]) -> Callable[..., Any]:
    """Return an implementation that notes who was called."""

    def wrap_model_call(request: ModelRequest, proceed: Any) -> Any:
        order.append(who)
        return proceed(request)

    def wrap_tool_call(call: ToolRun, proceed: Any) -> Any:
        order.append(who)
        return proceed()

    wrappers: dict[str, Callable[..., Any]] = {"wrap_model_call": wrap_model_call, "wrap_tool_call": wrap_tool_call}
    return wrappers.get(hook, lambda: order.append(who))


async def one_call(agent: Agent) -> None:
    """Let an agent's model call a tool and end."""
    await agent.host.submit(agent, "go").wait()


@pytest.mark.parametrize(
    ("hook", "first"),
    [
        ("guard_tool_call", ["aa", "bb", "agent", "setup"]),
        ("run_stopping", ["aa", "bb", "agent", "setup"]),
        ("observe", ["aa", "bb", "agent", "setup"]),
        ("assemble_prompt", ["setup", "agent", "bb", "aa"]),
        ("agent_pre_step", ["setup", "agent", "bb", "aa"]),
        ("wrap_model_call", ["setup", "agent", "bb", "aa"]),
        ("wrap_tool_call", ["setup", "agent", "bb", "aa"]),
        ("tool_post_execute", ["setup", "agent", "bb", "aa"]),
        ("filter_entry", ["setup", "agent", "bb", "aa"]),
    ],
)
def test_an_agents_own_come_before_the_hosts_in_folds_and_after_them_elsewhere(
    open_host: OpenHost, tmp_path: Path, hook: str, first: list[str]
) -> None:
    order: list[str] = []
    packs = {name: Pack(**{hook: noting(hook, name, order)}) for name in ("aa", "bb")}
    host = open_host(packs={**packs, "tools": Pack(register_tools=lambda: [peek])})

    async def main() -> None:
        async with host:
            model = ScriptedModel(call("peek"), "done")
            agent = await host.create_agent(directory=tmp_path, model=model)
            for name in ("agent", "setup"):
                agent.register(Pack(**{hook: noting(hook, name, order)}))
            await one_call(agent)

    asyncio.run(main())

    assert order == first * (len(order) // 4)
    assert order


def test_a_wish_of_a_pack_counts_among_the_hosts_only(open_host: OpenHost, tmp_path: Path) -> None:
    """The agent's before the host's: `tryfirst` of a pack passes no agent's own, `trylast` of that no pack."""
    order: list[str] = []
    packs = {"aa": Pack(agent_pre_step=hookimpl(tryfirst=True)(lambda: order.append("aa"))), "bb": Pack()}
    host = open_host(packs=packs)

    async def main() -> None:
        async with host:
            agent = await host.create_agent(directory=tmp_path, model=ScriptedModel("done"))
            agent.register(Pack(agent_pre_step=hookimpl(trylast=True)(lambda: order.append("agent"))))
            await one_call(agent)

    asyncio.run(main())

    assert order == ["agent", "aa"]


# -- the order is pluggy's own

marks = st.sampled_from([{}, {}, {"tryfirst": True}, {"trylast": True}])
# Each pack brings up to three implementations of one hook.
registrations = st.lists(st.lists(marks, max_size=3), max_size=7)


def test_a_fold_is_called_in_the_order_in_which_pluggy_would_call_the_same_objects(
    open_host: OpenHost, tmp_path: Path
) -> None:
    """A bare PluginManager is the judge; the registrations are random."""
    order: list[str] = []

    def noted(name: str) -> Callable[..., None]:
        return lambda: order.append(name)

    def objects(wishes: list[list[dict[str, Any]]]) -> dict[str, Pack]:
        return {
            f"p{place}": Pack(
                **{
                    f"f{number}": hookimpl(specname="assemble_prompt", **wish)(noted(f"p{place} f{number}"))
                    for number, wish in enumerate(mine)
                }
            )
            for place, mine in enumerate(wishes)
        }

    async def called_by_us(packs: dict[str, Pack]) -> list[str]:
        order.clear()
        host = open_host(packs=packs)
        await host.preview(await host.create_agent(directory=tmp_path))
        assert [pack for pack, _ in host.hook_order("assemble_prompt")] == [name.split()[0] for name in order]
        return list(order)

    def called_by_pluggy(packs: dict[str, Pack]) -> list[str]:
        order.clear()
        manager = pluggy.PluginManager("pegboard")
        manager.add_hookspecs(hooks)
        for name, pack in packs.items():
            manager.register(pack, name)
        manager.hook.assemble_prompt(agent=None, prompt=None)
        return list(order)

    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(registrations)
    @example([[{"trylast": True}, {"trylast": True}], [{}, {"tryfirst": True}], [{"tryfirst": True}, {}]])
    def same_order(wishes: list[list[dict[str, Any]]]) -> None:
        packs = objects(wishes)

        assert asyncio.run(called_by_us(packs)) == called_by_pluggy(packs)
        assert len(order) == sum(map(len, wishes))

    same_order()


# -- the user's `[hooks.order]` has the last word


def ordered(hook: str, *packs: str) -> str:
    """The user's configuration that orders one hook."""
    return f"[hooks.order]\n{hook} = {json.dumps(packs)}\n"


@pytest.mark.parametrize(
    ("hook", "wanted", "expected"),
    [
        ("guard_tool_call", ["cc", "*", "aa"], ["cc", "bb", "dd", "ee", "aa"]),
        ("guard_tool_call", ["*", "aa"], ["bb", "cc", "dd", "ee", "aa"]),
        ("guard_tool_call", ["dd", "bb"], ["dd", "bb", "aa", "cc", "ee"]),
        ("guard_tool_call", ["*"], ["aa", "bb", "cc", "dd", "ee"]),
        ("guard_tool_call", [], ["aa", "bb", "cc", "dd", "ee"]),
        ("agent_disposed", ["*", "ee"], ["dd", "cc", "bb", "aa", "ee"]),
        ("filter_entry", ["ee", "*", "dd"], ["ee", "cc", "aa", "bb", "dd"]),
        ("filter_entry", ["bb", "aa"], ["bb", "aa", "dd", "cc", "ee"]),
    ],
)
def test_the_users_order_wins_and_the_rest_keeps_its_own(
    open_host: OpenHost, hook: str, wanted: list[str], expected: list[str]
) -> None:
    """Without `*` the rest comes after those that are named; nobody can be left out."""
    host = open_host(ordered(hook, *wanted), packs=five(hook))

    order = order_of(host, hook)

    assert [pack for pack, _ in order] == expected
    assert [pack for pack, why in order if why.startswith("[hooks.order] in ")] == [p for p in expected if p in wanted]


def test_the_reason_of_a_place_that_the_user_chose_names_file_and_line(open_host: OpenHost, home: Any) -> None:
    host = open_host(ordered("observe", "bb"), packs=five("observe"))

    order = dict(host.hook_order("observe"))

    assert order["bb"] == f"[hooks.order] in {home.config_file}:2"
    assert order["aa"] == "load order"


@pytest.mark.parametrize("wanted", [["bb", "bb"], ["bb", "*", "bb"], ["*", "*"]])
def test_naming_a_pack_twice_is_refused(open_host: OpenHost, wanted: list[str]) -> None:
    """It would be called twice, or in one of two places."""
    with pytest.raises(ConfigError, match=r"hooks\.order\.observe  names .* twice"):
        open_host(ordered("observe", *wanted), packs=five("observe"))


def test_the_users_order_is_the_order_of_the_calls_also_for_what_is_on_an_agent(
    open_host: OpenHost, tmp_path: Path
) -> None:
    """The implementations that `bb` has on an agent come where the user put `bb`."""
    order: list[str] = []

    def pack(name: str) -> Pack:
        mine = Pack(guard_tool_call=noting("guard_tool_call", f"{name} on agent", order))
        return Pack(
            guard_tool_call=noting("guard_tool_call", name, order),
            agent_created=lambda agent: agent.register(mine),
        )

    packs = {"aa": pack("aa"), "bb": pack("bb"), "tools": Pack(register_tools=lambda: [peek])}
    host = open_host(ordered("guard_tool_call", "bb"), packs=packs)

    async def main() -> None:
        async with host:
            await one_call(await host.create_agent(directory=tmp_path, model=ScriptedModel(call("peek"), "done")))

    asyncio.run(main())

    assert order == ["bb", "bb on agent", "aa", "aa on agent"] * 2


def test_a_pack_that_is_off_may_be_named(open_host: OpenHost) -> None:
    off = "[packs.dd]\nenabled = false\n"
    host = open_host(ordered("observe", "dd", "cc") + off, packs=five("observe"))

    assert [pack for pack, _ in host.hook_order("observe")] == ["cc", "aa", "bb", "ee"]


def test_an_order_for_a_hook_that_is_none_is_refused_with_its_line_and_a_suggestion(
    open_host: OpenHost, home: Any
) -> None:
    with pytest.raises(ConfigError) as refused:
        open_host(ordered("gaurd_tool_call", "aa"))

    assert f"{home.config_file}:2" in str(refused.value)
    assert "hooks.order.gaurd_tool_call  there is no such hook; did you mean `guard_tool_call`?" in str(refused.value)


@pytest.mark.parametrize("value", ['"aa"', "3", "[3]", "{ aa = 1 }", "true"])
def test_an_order_that_is_no_list_of_packs_is_refused_with_its_key(open_host: OpenHost, value: str) -> None:
    with pytest.raises(ConfigError, match=r"hooks\.order\.observe"):
        open_host(f"[hooks.order]\nobserve = {value}\n", packs=five("observe"))


# -- pegboard hooks

CODE = "import pegboard\nclass Pack:\n    @pegboard.hookimpl({wish})\n    def {hook}(self):\n        return None\n"


@pytest.fixture
def three_filters(pack_folder: Any) -> None:
    """Install three packs that filter entries."""
    for name, wish in (("aa", "trylast=True"), ("bb", ""), ("cc", "tryfirst=True")):
        pack_folder.add(name, CODE.format(wish=wish, hook="filter_entry"))


def mine(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Of what `--json` printed, what is about the packs of this test."""
    return [(row["pack"], row["reason"]) for row in rows if row["pack"] in ("aa", "bb", "cc")]


@pytest.mark.usefixtures("three_filters")
def test_hooks_prints_the_order_of_one_hook_with_reasons(pegboard: Any) -> None:
    ended = pegboard("hooks", "filter_entry")

    lines = ended.stdout.splitlines()
    assert (ended.returncode, ended.stderr) == (0, "")
    assert lines[0] == "filter_entry: fold; on failure: text withheld"
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "1 cc tryfirst",
        "2 bb last registered first",
        "3 aa trylast",
    ]


@pytest.mark.usefixtures("three_filters")
def test_hooks_prints_the_order_as_json(pegboard: Any, home: Any) -> None:
    home.config(ordered("filter_entry", "bb"))

    ended = pegboard("hooks", "filter_entry", "--json")

    assert json.loads(ended.stdout) == [
        {"pack": "bb", "position": 1, "reason": f"[hooks.order] in {home.config_file}:2"},
        {"pack": "cc", "position": 2, "reason": "tryfirst"},
        {"pack": "aa", "position": 3, "reason": "trylast"},
    ]


@pytest.mark.usefixtures("three_filters")
def test_hooks_lists_every_hook_with_its_kind_and_who_implements_it(pegboard: Any) -> None:
    ended = pegboard("hooks")

    rows = {line.split()[0]: line for line in ended.stdout.splitlines()}
    assert set(rows) >= KERNEL_HOOKS
    assert " ".join(rows["filter_entry"].split()) == "filter_entry fold on failure: text withheld cc bb aa"
    assert " ".join(rows["guard_tool_call"].split()) == "guard_tool_call all asked on failure: deny pegboard"


def test_hooks_lists_what_packs_bring_too_with_the_pack_that_brings_it(pegboard: Any, pack_folder: Any) -> None:
    code = (
        "import pegboard\n"
        "class Kitchen:\n    @pegboard.hookspec('collect')\n    def dishes(self):\n        '''Dishes.'''\n"
        "class Pack:\n    @pegboard.hookimpl\n    def register_hookspecs(self):\n        return [Kitchen]\n"
    )
    pack_folder.add("cook", code)
    pack_folder.add("guest", CODE.format(wish="optionalhook=True", hook="dishes"))

    rows = {row["hook"]: row for row in json.loads(pegboard("hooks", "--json").stdout)}

    assert rows["dishes"] == {
        "hook": "dishes", "from": "cook", "kind": "collect", "failure": "contained", "packs": ["guest"],
    }  # fmt: skip
    assert {rows[name]["from"] for name in KERNEL_HOOKS} == {"pegboard"}
    assert "cook" in rows["register_hookspecs"]["packs"]


@pytest.mark.usefixtures("three_filters")
def test_a_pack_that_is_switched_off_stands_in_no_order(pegboard: Any) -> None:
    ended = pegboard("--disable", "bb", "hooks", "filter_entry", "--json")

    assert mine(json.loads(ended.stdout)) == [("cc", "tryfirst"), ("aa", "trylast")]


def test_a_hook_that_nobody_implements_says_so(pegboard: Any) -> None:
    ended = pegboard("hooks", "prepare_process")

    assert (ended.returncode, ended.stdout) == (
        0, "prepare_process: fold; on failure: refuse\nno active pack implements it\n",
    )  # fmt: skip
    assert json.loads(pegboard("hooks", "prepare_process", "--json").stdout) == []


def test_an_unknown_hook_is_a_usage_error_with_the_nearest_name(pegboard: Any) -> None:
    ended = pegboard("hooks", "filter_entri", "--json")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "there is no hook `filter_entri`; did you mean `filter_entry`?" in ended.stderr


def test_a_reason_is_escaped_when_it_is_printed(pegboard: Any, home: Any) -> None:
    """Rule 15: the name that was typed comes from outside."""
    ended = pegboard("hooks", "x\x1b[31m")

    assert (ended.returncode, "\x1b" in ended.stderr) == (2, False)
