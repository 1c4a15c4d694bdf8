"""The commands about packs as a person types them; what each start-up imports; commands that packs bring."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, NamedTuple

import pytest
from pegboard import __version__

CommandLine = Callable[..., CompletedProcess[str]]

PACK = '''
from pegboard import hookimpl, tool

@tool(effect="read")
def {tool}() -> str:
    """Say hello."""
    return "hello"

class Pack:
    @hookimpl
    def register_tools(self):
        return [{tool}]
'''

COMMAND = '''
import click

@click.command()
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def tick(options, as_json):
    """Tick once."""
    click.echo('{"tick": 1}' if as_json else "tick")
'''


def offering(tool: str) -> str:
    """Return the source of a pack with one tool."""
    return PACK.format(tool=tool)


def marking(folder: Any) -> str:
    """Return source that writes its module's name into the file `imported` when it is imported."""
    return f"with open({str(folder.path / 'imported')!r}, 'a') as file:\n    file.write(__name__ + '\\n')\n"


def imported(folder: Any) -> list[str]:
    """Return the names of the marked modules that were imported, each as often as it was."""
    file = folder.path / "imported"
    return file.read_text("utf-8").split() if file.exists() else []


def rows(ended: CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    """Return what `packs list --json` printed, by pack, without the packs of this repository."""
    listed = json.loads(ended.stdout)
    return {row["name"]: row for row in listed if not row["distribution"].startswith("pegboard-")}


class Started(NamedTuple):
    """What a command printed and which modules it had imported when it ended."""

    output: str
    modules: set[str]


@pytest.fixture
def start(home: Any) -> Callable[..., Started]:
    """Run the command line in a process of its own that tells its modules at the end."""
    code = (
        "import sys\nfrom pegboard.__main__ import main\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write('\\n--modules--\\n' + '\\n'.join(sys.modules))"
    )

    def start_(*arguments: str) -> Started:
        command = [sys.executable, "-c", code, *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=60, check=True)
        return Started(ended.stdout, set(ended.stderr.partition("--modules--\n")[2].split("\n")))

    return start_


# -- what start-up imports


HEAVY = {"pydantic", "pydantic_core", "asyncio", "importlib_metadata", "importlib.metadata", "pluggy"}


def test_version_imports_no_click(start: Callable[..., Started]) -> None:
    started = start("--version")

    assert started.output == f"pegboard {__version__}\n"
    assert started.modules & {*HEAVY, "click"} == set()


def test_help_imports_nothing_heavy_and_no_pack_but_lists_a_packs_command(
    start: Callable[..., Started], pack_folder: Any
) -> None:
    pack_folder.add(
        "clock", marking(pack_folder) + COMMAND, commands={"tick": "sample_clock:tick"}, summary="Tells time"
    )

    started = start("--help")

    assert started.modules & HEAVY == set()
    assert [name for name in started.modules if name.startswith(("sample_", "pegboard_", "click_"))] == []
    assert imported(pack_folder) == []
    (line,) = [line for line in started.output.splitlines() if line.split()[:1] == ["tick"]]
    assert line.split(maxsplit=1)[1] == "Tells time"


@pytest.mark.parametrize(
    "arguments", [["packs"], ["packs", "list", "--json"], ["packs", "info", "clock"], ["config", "show"]]
)
def test_listing_packs_imports_no_pack_and_nothing_heavy(
    start: Callable[..., Started], pack_folder: Any, arguments: list[str]
) -> None:
    pack_folder.add("clock", marking(pack_folder), summary="Tells time")

    started = start(*arguments)

    assert started.modules & {"pydantic", "pydantic_core", "asyncio", "importlib_metadata"} == set()
    assert [name for name in started.modules if name.startswith(("sample_", "pegboard_"))] == []
    assert imported(pack_folder) == []


@pytest.mark.parametrize("arguments", [["--help"], ["packs", "list"], ["packs", "doctor"], ["tools"], ["tick"]])
def test_installed_packs_are_looked_for_once_a_process(home: Any, pack_folder: Any, arguments: list[str]) -> None:
    pack_folder.add("clock", COMMAND + offering("now"), commands={"tick": "sample_clock:tick"})
    code = (
        "import sys\nopened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' else None)\n"
        "from pegboard.__main__ import main\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sum(name.endswith('clock-1.0.dist-info/entry_points.txt') for name in opened), file=sys.stderr)"
    )

    ended = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)

    assert ended.stderr.splitlines()[-1] == "1"


