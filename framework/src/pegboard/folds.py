"""What a session's record says, for packs and programs: pure functions of its entries."""

from pegboard.record.folds import (
    InteractionRecord,
    Messages,
    RunRecord,
    interactions,
    message_of,
    result_of,
    runs,
    snapshots,
    start_of,
    transcript,
)

__all__ = [
    "InteractionRecord",
    "Messages",
    "RunRecord",
    "interactions",
    "message_of",
    "result_of",
    "runs",
    "snapshots",
    "start_of",
    "transcript",
]
