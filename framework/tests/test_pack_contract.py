"""The pack contract catches each way in which a pack may break it, and says how to mend it."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pegboard import UsageError
from pegboard.testing import PackContract, PackFolder, check_pack

Pegboard = Callable[..., subprocess.CompletedProcess[str]]

HEAD = """
import asyncio, os, socket, subprocess, threading, time
import click
from pydantic import BaseModel, Field
from pegboard import Deny, Tool, ToolContext, Touch, define_tool, hookimpl, hooks, implements, tool
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
    """A sample pack: its source, how it is declared, and what is to be said about it."""

    rule: str
    what: str
    mend: str
    code: str
    declared: dict[str, Any] = field(default_factory=dict)


def hook(name: str, arguments: str, *body: str) -> str:
    """Return a pack with one hook."""
    lines = "".join(f"        {line}\n" for line in body)
    return f"class Pack:\n    @hookimpl\n    def {name}(self, {arguments}):\n{lines}"


def one_tool(head: str, arguments: str, docstring: str = "Do it.", name: str = "do_it") -> str:
    """Return a pack with one tool."""
    return (
        f"@tool({head})\ndef {name}({arguments}) -> str:\n    '''{docstring}'''\n    return ''\n"
        f"class Pack:\n    @hookimpl\n    def register_tools(self):\n        return [{name}]\n"
    )


def settings(field_: str) -> str:
    """Return a pack with one setting."""
    return f"class Settings(BaseModel):\n    {field_}\nclass Pack:\n    def __init__(self, settings: Settings): pass\n"


