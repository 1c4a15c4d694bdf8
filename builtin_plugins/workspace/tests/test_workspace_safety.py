"""File tools stay inside the session's directory, whatever paths, links and swaps they meet (C.3 cases 10, 11)."""

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pegboard import CancelSignal, ProcessSpec, ToolContext, ToolError, ToolResult
from pegboard.process.processes import Processes
from pegboard_workspace.places import locate, read_bytes
from pegboard_workspace.search import search

Call = Callable[..., ToolResult]

TOOLS = [
    ("read", {}),
    ("glob", {"pattern": "*"}),
    ("grep", {"pattern": "secret"}),
    ("write", {"content": "broken in"}),
    ("edit", {"edits": [{"old": "secret", "new": "broken in"}]}),
]
by_each_tool = pytest.mark.parametrize(("name", "arguments"), TOOLS, ids=[name for name, _ in TOOLS])


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the project, with a secret in it; its name starts like the project's."""
    made = tmp_path / "project-outside"
    made.mkdir()
    (made / "secret.txt").write_text("secret\n")
    return made


def assert_refused(result: ToolResult, outside: Path) -> None:
    """Nothing of the outside was told or changed."""
    assert result.status == "error"
    assert "outside the session's directory" in result.content
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "secret\n"


@by_each_tool
@pytest.mark.parametrize(
    "path",
    [
        "../project-outside/secret.txt",
        "..",
        "../",
        "sub/../../project-outside/secret.txt",
        "nowhere/../../project-outside/secret.txt",
        "./.././project-outside/secret.txt",
        "//project-outside",
        "/",
    ],
)
def test_dots_do_not_lead_outside(
    call: Call, project: Path, outside: Path, name: str, arguments: dict[str, Any], path: str
) -> None:
    (project / "sub").mkdir()

    assert_refused(call(name, allow_writes=True, path=path, **arguments), outside)


@by_each_tool
def test_an_absolute_path_outside_is_refused_also_beside_a_name_that_starts_alike(
    call: Call, outside: Path, name: str, arguments: dict[str, Any]
) -> None:
    assert_refused(call(name, allow_writes=True, path=str(outside / "secret.txt"), **arguments), outside)


def test_an_absolute_path_inside_is_as_good_as_a_relative_one(call: Call, project: Path) -> None:
    (project / "a.txt").write_text("x\n")

    results = [call("read", path=path) for path in (str(project / "a.txt"), "a.txt", "sub/../a.txt", "./a.txt")]

    assert {result.content for result in results} == {"a.txt, lines 1-1 of 1\n     1\tx"}


@by_each_tool
@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("link.txt", "../project-outside/secret.txt", "link.txt"),
        ("folder", "../project-outside", "folder/secret.txt"),
        ("folder", "../project-outside", "folder"),
        ("dangling", "../project-outside/new.txt", "dangling"),
        ("up", "..", "up/project-outside/secret.txt"),
        ("up", "..", "up/project/../project-outside/secret.txt"),
    ],
    ids=["file", "folder", "the folder itself", "dangling", "parent", "parent and back"],
)
def test_a_link_does_not_lead_outside(
    call: Call, project: Path, outside: Path, name: str, arguments: dict[str, Any], link: str, target: str, path: str
) -> None:
    """Cases 3 and 10: symbolic links are resolved, what is outside is refused."""
    (project / link).symlink_to(target)

    assert_refused(call(name, allow_writes=True, path=path, **arguments), outside)


@by_each_tool
def test_a_chain_of_links_does_not_lead_outside(
    call: Call, project: Path, outside: Path, name: str, arguments: dict[str, Any]
) -> None:
    (project / "a").mkdir()
    (project / "first").symlink_to("a/second")
    (project / "a/second").symlink_to("../third")
    (project / "third").symlink_to(outside / "secret.txt")

    assert_refused(call(name, allow_writes=True, path="first", **arguments), outside)


