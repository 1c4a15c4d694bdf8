"""The tape's tools: two for models (search and context), two for diagnosis, one for the runtime alone."""

# ruff: noqa: N803 - the parameters' names are those that models of other programs know

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pegboard import Entry, Tool, ToolContext, ToolError, tool
from pegboard.events import StepEnd
from pydantic import Field, StringConstraints

from pegboard_tape.anchors import handoff_data, handoff_name
from pegboard_tape.facts import Kind, fact_of
from pegboard_tape.links import head_of, linked
from pegboard_tape.rows import readable
from pegboard_tape.search import Found, Query, search
from pegboard_tape.store import TapeStore
from pegboard_tape.view import effective
from pegboard_tape.windows import Window, around, moment, refs_of, summary_of

PAIR: Final = ("tape_search", "tape_context")
UNAVAILABLE: Final = "Tape recall tools are not available for this conversation."

Scope = Literal["current", "linked_subagents", "current_and_linked"]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
GetStore = Callable[[], TapeStore | None]


def tape_tools(get_store: GetStore) -> list[Tool]:
    """Make the tools over a store; `get_store` returns it, or None where another pack keeps the sessions."""

    def store() -> TapeStore:
        if (found := get_store()) is None:
            raise ToolError(UNAVAILABLE)
        return found

    return [_search(store), _context(store), _info(store), _anchors(store), _handoff(store)]


def _search(store: Callable[[], TapeStore]) -> Tool:
    @tool(effect="read", exposure="system-model", summarize=lambda found: f"Found {len(found)} tape entries.")
    async def tape_search(
        query: Text,
        ctx: ToolContext,
        limit: Annotated[int, Field(ge=1, le=50)] = 20,
        kinds: list[Kind] | None = None,
        start: str | None = None,
        end: str | None = None,
        scope: Scope = "current",
    ) -> list[dict[str, Any]]:
        """Search what was said and done in this session, also what is no longer in front of you. Newest first.

        Words are found whatever their case, in any script; an entry has to have all of them. Nothing is query syntax.

        Args:
            query: Words, a path or a phrase that stands in the entry.
            limit: At most so many entries.
            kinds: Only these kinds of entries; all without it.
            start: Only what is not older: an ISO date-time, or milliseconds since 1970.
            end: Only what is not newer.
            scope: This session, those of its subagents as far as they had come when they ended, or both.
        """
        kept = store()
        wanted = Query(query, limit, tuple(kinds or ()), bound("start", start), bound("end", end))

        def work(connection: sqlite3.Connection) -> list[dict[str, Any]]:
            sources: dict[str, int | None] = {} if scope == "linked_subagents" else {ctx.session: None}
            if scope != "current":
                sources |= linked(connection, ctx.session)
            return hits_as_json(connection, search(connection, kept.blobs.get, wanted, sources))

        return await kept.look(work)

    return tape_search


def _context(store: Callable[[], TapeStore]) -> Tool:
    @tool(effect="read", exposure="system-model", summarize=lambda found: f"{len(found['entries'])} tape entries")
    async def tape_context(
        entryIds: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1, max_length=20)],
        ctx: ToolContext,
        before: Annotated[int, Field(ge=0, le=20)] = 2,
        after: Annotated[int, Field(ge=0, le=20)] = 2,
        limit: Annotated[int, Field(ge=1, le=100)] = 50,
        maxBytesPerEntry: Annotated[int, Field(ge=0, le=8192)] = 2048,
        maxTotalBytes: Annotated[int, Field(ge=0, le=65536)] = 16384,
        sourceSessionId: Text | None = None,
    ) -> dict[str, Any]:
        """Read entries that tape_search found, together with what stood around them.

        Args:
            entryIds: The entries, by their entryId.
            before: How many entries before each.
            after: How many entries after each.
            limit: At most so many entries altogether.
            maxBytesPerEntry: At most so many bytes of one entry's text.
            maxTotalBytes: At most so many bytes altogether; what you asked for comes first.
            sourceSessionId: The session of a subagent that the entries are of, as tape_search told it.
        """
        kept = store()
        window = Window(before, after, limit, maxBytesPerEntry, maxTotalBytes)
        source = sourceSessionId or ctx.session

        def work(connection: sqlite3.Connection) -> tuple[list[int], list[dict[str, Any]]]:
            head = None if source == ctx.session else head_of(connection, ctx.session, source)
            return around(connection, kept.blobs.get, source, entryIds, window, head)

        matched, entries = await kept.look(work)
        return {
            "sessionId": ctx.session,
            "sourceSessionId": source,
            "requestedEntryIds": sorted(set(entryIds)),
            "matchedEntryIds": matched,
            "entries": entries,
        }

    return tape_context


