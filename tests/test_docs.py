"""The documentation is true: generated pages equal the code, links lead somewhere, examples run."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("b*/**/README.md"), ROOT / "framework/README.md"]
)

Pegboard = Callable[..., subprocess.CompletedProcess[str]]


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a page in one language."""
    text = (ROOT / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.needs("models", "tape", "workspace")
def test_the_reference_pages_are_what_the_generator_writes(tmp_path: Path, home: Any) -> None:
    subprocess.run([sys.executable, str(ROOT / "docs/generate.py"), str(tmp_path)], check=True)

    for page in ("hooks.md", "tools.md", "events.md"):
        written = (ROOT / "docs/reference" / page).read_text("utf-8")
        assert (tmp_path / page).read_text("utf-8") == written, "run: python docs/generate.py"


def test_every_link_leads_to_a_file() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_begins_with_exactly_two_commands() -> None:
    commands = blocks("README.md", "sh")[0].splitlines()

    assert len(commands) == 2
    assert "pegboard run" in commands[0]
    assert "pytest" in commands[1]


@pytest.mark.needs("models")
def test_the_pack_of_the_how_to_works_as_it_says(pegboard: Pegboard, pack_folder: Any, tmp_path: Path) -> None:
    (project,) = blocks("docs/how-to/write-a-pack.md", "toml")
    (code,) = blocks("docs/how-to/write-a-pack.md", "python")
    declared = tomllib.loads(project)["project"]
    groups = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in rows.items())
        for group, rows in declared["entry-points"].items()
    )
    (pack_folder.path / "acme_tickets.py").write_text(code, "utf-8")
    pack_folder.write_metadata("acme-tickets", "0.1.0", groups, "Name: acme-tickets\nVersion: 0.1.0\n\n")

    assert pegboard("packs", "doctor", "tickets").returncode == 0
    assert pegboard("call", "list_tickets", "status=closed").stdout == "T-1 printers on fire (closed)\n"
    assert "T-1 printers on fire (open)" in pegboard("run", "Which tickets are open?").stdout
    refused = pegboard("call", "--allow-writes", "write", "path=tickets.json", "content={}")
    assert "tickets are changed in the tracker" in refused.stderr


@pytest.mark.needs("workspace")
def test_the_configuration_of_the_how_to_is_in_order(pegboard: Pegboard, pack_folder: Any, home: Any) -> None:
    (text,) = blocks("docs/how-to/configure.md", "toml")
    pack_folder.add("house-rules", "class Pack: pass")
    pack_folder.add("acme-tickets", "raise RuntimeError('must not be imported')")
    home.config(text)

    checked = pegboard("config", "check")

    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.needs("models", "workspace")
def test_the_script_of_the_how_to_repairs_the_file(pegboard: Pegboard, tmp_path: Path) -> None:
    (script,) = blocks("docs/how-to/script-a-model.md", "toml")
    (tmp_path / "repair.toml").write_text(script, "utf-8")
    (tmp_path / "calc.py").write_text("def add(a, b):\n    return a - b\n", "utf-8")
    (tmp_path / "test_calc.py").write_text("from calc import add\nassert add(1, 2) == 3\nprint('passed')\n", "utf-8")

    ended = pegboard("run", "-m", "scripted:repair.toml", "--allow-writes", "repair it", cwd=tmp_path)

    assert "Done. The last step gave: shell: exit 0\npassed" in ended.stdout
