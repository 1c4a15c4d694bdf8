"""What kind of answer a task wants, told from its form: an overview, how to use something, or what this model can't."""

import re
from typing import Final

from pegboard_models.offline.task import Task

_OVERVIEW: Final = re.compile(
    r"\bwhat\b.{0,20}\b(here|(this|the) (project|repo|repository|package|library|code ?base|program|app|tool|folder"
    r"|directory))\b( for| about| do| all about)?\s*[?.!]*\s*$"
    r"|\b(tell|explain|describe|summari[sz]e|overview|introduc\w+)\b.{0,30}\b(project|repo|repository|package|library"
    r"|code ?base)\b\W*$|^\W*(what|where) (is|am i) (this|here|it)\W*$",
    re.IGNORECASE,
)
_USE: Final = re.compile(
    r"\bhow (do|can|could|should|would|might|must) (i|we|you|one|people|users?)\b|\bhow to\b|\bwhat(?:'s| is| are)\b"
    r"|\bwhich (versions?|platforms?|licen[sc]es?)\b|\b(install|licen[sc]e|getting started|tutorial|usage)\b",
    re.IGNORECASE,
)
_WIDE: Final = re.compile(r"\btests?\b|\bdoc(s|umentation)?\b|\bexamples?\b|\breadme\b|\bchangelog\b", re.IGNORECASE)
_CHANGES: Final = re.compile(
    r"\W*(please )?(add|change|create|delete|fix|implement|make|refactor|remove|rename|run|update|write)\b",
    re.IGNORECASE,
)
_COUNTS: Final = re.compile(
    r"\bhow (many|much)\b|\bcount (the|all|how)\b|\b(the )?(total )?number of\b|\b(average|median|sum) of\b"
    r"|\b(most|fewest|longest|largest|biggest|shortest|smallest)"
    r" (files?|functions?|class(es)?|modules?|methods?|lines?)\b",
    re.IGNORECASE,
)
_CALCULATES: Final = re.compile(
    r"(?<![\w.])\d+(\.\d+)?\s*([+*/^\u00d7\u00f7]|\*\*| - | x |plus|minus|times|divided by)\s*\d", re.IGNORECASE
)
_ABSENCE: Final = re.compile(
    r"\b(which|what|are there|is there|list|find|any)\b.*\b(not|never|no|without|missing|lacks?|lacking|un(used|tested"
    r"|documented)|nowhere|dead code)\b|n't\b.*\b(have|has|test|tested|document|documented|used|call|called)\b",
    re.IGNORECASE,
)


def is_overview(task: Task) -> bool:
    """Whether it asks what all of this is."""
    return bool(_OVERVIEW.search(task.text)) and not task.names


def asks_for_use(task: Task) -> bool:
    """Whether documents may answer it as well as code: how to do something, what something is."""
    return bool(_USE.search(task.text))


def looks_everywhere(task: Task) -> bool:
    """Whether it speaks of tests and documents itself."""
    return bool(_WIDE.search(task.text))


def cannot(task: Task) -> str:
    """Return what of the task this model can't do, as a sentence; an empty string if it sees nothing of that kind."""
    if _CALCULATES.search(task.text):
        return "This model can't calculate."
    if _COUNTS.search(task.text):
        return "This model can't count or compare; it only finds places that hold the words."
    if _CHANGES.match(task.text):
        return "This model reads and quotes; it never changes anything."
    if _ABSENCE.search(task.text):
        return "This model can't tell what is missing or never happens; it only finds places that hold the words."
    return ""
