"""What can be told from a task's words alone: names and quotes, paths, numbers, and the words worth searching for."""

import re
from dataclasses import dataclass
from typing import Final

MAX_READ: Final = 2000
MAX_TERMS: Final = 7

_QUOTED: Final = re.compile(r"`([^`\n]{1,80})`|\"([^\"\n]{1,80})\"")
_ENDING: Final = (
    "pyi?|md|rst|txt|toml|cfg|ini|json|ya?ml|lock|[jt]sx?|go|rs|java|kt|swift|cs|cc|cpp|hpp|[ch]|rb|php|lua|sh|sql|html?"
    "|css|xml|csv|ipynb|in"
)
_PATH: Final = re.compile(r"(?<![\w/])(?:[\w.-]+/)+[\w.-]*\w|(?<![\w/.])[\w-]+\.(?:" + _ENDING + r")(?![\w(.])")
_NAME: Final = re.compile(
    r"\b(?:[A-Za-z]\w*(?:\.[A-Za-z_]\w*)+|\w*[a-z0-9][A-Z]\w*|\w*[A-Za-z0-9]_\w*|__?\w+|[A-Z]{3,}\d*)\b"
)
_WORD: Final = re.compile(r"[^\W\d_][\w'-]*")
_NUMBER: Final = re.compile(r"(?<![\w.])\d+(?![\w.])")
_ENDINGS: Final = ("izations", "ization", "ations", "ation", "ingly", "ings", "ing", "ions", "ion", "ments", "ment",
                   "ers", "ies", "ied", "ally", "ed", "es", "er", "ly", "s", "e", "y")  # fmt: skip
_NOT_TERMS: Final = frozenset(
    """a about above actually after again all also although always am an and another any anything are as at away be
    because been before being below between both but by can case come comes could did do does doing done down each
    either else ever every everything explain find first for from get gets getting give given gives go goes going got
    had happen happens has have having here how i if in inside instead into is it its itself just keep kept know last
    let like look looked made make makes making many may me mean means might more most much must my need needs never
    no nor not nothing now of off on once one only onto or other our out over own part please put rather really same
    see several shall she should show shown since so some somebody someone something still such tell than that the
    their them then there these they thing things this those through to together too try two under until up upon us
    use used uses using very want was way we well were what whatever when where whether which while who whom whose why
    will with within without work works would yet you your code function method class file files line lines
    repository project implemented implementation defined""".split()  # noqa: SIM905  # a list would take a page
)


@dataclass(frozen=True, slots=True)
class Task:
    """A task taken apart. `terms` are the words to search for, names first; `cut`: only the start was read."""

    text: str
    quoted: tuple[str, ...]
    paths: tuple[str, ...]
    names: tuple[str, ...]
    terms: tuple[str, ...]
    numbers: tuple[int, ...]
    cut: bool


def understand(text: str) -> Task:
    """Take a task apart; only its first 2,000 characters are looked at."""
    start = text[:MAX_READ]
    quoted = tuple(one or other for one, other in _QUOTED.findall(start))
    paths = tuple(dict.fromkeys(_PATH.findall(start)))
    rest = _PATH.sub(" ", start)
    names = tuple(dict.fromkeys([*(q for q in quoted if re.fullmatch(r"[\w.]+", q)), *_NAME.findall(rest)]))
    words = [word.strip("'-") for word in _WORD.findall(rest)]
    plain = [word for word in words if word.lower() not in _NOT_TERMS and 2 < len(word) <= 40 and word not in names]
    terms = tuple(dict.fromkeys([*names, *(word.lower().removesuffix("'s") for word in plain)]))[:MAX_TERMS]
    return Task(start, quoted, paths, names, terms, tuple(map(int, _NUMBER.findall(start))), len(text) > MAX_READ)


def stem(word: str) -> str:
    """Return the part of a plain word that its forms share, at least four letters: `encoder`, `encoding` -> `encod`."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word
