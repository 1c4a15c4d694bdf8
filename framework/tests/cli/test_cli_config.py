"""`pegboard config`: what is in force with its defaults, what there is to set, where it all comes from."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from pegboard.config.places import Places
from pegboard.trust.accepted import Trust
from pegboard.trust.project import read_project

CommandLine = Callable[..., CompletedProcess[str]]

PACK = """
from typing import Annotated, Literal
from pegboard import narrowing
from pydantic import BaseModel, SecretStr

class Sub(BaseModel):
    depth: int = 2

class Settings(BaseModel):
    limit: int = 3
    style: Literal["a", "b"] = "a"
    key: SecretStr = SecretStr("hidden")
    sub: Sub = Sub()
    deny: Annotated[list[str], narrowing] = []

class Pack:
    def __init__(self, settings: Settings):
        self.settings = settings
"""


def trust(directory: Path) -> None:
    """Trust what a directory brings now."""
    project = read_project(directory)
    assert project is not None
    Trust(Places.default()).accept(project)


@pytest.fixture
def rows(pegboard: CommandLine) -> Callable[..., dict[str, tuple[Any, str]]]:
    """Return what `config show --effective --json` prints: key -> (value, where)."""

    def rows_(**options: Any) -> dict[str, tuple[Any, str]]:
        shown = pegboard("config", "show", "--effective", "--json", **options)
        return {row["key"]: (row["value"], row["where"]) for row in json.loads(shown.stdout)}

    return rows_


def test_everything_in_force_is_shown_with_who_decided_or_that_it_is_the_default(
    rows: Callable[..., dict[str, tuple[Any, str]]], pack_folder: Any, home: Any
) -> None:
    pack_folder.add("notes", PACK)
    file = home.config("[packs.notes]\nlimit = 7\n[agents.main.limits]\nsteps = 5\n[agents.review]\n")

    found = rows(env={"PEGBOARD_PACKS_NOTES_SUB__DEPTH": "9"})

    assert found["packs.notes.limit"] == (7, f"{file}:2")
    assert found["packs.notes.style"] == ("a", "default")
    assert found["packs.notes.sub.depth"] == (9, "PEGBOARD_PACKS_NOTES_SUB__DEPTH")
    assert found["packs.notes.enabled"] == (True, "default")
    assert found["agents.main.limits.steps"] == (5, f"{file}:4")
    assert found["agents.review.limits.tool_calls"] == (128, "default")
    assert found["packs.default"] == ("on", "default")
    assert "hidden" not in str(found)


def test_what_a_project_adds_to_a_narrowing_list_is_shown_with_both_places(
    rows: Callable[..., dict[str, tuple[Any, str]]], pack_folder: Any, home: Any, tmp_path: Path
) -> None:
    pack_folder.add("notes", PACK)
    file = home.config("[packs.notes]\ndeny = ['a']\n")
    project = tmp_path / "work" / "pegboard.toml"
    project.write_text("[packs.notes]\ndeny = ['b']\n")

    assert rows()["packs.notes.deny"] == (["a", "b"], f"{file}:2, {os.path.realpath(project)}:2")


def test_a_pack_that_is_off_is_not_imported_to_show_what_is_in_force(
    rows: Callable[..., dict[str, tuple[Any, str]]], pack_folder: Any, home: Any
) -> None:
    pack_folder.add("notes", "raise SystemExit('imported')")
    file = home.config("[packs.notes]\nenabled = false\nlimit = 1\n")

    found = rows()

    assert found["packs.notes.enabled"] == (False, f"{file}:2")
    assert found["packs.notes.limit"] == (1, f"{file}:3")


def test_the_schema_describes_the_kernels_tables_and_each_packs_settings(
    pegboard: CommandLine, pack_folder: Any
) -> None:
    pack_folder.add("notes", PACK)
    pack_folder.add("plain", "class Pack:\n    pass\n")

    schema = json.loads(pegboard("config", "schema").stdout)

    tables = schema["properties"]
    assert sorted(tables) == ["agents", "hooks", "interactions", "packs", "tools"]
    assert schema["additionalProperties"] is False
    notes = tables["packs"]["properties"]["notes"]
    assert {"enabled", "required", "limit", "style", "sub", "deny"} <= set(notes["properties"])
    assert notes["properties"]["style"]["enum"] == ["a", "b"]
    assert notes["additionalProperties"] is False
    assert sorted(tables["packs"]["properties"]["plain"]["properties"]) == ["enabled", "required"]
    assert "guard_tool_call" in tables["hooks"]["properties"]["order"]["properties"]
    assert "limits" in tables["agents"]["additionalProperties"]["properties"]


def test_everything_that_the_schema_refers_to_is_in_it(pegboard: CommandLine, pack_folder: Any) -> None:
    pack_folder.add("notes", PACK)

    text = pegboard("config", "schema").stdout

    refers = {line.split('"')[3] for line in text.splitlines() if '"$ref"' in line}
    assert "#/$defs/notes.Sub" in refers
    assert {name.removeprefix("#/$defs/") for name in refers} <= set(json.loads(text)["$defs"])


def test_the_schema_describes_a_pack_whose_settings_are_wrong_too(
    pegboard: CommandLine, pack_folder: Any, home: Any
) -> None:
    pack_folder.add("notes", PACK)
    home.config("[packs.notes]\nlimit = 'x'\n")

    schema = json.loads(pegboard("config", "schema").stdout)

    assert "limit" in schema["properties"]["packs"]["properties"]["notes"]["properties"]


def test_path_as_json_names_all_files_and_whether_the_projects_is_trusted(
    pegboard: CommandLine, home: Any, tmp_path: Path
) -> None:
    project = tmp_path / "work" / "pegboard.toml"
    facts = json.loads(pegboard("config", "path", "--json").stdout)
    assert (facts["user"], facts["project"], facts["trusted"]) == (str(home.config_file), None, False)

    project.write_text("[tools]\noff = ['x']\n")
    trust(project.parent)

    facts = json.loads(pegboard("config", "path", "--json").stdout)
    assert (facts["project"], facts["trusted"]) == (os.path.realpath(project), True)
    assert facts["state"] == str(Places.default().state_file)


def test_the_check_includes_a_trusted_project_and_leaves_an_unknown_one_alone(
    pegboard: CommandLine, home: Any, tmp_path: Path
) -> None:
    project = tmp_path / "work" / "pegboard.toml"
    project.write_text("[tols]\nx = 1\n")
    assert pegboard("config", "check").returncode == 0

    trust(project.parent)

    checked = pegboard("config", "check")
    assert checked.returncode == 1
    assert "tols  no such table; did you mean `tools`?" in checked.stderr
