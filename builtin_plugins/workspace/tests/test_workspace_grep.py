"""`grep`: the same answer from ripgrep and from its stand-in in Python, and nothing that hangs or runs astray."""

# ruff: noqa: RUF001  (characters that look alike are what some tests are about)

import asyncio
import codecs
import json
import os
import re
import shutil
import tempfile
import tracemalloc
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, reject, settings
from hypothesis import strategies as st
from pegboard import Host, Session, ToolCall, ToolError, ToolResult
from pegboard_workspace import search as search_module
from pegboard_workspace.expression import Expression
from pegboard_workspace.patterns import check

Call = Callable[..., ToolResult]
Twice = Callable[..., tuple[ToolResult, ToolResult]]


def make(folder: Path, **files: bytes) -> None:
    """Make files of bytes."""
    for name, data in files.items():
        (folder / name).write_bytes(data)


def assert_equal_or_both_refused(results: tuple[ToolResult, ToolResult]) -> None:
    """Either the same lines or an error on both sides."""
    by_ripgrep, in_python = results
    if not by_ripgrep.status == in_python.status == "error":
        assert (by_ripgrep.status, by_ripgrep.content) == (in_python.status, in_python.content)


# -- what is found and how it is told


def test_matches_come_as_path_line_text_sorted_by_path_and_line(call: Call, project: Path, engine: str) -> None:
    for name in ("b.txt", "a/z.txt", "a.txt", "a-b.txt"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("one\n  two\none two\n" + "x\n" * 8 + "two\n")

    result = call("grep", pattern="two")

    wanted = [f"{name}:{line}: {text}" for name in ("a-b.txt", "a.txt", "a/z.txt", "b.txt")
              for line, text in ((2, "  two"), (3, "one two"), (12, "two"))]  # fmt: skip
    assert result.content.split("\n") == wanted
    assert result.summary == "12 matches in 4 files"


def test_of_many_matches_the_first_are_shown_and_the_rest_counted(call: Call, project: Path, engine: str) -> None:
    make(project, a=b"x\n" * 120, b=b"x\n" * 130)

    results = [call("grep", pattern="x", **limit) for limit in ({}, {"limit": 1}, {"limit": 2000})]

    lines = [result.content.split("\n") for result in results]
    assert [len(each) for each in lines] == [201, 2, 250]
    assert lines[0][199:] == ["b:80: x", "(50 more matches; narrow the pattern, path or glob, or raise limit)"]
    assert lines[1][1].startswith("(249 more matches")
    assert {result.summary for result in results} == {"250 matches in 2 files"}


@pytest.mark.parametrize("limit", [0, -1, 2001, 1.5, "10", True])
def test_a_limit_out_of_range_is_refused(call: Call, project: Path, limit: object) -> None:
    result = call("grep", pattern="x", limit=limit)

    assert result.status == "error"
    assert "limit" in result.content


def test_a_line_that_matches_twice_is_one_match(call: Call, project: Path, engine: str) -> None:
    make(project, a=b"x x x\n")

    assert call("grep", pattern="x").summary == "1 match in 1 file"


def test_nothing_found_is_said(call: Call, project: Path, engine: str) -> None:
    make(project, a=b"x\n")

    result = call("grep", pattern="y")

    assert (result.status, result.content, result.summary) == ("ok", "no match", "no match")


def test_of_a_long_line_a_window_round_the_hit_is_shown_with_its_column(call: Call, project: Path, engine: str) -> None:
    make(project, a=b"y" * 100_000 + b"needle" + b"z" * 1000 + b"\n")

    result = call("grep", pattern="needle")

    shown = re.fullmatch(
        r"a:1:100001: \(99,850 characters before\) … y{150}needlez{244} … \(756 more characters\)", result.content
    )
    assert shown, result.content


def test_one_file_can_be_searched(call: Call, project: Path, engine: str) -> None:
    make(project, a=b"x\n", b=b"x\n")

    assert call("grep", pattern="x", path="b").content == "b:1: x"


def test_case_counts_unless_it_is_to_be_ignored(call: Call, project: Path, engine: str) -> None:
    make(project, a="Größe\nGRÖSSE\ngröße\n".encode())

    assert call("grep", pattern="größe").content == "a:3: größe"
    ignoring = [call("grep", pattern="größe", ignore_case=True), call("grep", pattern="(?i)größe")]
    assert [result.content for result in ignoring] == ["a:1: Größe\na:3: größe"] * 2


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        (r"def \w+\(", [1]),
        (r"\bself\b", [1, 2]),
        (r"^\s+return", [2]),
        (r"\)$", [4]),
        (r"[\w.]+@[\w.]+", [3]),
        (r"(foo|bar)\.baz", [4]),
        (r"a{2,3}", [5]),
        (r"^$", [6]),
        (r"-foo", [7]),
        (r"--pre=sh", [7]),
        (r"\\d", [8]),
        (r"[^\x00-\x7f]", [9]),
        (r"\u00e9", [9]),
        (r"\x41", [10]),
        (r"(?P<word>A)(?:B)(?i:c)", [10]),
        (r"\$\{?x\}?", [11]),
        (r"x*?y+?", [11]),
    ],
)
def test_what_models_write_is_understood(
    call: Call, project: Path, engine: str, pattern: str, lines: list[int]
) -> None:
    text = "def f(self):\n    return self\nme@x.org\nfoo.baz()\naaa\n\n-foo --pre=sh\n\\d\né\nABC\n${x}y\n"
    make(project, a=text.encode())

    result = call("grep", pattern=pattern)

    assert result.status == "ok", result.content
    assert [int(line.split(":")[1]) for line in result.content.split("\n")] == lines


