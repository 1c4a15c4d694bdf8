"""Agents, their runs, and the loop of a run with a model."""
