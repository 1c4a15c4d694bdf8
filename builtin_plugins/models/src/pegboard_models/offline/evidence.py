"""From hits to evidence: which passages hold most of a task's words, close together, rare words counting more."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

AROUND: Final = 30
LENGTH: Final = 24
MAX_PLACES: Final = 6
MAX_CITED: Final = 5
MAX_GROWN: Final = 40
_HIT: Final = re.compile(r"^(?P<path>[^\s:][^:\n]*):(?P<line>\d+)(?:-\d+)?:? ?(?P<text>.*)$", re.MULTILINE)
_NUMBERED: Final = re.compile(r"^ *(\d+)\t(.*)$", re.MULTILINE)
_DEFINES: Final = re.compile(
    r"^(?P<indent>\s*)(?:(?:pub|public|private|protected|static|export|default|async|abstract|final|inline)\s+)*"
    r"(?:def|class|function|func|fn|interface|struct|enum|trait|impl|module|type)\s+(?P<name>[A-Za-z_]\w*)"
)
_PROSE: Final = re.compile(r"\s*(?!#|//)(?:[^\s=(){}\[\];]+\s+){3,}[^\s=(){}\[\];]+\s*")
_DOCUMENT: Final = re.compile(r"\.(md|rst|txt|adoc)$|(^|/)LICEN[SC]E$", re.IGNORECASE)
_MANIFEST: Final = re.compile(r"(^|/)(pyproject\.toml|setup\.(cfg|py)|package\.json|Cargo\.toml|go\.mod)$")
_ASIDE: Final = re.compile(
    r"(^|/)(tests?|testing|docs?|examples?|benchmarks?|scripts|vendor)/|(^|/)(test_|conftest)|_test\."
    r"|\.(md|rst|txt|toml|lock|json|ya?ml|html|svg|cfg|ini|in)$|(^|/)(PKG-INFO|LICENSE|AUTHORS)$",
    re.IGNORECASE,
)
_HISTORY: Final = re.compile(
    r"(^|/)(CHANGE|HISTORY|NEWS|RELEASE|AUTHORS|CONTRIBUT|PKG-INFO|.*\.egg-info/)", re.IGNORECASE
)
_HEADING: Final = re.compile(r"^(?P<marks>#{1,6})\s+(?P<name>.+?)\s*#*$")
_UNDERLINE: Final = re.compile(r"^([=\-~^\"'*+#])\1{2,}\s*$")


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the task: how it is found as said, and in other words; `weight` grows with its rarity."""

    word: str
    said: re.Pattern[str]
    meant: re.Pattern[str]
    weight: float = 1.0

    def strength(self, text: str) -> float:
        """Return how well a line speaks of the term: as said 1, in other words 0.5, else 0."""
        return 1.0 if self.said.search(text) else 0.5 if self.meant.search(text) else 0.0


@dataclass(frozen=True, slots=True)
class Hit:
    """A line of a file that some tool pointed at."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """Lines `first` to `last` of a file, how much speaks for them, and the line that says most."""

    path: str
    first: int
    last: int
    score: float
    best: int


def hits_in(text: str) -> list[Hit]:
    """Return every `path:line: text` that a tool's output holds."""
    return [Hit(found["path"], int(found["line"]), found["text"]) for found in _HIT.finditer(text)]


def numbered_lines(text: str) -> dict[int, str]:
    """Return the numbered lines that a reading tool printed."""
    return {int(number): line for number, line in _NUMBERED.findall(text)}


def weigh(terms: Sequence[Term], hits: Iterable[Hit]) -> list[Term]:
    """Return the terms with weights: the fewer lines speak of one, the more it tells."""
    lines = {(hit.path, hit.line): hit.text for hit in hits}
    found = Counter(term.word for text in lines.values() for term in terms if term.strength(text) == 1.0)
    return [
        Term(term.word, term.said, term.meant, term.weight * math.log(2 + len(lines) / (1 + found[term.word])))
        for term in terms
    ]


def best_places(
    files: Mapping[str, Mapping[int, str]], terms: Sequence[Term], most: int, *, everywhere: bool, use: bool = False
) -> list[Place]:
    """Return the passages of some lines of some files that speak most of the terms, best first, none overlapping.

    Tests and documents count less unless `everywhere`; for questions about `use` documents count as code does.
    """
    found: list[Place] = []
    for path, lines in files.items():
        factor = 1.0 if everywhere else _factor(path, use)
        found.extend(_passages(path, lines, terms, factor))
    kept: list[Place] = []
    for place in sorted(found, key=lambda place: (-place.score, place.path, place.first)):
        if len(kept) == most:
            break
        if all(place.path != other.path or place.first > other.last or place.last < other.first for other in kept):
            kept.append(place)
    return kept


