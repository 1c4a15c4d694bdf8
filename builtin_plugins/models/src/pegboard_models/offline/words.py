"""Other words that programs use for what people say; general to programming, and short on purpose."""

from typing import Final

from pegboard_models.offline.task import stem

_GROUPS: Final = (
    "drop remove strip discard delete pop",
    "choose chosen select pick decide determine guess prefer resolve",
    "check validate verify",
    "parse split",
    "join merge combine",
    "convert turn translate map",
    "stop break abort halt",
    "call invoke",
    "order sort priority",
    "error exception",
    "fail error raise",
    "wait sleep",
    "start begin",
    "end finish close",
    "create make build",
    "default fallback",
    "flag option opt",
    "send write",
    "receive read",
    "store save cache",
    "refuse reject deny",
    "retry attempt",
    "earlier previous past history",
    "later subsequent",
    "place position insert",
    "argument arg param parameter",
    "specification spec",
    "implementation impl",
    "configuration config settings",
    "command cmd",
    "function func callback",
    "message msg",
    "directory dir folder",
    "environment env",
    "connection conn",
    "request req",
    "response resp",
    "expression expr",
    "attribute attr",
    "temporary temp tmp",
    "number num count",
    "password secret credential",
)
_MEANINGS: Final = {stem(word): group.split() for group in reversed(_GROUPS) for word in group.split()}


def also(word: str) -> tuple[str, ...]:
    """Return words that may stand in code for this one."""
    return tuple(other for other in _MEANINGS.get(stem(word), ()) if other != word)
