"""The fast scan for installed packs sees what importlib-metadata sees, whatever lies on the path."""

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import importlib_metadata
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pegboard.packs.discovery import Distribution, discover

NOTES = """\
[console_scripts]
notes = notes.cli:main
[pegboard.packs]
notes = notes.pack:Notes
[pegboard.tools]
note = notes.pack:note
"""


class Facts(NamedTuple):
    """What is compared of one distribution."""

    version: str
    packs: tuple[tuple[str, str], ...]
    tools: dict[str, str]
    commands: dict[str, str]
    claims_policy: bool
    requires: tuple[str, ...]
    orders_after: tuple[str, ...]


def scanned(path: Iterable[str] | None = None) -> dict[str, Facts]:
    """Return the facts as the fast scan finds them."""
    return {
        found.name: Facts(
            found.version,
            (found.pack,) if found.pack else (),
            dict(found.tools),
            dict(found.commands),
            found.claims_policy,
            found.requires,
            found.orders_after,
        )
        for found in discover(path)
    }


def expected(path: Sequence[str]) -> dict[str, Facts]:
    """Return the facts as importlib-metadata gives them; of several copies of a distribution the first wins."""
    first: dict[str, Any] = {}
    for distribution in importlib_metadata.distributions(path=list(path)):
        first.setdefault(canonicalize_name(distribution.name), distribution)
    return {name: facts for name, found in first.items() if (facts := facts_of(found))}


def facts_of(distribution: Any) -> Facts | None:
    """Return one distribution's facts, or None if it has nothing for Pegboard."""
    points = [point for point in distribution.entry_points if point.group.startswith("pegboard.")]
    if not points:
        return None
    groups = {
        group: {point.name: point.value for point in points if point.group == group} for group in map(group_of, points)
    }
    needs = [Requirement(line) for line in distribution.requires or ()]
    return Facts(
        distribution.version,
        tuple(groups.get("pegboard.packs", {}).items())[:1],
        groups.get("pegboard.tools", {}),
        groups.get("pegboard.commands", {}),
        "pegboard.policy" in groups,
        tuple(canonicalize_name(need.name) for need in needs if need.marker is None),
        tuple(canonicalize_name(need.name) for need in needs if need.marker is not None),
    )


def group_of(point: Any) -> str:
    """Return an entry point's group."""
    return str(point.group)


def write(folder: Path, **files: str | bytes) -> Path:
    """Make a metadata folder with these files (`entry_points` is entry_points.txt); returns it."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        file = folder / {"entry_points": "entry_points.txt", "requires": "requires.txt", "PKG_INFO": "PKG-INFO"}.get(
            name, name
        )
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def metadata(name: str, version: str = "1.0", *more: str) -> str:
    """Return the text of METADATA with these headers and a description that looks like headers."""
    return "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *more, "", "Version: 9", ""])


def only(found: tuple[Distribution, ...]) -> Distribution:
    """Return the one distribution that was found."""
    (one,) = found
    return one


# -- what is there is found, as importlib-metadata finds it


def test_an_installed_distribution_is_found_with_everything_that_it_declares(tmp_path: Path) -> None:
    needs = [
        "Summary: Keeps notes",
        "Requires-Dist: Acme.Base[fast] (>=1)",
        "Requires-Dist: acme_web>=2; extra == 'web'",
    ]
    points = f"""{NOTES}# draft = notes.pack:draft
