"""The one thread that writes: what waits goes into one transaction, so many writers share one wait for the disk."""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pegboard import PegboardError

_T = TypeVar("_T")
Work = Callable[[sqlite3.Connection], _T]
_GROUP: Final = 256


class Refused(Exception):
    """Raised by a piece of work before it wrote anything: it fails with `error`, and what is beside it goes on."""

    def __init__(self, error: Exception) -> None:
        self.error = error


@dataclass(slots=True, eq=False)
class _Job(Generic[_T]):
    work: Work[_T]
    durable: bool
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[_T]"

    async def end(self) -> _T:
        """Wait for the end of the work; being cancelled meanwhile is raised after it."""
        cancelled: asyncio.CancelledError | None = None
        while True:
            try:
                result = await self.future
                break
            except asyncio.CancelledError as error:
                cancelled = error
                if not self.future.cancelled():
                    break
                self.future = self.loop.create_future()
            except Exception:
                if cancelled is None:
                    raise
                break
        if cancelled is not None:
            raise cancelled
        return result

    def settle(self, result: Any, error: Exception | None) -> None:
        """Say how the work ended; in the loop of whoever waits."""
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


_Ended = tuple[_Job[Any], Any, Exception | None]


class Writer:
    """Runs pieces of work in transactions that begin with BEGIN IMMEDIATE, in the order in which they came.

    `durable` work is on the disk when it is done, whatever happens to the machine; other work whatever happens to the
    process. `failed` turns an error of SQLite into one for people.
    """

    def __init__(
        self, connection: sqlite3.Connection, failed: Callable[[sqlite3.Error], PegboardError], durable: bool = False
    ) -> None:
        self._connection = connection
        self._failed = failed
        self._always_durable = durable
        self._is_durable = False
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._live, name="tape writer", daemon=True)
        self._closed = False

    async def run(self, work: Work[_T], *, durable: bool = False) -> _T:
        """Do a piece of work; being cancelled here waits for its end first, so that what was written can be read.

        Raises:
            PegboardError: SQLite failed, and nothing of it was written; or the store is closed.
        """
        if self._closed:
            raise PegboardError("the session store is closed; open it again")
        if not self._thread.is_alive():
            self._thread.start()
        loop = asyncio.get_running_loop()
        job: _Job[_T] = _Job(work, durable or self._always_durable, loop, loop.create_future())
        self._jobs.put(job)
        return await job.end()

    def close(self) -> None:
        """Finish what waits, and close the connection; once."""
        if self._closed:
            return
        self._closed = True
        if self._thread.is_alive():
            self._jobs.put(None)
            self._thread.join()
        self._connection.close()

    def _live(self) -> None:
        while True:
            first = self._jobs.get()
            jobs: list[_Job[Any]] = []
            while first is not None:
                jobs.append(first)
                if len(jobs) == _GROUP or self._jobs.empty():
                    break
                first = self._jobs.get()
            if jobs:
                self._write(jobs)
            if first is None:
                return

    def _write(self, jobs: list[_Job[Any]]) -> None:
        try:
            told = self._commit(jobs)
        except Exception as error:
            # Unless it is the file that can't be written: which of them failed? Each by itself, then.
            if len(jobs) > 1 and not isinstance(error, sqlite3.OperationalError):
                for job in jobs:
                    self._write([job])
                return
            told = [(None, self._failed(error) if isinstance(error, sqlite3.Error) else error)] * len(jobs)
        _tell([(job, result, failure) for job, (result, failure) in zip(jobs, told, strict=True)])

    def _commit(self, jobs: list[_Job[Any]]) -> list[tuple[Any, Exception | None]]:
        connection = self._connection
        if (durable := any(job.durable for job in jobs)) != self._is_durable:
            connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._is_durable = durable
        connection.execute("BEGIN IMMEDIATE")  # a deferred one fails at once when another process writes in between
        try:
            told = [_attempt(job.work, connection) for job in jobs]
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return told


def _attempt(work: Work[Any], connection: sqlite3.Connection) -> tuple[Any, Exception | None]:
    try:
        return work(connection), None
    except Refused as refused:
        return None, refused.error


def _tell(ended: list[_Ended]) -> None:
    """Wake those who wait: each event loop once, however many wait in it."""
    of_loops: dict[asyncio.AbstractEventLoop, list[_Ended]] = {}
    for one in ended:
        of_loops.setdefault(one[0].loop, []).append(one)
    for loop, mine in of_loops.items():
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, mine)


def _settle(ended: list[_Ended]) -> None:
    for job, result, error in ended:
        job.settle(result, error)
