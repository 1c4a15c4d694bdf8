"""`pegboard new` writes a whole pack or nothing, and says in one line why not."""

import json
import keyword
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from pegboard import UsageError
from pegboard.testing import PackContract, PackFolder
from pegboard_new.answers import BUILT_IN, check_distribution, check_name, check_text
from pegboard_new.template import questions

pytestmark = pytest.mark.needs("new")

Pegboard = Callable[..., subprocess.CompletedProcess[str]]


class TestContract(PackContract):
    """All of it, as installed."""

    pack = "new"


def test_flags_make_a_project_and_ask_nothing(pegboard: Pegboard, tmp_path: Path) -> None:
    options = ("--license", "MIT", "--author", "Ada", "--description", "Lists tickets.", "--no-input")
    made = pegboard("new", "tickets", "--distribution", "acme-tickets", *options, cwd=tmp_path)

    assert (made.returncode, made.stderr) == (0, "")
    project = tomllib.loads((tmp_path / "acme-tickets/pyproject.toml").read_text("utf-8"))["project"]
    assert project["description"] == "Lists tickets"
    assert project["entry-points"]["pegboard.packs"] == {"tickets": "acme_tickets.pack:TicketsPack"}
    assert project["entry-points"]["pegboard.guards"] == project["entry-points"]["pegboard.packs"]
    assert "MIT License" in (tmp_path / "acme-tickets/LICENSE").read_text("utf-8")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith((".", "acme"))) == ["acme-tickets"]


def test_the_answers_are_kept_with_the_version_of_the_template(pegboard: Pegboard, tmp_path: Path) -> None:
    pegboard("new", "tickets", cwd=tmp_path)

    kept = json.loads((tmp_path / "pegboard-tickets/.pegboard-new.json").read_text("utf-8"))
    assert kept == {
        "template_version": questions()["_template_version"],
        "name": "tickets",
        "description": questions()["description"],
        "author": "",
        "license": "Apache-2.0",
        "distribution": "pegboard-tickets",
    }


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such terminal on Windows")
def test_on_a_terminal_it_asks_and_asks_again(tmp_path: Path, home: object) -> None:
    import pty

    leader, terminal = pty.openpty()
    command = [sys.executable, "-m", "pegboard", "new"]
    process = subprocess.Popen(command, cwd=tmp_path, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    os.write(leader, b"class\ntickets\n\nAda\nGPL\nMIT\n\n")

    said = _read_all(leader)
    process.wait(30)

    assert "`class` is a word of Python" in said
    assert "'GPL' is not one of" in said
    kept = json.loads((tmp_path / "pegboard-tickets/.pegboard-new.json").read_text("utf-8"))
    assert (kept["name"], kept["author"], kept["license"]) == ("tickets", "Ada", "MIT")


def _read_all(leader: int) -> str:
    said = b""
    try:
        while piece := os.read(leader, 10_000):
            said += piece
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(leader)
    return said.decode()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["../evil"], "is no name for a pack"),
        (["run"], "`pegboard run` is a command already"),
        ([], "write `pegboard new NAME`"),
        (["tickets", "--description", "{{ 7 * 7 }}"], "without quotes, backslashes and braces"),
        (["tickets", "--description", " . "], "the description is empty"),
        (["tickets", "--into", "nowhere"], "nowhere is no folder"),
        (["tickets", "--license", "GPL"], "'GPL' is not one of"),
    ],
)
def test_what_will_not_do_is_refused_in_one_line_and_nothing_is_written(
    pegboard: Pegboard, tmp_path: Path, arguments: list[str], told: str
) -> None:
    refused = pegboard("new", *arguments, "--no-input")

    assert refused.returncode == 2
    assert told in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.parametrize(
    "name",
    ["", "Tickets", "a" * 33, "tickets\n", "a/b", "a--b", "-a", "a_b", "7a", "\u0661a", "a b", "json", "default"],
)
def test_a_pack_may_not_have_such_a_name(name: str) -> None:
    with pytest.raises(UsageError):
        check_name(name, ())


@pytest.mark.parametrize("name", ["a/b", "..", "pytest", "pegboard", "pegboard-workspace", "click", "import", "a" * 42])
def test_a_distribution_may_not_have_such_a_name(name: str) -> None:
    with pytest.raises(UsageError):
        check_distribution(name)


@pytest.mark.parametrize(
    "text", ['say "hello"', "two\nlines", "back\\slash", "{% raw %}", "x" * 91, "a\u202eb", "\x1b[2J"]
)
def test_a_text_may_not_be_such(text: str) -> None:
    with pytest.raises(UsageError, match="the author is one line"):
        check_text(text, "author")


def test_an_installed_packs_name_is_taken(pack_folder: PackFolder) -> None:
    pack_folder.add("tickets", "class Pack: pass")

    with pytest.raises(UsageError, match="a pack named `tickets` is installed"):
        check_name("tickets", ())


def test_a_folder_that_exists_is_left_as_it_is(pegboard: Pegboard, tmp_path: Path) -> None:
    kept = tmp_path / "pegboard-tickets" / "mine.txt"
    kept.parent.mkdir()
    kept.write_text("mine", "utf-8")

    refused = pegboard("new", "tickets", cwd=tmp_path)

    assert refused.returncode == 2
    assert "exists and is left as it is" in refused.stderr
    assert list(kept.parent.iterdir()) == [kept]


@pytest.mark.skipif(sys.platform != "linux", reason="needs a folder that nobody can write to")
def test_a_folder_that_can_not_be_written_gets_one_line(pegboard: Pegboard) -> None:
    refused = pegboard("new", "tickets", "--into", "/proc")

    assert refused.returncode == 1
    assert "/proc/pegboard-tickets can't be written" in refused.stderr


def test_every_keyword_and_built_in_name_is_refused() -> None:
    for name in [*filter(str.islower, keyword.kwlist), *BUILT_IN]:
        with pytest.raises(UsageError):
            check_name(name, ())


def test_an_ordinary_answer_passes_as_it_is() -> None:
    assert check_name("acme-tickets-2", ("run",)) == "acme-tickets-2"
    assert check_distribution("acme-tickets") == "acme-tickets"
    assert check_text("Ada O'Brien & Zoë", "author") == "Ada O'Brien & Zoë"