[pegboard.commands]
notes = notes.cli:group
[pegboard.policy]
notes = notes.pack:Notes
"""
    write(tmp_path / "Acme_Notes-2.1.dist-info", METADATA=metadata("Acme-Notes", "2.1", *needs), entry_points=points)

    found = only(discover([str(tmp_path)]))

    assert (found.name, found.version, found.summary) == ("acme-notes", "2.1", "Keeps notes")
    assert (found.pack, dict(found.tools)) == (("notes", "notes.pack:Notes"), {"note": "notes.pack:note"})
    assert (dict(found.commands), found.claims_policy) == ({"notes": "notes.cli:group"}, True)
    assert (found.requires, found.orders_after, found.problem) == (("acme-base",), ("acme-web",), None)
    assert scanned([str(tmp_path)]) == expected([str(tmp_path)])


@pytest.mark.needs("workspace")
def test_this_environment_with_its_editable_installs_is_seen_as_importlib_metadata_sees_it() -> None:
    assert scanned() == expected(sys.path)
    assert scanned()["pegboard-workspace"].packs == (("workspace", "pegboard_workspace.pack:Workspace"),)
    for group in ("packs", "tools", "commands", "policy"):
        points = importlib_metadata.entry_points(group=f"pegboard.{group}")
        seen = [facts for facts in scanned().values() if getattr(facts, group, facts.claims_policy)]
        assert len({point.dist.name for point in points}) == len(seen)


def test_a_real_editable_install_is_found_and_imported_from_its_source(tmp_path: Path) -> None:
    project, site = tmp_path / "project", tmp_path / "site"
    (project / "src" / "acme_tickets").mkdir(parents=True)
    (project / "src" / "acme_tickets" / "__init__.py").write_text("print('imported')\n\n\nclass Pack: ...\n", "utf-8")
    (project / "pyproject.toml").write_text(EDITABLE, "utf-8")
    build = "import sys, hatchling.build; print(hatchling.build.build_editable(sys.argv[1]))"
    built = subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)], cwd=project, capture_output=True, text=True, check=True
    )
    with zipfile.ZipFile(tmp_path / built.stdout.splitlines()[-1]) as wheel:  # what an installer does with it
        wheel.extractall(site)

    code = "import site, sys; site.addsitedir(sys.argv.pop(1)); import pegboard.__main__ as door; door.main()"
    command = [sys.executable, "-c", code, str(site), "packs", "list", "--load", "--json"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True)

    assert scanned([str(site)]) == expected([str(site)])
    assert only(discover([str(site)])).name == "acme-tickets"
    assert '"name": "tickets",\n  "state": "active"' in loaded.stdout
    assert loaded.stderr == "imported\n"


EDITABLE = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "Acme.Tickets"
version = "2.1"
[project.entry-points."pegboard.packs"]
tickets = "acme_tickets:Pack"
[tool.hatch.build]
dev-mode-dirs = ["src"]
[tool.hatch.build.targets.wheel]
packages = ["src/acme_tickets"]
"""


def test_an_egg_info_folder_beside_the_source_is_found(tmp_path: Path) -> None:
    info = metadata("acme-notes", "1.2", "Summary: Notes", "Requires-Dist: acme-base>=1")
    write(tmp_path / "acme_notes.egg-info", PKG_INFO=info, entry_points=NOTES)

    assert scanned([str(tmp_path)]) == expected([str(tmp_path)])
    assert only(discover([str(tmp_path)])).requires == ("acme-base",)


def test_requirements_that_only_requires_txt_of_an_egg_info_names_are_needed_too(tmp_path: Path) -> None:
    requires = "acme-base>=1\n\n[web]\nacme-web\n\n[:python_version < '3']\nbackport\n"
    write(tmp_path / "acme_notes.egg-info", PKG_INFO=metadata("acme-notes"), entry_points=NOTES, requires=requires)

    assert scanned([str(tmp_path)]) == expected([str(tmp_path)])


def test_an_unpacked_egg_is_found(tmp_path: Path) -> None:
    egg = tmp_path / "acme_notes-1.2-py3.11.egg"
    write(egg / "EGG-INFO", PKG_INFO=metadata("acme-notes", "1.2"), entry_points=NOTES)

    assert scanned([str(egg)]) == expected([str(egg)])
    assert only(discover([str(egg)])).name == "acme-notes"


@pytest.mark.needs("workspace")
def test_folders_on_the_python_path_are_searched_also_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "one" / "acme_notes-1.0.dist-info", METADATA=metadata("acme-notes"), entry_points=NOTES)
    other = NOTES.replace("notes", "tickets")
    write(tmp_path / "two" / "acme_tickets-1.0.dist-info", METADATA=metadata("acme-tickets"), entry_points=other)
    monkeypatch.chdir(tmp_path / "two")
    path = [str(tmp_path / "one"), ""]

    code = "from pegboard.packs.discovery import discover; print(*(found.name for found in discover()))"
    listed = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path[0]},
        capture_output=True,
        text=True,
        check=True,
    )

    assert list(scanned(path)) == ["acme-notes", "acme-tickets"]
    assert scanned(path) == expected(path)
    assert {"acme-notes", "acme-tickets", "pegboard-workspace"} <= set(listed.stdout.split())


