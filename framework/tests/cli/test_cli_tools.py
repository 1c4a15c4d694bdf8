"""`pegboard tools` and `pegboard why` as a person and a program meet them: now, from a record, with hostile text."""

import asyncio
import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, get_args

import pytest
from pegboard import Host
from pegboard.base.frozen import freeze
from pegboard.events import RunStart, SessionStart, SnapshotTaken
from pegboard.packs.discovery import discover
from pegboard.testing import PackFolder
from pegboard.values.entries import Entry
from pegboard.values.events import Event
from pegboard.why.explanation import Kind

CommandLine = Callable[..., CompletedProcess[str]]
KEYS = ["name", "source", "pack", "exposure", "effect", "concurrency", "description", "parameters", "hash"]

EYES = '''
from pegboard import hookimpl, tool

@tool(effect="read")
def look() -> str:
    """Look around. At everything."""
    return "seen"

@tool(effect="write")
def mark() -> str:
    """Leave a mark."""
    return "marked"

@tool(effect="read", exposure="diagnostic")
def inspect_eyes() -> str:
    """Look into the eyes."""
    return "blue"

class Pack:
    @hookimpl
    def register_tools(self):
        return [look, mark, inspect_eyes]
'''


@pytest.fixture
def eyes(pack_folder: PackFolder) -> PackFolder:
    """A pack `eyes` with three tools, and a pack that keeps sessions."""
    pack_folder.add("eyes", EYES, tools=["look", "mark", "inspect_eyes"])
    pack_folder.add("jsonl", reference="pegboard.testing.jsonl:JsonlPack")
    return pack_folder


def of_eyes(ended: CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    """Return what `tools --json` printed of the pack `eyes`, by name."""
    assert ended.returncode == 0, ended.stderr
    return {row["name"]: row for row in json.loads(ended.stdout) if row["pack"] == "eyes"}


# -- pegboard tools


def test_tools_lists_what_is_offered_with_the_documented_keys(pegboard: CommandLine, eyes: PackFolder) -> None:
    rows = of_eyes(pegboard("tools", "--json"))

    assert set(rows) == {"look", "mark"}
    assert list(rows["look"]) == KEYS
    assert (rows["look"]["source"], rows["look"]["effect"]) == ("pack eyes", "read")


def test_tools_all_adds_what_is_not_offered_and_the_kind_of_its_first_reason(
    pegboard: CommandLine, eyes: PackFolder, home: Any
) -> None:
    home.config('[tools]\noff = ["mark"]\n[agents.main]\ntools = ["look"]\n')

    rows = of_eyes(pegboard("tools", "--all", "--json"))

    assert all(list(row) == [*KEYS, "offered", "why"] for row in rows.values())
    assert {name: (row["offered"], row["why"]) for name, row in rows.items()} == {
        "look": (True, None),
        "mark": (False, "config"),
        "inspect_eyes": (False, "exposure"),
    }


def test_of_a_pack_that_is_off_tools_all_knows_the_names_alone(pegboard: CommandLine, eyes: PackFolder) -> None:
    """Rule 12: it is not imported."""
    row = of_eyes(pegboard("--disable", "eyes", "tools", "--all", "--json"))["look"]

    assert (row["source"], row["offered"], row["why"]) == ("pack eyes", False, "pack state")
    assert [row[key] for key in KEYS[3:]] == [None] * 6


def test_tools_all_tells_a_person_which_kind_it_is_and_how_to_learn_more(
    pegboard: CommandLine, eyes: PackFolder
) -> None:
    lines = pegboard("tools", "--all").stdout.splitlines()

    assert "look           read   eyes         Look around" in lines
    assert "inspect_eyes   read   eyes         not offered: exposure (pegboard why inspect_eyes)" in lines


def test_an_agent_has_its_own_list(pegboard: CommandLine, eyes: PackFolder, home: Any) -> None:
    home.config('[agents.review]\ntools = ["look"]\n[agents.bare]\ntools = []\n')

    assert [row["name"] for row in json.loads(pegboard("tools", "--agent", "review", "--json").stdout)] == ["look"]
    assert pegboard("tools", "--agent", "bare").stdout.startswith("no tools; `pegboard packs` shows")


def test_an_agent_that_nobody_defined_is_one_line(pegboard: CommandLine, eyes: PackFolder, home: Any) -> None:
    home.config("[agents.review]\n")

    for command in (["tools"], ["why", "look"]):
        ended = pegboard(*command, "--agent", "reveiw")
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr == "pegboard: no agent `reveiw` is defined; did you mean `review`?\n"


@pytest.mark.parametrize("command", [["tools"], ["tools", "--all"], ["why", "look"]])
def test_a_pack_that_fails_in_the_prompt_is_one_line(
    pegboard: CommandLine, eyes: PackFolder, command: list[str]
) -> None:
    broken = "from pegboard import hookimpl\nclass Pack:\n    @hookimpl\n"
    eyes.add("broken", f"{broken}    def assemble_prompt(self, agent, prompt):\n        raise ValueError('oh')\n")

    ended = pegboard(*command)

    assert (ended.returncode, ended.stdout) == (1, "")
    told = "nothing can be offered: assemble_prompt of pack `broken` failed: ValueError: oh"
    assert ended.stderr == f"pegboard: {told}\n"


# -- pegboard tools --session


def call(pegboard: CommandLine) -> str:
    """Call `look`, and return the session that was recorded."""
    ended = pegboard("call", "look", "--json")
    assert ended.returncode == 0, ended.stderr
    return str(json.loads(ended.stdout.splitlines()[0])["session"])


def test_a_session_tells_what_its_run_was_given_when_the_pack_is_long_gone(
    pegboard: CommandLine, eyes: PackFolder, home: Any
) -> None:
    before = json.loads(pegboard("tools", "--json").stdout)
    session = call(pegboard)
    home.config("[packs.eyes]\nenabled = false\n")

    ended = pegboard("tools", "--session", session, "--json")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout) == before
    assert set(of_eyes(pegboard("tools", "--json"))) == set()