def test_version_may_follow_other_options(pegboard: CommandLine) -> None:
    ended = pegboard("--debug", "--version")

    assert (ended.returncode, ended.stdout) == (0, f"pegboard {__version__}\n")


# -- packs list


def test_packs_list_json_has_a_stable_shape(pegboard: CommandLine, pack_folder: Any) -> None:
    pack_folder.add("notes", offering("note"), distribution="Acme-Notes", version="2.3.1")
    pack_folder.add("broken", "raise RuntimeError('no luck')")

    listed = rows(pegboard("packs", "list", "--json"))
    loaded = rows(pegboard("packs", "list", "--load", "--json"))

    notes = {"name": "notes", "distribution": "acme-notes", "version": "2.3.1", "reason": None, "decided_by": "default"}
    assert listed["notes"] == {**notes, "state": "enabled"}
    assert loaded["notes"] == {**notes, "state": "active"}
    assert (listed["broken"]["state"], listed["broken"]["reason"]) == ("enabled", None)
    assert (loaded["broken"]["state"], loaded["broken"]["reason"]) == ("failed", "RuntimeError: no luck")
    assert set(loaded["broken"]) == {"name", "state", "reason", "distribution", "version", "decided_by"}


def test_packs_alone_lists_them_for_a_person(pegboard: CommandLine, pack_folder: Any) -> None:
    pack_folder.add("notes", offering("note"), tools=["note", "a_note"], version="2.3.1")
    pack_folder.add("quiet", "", summary="Does nothing\x1b[2J")

    lines = {line.split()[1]: line.split(maxsplit=3) for line in pegboard("packs").stdout.splitlines()}

    assert lines["notes"] == ["enabled", "notes", "2.3.1", "a_note note"]
    assert lines["quiet"] == ["enabled", "quiet", "1.0", "Does nothing\\x1b[2J"]


def test_a_distribution_that_is_twice_on_the_path_is_one_pack_imported_once_from_the_first(
    pegboard_process: CommandLine, pack_folder: Any, tmp_path: Path
) -> None:
    pack_folder.add("notes", marking(pack_folder) + offering("note"), version="2.0")
    second = type(pack_folder)(tmp_path / "second")
    second.path.mkdir()
    second.add("notes", marking(second) + offering("note"), version="1.0")
    both = os.pathsep.join([str(pack_folder.path), str(second.path), str(pack_folder.path)])

    loaded = rows(pegboard_process("packs", "list", "--load", "--json", env={"PYTHONPATH": both}))

    assert [(name, row["state"], row["version"]) for name, row in loaded.items()] == [("notes", "active", "2.0")]
    assert (imported(pack_folder), imported(second)) == (["sample_notes"], [])


# -- switched off: not imported, tools gone, and it is told who decided


FILE = "# mine\n[packs.notes]\nenabled = false\n"
SWITCHES = {
    "file": (FILE, {}, [], "{file}:3"),
    "variable": ("", {"PEGBOARD_PACKS_NOTES_ENABLED": "false"}, [], "PEGBOARD_PACKS_NOTES_ENABLED"),
    "option": ("", {}, ["--disable", "notes"], "--disable"),
    "variable over file": (
        FILE.replace("false", "true"),
        {"PEGBOARD_PACKS_NOTES_ENABLED": "false"},
        [],
        "PEGBOARD_PACKS_NOTES_ENABLED",
    ),
    "option over all": (
        FILE.replace("false", "true"),
        {"PEGBOARD_PACKS_NOTES_ENABLED": "true"},
        ["--disable", "notes"],
        "--disable",
    ),
}


