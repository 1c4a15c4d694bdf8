"""`write` and `edit`: all or nothing, nothing else changed, and shown as a diff."""

import codecs
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pegboard import ToolResult

Call = Callable[..., ToolResult]
EFFECTS = [("write", {"content": "new\n"}), ("edit", {"edits": [{"old": "old", "new": "new"}]})]


@pytest.fixture
def change(call: Call) -> Call:
    """Edit `path` with pairs of old and new text."""

    def change_(path: str, *pairs: tuple[str, str], **options: Any) -> ToolResult:
        edits = [{"old": old, "new": new} for old, new in pairs]
        return call("edit", allow_writes=True, path=path, edits=edits, **options)

    return change_


@pytest.fixture(autouse=True)
def nothing_left_over(project: Path) -> Iterator[None]:
    """Whatever a test does: no temporary file remains in the project."""
    yield
    assert not [path for path in project.rglob("*") if path.name.startswith(".") or ".tmp" in path.name]


# -- write


def test_write_makes_a_file_and_its_folders(call: Call, project: Path) -> None:
    result = call("write", allow_writes=True, path="src/deep/a.txt", content="one\ntwo\n")

    assert (project / "src/deep/a.txt").read_bytes() == b"one\ntwo\n"
    assert result.content.startswith("created src/deep/a.txt (+2 -0)")
    assert result.summary == "new, +2 -0"


def test_write_replaces_a_file_and_shows_what_changed(call: Call, project: Path) -> None:
    (project / "a.txt").write_text("same\nold\nend\n")

    result = call("write", allow_writes=True, path="a.txt", content="same\nnew\nend\n")

    assert (project / "a.txt").read_text() == "same\nnew\nend\n"
    assert result.content.split("\n") == ["changed a.txt (+1 -1)", "@@ -1,3 +1,3 @@", " same", "-old", "+new", " end"]


@pytest.mark.parametrize(
    "content", ["", "no final newline", "a\r\nb\r\n", "a\rb", "\ufeffmarked", "中 𝄞 \u2028 \x0c\n", "\0"]
)
def test_write_writes_exactly_what_it_is_given(call: Call, project: Path, content: str) -> None:
    result = call("write", allow_writes=True, path="a.txt", content=content)

    assert result.status == "ok"
    assert (project / "a.txt").read_bytes() == content.encode()


def test_write_replaces_an_empty_and_a_binary_file(call: Call, project: Path) -> None:
    (project / "empty").write_bytes(b"")
    (project / "binary").write_bytes(b"\0\1\2")

    results = [call("write", allow_writes=True, path=path, content="x\n") for path in ("empty", "binary")]

    assert [result.summary for result in results] == ["+1 -0", "+1 -0"]
    assert (project / "binary").read_bytes() == b"x\n"


@pytest.mark.parametrize("path", ["folder", ".", "folder/"])
def test_write_does_not_replace_a_folder(call: Call, project: Path, path: str) -> None:
    (project / "folder").mkdir()

    result = call("write", allow_writes=True, path=path, content="x")

    assert result.status == "error"
    assert "is a folder" in result.content


def test_write_through_a_file_as_if_it_were_a_folder_is_refused(call: Call, project: Path) -> None:
    (project / "a.txt").write_text("kept")

    result = call("write", allow_writes=True, path="a.txt/b.txt", content="x")

    assert result.status == "error"
    assert (project / "a.txt").read_text() == "kept"


def test_write_over_ten_megabytes_is_refused_and_makes_nothing(call: Call, project: Path) -> None:
    result = call("write", allow_writes=True, path="sub/a.txt", content="é" * 5_000_001)

    assert result.status == "error"
    assert "10,000,002 bytes" in result.content
    assert not [*project.iterdir()]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize(("name", "arguments"), EFFECTS)
