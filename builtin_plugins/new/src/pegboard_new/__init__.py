"""The `new` pack: a command that starts a pack from the template."""

__version__ = "0.1.0"
