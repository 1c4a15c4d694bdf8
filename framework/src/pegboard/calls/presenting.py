"""What the person who is asked about a call is shown of it: what its tool says, capped, its failures contained."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pegboard.base.frozen import freeze, thaw
from pegboard.base.isolation import describe
from pegboard.calls.pack_views import GuardedCall
from pegboard.values.presentation import Presentation

MAX_DIFF: Final = 20_000
_MAX_TITLE: Final = 400
_MAX_LOCATIONS: Final = 50


async def presented(call: GuardedCall) -> Mapping[str, Any]:
    """Ask a call's tool what it would do; frozen JSON, empty if the tool doesn't say."""
    present = call.tool.present
    if present is None:
        return freeze({})  # type: ignore[no-any-return]
    directory, arguments = call.agent.session.directory, thaw(call.arguments)
    try:
        shown = await asyncio.to_thread(lambda: _capped(present(directory, **arguments)))
    except Exception as error:
        shown = Presentation("other", f"it can't be shown what the call would do: {describe(error)}"[:_MAX_TITLE])
    return freeze(shown.as_json() if shown else {})  # type: ignore[no-any-return]


def _capped(shown: Presentation | None) -> Presentation | None:
    if shown is None:
        return None
    if not isinstance(shown, Presentation):
        raise TypeError(f"`present` returned {type(shown).__name__}, not Presentation or None")
    more = len(shown.diff) - MAX_DIFF
    diff = f"{shown.diff[:MAX_DIFF]}\n({more:,} more characters)" if more > 0 else shown.diff
    return replace(shown, title=shown.title[:_MAX_TITLE], locations=tuple(shown.locations)[:_MAX_LOCATIONS], diff=diff)
