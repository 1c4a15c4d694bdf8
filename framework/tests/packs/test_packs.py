"""What becomes of each installed pack: active, disabled, failed with its reason, or waiting; none harms another."""

import asyncio
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pegboard import Host, PegboardError, Session
from pegboard.base.errors import ConfigError
from pegboard.config.layers import Config
from pegboard.packs.discovery import discover
from pegboard.packs.survey import Pack, survey

OpenHost = Callable[..., Host]

HEAD = "from pegboard import ModelProvider, hookimpl, tool\nfrom pydantic import BaseModel\n"


def offering(name: str, head: str = "") -> str:
    """Return the source of a pack with one tool."""
    return f'''
{head}
from pegboard import hookimpl, tool

@tool(effect="read")
def {name}() -> str:
    """Say hello."""
    return "hello"

class Pack:
    @hookimpl
    def register_tools(self):
        return [{name}]
'''


def with_hook(source: str) -> str:
    """Return the source of a pack that has one tool and this hook."""
    return f"{offering('never')}\n    @hookimpl\n    {source}\n"


def with_tools(returned: str) -> str:
    """Return the source of a pack that returns this from `register_tools`."""
    return f"{HEAD}class Pack:\n    @hookimpl\n    def register_tools(self):\n        return {returned}\n"


def with_settings(constructor: str = "def __init__(self, settings: Settings)") -> str:
    """Return the source of a pack with settings, which offers a tool named after its limit."""
    return f'''{HEAD}
class Inner(BaseModel):
    depth: int = 1

class Settings(BaseModel):
    limit: int = 3
    inner: Inner = Inner()

class Pack:
    {constructor}:
        self.settings = settings

    @hookimpl
    def register_tools(self):
        @tool(name=f"limit_{{self.settings.limit}}")
        def limit() -> str:
            """Say the limit."""
            return str(self.settings)
        return [limit]
'''


def marking(folder: Any) -> str:
    """Return source that writes its module's name into the file `imported` when it is imported."""
    return f"with open({str(folder.path / 'imported')!r}, 'a') as file:\n    file.write(__name__ + '\\n')\n"


def imported(folder: Any) -> list[str]:
    """Return the names of the marked modules that were imported, each as often as it was."""
    file = folder.path / "imported"
    return file.read_text("utf-8").split() if file.exists() else []


def by_name(host: Host) -> dict[str, Pack]:
    """Return the host's packs by name."""
    return {pack.name: pack for pack in host.packs}


def states(host: Host) -> dict[str, str]:
    """Return what became of each pack."""
    return {pack.name: pack.state for pack in host.packs}


def tools(host: Host) -> list[str]:
    """Return the names of the tools that a model would be offered."""
    return [tool.name for tool in host.snapshot().tools]


# -- what is installed is active


