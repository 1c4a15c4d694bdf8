"""`@implements(hooks.NAME)` lets a type checker compare a function with its hook; the loader checks what it can."""

import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from pegboard import Host
from pegboard.hookspecs import KERNEL_HOOKS, Hooks
from pegboard.values.hook_markers import policy_of

IMPORTS = """\
from collections.abc import Awaitable, Callable, Iterable
from pegboard import (
    Accept, Agent, Answer, Ask, Block, Deny, Enter, Entry, Event, GuardedCall, Host, Interaction, ModelProvider,
    ModelReply, ModelRequest, Outcome, ProceedModel, ProceedTool, ProcessSpec, Prompt,
    Reject, Run, SessionStore, Step, Tool, ToolRun, hooks, implements,
)
"""

# One implementation of each hook; where a hook may have either colour, `async` makes it the other one.
ARGUMENTS = {
    "register_hookspecs": ("", "list[type]", "[]"),
    "register_tools": ("", "list[Tool]", "[]"),
    "register_models": ("", "tuple[ModelProvider, ...] | None", "None"),
    "session_store": ("host: Host", "SessionStore | None", "None"),
    "host_started": ("host: Host", "None", "None"),
    "host_stopping": ("host: Host", "None", "None"),
    "agent_created": ("agent: Agent", "None", "None"),
    "agent_disposed": ("agent: Agent", "None", "None"),
    "run_starting": ("run: Run", "None", "None"),
    "assemble_prompt": ("agent: Agent, prompt: Prompt", "Prompt | None", "prompt.omitting(['shell'])"),
    "agent_pre_step": ("step: Step", "Enter | Reject | None", "Reject('closed') if step.number > 3 else None"),
    "guard_tool_call": ("call: GuardedCall", "Deny | Ask | None", "Ask('sure?') if call.touches else None"),
    "tool_post_execute": ("call: ToolRun, result: Outcome", "Accept | Block | None", "Accept(result.content)"),
    "prepare_process": ("spec: ProcessSpec", "ProcessSpec | Deny | None", "spec"),
    "filter_entry": ("entry: Entry", "Entry | None", "entry.rewriting(str.upper)"),
    "run_stopping": ("run: Run", "None", "None"),
    "answer_interaction": ("interaction: Interaction", "Answer | None", "Answer.no(interaction.reason)"),
    "observe": ("event: Event", "None", "None"),
}
WRAPPERS = """
class Wrapping:
    @implements(hooks.wrap_model_call)
    async def later(
        self, request: ModelRequest, proceed: Callable[[ModelRequest], Awaitable[ModelReply]]
    ) -> ModelReply:
        return await proceed(request)

    @implements(hooks.wrap_model_call)
    def at_once(self, request: ModelRequest, proceed: ProceedModel) -> Awaitable[ModelReply]:
        return proceed(request)

    @implements(hooks.wrap_tool_call, tryfirst=True)
    async def timed(self, call: ToolRun, proceed: ProceedTool) -> Outcome:
        return await proceed()

    @implements(hooks.wrap_tool_call, trylast=True)
    def passed(self, call: ToolRun, proceed: Callable[[], Awaitable[Outcome]]) -> Awaitable[Outcome]:
        return proceed()
"""
# What else is right: functions of a module, hooks of the pack's own, fewer promises than the hook allows.
OTHERS = """
from pegboard import hookspec

@implements(hooks.guard_tool_call)
def guard(call: GuardedCall) -> Deny:
    return Deny(call.name)

@implements(hooks.observe)
def observe(event: object) -> None:
    print(event)

class Kitchen:
    @hookspec("collect")
    def dishes(self, season: str) -> Iterable[str] | None:
        "What can be cooked."

class Cook:
    @implements(hooks.register_hookspecs)
    def register_hookspecs(self) -> list[type]:
        return [Kitchen]

    @implements(Kitchen.dishes, optional=True)
    def dishes(self, season: str) -> list[str]:
        return [season]
"""


