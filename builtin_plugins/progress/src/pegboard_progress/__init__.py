"""Pack `progress`: a model that repeats the same calls with the same results is told so, and then stopped."""

__version__ = "0.1.0"
