"""The pack contract catches each way in which a pack may break it, and says how to mend it."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pegboard import UsageError
from pegboard.testing import JSONL_PACK, PackContract, PackFolder, check_pack

Pegboard = Callable[..., subprocess.CompletedProcess[str]]

HEAD = """
import asyncio, os, socket, subprocess, threading, time
import click
from pydantic import BaseModel, Field
from pegboard import Deny, Touch, hookimpl, hooks, implements, tool
"""
GOOD = """
class Settings(BaseModel):
    limit: int = 3

class Pack:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @implements(hooks.register_tools)
    def register_tools(self):
        @tool(effect="read", touches=lambda path=".", **_: [Touch.path(path)])
        def find_notes(word: str, path: str = ".") -> str:
            '''Find notes.

            Args:
                word: What to look for.
                path: Where.
            '''
            return word
        return [find_notes]

    @implements(hooks.guard_tool_call)
    def guard_tool_call(self, call):
        return None

@click.command()
def notes():
    '''List notes.'''
"""
IN_THREAD = """
class Pack:
    @implements(hooks.host_started)
    def host_started(self, host):
        @tool
        def left_over() -> str:
            'Stay.'
            return ''
        worker = threading.Thread(target=lambda: host.tools.register(left_over))
        worker.start()
        worker.join()
"""


@dataclass
class Broken:
    """A sample pack: its source, how it is declared, and what is to be said about it: what is wrong, how to mend it."""

    rule: str
    code: str
    tells: dict[str, str]
    declared: dict[str, Any] = field(default_factory=dict)


def hook(name: str, arguments: str, body: str) -> str:
    """Return a pack with one hook."""
    return f"class Pack:\n    @hookimpl\n    def {name}({', '.join(['self', *arguments.split()])}):\n        {body}\n"


def settings(*fields: str) -> str:
    """Return a pack with these settings."""
    lines = "".join(f"    {each}\n" for each in fields)
    return f"class Settings(BaseModel):\n{lines}class Pack:\n    def __init__(self, settings: Settings): pass\n"


NOTHING = "class Pack: pass\n"
DO_IT = """
@tool
def do_it() -> str:
    'Do it.'
    return ''
"""
BAD_TOOLS = """
from dataclasses import replace

@tool
def undescribed(word: str) -> str:
    'Do it.'

@tool
def unguarded(note_path: str, page_url: str) -> str:
    '''Do it.

    Args:
        note_path: Which.
        page_url: Whose.
    '''

@tool(touches=lambda path: [Touch.path(path)])
def halfway(path: str, word: str = "") -> str:
    '''Do it.

    Args:
        path: Which.
        word: What.
    '''

@tool(effect="read", touches=lambda command: [Touch.command(command)])
def harmless(command: str) -> str:
    '''Do it.

    Args:
        command: Which.
    '''