DO_IT = {"tools": ["do_it"]}
NOTHING = "class Pack: pass\n"
BROKEN = {
    "an import of a private module": Broken(
        "public-names",
        "`pegboard.host.Host` is not public",
        "write `from pegboard import Host`",
        f"from pegboard.host import Host\n{NOTHING}",
    ),
    "a private name that has no public form": Broken(
        "public-names",
        "`pegboard.dispatch.Dispatcher` is not public",
        "`pegboard.testing` make public",
        f"def later():\n    from pegboard.dispatch import Dispatcher\n{NOTHING}",
    ),
    "a thread at import": Broken(
        "import",
        "importing it starts a thread (sample_broken.py:6)",
        "start it in `host_started`",
        f"threading.Thread(target=time.sleep, args=(0,)).start()\n{NOTHING}",
    ),
    "a file at import": Broken(
        "import",
        "importing it writes to `notes.txt`",
        "below `host.state_dir()`",
        f"open('notes.txt', 'w').close()\n{NOTHING}",
    ),
    "a variable at import": Broken(
        "import",
        "importing it sets the environment variable `NOTES`",
        "in `ProcessSpec.env`",
        f"os.environ['NOTES'] = '1'\n{NOTHING}",
    ),
    "a connection at import": Broken(
        "import",
        "importing it looks up the host `localhost`",
        "connect in `run_starting`",
        f"socket.getaddrinfo('localhost', 80)\n{NOTHING}",
    ),
    "a process at import": Broken(
        "import",
        "importing it starts `true`",
        "with `host.spawn`",
        f"subprocess.run(['true'])\n{NOTHING}",
    ),
    "an import that fails": Broken(
        "import",
        "ImportError: no library (sample_broken.py:6)",
        "mend the import",
        "raise ImportError('no library')",
    ),
    "an import that exits": Broken("import", "SystemExit: 3", "mend the import", "raise SystemExit(3)"),
    "an import that kills the process": Broken(
        "import",
        "the process that checked `import` ended with exit 3",
        "leave that to the host",
        "os._exit(3)",
    ),
    "a setting without default": Broken(
        "settings", "the setting `tracker` has no default", "give it a default", settings("tracker: str")
    ),
    "a default of another type": Broken(
        "settings",
        "the default of the setting `limit` does not fit",
        "correct the default",
        settings("limit: int = 'three'"),
    ),
    "a setting that no file can say": Broken(
        "settings",
        "`Settings` has no JSON Schema",
        "types that a TOML file can say",
        settings("model_config = {'arbitrary_types_allowed': True}\n    lock: threading.Event = None"),
    ),
    "a constructor that takes something else": Broken(
        "settings",
        "takes `config`",
        "def __init__(self, settings: Settings)",
        "class Pack:\n    def __init__(self, config): pass\n",
    ),
    "a constructor that raises": Broken(
        "settings",
        "can't be made with its default settings: KeyError: 'NOTES_TOKEN'",
        "leave what may fail to `host_started`",
        "class Pack:\n    def __init__(self): os.environ['NOTES_TOKEN']\n",
    ),
    "a misspelt hook": Broken(
        "hooks",
        "there is no hook `guard_tol_call`; did you mean `guard_tool_call`?",
        "`pegboard hooks` lists the names",
        hook("guard_tol_call", "call", "return None"),
    ),
    "a wrong signature": Broken(
        "hooks",
        "`run_starting` has no argument `agent`",
        "as the hooks reference does",
        hook("run_starting", "agent", "pass"),
    ),
    "an async hook that must be sync": Broken(
        "hooks",
        "`observe` must be a plain function, not async",
        "as the hooks reference does",
        hook("observe", "event", "pass").replace("def", "async def"),
    ),
    "a hook without its mark": Broken(
        "hooks",
        "`guard_tool_call` is named like a hook but is not marked",
        "write `@implements(hooks.guard_tool_call)` above it",
        "class Pack:\n    def guard_tool_call(self, call):\n        return Deny('never')\n",
    ),
    "a function that is no tool": Broken(
        "tools",
        "hands over a function",
        "mark the function `@tool`",
        hook("register_tools", "", "return [print_]")
        .replace("self, ", "self")
        .replace("print_", "len")
        .replace("len", "hook_")
        + "def hook_(): pass\n",
    ),
    "a tool without description": Broken(
        "tools",
        "tool `do_it` has no description",
        "say in its docstring",
        "from pegboard import compile_value, output_of\n"
        + hook(
            "register_tools",
            "",
            "text = output_of(compile_value({'type': 'string'}), str)",
            "return [define_tool(name='do_it', description=' ', parameters={}, output=text, body=len)]",
        ).replace("self, ", "self"),
        DO_IT,
    ),
    "a parameter without description": Broken(
        "tools",
        "does not say what its parameter `word` is",
        "write a line `word: ...`",
        one_tool("", "word: str"),
        DO_IT,
    ),
    "a path that no guard sees": Broken(
        "tools",
        "takes a path in `note_path` and touches nothing",
        "`touches=lambda note_path, **_: [Touch.path(note_path)]`",
        one_tool("", "note_path: str", "Do it.\n\n    Args:\n        note_path: Which.\n    "),
        DO_IT,
    ),
    "touches that take only some arguments": Broken(
        "tools",
        "has `touches` that do not take its arguments",
        "the others as `**_`",
        one_tool(
            "touches=lambda path: [Touch.path(path)]",
            "path: str, word: str = ''",
            "Do it.\n\n    Args:\n        path: Which.\n        word: What.\n    ",
        ),
        DO_IT,
    ),
    "a command that only reads": Broken(
        "tools",
        'runs a command and says `effect="read"`',
        "a command may change anything",
        one_tool(
            "effect='read', touches=lambda command: [Touch.command(command)]",
            "command: str",
            "Do it.\n\n    Args:\n        command: Which.\n    ",
        ),
        DO_IT,
    ),
    "a tool whose name is not reserved": Broken(
        "entry-points", "`do_it` is registered but its name is not reserved", "add `do_it =", one_tool("", "")
    ),
    "a reserved name without a tool": Broken(
        "entry-points",
        "tool `do_that` is reserved but the pack does not register it",
        "remove the line",
        one_tool("", ""),
        {"tools": ["do_it", "do_that"]},
    ),
    "a command that is none": Broken(
        "entry-points",
        "command `notes` is a type",
        "let `sample_broken:Pack` be a click command",
        NOTHING,
        {"commands": {"notes": "sample_broken:Pack"}},
    ),
    "a guard that is not declared": Broken(
        "entry-points",
        "implements `guard_tool_call` but does not declare it",
        'add `broken = "sample_broken:Pack"`',
        hook("guard_tool_call", "call", "return None"),
    ),
    "a guard of one agent that is not declared": Broken(
        "entry-points",
        "implements `guard_tool_call` but does not declare it",
        "add `broken =",
        hook("guard_tool_call", "call", "return None").replace("Pack", "Ceiling") + NOTHING,
    ),
    "a declared guard that is none": Broken(
        "entry-points", "declares that it guards tool calls", "remove the group", NOTHING, {"guards": True}
    ),
    "a failing start": Broken(
        "alone",
        "host_started failed: ConnectionError: no server",
        "no network and no other pack",
        hook("host_started", "host", "raise ConnectionError('no server')"),
    ),
    "a failing hook of a run": Broken(
        "alone",
        "`observe` fails: KeyError: 'x'",
        "make it work with default settings",
        hook("observe", "event", "{}['x']"),
    ),
    "a run that ends with an error": Broken(
        "alone", "a run ends with an error", "make it work", hook("assemble_prompt", "agent, prompt", "return 'text'")
    ),
    "a veto of every agent": Broken(
        "alone",
        "no agent can be created",
        "make it work",
        hook("agent_created", "agent", "raise ValueError('no terminal')"),
    ),
    "trust in other packs": Broken(
        "neighbour",
        "beside packs that fail, the pack is failed: host_started failed",
        "rely on no other pack's success",
        hook("host_started", "host", "assert all(pack.state == 'active' for pack in host.packs)"),
    ),
    "a task": Broken(
        "residue",
        "a task goes on after the pack is gone",
        "start it with `host.start_task`",
        "tasks = []\n"
        + hook("host_started", "host", "tasks.append(asyncio.create_task(asyncio.sleep(3600)))").replace(
            "def", "async def"
        ),
    ),
    "a thread": Broken(
        "residue",
        "a thread goes on after the pack is gone",
        "end it in `host_stopping`",
        hook("host_started", "host", "threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()"),
    ),
    "a process": Broken(
        "residue",
        "a process goes on after the pack is gone: sleep",
        "start it with `host.spawn`",
        "processes = []\n" + hook("host_started", "host", "processes.append(subprocess.Popen(['sleep', '3600']))"),
    ),
    "a descriptor": Broken(
        "residue",
        "a descriptor stays open after the pack is gone",
        "close it in `host_stopping`",
        "files = []\n" + hook("host_started", "host", "files.append(open(os.devnull))"),
    ),
    "a changed environment": Broken(
        "residue",
        "the process is changed after the pack is gone: NOTES=",
        "change no variable",
        hook("host_started", "host", "os.environ['NOTES'] = str(time.time())"),
    ),
    "a tool that is nobody's": Broken(
        "residue", "tool `left_over` is still there", "register in a hook of the pack", IN_THREAD
    ),
}


