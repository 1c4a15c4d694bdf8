"""`read`: which lines come, how far, and what is refused with which words."""

# ruff: noqa: RUF001  (texts of several languages)

import codecs
import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pegboard import ToolResult

Call = Callable[..., ToolResult]


def numbered(result: ToolResult) -> list[tuple[int, str]]:
    """The lines of a `read` result with their numbers."""
    assert result.status == "ok", result.content
    found = [re.fullmatch(r" *(\d+)\t(.*)", line, re.DOTALL) for line in result.content.split("\n")[1:]]
    return [(int(line[1]), line[2]) for line in found if line]


def next_start(result: ToolResult) -> int | None:
    """Where the result says to read on."""
    found = re.search(r"\(read on with start=(\d+)\)$", result.content)
    return int(found[1]) if found else None


def test_a_file_comes_with_line_numbers_and_its_length(call: Call, project: Path) -> None:
    (project / "a.txt").write_text("one\ntwo\n")

    result = call("read", path="a.txt")

    assert result.content == "a.txt, lines 1-2 of 2\n     1\tone\n     2\ttwo"


def test_a_range_is_inclusive_and_says_where_to_read_on(call: Call, project: Path) -> None:
    (project / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 11)))

    result = call("read", path="a.txt", start=3, end=5)

    assert numbered(result) == [(3, "line 3"), (4, "line 4"), (5, "line 5")]
    assert next_start(result) == 6


def test_a_range_that_ends_behind_the_file_ends_with_it(call: Call, project: Path) -> None:
    (project / "a.txt").write_text("one\ntwo\n")

    result = call("read", path="a.txt", start=2, end=99)

    assert numbered(result) == [(2, "two")]
    assert next_start(result) is None


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"start": 0}, "count from 1"),
        ({"start": -3}, "count from 1"),
        ({"start": 2, "end": 1}, "start comes first"),
        ({"start": 4}, "has 3 lines"),
        ({"start": 1.5}, "start"),
        ({"start": True}, "start"),
        ({"begin": 1}, "begin is not a parameter"),
    ],
)
def test_a_range_that_is_none_is_refused(call: Call, project: Path, wanted: dict[str, float], said: str) -> None:
    (project / "a.txt").write_text("1\n2\n3\n")

    result = call("read", path="a.txt", **wanted)

    assert result.status == "error"
    assert said in result.content


@pytest.mark.parametrize(
    "lines",
    [
        [f"line {number}" for number in range(5003)],
        [f"{number} {'wide' * 200}" for number in range(400)],
        ["x" * 1999 for _ in range(61)],
    ],
    ids=["many lines", "wide lines", "lines just under the width"],
)
def test_reading_on_as_told_gives_every_line_once(call: Call, project: Path, lines: list[str]) -> None:
    (project / "a.txt").write_text("\n".join(lines))
    pages = [call("read", path="a.txt")]

    while start := next_start(pages[-1]):
        pages.append(call("read", path="a.txt", start=start))

    assert len(pages) > 1
    assert [line for page in pages for line in numbered(page)] == list(enumerate(lines, 1))


def test_an_overlong_line_is_cut_with_the_count_of_what_is_missing(call: Call, project: Path) -> None:
    (project / "a.txt").write_text("x" * 100_000 + "\nend\n")

    result = call("read", path="a.txt")

    (_, long), (_, last) = numbered(result)
    kept = len(long) - len(long.lstrip("x"))
    assert f"({100_000 - kept:,} more characters" in long
    assert last == "end"
    assert len(result.content) < 10_000


@pytest.mark.parametrize("data", [b"", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF32_BE])
def test_an_empty_file_is_said_to_be_empty(call: Call, project: Path, data: bytes) -> None:
    (project / "a.txt").write_bytes(data)

    result = call("read", path="a.txt")

    assert (result.status, result.content) == ("ok", "a.txt is empty")


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\n\n", ["a", ""]),
        (b"\n", [""]),
        (b"\r\n", [""]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\nb", ["a", "b"]),
        (b"a\r\nb\nc\r\n", ["a", "b", "c"]),
    ],
)
def test_line_ends_are_no_part_of_lines(call: Call, project: Path, data: bytes, lines: list[str]) -> None:
    (project / "a.txt").write_bytes(data)

    assert numbered(call("read", path="a.txt")) == list(enumerate(lines, 1))