@pytest.mark.parametrize(("config", "env", "options", "decided"), SWITCHES.values(), ids=SWITCHES)
def test_a_pack_that_is_switched_off_is_not_imported_and_it_is_told_who_decided(
    pegboard: CommandLine,
    pack_folder: Any,
    home: Any,
    config: str,
    env: dict[str, str],
    options: list[str],
    decided: str,
) -> None:
    pack_folder.add("notes", marking(pack_folder) + offering("note"), tools=["note"])
    pack_folder.add("tickets", marking(pack_folder) + offering("ticket"))
    file = home.config(config)

    listed = pegboard(*options, "packs", "list", "--effective", env=env)
    as_json = rows(pegboard(*options, "packs", "list", "--load", "--json", env=env))
    offered = json.loads(pegboard(*options, "tools", "--json", env=env).stdout)

    decided = decided.format(file=file)
    (line,) = [line for line in listed.stdout.splitlines() if " notes " in line]
    assert line.startswith("disabled ") and line.endswith(f"decided by {decided}")
    assert (as_json["notes"]["state"], as_json["notes"]["decided_by"]) == ("disabled", decided)
    assert [tool["name"] for tool in offered if tool["pack"] in ("notes", "tickets")] == ["ticket"]
    assert imported(pack_folder) == ["sample_tickets"] * 2


def test_what_switched_a_pack_on_is_told_too(pegboard: CommandLine, pack_folder: Any, home: Any) -> None:
    pack_folder.add("notes", offering("note"))
    file = home.config("[packs]\nnotes.enabled = true\n")

    assert rows(pegboard("packs", "list", "--json"))["notes"]["decided_by"] == f"{file}:2"


def test_disabling_a_pack_that_is_not_installed_is_refused_with_a_suggestion(
    pegboard: CommandLine, pack_folder: Any
) -> None:
    pack_folder.add("notes", offering("note"))

    for command in (["packs"], ["tools"], ["config", "check"]):
        ended = pegboard("--disable", "ntoes", *command)

        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr == ("pegboard: --disable ntoes: no pack of that name is installed; did you mean `notes`?\n")


# -- packs that do not work


BAD = {
    "raising": ("raise RuntimeError('no luck')", "RuntimeError: no luck"),
    "exiting": ("import sys; sys.exit('bye')", "SystemExit: bye"),
    "odd": ("class Odd(BaseException): ...\nraise Odd('odd')", "Odd: odd"),
    "misspelt": (
        offering("m") + "    @hookimpl\n    def agent_disposd(self, agent): ...\n",
        "there is no hook `agent_disposd`; did you mean `agent_disposed`?",
    ),
    "wrong-argument": (
        offering("w") + "    @hookimpl\n    def observe(self, evnt): ...\n",
        "`observe` has no argument `evnt`; did you mean `event`? (it gets `event`)",
    ),
    "bad-settings": (offering("b"), "bad settings: packs.bad-settings.limit ({file}:2) no such setting"),
    "demanding": ("class Pack:\n    def __init__(self, host): ...\n", "Pack.__init__ takes `host`"),
    "rubbish": (offering("r").replace("[r]", "42"), "register_tools of pack `rubbish` failed: TypeError: 'int'"),
    "zz-taken": (offering("ticket"), "conflict: tool `ticket` is taken by pack `tickets`"),
}


@pytest.fixture
def bad_packs(pack_folder: Any, home: Any) -> Path:
    """Every kind of bad pack beside two good ones, the second of which prints; returns the configuration file."""
    for name, (code, _) in BAD.items():
        pack_folder.add(name, code)
    pack_folder.add("notes", offering("note"))
    pack_folder.add("tickets", "print('loud at import')\n" + offering("ticket"))
    pack_folder.add("waiting", offering("wait"), requires=["raising"])
    file: Path = home.config("[packs.bad-settings]\nlimit = 3\n")
    return file


