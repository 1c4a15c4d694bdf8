"""What Pegboard itself remembers: written whole, one at a time, through no link; consents bound to what was shown."""

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pegboard import Consents, UsageError
from pegboard.base.files import PrivateFileError
from pegboard.config.places import Places
from pegboard.host.load_config import load_config
from pegboard.trust.state import State

posix = pytest.mark.skipif(os.name == "nt", reason="POSIX")


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Places that do not exist yet."""
    return Places(tmp_path / "mine" / "config.toml", tmp_path / "state" / "pegboard")


@pytest.fixture
def state(places: Places) -> State:
    """A state in which nothing is remembered yet."""
    return State(places)


def test_nothing_is_remembered_and_nothing_made_before_something_is_set(state: State, places: Places) -> None:
    assert state.read() == ({}, "")
    assert not places.state_dir.exists()


def test_what_is_set_is_remembered_and_what_is_removed_is_gone_with_its_empty_tables(state: State) -> None:
    state.set(("packs", "notes", "enabled"), False)
    state.set(("packs", "other", "enabled"), True)

    assert state.get("packs", "notes", "enabled") is False
    assert state.remove(("packs", "notes", "enabled")) is True
    assert state.read()[0] == {"packs": {"other": {"enabled": True}}}
    assert state.remove(("packs", "notes", "enabled")) is False


def test_what_is_remembered_is_a_layer_above_the_users_file(state: State, places: Places) -> None:
    places.config_file.parent.mkdir()
    places.config_file.write_text("[packs.notes]\nenabled = true\nlimit = 1\n")
    state.set(("packs", "notes", "enabled"), False)

    config = load_config(["notes"], (), {}, places=places)

    decided = config.get("packs", "notes", "enabled")
    assert decided and (decided.value, decided.layer.kind) == (False, "user state")
    assert decided.where.startswith(f"{places.state_file}:")
    assert load_config(["notes"], (), {"PEGBOARD_PACKS_NOTES_ENABLED": "true"}, places=places).table("packs") == {
        "notes": {"enabled": True, "limit": 1}
    }


@posix
def test_only_its_owner_can_read_it(state: State, places: Places) -> None:
    places.state_dir.mkdir(parents=True, mode=0o755)

    state.set(("a",), 1)

    assert stat.S_IMODE(places.state_dir.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in places.state_dir.iterdir()} == {0o600}


def test_two_processes_that_write_at_once_lose_nothing(places: Places) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom pegboard import Places\nfrom pegboard.trust.state import State\n"
        "state = State(Places(Path('x'), Path(sys.argv[1])))\n"
        "for number in range(25):\n    state.set((sys.argv[2], str(number)), number)\n"
    )
    command = [sys.executable, "-c", code, str(places.state_dir)]

    writers = [subprocess.Popen([*command, f"writer{number}"]) for number in range(3)]

    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    data = State(places).read()[0]
    assert {name: len(table) for name, table in data.items()} == {"writer0": 25, "writer1": 25, "writer2": 25}


@posix
@pytest.mark.parametrize("link", ["folder", "file", "lock"])
def test_a_link_is_neither_read_nor_written_through(state: State, places: Places, tmp_path: Path, link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "state.toml").write_text("[packs.notes]\nenabled = false\n")
    if link == "folder":
        places.state_dir.parent.mkdir()
        places.state_dir.symlink_to(elsewhere)
    else:
        places.state_dir.mkdir(parents=True)
        target = places.state_file if link == "file" else places.state_dir / "state.lock"
        target.symlink_to(elsewhere / "state.toml")

    with pytest.raises(PrivateFileError, match="is a link"):
        state.set(("packs", "notes", "enabled"), True)
    assert (elsewhere / "state.toml").read_text() == "[packs.notes]\nenabled = false\n"
    problems = load_config([], (), {}, places=places).problems
    assert len(problems) == (link != "lock") and all("is a link" in problem.text for problem in problems)


@posix
def test_a_pipe_in_place_of_the_state_is_one_problem_and_nobody_waits_for_it(state: State, places: Places) -> None:
    places.state_dir.mkdir(parents=True)
    os.mkfifo(places.state_file)

    (problem,) = load_config([], (), {}, places=places).problems

    assert str(problem) == f"{places.state_file}  can't be read: it is no plain file; move it away"


@pytest.mark.parametrize("content", [b"[packs\n", b"\xff", b"x = " + b"[" * 100_000], ids=["cut off", "bytes", "deep"])
def test_a_damaged_state_is_one_clear_problem_and_is_never_overwritten(
    state: State, places: Places, content: bytes
) -> None:
    places.state_dir.mkdir(parents=True)
    places.state_file.write_bytes(content)

    config = load_config([], (), {}, places=places)

    (problem,) = config.problems
    assert config.unreadable
    assert problem.where == str(places.state_file)
    assert problem.text.startswith("is damaged (") and "move it away" in problem.text
    with pytest.raises(PrivateFileError, match="is damaged"):
        state.set(("packs", "notes", "enabled"), True)
    assert places.state_file.read_bytes() == content


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_when_the_disk_is_full_the_old_state_stays_and_nothing_else_is_left(
    state: State, places: Places, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    state.set(("a",), 1)
    before = sorted(places.state_dir.iterdir())

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if call == "write":
        monkeypatch.setattr("tempfile.mkstemp", full)
    else:
        monkeypatch.setattr(os, call, full)

    with pytest.raises(PrivateFileError) as failed:
        state.set(("a",), 2)

    assert str(failed.value) == f"{places.state_file} can't be written: No space left on device; it is as it was before"
    assert state.get("a") == 1
    assert sorted(places.state_dir.iterdir()) == before


@posix
def test_a_folder_that_may_not_be_written_is_told_in_one_line(
    state: State, places: Places, tmp_path: Path, without_rights: Any
) -> None:
    tmp_path.chmod(0o500)

    with without_rights(), pytest.raises(PrivateFileError) as failed:
        state.set(("a",), 1)

    tmp_path.chmod(0o700)
    assert "Permission denied" in str(failed.value) and len(str(failed.value).splitlines()) == 1


def test_what_toml_cannot_hold_is_refused_and_nothing_is_lost(state: State) -> None:
    state.set(("a",), 1)

    for value in (object(), None, "\ud800"):
        with pytest.raises(UsageError, match="can't be kept"):
            state.set(("b",), value)

    with pytest.raises(UsageError, match="`a` is no table"):
        state.set(("a", "b"), 1)
    assert state.read()[0] == {"a": 1}


# -- consents


@pytest.fixture
def consents(places: Places) -> Callable[[Path | None], Consents]:
    """Open the consents for a project."""
    return lambda project=None: Consents(places, project)


def test_case_27_a_consent_holds_for_the_hash_that_was_shown_and_a_change_asks_again(
    consents: Callable[..., Consents], tmp_path: Path
) -> None:
    given = consents(tmp_path)
    given.give("mcp:files", "aa11")

    assert given.given("mcp:files", "aa11")
    assert not given.given("mcp:files", "bb22")
    assert not given.given("mcp:other", "aa11")
    given.give("mcp:files", "bb22")
    assert not given.given("mcp:files", "aa11")


def test_a_consent_is_bound_to_the_project_and_the_users_own_is_another(
    consents: Callable[..., Consents], tmp_path: Path
) -> None:
    (tmp_path / "one").mkdir()
    consents(tmp_path / "one").give("mcp:files", "aa11")

    assert not consents(tmp_path / "two").given("mcp:files", "aa11")
    assert not consents(None).given("mcp:files", "aa11")


@posix
def test_a_consent_is_found_by_whatever_way_leads_to_the_project(
    consents: Callable[..., Consents], tmp_path: Path
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "way").symlink_to(tmp_path / "one")

    consents(tmp_path / "way").give("mcp:files", "aa11")

    assert consents(tmp_path / "one").given("mcp:files", "aa11")


def test_a_consent_can_be_listed_and_taken_back(consents: Callable[..., Consents], tmp_path: Path) -> None:
    given = consents(tmp_path)
    given.give("b", "22")
    given.give("a", "11")

    assert [(one.subject, one.hash) for one in given.list()] == [("a", "11"), ("b", "22")]
    assert (given.revoke("a"), given.revoke("a")) == (True, False)
    assert [one.subject for one in given.list()] == ["b"]


@pytest.mark.parametrize(("subject", "hash"), [("", "11"), ("a", "")])
def test_an_empty_consent_is_refused_and_never_given(
    consents: Callable[..., Consents], subject: str, hash: str
) -> None:
    with pytest.raises(UsageError, match="a consent needs a subject and a hash"):
        consents(None).give(subject, hash)
    assert not consents(None).given(subject, hash)


def test_consents_are_no_settings(consents: Callable[..., Consents], places: Places) -> None:
    consents(None).give("a", "11")

    config = load_config([], (), {}, places=places)

    assert (config.problems, config.table()) == ((), {})


@posix
@pytest.mark.parametrize("name", [b"caf\xe9", b'a"b\nc', b"\xff"], ids=["Latin-1", "quotes", "no text"])
def test_a_project_whose_path_is_no_text_can_be_consented_to(places: Places, tmp_path: Path, name: bytes) -> None:
    project = tmp_path / os.fsdecode(name)
    project.mkdir()

    Consents(places, project).give("a", "11")

    assert Consents(places, project).given("a", "11")
    assert not Consents(places, tmp_path).given("a", "11")
