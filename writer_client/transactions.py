"""Transactions of writers: what they write appears at once, and their time is noted when that is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Self

from strandline.logs import Event
from strandline.wire.streams import NoteAnswer
from writer_client.session import Begun, Job, Times, WriterSession, by_key


class _Written:
    """What was written in a transaction so far, for the session to count when it is committed."""

    def __init__(self, session: WriterSession, begun: Begun) -> None:
        self._session = session
        self._begun = begun

    def _write(self, events: Iterable[Event], newest: Times | None) -> None:
        rows = list(events)
        self._begun.transaction.write(rows)
        self._begun.written.add(len(rows), by_key(newest))

    def _commit(self, time: Times | None) -> Job[NoteAnswer | None]:
        return self._session.commit(self._begun, time)

    def _aborted(self) -> None:
        self._session.ended(self._begun, committed=False)


class WriterTransaction(_Written):
    """A transaction of a `Writer`. Leaving the `with` block without a commit aborts, and notes nothing."""

    def __init__(self, session: WriterSession, do: Callable[[Job[Any]], Any], begun: Begun) -> None:
        super().__init__(session, begun)
        self._do = do

    def write(self, events: Iterable[Event], *, newest: Times | None = None) -> None:
        """Adds events, which no one sees before the commit; `newest` as in `Writer.write`."""
        self._write(events, newest)

    def commit(self, time: Times | None = None) -> NoteAnswer | None:
        """Makes all of it durable and visible, and then notes the time, with the position behind the commit.

        Without a time nothing is noted, and nothing held back: what was written is covered by the next note. Returns
        the answer to the note. Where the commit fails, its error is raised and nothing is written; where it is done
        and only the note fails, CommittedWithoutNote. With a time it raises TransactionUnderWay while another
        transaction of the writer is open.
        """
        answer: NoteAnswer | None = self._do(self._commit(time))
        return answer

    def abort(self) -> None:
        """Forgets all of it. Harmless when it is over already."""
        self._begun.transaction.abort()
        self._aborted()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()


class AsyncWriterTransaction(_Written):
    """The same of an `AsyncWriter`."""

    def __init__(self, session: WriterSession, do: Callable[[Job[Any]], Awaitable[Any]], begun: Begun) -> None:
        super().__init__(session, begun)
        self._do = do

    async def write(self, events: Iterable[Event], *, newest: Times | None = None) -> None:
        """See `WriterTransaction.write`."""
        await asyncio.to_thread(self._write, events, newest)

    async def commit(self, time: Times | None = None) -> NoteAnswer | None:
        """See `WriterTransaction.commit`."""
        answer: NoteAnswer | None = await self._do(self._commit(time))
        return answer

    async def abort(self) -> None:
        """See `WriterTransaction.abort`."""
        await asyncio.to_thread(self._begun.transaction.abort)
        self._aborted()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.abort()