def test_bad_packs_are_reported_by_name_and_reason_and_everything_else_works(
    pegboard: CommandLine, bad_packs: Path
) -> None:
    listed = rows(pegboard("packs", "list", "--load", "--json"))
    offered = json.loads(pegboard("tools", "--json").stdout)
    called = pegboard("call", "note")

    for name, (_, reason) in BAD.items():
        assert listed[name]["state"] == "failed"
        assert listed[name]["reason"].startswith(reason.format(file=bad_packs))
    assert (listed["waiting"]["state"], listed["notes"]["state"], listed["tickets"]["state"]) == (
        "waiting", "active", "active",
    )  # fmt: skip
    assert {"note", "ticket"} <= {tool["name"] for tool in offered}
    assert (called.returncode, called.stdout) == (0, "hello\n")


def test_entry_points_that_are_not_utf_8_are_reported_and_everything_else_works(
    pegboard: CommandLine, pack_folder: Any
) -> None:
    pack_folder.write_metadata("cafe", "1.0", "[pegboard.packs]\ncafé = x:y\n".encode("latin-1"), "Name: cafe\n")
    pack_folder.add("notes", offering("note"))

    listed = rows(pegboard("packs", "list", "--load", "--json"))
    called = pegboard("call", "note")

    reason = "its entry_points.txt is not UTF-8"
    assert (listed["cafe"]["state"], listed["cafe"]["reason"], listed["notes"]["state"]) == ("failed", reason, "active")
    assert called.stderr.startswith(f"warning: 1 pack left out · cafe failed: {reason}")
    assert (called.returncode, called.stdout) == (0, "hello\n")


def test_a_command_says_once_on_stderr_which_packs_were_left_out(pegboard: CommandLine, bad_packs: Path) -> None:
    told = pegboard("tools").stderr.splitlines()

    (line,) = [line for line in told if line.startswith("warning: ")]
    assert line.startswith("warning: 10 packs left out")
    assert line.endswith("pegboard packs doctor")
    assert all(f"{name} failed: " in line for name in BAD)
    assert "loud at import" in told


def test_doctor_explains_each_bad_pack_with_where_it_comes_from_and_a_remedy(
    pegboard: CommandLine, bad_packs: Path, pack_folder: Any
) -> None:
    told = pegboard("packs", "doctor")

    assert told.returncode == 1
    assert "10 with a problem" in told.stdout.splitlines()[-1]
    for name, (_, reason) in BAD.items():
        place = told.stdout.index(f"failed    {name} 1.0 ({name})\n")
        head, why, origin, mend = told.stdout[place:].splitlines()[:4]
        assert why.split(maxsplit=1)[1].startswith(reason.format(file=bad_packs)), head
        assert str(pack_folder.path) in origin
        assert mend.split()[0] == "mend"


def test_the_doctor_of_one_pack_looks_at_that_one_only(pegboard: CommandLine, bad_packs: Path) -> None:
    good = pegboard("packs", "doctor", "notes")
    bad = pegboard("packs", "doctor", "raising")
    unknown = pegboard("packs", "doctor", "raisin")

    assert (good.returncode, good.stdout.splitlines()[-1]) == (0, "1 pack looked at, 0 with a problem")
    assert (bad.returncode, "exiting" in bad.stdout) == (1, False)
    assert unknown.returncode == 2
    assert unknown.stderr.endswith("pegboard: no pack `raisin` is installed; did you mean `raising`?\n")