def test_a_pipe_is_neither_written_nor_replaced(
    call: Call, project: Path, name: str, arguments: dict[str, object]
) -> None:
    os.mkfifo(project / "pipe")

    result = call(name, allow_writes=True, path="pipe", **arguments)

    assert result.status == "error"
    assert (project / "pipe").is_fifo()


@pytest.mark.parametrize(("name", "arguments"), EFFECTS)
def test_without_a_yes_to_writes_nothing_changes(
    call: Call, project: Path, name: str, arguments: dict[str, object]
) -> None:
    (project / "a.txt").write_text("old")

    result = call(name, path="a.txt", **arguments)

    assert result.status == "denied"
    assert "--allow-writes" in result.content
    assert (project / "a.txt").read_text() == "old"


# -- edit


def test_edit_replaces_what_stands_once_and_shows_the_diff(change: Call, project: Path) -> None:
    (project / "a.py").write_text("def f():\n    return 1\n")

    result = change("a.py", ("return 1", "return 2"))

    assert (project / "a.py").read_text() == "def f():\n    return 2\n"
    assert "-    return 1\n+    return 2" in result.content
    assert result.summary == "+1 -1"


@pytest.mark.parametrize(
    ("text", "old", "said"),
    [
        ("one\n", "two", "stands 0 times"),
        ("x x\n", "x", "stands 2 times"),
        ("aaa\n", "aa", "overlaps itself"),
        ("one\n", "", "is empty"),
        ("One\n", "one", "stands 0 times"),
        ("a.c\n", "a.*", "stands 0 times"),
    ],
)
def test_what_does_not_stand_exactly_once_is_refused(
    change: Call, project: Path, text: str, old: str, said: str
) -> None:
    (project / "a.txt").write_text(text)

    result = change("a.txt", (old, "new"))

    assert result.status == "error"
    assert said in result.content
    assert (project / "a.txt").read_text() == text


def test_one_bad_edit_means_that_none_is_done_and_is_named(change: Call, project: Path) -> None:
    (project / "a.txt").write_text("one\ntwo\n")

    result = change("a.txt", ("one", "1"), ("nowhere", "x"), ("two", "2"))

    assert "edit 2:" in result.content
    assert (project / "a.txt").read_text() == "one\ntwo\n"


def test_edits_are_found_in_the_text_as_it_was_whatever_their_order(change: Call, project: Path) -> None:
    (project / "a.txt").write_text("one two three\n")

    result = change("a.txt", ("three", "one"), ("one", "two"), (" two", " three"))

    assert result.status == "ok"
    assert (project / "a.txt").read_text() == "two three one\n"


@pytest.mark.parametrize(
    "pairs", [[("one t", "x"), ("two", "y")], [("one", "x"), ("one", "y")], [("one two", "x"), ("e", "y")]]
)
def test_overlapping_edits_are_refused(change: Call, project: Path, pairs: list[tuple[str, str]]) -> None:
    (project / "a.txt").write_text("one two\n")

    result = change("a.txt", *pairs)

    assert "overlap" in result.content
    assert (project / "a.txt").read_text() == "one two\n"


def test_edits_that_touch_each_other_do_not_overlap(change: Call, project: Path) -> None:
    (project / "a.txt").write_text("onetwo\n")

    change("a.txt", ("two", "2"), ("one", "1"))

    assert (project / "a.txt").read_text() == "12\n"


def test_no_edits_at_all_is_an_error(change: Call, project: Path) -> None:
    (project / "a.txt").write_text("x")

    assert "there are no edits" in change("a.txt").content


@pytest.mark.parametrize(
    "edits", ["x", [{"old": "x"}], [{"old": "x", "new": 1}], [["x", "y"]], {"old": "x", "new": "y"}]
)
def test_edits_of_another_shape_are_refused(call: Call, project: Path, edits: object) -> None:
    (project / "a.txt").write_text("x")

    result = call("edit", allow_writes=True, path="a.txt", edits=edits)

    assert result.code == "INVALID_ARGS"
    assert (project / "a.txt").read_text() == "x"