@pytest.mark.parametrize("sample", BROKEN.values(), ids=BROKEN.keys())
def test_each_break_is_told_with_what_where_and_how_to_mend_it(pack_folder: PackFolder, sample: Broken) -> None:
    pack_folder.add("broken", HEAD + sample.code, **sample.declared)

    report = check_pack("broken")

    told = [str(finding) for finding in report.of(sample.rule)]
    assert [text for text in told if sample.what in text and sample.mend in text], report
    assert {finding.rule for finding in report.findings} == {sample.rule}
    assert not report.ok


def test_a_good_pack_keeps_every_rule(pack_folder: PackFolder) -> None:
    pack_folder.add("notes", HEAD + GOOD, tools=["find_notes"], commands={"notes": "sample_notes:notes"}, guards=True)

    report = check_pack("notes")

    assert report.ok, report
    assert report.import_ms is not None


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
    pack_folder.add("broken", HEAD + BROKEN["a thread at import"].code)

    checked = pegboard("check", "broken")

    assert checked.returncode == 1
    assert "  broken  import " in checked.stdout
    assert "importing it starts a thread (sample_broken.py:6): start it in `host_started`" in checked.stdout
    assert checked.stdout.endswith("10 rules, 1 finding\n")


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


@pytest.mark.parametrize("target", ["nobody", ".", "../..", ""])
def test_what_is_no_pack_is_a_mistake_in_usage(pegboard: Pegboard, target: str) -> None:
    checked = pegboard("check", target)

    assert checked.returncode == 2
    assert checked.stderr.startswith("pegboard: ")
    assert len(checked.stderr.splitlines()) == 1


def test_the_contract_is_one_line_for_a_pack_that_is_an_object() -> None:
    class Contract(PackContract):
        pack = "pegboard.testing.jsonl"

    with pytest.raises(UsageError, match="no pack `pegboard.testing.jsonl` is installed"):
        Contract.setup_class()
    with pytest.raises(UsageError, match="which pack it is about"):
        PackContract.setup_class()


class TestJsonlContract(PackContract):
    """The reference store as an object that can be imported."""

    from pegboard.testing.jsonl import JsonlPack as pack  # noqa: N813 - the one line
