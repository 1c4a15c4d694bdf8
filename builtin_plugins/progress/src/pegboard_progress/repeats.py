"""Telling when a model goes round in circles: the same calls with the same results, again and again (B26)."""

import json
import re
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final, Literal

from pegboard import ToolCall, ToolResult

CORRECTION: Final = (
    "The same calls have now given the same results twice in a row; once more will tell nothing new. "
    "Try something else, or answer with what is known."
)
_CORRECT_AT: Final = 2
_STOP_AT: Final = 4

# Compared in lower case, without `_` and `-`. What is not certain to be about the request itself is not among them: a
# circle that is missed ends at the limit of steps, one that is none would end good work.
_VOLATILE_KEYS: Final = frozenset(
    {"timestamp", "duration", "durationms", "elapsed", "elapsedms", "elapsedtime"}
    | {"requestid", "traceid", "spanid", "correlationid"}
)
_ACKNOWLEDGED: Final = frozenset(
    ("", "ok", "okay", "done", "true", "null", "none", "success", "succeeded", "completed")
)
_ACKNOWLEDGING_KEYS: Final = frozenset(("ok", "success", "status", "result"))

# Every pattern is linear on any text: what repeats without bound is followed by what it can't match itself. The hints
# begin with a fixed character, which is thirty times as fast to look for in a text that has no such thing.
_TIME_HINT: Final = re.compile(r"-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:")
_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]++)?)?(?:[Zz]|[+-][0-9]{2}:?[0-9]{2})?"
)
# `12 ms`, `0.35s`, `1.5 seconds`; not `the 1990s`, and no part of a word or number, unless that is an escaped newline.
_DURATION: Final = re.compile(
    r"[0-9](?:(?<![\w.,].)|(?<=\\[nrt].))[0-9,]*+"
    r"(?:(?:\.[0-9]++)?\s?(?:[mnµμ]s|[mnu]sec)|\.[0-9]++\s?s(?:ec(?:ond)?s?)?)\b"
)
_IDS: Final = "(?:request|trace|span|correlation)"
_UUID_HINT: Final = re.compile(r"-(?:[0-9a-fA-F]{4}-){3}")
_LABELLED_UUID: Final = re.compile(
    rf"(?:(?<![a-z])|(?<=\\[nrt])){_IDS}(?:[ _-]?id)?[\"']?\s{{0,3}}[:=#-]?\s{{0,3}}[\"']?"
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![0-9a-z])",
    re.IGNORECASE,
)
# A volatile key in JSON that is only a part of the text, such as a line of a log.
_FIELD: Final = re.compile(
    rf"\"(?:timestamp|duration(?:[_-]?ms)?|elapsed(?:[_-]?(?:ms|time))?|{_IDS}[_-]?id)\""
    r"\s{0,3}:\s{0,3}(?:\"[^\"\\\n]*+\"|-?[0-9][0-9.eE+-]*+)",
    re.IGNORECASE,
)


class Repeats:
    """Counts how often the last batch came in a row; it keeps no text but that batch's own.

    To go on where an earlier run ended, give a new one the batches of that run, in order; a result may have the
    correction at its end.
    """

    __slots__ = ("_asked", "_count", "_results")

    def __init__(self) -> None:
        self._asked: list[tuple[str, str]] = []
        self._results: tuple[ToolResult, ...] = ()
        self._count = 0

    def take(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> Literal["", "correct", "stop"]:
        """Take the next batch, the calls of one reply with their results; returns what is to be done about it.

        `correct`: it is the second of its kind in a row, tell the model `CORRECTION`. `stop`: it is at least the fourth
        and its results are more than acknowledgements, behind which something may move on unseen. Arguments are
        compared as values, results without times, durations and ids of requests.
        """
        asked = [(call.name, _canonical(call.arguments or "{}", _FAITHFUL)) for call in calls]
        # Results are read only where the calls are the same, which they seldom are.
        again = self._count > 0 and asked == self._asked and _ended(results) == _ended(self._results)
        self._count = self._count + 1 if again else 1
        self._asked, self._results = asked, tuple(results)
        if self._count == _CORRECT_AT:
            return "correct"
        return "stop" if self._count >= _STOP_AT and not all(map(_acknowledges, results)) else ""


def _ended(results: Sequence[ToolResult]) -> list[tuple[str, str | None, str]]:
    return [(result.status, result.code, _steady(result.content)) for result in results]


def _told(content: str) -> str:
    return content.strip().removesuffix(CORRECTION).strip()


def _steady(content: str) -> str:
    """Return what a result says, without what differs each time."""
    text = _told(content)
    if text.startswith(("{", "[")):
        text = _canonical(text, _STEADY)
    if _TIME_HINT.search(text):
        text = _TIME.sub("~", text)
    if _UUID_HINT.search(text):
        text = _LABELLED_UUID.sub("~", text)
    return _FIELD.sub("~", _DURATION.sub("~", text))


def _canonical(text: str, decoder: json.JSONDecoder) -> str:
    """Return JSON in one form, whatever the order of its keys; what is no JSON stays as it is."""
    try:
        return repr(decoder.decode(text))
    except (ValueError, RecursionError):
        return text


def _object(pairs: list[tuple[str, Any]]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(pairs, key=itemgetter(0)))  # stable: a key that comes twice keeps both its values, in order


def _object_without_volatile(pairs: list[tuple[str, Any]]) -> tuple[tuple[str, Any], ...]:
    return _object([pair for pair in pairs if pair[0].lower().replace("_", "").replace("-", "") not in _VOLATILE_KEYS])


_FAITHFUL: Final = json.JSONDecoder(object_pairs_hook=_object)
_STEADY: Final = json.JSONDecoder(object_pairs_hook=_object_without_volatile)


def _acknowledges(result: ToolResult) -> bool:
    """Whether a success says no more than that it is one, in a word or in an object of such words."""
    text = _told(result.content)
    if result.status != "ok":
        return False
    if not text.startswith("{"):
        return _is_word(text)
    try:
        pairs = _STEADY.decode(text)
    except (ValueError, RecursionError):
        return False
    return all(key.lower() in _ACKNOWLEDGING_KEYS and _is_word(json.dumps(value)) for key, value in pairs)


def _is_word(text: str) -> bool:
    return text.strip(" \"'.!").lower() in _ACKNOWLEDGED
