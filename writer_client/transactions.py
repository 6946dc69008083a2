"""Transactions of writers: their events become visible together, and their time is noted when they are durable.

Only the log has whether a commit happened. So what is to be noted is kept with the commit, as a memo: what is kept
before may speak of events that were never written, and what is kept after may be missing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Self

from strandline.logs import Event, events_of
from strandline.wire.streams import NoteAnswer
from writer_client.session import Begun, Times, by_key


class _CountedTransaction:
    """The events of a transaction so far, which the session counts on commit."""

    def __init__(self, begun: Begun, aborted: Callable[[Begun], None]) -> None:
        """`aborted` is called when the transaction is aborted."""
        self._begun = begun
        self._aborted = aborted

    def _write(self, events: Iterable[Event], newest: Times | None) -> None:
        rows, greatest = events_of(events), by_key(newest, newest=True)
        self._begun.transaction.write(rows)
        self._begun.written.add(len(rows), greatest)

    def _abort(self) -> None:
        self._begun.transaction.abort()
        self._aborted(self._begun)


class WriterTransaction(_CountedTransaction):
    """A transaction of a writer. Leaving the `with` block without a commit aborts it: nothing is noted."""

    def __init__(
        self,
        begun: Begun,
        commit: Callable[[Begun, Times | None], NoteAnswer | None],
        aborted: Callable[[Begun], None],
    ) -> None:
        super().__init__(begun, aborted)
        self._commit = commit

    def write(self, events: Iterable[Event], *, newest: Times | None = None) -> None:
        """Adds events, which readers see after the commit; `newest` as in `Writer.write`."""
        self._write(events, newest)

    def commit(self, time: Times | None = None) -> NoteAnswer | None:
        """Makes the events durable and visible, and then notes the time with the position behind the commit.

        Returns the answer to the note; None from a `BackgroundWriter`, which does not wait for it. Without a time
        nothing is noted; the next note covers the events. With automatic notes, only a time beyond the clock is noted.
        The log keeps the time with the commit: if this process ends before the note is answered, the next one notes it
        on registering.

        If the commit fails, raises its error: nothing is written. If only the note fails, raises CommittedWithoutNote.
        With a time, raises TransactionUnderWay while another transaction of the writer is open. With a
        `BackgroundWriter`, a failed commit counts as a failed write.
        """
        return self._commit(self._begun, time)

    def abort(self) -> None:
        """Drops the events. Does nothing after a commit or an abort."""
        self._abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()


class AsyncWriterTransaction(_CountedTransaction):
    """A transaction of an `AsyncWriter`."""

    def __init__(
        self,
        begun: Begun,
        commit: Callable[[Begun, Times | None], Awaitable[NoteAnswer | None]],
        aborted: Callable[[Begun], None],
        in_turn: Callable[[Callable[[], None]], Awaitable[None]],
    ) -> None:
        """`in_turn` runs work in another thread, after all work before it."""
        super().__init__(begun, aborted)
        self._commit = commit
        self._in_turn = in_turn

    async def write(self, events: Iterable[Event], *, newest: Times | None = None) -> None:
        """See `WriterTransaction.write`."""
        await self._in_turn(partial(self._write, events, newest))

    async def commit(self, time: Times | None = None) -> NoteAnswer | None:
        """See `WriterTransaction.commit`."""
        return await self._commit(self._begun, time)

    async def abort(self) -> None:
        """See `WriterTransaction.abort`."""
        await self._in_turn(self._abort)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.abort()