@given(
    around=st.tuples(st.text(alphabet="ab\né 中𝄞", max_size=30), st.text(alphabet="ab\né 中𝄞", max_size=30)),
    old=st.tuples(st.text(alphabet="ab\né 中𝄞", max_size=3), st.text(alphabet="ab\né 中𝄞", max_size=3)).map("X".join),
    new=st.text(alphabet="abX\né 中𝄞\r\0", max_size=6),
)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_edit_equals_replacing_text_that_stands_once(
    change: Call, project: Path, around: tuple[str, str], old: str, new: str
) -> None:
    text = old.join(around)
    (project / "a.txt").write_bytes(text.encode())

    result = change("a.txt", (old, new))

    assert result.status == "ok"
    assert (project / "a.txt").read_bytes() == text.replace(old, new).encode()


@given(
    pieces=st.lists(st.text(alphabet="ab\n", max_size=4), min_size=3, max_size=6),
    news=st.lists(st.text(alphabet="ab\n12345", max_size=4), min_size=5, max_size=5),
    order=st.permutations(range(5)),
)
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_several_edits_equal_all_replacements_at_once(
    change: Call, project: Path, pieces: list[str], news: list[str], order: list[int]
) -> None:
    marks = [f"<{number}>" for number in range(len(pieces) - 1)]
    text = "".join(part for pair in zip(pieces, [*marks, ""], strict=True) for part in pair)
    (project / "a.txt").write_bytes(text.encode())

    change("a.txt", *[(marks[number], news[number]) for number in order if number < len(marks)])

    wanted = "".join(part for pair in zip(pieces, [*news[: len(marks)], ""], strict=True) for part in pair)
    assert (project / "a.txt").read_bytes() == wanted.encode()


# -- bytes that nobody asked to change


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\r\nb\nc\r\n", "b\nc", "x\ny", b"a\r\nx\ny\r\n"),
        (b"a\r\nb\nc\r\n", "a\r\nb", "x", b"x\nc\r\n"),
        (b"a\nb\n", "a\n", "x\n", b"x\nb\n"),
        (b"a\rb\r", "b", "x", b"a\rx\r"),
        (b"a\nb", "b", "x", b"a\nx"),
        (b"a\nb\n\n\n", "a", "x", b"x\nb\n\n\n"),
    ],
)
def test_line_ends_are_kept(change: Call, project: Path, before: bytes, old: str, new: str, after: bytes) -> None:
    (project / "a.txt").write_bytes(before)

    result = change("a.txt", (old, new))

    assert result.status == "ok", result.content
    assert (project / "a.txt").read_bytes() == after


@pytest.mark.parametrize(
    ("mark", "codec"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
        (b"", "cp1251"),
        (b"", "shift_jis"),
    ],
)
def test_the_encoding_and_its_mark_are_kept(change: Call, project: Path, mark: bytes, codec: str) -> None:
    said = {"cp1251": "Это текстовый файл в старой кодировке.", "shift_jis": "これは古い文字コードのテキストです。"}
    text = said.get(codec, "Größe 中 𝄞") + "\r\nold\r\n"
    (project / "a.txt").write_bytes(mark + text.encode(codec))

    result = change("a.txt", ("old", "new\nlines"))

    assert result.status == "ok", result.content
    assert (project / "a.txt").read_bytes() == mark + text.replace("old", "new\r\nlines").encode(codec)


def test_a_character_that_the_encoding_lacks_is_refused_by_name(change: Call, project: Path) -> None:
    before = "Это текстовый файл в старой кодировке.\nold\n".encode("cp1251")
    (project / "a.txt").write_bytes(before)

    result = change("a.txt", ("old", "中"))

    assert result.status == "error"
    assert "which has no '中'" in result.content
    assert (project / "a.txt").read_bytes() == before