def test_installed_packs_are_active_and_their_tools_are_offered(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("notes", offering("note"))
    pack_folder.add("tickets", offering("ticket"))

    host = open_host()

    assert states(host) == {"notes": "active", "tickets": "active"}
    assert tools(host) == ["note", "ticket"]


def test_without_any_pack_the_host_opens(open_host: OpenHost) -> None:
    host = open_host()

    assert (host.packs, tools(host)) == ((), [])


def test_a_module_can_be_a_pack(open_host: OpenHost, pack_folder: Any) -> None:
    code = f"{HEAD}\n@hookimpl\ndef register_tools():\n    return []\n"
    pack_folder.add("notes", code, reference="sample_notes")

    assert states(open_host()) == {"notes": "active"}


@pytest.mark.parametrize(
    "reference", ["sample_notes:VERSION", "sample_notes:make", "sample_notes:Pack.tool", "sample_notes:NONE"]
)
def test_what_is_neither_a_module_nor_a_class_is_no_pack(open_host: OpenHost, pack_folder: Any, reference: str) -> None:
    code = "VERSION = '1.0'\nNONE = None\ndef make(): ...\nclass Pack:\n    def tool(self): ...\n"
    pack_folder.add("notes", code, reference=reference)

    assert states(open_host()) == {"notes": "failed"}


# -- switched off means not imported (rule 12)


def test_a_pack_switched_off_in_the_users_file_is_not_imported(
    open_host: OpenHost, pack_folder: Any, home: Any
) -> None:
    pack_folder.add("notes", marking(pack_folder) + offering("note"), tools=["note"])
    pack_folder.add("tickets", marking(pack_folder) + offering("ticket"))

    host = open_host("# mine\n[packs.notes]\nenabled = false\nunknown = 'is kept, not validated'\n")

    assert imported(pack_folder) == ["sample_tickets"]
    assert (states(host)["notes"], tools(host)) == ("disabled", ["ticket"])
    assert by_name(host)["notes"].decided_by == f"{home.config_file}:3"


def test_a_pack_that_is_disabled_by_option_is_not_imported(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("notes", marking(pack_folder) + offering("note"))

    host = open_host("[packs.notes]\nenabled = true\n", disable=["notes"])

    assert (imported(pack_folder), tools(host)) == ([], [])
    assert by_name(host)["notes"].decided_by == "--disable"


@pytest.mark.parametrize("broken", ["x = [", "nonsense", "[packs.notes]"])
def test_a_file_that_cannot_be_read_gets_no_pack_imported_that_it_may_have_switched_off(
    open_host: OpenHost, pack_folder: Any, broken: str
) -> None:
    pack_folder.add("notes", marking(pack_folder) + offering("note"))

    with pytest.raises(ConfigError):
        open_host(f"[packs.notes]\nenabled = false\n{broken}\n")

    assert imported(pack_folder) == []


def test_an_enabled_that_is_neither_true_nor_false_never_counts_as_true(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("notes", marking(pack_folder) + offering("note"))

    with pytest.raises(ConfigError, match=r"config\.toml:2  packs\.notes\.enabled  must be true or false"):
        open_host('[packs.notes]\nenabled = "false"\n')

    assert imported(pack_folder) == []


# -- a pack that does not work is failed, with its reason; everything else works


FAILURES = {
    "raises at import": ("raise RuntimeError('no luck')", ["RuntimeError: no luck"]),
    "no such module": ("import libfoo_that_is_not_there", ["ModuleNotFoundError", "libfoo_that_is_not_there"]),
    "a syntax error": ("def (:", ["SyntaxError"]),
    "exits at import": ("import sys; sys.exit('bye')", ["SystemExit: bye"]),
    "exits at import with code 0": ("import sys; sys.exit(0)", ["SystemExit: 0"]),
    "raises a BaseException": ("class Odd(BaseException): ...\nraise Odd('odd')", ["Odd: odd"]),
    "raises GeneratorExit": ("raise GeneratorExit", ["GeneratorExit"]),
    "raises CancelledError": ("import asyncio\nraise asyncio.CancelledError", ["CancelledError"]),
    "an error without text": ("class Mute(Exception):\n  def __str__(self): raise OSError\nraise Mute", ["Mute"]),
    "an error of many lines": ("raise ValueError('one\\ntwo\\x1b[31m')", ["one two\\x1b[31m"]),
    "no such class": ("class Other: ...", ["Pack"]),
    "misspelt hook": (with_hook("def regster_tools(self): ..."), ["regster_tools", "did you mean `register_tools`"]),
    "hook that does not exist": (with_hook("def on_launch(self): ..."), ["no hook `on_launch`"]),
    "misspelt specname": (
        offering("x") + "    @hookimpl(specname='guard_tool_cal')\n    def g(self, call): ...\n",
        ["guard_tool_cal", "did you mean `guard_tool_call`"],
    ),
    "wrong argument": (
        with_hook("def guard_tool_call(self, calls): ..."),
        ["guard_tool_call", "no argument `calls`", "did you mean `call`"],
    ),
    "an argument too many": (with_hook("def observe(self, event, host): ..."), ["observe", "`host`", "`event`"]),
    "arguments where none are": (with_hook("def register_models(self, host): ..."), ["register_models", "`host`"]),
    "a keyword-only argument": (with_hook("def guard_tool_call(self, *, call): ..."), ["guard_tool_call", "call"]),
    "an argument with a default": (with_hook("def guard_tool_call(self, call=None): ..."), ["guard_tool_call", "call"]),
    "any keywords": (with_hook("def guard_tool_call(self, **call): ..."), ["guard_tool_call", "call"]),
    "a guard that yields": (with_hook("def guard_tool_call(self, call): yield"), ["guard_tool_call", "yield"]),
    "a wrapper": (
        offering("x") + "    @hookimpl(wrapper=True)\n    def guard_tool_call(self, call):\n        return (yield)\n",
        ["guard_tool_call", "wrapper"],
    ),
    "an old wrapper": (
        offering("x") + "    @hookimpl(hookwrapper=True)\n    def guard_tool_call(self, call):\n        yield\n",
        ["guard_tool_call", "wrapper"],
    ),
    "async register_tools": (
        f"{HEAD}class Pack:\n  @hookimpl\n  async def register_tools(self): ...",
        ["register_tools", "async"],
    ),
    "async agent_created": (with_hook("async def agent_created(self, agent): ..."), ["agent_created", "async"]),
    "async agent_disposed": (with_hook("async def agent_disposed(self, agent): ..."), ["agent_disposed", "async"]),
    "async observe": (with_hook("async def observe(self, event): ..."), ["observe", "async"]),
    "async generator observe": (with_hook("async def observe(self, event): yield"), ["observe", "async"]),
    "takes a host": ("class Pack:\n  def __init__(self, host): ...", ["Pack.__init__", "`host`", "`settings`"]),
    "settings without model": ("class Pack:\n  def __init__(self, settings): ...", ["Pack.__init__", "pydantic"]),
    "settings of another kind": ("class Pack:\n  def __init__(self, settings: dict): ...", ["settings", "pydantic"]),
    "raises when made": ("class Pack:\n  def __init__(self): raise OSError('full')", ["OSError: full"]),
    "exits when made": ("class Pack:\n  def __init__(self): raise SystemExit(3)", ["SystemExit: 3"]),
    "register_tools raises": (with_tools("1 / 0"), ["register_tools", "`bad`", "ZeroDivisionError"]),
    "register_tools exits": (with_tools("exit(2)"), ["register_tools", "`bad`", "SystemExit: 2"]),
    "register_tools is cancelled": (
        with_tools("cancel()") + "\ndef cancel():\n  import asyncio\n  raise asyncio.CancelledError('no')",
        ["register_tools", "`bad`", "CancelledError: no"],
    ),
    "tools that are a number": (with_tools("42"), ["register_tools", "`bad`", "int"]),
    "tools that are a text": (with_tools("'abc'"), ["register_tools", "str is not a Tool"]),
    "tools that are a plain function": (with_tools("[print]"), ["register_tools", "not a Tool", "@tool"]),
    "tools that are None in a list": (with_tools("[None]"), ["register_tools", "NoneType is not a Tool"]),
    "tools that fail halfway": (
        with_tools("(1 / i for i in (0,))"),
        ["register_tools", "`bad`", "ZeroDivisionError"],
    ),
    "models that are none": (with_hook("def register_models(self): return [object()]"), ["register_models", "object"]),
    "a tool without schema": (
        with_tools("[odd]") + "class Odd: ...\n@tool\ndef odd(x: Odd) -> str:\n  'Odd.'\n",
        ["tool `odd`", "schema"],
    ),
}


@pytest.mark.parametrize(("code", "told"), FAILURES.values(), ids=FAILURES)
def test_a_pack_that_does_not_work_is_failed_with_its_reason_and_others_load(
    open_host: OpenHost, pack_folder: Any, code: str, told: list[str]
) -> None:
    pack_folder.add("able", offering("able"))
    pack_folder.add("bad", code)
    pack_folder.add("good", offering("good"))

    host = open_host()

    assert states(host) == {"able": "active", "bad": "failed", "good": "active"}
    assert tools(host) == ["able", "good"]
    reason = by_name(host)["bad"].reason
    assert [part for part in told if part not in reason] == [], reason
    assert len(reason.splitlines()) == 1 and reason.isprintable()


def test_ctrl_c_while_a_pack_is_imported_is_not_swallowed(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("slow", "raise KeyboardInterrupt")

    with pytest.raises(KeyboardInterrupt):
        open_host()


def test_what_a_pack_prints_while_it_is_loaded_goes_to_stderr(
    open_host: OpenHost, pack_folder: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    code = offering("note", "print('at import')").replace("return [note]", "print('in a hook'); return [note]")
    pack_folder.add("notes", code)

    open_host()

    assert capsys.readouterr() == ("", "at import\nin a hook\n")


def test_nothing_stays_of_a_pack_that_fails_after_it_registered_something(
    open_host: OpenHost, pack_folder: Any
) -> None:
    code = offering("note").replace("[note]", "[note, 42]")
    pack_folder.add("broken", code)
    pack_folder.add("notes", offering("note"))

    host = open_host()

    assert states(host) == {"broken": "failed", "notes": "active"}
    assert [(entry.tool.name, entry.pack) for entry in host.snapshot().offered] == [("note", "notes")]


def test_no_hook_of_a_failed_pack_is_called(open_host: OpenHost, pack_folder: Any, tmp_path: Path) -> None:
    pack_folder.add("broken", with_hook("def agent_created(self, agent): raise OSError").replace("[never]", "42"))
    pack_folder.add("notes", offering("note"))
    host = open_host()

    agent = asyncio.run(host.create_agent(session=Session.new(tmp_path)))

    assert (states(host)["broken"], agent.name) == ("failed", "main")


def test_an_optional_hook_of_a_pack_that_is_not_there_is_no_mistake(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add(
        "notes", offering("note") + "    @hookimpl(optionalhook=True)\n    def skill_found(self, skill): ...\n"
    )

    assert states(open_host()) == {"notes": "active"}


def test_a_hook_may_leave_arguments_out_and_go_by_another_name(open_host: OpenHost, pack_folder: Any) -> None:
    code = offering("note") + "    @hookimpl(specname='guard_tool_call')\n    def allow(self): ...\n"
    pack_folder.add("notes", code)

    assert states(open_host()) == {"notes": "active"}


# -- settings


def test_a_pack_gets_its_settings_checked_and_converted(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("notes", with_settings())

    assert tools(open_host("[packs.notes]\nenabled = true\nrequired = true\nlimit = 7\n")) == ["limit_7"]


@pytest.mark.parametrize(
    "constructor",
    [
        "def __init__(self, *, settings: Settings)",
        "def __init__(self, settings: 'Settings')",
        "def __init__(self, settings: Settings, more: int = 1)",
        "def __init__(self, settings: Settings, *args, **kwargs)",
    ],
)
def test_a_constructor_may_take_settings_in_any_usual_way(
    open_host: OpenHost, pack_folder: Any, constructor: str
) -> None:
    pack_folder.add("notes", with_settings(constructor))

    host = open_host()

    assert tools(host) == ["limit_3"], by_name(host)["notes"].reason


@pytest.mark.parametrize(
    "pack",
    [
        "class Child(Pack): ...",
        "from dataclasses import dataclass\n@dataclass\nclass Child(Pack):\n    settings: Settings",
    ],
    ids=["inherited", "dataclass"],
)
def test_a_constructor_may_be_inherited_or_generated(open_host: OpenHost, pack_folder: Any, pack: str) -> None:
    pack_folder.add("notes", with_settings() + pack, reference="sample_notes:Child")

    host = open_host()

    assert tools(host) == ["limit_3"], by_name(host)["notes"].reason


BAD_SETTINGS = {
    "unknown key": ("limt = 3", "packs.notes.limt", 3, "no such setting; did you mean `limit`?"),
    "wrong type": ('limit = "many"', "packs.notes.limit", 3, "valid integer"),
    "unknown nested key": ("[packs.notes.inner]\ndeph = 1", "packs.notes.inner.deph", 4, "did you mean `depth`?"),
    "wrong nested type": ("inner.depth = 'deep'", "packs.notes.inner.depth", 3, "valid integer"),
    "a value for a table": ("inner = 3", "packs.notes.inner", 3, "dictionary"),
}


@pytest.mark.parametrize(("line", "key", "number", "text"), BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def test_bad_settings_fail_their_pack_only_with_key_line_and_suggestion(
    open_host: OpenHost, pack_folder: Any, home: Any, line: str, key: str, number: int, text: str
) -> None:
    pack_folder.add("notes", with_settings())
    pack_folder.add("tickets", offering("ticket"))

    host = open_host(f"# mine\n[packs.notes]\n{line}\n")

    assert states(host) == {"notes": "failed", "tickets": "active"}
    assert f"{key} ({home.config_file}:{number}) " in (reason := by_name(host)["notes"].reason)
    assert text in reason
    assert [problem.key for problem in host.setting_problems] == [key]


def test_all_bad_settings_of_a_pack_are_told_at_once(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("notes", with_settings())

    reason = by_name(open_host("[packs.notes]\nlimt = 3\nlimit = 'x'\ninner = 1\n"))["notes"].reason

    assert all(key in reason for key in ("packs.notes.limt", "packs.notes.limit", "packs.notes.inner"))


@pytest.mark.parametrize("code", [offering("note"), f"{HEAD}\n@hookimpl\ndef register_tools(): ..."])
def test_settings_for_a_pack_that_has_none_are_refused(open_host: OpenHost, pack_folder: Any, code: str) -> None:
    pack_folder.add("notes", code, reference="sample_notes:Pack" if "class" in code else "sample_notes")

    reason = by_name(open_host("[packs.notes]\nlimit = 3\n"))["notes"].reason

    assert "packs.notes.limit" in reason and "this pack has none" in reason


def test_a_setting_that_is_missing_is_named_and_the_message_has_no_empty_place(
    open_host: OpenHost, pack_folder: Any
) -> None:
    pack_folder.add("notes", with_settings().replace("limit: int = 3", "limit: int"))

    reason = by_name(open_host())["notes"].reason

    assert "packs.notes.limit" in reason and "required" in reason
    assert "()" not in reason and "--disable" not in reason


# -- names are claimed once (rule 4)


def test_the_second_distribution_that_claims_a_pack_name_is_failed_naming_both(
    open_host: OpenHost, pack_folder: Any
) -> None:
    """Security case 20."""
    pack_folder.add("notes", marking(pack_folder), distribution="zzz-notes")
    pack_folder.add("first", offering("note"))
    pack_folder.write_metadata("aaa-notes", "1.0", "[pegboard.packs]\nnotes = sample_first:Pack\n", "Name: aaa-notes\n")

    host = open_host()

    assert imported(pack_folder) == []
    failed = next(pack for pack in host.packs if pack.distribution.name == "zzz-notes")
    assert failed.state == "failed"
    assert "conflict" in failed.reason and "`notes`" in failed.reason and "aaa-notes" in failed.reason
    assert by_name(host)["notes"].distribution.name == "aaa-notes"


def test_no_distribution_gets_lost_when_a_refused_one_is_named_like_another_pack(
    open_host: OpenHost, pack_folder: Any
) -> None:
    pack_folder.add("notes", offering("note"), distribution="aaa")
    pack_folder.add("tickets", offering("ticket"), distribution="other")
    pack_folder.write_metadata("tickets", "1.0", "[pegboard.packs]\nnotes = sample_notes:Pack\n", "Name: tickets\n")

    host = open_host()

    became = sorted((pack.distribution.name, pack.state) for pack in host.packs)
    assert became == [("aaa", "active"), ("other", "active"), ("tickets", "failed")]


TWO_PACKS = "[pegboard.packs]\nnotes = evil:A\nmore = evil:B\n"
BAD_NAME = "[pegboard.packs]\n../x = evil:Pack\n[pegboard.tools]\nnote = evil:note\n"


@pytest.mark.parametrize("points", [TWO_PACKS, BAD_NAME], ids=["its pack name", "its tool name"])
def test_a_distribution_that_is_refused_takes_no_name_from_a_good_one(
    open_host: OpenHost, pack_folder: Any, points: str
) -> None:
    pack_folder.write_metadata("aaa-evil", "1.0", points, "Name: aaa-evil\n")
    pack_folder.add("notes", offering("note"), tools=["note"])

    host = open_host()

    good = next(pack for pack in host.packs if pack.distribution.name == "notes")
    assert (good.name, good.state) == ("notes", "active"), good.reason


@pytest.mark.parametrize("name", ["../x", "-rf", "x" * 300, "p\u0430ck", "pa\u200bck"], ids=ascii)
def test_a_pack_with_a_hostile_name_is_refused_and_others_load(
    open_host: OpenHost, pack_folder: Any, name: str
) -> None:
    """Security cases 18 and 19."""
    points = f"[pegboard.packs]\n{name} = sample_evil:Pack\n"
    (pack_folder.path / "sample_evil.py").write_text(marking(pack_folder), "utf-8")
    pack_folder.write_metadata("evil", "1.0", points, "Name: evil\n")
    pack_folder.add("notes", offering("note"))

    host = open_host()

    assert imported(pack_folder) == []
    evil = next(pack for pack in host.packs if pack.distribution.name == "evil")
    assert (evil.state, tools(host)) == ("failed", ["note"])
    assert "no pack name" in evil.reason


def test_a_tool_name_reserved_by_an_earlier_pack_fails_the_later_naming_both(
    open_host: OpenHost, pack_folder: Any
) -> None:
    """Security cases 16 and 17; DESIGN rule 4."""
    pack_folder.add("aaa", offering("note"), tools=["note"])
    pack_folder.add("bbb", marking(pack_folder) + offering("note"), tools=["note"])

    host = open_host()

    assert states(host) == {"aaa": "active", "bbb": "failed"}
    assert by_name(host)["bbb"].reason == "conflict: tool `note` belongs to `aaa`"
    assert (imported(pack_folder), host.snapshot().offered[0].pack) == ([], "aaa")


def test_a_tool_name_that_a_later_pack_reserved_is_not_for_an_earlier_one_without_reservation(
    open_host: OpenHost, pack_folder: Any
) -> None:
    pack_folder.add("aaa", offering("note"))
    pack_folder.add("bbb", offering("note"), tools=["note"])

    host = open_host()

    assert states(host) == {"aaa": "failed", "bbb": "active"}
    assert by_name(host)["aaa"].reason == "conflict: tool `note` is reserved by pack `bbb`"


def test_of_two_packs_that_bring_an_unreserved_tool_the_later_fails(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("aaa", offering("note"))
    pack_folder.add("bbb", offering("note"))

    reason = by_name(open_host())["bbb"].reason

    assert reason.startswith("conflict: tool `note` is taken by pack `aaa`")


def test_a_disabled_pack_keeps_its_tool_names(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("aaa", offering("note"), tools=["note"])
    pack_folder.add("bbb", offering("note"))

    host = open_host("[packs.aaa]\nenabled = false\n")

    assert states(host) == {"aaa": "disabled", "bbb": "failed"}
    assert tools(host) == []


def test_a_command_name_is_claimed_once_and_the_kernels_are_its_own(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("aaa", offering("a"), commands={"tick": "x:y"})
    pack_folder.add("bbb", offering("b"), commands={"tick": "x:y"})
    pack_folder.add("ccc", offering("c"), commands={"run": "x:y"})
    pack_folder.add("pegboard", offering("d"), commands={"call": "x:y"}, distribution="ddd")

    packs = by_name(open_host())

    assert packs["bbb"].reason == "conflict: command `tick` belongs to `aaa`"
    assert packs["ccc"].reason == "conflict: command `run` belongs to `pegboard`"
    assert [name for name, pack in packs.items() if pack.state == "active"] == ["aaa"]


def test_of_two_packs_that_bring_one_model_route_the_later_fails(open_host: OpenHost, pack_folder: Any) -> None:
    code = f"{HEAD}class Pack:\n  @hookimpl\n  def register_models(self): return [ModelProvider('acme', 'A', print)]"
    pack_folder.add("aaa", code)
    pack_folder.add("bbb", code)

    assert by_name(open_host())["bbb"].reason == "conflict: model `acme` is taken by pack `aaa`"


@pytest.mark.parametrize("evil", ["non-utf-8", "bad name", "conflict"])
def test_a_refused_distribution_can_be_switched_off_by_the_name_it_is_listed_under(
    open_host: OpenHost, pack_folder: Any, evil: str
) -> None:
    points = {"non-utf-8": b"[pegboard.packs]\n\xff", "bad name": b"[pegboard.packs]\nBad = x:y\n"}
    pack_folder.add("notes", offering("note"), distribution="aaa")
    pack_folder.write_metadata("evil", "1.0", points.get(evil, b"[pegboard.packs]\nnotes = x:y\n"), "Name: evil\n")
    listed = next(pack.name for pack in open_host().packs if pack.distribution.name == "evil")

    host = open_host(f"[packs.{listed}]\nenabled = false\n")

    assert states(host) == {"notes": "active", listed: "disabled"}


# -- packs that build on each other


def test_a_pack_waits_for_one_that_is_disabled(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("base", offering("base"), distribution="Acme.Base")
    pack_folder.add("app", marking(pack_folder) + offering("app"), requires=["acme_base>=1"])
    pack_folder.add("top", marking(pack_folder) + offering("top"), requires=["app"])

    host = open_host("[packs.base]\nenabled = false\n")

    assert states(host) == {"base": "disabled", "app": "waiting", "top": "waiting"}
    assert by_name(host)["app"].reason == "it needs pack `base`, which is disabled"
    assert by_name(host)["top"].reason == "it needs pack `app`, which is waiting"
    assert (imported(pack_folder), tools(host)) == ([], [])


def test_a_pack_waits_for_one_that_fails_when_it_is_loaded(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("base", "raise RuntimeError")
    pack_folder.add("app", marking(pack_folder) + offering("app"), requires=["base"])

    host = open_host()

    assert states(host) == {"base": "failed", "app": "waiting"}
    assert by_name(host)["app"].reason == "it needs pack `base`, which is failed"
    assert imported(pack_folder) == []


@pytest.mark.parametrize("requirement", ["base; extra == 'all'", "base ; python_version >= '3'"])
def test_a_requirement_under_an_extra_or_marker_means_order_only(
    open_host: OpenHost, pack_folder: Any, requirement: str
) -> None:
    pack_folder.add("base", marking(pack_folder) + offering("base"))
    pack_folder.add("app", marking(pack_folder) + offering("app"), requires=[requirement])

    both = open_host()
    alone = open_host("[packs.base]\nenabled = false\n")

    assert imported(pack_folder) == ["sample_base", "sample_app", "sample_app"]
    assert (states(both)["app"], states(alone)) == ("active", {"base": "disabled", "app": "active"})


def test_a_requirement_that_is_no_pack_or_the_pack_itself_holds_nobody_back(
    open_host: OpenHost, pack_folder: Any
) -> None:
    pack_folder.add("app", offering("app"), requires=["pegboard", "click>=8", "not-installed", "app[fast]"])

    assert states(open_host()) == {"app": "active"}


def test_packs_load_in_the_order_of_their_names_unless_they_build_on_each_other(
    open_host: OpenHost, pack_folder: Any
) -> None:
    for name, requires in (("c", []), ("a", ["dist-z"]), ("z", []), ("b", [])):
        distribution = f"dist-{name}" if name != "b" else "dist-y"
        pack_folder.add(name, marking(pack_folder) + offering(name), requires=requires, distribution=distribution)

    host = open_host()

    order = [module.removeprefix("sample_") for module in imported(pack_folder)]
    assert order == [pack.name for pack in host.packs]
    assert order.index("z") < order.index("a")
    assert [name for name in order if name in "bc"] == ["b", "c"]


def test_packs_that_need_each_other_fail_and_are_named_and_others_load(open_host: OpenHost, pack_folder: Any) -> None:
    for name, needed in (("a", "b"), ("b", "c"), ("c", "a"), ("on-top", "a")):
        pack_folder.add(name, marking(pack_folder), requires=[needed])
    pack_folder.add("notes", offering("note"))

    host = open_host()

    failed = dict.fromkeys("abc", "failed")
    assert states(host) == {**failed, "on-top": "waiting", "notes": "active"}
    assert "`a` needs `b` needs `c` needs `a`" in f"{by_name(host)['a'].reason} needs `b` needs `c` needs `a`"
    assert imported(pack_folder) == []


def test_an_extra_that_names_a_pack_which_builds_on_this_one_is_no_cycle(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("base", marking(pack_folder) + offering("base"), requires=["plus; extra == 'all'"])
    pack_folder.add("plus", marking(pack_folder) + offering("plus"), requires=["base"])

    host = open_host()

    assert states(host) == {"base": "active", "plus": "active"}, by_name(host)["base"].reason
    assert imported(pack_folder) == ["sample_base", "sample_plus"]


def test_two_packs_that_name_each_other_under_extras_both_load(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("a", offering("a"), requires=["b; extra == 'b'"])
    pack_folder.add("b", offering("b"), requires=["a; extra == 'a'"])

    assert states(open_host()) == {"a": "active", "b": "active"}


def test_disabling_one_of_two_packs_that_need_each_other_leaves_it_disabled(
    open_host: OpenHost, pack_folder: Any
) -> None:
    pack_folder.add("a", offering("a"), requires=["b"])
    pack_folder.add("b", offering("b"), requires=["a"])

    assert states(open_host("[packs.b]\nenabled = false\n")) == {"a": "waiting", "b": "disabled"}


EDGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans()), max_size=8)


@settings(deadline=None, max_examples=60)
@given(EDGES, st.permutations(range(6)))
def test_whatever_packs_need_without_a_cycle_all_are_enabled_and_each_comes_after_what_it_needs(
    edges: list[tuple[int, int, bool]], naming: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number in range(6):
            needs = [f"p{naming[low]}" for high, low, extra in edges if high == number and low < high and not extra]
            maybe = [f"p{naming[low]}; extra == 'x'" for high, low, extra in edges if high == number and extra]
            info = Path(folder) / f"p{naming[number]}-1.0.dist-info"
            info.mkdir()
            lines = "".join(f"Requires-Dist: {line}\n" for line in (*needs, *maybe))
            (info / "METADATA").write_text(f"Name: p{naming[number]}\nVersion: 1.0\n{lines}\n", "utf-8")
            (info / "entry_points.txt").write_text(f"[pegboard.packs]\np{naming[number]} = x:y\n", "utf-8")
        found = discover([folder])
        packs = survey(found, Config())

        assert sorted((pack.name, pack.state) for pack in packs) == [(f"p{number}", "enabled") for number in range(6)]
        place = {pack.name: number for number, pack in enumerate(packs)}
        assert all(place[needed] < place[pack.name] for pack in packs for needed in pack.needs)
        assert [pack.name for pack in survey(reversed(found), Config())] == [pack.name for pack in packs]


# -- required packs (rule 6)


@pytest.mark.parametrize(
    ("code", "enabled", "told"),
    [
        ("raise RuntimeError('no luck')", True, "pack `notes` is failed (RuntimeError: no luck)"),
        (offering("note"), False, "pack `notes` is disabled"),
    ],
    ids=["failed", "disabled"],
)
def test_a_required_pack_that_is_not_active_stops_with_the_reason(
    open_host: OpenHost, pack_folder: Any, home: Any, code: str, enabled: bool, told: str
) -> None:
    pack_folder.add("notes", code)

    with pytest.raises(PegboardError) as stopped:
        open_host(f"[packs.notes]\nenabled = {str(enabled).lower()}\nrequired = true\n")

    assert told in str(stopped.value)
    assert f"{home.config_file}:3" in str(stopped.value)


def test_a_required_pack_that_is_not_even_installed_stops_too(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("tickets", offering("ticket"))

    with pytest.raises(PegboardError, match="notes"):
        open_host("[packs.notes]\nrequired = true\n")


def test_a_required_pack_that_is_active_stops_nobody(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("notes", offering("note"))

    assert states(open_host("[packs.notes]\nrequired = true\n")) == {"notes": "active"}


def test_a_pack_that_claims_policy_is_required_without_being_asked(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("guardian", "raise RuntimeError('no luck')", policy=True)

    with pytest.raises(PegboardError, match=r"`guardian` is failed \(RuntimeError: no luck\) but required: it claims"):
        open_host()


def test_a_pack_that_claims_policy_and_waits_for_a_disabled_one_stops(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("base", offering("base"))
    pack_folder.add("guardian", offering("guard"), policy=True, requires=["base"])

    with pytest.raises(PegboardError, match="`guardian` is waiting"):
        open_host("[packs.base]\nenabled = false\n")


def test_a_policy_pack_that_is_refused_stops_until_its_user_disables_it(open_host: OpenHost, pack_folder: Any) -> None:
    points = "[pegboard.packs]\nBad = x:y\n[pegboard.policy]\nBad = x:y\n"
    pack_folder.write_metadata("guardian", "1.0", points, "Name: guardian\n")

    with pytest.raises(PegboardError, match="Bad"):
        open_host()

    assert states(open_host("[packs.Bad]\nenabled = false\n")) == {"Bad": "disabled"}


@pytest.mark.parametrize(
    ("config", "options"),
    [("[packs.guardian]\nenabled = false\n", {}), ("", {"disable": ["guardian"]})],
    ids=["file", "option"],
)
def test_a_pack_that_claims_policy_may_be_disabled_by_its_user(
    open_host: OpenHost, pack_folder: Any, config: str, options: dict[str, Any]
) -> None:
    pack_folder.add("guardian", marking(pack_folder), policy=True)

    assert states(open_host(config, **options)) == {"guardian": "disabled"}
    assert imported(pack_folder) == []


def test_opening_a_host_leaves_standard_output_as_it_was(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("notes", "import sys; sys.stdout = None; raise RuntimeError")
    before = sys.stdout

    open_host()

    assert sys.stdout is before


def test_a_policy_pack_is_not_released_by_required_false(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("guardian", "raise RuntimeError('no luck')", policy=True)

    with pytest.raises(PegboardError, match="it claims policy"):
        open_host("[packs.guardian]\nrequired = false\n")


def test_a_variable_that_looks_like_a_number_is_text_where_text_is_wanted(
    open_host: OpenHost, pack_folder: Any, home: Any
) -> None:
    code = with_settings().replace("limit: int = 3", "limit: str = 'x'")
    pack_folder.add("notes", code)

    host = Host.open(environ={"PEGBOARD_PACKS_NOTES_LIMIT": "2024"}, distributions=discover([str(pack_folder.path)]))

    assert tools(host) == ["limit_2024"], by_name(host)["notes"].reason


# -- off by default, and whose a tool is


def test_with_packs_off_by_default_only_named_ones_are_loaded(open_host: OpenHost, pack_folder: Any, home: Any) -> None:
    pack_folder.add("aaa", offering("one"))
    pack_folder.add("bbb", "raise RuntimeError('imported')")

    packs = by_name(open_host("[packs]\ndefault = 'off'\n[packs.aaa]\nenabled = true\n"))

    file = home.config_file
    assert (packs["aaa"].state, packs["aaa"].decided_by) == ("active", f"{file}:4")
    assert (packs["bbb"].state, packs["bbb"].decided_by) == ("disabled", f"{file}:2")
    assert packs["bbb"].reason == f"by {file}:2, where packs are off by default"


def test_no_pack_is_called_default(open_host: OpenHost, pack_folder: Any) -> None:
    pack_folder.add("default", offering("one"))

    pack = by_name(open_host())["default"]

    assert (pack.state, pack.reason) == ("failed", "`default` is no pack name: `[packs] default` is a setting")


def test_a_program_brings_no_pack_called_default(open_host: OpenHost) -> None:
    assert by_name(open_host(packs={"default": object()}))["default"].state == "failed"


@pytest.mark.parametrize("reserved", [(), ("note",)], ids=["unreserved", "reserved"])
@pytest.mark.parametrize("owner", ["aaa", "bbb"])
def test_the_user_says_which_of_two_packs_has_a_tool_and_the_other_stays_active_without_it(
    open_host: OpenHost, pack_folder: Any, reserved: tuple[str, ...], owner: str
) -> None:
    pack_folder.add("aaa", offering("note"), tools=reserved)
    pack_folder.add("bbb", offering("note"), tools=reserved)

    host = open_host(f"[tools.owner]\nnote = '{owner}'\n")

    assert {pack.name: pack.state for pack in host.packs} == {"aaa": "active", "bbb": "active"}
    assert [(entry.tool.name, entry.pack) for entry in host.snapshot().offered] == [("note", owner)]
