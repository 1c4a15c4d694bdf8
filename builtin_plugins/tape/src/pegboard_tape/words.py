"""What is put into the index for a text, and what is looked up for a query: plain words, never query syntax.

Runs of Chinese, Japanese and Korean, which no tokenizer of SQLite divides, are indexed as overlapping pairs of
characters and their last one: so a word of two characters, or of one, is found as well as a Latin word or a path.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

MAX_TERMS: Final = 256
_CJK: Final = re.compile(
    "[\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)


def clean(text: str) -> str:
    """Return a text that SQLite can hold: without NUL and lone surrogates."""
    if "\0" in text:
        text = text.replace("\0", " ")
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return text


def fold(text: str) -> str:
    """Return a text as it is compared: compatibility forms and case do not count."""
    if text.isascii():
        return text.lower()
    normal = text if unicodedata.is_normalized("NFKC", text) else unicodedata.normalize("NFKC", text)
    return normal.casefold()


def indexed(text: str) -> str:
    """Return what is indexed for a text."""
    if text.isascii():
        return text  # SQLite's tokenizer folds case itself
    return _CJK.sub(_in_pairs, fold(text))


def terms(query: str) -> list[str]:
    """Return the folded words of a query; a query of very many is one phrase."""
    found = fold(clean(query)).split()
    return found if len(found) <= MAX_TERMS else [" ".join(found)]


def match(found: list[str]) -> str:
    """Return an FTS5 expression that every text with these terms in it fulfils; "" if the index can't help.

    It may let through more: what it finds is compared with the terms again.
    """
    return " AND ".join(phrase for term in found for phrase in _phrases(term))


def may_be_parts(found: list[str]) -> bool:
    """Whether a text may have these terms in it and yet not fulfil their expression: as parts of words.

    There are none where everything that is indexed of the terms is CJK, whose every character begins a word.
    """
    return any(character.isalnum() for term in found for character in _CJK.sub("", term)) or not match(found)


def _in_pairs(run: re.Match[str]) -> str:
    text = run[0]
    return f" {' '.join([*_pairs(text), text[-1]])} "


def _pairs(text: str) -> list[str]:
    return [text[place : place + 2] for place in range(len(text) - 1)]


def _phrases(term: str) -> Iterator[str]:
    """Yield one phrase for each run of CJK and each piece between; the last word of a piece may go on."""
    place = 0
    for run in _CJK.finditer(term):
        yield from _piece(term[place : run.start()])
        yield f'"{" ".join(_pairs(run[0]))}"' if len(run[0]) > 1 else f'"{run[0]}"*'
        place = run.end()
    yield from _piece(term[place:])


def _piece(text: str) -> Iterator[str]:
    if any(character.isalnum() for character in text):
        yield '"' + text.replace('"', '""') + '"*'
