"""Configuration in layers: who set what, and everything that is wrong told at once with its place and a suggestion."""

import json
import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from types import FrameType
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pegboard import Host
from pegboard.base.errors import ConfigError
from pegboard.config.layers import Config
from pegboard.config.settings import read_settings
from pegboard.host.load_config import load_config
from pydantic import BaseModel

CommandLine = Callable[..., CompletedProcess[str]]

NOTES = """
from pegboard import hookimpl, tool
from pydantic import BaseModel

class Settings(BaseModel):
    limit: int = 3
    title: str = "notes"

class Pack:
    def __init__(self, settings: Settings):
        self.settings = settings

    @hookimpl
    def register_tools(self):
        @tool(effect="read")
        def note() -> str:
            "Say the settings."
            return repr(self.settings)
        return [note]
"""


@pytest.fixture
def read(home: Any) -> Callable[..., Config]:
    """Read a configuration text and an environment, with these packs installed."""

    def read_(text: str | bytes = "", packs: tuple[str, ...] = ("notes",), **environ: str) -> Config:
        home.config(text)
        return load_config(packs, (), environ)

    return read_


def told(config: Config) -> list[str]:
    """Return what is wrong, one line each."""
    return [str(problem) for problem in config.problems]


# -- layers


def test_without_a_file_nothing_is_set_and_nothing_is_wrong(home: Any) -> None:
    config = load_config(["notes"], (), {"PATH": "x"})

    assert (list(config.settings()), config.problems) == ([], ())


def test_the_command_line_beats_the_environment_and_that_beats_the_file(home: Any) -> None:
    file = home.config("[packs.notes]\nenabled = true\nlimit = 1\ntitle = 'x'\n")
    environ = {"PEGBOARD_PACKS_NOTES_ENABLED": "true", "PEGBOARD_PACKS_NOTES_LIMIT": "2"}

    config = load_config(["notes"], ["notes"], environ)

    assert {setting.path[-1]: (setting.value, setting.where) for setting in config.settings()} == {
        "enabled": (False, "--disable"),
        "limit": (2, "PEGBOARD_PACKS_NOTES_LIMIT"),
        "title": ("x", f"{file}:4"),
    }


def test_tables_merge_and_lists_are_replaced(read: Callable[..., Config]) -> None:
    config = read("[packs.notes]\nkinds = [1, 2]\nsub = {a = 1, b = 2}\n", PEGBOARD_PACKS_NOTES_KINDS="[3]",
                  PEGBOARD_PACKS_NOTES_SUB__B="5")  # fmt: skip

    assert config.table("packs", "notes") == {"kinds": [3], "sub": {"a": 1, "b": 5}}


def test_merging_leaves_every_layer_as_it_was_read(read: Callable[..., Config]) -> None:
    config = read("[packs.notes.sub]\na = 1\n", PEGBOARD_PACKS_NOTES_SUB__A="2", PEGBOARD_PACKS_NOTES_B="3")

    assert config.table("packs", "notes") == config.table()["packs"]["notes"] == {"sub": {"a": 2}, "b": 3}
    assert config.layers[0].data == {"packs": {"notes": {"sub": {"a": 1}}}}


# -- the file