def method(hook: str, colour: str, arguments: str, returns: str, answer: str) -> str:
    """Return the source of one implementation."""
    name = f"{hook}_{'later' if colour else 'at_once'}"
    head = f"    {colour}def {name}({', '.join(filter(None, ('self', arguments)))}) -> {returns}:\n"
    return f"    @implements(hooks.{hook})\n{head}        return {answer}\n\n"


def in_colour(name: str, colour: str) -> str:
    """Return a class that implements every hook that may have this colour."""
    methods = [
        method(hook, colour, *parts)
        for hook, parts in ARGUMENTS.items()
        if not (colour and policy_of(getattr(Hooks, hook)).sync)
    ]
    return f"\nclass {name}:\n" + "".join(methods)


GOOD = IMPORTS + in_colour("AtOnce", "") + in_colour("Later", "async ") + WRAPPERS + OTHERS

# What is wrong -> the lines of a class, the wrong one marked, and what the loader says; None if it can't see it.
MISTAKES: dict[str, tuple[str, str | None]] = {
    "the name of an argument": (
        """
        @implements(hooks.guard_tool_call)
        def guard(self, kall: GuardedCall) -> Deny | None:  # wrong
            return None
        """,
        "`guard_tool_call` has no argument `kall`; did you mean `call`?",
    ),
    "the type of an argument": (
        """
        @implements(hooks.guard_tool_call)
        def guard(self, call: Step) -> Deny | None:  # wrong
            return None
        """,
        None,
    ),
    "the type of the answer": (
        """
        @implements(hooks.guard_tool_call)
        def guard(self, call: GuardedCall) -> bool:  # wrong
            return True
        """,
        None,
    ),
    "the type of a later answer": (
        """
        @implements(hooks.agent_pre_step)
        async def pre_step(self, step: Step) -> str:  # wrong
            return "no"
        """,
        None,
    ),
    "the verdict of another hook": (
        """
        @implements(hooks.guard_tool_call)
        def guard(self, call: GuardedCall) -> Reject | None:  # wrong
            return Reject("no")
        """,
        None,
    ),
    "the colour": (
        """
        @implements(hooks.observe)
        async def observe(self, event: Event) -> None:  # wrong
            return None
        """,
        "`observe` must be a plain function, not async",
    ),
    "the colour of a veto": (
        """
        @implements(hooks.agent_created)
        async def created(self, agent: Agent) -> None:  # wrong
            raise ValueError("too late")
        """,
        "`agent_created` must be a plain function, not async",
    ),
    "a missing argument": (
        """
        @implements(hooks.guard_tool_call)
        def guard(self) -> None:  # wrong
            return None
        """,
        None,  # an implementation may leave arguments out; the typed form wants all of them
    ),
    "one argument too many": (
        """
        @implements(hooks.agent_created)
        def created(self, agent: Agent, more: int) -> None:  # wrong
            return None
        """,
        "`agent_created` has no argument `more`",
    ),
    "a hook that is none": (
        """
        @implements(hooks.guard_tool_cal)  # wrong
        def guard(self, call: GuardedCall) -> None:
            return None
        """,
        "has no attribute 'guard_tool_cal'",
    ),
    "arguments the other way round": (
        """
        @implements(hooks.tool_post_execute)
        def post(self, result: Outcome, call: ToolRun) -> None:  # wrong
            return None
        """,
        None,  # names count, not places
    ),
    "an argument by keyword": (
        """
        @implements(hooks.observe)
        def observe(self, *, event: Event) -> None:  # wrong
            return None
        """,
        "`observe`: `event` must be a plain argument, hooks are called by position",
    ),
}


