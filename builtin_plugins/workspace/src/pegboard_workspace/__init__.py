"""The `workspace` pack: read, search, edit and run things in the session's directory."""

__version__ = "0.1.0"