class Sessions:
    """Writes records as no run would, into the store of the pack `jsonl`."""

    def __init__(self, folder: Path, work: Path) -> None:
        self.folder, self.work, self.agent = folder, work, "main"

    def write(
        self, session: str, *runs: tuple[dict[str, Any], ...] | None, blob: bytes = b"", key: str = "", parent: str = ""
    ) -> None:
        """Record a session whose runs were given these tools; None is a run of which that is not recorded."""

        async def main() -> None:
            async with Host.open(environ={}, distributions=discover([str(self.folder)])) as host:
                store = await host.store()
                kept = (await store.put_blob(blob)) if blob else key
                events = [SessionStart(session, 0, 1.0, str(self.work), "main", parent or None, int(bool(parent)))]
                entries = [Entry(at, event) for at, event in enumerate([*events, *self._runs(session, runs, kept)], 1)]
                await store.append(session, entries, expect=0)

        asyncio.run(main())

    def _runs(self, session: str, runs: tuple[tuple[dict[str, Any], ...] | None, ...], key: str) -> Iterator[Event]:
        for number, tools in enumerate(runs, 1):
            names = tuple(one["name"] for one in tools or ())
            yield RunStart(
                session, number, 1.0, agent=self.agent, model="offline", label="", directory="/", tools=names, packs=(),
                hash=f"hash {number}", input="",
            )  # fmt: skip
            if tools is not None:
                yield SnapshotTaken(session, number, 1.0, f"hash {number}", "", freeze(tools), key)


@pytest.fixture
def sessions(eyes: PackFolder, home: Any, tmp_path: Path) -> Sessions:
    """Records by hand."""
    return Sessions(eyes.path, tmp_path)


def noted(name: str, pack: str = "gone") -> dict[str, Any]:
    """Return what a record says of a tool when it keeps no definition."""
    return {"name": name, "pack": pack, "effect": "read", "hash": "ab" * 32}


def test_without_the_definitions_a_record_still_tells_name_pack_effect_and_hash(
    pegboard: CommandLine, sessions: Sessions
) -> None:
    sessions.write("ab" * 4, (noted("old"),), (noted("sniff"),))

    (row,) = json.loads(pegboard("tools", "--session", "ab" * 4, "--json").stdout)

    assert list(row) == KEYS
    assert {key: row[key] for key in noted("sniff")} == noted("sniff")
    assert row["source"] == "pack gone"
    assert [row[key] for key in ("exposure", "concurrency", "description", "parameters")] == [None] * 4


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ({"key": "0" * 64}, "LookupError"),
        ({"key": "../../etc/passwd"}, "Error"),
        ({"blob": b"[" * 100_000}, "RecursionError"),
        ({"blob": b'["text"]'}, "TypeError"),
        ({"blob": json.dumps([{**noted("sniff"), "name": "other"}]).encode()}, "they are of other tools"),
    ],
)
def test_definitions_that_cant_be_read_are_told_and_the_record_counts(
    pegboard: CommandLine, sessions: Sessions, kept: dict[str, Any], told: str
) -> None:
    sessions.write("ab" * 4, (noted("sniff"),), **kept)

    ended = pegboard("tools", "--session", "ab" * 4)

    assert (ended.returncode, ended.stdout) == (0, "sniff          read   gone\n")
    assert ended.stderr.startswith("warning: the recorded definitions can't be read (")
    assert told in ended.stderr and ended.stderr.count("\n") == 1


