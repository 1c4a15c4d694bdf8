"""The documentation is true: generated pages equal the code, links lead somewhere, examples run."""

import ast
import importlib
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pegboard.events
import pegboard.folds
import pegboard.schemas
import pegboard.testing
import pytest

ROOT = Path(__file__).parent.parent
KERNEL = ROOT / "framework/src/pegboard"
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("b*/**/README.md"), ROOT / "framework/README.md"]
)

# A rule in the words of a docstring: `(T45)`, `(rule 9)`, `(L1 to L6)`, `C.3 case 11`, `(§3.5)`.
CITED = re.compile(
    r"(?P<code>\b(?:TS|[TLBNCGP]|AC-[A-Z])\d{1,2}\b|§[\d.]+\d)|\b(?P<kind>[Rr]ule|[Cc]ase)s? (?P<number>\d+)"
)

Pegboard = Callable[..., subprocess.CompletedProcess[str]]


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a page in one language."""
    text = (ROOT / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.needs("models", "tape", "workspace")
def test_the_reference_pages_are_what_the_generator_writes(tmp_path: Path, home: Any) -> None:
    subprocess.run([sys.executable, str(ROOT / "docs/generate.py"), str(tmp_path)], check=True)

    for page in ("hooks.md", "tools.md", "events.md", "api.md"):
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
    assert "10 rules, 0 findings" in pegboard("check", "tickets").stdout
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


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "api.md"], ids=lambda page: page.stem)
def test_every_block_of_code_can_be_read_and_imports_public_names(page: Path) -> None:
    for text in blocks(str(page), "toml"):
        tomllib.loads(text)
    for text in blocks(str(page), "python"):
        for node in ast.walk(ast.parse(textwrap.dedent(text))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pegboard":
                public = set(importlib.import_module(node.module or "").__all__) | {"events", "folds", "schemas"}
                assert {alias.name for alias in node.names} <= public, page.name


# -- the reference


def test_every_event_stands_once_on_its_page() -> None:
    headings = re.findall(r"^## `(.*)`$", (ROOT / "docs/reference/events.md").read_text("utf-8"), re.MULTILINE)
    types = {kind.type for kind in vars(pegboard.events).values() if _is_event(kind)}

    assert sorted(headings) == sorted(types)


def _is_event(kind: object) -> bool:
    bases = (pegboard.events.Event, pegboard.events.Unknown)
    return isinstance(kind, type) and issubclass(kind, pegboard.events.Event) and kind not in bases


def test_every_public_name_stands_once_on_the_api_page_and_is_explained() -> None:
    page = (ROOT / "docs/reference/api.md").read_text("utf-8")
    modules = (pegboard, pegboard.events, pegboard.folds, pegboard.schemas, pegboard.testing)
    public = {name for module in modules for name in module.__all__}
    entries = re.findall(r"^### `(\w+)`\n\n```python\n((?:.|\n)+?)\n```\n\n(.*)$", page, re.MULTILINE)

    assert sorted(re.findall(r"^### `(.*)`$", page, re.MULTILINE)) == sorted(public)
    assert len(entries) == len(public)
    for name, signature, told in entries:
        assert name in signature.splitlines()[0], name
        assert re.match(r"\S.{15,}?[.:?]( |$)", told), f"{name} has no first sentence: {told!r}"


# -- the map


def test_the_map_shows_every_room_in_the_order_of_the_contract_with_its_own_words() -> None:
    drawn = blocks("docs/explanation/kernel.md", "text")[0].splitlines()
    rooms = [room for layer in reversed(_layers()) for room in layer.split(" : ")]

    assert drawn == [f"{_shown(room):<13} {_first_line(room)}" for room in rooms if room != "__main__"]
    assert set(rooms) == {path.stem for path in KERNEL.iterdir() if path.is_dir() or path.suffix == ".py"} - {
        "__init__", "__pycache__",
    }  # fmt: skip


def _layers() -> list[str]:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"][0]
    return list(contract["layers"])


def _shown(room: str) -> str:
    return f"{room}/" if (KERNEL / room).is_dir() else f"{room}.py"


def _first_line(room: str) -> str:
    path = KERNEL / room / "__init__.py" if (KERNEL / room).is_dir() else KERNEL / f"{room}.py"
    return (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").splitlines()[0]


def test_every_stop_on_the_way_of_a_call_is_where_the_map_says() -> None:
    page = (ROOT / "docs/explanation/kernel.md").read_text("utf-8")
    stops = re.findall(r"^\| (\d+) \| `(\w+/\w+\.py)` \| `(?:(\w+)\.)?(\w+)`", page, re.MULTILINE)

    assert [int(number) for number, *_ in stops] == list(range(1, len(stops) + 1))
    assert 5 <= len(stops) <= 10
    for _, file, owner, function in stops:
        tree = ast.parse((KERNEL / file).read_text("utf-8"))
        inside = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == owner]
        bodies = [node.body for node in inside] if owner else [tree.body]
        defined = [getattr(node, "name", "") for body in bodies for node in body]
        assert function in defined, f"{file} has no {owner}.{function}"


# -- the rules


def test_every_rule_that_the_code_cites_stands_on_the_page_of_rules() -> None:
    page = (ROOT / "docs/explanation/rules.md").read_text("utf-8")
    explained = re.findall(r"\*\*((?:TS|[TLB])\d+|rule \d+|case \d+|§[\d.]+)\*\* \S", page)
    cited = {
        (match["code"] or f"{match['kind'].lower()} {match['number']}"): path.name
        for path in (*KERNEL.rglob("*.py"), *ROOT.glob("builtin_plugins/*/src/**/*.py"))
        for match in CITED.finditer(path.read_text("utf-8"))
    }

    assert len(explained) == len(set(explained))
    assert len(cited) > 40
    assert {code: file for code, file in cited.items() if code not in explained} == {}


def test_packs_and_pages_mark_hooks_in_one_way() -> None:
    files = [*ROOT.glob("builtin_plugins/*/src/**/*.py"), *ROOT.glob("docs/**/*.py"), *ROOT.glob("docs/*/*.md")]

    assert files
    assert [file.name for file in files if "@hookimpl" in file.read_text("utf-8") and file.name != "api.md"] == []