@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["plain", "BOM"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_a_file_from_any_editor_is_read_and_its_lines_are_counted(
    read: Callable[..., Config], home: Any, start: str, ending: str
) -> None:
    lines = ["# mine", "[packs.notes]", 'text = """', "one", 'two"""', "limit = 5"]

    config = read((start + ending.join(lines) + ending).encode())

    assert config.problems == ()
    assert config.table("packs", "notes") == {"text": "one\ntwo", "limit": 5}
    assert (found := config.get("packs", "notes", "limit")) and found.where == f"{home.config_file}:6"


BROKEN = {
    "an open bracket": ("[packs.notes\nenabled = false\n", ":1  is not valid TOML: "),
    "a key twice": ("[packs.notes]\nenabled = false\nenabled = true\n", ":3  is not valid TOML: "),
    "a table twice": ("[packs.notes]\n[packs.notes]\n", ":2  is not valid TOML: "),
    "a word as value": ("[packs.notes]\r\n\r\nenabled = no\r\n", ":3  is not valid TOML: "),
    "cut off": ("x = [1,", "is not valid TOML: "),
    "Latin-1": ("# caf\xe9\n".encode("latin-1"), "is not UTF-8 (byte 5); save it as UTF-8"),
    "UTF-16": ("[packs]\n".encode("utf-16"), "is not UTF-8 (byte 0); save it as UTF-8"),
    "a NUL byte": ("x = 1\n\0", "is not valid TOML: "),
    "nested without end": ("x = " + "[" * 100_000, "is not valid TOML: "),
    "a number without end": ("x = " + "9" * 10_000, "is not valid TOML: "),
    "a date that is none": ("x = 2024-13-45\n", "is not valid TOML: "),
}


@pytest.mark.parametrize(("content", "text"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_one_clear_problem_with_its_place(
    read: Callable[..., Config], home: Any, content: str | bytes, text: str
) -> None:
    config = read(content)

    (line,) = told(config)
    assert line.startswith(str(home.config_file)) and text in line
    assert len(line.splitlines()) == 1


def test_a_folder_in_place_of_the_file_is_a_problem(home: Any) -> None:
    home.config_file.mkdir(parents=True)

    (line,) = told(load_config([], (), {}))

    assert line.startswith(f"{home.config_file}  can't be read: ")


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_a_file_that_may_not_be_read_is_a_problem(home: Any, without_rights: Any) -> None:
    home.config("[packs.notes]\nenabled = false\n").chmod(0o000)

    with without_rights():
        lines = told(load_config([], (), {}))

    assert f"{home.config_file}  can't be read: Permission denied" in lines


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("\npakcs.notes.enabled = false\n", "pakcs", "no such table; did you mean `packs`?"),
        ("\n[xyz]\n", "xyz", "no such table"),
        ("\npacks = false\n", "packs", "must be a table"),
        ("\n[[packs]]\nnotes = 1\n", "packs", "must be a table"),
        ("[packs]\nnotes = false\n", "packs.notes", "must be a table"),
        ("[agents]\nmain = 'x'\n", "agents.main", "must be a table"),
        ("[packs.notes]\nenabled = 0\n", "packs.notes.enabled", "must be true or false"),
        ("[packs.notes]\nrequired = 'yes'\n", "packs.notes.required", "must be true or false"),
        ("[packs]\ndefault = 'of'\n", "packs.default", 'must be "on" or "off"'),
        ("[tools]\nof = ['x']\n", "tools.of", "no such setting; did you mean `off`?"),
        ("[tools]\noff = 'x'\n", "tools.off", 'must be a list of names, such as ["one", "other"]'),
        ("[tools]\noff = [1]\n", "tools.off", "1 is no name; a name is a text"),
        ("[tools]\nowner = 'x'\n", "tools.owner", "must be a table"),
        ("[tools.owner]\nread = 'note'\n", "tools.owner.read", "no pack `note` is installed; did you mean `notes`?"),
        ("[hooks]\norder = ['x']\n", "hooks.order", "must be a table"),
        (
            "[hooks.order]\nobserve = 'notes'\n",
            "hooks.order.observe",
            'must be a list of names, such as ["one", "other"]',
        ),
        (
            "[hooks.order]\nobserve = ['nots', '*']\n",
            "hooks.order.observe",
            "no pack `nots` is installed; did you mean `notes`?",
        ),
        ("[hooks.order]\nobserve = ['*', '*']\n", "hooks.order.observe", "names `*` twice"),
        (
            "[interactions]\nfront_ends = ['nots']\n",
            "interactions.front_ends",
            "no pack `nots` is installed; did you mean `notes`?",
        ),
    ],
)
def test_what_no_reader_could_understand_is_told_with_line_and_key(
    read: Callable[..., Config], home: Any, text: str, key: str, message: str
) -> None:
    assert told(read(text)) == [f"{home.config_file}:2  {key}  {message}"]


# -- where a setting stands


PLACES = {
    "in a table": ("[packs.notes]\na = 1\nenabled = false\n", 3),
    "dotted": ("packs.notes.enabled = false\n", 1),
    "half dotted": ("[packs]\n# enabled = false\nnotes.enabled = false\n", 3),
    "spaced and quoted": ("[ packs . 'notes' ]\n  \"enabled\"  =  false # off\n", 2),
    "inline": ("[packs]\n\nnotes = {limit = 1, enabled = false}\n", 3),
    "after another table": ("[packs.other]\nenabled = true\n[packs.notes]\nenabled = false\n", 4),
    "before another table": ("[packs.notes]\nenabled = false\n[packs.other]\nenabled = true\n", 2),
    "after a subtable of it": ("[packs.notes.sub]\nenabled = 1\n[packs.notes]\nenabled = false\n", 4),
    "after nested arrays": ("[packs.notes]\nrules = [\n  ['git', 'push'],\n]\nenabled = false\n", 5),
    "after a text that looks like it": ('[packs.notes]\ntext = """\nenabled = 1\n"""\nenabled = false\n', 5),
    "after a text with a table": ('[packs.notes]\ntext = """\n[packs.x]\n"""\nenabled = false\n', 5),
    "after a text with a separator": ("[packs.notes]\ntext = 'a\u2028b'\nenabled = false\n", 3),
}


@pytest.mark.parametrize(("text", "line"), PLACES.values(), ids=PLACES)
def test_a_setting_is_found_on_its_line(read: Callable[..., Config], home: Any, text: str, line: int) -> None:
    config = read(text)

    assert (found := config.get("packs", "notes", "enabled")) and found.value is False
    assert found.where == f"{home.config_file}:{line}"


def parsed_by(work: Callable[[], object]) -> int:
    """Return how many characters of TOML are parsed while this works."""
    characters = 0

    def count(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal characters
        if event == "call" and frame.f_code is tomllib.loads.__code__:
            characters += len(frame.f_locals["s"])

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return characters


FILES = {
    "many packs": "".join(f"[packs.p{number}]\nenabled = true\n" for number in range(40)),
    "a long text": '[packs.p0]\ntext = """\n' + "some words\n" * 300 + '"""\nenabled = true\n',
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_telling_where_settings_stand_does_not_parse_the_file_for_each_of_its_lines(
    read: Callable[..., Config], text: str
) -> None:
    config = read(text)
    settings = list(config.settings())

    assert parsed_by(lambda: [setting.where for setting in settings]) < 4 * len(text) * len(settings)


KEYS = st.from_regex(r"[a-z][a-z0-9-]{0,5}", fullmatch=True)
VALUES = st.one_of(st.integers(-9, 99), st.booleans(), st.text(max_size=8), st.lists(st.integers(0, 9), max_size=2))
TABLES = st.dictionaries(KEYS, VALUES | st.dictionaries(KEYS, VALUES, max_size=2), max_size=3)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(KEYS, TABLES, max_size=3))
def test_whatever_a_file_sets_comes_back_with_a_line_that_names_it(home: Any, packs: dict[str, Any]) -> None:
    text = tomli_w.dumps({"packs": packs})
    home.config(text)

    config = load_config([], (), {})

    assert config.table() == tomllib.loads(text)
    for setting in config.settings():
        line = text.split("\n")[int(setting.where.rpartition(":")[2]) - 1]
        assert setting.path[-1] in line, (setting.path, line)


# -- the environment


def test_the_longest_known_pack_name_wins_and_then_comes_the_key(read: Callable[..., Config]) -> None:
    packs = ("web", "web-search", "web-search-pro")
    config = read(
        packs=packs,
        PEGBOARD_PACKS_WEB_LIMIT="1",
        PEGBOARD_PACKS_WEB_SEARCH_LIMIT="2",
        PEGBOARD_PACKS_WEB_SEARCH_PRO_MAX_SIZE="3",
        PEGBOARD_PACKS_WEB_SEARCH="4",
    )

    assert config.problems == ()
    assert config.table("packs") == {
        "web": {"limit": 1, "search": 4},
        "web-search": {"limit": 2},
        "web-search-pro": {"max_size": 3},
    }


def test_a_pack_that_only_the_file_names_and_an_agent_can_be_set_too(read: Callable[..., Config]) -> None:
    text = "[packs.later]\n[agents.review]\n"
    environ = {"PACKS_LATER_X": "1", "AGENTS_REVIEW_MODEL": "a:b", "AGENTS_MAIN_LIMITS__STEPS": "5"}

    config = read(text, packs=(), **{f"PEGBOARD_{name}": value for name, value in environ.items()})

    assert config.problems == ()
    assert config.table("packs") == {"later": {"x": 1}}
    assert config.table("agents") == {"review": {"model": "a:b"}, "main": {"limits": {"steps": 5}}}


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("30", 30), ("1.5", 1.5), ("[1, 2]", [1, 2]), ("{a = 1}", {"a": 1}), ("plain text", "plain text"),
     ('"30"', "30"), ("", ""), ("a = b", "a = b"), ("C:\\x", "C:\\x"), ("True", "True"), ("5\nx = 3", "5\nx = 3"),
     ("[" * 100_000, "[" * 100_000), ("9" * 10_000, "9" * 10_000)],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_a_variable_is_read_as_toml_or_else_as_text(read: Callable[..., Config], text: str, value: object) -> None:
    config = read(PEGBOARD_PACKS_NOTES_KEY=text)

    assert (config.problems, config.table("packs", "notes")) == ((), {"key": value})


def test_what_a_variable_sets_inside_a_table_is_told_with_its_name(read: Callable[..., Config]) -> None:
    config = read(PEGBOARD_PACKS_NOTES_SUB="{a = 1}")

    assert [(setting.path[-1], setting.where) for setting in config.settings()] == [("a", "PEGBOARD_PACKS_NOTES_SUB")]


def test_two_variables_that_contradict_each_other_are_a_problem(read: Callable[..., Config]) -> None:
    config = read(PEGBOARD_PACKS_NOTES_SUB="1", PEGBOARD_PACKS_NOTES_SUB__A="2")

    (line,) = told(config)
    assert "PEGBOARD_PACKS_NOTES_SUB__A" in line


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("PEGBOARD_PACKS_NOTSE_ENABLED", "; did you mean `PEGBOARD_PACKS_NOTES`?"),
        ("PEGBOARD_PACK_NOTES_ENABLED", "; did you mean `PEGBOARD_PACKS_NOTES`?"),
        ("PEGBOARD_XYZZY", ""),
        ("PEGBOARD_AGENTS_MIAN_MODEL", "; did you mean `PEGBOARD_AGENTS_MAIN`?"),
        ("PEGBOARD_TOOLS_OF", "; did you mean `PEGBOARD_TOOLS_OFF`?"),
        ("PEGBOARD_PACKS_DEFALT", "; did you mean `PEGBOARD_PACKS_DEFAULT`?"),
    ],
)
def test_an_unknown_variable_is_a_problem_with_a_suggestion(read: Callable[..., Config], name: str, near: str) -> None:
    assert told(read(**{name: "false"})) == [f"environment  {name}  is no known setting{near}"]


@pytest.mark.parametrize("name", ["PEGBOARD_PACKS_NOTES", "PEGBOARD_PACKS_NOTES_"])
def test_a_variable_without_a_key_is_not_answered_with_its_own_name(read: Callable[..., Config], name: str) -> None:
    (line,) = told(read(**{name: "false"}))

    assert name in line
    assert f"did you mean `{name}`" not in line


@pytest.mark.parametrize(
    "name", ["PEGBOARD_PACKS_NOTES_SUB__", "PEGBOARD_PACKS_NOTES___A", "PEGBOARD_PACKS_NOTES_A____B"]
)
def test_a_variable_with_an_empty_key_is_a_problem(read: Callable[..., Config], name: str) -> None:
    (line,) = told(read(**{name: "1"}))

    assert name in line


def test_what_is_no_setting_is_left_alone(read: Callable[..., Config]) -> None:
    config = read(PEGBOARD_INSIDE="1", PEGBOARDING="1", pegboard_packs_notes_enabled="false", MY_PEGBOARD_X="1")

    assert (config.problems, list(config.settings())) == ((), [])


SEGMENTS = st.from_regex(r"[a-z][a-z0-9]{0,3}", fullmatch=True)
DASHED = st.lists(SEGMENTS, min_size=1, max_size=3).map("-".join)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(DASHED, min_size=1, max_size=4), st.data())
def test_for_any_installed_packs_a_variable_sets_the_longest_of_them_that_fits(
    home: Any, packs: set[str], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(packs)))
    key = data.draw(st.lists(SEGMENTS, min_size=1, max_size=2).map("_".join))
    rest = f"{name}_{key}".replace("-", "_")
    fitting = [pack for pack in packs if rest.startswith(f"{pack}_".replace("-", "_"))]
    longest = max(fitting, key=len)

    config = load_config(packs, (), {f"PEGBOARD_PACKS_{rest.upper()}": "1"})

    assert config.problems == ()
    assert config.table("packs") == {longest: {rest[len(longest) + 1 :]: 1}}