def test_what_a_record_says_is_escaped_before_it_is_printed(pegboard: CommandLine, sessions: Sessions) -> None:
    """Rule 15."""
    hostile = {**noted("sn\x1b[31miff\nX", "go\x07ne"), "description": "a \u202egood\x1b]0;t\x07 tool"}
    sessions.write("ab" * 4, (noted(hostile["name"], hostile["pack"]),), blob=json.dumps([hostile]).encode())

    ended = pegboard("tools", "--session", "ab" * 4)

    assert ended.stdout.splitlines() == ["sn\\x1b[31miff X read   go\\x07ne     a \\u202egood\\x1b]0;t\\x07 tool"]


@pytest.mark.parametrize(
    ("session", "told"),
    [
        ("0123abcd", "there is no session 0123abcd"),
        ("../x", "`../x` is no session id; ids are lower-case hex"),
        ("", "`` is no session id; ids are lower-case hex"),
        ("ab\x1b[31m", "`ab\\x1b[31m` is no session id; ids are lower-case hex"),
        ("0" * 10_000, f"`{'0' * 39}…` is no session id; ids are lower-case hex"),
        ("abababab", "session abababab had no run yet, so nothing was given to one"),
    ],
)
def test_a_session_that_can_tell_nothing_is_one_line(
    pegboard: CommandLine, sessions: Sessions, session: str, told: str
) -> None:
    sessions.write("abababab")

    ended = pegboard("why", "look", "--session", session)

    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"pegboard: {told}\n")


def test_a_run_whose_snapshot_is_not_recorded_is_one_line(pegboard: CommandLine, sessions: Sessions) -> None:
    sessions.write("abababab", (noted("sniff"),), None)

    for command in (["tools"], ["why", "sniff"]):
        ended = pegboard(*command, "--session", "abababab")

        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr == "pegboard: the record of session abababab does not say what run 2 was given\n"


def test_where_nothing_keeps_sessions_that_is_said(
    pegboard: CommandLine, pack_folder: PackFolder, without_store: tuple[str, ...]
) -> None:
    ended = pegboard(*without_store, "tools", "--session", "0123abcd")

    assert ended.stderr == "pegboard: there is no session 0123abcd (no active pack keeps sessions)\n"


def test_a_run_that_was_given_nothing_says_so(pegboard: CommandLine, sessions: Sessions) -> None:
    sessions.write("abababab", ())

    assert pegboard("tools", "--session", "abababab").stdout == "that run was given no tools\n"
    assert json.loads(pegboard("tools", "--session", "abababab", "--json").stdout) == []


def test_a_record_is_not_mixed_with_what_would_be(pegboard: CommandLine) -> None:
    for option in (["--all"], ["--agent", "main"]):
        ended = pegboard("tools", "--session", "0123abcd", *option)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert "--session shows what a run was given" in ended.stderr


# -- pegboard why


def test_why_tells_the_source_of_an_offered_tool_and_what_asks(pegboard: CommandLine, eyes: PackFolder) -> None:
    lines = pegboard("why", "mark").stdout.splitlines()

    assert lines[0] == "mark is offered to `main`, and asks each time"
    assert lines[1].split()[:3] == ["source", "pack", "eyes"] and "write, exclusive, definition" in lines[1]
    assert lines[2].startswith("  guard            asks a person before what git, CI or Pegboard takes orders from")
    assert lines[3].startswith("  permission rule  asks: no policy pack decides about writes; --allow-writes says yes")
    assert len(lines) == 4


def test_why_as_json_has_exactly_the_documented_keys(pegboard: CommandLine, eyes: PackFolder) -> None:
    found = json.loads(pegboard("--disable", "eyes", "why", "look", "--json").stdout)

    text = "pack `eyes` is disabled: packs.eyes.enabled = false"
    assert found == {
        "tool": "look",
        "offered": False,
        "reasons": [{"kind": "pack state", "text": text, "source": "--disable"}],
    }