def test_of_a_distribution_that_is_twice_on_the_path_the_first_wins(tmp_path: Path) -> None:
    for folder, name, version in (("one", "Acme.Notes", "2.0"), ("two", "acme_notes", "1.0")):
        info = tmp_path / folder / f"{name}-{version}.dist-info"
        write(info, METADATA=metadata(name, version), entry_points=NOTES.replace("note =", f"note{folder} ="))
    path = [str(tmp_path / "one"), str(tmp_path / "two"), str(tmp_path / "one")]

    assert [(found.version, list(found.tools)) for found in discover(path)] == [("2.0", ["noteone"])]
    assert [found.version for found in discover(reversed(path[:2]))] == ["1.0"]
    assert scanned(path) == expected(path)


def test_a_first_copy_without_entry_points_hides_the_second(tmp_path: Path) -> None:
    write(tmp_path / "one" / "notes-2.0.dist-info", METADATA=metadata("notes", "2.0"))
    write(tmp_path / "two" / "notes-1.0.dist-info", METADATA=metadata("notes"), entry_points=NOTES)
    path = [str(tmp_path / "one"), str(tmp_path / "two")]

    assert scanned(path) == expected(path) == {}


def test_what_an_interrupted_uninstall_left_behind_does_not_hide_the_installed_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one" / "notes-0.9.dist-info" / "__pycache__").mkdir(parents=True)
    write(tmp_path / "two" / "notes-1.0.dist-info", METADATA=metadata("notes"), entry_points=NOTES)
    path = [str(tmp_path / "one"), str(tmp_path / "two")]
    monkeypatch.setattr(sys, "path", path)

    assert [point.dist.version for point in importlib_metadata.entry_points(group="pegboard.packs")] == ["1.0"]
    assert [found.version for found in discover(path)] == ["1.0"]


def test_what_is_no_metadata_folder_or_says_nothing_to_pegboard_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "other-1.0.dist-info", METADATA=metadata("other"), entry_points="[console_scripts]\nx = y:z\n")
    write(tmp_path / "none-1.0.dist-info", METADATA=metadata("none"))
    write(tmp_path / "notes", METADATA=metadata("notes"), entry_points=NOTES)
    (tmp_path / "legacy-1.0.egg-info").write_text(metadata("legacy"), "utf-8")

    assert scanned([str(tmp_path)]) == expected([str(tmp_path)]) == {}


@pytest.mark.parametrize(
    "line",
    ["# [pegboard.packs]", "x = acme:run [pegboard.extra]", "[pegboard.packs]", "[pegboard.policy]\n# none"],
)
def test_a_group_that_is_only_mentioned_or_empty_is_no_declaration(tmp_path: Path, line: str) -> None:
    points = f"[console_scripts]\ny = acme:go\n{line}\n"
    write(tmp_path / "acme-1.0.dist-info", METADATA=metadata("acme"), entry_points=points)

    assert scanned([str(tmp_path)]) == expected([str(tmp_path)]) == {}


# -- bad metadata harms nobody else


@pytest.fixture
def beside_notes(tmp_path: Path) -> Path:
    """A folder with one distribution that is in order."""
    write(tmp_path / "notes-1.0.dist-info", METADATA=metadata("notes"), entry_points=NOTES)
    return tmp_path


@pytest.mark.parametrize(
    "files",
    [{}, {"METADATA": b""}, {"METADATA": b"\xff\xfe\x00"}, {"METADATA": "no header at all\n"}],
    ids=["missing", "empty", "not UTF-8", "no headers"],
)
def test_a_distribution_with_broken_metadata_is_named_by_its_folder(beside_notes: Path, files: dict[str, Any]) -> None:
    points = NOTES.replace("notes", "tickets").replace("note =", "ticket =")
    write(beside_notes / "Acme_Tickets-3.0.dist-info", entry_points=points, **files)

    broken, good = discover([str(beside_notes)])

    assert (broken.name, broken.pack) == ("acme-tickets", ("tickets", "tickets.pack:Notes"))
    assert (broken.version, broken.summary, broken.requires, broken.orders_after) == ("", "", (), ())
    assert good.pack == ("notes", "notes.pack:Notes")


