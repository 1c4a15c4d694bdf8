"""What a directory brings counts only after a person looked at it, some of it never (DESIGN §3.5, C.3 12, 22-27)."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from pegboard import Host, PegboardError, narrowing, user_only
from pegboard.base.errors import ConfigError
from pegboard.config.layers import Config
from pegboard.config.places import Places
from pegboard.config.settings import read_settings
from pegboard.host.load_config import load_config
from pegboard.trust.accepted import Trust
from pegboard.trust.project import MAX_FILE_BYTES, read_project
from pegboard.values.project import Project
from pydantic import BaseModel

posix = pytest.mark.skipif(os.name == "nt", reason="POSIX")


class Folder:
    """A repository that an unknown person made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / ".git").mkdir(parents=True)

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file of it."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def read(self) -> Project:
        """Read what it brings."""
        project = read_project(self.path)
        assert project is not None
        return project


@pytest.fixture
def folder(home: Any, tmp_path: Path) -> Folder:
    """An empty repository outside of the home directory."""
    return Folder(tmp_path / "repo")


@pytest.fixture
def places(home: Any) -> Places:
    """The test's own places."""
    return Places.default()


@pytest.fixture
def read(folder: Folder, home: Any) -> Callable[..., Config]:
    """Read a project's settings beside a user's, trusted or not; `policy` is a pack that claims policy."""

    def read_(text: str | bytes, *, user: str = "", trusted: bool = False, **environ: str) -> Config:
        home.config(user)
        folder.write("pegboard.toml", text)
        if trusted:
            Trust(Places.default()).accept(folder.read())
        return load_config(["notes", "policy"], (), environ, project=folder.read(), policy={"policy"})

    return read_


def ignored(config: Config) -> dict[str, str]:
    """Return what has no effect, with the reason."""
    return {problem.key: problem.text for problem in config.ignored}


# -- what a directory brings


def test_a_directory_that_brings_nothing_is_no_project(folder: Folder) -> None:
    assert read_project(folder.path) is None


@pytest.mark.parametrize("name", ["pegboard.toml", "pegboard.lock", ".agents/skills/one/SKILL.md"])
def test_a_project_is_found_from_below_up_to_the_root_of_its_repository(folder: Folder, name: str) -> None:
    folder.write(name, "x = 1")
    (folder.path / "a" / "b").mkdir(parents=True)

    project = read_project(folder.path / "a" / "b")

    assert project and (project.path, dict(project.files)) == (Path(os.path.realpath(folder.path)), {name: b"x = 1"})


def test_nothing_above_the_root_of_the_repository_is_looked_at(folder: Folder) -> None:
    (folder.path.parent / "pegboard.toml").write_text("x = 1")

    assert read_project(folder.path) is None


def test_the_home_directory_and_what_is_above_it_are_never_a_project(home: Any) -> None:
    for place in (home.path, home.path.parent):
        (place / "pegboard.toml").write_text("x = 1")
    (home.path / "work").mkdir()

    assert read_project(home.path) is None
    assert read_project(home.path / "work") is None
    (home.path / "work" / "pegboard.toml").write_text("x = 1")
    assert read_project(home.path / "work") is not None


