"""The regular expressions that `grep` takes: what ripgrep and its Python stand-in both understand in the same way.

Anything else is refused by name, so that a search never depends on which of the two happens to be installed.
"""

import re
from typing import Final

from pegboard import ToolError

MAX_PATTERN: Final = 1000
MAX_REPEAT: Final = 1000
_ESCAPES: Final = frozenset("dDwWsSbBtfv")
_QUANTIFIER: Final = re.compile(r"\{([0-9]+)(,([0-9]*))?\}")
_GROUP: Final = re.compile(r"\(\?(:|P<[A-Za-z_][A-Za-z0-9_]*>|i:)")
_REFUSED_GROUPS: Final = (
    ("(?=", "look-ahead"), ("(?!", "look-ahead"), ("(?<=", "look-behind"), ("(?<!", "look-behind"),
    ("(?>", "an atomic group"), ("(?P=", "a back-reference"), ("(?(", "a conditional group"), ("(?#", "a comment"),
)  # fmt: skip


def check(pattern: str) -> None:
    """Refuse what the two engines would not read alike.

    Raises:
        ToolError: naming the construct and where it stands.
    """
    if not pattern:
        raise ToolError("the pattern is empty")
    if len(pattern) > MAX_PATTERN:
        raise ToolError(f"the pattern has {len(pattern):,} characters; at most {MAX_PATTERN:,} are taken")
    if "\n" in pattern or "\r" in pattern or "\0" in pattern:
        raise _refused("a line break or NUL", pattern, 0, "the search goes line by line")
    at = 4 if pattern.startswith("(?i)") else 0
    begins: list[bool] = []  # for each open group, whether a line can begin where it begins
    may_begin = True
    repeatable = repeated = False
    while at < len(pattern):
        here = pattern[at]
        quantifier = _quantifier_at(pattern, at)
        if quantifier:
            if repeated or not repeatable:
                raise _refused(f"`{quantifier}` with nothing to repeat", pattern, at, "escape it as \\" + quantifier[0])
            at += len(quantifier)
            if pattern[at : at + 1] == "?":
                at += 1
            repeated = True
            continue
        repeated = False
        repeatable = True
        if here == "\\":
            at += _escape(pattern, at)
        elif here == "[":
            at += _character_class(pattern, at)
        elif here == "(":
            begins.append(may_begin)
            repeatable = False
            at += _group(pattern, at)
            continue
        elif here == ")":
            if not begins:
                raise _refused("`)` without `(`", pattern, at, "escape it as \\)")
            begins.pop()
            at += 1
        elif here == "^" and not may_begin:
            raise _refused("`^` where no line can begin", pattern, at, "escape it as \\^")
        elif here == "{":
            raise _refused("`{`", pattern, at, "escape it as \\{")
        else:
            repeatable = here not in "|^$"
            at += 1
        may_begin = here == "^" or (here == "|" and (not begins or begins[-1]))
    if begins:
        raise _refused("`(` without `)`", pattern, len(pattern), "close it, or escape it as \\(")


def _quantifier_at(pattern: str, at: int) -> str:
    if pattern[at] in "*+?":
        return pattern[at]
    if found := _QUANTIFIER.match(pattern, at):
        low, high = int(found[1]), int(found[3] or found[1])
        if high > MAX_REPEAT or low > high:
            raise _refused(f"`{found[0]}`", pattern, at, f"counts go up to {MAX_REPEAT}, the smaller first")
        return found[0]
    return ""


def _escape(pattern: str, at: int) -> int:
    following = pattern[at + 1 : at + 2]
    if not following:
        raise _refused("a backslash at the end", pattern, at, "write \\\\ for a backslash")
    if following in "xu" and (code := re.match(r"[0-9A-Fa-f]{2}" * (1 if following == "x" else 2), pattern[at + 2 :])):
        number = int(code[0], 16)
        if number in (10, 13) or 0xD800 <= number <= 0xDFFF:
            raise _refused(f"`\\{following}{code[0]}`", pattern, at, "no line has that character")
        return 2 + len(code[0])
    if following in _ESCAPES or (following.isascii() and not following.isalnum() and following not in "<>_ "):
        return 2
    names = {"n": "a line break", "r": "a carriage return", "p": "a Unicode class", "P": "a Unicode class"}
    what = "a back-reference" if following.isdigit() else names.get(following, "an escape the engines differ on")
    raise _refused(f"`\\{following}`, {what},", pattern, at, "leave it out")


def _character_class(pattern: str, at: int) -> int:
    end = at + (2 if pattern[at + 1 : at + 2] == "^" else 1)
    if pattern[end : end + 1] == "]":
        raise _refused("`]` first in a class", pattern, end, "escape it as \\]")
    while end < len(pattern) and pattern[end] != "]":
        pair = pattern[end : end + 2]
        if pair in ("&&", "--", "~~", "||"):
            raise _refused(f"`{pair}` in a class", pattern, end, "escape one of them")
        if pattern[end] == "[":
            raise _refused("`[` in a class", pattern, end, "escape it as \\[")
        if pair == "\\b" or pair == "\\B":
            raise _refused(f"`{pair}` in a class", pattern, end, "leave it out")
        end += _escape(pattern, end) if pattern[end] == "\\" else 1
    if end >= len(pattern):
        raise _refused("`[` without `]`", pattern, at, "close it, or escape it as \\[")
    classes = set(re.findall(r"\\(.)", pattern[at:end]))
    if pattern[at + 1] == "^" and any({one, one.upper()} <= classes for one in "dsw"):
        # The `regex` library takes it for any character.
        raise _refused(f"`{pattern[at : end + 1]}`, which no character is in,", pattern, at, "leave it out")
    return end + 1 - at


def _group(pattern: str, at: int) -> int:
    if not pattern.startswith("(?", at):
        return 1
    if found := _GROUP.match(pattern, at):
        return len(found[0])
    named = next((name for start, name in _REFUSED_GROUPS if pattern.startswith(start, at)), "a flag or group")
    remedy = "only (...), (?:...), (?i:...), (?P<name>...) and a leading (?i) are taken"
    raise _refused(f"`{pattern[at : at + 4]}`, {named},", pattern, at, remedy)


def _refused(what: str, pattern: str, at: int, remedy: str) -> ToolError:
    return ToolError(f"the pattern has {what} at character {at + 1}: {remedy}")
