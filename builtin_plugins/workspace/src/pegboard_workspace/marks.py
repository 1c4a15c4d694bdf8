"""What a session has read and written: the mark without which no existing file is changed."""

import hashlib
from typing import Final

from pegboard import Host, ToolContext, ToolError
from pegboard.events import Note

from pegboard_workspace.places import Place

NOTE: Final = "seen"


class Marks:
    """For each session the files that it knows, with the SHA-256 of their bytes; kept as notes in its record."""

    def __init__(self) -> None:
        self.host: Host | None = None  # set when it has started
        self._of: dict[str, dict[str, str]] = {}

    def leave(self, ctx: ToolContext, place: Place, data: bytes) -> None:
        """Remember that the session has seen these bytes."""
        seen, digest = self._known(ctx), sha256(data)
        if seen.get(place.shown) != digest:
            ctx.wait(ctx.note(NOTE, {"path": place.shown, "sha256": digest}))
            seen[place.shown] = digest

    def check(self, ctx: ToolContext, place: Place, data: bytes) -> None:
        """Refuse to change a file that is not as the session knows it; a program's own call is not asked for more.

        Raises:
            ToolError: with how to go on.
        """
        if any(touch.digest not in ("", sha256(data)) for touch in ctx.touches):
            raise ToolError(f"`{place.shown}` changed after the call was allowed; read it again")
        if ctx.by_program:
            return
        known = self._known(ctx).get(place.shown)
        if known is None:
            raise ToolError(f"`{place.shown}` is there and was not read in this session; read it first")
        if known != sha256(data):
            raise ToolError(f"`{place.shown}` is not as you last saw it: somebody changed it; read it again")

    def forget(self, session: str) -> None:
        """Let go of a session whose agent is gone; its record still knows."""
        self._of.pop(session, None)

    def _known(self, ctx: ToolContext) -> dict[str, str]:
        if ctx.session not in self._of:
            entries = ctx.wait(self.host.entries(ctx.session)) if self.host else ()
            notes = [entry.event for entry in entries if isinstance(entry.event, Note)]
            mine = [note.data for note in notes if note.pack == "workspace" and note.name == NOTE]
            self._of[ctx.session] = {str(data["path"]): str(data["sha256"]) for data in mine}
        return self._of[ctx.session]


def sha256(data: bytes) -> str:
    """The mark of a file's bytes."""
    return hashlib.sha256(data).hexdigest()