@by_each_tool
def test_a_loop_of_links_is_an_error(call: Call, project: Path, name: str, arguments: dict[str, Any]) -> None:
    (project / "a").symlink_to("b")
    (project / "b").symlink_to("a")

    result = call(name, allow_writes=True, path="a", **arguments)

    assert result.status == "error"
    assert "Errno" not in result.content
    assert (project / "a").is_symlink()


def test_a_dangling_link_inside_is_written_at_its_target(call: Call, project: Path) -> None:
    (project / "link").symlink_to("sub/real.txt")

    result = call("write", allow_writes=True, path="link", content="x")

    assert result.content.startswith("created sub/real.txt")
    assert (project / "sub/real.txt").read_text() == "x"


def test_searches_neither_follow_links_outside_nor_into_loops(
    call: Call, project: Path, outside: Path, engine: str
) -> None:
    (project / "folder").symlink_to(outside)
    (project / "file.txt").symlink_to(outside / "secret.txt")
    (project / "again").symlink_to(project)
    (project / "own.txt").write_text("no secret\n")

    listed, found = call("glob", pattern="*"), call("grep", pattern="secret")

    assert listed.content == "own.txt"
    assert found.content == "own.txt:1: no secret"


@pytest.mark.parametrize("path", ["a.txt", "sub/a.txt", "sub/deep/a.txt"])
def test_a_file_that_became_a_link_after_the_check_is_not_read(project: Path, outside: Path, path: str) -> None:
    """Case 11: replaced between check and open."""
    (project / path).parent.mkdir(parents=True, exist_ok=True)
    (project / path).write_text("mine")
    place = locate(project, path)
    (project / path).unlink()
    (project / path).symlink_to(outside / "secret.txt")

    with pytest.raises(ToolError):
        read_bytes(place)


@contextmanager
def context_of_a_call(directory: Path) -> Iterator[ToolContext]:
    """What a body in a worker thread has: an event loop elsewhere, and processes that are started there."""

    async def as_it_is(spec: ProcessSpec) -> ProcessSpec:
        return spec

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield ToolContext(
            directory,
            "session",
            CancelSignal(),
            spawn=Processes(as_it_is).spawn,
            wait=lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(),
        )
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.mark.parametrize("swapped", ["sub", "sub/deep"])
def test_a_folder_that_became_a_link_after_the_check_is_not_entered(project: Path, outside: Path, swapped: str) -> None:
    """Case 11, one level up."""
    (project / "sub/deep").mkdir(parents=True)
    (project / "sub/deep/secret.txt").write_text("mine")
    (outside / "deep").mkdir()
    shutil.copy(outside / "secret.txt", outside / "deep")
    place = locate(project, "sub/deep/secret.txt")
    shutil.rmtree(project / swapped)
    (project / swapped).symlink_to(outside)

    with pytest.raises(ToolError):
        read_bytes(place)


@pytest.mark.parametrize("swapped", ["a.txt", "sub"])
def test_a_file_that_became_a_link_after_it_was_listed_is_not_searched(
    project: Path, outside: Path, engine: str, swapped: str
) -> None:
    """Case 11 for `grep`: ripgrep itself would follow the link."""
    (outside / "a.txt").write_text("secret\n")
    (project / "sub").mkdir()
    for name in ("a.txt", "sub/a.txt"):
        (project / name).write_text("my secret\n")
    place = locate(project, ".")
    os.rename(project / swapped, project / "moved")
    (project / swapped).symlink_to(outside / "a.txt" if swapped == "a.txt" else outside)

    with context_of_a_call(project) as ctx:
        hits = search(place, ["a.txt", "sub/a.txt"], "secret", False, ctx).hits

    assert [hit.text for hit in hits] == ["my secret"]