def test_the_kernels_own_tables_can_be_set_by_variables(read: Callable[..., Config]) -> None:
    config = read(
        PEGBOARD_PACKS_DEFAULT="off",
        PEGBOARD_TOOLS_OFF="read, grep",
        PEGBOARD_INTERACTIONS_FRONT_ENDS='["notes"]',
        PEGBOARD_TOOLS_OWNER_READ_OUTPUT="notes",
        PEGBOARD_HOOKS_ORDER_OBSERVE="notes,*",
    )

    assert config.problems == ()
    assert config.table() == {
        "packs": {"default": "off"},
        "tools": {"off": ["read", "grep"], "owner": {"read_output": "notes"}},
        "interactions": {"front_ends": ["notes"]},
        "hooks": {"order": {"observe": ["notes", "*"]}},
    }


def test_tools_that_any_layer_switches_off_are_off_and_it_is_told_who_did(
    read: Callable[..., Config], home: Any
) -> None:
    config = read("[tools]\noff = ['read', 'grep']\n", PEGBOARD_TOOLS_OFF="grep,edit")

    where = {name: setting.where for name, setting in config.tools_off().items()}
    file = f"{home.config_file}:2"
    assert where == {"read": file, "grep": file, "edit": "PEGBOARD_TOOLS_OFF"}
    (shown,) = config.settings()
    assert (shown.value, shown.where) == (["read", "grep", "edit"], f"{file}, PEGBOARD_TOOLS_OFF")