nameless = replace(do_it, name="nameless", description=" ")
""" + hook("register_tools", "", "return [undescribed, unguarded, halfway, harmless, nameless]")

BROKEN = {
    "names that are not public": Broken(
        "public-names",
        "from pegboard.host import Host\n"
        "def later():\n"
        "    from pegboard.dispatch import Dispatcher\n"
        "    from pegboard.values.events import Said\n"
        "    import pegboard\n"
        f"    return pegboard.loading\n{NOTHING}",
        {
            "`pegboard.host.Host` is not public and may go without notice (sample_": "from pegboard import Host",
            "`pegboard.values.events.Said` is not public": "write `from pegboard.events import Said`",
            "`pegboard.dispatch.Dispatcher` is not public": "or ask for what is missing",
            "`pegboard.loading` is not public": "or ask for what is missing",
        },
    ),
    "effects of an import": Broken(
        "import",
        "threading.Thread(target=time.sleep, args=(0,)).start()\nopen('notes.txt', 'w').close()\n"
        "os.environ['NOTES'] = '1'\nsocket.getaddrinfo('localhost', 80)\nsubprocess.run(['true'])\n" + NOTHING,
        {
            "importing it starts a thread (sample_broken.py:6)": "start it in `host_started`",
            "importing it writes to `notes.txt` (sample_broken.py:7)": "below `host.state_dir()`",
            "importing it sets the environment variable `NOTES`": "in `ProcessSpec.env`",
            "importing it looks up the host `localhost`": "connect in `run_starting`",
            "importing it starts `true`": "with `host.spawn`",
        },
    ),
    "an import that fails": Broken(
        "import",
        "raise ImportError('no library')",
        {"ImportError: no library (sample_broken.py:6)": "mend the import"},
    ),
    "an object that is no pack": Broken(
        "import", "Pack = []", {"`sample_broken:Pack` is a list, which is no pack": "name a class or a module"}
    ),
    "an import that kills the process": Broken(
        "import",
        "os._exit(3)",
        {"the process that checked `import` ended with exit 3": "leave that to the host"},
    ),
    "settings that must be set": Broken(
        "settings", settings("tracker: str"), {"the setting `tracker` has no default": "give it a default"}
    ),
    "settings whose defaults do not fit, and that no file can say": Broken(
        "settings",
        settings(
            "model_config = {'arbitrary_types_allowed': True}",
            "limit: int = 'three'",
            "lock: threading.Event = threading.Event()",
        ),
        {
            "the default of the setting `limit` does not fit its own type": "correct the default",
            "`Settings` has no JSON Schema": "types that a TOML file can say",
        },
    ),
    "a constructor that takes something else": Broken(
        "settings",
        "class Pack:\n    def __init__(self, config): pass\n",
        {"takes `config`": "def __init__(self, settings: Settings)"},
    ),
    "a constructor that raises": Broken(
        "settings",
        "class Pack:\n    def __init__(self): os.environ['NOTES_TOKEN']\n",
        {"can't be made with its default settings: KeyError: 'NOTES_TOKEN'": "leave what may fail to `host_started`"},
    ),
    "a misspelt hook": Broken(
        "hooks",
        hook("guard_tol_call", "call", "return None"),
        {"there is no hook `guard_tol_call`; did you mean `guard_tool_call`?": "`pegboard hooks` lists the names"},
    ),
    "a wrong signature": Broken(
        "hooks",
        hook("run_starting", "agent", "pass"),
        {"`run_starting` has no argument `agent`": "write it as the hooks reference does"},
    ),
    "a hook without its mark": Broken(
        "hooks",
        "class Pack:\n    def guard_tool_call(self, call):\n        return Deny('never')\n",
        {"`guard_tool_call` is named like a hook but is not marked": "`@implements(hooks.guard_tool_call)` above it"},
    ),
    "what is no tool": Broken(
        "tools",
        hook("register_tools", "", "return [print]"),
        {"hands over a builtin_function_or_method, which is no tool": "mark the function `@tool`"},
    ),
    "tools that can't be defined": Broken(
        "tools",
        hook("register_tools", "", "return [tool(lambda word: word)]"),
        {"`register_tools` fails: TypeError": "mend the definition"},
    ),
    "tools that leave something open": Broken(
        "tools",
        DO_IT + BAD_TOOLS,
        {
            "tool `nameless` has no description": "say in its docstring",
            "tool `undescribed` does not say what its parameter `word` is": "a line `word: ...` below `Args:`",
            "`unguarded` takes a path in `note_path` and touches nothing": "[Touch.path(note_path)]`",
            "`unguarded` takes a url in `page_url` and touches nothing": "[Touch.url(page_url)]`",
            "`halfway` has `touches` that do not take its arguments": "the others as `**_`",
            '`harmless` runs a command and says `effect="read"`': "a command may change anything",
        },
        {"tools": ["undescribed", "unguarded", "halfway", "harmless", "nameless"]},
    ),
    "a tool of an agent that is not reserved and leaves something open": Broken(
        "tools",
        BAD_TOOLS.partition("@tool\ndef unguarded")[0]
        + hook("agent_created", "agent", "agent.tools.register(undescribed)"),
        {"tool `undescribed` does not say what its parameter `word` is": "a line `word: ...` below `Args:`"},
    ),
    "entry points that are not what is there": Broken(
        "entry-points",
        DO_IT + hook("register_tools", "", "return [do_it]"),
        {
            "tool `do_it` is registered but its name is not reserved": 'add `do_it = "sample_broken:Pack"`',
            "tool `do_that` is reserved but the pack does not register it": "remove the line",
            "command `notes` is a type": "let `sample_broken:Pack` be a click command",
            "declares that it guards tool calls but implements no": "remove the group",
        },
        {"tools": ["do_that"], "commands": {"notes": "sample_broken:Pack"}, "guards": True},
    ),
    "a guard of one agent that is not declared": Broken(
        "entry-points",
        hook("guard_tool_call", "call", "return None").replace("Pack", "Ceiling") + NOTHING,
        {"implements `guard_tool_call` but does not declare it": 'add `broken = "sample_broken:Pack"`'},
    ),
    "a failing start": Broken(
        "alone",
        hook("host_started", "host", "raise ConnectionError('no server')"),
        {"host_started failed: ConnectionError: no server": "no network and no other pack"},
    ),
    "failing hooks of a run": Broken(
        "alone",
        hook("observe", "event", "{}['x']") + "    @hookimpl\n    def assemble_prompt(self, prompt): return 'text'\n",
        {
            "`observe` fails: KeyError: 'x'": "make it work with default settings",
            "a run ends with an error": "make it work with default settings",
        },
    ),
    "a guard that fails at a write": Broken(
        "alone",
        hook("guard_tool_call", "call", "return call.touches[0].value.missing if call.touches else None"),
        {"`guard_tool_call` denies a call by its failure: the guard failed": "make it work with default settings"},
        {"guards": True},
    ),
    "a wrapper of calls that fails": Broken(
        "alone",
        hook("wrap_tool_call", "call proceed", "raise KeyError('x')"),
        {"a call fails: Error: wrap_tool_call of pack `broken` failed": "make it work with default settings"},
    ),
    "a veto of every agent": Broken(
        "alone",
        hook("agent_created", "agent", "raise ValueError('no terminal')"),
        {"no agent can be created": "make it work with default settings"},
    ),
    "trust in other packs": Broken(
        "neighbour",
        hook("host_started", "host", "assert all(pack.state == 'active' for pack in host.packs)"),
        {"beside packs that fail, the pack is failed: host_started failed": "rely on no other pack's success"},
    ),
    "what stays behind": Broken(
        "residue",
        "kept = []\n"
        + hook(
            "host_started",
            "host",
            "kept.extend([threading.Thread(target=time.sleep, args=(3600,)), open(os.devnull),"
            " subprocess.Popen(['sleep', '3600']), asyncio.create_task(asyncio.sleep(3600))]);"
            " kept[-4].start(); os.environ['NOTES'] = str(time.time())",
        ).replace("def", "async def"),
        {
            "a task goes on after the pack is gone: <coroutine object sleep": "start it with `host.start_task`",
            "a thread goes on after the pack is gone": "end it in `host_stopping`",
            "a process goes on after the pack is gone: sleep": "start it with `host.spawn`",
            "a descriptor stays open after the pack is gone: /dev/null": "close it in `host_stopping`",
            "the process is changed after the pack is gone: NOTES (sample_broken:Pack)": "change no variable",
        },
    ),
    "a tool that is nobody's": Broken(
        "residue", IN_THREAD, {"tool `left_over` is still there": "register in a hook of the pack"}
    ),
}


@pytest.mark.parametrize("sample", BROKEN.values(), ids=BROKEN.keys())
def test_each_break_is_told_with_what_where_and_how_to_mend_it(pack_folder: PackFolder, sample: Broken) -> None:
    pack_folder.add("broken", HEAD + sample.code, **sample.declared)

    report = check_pack("broken")

    told = [str(finding) for finding in report.of(sample.rule)]
    for what, mend in sample.tells.items():
        assert [text for text in told if what in text and mend in text], (what, told)
    assert len(told) == len(sample.tells), told
    assert report.findings[0].rule == sample.rule
    assert not report.ok


def test_a_good_pack_keeps_every_rule(pack_folder: PackFolder) -> None:
    pack_folder.add("notes", HEAD + GOOD, tools=["find_notes"], commands={"notes": "sample_notes:notes"}, guards=True)

    report = check_pack("notes")

    assert report.ok, report
    assert report.import_ms is not None


def test_what_a_pack_decides_is_no_failure_of_it(pack_folder: PackFolder) -> None:
    """A strict guard, a reviewer that blocks, a prompt without tools: a pack may be as strict as it likes."""
    code = (
        HEAD + "from pegboard import Ask, Block, Reject\n" + hook("guard_tool_call", "call", "return Ask('a person?')")
    )
    code += "    @hookimpl\n    def tool_post_execute(self, call, result): return Block('no')\n"
    code += "    @hookimpl\n    def agent_pre_step(self, step): return Reject('no') if step.number > 1 else None\n"
    pack_folder.add("strict", code, policy=True, guards=True)

    assert check_pack("strict").findings == ()


def test_a_pack_that_is_imported_although_it_is_off_is_told(pack_folder: PackFolder) -> None:
    pack_folder.add("eager", NOTHING)
    (pack_folder.path / "sitecustomize.py").write_text("import sample_eager", "utf-8")

    (finding,) = check_pack("eager").findings

    assert (finding.rule, finding.where) == ("disabled", "sample_eager.py")
    assert "let nothing but its entry points import it" in str(finding)


def test_a_pack_that_never_comes_to_an_end_is_told_and_ended(pack_folder: PackFolder) -> None:
    pack_folder.add("endless", "import time\ntime.sleep(3600)")

    (finding,) = check_pack("endless", timeout=3).findings

    assert "the process that checked `import` was not over after 3 s" in str(finding)


def test_what_a_pack_prints_does_not_reach_the_report(pack_folder: PackFolder, pegboard: Pegboard) -> None:
    pack_folder.add("loud", "print('loud')\nclass Pack: print('louder')")

    checked = pegboard("check", "loud", "--json")

    assert json.loads(checked.stdout)["ok"], checked.stdout
    assert checked.stderr == ""


def test_the_command_says_what_it_found_and_exits_1(pack_folder: PackFolder, pegboard: Pegboard) -> None:
    pack_folder.add("broken", HEAD + BROKEN["an import that fails"].code)

    checked = pegboard("check", "broken")

    assert checked.returncode == 1
    assert "  broken  import " in checked.stdout
    assert "ImportError: no library (sample_broken.py:6): mend the import" in checked.stdout
    assert checked.stdout.endswith("10 rules, 1 finding, 7 not checked: they need those that are broken\n")


def test_the_command_checks_a_project_that_is_not_installed(tmp_path: Path, pegboard: Pegboard) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "acme_notes.py").write_text(HEAD + GOOD, "utf-8")
    groups = {"packs": "notes", "guards": "notes", "tools": "find_notes"}
    entries = "".join(
        f'[project.entry-points."pegboard.{group}"]\n{name} = "acme_notes:Pack"\n' for group, name in groups.items()
    )
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "acme-notes"\nversion = "2.1"\n{entries}', "utf-8")

    checked = pegboard("check", str(tmp_path))

    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout.startswith("notes 2.1 (acme-notes) · imported in ")


def test_a_project_is_checked_where_a_pack_of_its_name_is_installed(pack_folder: PackFolder, tmp_path: Path) -> None:
    pack_folder.add("notes", "raise ImportError('the installed one')", distribution="aaa-notes")
    (tmp_path / "notes.py").write_text("class Notes: pass", "utf-8")
    entries = '[project.entry-points."pegboard.packs"]\nnotes = "notes:Notes"\n'
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "Acme.Notes"\n{entries}', "utf-8")

    assert check_pack(tmp_path).ok


def test_what_its_metadata_forbids_is_told(pack_folder: PackFolder) -> None:
    pack_folder.add("Bad_Name", NOTHING)

    (finding,) = check_pack("Bad_Name").findings

    assert "the pack is failed: 'Bad_Name' is no pack name" in str(finding)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no toml",
        "[project]",
        '[project]\nname = "a"\nentry-points = []',
        '[project]\nname = "a"\n[project.entry-points]\n"pegboard.packs" = {}',
        '[project]\n[project.entry-points."pegboard.packs"]\na = "a"',
        '[project]\nname = "../../evil"\n[project.entry-points."pegboard.packs"]\na = "a"',
        '[project]\nname = "a"\nversion = "/1"\n[project.entry-points."pegboard.packs"]\na = "a"',
    ],
)
def test_a_folder_that_declares_no_pack_is_a_mistake_in_usage(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text, "utf-8")

    with pytest.raises(UsageError, match=r"no pyproject\.toml with an entry point"):
        check_pack(tmp_path)


@pytest.mark.parametrize("target", ["nobody", ".", "../..", ""])
def test_what_is_no_pack_is_a_mistake_in_usage(pegboard: Pegboard, target: str) -> None:
    checked = pegboard("check", target)

    assert checked.returncode == 2
    assert checked.stderr.startswith("pegboard: ")
    assert len(checked.stderr.splitlines()) == 1


def test_an_object_is_checked_without_what_it_can_not_declare(pack_folder: PackFolder) -> None:
    module = import_module(pack_folder.add("notes", HEAD + GOOD))

    report = check_pack(module.Pack)

    assert report.ok, report
    assert report.pack == "pack"


def test_a_contract_says_which_pack_it_is_about() -> None:
    with pytest.raises(UsageError, match="which pack it is about"):
        PackContract.setup_class()
    with pytest.raises(UsageError, match="can't be checked"):
        check_pack(object())


class TestJsonlContract(PackContract):
    """The reference store keeps the contract, from its project's folder."""

    pack = JSONL_PACK