def test_the_doctors_remedy_for_a_conflict_works_when_it_is_followed(
    pegboard: CommandLine, pack_folder: Any, home: Any
) -> None:
    pack_folder.add("notes", offering("note"), distribution="aaa")
    pack_folder.write_metadata("zzz", "1.0", "[pegboard.packs]\nnotes = x:y\n", "Name: zzz\n")
    told = pegboard("packs", "doctor", "zzz").stdout
    assert "set packs.zzz.enabled = false" in told

    home.config("packs.zzz.enabled = false\n")

    assert pegboard("packs", "doctor", "zzz").returncode == 0


def test_doctor_imports_no_pack_that_a_broken_file_may_have_switched_off(
    pegboard: CommandLine, pack_folder: Any, home: Any
) -> None:
    pack_folder.add("notes", marking(pack_folder) + offering("note"))
    home.config("[packs.notes]\nenabled = false\n[packs\n")

    ended = [pegboard(*command) for command in (["packs", "doctor"], ["packs", "list", "--load"], ["config", "check"])]

    assert all("config.toml:3" in one.stdout + one.stderr for one in ended)
    assert ended[0].returncode == ended[2].returncode == 1
    assert imported(pack_folder) == []


@pytest.mark.parametrize("command", [["packs"], ["packs", "list"], ["packs", "list", "--load"], ["tools"]])
def test_strict_stops_with_exit_1_when_a_pack_is_not_active(
    pegboard: CommandLine, pack_folder: Any, home: Any, command: list[str]
) -> None:
    pack_folder.write_metadata("bad", "1.0", "[pegboard.packs]\nBad = x:y\n", "Name: bad\n")

    assert pegboard("--strict", *command).returncode == 1
    assert pegboard(*command).returncode == 0


def test_json_stays_pure_whatever_a_pack_prints_while_it_is_loaded(pegboard: CommandLine, pack_folder: Any) -> None:
    code = "import sys\nprint('one')\nsys.stdout.write('two\\n')\n" + offering("note").replace(
        "return [", "print('3'); return ["
    )
    pack_folder.add("notes", code)

    for command in (["packs", "list", "--load", "--json"], ["tools", "--json"]):
        ended = pegboard(*command)

        json.loads(ended.stdout)
        assert ended.stderr.splitlines() == ["one", "two", "3"]
    events = [json.loads(line) for line in pegboard("call", "note", "--json").stdout.splitlines()]
    assert events[-1]["type"] == "run_end"


# -- required packs (rule 6)


def test_a_required_pack_that_fails_stops_call_and_tells_why(
    pegboard: CommandLine, pack_folder: Any, home: Any
) -> None:
    pack_folder.add("guardian", "raise RuntimeError('no luck')", policy=True)
    pack_folder.add("notes", offering("note"))

    claimed = pegboard("call", "note")
    file = home.config("[packs.notes]\nrequired = true\nenabled = false\n[packs.guardian]\nenabled = false\n")
    wanted = pegboard("call", "note")
    home.config("[packs.guardian]\nenabled = false\n")
    freed = pegboard("call", "note")

    assert (claimed.returncode, claimed.stdout, claimed.stderr) == (
        1, "", "pegboard: pack `guardian` is failed (RuntimeError: no luck) but required: it claims policy\n",
    )  # fmt: skip
    assert (wanted.returncode, f"{file}:2" in wanted.stderr, "`notes` is disabled" in wanted.stderr) == (1, True, True)
    assert (freed.returncode, freed.stdout) == (0, "hello\n")


def test_a_required_pack_that_is_not_installed_stops_call(pegboard: CommandLine, pack_folder: Any, home: Any) -> None:
    pack_folder.add("notes", offering("note"))
    home.config("[packs.guardian]\nrequired = true\n")

    ended = pegboard("call", "note")

    assert (ended.returncode, ended.stdout) == (1, "")
    assert "guardian" in ended.stderr and "required" in ended.stderr


# -- commands of packs


