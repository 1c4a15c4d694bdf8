"""How the words of a task are searched for: plain words by stem and likeness, names exactly, `Type.member` as such."""

import re
from typing import Final

from pegboard_models.offline.evidence import Term
from pegboard_models.offline.task import Task, stem
from pegboard_models.offline.words import also

_DEF: Final = r"^\s*(?:\w+\s+)*(?:def|func|fn|function)\s+"
# The lines that tell in which type a member stands.
_TYPE: Final = r"^\s*(?:\w+\s+)*(?:class|interface|struct|trait|impl|enum)\s+\w"


def pattern(term: str, task: Task) -> str:
    """Return the regular expression that a search for a term is given."""
    if is_qualified(term):
        return rf"{_exactly(term)}|{_DEF}{term.rpartition('.')[2]}\b|{_TYPE}"
    if term in task.names:
        return _exactly(term)
    return "|".join(dict.fromkeys(stem(word) for word in (term, *also(term))))


def is_qualified(term: str) -> bool:
    """Whether a term is a name with its owner's before it, such as `Client.send`."""
    return "." in term


def terms_of(task: Task) -> list[Term]:
    """Return what makes a line speak of each of the task's words."""
    return [_term(word, task) for word in task.terms]


def _term(word: str, task: Task) -> Term:
    if is_qualified(word):
        *_, owner, member = word.split(".")
        # Names of definitions come as `Client send`, the outer ones first.
        said = re.compile(rf"{_exactly(word)}\b|\b{owner}(?: \w+)* {member}$")
        return Term(word, said, re.compile(rf"{_DEF}{member}\b"), 2.0)
    flags = 0 if word in task.names else re.IGNORECASE
    said = re.compile(re.escape(word if word in task.names else stem(word)), flags)
    return Term(word, said, re.compile(pattern(word, task), flags), 1.5 if word in task.names else 1.0)


def _exactly(name: str) -> str:
    return re.sub(r"([^\w])", r"\\\1", name)