@pytest.mark.parametrize(("name", "arguments"), TOOLS[3:], ids=["write", "edit"])
@pytest.mark.parametrize("swapped", ["sub", "sub/a.txt"])
def test_what_became_a_link_while_it_was_written_leads_nowhere(
    call: Call,
    project: Path,
    outside: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    arguments: dict[str, Any],
    swapped: str,
) -> None:
    """Case 11 for writes: the swap happens while the new content goes to disk."""
    (project / "sub").mkdir()
    (project / "sub/a.txt").write_text("secret\n")
    (outside / "a.txt").write_text("secret\n")
    really_sync = os.fsync

    def sync_after_the_swap(descriptor: int) -> None:
        os.rename(project / swapped, project / "moved")
        (project / swapped).symlink_to(outside if swapped == "sub" else outside / "a.txt")
        really_sync(descriptor)

    monkeypatch.setattr(os, "fsync", sync_after_the_swap)
    call(name, allow_writes=True, path="sub/a.txt", **arguments)

    assert sorted(path.name for path in outside.iterdir()) == ["a.txt", "secret.txt"]
    assert (outside / "a.txt").read_text() == "secret\n"
    assert not [path for path in project.rglob("*.tmp") if not path.is_symlink()]


def test_the_session_directory_may_itself_be_reached_through_a_link(
    call: Call, tmp_path: Path, project: Path, outside: Path
) -> None:
    (tmp_path / "link").symlink_to(project)
    (project / "a.txt").write_text("x\n")

    inside = tmp_path / "link"
    relative, absolute = (call("read", inside=inside, path=path) for path in ("a.txt", str(inside / "a.txt")))
    away = call("read", inside=inside, path="../project-outside/secret.txt")

    assert relative.content == absolute.content == "a.txt, lines 1-1 of 1\n     1\tx"
    assert_refused(away, outside)


def test_the_top_of_the_file_system_can_be_a_session_directory(call: Call, outside: Path) -> None:
    result = call("read", inside=Path(outside.anchor), path=str(outside / "secret.txt"))

    assert result.content.endswith("     1\tsecret")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize("name", [".gitignore", ".ignore"])
def test_ignore_rules_are_not_read_from_a_pipe(call: Call, project: Path, name: str) -> None:
    """A pipe that nobody writes to would be waited for; here somebody writes a rule that hides everything."""
    os.mkfifo(project / name)
    (project / "a.txt").write_text("x")
    pipe = os.open(project / name, os.O_RDWR | os.O_NONBLOCK)
    os.write(pipe, b"*\n")
    ender = _close_when_read(pipe)

    result = call("glob", pattern="*")

    ender()
    assert result.content == "a.txt"


def _close_when_read(pipe: int) -> Callable[[], None]:
    """Close our end in half a second, so that a reader of the pipe comes to its end."""
    timer = threading.Timer(0.5, os.close, [pipe])
    timer.start()
    return timer.join


def test_ignore_rules_are_not_read_through_a_link_outside(call: Call, project: Path, outside: Path) -> None:
    """git does not follow a link that is named .gitignore either."""
    (outside / "rules").write_text("a.txt\n")
    (project / ".gitignore").symlink_to(outside / "rules")
    (project / "a.txt").write_text("x")

    assert call("glob", pattern="*").content == "a.txt"


@pytest.mark.skipif(os.name == "nt", reason="permissions are different on Windows")
def test_a_folder_without_permission_is_searched_around(
    call: Call, public_folder: Path, without_rights: Callable[[], AbstractContextManager[None]], engine: str
) -> None:
    (public_folder / "closed").mkdir()
    (public_folder / "closed/a.txt").write_text("secret")
    (public_folder / "closed").chmod(0)
    (public_folder / "closed.txt").write_text("secret")
    (public_folder / "closed.txt").chmod(0)
    (public_folder / "open.txt").write_text("my secret")
    call("read", inside=public_folder, path="open.txt")

    with without_rights():
        result = call("grep", inside=public_folder, pattern="secret")

    assert result.content == "open.txt:1: my secret\n(1 folder could not be read)"