def test_the_command_that_is_suggested_works_when_typed(pegboard: CommandLine, eyes: PackFolder, home: Any) -> None:
    home.config("[packs]\n[packs.eyes]\nenabled = false\n")
    lines = pegboard("why", "look").stdout.splitlines()
    assert lines[0] == "look is not offered to `main`"
    assert lines[1].endswith(f"{home.config_file}:3")

    command = lines[2].removeprefix("  to offer it again: pegboard ")
    assert pegboard(*shlex.split(command)).returncode == 0

    assert pegboard("why", "look").stdout.startswith("look is offered to `main`\n")


def test_the_command_against_a_restricting_pack_works_when_typed(
    pegboard: CommandLine, eyes: PackFolder, home: Any
) -> None:
    head = "from pegboard import hookimpl\nclass Pack:\n    @hookimpl\n    def agent_created(self, agent):\n"
    eyes.add("strict", f"{head}        agent.restrict(deny=['look'])\n")
    lines = pegboard("why", "look").stdout.splitlines()
    assert lines[1].startswith("  restriction  pack strict hides it from agent ")

    command = lines[2].removeprefix("  to offer it again: pegboard ").partition(" (")[0]
    assert pegboard(*shlex.split(command)).returncode == 0

    assert pegboard("why", "look").stdout.startswith("look is offered to `main`\n")


def test_several_reasons_need_several_remedies_and_files_are_named_from_here(
    pegboard: CommandLine, eyes: PackFolder, tmp_path: Path
) -> None:
    """§3.5: an untrusted project's off-list adds up."""
    (tmp_path / "work" / ".git").mkdir()
    (tmp_path / "work" / "pegboard.toml").write_text('[tools]\noff = ["look"]\n', "utf-8")

    ended = pegboard("why", "look", env={"PEGBOARD_PACKS_EYES_ENABLED": "false"})

    assert ended.stdout.splitlines() == [
        "look is not offered to `main`",
        "  pack state  pack `eyes` is disabled: packs.eyes.enabled = false  PEGBOARD_PACKS_EYES_ENABLED",
        "  config      [tools] off names it                                 pegboard.toml:2",
        "  to offer it again, all of this:",
        "    unset PEGBOARD_PACKS_EYES_ENABLED",
        "    take `look` out of pegboard.toml:2",
    ]


def test_a_failed_pack_is_explained_by_the_doctor(pegboard: CommandLine, eyes: PackFolder) -> None:
    eyes.add("ears", "import libfoo_that_is_not_there", tools=["hear"])

    ended = pegboard("why", "hear")

    assert ended.returncode == 0
    assert "pack `ears` is failed: ModuleNotFoundError" in ended.stdout
    assert ended.stdout.splitlines()[-1] == "  to offer it again: pegboard packs doctor ears"


def test_a_name_that_nobody_brings_gets_the_nearest_one(pegboard: CommandLine, eyes: PackFolder) -> None:
    ended = pegboard("why", "inspect-eyes")

    assert ended.returncode == 0
    assert "no installed pack brings a tool of that name; did you mean `inspect_eyes`?" in ended.stdout
    assert ended.stdout.splitlines()[-1] == "  all names that are known: pegboard tools --all"


def test_nothing_is_suggested_for_a_tool_that_no_model_may_have(pegboard: CommandLine, eyes: PackFolder) -> None:
    ended = pegboard("why", "inspect_eyes", env={"PEGBOARD_AGENTS_MAIN_TOOLS": "look"})

    assert [line.split()[0] for line in ended.stdout.splitlines()] == ["inspect_eyes", "exposure", "grant"]


@pytest.mark.parametrize("name", ["../x", "\x1b[31mred\u202e\nx", "a" * 10_000, " "])
def test_whatever_is_asked_about_is_answered_in_printable_lines(pegboard: CommandLine, name: str) -> None:
    ended = pegboard("why", "--", name)
    asked = json.loads(pegboard("why", "--json", "--", name).stdout)

    lines = ended.stdout.split("\n")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [line.split("  ")[0] for line in lines[1:]] == ["", "", ""]
    assert len(lines[0]) < 120 and lines[0].endswith("is not offered to `main`")
    assert all(line.isprintable() for line in lines)
    assert asked["tool"] == name and not asked["offered"]


# -- pegboard why --session


def test_why_of_a_session_tells_that_its_run_was_given_the_tool(pegboard: CommandLine, eyes: PackFolder) -> None:
    session = call(pegboard)

    assert pegboard("why", "look", "--session", session).stdout.startswith(
        f"look was offered to `main` in run 1 of {session}\n"
    )