@pytest.mark.parametrize(
    "data", [b"old\0\1\2", codecs.BOM_UTF8 + b"old \xff\xfe\0", codecs.BOM_UTF16_LE + b"o\0l\0d\0x"]
)
def test_what_can_not_be_written_back_unchanged_is_refused(change: Call, project: Path, data: bytes) -> None:
    (project / "a.bin").write_bytes(data)

    result = change("a.bin", ("old", "new"))

    assert result.status == "error"
    assert (project / "a.bin").read_bytes() == data


@given(data=st.binary(max_size=40).map(lambda data: data + b" old "))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_edit_of_any_bytes_changes_the_quoted_ones_only_or_is_refused(
    change: Call, project: Path, data: bytes
) -> None:
    assume(data.count(b"old") == 1)
    (project / "a.bin").write_bytes(data)

    result = change("a.bin", ("old", "new"))

    wanted = data.replace(b"old", b"new") if result.status == "ok" else data
    assert (project / "a.bin").read_bytes() == wanted


# -- the file around the bytes


@pytest.mark.skipif(os.name == "nt", reason="modes are different on Windows")
@pytest.mark.parametrize(("name", "arguments"), EFFECTS)
@pytest.mark.parametrize("mode", [0o755, 0o600, 0o640])
def test_mode_bits_are_kept(call: Call, project: Path, name: str, arguments: dict[str, object], mode: int) -> None:
    (project / "run.sh").write_text("old")
    (project / "run.sh").chmod(mode)

    call(name, allow_writes=True, path="run.sh", **arguments)

    assert (project / "run.sh").stat().st_mode & 0o7777 == mode


@pytest.mark.skipif(os.name == "nt", reason="modes are different on Windows")
def test_a_new_file_has_the_mode_that_the_umask_leaves(call: Call, project: Path) -> None:
    before = os.umask(0o027)
    try:
        call("write", allow_writes=True, path="a.txt", content="x")
    finally:
        os.umask(before)

    assert (project / "a.txt").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(("name", "arguments"), EFFECTS)
def test_a_link_inside_stays_a_link_and_its_file_is_changed(
    call: Call, project: Path, name: str, arguments: dict[str, object]
) -> None:
    (project / "real").mkdir()
    (project / "real/a.txt").write_text("old")
    (project / "link.txt").symlink_to("real/a.txt")

    result = call(name, allow_writes=True, path="link.txt", **arguments)

    assert "real/a.txt" in result.content
    assert (project / "link.txt").is_symlink()
    assert (project / "real/a.txt").read_text().strip() == "new"


@pytest.mark.parametrize("name", ["n" * 255, "名" * 85, "a" * 240 + ".txt"])
def test_a_name_as_long_as_the_file_system_takes_can_be_written_and_edited(
    call: Call, change: Call, project: Path, name: str
) -> None:
    made = call("write", allow_writes=True, path=name, content="old\n")
    changed = change(name, ("old", "new"))

    assert (made.status, changed.status) == ("ok", "ok"), made.content
    assert (project / name).read_text() == "new\n"


@pytest.mark.parametrize(("name", "arguments"), EFFECTS)
@pytest.mark.parametrize("meanwhile", [b"somebody else's", None], ids=["changed", "removed"])
def test_a_file_that_changes_meanwhile_is_not_overwritten(
    call: Call,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    arguments: dict[str, object],
    meanwhile: bytes | None,
) -> None:
    (project / "a.txt").write_text("old")
    really_sync = os.fsync

    def sync_after_somebody_else(descriptor: int) -> None:
        (project / "a.txt").unlink()
        if meanwhile is not None:
            (project / "a.txt").write_bytes(meanwhile)
        really_sync(descriptor)

    monkeypatch.setattr(os, "fsync", sync_after_somebody_else)
    result = call(name, allow_writes=True, path="a.txt", **arguments)

    assert result.status == "error"
    assert "changed while it was being edited" in result.content
    assert [path.read_bytes() for path in project.iterdir()] == ([meanwhile] if meanwhile is not None else [])


