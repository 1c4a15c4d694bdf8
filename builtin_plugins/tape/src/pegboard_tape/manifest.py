"""What exactly a request was made of, as a note of the record: no text, but ranges, budgets and hashes."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pegboard import Event
from pegboard.events import Note

NAME: Final = "view/assembled"
SCHEMA: Final = 1
POLICY: Final = "cache_aware_context_v1"
_NOT_HASHED: Final = ("viewId", "assembledAt", "hash")


def manifest(parts: Mapping[str, Any], assembled_at: float) -> dict[str, Any]:
    """Return a manifest: a copy of the parts, with its hash and what is made of that (TP34 to TP36).

    Raises:
        TypeError, ValueError: a part is no JSON.
    """
    made: dict[str, Any] = json.loads(json.dumps({**parts, "schema": SCHEMA, "policy": POLICY}, allow_nan=False))
    digest = digest_of(made)
    return {**made, "viewId": f"view_{digest[:16]}", "assembledAt": assembled_at, "hash": digest}


def is_untouched(told: Mapping[str, Any]) -> bool:
    """Whether a manifest says what it said when it was made."""
    return told.get("hash") == digest_of(told) and told.get("viewId") == f"view_{str(told['hash'])[:16]}"


def is_touched_manifest(event: Event) -> bool:
    """Whether an event is a manifest that no longer says what it said when it was made."""
    return isinstance(event, Note) and event.name == NAME and not is_untouched(event.as_json()["data"])


def digest_of(told: Mapping[str, Any]) -> str:
    """Return the hash of a manifest; neither the order of its keys nor the time counts."""
    counted = {key: value for key, value in told.items() if key not in _NOT_HASHED}
    return hashlib.sha256(json.dumps(counted, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def ranges(entries: Iterable[int], between: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return entries as ranges (first, last): those that follow each other in `between` are one."""
    places = {entry: place for place, entry in enumerate(between)}
    found: list[tuple[int, int]] = []
    last = -2
    for entry in entries:
        place = places.get(entry, -2)
        first = found.pop()[0] if found and place == last + 1 else entry
        found.append((first, entry))
        last = place
    return tuple(found)
