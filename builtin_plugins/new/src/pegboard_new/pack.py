"""The pack: it has no hooks, everything is in its command."""
