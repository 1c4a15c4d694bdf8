"""Cancellation as a signal that bodies and processes can read, wait for and react to (rule 9)."""

import time
from collections.abc import Callable
from contextlib import suppress


class CancelSignal:
    """Set once, with its cause; the first cause wins. `given` is when, in monotonic seconds.

    `cancelled`, whether the signal has been given, is safe to read from any thread.
    """

    __slots__ = ("_callbacks", "cancelled", "cause", "given")

    def __init__(self) -> None:
        self.cancelled = False
        self.cause: str | None = None
        self.given = 0.0
        self._callbacks: dict[object, Callable[[], object]] = {}

    def cancel(self, cause: str) -> None:
        """Give the signal and run every callback once, newest first, whatever the others raise.

        To be called in the event loop's thread.
        """
        if self.cause is None:
            self.cause, self.given = cause, time.monotonic()
            self.cancelled = True
            while self._callbacks:
                with suppress(Exception):
                    self._callbacks.popitem()[1]()

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Run `callback` when the signal is given (at once if it was); returns an idempotent disposer."""
        if self.cause is not None:
            callback()
            return lambda: None
        key = object()
        self._callbacks[key] = callback

        def dispose() -> None:
            self._callbacks.pop(key, None)

        return dispose

    async def wait(self) -> str:
        """Wait for the signal; returns its cause."""
        import asyncio  # only here: packs are listed without it

        given = asyncio.Event()
        dispose = self.on_cancel(given.set)
        try:
            await given.wait()
        finally:
            dispose()
        return self.cause or ""