@given(
    lines=st.lists(st.text(alphabet="ab \t\x0b\x0c\x1c\x1e\x85\u2028\u2029é", max_size=5), min_size=1, max_size=5),
    end=st.sampled_from(["\n", "\r\n"]),
)
@example(lines=["a\x0cb", "c"], end="\r\n")
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_read_and_grep_number_lines_alike(call: Call, project: Path, lines: list[str], end: str) -> None:
    with tempfile.TemporaryDirectory(dir=project) as folder:
        Path(folder, "a.txt").write_bytes("".join(line + end for line in lines).encode())

        read = numbered(call("read", inside=Path(folder), path="a.txt"))
        found = call("grep", inside=Path(folder), pattern="^").content

    assert found == "\n".join(f"a.txt:{number}: {line}" for number, line in read)


@pytest.mark.parametrize(
    ("mark", "codec", "name"),
    [
        (codecs.BOM_UTF8, "utf-8", "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16-le", "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16-be", "utf-16"),
        (codecs.BOM_UTF32_LE, "utf-32-le", "utf-32"),
        (codecs.BOM_UTF32_BE, "utf-32-be", "utf-32"),
    ],
)
def test_a_byte_order_mark_decides_the_encoding_and_is_not_shown(
    call: Call, project: Path, mark: bytes, codec: str, name: str
) -> None:
    (project / "a.txt").write_bytes(mark + "Grüße 中 𝄞\r\nzwei\r\n".encode(codec))

    result = call("read", path="a.txt")

    assert numbered(result) == [(1, "Grüße 中 𝄞"), (2, "zwei")]
    assert name in result.content.split("\n")[0]


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("cp1252", "Die Größe der Straße ändert sich, wenn die Übung schön geübt wird – für 10 €."),
        ("cp1252", "Le garçon a déjà mangé son gâteau à la crème près de la forêt, où l’été s’achève."),
        ("cp1252", "# naïve café in Ærø"),
        ("cp1252", "El niño comió piña en la mañana, ¿verdad?"),
        ("gb18030", "这是一个用旧编码保存的文本文件，里面有很多中文字符。"),
        ("shift_jis", "これは古い文字コードで保存された日本語のテキストファイルです。"),
        ("big5", "這是一個用舊編碼保存的文字檔案，裡面有很多中文字。"),
        ("cp1251", "Это текстовый файл в старой кодировке, в нём много русских слов."),
        ("koi8_r", "Это текстовый файл в старой кодировке, в нём много русских слов."),
    ],
)
def test_a_legacy_encoding_is_told_and_named(call: Call, project: Path, codec: str, text: str) -> None:
    (project / "a.txt").write_bytes((text + "\n").encode(codec) * 5)

    result = call("read", path="a.txt")

    assert [line for _, line in numbered(result)] == [text] * 5
    assert re.search(r", lines 1-5 of 5, \w+$", result.content.split("\n")[0])