def test_an_empty_variable_is_an_empty_list_where_a_list_is_wanted(read: Callable[..., Config]) -> None:
    assert read(PEGBOARD_INTERACTIONS_FRONT_ENDS="").table("interactions") == {"front_ends": []}


# -- what a host makes of it


def test_a_tool_that_is_off_is_offered_to_nobody(open_host: Callable[..., Host], pack_folder: Any) -> None:
    pack_folder.add("notes", NOTES)

    assert open_host().snapshot().names == ("note",)
    assert open_host("[tools]\noff = ['note']\n").snapshot().names == ()


def test_a_list_of_a_pack_may_be_a_comma_separated_variable(home: Any) -> None:
    config = load_config(["notes"], (), {"PEGBOARD_PACKS_NOTES_KINDS": "a, b"})

    class Kinds(BaseModel):
        kinds: list[str] = []

    settings, wrong = read_settings(config, ("packs", "notes"), Kinds)
    assert (wrong, settings) == ([], Kinds(kinds=["a", "b"]))


def test_three_mistakes_are_told_at_once_with_place_key_and_suggestion(
    open_host: Callable[..., Host], pack_folder: Any, home: Any
) -> None:
    pack_folder.add("notes", NOTES)
    text = "[packs.notes]\nlimt = 3\n[agent.review]\nmodel = 'x'\n[agents.main.limits]\nstep = 5\n"

    with pytest.raises(ConfigError) as wrong:
        open_host(text)

    file = home.config_file
    width = min(len(f"{file}:3"), 60) + 2
    assert str(wrong.value).splitlines() == [
        "3 problems in the configuration",
        f"  {file}:3".ljust(width) + "  agent                    no such table; did you mean `agents`?",
        f"  {file}:6".ljust(width) + "  agents.main.limits.step  no such setting; did you mean `steps`?",
        f"  {file}:2".ljust(width) + "  packs.notes.limt         no such setting; did you mean `limit`?",
        "nothing was run. `pegboard config schema` describes every setting.",
    ]