def _info(store: Callable[[], TapeStore]) -> Tool:
    @tool(effect="read", exposure="diagnostic")
    async def tape_info(ctx: ToolContext) -> dict[str, Any]:
        """Tell how long this session's record is, and where it was last summed up."""
        return info(ctx.session, await entries_of(store(), ctx.session))

    return tape_info


def _anchors(store: Callable[[], TapeStore]) -> Tool:
    @tool(effect="read", exposure="diagnostic")
    async def tape_anchors(ctx: ToolContext, limit: Annotated[int, Field(ge=1, le=100)] = 20) -> list[dict[str, Any]]:
        """Return the newest anchors of this session, oldest of them first, with all that they hold.

        Args:
            limit: At most so many.
        """
        return anchors(await entries_of(store(), ctx.session))[-limit:]

    return tape_anchors


def _handoff(store: Callable[[], TapeStore]) -> Tool:
    @tool(effect="read", exposure="runtime-only")
    async def tape_handoff(
        ctx: ToolContext, name: str = "", state: dict[str, Any] | None = None, meta: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Sum up what was said so far: the session goes on from the summary.

        Args:
            name: What the anchor is called; `handoff/` is put before it.
            state: `summary`, and what else whoever goes on should know.
            meta: Anything to keep with it.
        """
        data = handoff_data(state, meta, effective(await entries_of(store(), ctx.session)))
        await ctx.note(handoff_name(name), data)
        return {"name": handoff_name(name), **data}

    return tape_handoff


async def entries_of(store: TapeStore, session: str) -> list[Entry]:
    """Return the entries of a session that can be read."""
    chosen = "SELECT e.id, e.payload FROM entry e JOIN session s ON e.session = s.key WHERE s.id = ? ORDER BY e.id"
    return await store.look(lambda c: list(readable(c.execute(chosen, (session,)), store.blobs.get)))


def info(session: str, entries: Sequence[Entry]) -> dict[str, Any]:
    """Return what `tape_info` tells (TPS 2.7); how much came from a provider's cache is not known here."""
    rows = effective(entries)
    of_anchors = [entry for entry in rows if fact_of(entry.event).kind == "anchor"]
    last = of_anchors[-1] if of_anchors else None
    used = [entry.event.usage for entry in entries if isinstance(entry.event, StepEnd)]
    return {
        "sessionId": session,
        "entries": len(rows),
        "anchors": len(of_anchors),
        "lastAnchor": fact_of(last.event).name if last else None,
        "lastAnchorEntryId": last.id if last else None,
        "entriesSinceLastAnchor": sum(entry.id > last.id for entry in rows) if last else len(rows),
        "lastTokenUsage": used[-1].input_tokens + used[-1].output_tokens if used else None,
        "lastTokenCacheHitRate": None,
        "lastCacheReadTokens": None,
        "lastCacheWriteTokens": None,
        "migrationState": "ready" if rows else "none",
    }


def anchors(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return the anchors, in order, with all that they hold."""
    return [
        {"entryId": entry.id, "name": fact.name, "createdAt": moment(entry.event.ts), "payload": entry.event.as_json()}
        for entry in entries
        if (fact := fact_of(entry.event)).kind == "anchor"
    ]


def hits_as_json(connection: sqlite3.Connection, found: Found) -> list[dict[str, Any]]:
    """Return what was found as `tape_search` tells it: never a payload."""
    told = []
    for hit in found.hits:
        (payload,) = connection.execute("SELECT payload FROM entry WHERE seq = ?", (hit.seq,)).fetchone()
        one = {
            "sessionId": hit.session,
            "entryId": hit.id,
            "kind": hit.kind,
            "name": hit.name,
            "createdAt": moment(hit.ts),
            "summary": summary_of(hit.text),
            "refs": refs_of(payload),
        }
        told.append(one if hit.score is None else {**one, "score": hit.score})
    return told


def bound(name: str, text: str | None) -> float | None:
    """Return a moment in seconds since the epoch.

    Raises:
        ToolError: the text is neither an ISO date-time nor a number of milliseconds.
    """
    if text is None:
        return None
    try:
        if text.strip().isdecimal():
            return int(text) / 1000
        given = datetime.fromisoformat(text.strip())
        return (given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        told = f"`{name}` must be an ISO date-time such as 2026-01-31T09:00:00Z, or milliseconds since 1970"
        raise ToolError(told) from None