# -- what is left out


def test_binary_files_are_left_out_whatever_matches_in_them(call: Call, project: Path, engine: str) -> None:
    make(project, a=b"needle\n\0", b=b"needle\n", c=b"\x7fELF\0needle", d=b"needle" + b"x" * 8000 + b"\0")

    assert call("grep", pattern="needle").content == "b:1: needle"


def test_files_over_ten_megabytes_are_left_out_and_counted(call: Call, project: Path, engine: str) -> None:
    make(project, a=b"needle\n", b=b"needle\n" + b"x" * 10_000_000)

    result = call("grep", pattern="needle")

    assert result.content == "a:1: needle\n(1 files over 10,000,000 bytes were not searched)"


def test_the_configuration_of_ripgrep_and_its_own_ignore_files_change_nothing(
    call: Call, project: Path, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ripgreprc").write_text("--ignore-case\n--max-count=1\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "ripgreprc"))
    make(project, a=b"x\nx\nX\n", **{".rgignore": b"a\n"})

    assert call("grep", pattern="x").content == "a:1: x\na:2: x"


# -- what is refused


@pytest.mark.parametrize(
    ("pattern", "what", "position"),
    [
        (r"ab(?=c)", "look-ahead", 3),
        (r"ab(?!c)", "look-ahead", 3),
        (r"(?<=a)b", "look-behind", 1),
        (r"x(?<!a)b", "look-behind", 2),
        (r"(a)\1", "back-reference", 4),
        (r"(?P<n>a)(?P=n)", "back-reference", 9),
        (r"(?>a)", "atomic", 1),
        (r"(?(1)a|b)", "conditional", 1),
        (r"a(?#note)", "comment", 2),
        (r"a++", "nothing to repeat", 3),
        (r"a*+b", "nothing to repeat", 3),
        (r"a**", "nothing to repeat", 3),
        (r"a{2}{3}", "nothing to repeat", 5),
        (r"*a", "nothing to repeat", 1),
        (r"(|+a)", "nothing to repeat", 3),
        (r"^*", "nothing to repeat", 2),
        (r"a\p{L}", "Unicode class", 2),
        (r"a\PL", "Unicode class", 2),
        (r"\p{Greek}", "Unicode class", 1),
        (r"[a&&b]", "&&", 3),
        (r"[a--b]", "--", 3),
        (r"[a~~b]", "~~", 3),
        (r"[a||b]", "||", 3),
        (r"[[:alpha:]]", "[", 2),
        (r"[a[b]]", "[", 3),
        (r"[]a]", "]", 2),
        (r"[^]a]", "]", 3),
        (r"[a\b]", r"\b", 3),
        (r"[abc", "[", 1),
        (r"a[^\s\S]", "no character", 2),
        (r"[^a\D\d]", "no character", 1),
        (r"a{", "{", 2),
        (r"a{,3}", "{", 2),
        (r"a{x}", "{", 2),
        (r"{", "{", 1),
        (r"a{3,2}", "{3,2}", 2),
        (r"a{1001}", "{1001}", 2),
        (r"(a", "(", 3),
        (r"a)", ")", 2),
        ("a\\", "backslash", 2),
        (r"a\n", "line break", 2),
        (r"a\r", "carriage return", 2),
        (r"\A", "differ", 1),
        (r"a\z", "differ", 2),
        (r"a\Z", "differ", 2),
        (r"\<a", "differ", 1),
        (r"\ha", "differ", 1),
        (r"\Ra", "differ", 1),
        (r"\Ka", "differ", 1),
        (r"\x{41}", "differ", 1),
        (r"\u{41}", "differ", 1),
        (r"\xg1", "differ", 1),
        (r"(?s).", "flag", 1),
        (r"(?m)^", "flag", 1),
        (r"(?x)a", "flag", 1),
        (r"(?-i)a", "flag", 1),
        (r"a(?i)b", "flag", 2),
        (r"(?<n>a)", "flag", 1),
        (r"(?|a)", "flag", 1),
        (r"(?R)", "flag", 1),
        (r"(?e)a", "flag", 1),
    ],
)
def test_what_the_engines_read_differently_is_refused_by_name_with_its_position(
    call: Call, pattern: str, what: str, position: int
) -> None:
    result = call("grep", pattern=pattern)

    assert result.status == "error"
    assert what in result.content
    assert f"at character {position}:" in result.content


@pytest.mark.parametrize(("pattern", "said"), [("", "is empty"), ("x" * 1001, "at most 1,000"), ("a\nb", "line break")])
def test_what_is_no_pattern_for_a_line_is_refused(call: Call, pattern: str, said: str) -> None:
    result = call("grep", pattern=pattern)

    assert result.status == "error"
    assert said in result.content


# -- ripgrep and Python give equal results

FILES: dict[str, bytes] = {
    "line feeds": b"foo\nbar\n\nfoo bar\n",
    "no final line end": b"foo\nbar",
    "carriage returns": b"foo\r\nbar\r\n\r\nfoo bar\r\n",
    "mixed line ends": b"foo\r\nbar\nfoo\rbar\r\r\nfoo",
    "ends with a carriage return": b"foo\nbar\r",
    "lone carriage returns": b"foo\rbar\rfoo\r",
    "empty": b"",
    "one empty line": b"\n",
    "one empty line with a carriage return": b"\r\n",
    "not UTF-8": b"foo \xff\nbar\nfoo\n",
    "cut in a character": "foo é".encode()[:-1],
    "a surrogate": b"foo\xed\xa0\x80\nbar\n",
    "Latin": "foo Größe, Übung, schön\nbar Straße\n".encode("cp1252"),
    "with a mark": codecs.BOM_UTF8 + b"foo\nbar\n",
    "with two marks": codecs.BOM_UTF8 * 2 + b"foo\nbar\n",
    "a mark in the middle": b"bar\n" + codecs.BOM_UTF8 + b"foo\n",
    "a mark and bad bytes": codecs.BOM_UTF8 + b"foo \xff\nbar\n",
    "only a mark": codecs.BOM_UTF8,
    "UTF-16": codecs.BOM_UTF16_LE + "foo\nbar\r\n".encode("utf-16-le"),
    "UTF-16, the other way": codecs.BOM_UTF16_BE + "foo\nbar\r\n".encode("utf-16-be"),
    "UTF-16 cut short": codecs.BOM_UTF16_LE + "foo\nbar".encode("utf-16-le") + b"\0",
    "UTF-16 with half a pair": codecs.BOM_UTF16_LE + "foo\n".encode("utf-16-le") + b"\0\xd8b\0\n\0",
    "UTF-32": codecs.BOM_UTF32_LE + "foo\nbar\n".encode("utf-32-le"),
    "UTF-32, the other way": codecs.BOM_UTF32_BE + "foo\nbar\n".encode("utf-32-be"),
    "NUL": b"foo\0\nbar\n",
    "NUL far away": b"foo\n" + b"y" * 9000 + b"\nbar\0bar\nfoo\n",
    "bad bytes far away": b"foo\n" * 3000 + b"\xff\nbar\n",
    "a long line": b"y" * 70_000 + b"foo\nbar\n",
    "other line separators": "foo\x0bbar\x0cfoo\x1cbar\x85foo\u2028bar\u2029\nfoo\n".encode(),
    "words": "foo_bar\nfoo\u0301 bar\nfo\u200do\nfoo1 ٣ Ⅷ\n中文 foo\nñfoo\n_foo-bar\n".encode(),
}  # fmt: skip
PATTERNS = [
    "foo", "bar", "^foo", "foo$", "^$", "^", "$", ".", "^.", ".$", r"\W$", r"\w+$", r"\bfoo\b", r"\Bo", r"\B$", "$^",
    r"\s", r"\S\s", r"foo\s", r"[^a-z]", r"[^a-z]$", r"^[^x]*$", r"\ufeff", r"\x00", r"o.b", r"(?:foo|bar)\W", r"\d",
    "y{3}f", r"\uFFFD",
]  # fmt: skip


@pytest.mark.parametrize("data", FILES.values(), ids=FILES)
def test_both_find_the_same_lines_in(grep_twice: Twice, project: Path, data: bytes) -> None:
    make(project, a=data)

    for pattern in ("bar", "^foo", "foo$", "^$", ".$", r"\W$", r"\B$", "[^a-z]", r"\x00"):
        assert_equal_or_both_refused(grep_twice(pattern=pattern))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_both_find_the_same_lines_in_a_folder_of_all(grep_twice: Twice, project: Path, pattern: str) -> None:
    """With many files ripgrep reads in another way than with one."""
    make(project, **FILES)

    assert_equal_or_both_refused(grep_twice(pattern=pattern, limit=2000))


ODD_CASES = [
    "i", "I", "ı", "İ", "k", "K", "\u212a", "s", "S", "ſ", "ß", "ẞ", "ss", "ﬅ", "ﬆ", "σ", "ς", "Σ", "µ", "μ", "Μ", "å",
    "Å",
    "\u212b", "ǅ", "ǆ", "Ǆ", "θ", "ϴ", "ϑ", "ᾳ", "ᾼ", "ŉ", "ﬁ", "fi", "é", "É", "é\u0301",
]  # fmt: skip


@pytest.mark.parametrize("pattern", [*ODD_CASES, "[a-z]", "[^a-z]", "[Ā-ſ]", "[^s]", r"\w", "[Ͱ-Ͽ]", "st"])
@pytest.mark.parametrize("how", ["ignore_case", "group"])
def test_both_ignore_case_in_the_same_way(grep_twice: Twice, project: Path, pattern: str, how: str) -> None:
    make(project, a="\n".join(ODD_CASES).encode(), b=b"i\nI\nk\ns\n")
    written = f"(?i:{pattern})" if how == "group" else pattern

    assert_equal_or_both_refused(grep_twice(pattern=written, ignore_case=how == "ignore_case"))


@pytest.mark.parametrize(
    "pattern",
    [
        *(f"\\{character}" for character in "/\"'`,;:=!%@#&~-$^.|?*+()[]{}"),
        r"[\/]", r"[\"']", r"[\w-.]", r"[\w-a]", r"[a-\d]", r"[a-]", r"[-a]", r"[a\-z]", r"[+-\-]", r"[z-a]",
        r"[\x41-c]",
        r"[\\]", r"[^\s\S]", r"[^\d\D]", r"[\s\S]", r"[^^]", r"[a^]", r"[.*+?$]", r"[\^\]\[]", r"[\t-a]", r"[\v\f]",
        r"\x0a", r"\x0d", r"[\x0a]", r"[^\x0a]", r"[\x00-\x1f]", r"\x00", r"\x7f", r"\xff", r"\u000a", r"\uD800",
        r"[\uD800-\uDFFF]", r"()", r"(|a)", r"a|", r"|", r"(?:)", r"(?:)*", r"(^)*", r"(^a|b$)+", r"(a|)+", r"(a*)*",
        r"(a*)+?", r"(a{0})", r"a{0,0}", r"(?P<a>x)(?P<a>y)", r"(?P<añ>x)", r"(?P<a1>x)", r"(?P<a>(?P<b>x))", r"a{01}",
        r"a{٣}", r"a{2}?", r"a{2,}?", r"a??", r"a{1000}",
        r"\w{1000}", r"(\w{100}){100}", r"(a{1000}){1000}", r"(((((a)))))", "(" * 200 + "a" + ")" * 200,
        "|".join(f"word{number}" for number in range(120)),
        r"(?i)", r"(?i)(", r"(?i)*", r"(?i)^a", r"]", r"}", r"a}", r"a]", r"x{1}{", r"é+", r"[é-ü]", r"\bé", "𝄞",
        "[𝄞-𝄢]",
        r"\d+\.\d+", r"[0-9٠-٩]", "a b", " ", "\t", "#", "a#b", r"\#", r"\ ", "~", "a~~b", "&&", "--", "||", "(?:--)",
    ],
)  # fmt: skip
def test_both_read_a_pattern_alike_or_both_refuse_it(grep_twice: Twice, project: Path, pattern: str) -> None:
    text = 'a/b "c" it\'s `x`,;:=!%@#&~-$^.|?*+()[]{}\\\nxaay aa.b\n\t\x0b\x0c \x7f\né ñ ü 𝄞 ÿ\n1.5 ٣ -- && || ~~\n'
    text += "word7\n\nabc\n"
    make(project, a=text.encode(), b=b"x\r\ny\r\n", c=b"-\r\n")

    assert_equal_or_both_refused(grep_twice(pattern=pattern))


TEXT = st.sampled_from(
    ["a", "b", "ab", "A", "_", "-", ".", " ", "\t", "1", "é", "e\u0301", "ñ", "中", "𝄞", "ſ", "K", "\u212a", "İ", "ı",
    "i",
     "I", "ß", "ẞ", "s", "k", "Σ", "ς", "\u200d", "\u00a0", "\u2028", "\x0b", "\x0c", "\x1c", "\x85", "\ufeff", "٣"]
).map(str.encode)  # fmt: skip
BYTES = st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0", b"\xe9", b"\x80", b"y" * 500])
LINE_ENDS = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\r\n", b"\r", b"\r\r\n", b""])
LINES = st.tuples(st.lists(TEXT, max_size=4).map(b"".join), st.one_of(st.just(b""), st.just(b""), BYTES), LINE_ENDS)
CONTENT = st.tuples(
    st.sampled_from([b""] * 6 + [codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE]),
    st.lists(LINES.map(b"".join), max_size=6).map(b"".join),
).map(b"".join)
FOLDERS = st.dictionaries(st.sampled_from(["a", "b", "c/d", "c/e", "-o", "é"]), CONTENT, min_size=1, max_size=4)

ATOMS = st.sampled_from(
    ["a", "b", "A", "_", "1", "é", "中", "𝄞", "ſ", "K", "\u212a", "İ", "ı", "i", "ß", "s", "k", "σ", ".", "^", "$", " ",
    "-",
     "e\u0301", r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\b", r"\B", r"\t", r"\.", r"\-", r"\x41", r"\u00e9",
     r"\ufeff",
     r"\v", r"\f", r"\\"]
)  # fmt: skip
CLASS_ITEMS = st.sampled_from(
    ["a", "b", "a-z", "A-K", "0-9", "_", "é-ü", "ſ", "K", "İ", r"\w", r"\d", r"\s", r"\S", r"\W", r"\-", ".", "^",
     r"\x00-\x1f", r"\]"]
)  # fmt: skip
CLASSES = st.tuples(st.sampled_from(["[", "[^"]), st.lists(CLASS_ITEMS, min_size=1, max_size=3).map("".join)).map(
    lambda parts: "".join(parts) + "]"
)
QUANTIFIERS = st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0}", "{1,}", "{2}?"])


def _larger(patterns: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups = st.tuples(st.sampled_from(["(", "(?:", "(?i:", "(?P<n>"]), patterns).map(
        lambda parts: "".join(parts) + ")"
    )
    repeated = st.tuples(st.one_of(groups, ATOMS, CLASSES), QUANTIFIERS).map("".join)
    chosen = st.lists(patterns, min_size=2, max_size=3).map("|".join)
    return st.one_of(groups, repeated, chosen, st.lists(patterns, min_size=2, max_size=3).map("".join))


EXPRESSIONS = st.recursive(st.one_of(ATOMS, CLASSES), _larger, max_leaves=6)


@settings(max_examples=300)
@given(EXPRESSIONS, st.lists(st.text("abAB1 -_#x\t\r\u212a\u017f", max_size=6), max_size=4), st.booleans())
def test_a_file_that_is_passed_over_has_no_line_that_matches(pattern: str, lines: list[str], ignore_case: bool) -> None:
    try:
        check(pattern)
        wanted = Expression(pattern, ignore_case, 20)
    except ToolError:
        reject()

    assert wanted.may_be_in(lines) or not any(wanted.is_in(line) for line in lines)


@given(files=FOLDERS, pattern=EXPRESSIONS, ignore_case=st.booleans())
@example(files={"a": b"-\r\n"}, pattern=r"\B$", ignore_case=False)
@example(files={"a": "i\nı\nİ\n".encode()}, pattern="i", ignore_case=True)
@example(files={"a": codecs.BOM_UTF32_LE + "ab\n".encode("utf-32-le")}, pattern="ab", ignore_case=False)
@example(files={"a": b"a\n"}, pattern=r"[^\s\S]", ignore_case=False)
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_find_the_same_lines_of_any_files_for_any_pattern(
    grep_twice: Twice, project: Path, files: dict[str, bytes], pattern: str, ignore_case: bool
) -> None:
    with tempfile.TemporaryDirectory(dir=project) as folder:
        for name, data in files.items():
            Path(folder, name).parent.mkdir(exist_ok=True)
            Path(folder, name).write_bytes(data)

        assert_equal_or_both_refused(grep_twice(inside=Path(folder), pattern=pattern, ignore_case=ignore_case))


@given(pattern=st.text(alphabet="ab(?:|)[]^-\\wsdb.*+{}1,2$iP<>x#& ", max_size=10).map("".join))
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_read_any_characters_alike_or_refuse_them(grep_twice: Twice, project: Path, pattern: str) -> None:
    make(project, a=b"ab\nwsd\n12 1,2\na-b [x] (y) {1}\n\n<b> #& \\w\n", b=b"a\r\n\r\nb")

    assert_equal_or_both_refused(grep_twice(pattern=pattern))


# -- nothing hangs, nothing runs that should not


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", "(a*)*b", r"(\w+\s?)+$"])
def test_a_catastrophic_pattern_is_bounded_in_python(
    call: Call,
    project: Path,
    without_ripgrep: Callable[[], AbstractContextManager[None]],
    monkeypatch: pytest.MonkeyPatch,
    pattern: str,
) -> None:
    """Case 62: `(a+)+$` on 50 kB."""
    monkeypatch.setattr(search_module, "SECONDS", 0.3)
    make(project, a=b"a" * 50_000 + b"!\n", b=b"short a!\n")

    with without_ripgrep():
        result = call("grep", pattern=pattern)

    assert result.status == "ok" or "simplify the pattern" in result.content


def test_many_slow_lines_are_bounded_together(
    call: Call,
    project: Path,
    without_ripgrep: Callable[[], AbstractContextManager[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each line alone is quick enough; the deadline is for the whole search."""
    monkeypatch.setattr(search_module, "SECONDS", 0.3)
    make(project, a=(b"a" * 24 + b"!\n") * 2000)

    with without_ripgrep():
        result = call("grep", pattern="(a|aa|b)+c?$")

    assert result.status == "error"
    assert "simplify the pattern" in result.content


def test_a_pattern_that_matches_everywhere_takes_little_memory(call: Call, project: Path, engine: str) -> None:
    """A model that asks for `.` on a big tree must not take the host with it (a kilobyte a match was seen)."""
    make(project, a=b"x = 1\n" * 30_000)
    call("grep", pattern="nothing")

    tracemalloc.start()
    try:
        result = call("grep", pattern=".", limit=5)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert result.summary == "30,000 matches in 1 file"
    assert peak < 15_000_000


@pytest.fixture
def planted(project: Path) -> Callable[[Path], Path]:
    """Plant a program `rg` in a folder; it leaves a trace when it is run."""

    def plant(folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rg").write_text(f"#!/bin/sh\ntouch '{project}/was-run'\n")
        (folder / "rg").chmod(0o755)
        return folder

    return plant


@pytest.mark.skipif(os.name == "nt", reason="the planted program is a script")
@pytest.mark.parametrize("how", ["inside", "relative", "empty", "through a link", "up and down"])
def test_a_ripgrep_of_the_project_is_not_taken(
    call: Call,
    project: Path,
    tmp_path: Path,
    planted: Callable[[Path], Path],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    """Case 54: a program in the workspace that comes first on PATH."""
    folder = planted(project if how == "empty" else project / "bin")
    (tmp_path / "link").symlink_to(folder)
    entries = {"inside": str(folder), "relative": "bin", "empty": "", "through a link": str(tmp_path / "link"),
               "up and down": f"{tmp_path}/link/../bin"}  # fmt: skip
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", os.pathsep.join([entries[how], os.environ["PATH"]]))
    make(project, a=b"needle\n")

    result = call("grep", pattern="needle", path="a")

    assert result.content == "a:1: needle"
    assert not (project / "was-run").exists()


@pytest.mark.skipif(os.name == "nt", reason="the planted program is a script")
def test_a_link_inside_the_project_to_a_program_outside_is_not_taken(
    call: Call, project: Path, tmp_path: Path, planted: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 54: who can write the link decides what is run in the end."""
    (project / "bin").mkdir()
    (project / "bin/rg").symlink_to(planted(tmp_path / "elsewhere") / "rg")
    monkeypatch.setenv("PATH", os.pathsep.join([str(project / "bin"), os.environ["PATH"]]))
    make(project, a=b"needle\n")

    result = call("grep", pattern="needle", path="a")

    assert result.content == "a:1: needle"
    assert not (project / "was-run").exists()


@pytest.mark.skipif(os.name == "nt", reason="such names are not possible on Windows")
@pytest.mark.parametrize(
    "name",
    ["-o", "--pre=sh", "--files", "-f", "-", "--", "-e needle", "--null", "-o/tmp/x", "--pre=sh/a", "a\nb", "a:1: b"],
)
def test_a_file_named_like_an_option_is_a_file(call: Call, project: Path, engine: str, name: str) -> None:
    """Case 55: operands come after `--`."""
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text("needle\n")

    whole, one = call("grep", pattern="needle"), call("grep", pattern="needle", path=name)

    assert whole.summary == one.summary == "1 match in 1 file"
    assert [str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()] == [name]


@pytest.mark.skipif(os.name == "nt" or shutil.which("sleep") is None, reason="the stand-in for ripgrep is a script")
def test_cancelling_the_run_ends_a_search_under_way(
    project: Path, tmp_path: Path, workspace_host: Callable[[], Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 9: the signal reaches processes; a slow ripgrep (a huge tree, a hung network disk) is one."""
    (tmp_path / "bin").mkdir()
    script = f"#!/bin/sh\ntouch '{tmp_path}/started'\nsleep 2\ntouch '{tmp_path}/late'\n"
    (tmp_path / "bin/rg").write_text(script)
    (tmp_path / "bin/rg").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]]))
    make(project, a=b"needle\n")

    async def go() -> ToolResult:
        host = workspace_host()
        agent = await host.create_agent(session=Session.new(project))
        run, results = host.submit_call(agent, ToolCall("1", "grep", json.dumps({"pattern": "needle"})))
        while not (tmp_path / "started").exists():  # noqa: ASYNC110  (another process makes it)
            await asyncio.sleep(0.01)
        run.cancel("a person pressed Ctrl-C")
        await run.wait()
        return results[0]

    result = asyncio.run(go())

    assert not (tmp_path / "late").exists(), "the search was waited for until its own end"
    assert (result.status, result.code) == ("aborted", "ABORTED")


def test_a_search_that_ripgrep_does_not_survive_is_not_taken_for_no_match(
    call: Call, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ripgrep 13 panics on some patterns, also after a part of its output."""
    (tmp_path / "bin").mkdir()
    script = "#!/bin/sh\ncase $* in *--null*) printf './a\\0001:needle\\n'; exit 101;; esac\nexit 1\n"
    (tmp_path / "bin/rg").write_text(script)
    (tmp_path / "bin/rg").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]]))
    make(project, a=b"needle\n", b=b"needle\n")

    result = call("grep", pattern="needle")

    assert result.status == "error" or result.content == "a:1: needle\nb:1: needle"


def test_every_argument_of_grep_is_checked(call: Call, project: Path) -> None:
    wrong: list[dict[str, Any]] = [
        {},
        {"pattern": 1},
        {"pattern": "x", "glob": 1},
        {"pattern": "x", "ignore_case": "yes"},
    ]

    assert {call("grep", **arguments).code for arguments in wrong} == {"INVALID_ARGS"}