def test_a_packs_command_runs(pegboard: CommandLine, pack_folder: Any) -> None:
    pack_folder.add("clock", COMMAND, commands={"tick": "sample_clock:tick"})

    assert (ended := pegboard("tick")).stdout == "tick\n", ended.stderr
    assert "Tick once." in pegboard("tick", "--help").stdout


def test_a_packs_command_prints_pure_json_whatever_its_module_prints_at_import(
    pegboard: CommandLine, pack_folder: Any
) -> None:
    pack_folder.add("clock", "print('loud')\n" + COMMAND, commands={"tick": "sample_clock:tick"})

    ended = pegboard("tick", "--json")

    assert (ended.stdout, ended.stderr) == ('{"tick": 1}\n', "loud\n")


@pytest.mark.parametrize(
    ("options", "env", "reason"),
    [
        (["--disable", "clock"], {}, "disabled: by --disable"),
        ([], {"PEGBOARD_PACKS_CLOCK_ENABLED": "false"}, "disabled: by PEGBOARD_PACKS_CLOCK_ENABLED"),
        (["--disable", "base"], {}, "waiting: it needs pack `base`, which is disabled"),
    ],
)
def test_the_command_of_a_pack_that_is_off_exits_1_with_the_reason_and_is_not_imported(
    pegboard: CommandLine, pack_folder: Any, options: list[str], env: dict[str, str], reason: str
) -> None:
    pack_folder.add("base", "")
    code = marking(pack_folder) + COMMAND
    pack_folder.add("clock", code, commands={"tick": "sample_clock:tick"}, requires=["base"])

    for arguments in (["tick"], ["tick", "--help"]):
        ended = pegboard(*options, *arguments, env=env)

        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr == f"pegboard: `tick` is a command of pack `clock`, which is {reason}\n"
    assert imported(pack_folder) == []


@pytest.mark.parametrize(
    ("code", "reason"),
    [("raise SystemExit(0)", "SystemExit"), ("import nothing_of_that_name", "nothing_of_that_name"),
     ("", "tick"), ("tick = 3", "int, not a click command")],
)  # fmt: skip
def test_a_command_that_cannot_be_loaded_exits_1_naming_pack_and_reason(
    pegboard: CommandLine, pack_folder: Any, code: str, reason: str
) -> None:
    pack_folder.add("clock", code, commands={"tick": "sample_clock:tick"})

    ended = pegboard("tick")

    assert (ended.returncode, ended.stdout, len(ended.stderr.splitlines())) == (1, "", 1)
    assert "`tick` of pack `clock`" in ended.stderr and reason in ended.stderr


def test_a_command_that_two_packs_claim_is_the_earlier_ones_in_load_order(
    pegboard: CommandLine, pack_folder: Any
) -> None:
    pack_folder.add("aaa", "", commands={"tick": "sample_aaa:tick"}, requires=["zzz"], summary="The second")
    pack_folder.add("zzz", COMMAND, commands={"tick": "sample_zzz:tick"}, summary="The first")

    assert rows(pegboard("packs", "list", "--json"))["aaa"]["reason"] == "conflict: command `tick` belongs to `zzz`"
    assert (ended := pegboard("tick")).stdout == "tick\n", ended.stderr
    assert "The first" in pegboard("--help").stdout


def test_a_distribution_that_is_refused_takes_no_command_from_a_good_pack(
    pegboard: CommandLine, pack_folder: Any
) -> None:
    points = "[pegboard.packs]\nBad = x:y\n[pegboard.commands]\ntick = x:y\n"
    pack_folder.write_metadata("aaa", "1.0", points, "Name: aaa\n")
    pack_folder.add("clock", COMMAND, commands={"tick": "sample_clock:tick"}, summary="Tells time")

    assert (ended := pegboard("tick")).stdout == "tick\n", ended.stderr
    assert "Tells time" in pegboard("--help").stdout