@posix
def test_links_pipes_and_what_they_lead_to_are_never_read(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    folder.write(".agents/real", "real")
    (folder.path / ".agents" / "file").symlink_to(tmp_path / "secret")
    (folder.path / ".agents" / "folder").symlink_to(tmp_path)
    os.mkfifo(folder.path / ".agents" / "pipe")
    (folder.path / "pegboard.toml").symlink_to(tmp_path / "secret")

    project = folder.read()

    assert dict(project.files) == {".agents/real": b"real"}
    assert dict(project.others) == {
        "pegboard.toml": f"link to {tmp_path / 'secret'}",
        ".agents/file": f"link to {tmp_path / 'secret'}",
        ".agents/folder": f"link to {tmp_path}",
        ".agents/pipe": "pipe",
    }


@posix
def test_case_11_a_file_that_becomes_a_link_while_it_is_read_is_not_followed(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("secret")
    file = folder.write(".agents/x", "x")
    real = os.open

    def swap(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        if path == "x":
            file.unlink()
            file.symlink_to(tmp_path / "secret")
        return real(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", swap)
    project = folder.read()

    assert (dict(project.files), project.hash) == ({}, "")
    assert project.problems and ".agents/x can't be read" in project.problems[0]


CHANGES: dict[str, Callable[[Folder], object]] = {
    "a setting": lambda folder: folder.write("pegboard.toml", "x = 2"),
    "a space": lambda folder: folder.write("pegboard.toml", "x = 1 "),
    "a new file": lambda folder: folder.write(".agents/skills/two/SKILL.md", ""),
    "a file less": lambda folder: (folder.path / ".agents/skills/one/SKILL.md").unlink(),
    "a renamed file": lambda folder: (folder.path / ".agents/skills/one/SKILL.md").rename(folder.path / ".agents/b"),
    "a lock": lambda folder: folder.write("pegboard.lock", ""),
    "a link": lambda folder: (folder.path / ".agents" / "link").symlink_to("x"),
}


@posix
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_any_change_asks_again(folder: Folder, places: Places, change: Callable[[Folder], object]) -> None:
    folder.write("pegboard.toml", "x = 1")
    folder.write(".agents/skills/one/SKILL.md", "one")
    Trust(places).accept(folder.read())
    assert Trust(places).trusts(folder.read())

    change(folder)

    assert not Trust(places).trusts(folder.read())


@posix
def test_a_link_that_leads_elsewhere_now_asks_again(folder: Folder, places: Places) -> None:
    folder.write(".agents/x", "x")
    (folder.path / ".agents" / "link").symlink_to("one")
    Trust(places).accept(folder.read())

    (folder.path / ".agents" / "link").unlink()
    (folder.path / ".agents" / "link").symlink_to("two")

    assert not Trust(places).trusts(folder.read())


def test_moving_bytes_between_two_files_asks_again(folder: Folder, places: Places) -> None:
    folder.write(".agents/a", "12")
    folder.write(".agents/b", "3")
    Trust(places).accept(folder.read())

    folder.write(".agents/a", "1")
    folder.write(".agents/b", "23")

    assert not Trust(places).trusts(folder.read())


def test_case_12_what_was_hashed_is_what_is_parsed(folder: Folder, places: Places) -> None:
    folder.write("pegboard.toml", "[packs.notes]\nlimit = 1\n")
    project = folder.read()
    Trust(places).accept(project)

    folder.write("pegboard.toml", "[packs.notes]\nlimit = 2\n")
    config = load_config(["notes"], (), {}, project=project)

    assert config.trusted and config.table("packs", "notes") == {"limit": 1}
    assert config.project_files() == {"pegboard.toml": b"[packs.notes]\nlimit = 1\n"}


def test_trust_in_one_copy_of_a_repository_is_none_in_another(folder: Folder, places: Places, tmp_path: Path) -> None:
    other = Folder(tmp_path / "copy")
    for copy in (folder, other):
        copy.write("pegboard.toml", "x = 1")
    Trust(places).accept(folder.read())

    assert folder.read().hash == other.read().hash
    assert not Trust(places).trusts(other.read())


def test_trust_can_be_taken_back(folder: Folder, places: Places) -> None:
    folder.write("pegboard.toml", "x = 1")
    trust = Trust(places)
    trust.accept(folder.read())

    assert (trust.revoke(folder.path), trust.revoke(folder.path)) == (True, False)
    assert not trust.trusts(folder.read())


@pytest.mark.parametrize("content", [b"", b"[", b"path = 3", b"\xff"])
def test_a_damaged_record_trusts_nothing_and_can_be_replaced(folder: Folder, places: Places, content: bytes) -> None:
    folder.write("pegboard.toml", "x = 1")
    trust = Trust(places)
    trust.accept(folder.read())
    (record,) = places.trust_dir.iterdir()

    record.write_bytes(content)

    assert not trust.trusts(folder.read())
    assert "+x = 1" in trust.diff(folder.read())
    trust.accept(folder.read())
    assert trust.trusts(folder.read())


def too_large(folder: Folder) -> None:
    """Make settings that are too large to look at."""
    folder.write("pegboard.toml", "#" * (MAX_FILE_BYTES + 1))


def too_many(folder: Folder) -> None:
    """Make one file too many."""
    folder.write(".agents/0", "")
    for number in range(1, 10_001):
        (folder.path / ".agents" / str(number)).touch()


def too_deep(folder: Folder) -> None:
    """Make folders in folders."""
    folder.write(".agents/" + "a/" * 70 + "x", "")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (too_large, "pegboard.toml is larger than 1,048,576 bytes"),
        (too_many, ".agents holds more than 10,000 files and folders"),
        (too_deep, "is nested more than 64 folders deep"),
    ],
)
def test_what_is_too_much_to_look_at_can_never_be_trusted(
    folder: Folder, places: Places, make: Callable[[Folder], None], reason: str
) -> None:
    make(folder)
    project = folder.read()

    with pytest.raises(PegboardError, match="can't be trusted") as refused:
        Trust(places).accept(project)
    assert reason in str(refused.value)
    assert not Trust(places).trusts(project)


# -- the diff


def test_the_diff_shows_new_files_in_full_and_later_only_what_changed(folder: Folder, places: Places) -> None:
    folder.write("pegboard.toml", "a = 1\nb = 2\n")
    trust = Trust(places)

    assert trust.diff(folder.read()).splitlines() == ["--- (not there)", "+++ pegboard.toml", "+a = 1", "+b = 2"]
    trust.accept(folder.read())
    assert trust.diff(folder.read()) == ""
    folder.write("pegboard.toml", "a = 1\nb = 3\n")
    changed = trust.diff(folder.read()).splitlines()
    assert ("-b = 2" in changed, "+b = 3" in changed, "+a = 1" in changed) == (True, True, False)


def test_case_38_and_39_nothing_in_a_diff_acts_on_a_terminal(folder: Folder, places: Places) -> None:
    folder.write("pegboard.toml", "# \x1b[2K\u202e\r\n# trust it? y\u2028x\n")
    folder.write(".agents/a\x1b]0;x", "x")

    shown = Trust(places).diff(folder.read())

    assert not set("\x1b\r\u202e\u2028") & set(shown)
    assert "\\x1b" in shown
    assert all(line[:1] in "+-@ " for line in shown.splitlines())


def test_a_binary_file_is_shown_by_size_and_hash(folder: Folder, places: Places) -> None:
    folder.write(".agents/x.bin", b"\0\1\2")

    last = Trust(places).diff(folder.read()).splitlines()[-1]

    assert last.startswith("+ 3 bytes, sha256 ae4b3280e56e2faf")


def test_a_long_diff_is_cut_says_so_and_shows_the_settings_first(folder: Folder, places: Places) -> None:
    folder.write(".agents/a", "line\n" * 5_000)
    folder.write(".agents/b", "b")
    folder.write("pegboard.toml", "x = 1")

    shown = Trust(places).diff(folder.read()).splitlines()

    assert shown[1:3] == ["+++ pegboard.toml", "+x = 1"]
    assert len(shown) == 2_001
    assert "cut after 2,000 lines, 1 more file not shown" in shown[-1]


# -- before trust: three things, and all else is ignored and told


EVERYTHING = """
[tools]
off = ["read"]
owner = {read = "notes"}
[packs]
default = "off"
[packs.notes]
enabled = false
base_url = "x"
[packs.policy]
enabled = false
mode = "allow-all"
[hooks.order]
observe = ["*"]
[interactions]
front_ends = ["notes"]
[agents.main]
model = "evil"
[agents.main.limits]
steps = 5
seconds = 99999
[agents.mine]
tools = []
[agents.theirs.limits]
steps = 1
[unknown]
x = 1
"""


def test_cases_24_and_25_an_unknown_project_may_switch_tools_off_and_lower_limits_and_nothing_else(
    read: Callable[..., Config],
) -> None:
    config = read(EVERYTHING, user="[agents.mine]\nmodel = 'offline'\n")

    assert config.problems == ()
    assert config.table() == {
        "tools": {"off": ["read"]},
        "agents": {"main": {"limits": {"steps": 5}}, "mine": {"model": "offline"}},
    }
    assert ignored(config) == {
        "tools.owner.read": "never taken from a project",
        "packs.default": "never taken from a project",
        "packs.notes.enabled": "not trusted yet",
        "packs.notes.base_url": "not trusted yet",
        "packs.policy.enabled": "not trusted yet",
        "packs.policy.mode": "not trusted yet",
        "hooks.order.observe": "never taken from a project",
        "interactions.front_ends": "never taken from a project",
        "agents.main.model": "not trusted yet",
        "agents.main.limits.seconds": "not trusted yet; before that a project may only lower it (it is 3600)",
        "agents.mine.tools": "not trusted yet",
        "agents.theirs.limits.steps": "not trusted yet",
        "unknown.x": "not trusted yet",
    }


def test_what_is_ignored_is_told_with_file_and_line(read: Callable[..., Config], folder: Folder) -> None:
    config = read("# x\n[packs.notes]\nenabled = false\n")

    (problem,) = config.ignored
    assert problem.where == f"{os.path.realpath(folder.path / 'pegboard.toml')}:3"


@pytest.mark.parametrize(
    ("user", "line", "steps"),
    [
        ("", "steps = 199", 199),
        ("", "steps = 201", None),
        ("[agents.main.limits]\nsteps = 10", "steps = 9", 9),
        ("[agents.main.limits]\nsteps = 10", "steps = 11", 10),
        ("", "steps = 0", None),
        ("", "steps = -1", None),
        ("", "steps = 5.5", None),
        ("", "steps = true", None),
        ("", "steps = '5'", None),
        ("", "steps = nan", None),
        ("", "steps = -inf", None),
    ],
)
def test_an_unknown_project_only_lowers_a_limit(
    read: Callable[..., Config], user: str, line: str, steps: int | None
) -> None:
    config = read(f"[agents.main.limits]\n{line}\n", user=user)

    found = config.get("agents", "main", "limits", "steps")
    assert (found.value if found else None) == steps


def test_the_user_may_raise_again_what_a_project_lowered(read: Callable[..., Config]) -> None:
    config = read("[agents.main.limits]\nsteps = 5\n", PEGBOARD_AGENTS_MAIN_LIMITS__STEPS="50")

    assert config.table("agents", "main", "limits") == {"steps": 50}


@pytest.mark.parametrize(
    "text", ["[packs", "packs = 3", b"\xff", "[tools]\noff = 'x'\n", "agents.main = 1", "x = " + "[" * 99999]
)
def test_a_malformed_file_of_an_unknown_project_is_told_and_stops_nobody(
    read: Callable[..., Config], text: str | bytes
) -> None:
    config = read(text)

    assert (config.problems, config.unreadable, config.table()) == ((), False, {})
    assert len(config.ignored) == 1


@pytest.mark.parametrize(
    ("text", "unreadable"), [("[packs", True), ("packs = 3", False), ("[tools]\noff = 'x'\n", False), (b"\xff", True)]
)
def test_a_malformed_file_of_a_trusted_project_is_a_problem_like_ones_own(
    read: Callable[..., Config], text: str | bytes, unreadable: bool
) -> None:
    config = read(text, trusted=True)

    assert len(config.problems) == 1
    assert (config.unreadable, config.ignored) == (unreadable, ())


def test_what_lies_beside_the_settings_is_told_by_folder_and_given_to_nobody(
    read: Callable[..., Config], folder: Folder
) -> None:
    folder.write("pegboard.lock", "")
    folder.write(".agents/skills/one/SKILL.md", "")
    folder.write(".agents/skills/two/SKILL.md", "")
    folder.write(".agents/skills/two/run.sh", "")

    config = read("")

    assert {Path(problem.where).name: problem.text for problem in config.ignored} == {
        "pegboard.lock": "pins packs, not trusted yet",
        "skills": "3 files in 2 folders, not trusted yet",
    }
    assert config.project_files() == {}


def test_case_26_no_variable_is_read_from_a_file_of_the_workspace(folder: Folder, home: Any) -> None:
    folder.write(".env", "PEGBOARD_PACKS_DEFAULT=off\nOPENAI_API_KEY=x\n")
    folder.write("pegboard.toml", "")

    Host.open(distributions=(), directory=folder.path)

    assert "PEGBOARD_PACKS_DEFAULT" not in os.environ and "OPENAI_API_KEY" not in os.environ


def test_without_a_directory_no_project_is_read(open_host: Callable[..., Host], folder: Folder) -> None:
    folder.write("pegboard.toml", "[tools]\noff = ['read']\n")

    assert open_host().config.project is None
    assert list(open_host(directory=folder.path).config.tools_off()) == ["read"]


def test_case_23_nothing_of_an_unknown_project_is_imported_or_started(
    open_host: Callable[..., Host], pack_folder: Any, folder: Folder
) -> None:
    pack_folder.add("notes", "raise RuntimeError('imported')")
    folder.write("pegboard.toml", "[packs.notes]\nenabled = true\n")

    host = open_host("[packs.notes]\nenabled = false\n", directory=folder.path)

    assert [pack.state for pack in host.packs] == ["disabled"]


# -- once trusted


def test_a_trusted_project_is_a_layer_above_the_users_and_below_the_environment(read: Callable[..., Config]) -> None:
    config = read(
        "[packs.notes]\nenabled = false\na = 2\nb = 2\n[agents.review]\n",
        user="[packs.notes]\na = 1\nb = 1\nc = 1\n",
        trusted=True,
        PEGBOARD_PACKS_NOTES_B="3",
        PEGBOARD_AGENTS_REVIEW_MODEL="x",
    )

    assert (config.problems, config.ignored) == ((), ())
    assert config.table("packs", "notes") == {"enabled": False, "a": 2, "b": 3, "c": 1}
    assert config.table("agents") == {"review": {"model": "x"}}


def test_cases_22_and_24_even_a_trusted_project_touches_no_policy_and_nothing_that_is_for_the_user(
    read: Callable[..., Config],
) -> None:
    text = EVERYTHING.replace("[unknown]\nx = 1\n", "") + "[packs.policy.sub]\nx = 1\n"

    config = read(text, trusted=True)

    assert config.problems == ()
    assert sorted(ignored(config)) == [
        "hooks.order.observe",
        "interactions.front_ends",
        "packs.default",
        "packs.policy.enabled",
        "packs.policy.mode",
        "packs.policy.sub.x",
        "tools.owner.read",
    ]
    assert set(ignored(config).values()) == {"never taken from a project"}
    assert config.table("packs") == {"notes": {"enabled": False, "base_url": "x"}}
    assert config.table("agents", "main") == {"model": "evil", "limits": {"steps": 5, "seconds": 99999}}


@pytest.mark.parametrize("line", ["enabled = false", "required = false"])
def test_a_trusted_project_cannot_do_away_with_a_required_policy_pack(
    open_host: Callable[..., Host], pack_folder: Any, folder: Folder, places: Places, line: str
) -> None:
    pack_folder.add("policy", "raise ImportError('broken')", policy=True)
    folder.write("pegboard.toml", f"[packs.policy]\n{line}\n")
    Trust(places).accept(folder.read())

    with pytest.raises(PegboardError, match=r"`policy` is failed .* but required: it claims policy"):
        open_host(directory=folder.path)


# -- settings that only narrow, and settings that only the user has


class Sub(BaseModel):
    """A nested table."""

    ask: Annotated[list[str], narrowing] = []
    mode: str = "loose"


class Rules(BaseModel):
    """The settings of a policy pack."""

    deny: Annotated[list[str], narrowing] = ["built-in"]
    allow: list[str] = []
    key: Annotated[str, user_only] = ""
    sub: Sub = Sub(mode="strict")
    profiles: dict[str, Sub] = {}
    off: Sub | None = None
    servers: dict[str, "Server"] = {}
    routes: list["Server"] = []


class Server(BaseModel):
    """Something that is reached under a URL."""

    name: str = ""
    url: Annotated[str | None, user_only] = None


Rules.model_rebuild()


def rules(config: Config, pack: str = "notes") -> Rules:
    """Return the settings that a pack would get."""
    settings, wrong = read_settings(config, ("packs", pack), Rules)
    assert settings is not None, wrong
    return settings


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("pack", ["notes", "policy"])
def test_narrowing_lists_add_up_over_all_layers(read: Callable[..., Config], pack: str, trusted: bool) -> None:
    config = read(
        f"[packs.{pack}]\ndeny = ['b', 'a']\n",
        user=f"[packs.{pack}]\ndeny = ['a']\n",
        trusted=trusted,
        **{f"PEGBOARD_PACKS_{pack.upper()}_DENY": "c, a"},
    )

    assert rules(config, pack).deny == ["a", "b", "c"]
    assert config.ignored == ()


@pytest.mark.parametrize("trusted", [False, True])
def test_a_project_never_takes_the_place_of_a_packs_own_rules(read: Callable[..., Config], trusted: bool) -> None:
    assert rules(read("[packs.policy]\ndeny = ['x']\n", trusted=trusted), "policy").deny == ["built-in", "x"]
    assert rules(read("", user="[packs.policy]\ndeny = ['x']\n", trusted=trusted), "policy").deny == ["x"]


def test_an_unknown_project_sets_nothing_but_what_narrows(read: Callable[..., Config]) -> None:
    config = read("[packs.notes]\ndeny = ['x']\nallow = ['y']\nkey = 'k'\nsub.ask = ['z']\nsub.mode = 'loose'\n")

    found = rules(config)

    assert (found.deny, found.allow, found.key, found.sub) == (["built-in", "x"], [], "", Sub(ask=["z"], mode="strict"))
    assert sorted(ignored(config)) == ["packs.notes.allow", "packs.notes.key", "packs.notes.sub.mode"]


def test_a_project_brings_nothing_into_being_that_the_user_does_not_have(read: Callable[..., Config]) -> None:
    config = read("[packs.notes]\noff.ask = ['x']\nprofiles.new.ask = ['y']\n")

    found = rules(config)

    assert (found.off, found.profiles) == (None, {})
    told = "not taken: has no place in the settings that are in use"
    assert ignored(config) == {"packs.notes.off.ask": told, "packs.notes.profiles.new.ask": told}


def test_a_project_narrows_a_table_that_the_user_named(read: Callable[..., Config]) -> None:
    config = read("[packs.notes.profiles.mine]\nask = ['x']\n", user="[packs.notes.profiles.mine]\nmode = 'm'\n")

    assert rules(config).profiles == {"mine": Sub(ask=["x"], mode="m")}


@pytest.mark.parametrize("line", ["deny = [1]", "deny = 'x'", "deny = {a = 1}", "deny = [['x']]"])
def test_a_bad_rule_of_an_unknown_project_is_told_and_stops_nobody(read: Callable[..., Config], line: str) -> None:
    config = read(f"[packs.policy]\n{line}\n")

    assert rules(config, "policy").deny == ["built-in"]
    assert len(config.ignored) == 1


def test_a_bad_rule_of_a_trusted_project_is_a_problem_with_its_line(
    read: Callable[..., Config], folder: Folder
) -> None:
    config = read("\n[packs.policy]\ndeny = [1]\n", trusted=True)

    settings, (problem,) = read_settings(config, ("packs", "policy"), Rules)

    assert settings is None
    assert problem.where == f"{os.path.realpath(folder.path / 'pegboard.toml')}:3"


def test_case_25_keys_and_endpoints_come_from_the_user_alone_wherever_they_stand(read: Callable[..., Config]) -> None:
    config = read(
        "[packs.notes]\nkey = 'theirs'\nroutes = [{name = 'r', url = 'evil'}]\n[packs.notes.servers]\n"
        "mine.url = 'evil'\nother = {name = 'o', url = 'evil'}\n",
        user="[packs.notes]\nkey = 'mine'\nservers.mine.url = 'good'\n",
        trusted=True,
    )

    found = rules(config)

    assert (found.key, found.routes) == ("mine", [Server(name="r")])
    assert found.servers == {"mine": Server(url="good"), "other": Server(name="o")}
    assert set(ignored(config)) == {
        "packs.notes.key",
        "packs.notes.routes",
        "packs.notes.servers.mine.url",
        "packs.notes.servers.other.url",
    }


PACK = """
from typing import Annotated
from pegboard import hookimpl, narrowing, tool, user_only
from pydantic import BaseModel

class Settings(BaseModel):
    deny: Annotated[list[str], narrowing] = []
    key: Annotated[str, user_only] = "mine"

class Pack:
    def __init__(self, settings: Settings):
        self.settings = settings

    @hookimpl
    def register_tools(self):
        @tool(effect="read")
        def rules() -> str:
            "Say them."
            return repr(self.settings)
        return [rules]
"""


def test_a_pack_gets_what_narrows_and_the_host_says_what_it_did_not_get(
    open_host: Callable[..., Host], pack_folder: Any, folder: Folder
) -> None:
    pack_folder.add("house", PACK, policy=True)
    folder.write("pegboard.toml", "[packs.house]\ndeny = ['x']\nkey = 'theirs'\nenabled = false\n")

    host = open_host("[packs.house]\ndeny = ['a']\n", directory=folder.path)

    body: Any = host.snapshot().offered[0].tool.body
    assert body.__closure__[0].cell_contents.settings.deny == ["a", "x"]
    assert sorted(ignored(host.config)) == ["packs.house.enabled", "packs.house.key"]


def test_a_mistake_in_a_trusted_project_stops_the_host(
    open_host: Callable[..., Host], folder: Folder, places: Places
) -> None:
    folder.write("pegboard.toml", "[tols]\n")
    Trust(places).accept(folder.read())

    with pytest.raises(ConfigError, match="no such table; did you mean `tools`"):
        open_host(directory=folder.path)
