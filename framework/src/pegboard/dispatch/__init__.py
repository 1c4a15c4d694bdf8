"""Calling hook implementations: who, in which order, isolated from each other, under the hook's policy."""
