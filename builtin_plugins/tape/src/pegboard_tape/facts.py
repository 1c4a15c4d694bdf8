"""What an entry of a session's record is as a row of the tape: its kind, its name, what it refers to, its text.

A row without text is the record's own machinery (steps, snapshots): no view and no search shows it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pegboard import Event, RunEnd
from pegboard.events import Answered, Asked, Called, Dropped, Note, Rebound, Replied, Returned, Said, SessionStart

Kind = Literal["event", "anchor", "message", "tool_call", "tool_result"]

PACK: Final = "tape"
RETRACTED: Final = "message/retracted"
REVISED: Final = "message/revised"
LINKED: Final = "subagent/tape_linked"
LINK_REF: Final = "link:"
# What a session can be taken up from. Notes of other packs named `anchor/...` are anchors too, but none of these.
RECONSTRUCTION: Final = ("handoff/", "auto_handoff/", "compaction/")
_OTHER_ANCHORS: Final = "anchor/"
_HIDDEN: Final = ("execution/", "view/")
_MAX_TEXT: Final = 32_768


@dataclass(frozen=True, slots=True)
class Fact:
    """`ref` ties rows together: `call:ID` a call to its result, `entry:ID` a correction to the message it corrects,
    `link:ID` a link to the session it leads to.
    """

    kind: Kind
    name: str
    ref: str | None
    text: str


def fact_of(event: Event) -> Fact:
    """Return an event as a row. Any event is one; of a note whose data is not as it should be only the text is lost."""
    match event:
        case Said(text=text):
            return _fact("message", "user", text)
        case Replied(text=text):
            return _fact("message", "assistant", text)
        case Called(id=call, name=name, arguments=arguments):
            return _fact("tool_call", name, f"{name} {_plain(arguments)}", f"call:{call}")
        case Returned(id=call, name=name, content=content, summary=summary):
            return _fact("tool_result", name, content or summary, f"call:{call}")
        case Note():
            return _note(event)
        case SessionStart(directory=directory, agent=agent):
            return _fact("anchor", "session/start", f"{agent} in {directory}")
    return _fact("event", event.type or "unknown", _said(event))


def is_reconstruction_anchor(event: Event) -> bool:
    """Whether a session can be taken up from here: only this pack's own summaries count (TP13)."""
    return isinstance(event, Note) and event.pack == PACK and event.name.startswith(RECONSTRUCTION)


def corrected(event: Event) -> int | None:
    """Return the entry that a correction is about, or None if the event is none, or says so badly."""
    if not isinstance(event, Note) or event.name not in (RETRACTED, REVISED):
        return None
    target = event.data.get("entry")
    good = isinstance(target, int) and not isinstance(target, bool) and target > 0
    return target if good and (event.name == RETRACTED or isinstance(event.data.get("text"), str)) else None


def _note(note: Note) -> Fact:
    if (target := corrected(note)) is not None:
        revised = note.name == REVISED
        kind: Kind = "message" if revised else "event"
        return _fact(kind, note.name, str(note.data["text"]) if revised else "", f"entry:{target}")
    child = note.data.get("childSessionId")
    if note.name == LINKED and isinstance(child, str):
        return _fact("event", note.name, "", f"{LINK_REF}{child}")
    if note.name.startswith(_HIDDEN):
        return _fact("event", note.name, "")
    anchor = is_reconstruction_anchor(note) or note.name.startswith(_OTHER_ANCHORS)
    state = note.data.get("state")
    summary = state.get("summary") if isinstance(state, Mapping) else None
    text = summary if isinstance(summary, str) else _plain(note.data)
    return _fact("anchor" if anchor else "event", note.name, f"{note.name} {text}")


def _said(event: Event) -> str:
    match event:
        case Asked(tool=tool, reason=reason):
            return f"{tool} {reason}"
        case Answered(approved=approved, text=text):
            return text or ("yes" if approved else "no")
        case RunEnd(reason=reason, text=text):
            return "" if reason == "completed" else f"{reason} {text}"
        case Dropped(inputs=inputs, cause=cause):
            return f"{cause} {' '.join(inputs)}"
        case Rebound(agent=agent):
            return agent
    return ""


def _fact(kind: Kind, name: str, text: str, ref: str | None = None) -> Fact:
    return Fact(kind, name, ref, text[:_MAX_TEXT])


def _plain(data: Mapping[str, Any] | None) -> str:
    return "" if data is None else json.dumps(data, ensure_ascii=False, default=_thawed)


def _thawed(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else repr(value)
