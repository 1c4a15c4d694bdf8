"""Masks what looks like a secret in everything that is recorded; what is masked is counted where it is shown."""

import re
from typing import Final

from pegboard import Entry, hooks, implements

MASK: Final = "[secret masked]"
# Every repetition is bounded or has one way to match only: hostile text costs no more than other text.
_SHAPES: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]{0,8192}?-----END [A-Z ]{0,30}PRIVATE KEY-----"
    r"|\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}|\b(?:sk|rk)_live_[A-Za-z0-9]{16,}"
    r"|\bgh[opsur]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{30,}|\bglpat-[A-Za-z0-9_-]{16,}"
    r"|\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{35}|\bhf_[A-Za-z0-9]{30,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    r"|(?<=://)[^\s/:@\"']{1,100}:[^\s/:@\"']{3,200}(?=@)"
)
# `password = "..."` and the like: the name stays, a value with a digit in it goes.
_NAMED: Final = re.compile(
    r"((?:api[_-]?key|secret|token|passw(?:or)?d|authorization)[\"']?\s{0,3}[=:]\s{0,3}[\"']?(?:Bearer )?)"
    r"(?=[A-Za-z+/_=.~-]{0,200}\d)[A-Za-z0-9+/_=.~-]{8,}",
    re.IGNORECASE,
)


def mask(text: str) -> str:
    """Return a text with a mark in the place of each secret-shaped token."""
    return _NAMED.sub(rf"\1{MASK}", _SHAPES.sub(MASK, text))


class Redactor:
    """The implementation of one agent: before the record, the model and whoever watches see an entry (case 65)."""

    @implements(hooks.filter_entry)
    def filter_entry(self, entry: Entry) -> Entry:
        """Mask every free text in an entry."""
        return entry.rewriting(mask)
