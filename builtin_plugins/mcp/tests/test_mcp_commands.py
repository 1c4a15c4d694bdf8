"""`pegboard mcp`: what it prints, as text and as JSON, its exit codes, and what it does not import."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pegboard_mcp.cli import mcp

CHANGING = Path(__file__).with_name("changing_server.py")
Run = Callable[..., Result]


@pytest.fixture
def run(home: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in an empty directory."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def run_(*arguments: str) -> Result:
        return CliRunner().invoke(mcp, arguments, obj=SimpleNamespace(disable=()), standalone_mode=False)

    return run_


def say(file: Path, description: str) -> None:
    """Write what the changing server says of its tool."""
    file.write_text(json.dumps([{"name": "print", "description": description, "inputSchema": {"type": "object"}}, {}]))


@pytest.fixture
def printer(servers: Any, home: Any, tmp_path: Path) -> Path:
    """Configure the changing server; returns the file with its tools."""
    tools = tmp_path / "tools.json"
    say(tools, "Prints a page. On paper.")
    home.config(servers.table("printer", command=sys.executable, args=[str(CHANGING), str(tools)]))
    return tools


def test_the_servers_are_listed_without_starting_any(run: Run, servers: Any, home: Any) -> None:
    home.config(servers.table("one", command="program", env={"KEY": "secret"}) + servers.table("two", enabled=False))

    text, found = run("list").output, json.loads(run("list", "--json").output)

    assert "ready    one            stdio  program env KEY" in text
    assert "secret" not in text
    assert [(row["name"], row["state"]) for row in found] == [("one", "ready"), ("two", "off")]
    assert set(found[0]) == {
        *("name", "state", "reason", "transport", "pack", "source", "told", "hash", "accepted_tools"),
    }


def test_without_servers_it_is_said_where_one_is_written(run: Run) -> None:
    assert "[packs.mcp.servers.NAME]" in run("list").output
    assert run("test").return_value == 0


def test_a_server_that_works_is_tested_with_its_facts(run: Run, printer: Path) -> None:
    result = run("test", "printer")

    assert result.return_value == 0
    assert "printer  up" in result.output
    assert "2025-11-25 (legacy), changing 1" in result.output
    assert "1 offered, 1 left out, 0 changed" in result.output


def test_a_server_that_does_not_work_says_why_and_exits_1(run: Run, servers: Any, home: Any) -> None:
    home.config(servers.odd("dies-at-start"))

    result, (row,) = run("test"), json.loads(run("test", "--json").output)

    assert result.return_value == 1
    assert "why       it ended with exit code 7: no licence found" in result.output
    assert (row["state"], row["protocol"]) == ("down", None)


def test_tools_are_listed_with_those_that_are_not_offered(run: Run, printer: Path) -> None:
    text, found = run("tools", "printer").output, json.loads(run("tools", "--json").output)

    assert [line.split()[0] for line in text.splitlines()] == ["mcp__printer__print", "printer:"]
    assert "not offered: it has no name" in text
    assert [(row["tool"], row["offered"]) for row in found] == [("print", True), ("(no name)", False)]


def test_a_changed_tool_is_shown_and_accepted_by_a_person_only(run: Run, printer: Path) -> None:
    run("test")
    say(printer, "Prints two pages.")

    refused = run("accept", "printer")
    accepted = json.loads(run("accept", "printer", "--yes", "--json").stdout)
    again = run("accept", "printer")

    assert refused.return_value == 1
    assert '+ "description": "Prints two pages.",' in refused.output
    assert "nobody to ask here" in refused.stderr
    assert ([change["tool"] for change in accepted["changes"]], accepted["accepted"]) == (["print"], True)
    assert (again.output, again.return_value) == ("printer: nothing to accept\n", 0)


def test_a_process_that_an_agent_started_accepts_nothing(
    run: Run, printer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEGBOARD_INSIDE", "1")

    assert "only a person may accept" in str(run("accept", "printer", "--yes").exception)


def test_an_unknown_server_is_refused_with_those_that_there_are(run: Run, printer: Path) -> None:
    assert "there is no server `nothing` (there are: printer)" in str(run("test", "nothing").exception)


def test_neither_loading_the_pack_nor_listing_imports_the_sdk(printer: Path) -> None:
    """Rule 6: it costs a second."""
    code = """
import sys
from pegboard.__main__ import main
sys.argv = ["pegboard", "mcp", "list", "--json"]
try:
    main()
finally:
    heavy = ("mcp.types", "mcp_types", "httpx2", "jsonschema_rs")
    print([name for name in heavy if name in sys.modules], file=sys.stderr)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert json.loads(ended.stdout)[0]["name"] == "printer"
    assert ended.stderr.strip() == "[]"
