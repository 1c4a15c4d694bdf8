"""The repository holds together: lists that must agree do, and the floors of the kernel are kept."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
FOLDERS = sorted(p.parent.relative_to(ROOT).as_posix() for p in ROOT.glob("*/pyproject.toml")) + sorted(
    p.parent.relative_to(ROOT).as_posix() for p in ROOT.glob("builtin_plugins/*/pyproject.toml")
)


def _names() -> dict[str, str]:
    read = {folder: tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8")) for folder in FOLDERS}
    return {folder: project["project"]["name"] for folder, project in read.items()}


def test_members_sources_and_requirements_name_every_distribution() -> None:
    required = re.findall(r"^-e \./(\S+)$", (ROOT / "requirements-dev.txt").read_text("utf-8"), re.MULTILINE)

    assert sorted(PROJECT["tool"]["uv"]["workspace"]["members"]) == sorted(FOLDERS)
    assert sorted(required) == sorted(FOLDERS)
    assert sorted(PROJECT["tool"]["uv"]["sources"]) == sorted(_names().values())


def test_the_pins_for_uv_are_those_of_the_constraints_file() -> None:
    pins = (ROOT / "constraints.txt").read_text("utf-8").split()

    assert PROJECT["tool"]["uv"]["constraint-dependencies"] == pins


def test_development_tools_are_the_same_for_uv_and_for_pip() -> None:
    lines = (ROOT / "requirements-dev.txt").read_text("utf-8").splitlines()
    tools = [line for line in lines if line and not line.startswith(("#", "-"))]

    assert sorted(tools) == sorted(name for name in PROJECT["dependency-groups"]["dev"] if name != "pegboard-all")


def test_pegboard_all_depends_on_every_distribution_and_has_no_code() -> None:
    everything = tomllib.loads((ROOT / "builtin_plugins/all/pyproject.toml").read_text("utf-8"))
    others = sorted(name for name in _names().values() if name != "pegboard-all")

    assert sorted(everything["project"]["dependencies"]) == others
    assert not list((ROOT / "builtin_plugins/all").rglob("*.py"))


def test_every_distribution_has_the_same_shape() -> None:
    for folder, name in _names().items():
        if name == "pegboard-all":
            continue
        package = ROOT / folder / "src" / name.replace("-", "_")
        assert (package / "__init__.py").is_file(), folder
        assert (package / "py.typed").is_file(), folder
        assert (ROOT / folder / "README.md").is_file(), folder
        assert list((ROOT / folder / "tests").rglob("test_*.py")), folder


def test_every_built_in_pack_keeps_the_contract_in_its_own_tests() -> None:
    for folder in FOLDERS:
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8"))["project"]
        if "pegboard.packs" in project.get("entry-points", {}):
            tests = [file.read_text("utf-8") for file in (ROOT / folder / "tests").glob("test_*.py")]
            assert any("(PackContract)" in text for text in tests), folder


@pytest.mark.needs("models", "workspace")
def test_the_floors_and_the_borders_between_packs_are_kept() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout
