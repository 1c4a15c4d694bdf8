"""Text from outside, made safe and short enough to show."""

import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pegboard.base.text import count, did_you_mean, one_line, printable

# Arabic and Kaithi number signs are "format" characters too, but they have a shape.
VISIBLE_FORMAT = {*map(chr, (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD))}
ANY_TEXT = st.text(st.characters(exclude_categories=[]))


def unsafe(character: str) -> bool:
    """Whether a character acts on the terminal, reorders a line, or hides in it."""
    if character in "\t\n" or character in VISIBLE_FORMAT:
        return False
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


ESCAPES = {
    "a colour": ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
    "clearing the screen": ("\x1b[2J\x1bc", "\\x1b[2J\\x1bc"),
    "a link (OSC 8)": ("\x1b]8;;http://x\x1b\\text\x1b]8;;\x07", "\\x1b]8;;http://x\\x1b\\text\\x1b]8;;\\x07"),
    "the clipboard (OSC 52)": ("\x1b]52;c;ZXZpbA==\x07", "\\x1b]52;c;ZXZpbA==\\x07"),
    "an eight-bit sequence": ("\x9b31m\x9d0;title\x9c", "\\x9b31m\\x9d0;title\\x9c"),
    "a carriage return": ("allowed\rdenied ", "allowed\\rdenied "),
    "a backspace": ("no\b\byes", "no\\x08\\x08yes"),
    "a bell, a form feed, a delete": ("\x07\x0c\x7f", "\\x07\\x0c\\x7f"),
    "a zero byte": ("a\0b", "a\\x00b"),
    "a right-to-left override": ("evil\u202etxt.exe", "evil\\u202etxt.exe"),
    "isolates": ("\u2066a\u2069\u2067\u2068", "\\u2066a\\u2069\\u2067\\u2068"),
    "direction marks": ("\u200e\u200f\u061c", "\\u200e\\u200f\\u061c"),
    "tag characters": ("hi\U000e0001\U000e0068\U000e007f", "hi\\U000e0001\\U000e0068\\U000e007f"),
    "zero width": ("pass\u200bword\u200c\u200d\u2060\ufeff", "pass\\u200bword\\u200c\\u200d\\u2060\\ufeff"),
    "a soft hyphen": ("r\xadm", "r\\xadm"),
    "line separators": ("a\u2028b\u2029c\x85d", "a\\u2028b\\u2029c\\x85d"),
    "lone surrogates": ("\ud800 \udcff", "\\ud800 \\udcff"),
    "annotations": ("\ufff9a\ufffab\ufffb", "\\ufff9a\\ufffab\\ufffb"),
}


@pytest.mark.parametrize(("text", "shown"), ESCAPES.values(), ids=ESCAPES)
def test_what_a_terminal_could_act_on_is_shown_as_an_escape(text: str, shown: str) -> None:
    """Engine-store-security C.3 cases 38, 39 and 44, rule 15."""
    assert printable(text) == shown


PLAIN = ["", "plain", "tab\tand\nnewline", "Grüße, Ωμέγα", "日本語 한국어 עברית العربية", "👍🏽 ⚠️", "C:\\x1b", "\ufffd"]


@pytest.mark.parametrize("text", PLAIN)
def test_plain_text_of_any_language_is_unchanged(text: str) -> None:
    assert printable(text) == text


INVISIBLE = [0x34F, 0x115F, 0x3164, 0xFFA0, 0x1BCA0, 0x1D173, 0xE0100, 0xE01EF]


@pytest.mark.parametrize("code", INVISIBLE, ids=hex)
def test_a_character_without_any_shape_is_shown_as_an_escape(code: int) -> None:
    """C.3 case 39: what carries hidden words, as tag characters and the later variation selectors do, is visible."""
    assert printable(f"a{chr(code)}b").isascii()


def test_no_character_of_unicode_is_shown_that_could_act_or_hide() -> None:
    shown = printable("".join(map(chr, range(sys.maxunicode + 1))))

    assert {hex(ord(character)) for character in shown if unsafe(character)} == set()


@settings(deadline=None, max_examples=200)
@given(ANY_TEXT)
def test_shown_text_can_be_encoded_and_holds_nothing_unsafe_and_stays_as_it_is(text: str) -> None:
    shown = printable(text)

    assert not any(map(unsafe, shown))
    assert shown.encode("utf-8")[:0] == b""
    assert printable(shown) == shown


@settings(deadline=None, max_examples=200)
@given(st.text(st.characters(exclude_categories=["C", "Zl", "Zp", "M"], include_characters="\t\n")))
def test_text_of_letters_signs_and_spaces_is_unchanged(text: str) -> None:
    if not any(chr(code) in text for code in INVISIBLE):
        assert printable(text) == text


@settings(deadline=None, max_examples=200)
@given(ANY_TEXT, st.integers(2, 50))
def test_one_line_is_one_printable_line_of_at_most_the_width(text: str, width: int) -> None:
    line = one_line(text, width)

    assert len(line) <= width
    assert not any(map(unsafe, line))
    assert len(line.splitlines()) <= 1


def test_one_line_joins_lines_and_keeps_short_text() -> None:
    assert one_line("two\n  lines\tand a tab") == "two lines and a tab"
    assert one_line("exactly ten", 11) == "exactly ten"


@pytest.mark.parametrize("text", ["word " * 1000, "a" * 1001, "a" + " " * 5000 + "b", " " * 5000 + "b", "\x1b" * 300])
def test_one_line_says_when_it_left_something_out(text: str) -> None:
    """Nothing is cut silently."""
    line = one_line(text, 100)

    assert line.endswith("…") or line == " ".join(printable(text).split())


def test_a_count_agrees_with_its_noun() -> None:
    assert [count(number, "line") for number in (0, 1, 2, 12345)] == ["0 lines", "1 line", "2 lines", "12,345 lines"]
    assert [count(number, "match", "matches") for number in (1, 3)] == ["1 match", "3 matches"]


def test_the_nearest_known_name_is_suggested_and_a_far_one_is_not() -> None:
    assert did_you_mean("raed", ["write", "read"]) == "; did you mean `read`?"
    assert did_you_mean("frobnicate", ["write", "read"]) == ""
    assert did_you_mean("read", []) == ""