def test_a_pack_cannot_replace_a_command_of_the_kernel(pegboard: CommandLine, pack_folder: Any) -> None:
    code = marking(pack_folder) + COMMAND
    pack_folder.add("clock", code, commands={"packs": "sample_clock:tick"}, summary="Mine now")

    listed = rows(pegboard("packs", "--json"))

    assert (listed["clock"]["state"], imported(pack_folder)) == ("failed", [])
    assert "Mine now" not in pegboard("--help").stdout


def test_hostile_names_and_summaries_are_shown_as_escapes(pegboard: CommandLine, pack_folder: Any) -> None:
    """Security case 38; DESIGN rule 15."""
    pack_folder.add(
        "clock", "", commands={"ti\x1b[31mck": "x:y"}, tools=["t\x1b[2J"], summary="S\x1b]52;c;x\x07 \u202eevil"
    )

    printed = [pegboard(*command).stdout for command in (["--help"], ["packs"], ["packs", "info", "clock"])]

    assert [text for text in printed if set(text) & set("\x1b\x07\u202e")] == []
    assert "ti\\x1b[31mck" in printed[0]


def test_hostile_pack_names_and_versions_are_shown_as_escapes_and_widen_no_table(
    pegboard: CommandLine, pack_folder: Any
) -> None:
    """Security cases 18, 19 and 38."""
    for number, name in enumerate(["p\x1b]0;x\x07", "\u202ekcap", "x" * 300]):
        points = f"[pegboard.packs]\n{name} = x:y\n"
        pack_folder.write_metadata(f"evil{number}", "1.0", points, f"Name: evil{number}\nVersion: 1\x07\u202e2\n")
    pack_folder.add("notes", "")

    printed = [pegboard(*command).stdout for command in (["packs"], ["packs", "list", "--load"], ["packs", "doctor"])]

    assert [text for text in printed if set(text) & set("\x1b\x07\u202e")] == []
    assert all("\\u202ekcap" in text for text in printed)
    (line,) = [line for line in printed[0].splitlines() if " notes " in line]
    assert len(line) < 120


def test_info_shows_what_a_pack_declares_without_importing_it(pegboard: CommandLine, pack_folder: Any) -> None:
    pack_folder.add("base", "")
    pack_folder.add(
        "clock", marking(pack_folder), commands={"tick": "sample_clock:tick"}, tools=["now"], requires=["base", "click"]
    )

    facts = json.loads(pegboard("packs", "info", "clock", "--json").stdout)

    assert (facts["tools"], facts["commands"], facts["needs"]) == (["now"], ["tick"], ["base"])
    assert (facts["object"], facts["state"], facts["claims_policy"]) == ("sample_clock:Pack", "enabled", False)
    assert facts["location"].startswith(str(pack_folder.path))
    assert imported(pack_folder) == []


def test_an_unknown_command_is_refused_with_a_suggestion(pegboard: CommandLine, pack_folder: Any) -> None:
    pack_folder.add("clock", COMMAND, commands={"tick": "sample_clock:tick"})

    ended = pegboard("tikc")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "pegboard: there is no command `tikc`; did you mean `tick`? (see `pegboard --help`)\n"


def test_what_c_code_or_a_child_process_prints_while_a_pack_is_loaded_goes_to_stderr_too(
    pegboard_process: CommandLine, pack_folder: Any
) -> None:
    code = "import os, subprocess\nos.write(1, b'raw')\nsubprocess.run(['echo', 'child'], check=True)\n"
    pack_folder.add("notes", code + offering("note"))

    for command in (["packs", "list", "--load", "--json"], ["tools", "--json"]):
        ended = pegboard_process(*command)

        json.loads(ended.stdout)
        assert ended.stderr == "rawchild\n"


def test_flags_before_list_mean_the_same_as_after_it(pegboard: CommandLine, pack_folder: Any) -> None:
    pack_folder.add("notes", "")

    assert pegboard("packs", "--json", "list").stdout == pegboard("packs", "list", "--json").stdout
