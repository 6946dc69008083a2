"""Transactions of writers: what they write appears at once, and their time is noted when that is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Self

from strandline.logs import Event
from strandline.wire.streams import NoteAnswer
from writer_client.session import Begun, Times, by_key


class _Written:
    """What was written in a transaction so far, for the session to count when it is committed."""

    def __init__(self, begun: Begun, ended: Callable[[Begun], None]) -> None:
        """`ended` is told of a transaction that was aborted."""
        self._begun = begun
        self._ended = ended

    def _write(self, events: Iterable[Event], newest: Times | None) -> None:
        rows = list(events)
        self._begun.transaction.write(rows)
        self._begun.written.add(len(rows), by_key(newest))


class WriterTransaction(_Written):
    """A transaction of a `Writer`. Leaving the `with` block without a commit aborts, and notes nothing."""

    def __init__(
        self,
        begun: Begun,
        commit: Callable[[Begun, Times | None], NoteAnswer | None],
        ended: Callable[[Begun], None],
    ) -> None:
        super().__init__(begun, ended)
        self._commit = commit

    def write(self, events: Iterable[Event], *, newest: Times | None = None) -> None:
        """Adds events, which no one sees before the commit; `newest` as in `Writer.write`."""
        self._write(events, newest)

    def commit(self, time: Times | None = None) -> NoteAnswer | None:
        """Makes all of it durable and visible, and then notes the time, with the position behind the commit.

        Without a time nothing is noted, and nothing held back: what was written is covered by the next note. Returns
        the answer to the note. Where the commit fails, its error is raised and nothing is written; where it is done
        and only the note fails, CommittedWithoutNote. With a time it raises TransactionUnderWay while another
        transaction of the writer is open. Beside the clock, which may be noted too, a time counts that goes beyond it.
        """
        return self._commit(self._begun, time)

    def abort(self) -> None:
        """Forgets all of it. Harmless when it is over already."""
        self._begun.transaction.abort()
        self._ended(self._begun)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()


class AsyncWriterTransaction(_Written):
    """The same of an `AsyncWriter`."""

    def __init__(
        self,
        begun: Begun,
        commit: Callable[[Begun, Times | None], Awaitable[NoteAnswer | None]],
        ended: Callable[[Begun], None],
    ) -> None:
        super().__init__(begun, ended)
        self._commit = commit

    async def write(self, events: Iterable[Event], *, newest: Times | None = None) -> None:
        """See `WriterTransaction.write`."""
        await asyncio.to_thread(self._write, events, newest)

    async def commit(self, time: Times | None = None) -> NoteAnswer | None:
        """See `WriterTransaction.commit`."""
        return await self._commit(self._begun, time)

    async def abort(self) -> None:
        """See `WriterTransaction.abort`."""
        await asyncio.to_thread(self._begun.transaction.abort)
        self._ended(self._begun)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.abort()