@pytest.mark.parametrize(
    ("line", "key", "text"),
    [
        ("modle = 'x'", "agents.main.modle", "no such setting; did you mean `model`?"),
        ("model = 3", "agents.main.model", "input should be a valid string"),
        ("limits.steps = 0", "agents.main.limits.steps", "input should be greater than or equal to 1"),
        ("limits.seconds = -1.5", "agents.main.limits.seconds", "input should be greater than 0"),
        ("limits = 3", "agents.main.limits", "input should be a valid dictionary"),
    ],
)
def test_a_mistake_in_an_agent_stops_the_host(
    open_host: Callable[..., Host], home: Any, line: str, key: str, text: str
) -> None:
    with pytest.raises(ConfigError) as wrong:
        open_host(f"[agents.main]\n{line}\n")

    (problem,) = wrong.value.problems
    assert str(problem).startswith(f"{home.config_file}:2  {key}  {text}")


# -- the command line


def test_config_path_is_where_the_file_would_be(pegboard: CommandLine, home: Any) -> None:
    assert pegboard("config", "path").stdout == f"{home.config_file}\n"


def test_config_show_tells_every_setting_with_who_set_it(pegboard: CommandLine, home: Any, pack_folder: Any) -> None:
    pack_folder.add("notes", NOTES)
    file = home.config("[packs.notes]\nlimit = 7\nsince = 2024-05-01\n")
    environ = {"PEGBOARD_PACKS_NOTES_TITLE": "day\x1b[31m"}

    shown = pegboard("--disable", "notes", "config", "show", env=environ)
    rows = json.loads(pegboard("--disable", "notes", "config", "show", "--json", env=environ).stdout)

    assert shown.stdout.splitlines() == [
        "packs.notes.enabled = false   --disable",
        f"packs.notes.limit = 7   {file}:2",
        f'packs.notes.since = "2024-05-01"   {file}:3',
        'packs.notes.title = "day\\u001b[31m"   PEGBOARD_PACKS_NOTES_TITLE',
    ]
    assert {"key": "packs.notes.limit", "value": 7, "where": f"{file}:2"} in rows
    assert [row["where"] for row in rows] == ["--disable", f"{file}:2", f"{file}:3", "PEGBOARD_PACKS_NOTES_TITLE"]


def test_config_show_without_any_setting_says_where_the_file_would_be(pegboard: CommandLine, home: Any) -> None:
    shown = pegboard("config", "show")

    assert (shown.returncode, shown.stderr) == (0, "")
    assert str(home.config_file) in shown.stdout
    assert json.loads(pegboard("config", "show", "--json").stdout) == []