def _factor(path: str, use: bool) -> float:
    if _HISTORY.search(path):
        return 0.4
    if use and (_DOCUMENT.search(path) or _MANIFEST.search(path)):
        return 1.2
    return 0.4 if _ASIDE.search(path) else 1.0


def _passages(path: str, lines: Mapping[int, str], terms: Sequence[Term], factor: float) -> Iterable[Place]:
    """Yield one passage from each line that says something; it stays inside the definition that the line is in."""
    speaking = {n: said for n, text in sorted(lines.items()) if (said := _said(text, terms))}
    inside = _sections(lines) if _DOCUMENT.search(path) else _definitions(lines)
    in_path = _said(path, terms)
    numbers = list(speaking)
    for index, first in enumerate(numbers):
        home = inside[first]
        within = [n for n in numbers[index : index + LENGTH] if n < first + LENGTH and inside[n] is home]
        around = {**in_path, **_said(home.names, terms)}
        score = _score([speaking[n] for n in within], around, terms)
        best = max(within, key=lambda n: (sum(t.weight * speaking[n].get(t.word, 0) for t in terms), -n))
        whole = home.names and home.last - home.first < MAX_GROWN
        start, end = (home.first, home.last) if whole else (first, within[-1])
        yield Place(path, start, end, factor * score, best)


def _score(lines: Sequence[Mapping[str, float]], around: Mapping[str, float], terms: Sequence[Term]) -> float:
    """Add up what each term has to say: its best line, a little for more lines, a little for names around."""
    total = 0.0
    for term in terms:
        strengths = sorted((said[term.word] for said in lines if term.word in said), reverse=True)
        if strengths:
            total += term.weight * (strengths[0] + 0.25 * min(sum(strengths[1:]), 4))
        total += 0.6 * term.weight * around.get(term.word, 0)
    for one, other in pairwise(terms):
        if any(one.word in said and other.word in said for said in lines):
            total += 0.25 * (one.weight + other.weight)
    return total


def _said(text: str, terms: Sequence[Term]) -> dict[str, float]:
    """Return what a line says of each term; prose, such as a docstring, counts less than code that does something."""
    factor = 0.6 if _PROSE.fullmatch(text) else 1.0
    return {term.word: factor * strength for term in terms if (strength := term.strength(text))}


@dataclass(slots=True)
class _Definition:
    """Lines `first` to `last` that one definition has for itself, and its name after those that it stands in."""

    indent: int
    first: int
    last: int
    names: str


def _definitions(lines: Mapping[int, str]) -> dict[int, _Definition]:
    """Return for each line the innermost definition that it stands in, as far as the lines tell."""
    outermost = _Definition(-1, min(lines, default=0), max(lines, default=0), "")
    inside: dict[int, _Definition] = {}
    stack = [outermost]
    for number in sorted(lines):
        text = lines[number]
        indent = len(text) - len(text.lstrip())
        found = _DEFINES.match(text)
        while text.strip() and stack[-1].indent >= indent and (found or text.strip()[0] not in ")]}"):
            stack.pop()
        if found:
            stack.append(_Definition(indent, number, number, f"{stack[-1].names} {found['name']}".strip()))
        if text.strip():
            stack[-1].last = max(stack[-1].last, number)
        inside[number] = stack[-1]
    return inside


def _sections(lines: Mapping[int, str]) -> dict[int, _Definition]:
    """Return for each line of a document the section that it stands in, as far as the lines tell."""
    current = _Definition(-1, min(lines, default=0), max(lines, default=0), "")
    inside: dict[int, _Definition] = {}
    fenced = False
    for number in sorted(lines):
        text = lines[number]
        fenced ^= text.lstrip().startswith(("```", "~~~"))
        heading = None if fenced else _HEADING.match(text)
        if heading or (text.strip() and _UNDERLINE.match(lines.get(number + 1, "")) and not _UNDERLINE.match(text)):
            current = _Definition(0, number, number, heading["name"] if heading else text.strip())
        if text.strip():
            current.last = max(current.last, number)
        inside[number] = current
    return inside


def by_file(hits: Iterable[Hit]) -> dict[str, dict[int, str]]:
    """Group hits as file -> line number -> text."""
    files: dict[str, dict[int, str]] = defaultdict(dict)
    for hit in hits:
        files[hit.path][hit.line] = hit.text
    return files