def test_a_file_that_appears_meanwhile_is_not_overwritten(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_sync = os.fsync

    def sync_after_somebody_else(descriptor: int) -> None:
        (project / "a.txt").write_text("somebody else's")
        really_sync(descriptor)

    monkeypatch.setattr(os, "fsync", sync_after_somebody_else)
    result = call("write", allow_writes=True, path="a.txt", content="mine")

    assert result.status == "error"
    assert (project / "a.txt").read_text() == "somebody else's"


@pytest.mark.skipif(os.name == "nt", reason="permissions are different on Windows")
@pytest.mark.parametrize(("name", "arguments"), EFFECTS)
def test_in_a_folder_that_may_not_be_written_the_old_file_stays(
    call: Call,
    public_folder: Path,
    without_rights: Callable[[], AbstractContextManager[None]],
    name: str,
    arguments: dict[str, object],
) -> None:
    (public_folder / "a.txt").write_text("old")
    (public_folder / "a.txt").chmod(0o666)
    call("read", inside=public_folder, path="a.txt")
    public_folder.chmod(0o555)

    with without_rights():
        result = call(name, allow_writes=True, inside=public_folder, path="a.txt", **arguments)

    assert result.content == "Error: `a.txt` may not be read or written by this user"
    assert [path.read_text() for path in public_folder.iterdir()] == ["old"]


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("only root can mount a small file system")
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_on_a_full_disk_the_old_file_stays_and_nothing_else_remains(call: Call, full_disk: Path) -> None:
    (full_disk / "a.txt").write_text("old\n" * 100)

    result = call("write", allow_writes=True, inside=full_disk, path="a.txt", content="x" * 2_000_000)

    assert result.content == "Error: `a.txt`: No space left on device"
    assert [path.read_text() for path in full_disk.iterdir()] == ["old\n" * 100]


# -- what is shown


def test_the_counts_of_the_diff_are_the_lines_that_changed(call: Call, project: Path) -> None:
    (project / "a.txt").write_text("--- a\n+++ b\nkept\n")

    result = call("write", allow_writes=True, path="a.txt", content="kept\n++ c\n")

    assert result.content.startswith("changed a.txt (+1 -2)")


def test_a_long_diff_is_cut_with_the_count_of_what_is_missing(call: Call, project: Path) -> None:
    (project / "a.txt").write_text("".join(f"old {number}\n" for number in range(1000)))

    content = "".join(f"new {number}\n" for number in range(1000))
    result = call("write", allow_writes=True, path="a.txt", content=content)

    shown = result.content.split("\n")
    assert shown[0] == "changed a.txt (+1000 -1000)"
    assert re.fullmatch(r"\([\d,]+ more lines of diff\)", shown[-1])
    assert len(shown) - 2 + int(re.sub(r"\D", "", shown[-1])) == 2001  # one @@ line


def test_a_change_of_line_ends_alone_is_not_shown_as_no_change(call: Call, project: Path) -> None:
    (project / "a.txt").write_bytes(b"a\r\nb\r\n")
    (project / "b.txt").write_bytes(b"a\nb")

    results = [call("write", allow_writes=True, path=path, content="a\nb\n") for path in ("a.txt", "b.txt")]

    assert (project / "a.txt").read_bytes() == b"a\r\nb\r\n"  # its line ends are kept
    assert [result.summary for result in results] == ["+0 -0", "+1 -1"]


def test_many_calls_leave_no_descriptor_open(call: Call, change: Call, project: Path) -> None:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("open descriptors can't be counted here")
    call("write", allow_writes=True, path="a/b.txt", content="x")
    before = len(os.listdir("/proc/self/fd"))

    for _ in range(5):
        call("write", allow_writes=True, path="a/b.txt", content="x")
        call("write", allow_writes=True, path="a/b.txt/c", content="x")
        change("a/b.txt", ("nowhere", "y"))
        change("a/nowhere.txt", ("x", "y"))
        call("write", allow_writes=True, path="a", content="x")

    assert len(os.listdir("/proc/self/fd")) <= before + 1