def test_why_of_a_session_tells_what_hides_since_then(pegboard: CommandLine, eyes: PackFolder, home: Any) -> None:
    session = call(pegboard)
    home.config('[tools]\noff = ["look"]\n')

    found = json.loads(pegboard("why", "look", "--session", session, "--json").stdout)

    assert found["offered"] is True
    assert [(reason["kind"], reason["text"]) for reason in found["reasons"]] == [
        ("config", "no longer: [tools] off names it")
    ]


def test_why_of_a_session_tells_what_hid_it_then_and_still_does(
    pegboard: CommandLine, eyes: PackFolder, home: Any
) -> None:
    home.config('[tools]\noff = ["mark"]\n')
    session = call(pegboard)

    lines = pegboard("why", "mark", "--session", session).stdout.splitlines()

    assert lines[0] == f"mark was not offered to `main` in run 1 of {session}"
    assert lines[1].split()[:4] == ["config", "[tools]", "off", "names"]


@pytest.mark.parametrize(("parent", "kind"), [("", "pack state"), ("cdcdcdcd", "grant")])
def test_why_of_a_session_tells_that_a_tool_came_later_or_that_the_parent_did_not_grant_it(
    pegboard: CommandLine, sessions: Sessions, parent: str, kind: str
) -> None:
    sessions.write("abababab", (noted("sniff"),), parent=parent)

    found = json.loads(pegboard("why", "look", "--session", "abababab", "--json").stdout)

    assert found["offered"] is False
    assert [(reason["kind"], reason["source"]) for reason in found["reasons"]] == [(kind, "session abababab, run 1")]


def test_why_of_a_session_is_explained_by_the_settings_of_its_directory(
    pegboard: CommandLine, sessions: Sessions, tmp_path: Path
) -> None:
    sessions.work = (tmp_path / "repo").resolve()
    (sessions.work / ".git").mkdir(parents=True)
    (sessions.work / "pegboard.toml").write_text('[tools]\noff = ["look"]\n', "utf-8")
    sessions.write("abababab", (noted("sniff"),))

    lines = pegboard("why", "look", "--session", "abababab").stdout.splitlines()

    assert lines[1] == "  config  [tools] off names it  pegboard.toml:2"


def test_a_session_whose_directory_is_gone_still_tells_what_its_run_was_given(
    pegboard: CommandLine, sessions: Sessions
) -> None:
    sessions.work = Path("/nonexistent/folder")
    sessions.write("abababab", (noted("sniff"),))

    assert pegboard("tools", "--session", "abababab").stdout == "sniff          read   gone\n"
    asked = pegboard("why", "look", "--session", "abababab")
    assert (asked.returncode, asked.stdout) == (1, "")
    assert asked.stderr.startswith("pegboard: the directory /nonexistent/folder of session abababab can't be entered")


def test_an_agent_that_is_not_defined_here_is_compared_with_one_that_is_and_escaped(
    pegboard: CommandLine, sessions: Sessions
) -> None:
    sessions.agent = "gu\x1b[31mest"
    sessions.write("abababab", (noted("look", "eyes"),))

    refused = pegboard("why", "look", "--session", "abababab")
    assert refused.returncode == 2
    assert "is of agent `gu\\x1b[31mest`, which the configuration does not define" in refused.stderr

    compared = pegboard("why", "look", "--session", "abababab", "--agent", "main")
    assert compared.stdout.startswith("look was offered to `gu\\x1b[31mest` in run 1 of abababab\n")


@pytest.mark.parametrize("command", ["tools", "why"])
def test_help_has_examples(pegboard: CommandLine, command: str) -> None:
    shown = pegboard(command, "--help").stdout

    assert "Examples:\n" in shown.replace("  Examples", "Examples")
    assert f"pegboard {command} " in shown


# -- the page about it


PAGE = Path(__file__).parents[3] / "docs/how-to/why-is-a-tool-missing.md"


@pytest.mark.needs("workspace")
def test_the_page_shows_what_is_printed(pegboard: CommandLine) -> None:
    (shown,) = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)

    for screen in shown.split("$ ")[1:]:
        command, _, output = screen.partition("\n")
        variables, _, arguments = command.partition("pegboard ")
        env = dict(variable.split("=") for variable in variables.split())
        assert pegboard(*arguments.split(), env=env).stdout == output, command


def test_the_page_names_every_kind_in_its_order() -> None:
    assert tuple(re.findall(r"^\| `([a-z ]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)) == get_args(Kind)
