"""The page docs/how-to/twelve-packs.md shows what is in these files, and these files are what it says."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent.parent
PAGE = ROOT / "docs/how-to/twelve-packs.md"
PACKS = sorted(path for path in FOLDER.glob("test_*.py") if path != Path(__file__))
# What a pack may use beside these is Python's own and pydantic; pytest is for its test.
PUBLIC = {"pegboard", "pegboard.events", "pegboard.folds", "pegboard.schemas", "pegboard.testing", "pydantic", "pytest"}

named = pytest.mark.parametrize("pack", PACKS, ids=lambda path: path.stem)


def sections() -> dict[str, list[str]]:
    """Return the code blocks of each section, by the file that it links to, in the page's order."""
    found: dict[str, list[str]] = {}
    for section in PAGE.read_text("utf-8").split("\n## ")[1:]:
        (link,) = re.findall(r"\]\(\.\./examples/packs/([^)]+)\)", section)
        found[link] = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return found


def test_the_page_walks_through_twelve_packs_and_forgets_none() -> None:
    assert sorted(sections()) == [pack.name for pack in PACKS]
    assert len(PACKS) == 12


@named
def test_every_code_block_is_verbatim_part_of_its_file(pack: Path) -> None:
    blocks = sections()[pack.name]

    assert blocks
    for block in blocks:
        assert f"\n{block}" in pack.read_text("utf-8")


@named
def test_a_section_shows_at_most_fifteen_lines(pack: Path) -> None:
    assert 5 <= sum(block.count("\n") for block in sections()[pack.name]) <= 15


@named
def test_a_pack_and_its_test_are_under_sixty_lines(pack: Path) -> None:
    assert len(pack.read_text("utf-8").splitlines()) < 60


@named
def test_a_pack_uses_public_names_only(pack: Path) -> None:
    tree = ast.parse(pack.read_text("utf-8"))
    used = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    used |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    private = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr)]

    assert {name for name in used if name.split(".")[0] not in sys.stdlib_module_names} <= PUBLIC
    assert private == []


def test_the_packs_pass_a_strict_type_checker() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *map(str, PACKS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout
