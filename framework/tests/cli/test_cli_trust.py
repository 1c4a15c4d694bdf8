"""`pegboard trust` and what commands say in a directory that brings settings, as a person sees it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

CommandLine = Callable[..., CompletedProcess[str]]

PACK = '''
from pegboard import hookimpl, tool

class Pack:
    @hookimpl
    def register_tools(self):
        @tool(effect="read")
        def note() -> str:
            """Say hello."""
            return "hello"
        return [note]
'''

SETTINGS = """[packs.notes]
enabled = false
[interactions]
front_ends = ["notes"]
"""


@pytest.fixture
def repo(home: Any, tmp_path: Path, pack_folder: Any) -> Path:
    """A repository that switches the pack `notes` off."""
    pack_folder.add("notes", PACK)
    path = tmp_path / "repo"
    (path / ".git").mkdir(parents=True)
    (path / "pegboard.toml").write_text(SETTINGS, "utf-8")
    skill = path / ".agents" / "skills" / "one" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("Do it.\n", "utf-8")
    return path


def test_a_command_says_once_on_stderr_what_does_not_count_yet(pegboard: CommandLine, repo: Path) -> None:
    called = pegboard("call", "note", "--json", cwd=repo)

    assert called.returncode == 0
    assert all(json.loads(line) for line in called.stdout.splitlines())
    assert called.stderr.splitlines() == [
        "this directory brings settings that are not trusted yet; running without them:",
        "  pegboard.toml:2  packs.notes.enabled",
        "  pegboard.toml:4  interactions.front_ends  never taken from a project",
        "  .agents/skills                            1 file in 1 folder",
        "  look and decide: pegboard trust",
    ]


def test_trust_shows_everything_and_without_anybody_to_ask_says_what_to_do(pegboard: CommandLine, repo: Path) -> None:
    shown = pegboard("trust", cwd=repo / ".agents")

    assert shown.returncode == 1
    assert shown.stderr == "not trusted: nobody to ask here · look at it, then: pegboard trust --yes\n"
    lines = shown.stdout.splitlines()
    assert lines[0] == f"{os.path.realpath(repo)} brings"
    assert "  pegboard.toml        1 pack switched off, 1 other setting" in lines
    assert "  .agents/skills       1 file in 1 folder" in lines
    assert "+enabled = false" in lines and "+Do it." in lines
    assert "  pegboard.toml:4  interactions.front_ends  never taken from a project" in lines


def test_what_was_trusted_counts_until_it_changes(pegboard: CommandLine, repo: Path) -> None:
    assert pegboard("trust", "--yes", cwd=repo).returncode == 0
    called = pegboard("call", "note", cwd=repo)
    assert called.returncode != 0
    assert called.stderr.splitlines()[:2] == [
        "this project sets what no project may; running without it:",
        "  pegboard.toml:4  interactions.front_ends  never taken from a project",
    ]

    (repo / "pegboard.toml").write_text("[packs.notes]\nenabled = false\n# more\n", "utf-8")

    called = pegboard("call", "note", cwd=repo)
    assert (called.returncode, called.stdout) == (0, "hello\n")
    assert "settings that changed since you trusted them; running without them:" in called.stderr
    assert "+# more" in pegboard("trust", cwd=repo).stdout


def test_trust_can_be_given_from_elsewhere_asked_for_as_json_and_revoked(
    pegboard: CommandLine, repo: Path, tmp_path: Path
) -> None:
    given = pegboard("trust", str(repo), "--yes", "--json")

    facts = json.loads(given.stdout)
    assert (given.returncode, facts["trusted"], facts["path"]) == (0, True, os.path.realpath(repo))
    assert pegboard("trust", cwd=repo).stdout.startswith(f"{os.path.realpath(repo)} is trusted already\n")
    assert pegboard("trust", str(repo), "--revoke").stdout == f"{os.path.realpath(repo)} is no longer trusted\n"
    assert json.loads(pegboard("trust", str(repo), "--json").stdout)["trusted"] is False


def test_where_there_is_nothing_to_trust_it_says_so(pegboard: CommandLine) -> None:
    shown = pegboard("trust", "--yes")

    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("nothing to trust in ")
    assert pegboard("trust", "not-there").returncode == 2


def test_what_can_never_be_trusted_is_refused_with_the_reason(pegboard: CommandLine, repo: Path) -> None:
    (repo / "pegboard.toml").write_text("#" * 2_000_000, "utf-8")

    refused = pegboard("trust", "--yes", cwd=repo)

    assert refused.returncode == 1
    assert refused.stderr.endswith("can't be trusted: pegboard.toml is larger than 1,048,576 bytes\n")


@pytest.mark.parametrize(
    "command", [["trust", "--yes"], ["packs", "disable", "notes"], ["packs", "enable", "notes"]], ids=" ".join
)
def test_an_agents_own_process_decides_nothing(
    pegboard: CommandLine, repo: Path, home: Any, command: list[str]
) -> None:
    refused = pegboard(*command, cwd=repo, env={"PEGBOARD_INSIDE": "1"})

    assert (refused.returncode, refused.stdout) == (1, "")
    assert "is for a person; it is refused in a process that an agent started" in refused.stderr
    assert not (home.path / ".local").exists()


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals of this kind")
@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_on_a_terminal_the_person_is_asked_and_no_is_the_default(repo: Path, home: Any, answer: str, code: int) -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "pegboard", "trust"]
    os.write(ours, answer.encode())

    ended = subprocess.run(
        command, cwd=repo, stdin=theirs, capture_output=True, text=True, env={**os.environ, **home.environ}, timeout=60
    )

    os.close(ours)
    os.close(theirs)
    assert "trust it? [y/N]" in ended.stderr
    assert ended.returncode == code


# -- packs, switched by command


def test_a_pack_is_switched_off_and_on_again_without_touching_a_persons_file(
    pegboard: CommandLine, pack_folder: Any, home: Any
) -> None:
    pack_folder.add("notes", PACK)
    file = home.config("[packs.notes]\nenabled = true\n")

    assert pegboard("packs", "disable", "notes").stdout == "notes is disabled\n"
    listed = pegboard("packs", "list", "--json").stdout
    (row,) = [row for row in json.loads(listed) if row["name"] == "notes"]
    assert row["state"] == "disabled" and "state.toml:" in row["decided_by"]
    assert "pegboard packs enable notes" in pegboard("packs", "doctor", "notes").stdout
    assert pegboard("packs", "enable", "notes").stdout == "notes is enabled\n"
    assert file.read_text("utf-8") == "[packs.notes]\nenabled = true\n"


def test_an_unknown_pack_is_not_switched(pegboard: CommandLine, pack_folder: Any, home: Any) -> None:
    pack_folder.add("notes", PACK)

    refused = pegboard("packs", "disable", "nots")

    assert refused.returncode == 2
    assert refused.stderr == "pegboard: no pack `nots` is installed; did you mean `notes`?\n"
    assert not (home.path / ".local").exists()


def test_a_required_pack_is_not_switched_off(pegboard: CommandLine, pack_folder: Any, home: Any) -> None:
    pack_folder.add("notes", PACK)
    file = home.config("[packs.notes]\nrequired = true\n")

    refused = pegboard("packs", "disable", "notes")

    assert refused.returncode == 1
    assert refused.stderr == f"pegboard: pack `notes` is required by {file}:2; remove that line first\n"


def test_it_is_told_when_something_stronger_decides(pegboard: CommandLine, pack_folder: Any) -> None:
    pack_folder.add("notes", PACK)

    switched = pegboard("packs", "disable", "notes", env={"PEGBOARD_PACKS_NOTES_ENABLED": "true"})

    assert switched.stdout == "remembered, but PEGBOARD_PACKS_NOTES_ENABLED is stronger: notes is enabled\n"


def test_a_damaged_state_is_one_clear_error_and_stays_as_it_is(
    pegboard: CommandLine, pack_folder: Any, home: Any
) -> None:
    pack_folder.add("notes", PACK)
    pegboard("packs", "disable", "notes")
    file = Path(json.loads(pegboard("config", "path", "--json").stdout)["state"])
    file.write_text("[packs\n", "utf-8")

    for command in (["packs", "enable", "notes"], ["call", "note"]):
        refused = pegboard(*command)
        assert refused.returncode == 1
        assert str(file) in refused.stderr and "is damaged" in refused.stderr and "move it away" in refused.stderr
    assert file.read_text("utf-8") == "[packs\n"
