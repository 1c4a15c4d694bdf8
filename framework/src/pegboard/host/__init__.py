"""The host: one process with its configuration, its packs and its agents."""
