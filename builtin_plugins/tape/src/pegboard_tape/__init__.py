"""The `tape` pack: every session's append-only record, kept in one SQLite file, and the tools over it."""

__version__ = "0.1.0"
