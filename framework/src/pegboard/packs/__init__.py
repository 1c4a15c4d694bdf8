"""Packs: found by their entry points, decided about, loaded, started and taken away again."""
