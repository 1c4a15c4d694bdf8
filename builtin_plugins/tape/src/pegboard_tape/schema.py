"""The SQLite file: its tables, how an older one is brought up to date, and what is refused untouched."""

import os
import sqlite3
import stat
from pathlib import Path
from typing import Final

from pegboard import PegboardError

APPLICATION_ID: Final = 0x50474254  # "PGBT"
BUSY_SECONDS: Final = 30.0
_OLDEST: Final = (3, 37, 0)  # STRICT tables
_HEADER: Final = 72  # SQLite's file format: user_version at byte 60, application_id at byte 68

NEVER_GOES: Final = """CREATE TRIGGER entry_never_goes BEFORE DELETE ON entry
    BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END"""
_NEVER_CHANGES: Final = """CREATE TRIGGER entry_never_changes BEFORE UPDATE ON entry
    BEGIN SELECT RAISE(ABORT, 'entries never change'); END"""
# REPLACE deletes without asking the triggers on DELETE.
_NEVER_REPLACED: Final = """CREATE TRIGGER entry_never_replaced BEFORE INSERT ON entry WHEN
    EXISTS(SELECT 1 FROM entry WHERE session = NEW.session AND id = NEW.id)
    OR EXISTS(SELECT 1 FROM entry WHERE seq = NEW.seq)
    OR EXISTS(SELECT 1 FROM entry WHERE session = NEW.session AND provenance = NEW.provenance)
    BEGIN SELECT RAISE(ABORT, 'entries are never replaced'); END"""

# One tuple of statements for each version of the file, applied in order; released ones never change.
MIGRATIONS: Final = (
    (
        """CREATE TABLE session(
            key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, incarnation TEXT NOT NULL UNIQUE, last INTEGER NOT NULL
        ) STRICT""",
        """CREATE TABLE entry(
            seq INTEGER PRIMARY KEY,
            session INTEGER NOT NULL REFERENCES session(key),
            id INTEGER NOT NULL,
            kind TEXT NOT NULL CHECK(kind IN ('event', 'anchor', 'message', 'tool_call', 'tool_result')),
            name TEXT NOT NULL,
            ref TEXT,
            ts REAL NOT NULL,
            provenance TEXT,
            text TEXT NOT NULL,
            payload TEXT NOT NULL CHECK(json_valid(payload)),
            UNIQUE(session, id)
        ) STRICT""",
        "CREATE INDEX entry_anchor ON entry(session, id) WHERE kind = 'anchor'",
        "CREATE INDEX entry_ref ON entry(session, ref) WHERE ref IS NOT NULL",
        "CREATE UNIQUE INDEX entry_provenance ON entry(session, provenance) WHERE provenance IS NOT NULL",
        # Contentless: what is indexed is made by `words.py`. Column sizes would only serve bm25, which is not used.
        """CREATE VIRTUAL TABLE word USING fts5(
            text, tag, content='', columnsize=0, tokenize='unicode61 remove_diacritics 2'
        )""",
        NEVER_GOES,
        _NEVER_CHANGES,
        _NEVER_REPLACED,
    ),
)


def open_file(path: Path) -> sqlite3.Connection:
    """Open the file for writing, made or brought up to date if need be; only its owner can read it.

    Raises:
        PegboardError: it is a link, no file of this pack, or of a newer one; then it is as it was.
    """
    _check_sqlite()
    _make_private(path)
    _check_header(path)
    connection = connect(path)
    try:
        _migrate(connection, path)
        # After it: the header of a new file is then in the file itself, where `_check_header` looks.
        connection.execute("PRAGMA journal_mode=WAL")
    except sqlite3.Error as error:
        connection.close()
        mend = (
            "use a Python whose SQLite has FTS5" if "fts5" in str(error) else "put it back as it was, or move it away"
        )
        raise PegboardError(f"{path} can't be used: {error}; {mend}") from None
    except BaseException:
        connection.close()
        raise
    return connection


def connect(path: Path) -> sqlite3.Connection:
    """Open one more connection to a file that `open_file` has opened before; it may go from thread to thread.

    Raises:
        PegboardError: it can't be opened.
    """
    try:
        made = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        made.execute("PRAGMA synchronous=NORMAL")
        made.execute("PRAGMA foreign_keys=ON")
    except sqlite3.Error as error:
        raise PegboardError(f"{path} can't be opened: {error}; see who owns it and whether it is a database") from None
    return made


def _check_sqlite() -> None:
    if sqlite3.sqlite_version_info < _OLDEST:
        told = f"SQLite {sqlite3.sqlite_version} is too old to keep sessions"
        raise PegboardError(f"{told}; use a Python that has 3.37 or later, or disable pack `tape`")


def _make_private(path: Path) -> None:
    if path.is_symlink():  # said plainly; O_NOFOLLOW refuses one that comes after this look
        raise PegboardError(f"{path} is a link; sessions are kept in a plain file only, remove it")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError as error:
        raise PegboardError(f"{path} can't be opened: {error.strerror}; see who owns it and its folder") from None
    try:
        if os.name != "nt" and stat.S_IMODE(os.fstat(file).st_mode) & 0o077:
            os.fchmod(file, 0o600)
    finally:
        os.close(file)


def _check_header(path: Path) -> None:
    """Refuse a file of somebody else, or of a newer Pegboard, before SQLite could write a byte of it (case 68)."""
    with path.open("rb") as file:
        header = file.read(_HEADER)
    if not header:
        return
    application = int.from_bytes(header[68:72], "big")
    if not header.startswith(b"SQLite format 3\0") or application != APPLICATION_ID:
        raise PegboardError(f"{path} is not a file that pack `tape` made; move it away, or set packs.tape.path")
    _check_version(int.from_bytes(header[60:64], "big"), path)


def _check_version(version: int, path: Path) -> None:
    if version > len(MIGRATIONS):
        told = f"{path} is of a newer Pegboard (version {version}, this one knows {len(MIGRATIONS)})"
        raise PegboardError(f"{told}; it was left as it is: pip install -U pegboard-tape, or set packs.tape.path")


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if _version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection)  # another process may have been quicker
        _check_version(version, path)
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)