@pytest.mark.parametrize(
    "data", [b"\x7fELF\x02\x01\x01\0\0", b"text\n" * 100 + b"\0", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"]
)
def test_a_binary_file_is_refused(call: Call, project: Path, data: bytes) -> None:
    (project / "a.bin").write_bytes(data)

    result = call("read", path="a.bin")

    assert result.status == "error"
    assert "`a.bin` is binary" in result.content


def test_a_range_of_a_file_of_any_size_is_read(call: Call, project: Path) -> None:
    """Issue 25, case 12."""
    (project / "big.txt").write_bytes(b"".join(b"line %d\r\n" % number for number in range(1, 1_000_001)))

    first, middle = call("read", path="big.txt"), call("read", path="big.txt", start=500_000, end=500_001)
    last, after = (call("read", path="big.txt", start=start) for start in (999_999, 1_000_001))

    assert numbered(first)[:2] == [(1, "line 1"), (2, "line 2")]
    assert next_start(first) == len(numbered(first)) + 1
    assert numbered(middle) == [(500_000, "line 500000"), (500_001, "line 500001")]
    assert numbered(last) == [(999_999, "line 999999"), (1_000_000, "line 1000000")]
    assert next_start(last) is None
    assert "has 1000000 lines" in after.content


def test_of_a_giant_line_the_beginning_is_read(call: Call, project: Path) -> None:
    (project / "big.txt").write_bytes(b"x" * 12_000_000 + b"\nend")

    (_, long), (number, last) = numbered(call("read", path="big.txt"))

    assert long.endswith("… (this line goes on)")
    assert (number, last) == (2, "end")


def test_a_large_binary_file_is_refused(call: Call, project: Path) -> None:
    with (project / "over.bin").open("wb") as file:
        file.truncate(10_000_001)

    assert "is binary" in call("read", path="over.bin").content


def test_a_folder_is_refused_with_what_to_use_instead(call: Call, project: Path) -> None:
    (project / "src").mkdir()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    results = [call("read", path=path) for path in ("src", ".", "src/") * 3]

    assert {result.status for result in results} == {"error"}
    assert all("is a folder; `glob`" in result.content for result in results), results[0].content
    assert not before or len(os.listdir("/proc/self/fd")) <= before + 1


@pytest.mark.parametrize("path", ["nothing.txt", "nowhere/nothing.txt", "a.txt/inside"])
def test_a_missing_file_is_refused_by_name(call: Call, project: Path, path: str) -> None:
    (project / "a.txt").write_text("x")

    result = call("read", path=path)

    assert result.status == "error"
    assert f"`{path}` does not exist" in result.content


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_is_refused_and_not_waited_for(call: Call, project: Path) -> None:
    os.mkfifo(project / "pipe")

    result = call("read", path="pipe")

    assert result.content == "Error: `pipe` is a pipe, socket or device, not a file"


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no Unix sockets here")
def test_a_socket_is_refused_as_what_it_is(call: Call, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)  # a socket's address is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("sock")

        result = call("read", path="sock")

    assert result.content == "Error: `sock` is a pipe, socket or device, not a file"


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there are no device files here")
@pytest.mark.parametrize("device", ["null", "zero"])
def test_a_device_is_refused(call: Call, device: str) -> None:
    result = call("read", inside=Path("/dev"), path=device)

    assert result.content == f"Error: `{device}` is a pipe, socket or device, not a file"


@pytest.mark.skipif(os.name == "nt", reason="permissions are different on Windows")
def test_a_file_without_permission_is_refused_in_one_line(
    call: Call, public_folder: Path, without_rights: Callable[[], AbstractContextManager[None]]
) -> None:
    (public_folder / "open.txt").write_text("x")
    (public_folder / "closed.txt").write_text("secret")
    (public_folder / "closed.txt").chmod(0)
    call("read", inside=public_folder, path="open.txt")

    with without_rights():
        open_, closed = (call("read", inside=public_folder, path=name) for name in ("open.txt", "closed.txt"))

    assert open_.status == "ok"
    assert closed.content == "Error: `closed.txt` may not be read or written by this user"


@pytest.mark.skipif(os.name == "nt", reason="names are Unicode on Windows")
def test_a_link_to_a_name_that_is_not_utf_8_is_read_and_shown_escaped(call: Call, project: Path) -> None:
    try:
        Path(os.fsdecode(os.fsencode(project) + b"/\xff.txt")).write_text("inside\n")
    except OSError:
        pytest.skip("this file system takes no such name")
    (project / "link.txt").symlink_to(os.fsdecode(b"\xff.txt"))

    result = call("read", path="link.txt")

    assert numbered(result) == [(1, "inside")]
    assert result.content.startswith("\\xff.txt, lines")


# Every tool that takes a path, with its other arguments.
TAKE_A_PATH = [
    ("read", {}),
    ("glob", {"pattern": "*"}),
    ("grep", {"pattern": "x"}),
    ("write", {"content": "x"}),
    ("edit", {"edits": [{"old": "x", "new": "y"}]}),
]


@pytest.mark.skipif(os.name == "nt", reason="cleans up with rm")
@pytest.mark.parametrize("path", ["a/" * 2500, "a" * 5000], ids=["deep", "long name"])
@pytest.mark.parametrize(("name", "arguments"), TAKE_A_PATH)
def test_a_path_of_5000_characters_is_one_clear_error(
    call: Call, project: Path, name: str, arguments: dict[str, object], path: str
) -> None:
    try:
        result = call(name, allow_writes=True, path=path, **arguments)
    finally:
        made = [*project.iterdir()]
        subprocess.run(["rm", "-rf", *made], check=True)  # shutil can't go that deep

    assert result.status == "error"
    assert "Errno" not in result.content
    assert "\n" not in result.content
    assert not made


@pytest.mark.parametrize("path", ["a\0b", "\0", "", "  "])
@pytest.mark.parametrize(("name", "arguments"), TAKE_A_PATH)
def test_what_is_no_path_is_refused_in_one_line(
    call: Call, project: Path, name: str, arguments: dict[str, object], path: str
) -> None:
    result = call(name, allow_writes=True, path=path, **arguments)

    assert result.status in ("error", "denied")
    assert result.content.startswith("Error: ")
    assert "\n" not in result.content
    assert not [*project.iterdir()]