def source_of(mistake: str) -> str:
    """Return a module with one mistake in a class named Pack."""
    lines = MISTAKES[mistake][0].strip("\n").splitlines()
    return "class Pack:\n" + "".join(f"{line[4:]}\n" for line in lines if line.strip()) + "\n"


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    """Run mypy once over the right file and the wrong one; returns the errors by file and line."""
    folder = tmp_path_factory.mktemp("typed")
    bad = IMPORTS + "\n" + "\n".join(map(source_of, MISTAKES)).replace("class Pack", "class Pack_0")
    numbered = re.sub("Pack_0", _counting(), bad)
    for name, source in (("good", GOOD), ("bad", numbered)):
        (folder / f"{name}.py").write_text(source, "utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=.cache", "good.py", "bad.py"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    found: dict[str, dict[int, str]] = {"good": {}, "bad": {}, "source": dict(enumerate(numbered.splitlines(), 1))}
    for name, line, text in re.findall(r"^(\w+)\.py:(\d+): error: (.*)$", ended.stdout, re.M):
        found[name][int(line)] = text
    return found


def _counting() -> Callable[[re.Match[str]], str]:
    numbers = iter(range(1000))
    return lambda _match: f"Pack{next(numbers)}"


def test_right_implementations_of_every_hook_in_both_colours_are_clean(reported: dict[str, dict[int, str]]) -> None:
    assert reported["good"] == {}


def test_the_right_file_has_every_hook_in_every_colour_it_may_have() -> None:
    assert {*ARGUMENTS, "wrap_model_call", "wrap_tool_call"} == KERNEL_HOOKS
    for hook in KERNEL_HOOKS:
        both = not policy_of(getattr(Hooks, hook)).sync
        marked = re.findall(rf"implements\(hooks\.{hook}\b.*\n +(async )?def", GOOD)
        assert {bool(colour) for colour in marked} == ({True, False} if both else {False})


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_reported_at_its_line(reported: dict[str, dict[int, str]], mistake: str) -> None:
    wrong = [line for line, text in reported["source"].items() if str(text).endswith("# wrong")]
    line = wrong[list(MISTAKES).index(mistake)]

    # A decorated function begins at its decorator.
    assert {line, line - 1} & set(reported["bad"])


def test_nothing_else_is_reported(reported: dict[str, dict[int, str]]) -> None:
    assert len(reported["bad"]) == len(MISTAKES)


SEEN_AT_LOAD = [mistake for mistake, (_, told) in MISTAKES.items() if told]


@pytest.mark.parametrize("mistake", SEEN_AT_LOAD)
def test_a_mistake_that_can_be_seen_at_run_time_is_refused_at_load(
    open_host: Callable[..., Host], pack_folder: Any, mistake: str
) -> None:
    pack_folder.add("guest", IMPORTS + source_of(mistake))

    (pack,) = open_host().packs

    assert pack.state == "failed"
    assert str(MISTAKES[mistake][1]) in str(pack.reason)


def test_the_right_file_loads_and_every_implementation_finds_its_hook(
    open_host: Callable[..., Host], pack_folder: Any
) -> None:
    pack_folder.add("now", GOOD + "\nPack = AtOnce\n")
    pack_folder.add("then", GOOD + "\nPack = Later\n")
    pack_folder.add("wraps", GOOD + "\nPack = Wrapping\n")
    host = open_host()

    assert [(pack.name, pack.reason) for pack in host.packs if pack.state != "active"] == []
    for hook in KERNEL_HOOKS:
        packs = {pack for pack, _ in host.hook_order(hook)} - {"pegboard"}
        sync = policy_of(getattr(Hooks, hook)).sync
        assert packs == ({"wraps"} if hook.startswith("wrap_") else {"now"} if sync else {"now", "then"})


def test_the_typed_form_gives_the_same_wishes_as_pluggys_own(open_host: Callable[..., Host], pack_folder: Any) -> None:
    pack_folder.add("wraps", GOOD + "\nPack = Wrapping\n")

    assert open_host().hook_order("wrap_tool_call") == [("wraps", "tryfirst"), ("wraps", "trylast")]