def test_entry_points_that_are_not_utf_8_are_reported_by_name_and_others_are_found(beside_notes: Path) -> None:
    points = "[pegboard.packs]\ncafé = café:Pack\n".encode("latin-1")
    write(beside_notes / "Acme_Cafe-1.0.dist-info", METADATA=metadata("Acme-Cafe"), entry_points=points)

    broken, good = discover([str(beside_notes)])

    assert (broken.name, broken.problem) == ("acme-cafe", "its entry_points.txt is not UTF-8")
    assert (good.name, good.problem) == ("notes", None)


def test_headers_end_at_the_blank_line_and_may_be_folded(tmp_path: Path) -> None:
    headers = "Name: notes/version: 1.0/Version: 2.0/Summary: Notes/License: MIT/ Requires-Dist: no//Requires-Dist: no/"
    text = headers.replace("/", "\r\n")
    write(tmp_path / "notes-1.0.dist-info", METADATA=text, entry_points=NOTES.replace("\n", "\r\n"))

    found = only(discover([str(tmp_path)]))

    assert (found.version, found.summary, found.requires) == ("1.0", "Notes", ())
    assert scanned([str(tmp_path)]) == expected([str(tmp_path)])


@settings(deadline=None, max_examples=60)
@given(st.text(st.sampled_from("a:é \t\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=4))
def test_a_summary_with_odd_line_separators_ends_no_header(summary: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = metadata("notes", "1.0", f"Summary: a{summary}z", "Requires-Dist: acme-base")
        write(Path(folder) / "notes-1.0.dist-info", METADATA=text, entry_points=NOTES)

        assert only(discover([folder])).summary == f"a{summary}z"
        assert only(discover([folder])).requires == ("acme-base",)


@pytest.mark.parametrize("entry", ["missing", "file.txt", "loop", "nul\0byte", "x" * 5000])
def test_a_path_entry_that_is_no_folder_is_passed_over(beside_notes: Path, entry: str) -> None:
    (beside_notes / "file.txt").write_text("text", "utf-8")
    (beside_notes / "loop").symlink_to(beside_notes / "loop")
    path = [str(beside_notes / entry), str(beside_notes)]

    assert list(scanned(path)) == ["notes"]
    if "\0" not in entry:  # which importlib-metadata can't stand
        assert scanned(path) == expected(path)


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_a_folder_that_may_not_be_read_is_passed_over(without_rights: Any) -> None:
    with tempfile.TemporaryDirectory() as open_folder:
        Path(open_folder).chmod(0o755)
        write(Path(open_folder) / "notes-1.0.dist-info", METADATA=metadata("notes"), entry_points=NOTES)
        closed = Path(open_folder) / "closed"
        closed.mkdir(mode=0o000)

        with without_rights():
            assert list(scanned([str(closed), open_folder])) == ["notes"]


# -- a distribution has one pack, and its name is plain


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "-rf",
        "x" * 300,
        "p\u0430ck",
        "pa\u200bck",
        "\u202epack",
        "con",
        "nul",
        "Pack",
        "a--b",
        "a_b",
        "1st",
        "",
        "a b",
    ],
    ids=lambda name: ascii(name[:20]),
)
def test_a_hostile_pack_name_is_refused_with_the_distribution_named(beside_notes: Path, name: str) -> None:
    """Security cases 18 and 19."""
    points = f"[pegboard.packs]\n{name} = evil:Pack\n"
    write(beside_notes / "Evil-1.0.dist-info", METADATA=metadata("Evil"), entry_points=points)

    evil, good = discover([str(beside_notes)])

    assert evil.name == "evil"
    assert evil.problem is not None and "no pack name" in evil.problem and len(evil.problem) < 200
    assert (good.name, good.problem) == ("notes", None)


@pytest.mark.parametrize("name", ["a", "notes", "agent-plugins", "s3", "x2-y", "x" * 64, "console"])
def test_a_plain_pack_name_is_accepted(tmp_path: Path, name: str) -> None:
    points = f"[pegboard.packs]\n{name} = good:Pack\n"
    write(tmp_path / "good-1.0.dist-info", METADATA=metadata("good"), entry_points=points)

    assert (found := only(discover([str(tmp_path)]))).problem is None
    assert found.pack == (name, "good:Pack")


@pytest.mark.parametrize(
    ("points", "problem"),
    [
        ("[pegboard.packs]\none = x:A\ntwo = x:B\n", "it declares 2 packs (one, two); a distribution has one"),
        ("[pegboard.tools]\nread = x:A\n", "none in group pegboard.packs"),
    ],
    ids=["two packs", "no pack"],
)
def test_a_distribution_without_exactly_one_pack_is_reported(tmp_path: Path, points: str, problem: str) -> None:
    write(tmp_path / "many-1.0.dist-info", METADATA=metadata("many"), entry_points=points)

    assert problem in str(only(discover([str(tmp_path)])).problem)


# -- and so for whatever lies about


NAMES = st.sampled_from(["acme", "acme-tickets", "Acme.Tickets", "acme_tickets", "ACME--tickets", "notes", "zeta.x"])
ENTRY_NAMES = st.from_regex(r"[A-Za-z0-9_.ёа-я/\- ]{1,10}", fullmatch=True).map(str.strip).filter(bool)
GROUPS = st.sampled_from(
    [
        "pegboard.packs",
        "pegboard.tools",
        "pegboard.commands",
        "pegboard.policy",
        "pegboard.other",
        "console_scripts",
        "x",
    ]
)
REQUIREMENTS = st.sampled_from(
    ["Base", "acme.web>=2", "a_b[c,d] (>=1)", "x ; extra == 'all'", "y>=1; python_version < '4'", "z @ file:///z.zip"]
)
NOISE = st.sampled_from(["", "# [pegboard.tools]", "  ", "#x = y"])


@st.composite
def entry_points(draw: st.DrawFn) -> str:
    """Draw the text of entry_points.txt, untidily written."""
    ending = draw(st.sampled_from(["\n", "\r\n"]))
    lines: list[str] = []
    for group in draw(st.lists(GROUPS, max_size=4, unique=True)):
        lines += [draw(NOISE), f"[{group}]"]
        for name in draw(st.lists(ENTRY_NAMES, min_size=1, max_size=3, unique=True)):
            space = draw(st.sampled_from(["", " ", "  "]))
            lines.append(f"{space}{name}{space}={space}pkg.mod:Obj [x]{space}")
            lines.append(draw(NOISE))
    return ending.join(lines)


@st.composite
def installs(draw: st.DrawFn) -> dict[str, tuple[str, str]]:
    """Draw metadata folders spread over three folders: relative path -> (METADATA or PKG-INFO, entry_points.txt)."""
    folders: dict[str, tuple[str, str]] = {}
    for _ in range(draw(st.integers(0, 6))):
        name, version = draw(NAMES), draw(st.sampled_from(["1.0", "2.0rc1"]))
        stem = re.sub("-+", "_", name)
        info = draw(
            st.sampled_from([f"{stem}-{version}.dist-info", f"{stem}.egg-info", f"{stem}-{version}-py3.11.egg-info"])
        )
        needs = [f"Requires-Dist: {line}" for line in draw(st.lists(REQUIREMENTS, max_size=2))]
        folders[f"{draw(st.integers(0, 2))}/{info}"] = (metadata(name, version, *needs), draw(entry_points()))
    return folders


@settings(deadline=None, max_examples=60)
@given(installs(), st.permutations(["0", "1", "2", "1"]))
def test_for_any_distributions_spread_over_the_path_the_scan_equals_importlib_metadata(
    folders: dict[str, tuple[str, str]], order: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as root:
        for place, (text, points) in folders.items():
            file = {"PKG_INFO" if place.endswith(".egg-info") else "METADATA": text}
            write(Path(root) / place, entry_points=points, **file)
        path = [f"{root}/{folder}" for folder in order]

        assert scanned(path) == expected(path)
