"""BM25 by SQLite's full-text index, in memory: which of some texts fit some words best."""

import re
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Final

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def split_words(text: str) -> str:
    """Return the text with the parts of CamelCase words set apart; `_` and `.` part words in the index already."""
    return _CAMEL.sub(" ", text)


def rank(rows: Sequence[Sequence[str]], words: Iterable[str], weights: Sequence[float]) -> list[tuple[float, int]]:
    """Return (score, row number) of the rows that hold any of the words, best first; more is better.

    Every row has one text for each weight. Words match as whole words after stemming (Porter).
    """
    quoted = [f'"{word}"' for word in dict.fromkeys(re.findall(r"\w+", split_words(" ".join(words))))]
    if not quoted or not rows:
        return []
    columns = ", ".join(f"c{number}" for number in range(len(weights)))
    marks = ", ".join("?" * len(weights))
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"CREATE VIRTUAL TABLE t USING fts5({columns}, tokenize = 'porter unicode61')")
        texts = ((number, *map(split_words, row)) for number, row in enumerate(rows))
        database.executemany(f"INSERT INTO t(rowid, {columns}) VALUES (?, {marks})", texts)  # noqa: S608
        best = database.execute(
            f"SELECT -bm25(t, {marks}) AS score, rowid FROM t WHERE t MATCH ? ORDER BY score DESC, rowid",  # noqa: S608
            (*weights, " OR ".join(quoted)),
        )
        return [(float(score), int(row)) for score, row in best]