def test_config_show_does_not_hide_that_the_file_is_broken(pegboard: CommandLine, home: Any) -> None:
    file = home.config("[packs.notes\n")

    shown = pegboard("config", "show")

    assert f"{file}:1" in shown.stderr + shown.stdout
    assert "nothing is set" not in shown.stdout


def test_config_check_tells_all_problems_and_exits_1(pegboard: CommandLine, home: Any, pack_folder: Any) -> None:
    pack_folder.add("notes", NOTES)
    file = home.config("[packs.notes]\nlimt = 3\nlimit = 'x'\n")

    checked = pegboard("config", "check")

    assert (checked.returncode, checked.stdout) == (1, "")
    assert f"  {file}:2  packs.notes.limt   no such setting; did you mean `limit`?\n" in checked.stderr
    assert f"  {file}:3  packs.notes.limit " in checked.stderr
    assert checked.stderr.startswith("pegboard: 2 problems in the configuration\n")


def test_config_check_of_a_good_configuration_exits_0(pegboard: CommandLine, home: Any, pack_folder: Any) -> None:
    pack_folder.add("notes", NOTES)
    home.config("[packs.notes]\nlimit = 7\n[agents.review]\nmodel = 'offline'\n")

    checked = pegboard("config", "check")

    assert (checked.returncode, checked.stdout) == (0, "the configuration is in order\n")


def test_a_broken_file_stops_a_command_with_one_clear_message_and_exit_1(pegboard: CommandLine, home: Any) -> None:
    file = home.config("[packs.notes\n")

    for command in (["run", "hello"], ["call", "read", "path=x"], ["tools"], ["config", "check"]):
        ended = pegboard(*command)

        assert (ended.returncode, ended.stdout) == (1, "")
        first, problem, last = ended.stderr.splitlines()
        assert first == "pegboard: 1 problem in the configuration"
        assert last == "nothing was run. `pegboard config schema` describes every setting."
        assert problem.startswith(f"  {file}:1  is not valid TOML: ")


def test_a_key_with_a_line_break_does_not_break_the_line_of_its_problem(pegboard: CommandLine, home: Any) -> None:
    home.config('"pakcs\\nnothing was run" = 1\n')

    assert len(pegboard("config", "check").stderr.splitlines()) == 3


def test_settings_reach_a_pack_from_file_and_environment(pegboard: CommandLine, home: Any, pack_folder: Any) -> None:
    pack_folder.add("notes", NOTES)
    home.config("[packs.notes]\nlimit = 7\n")

    called = pegboard("call", "note", env={"PEGBOARD_PACKS_NOTES_TITLE": "from here", "PEGBOARD_INSIDE": "1"})

    assert called.stdout == "Settings(limit=7, title='from here')\n"


def test_the_users_file_is_never_written(pegboard: CommandLine, home: Any, tmp_path: Path) -> None:
    file = home.config("# mine\r\n[packs.workspace]\r\nenabled = true\r\n")
    before = (file.read_bytes(), file.stat().st_mtime_ns)

    for command in (["config", "show"], ["packs", "list"], ["--disable", "workspace", "packs", "doctor"]):
        pegboard(*command)

    assert (file.read_bytes(), file.stat().st_mtime_ns) == before
    assert sorted(path.name for path in file.parent.iterdir()) == ["config.toml"]


@pytest.mark.skipif(os.name == "nt", reason="there are no named pipes of this kind")
def test_a_pipe_in_place_of_the_file_is_a_problem_and_nobody_waits_for_it(home: Any) -> None:
    home.config_file.parent.mkdir(parents=True)
    os.mkfifo(home.config_file)

    (line,) = told(load_config([], (), {}))

    assert line == f"{home.config_file}  can't be read: it is a pipe, socket or device"
