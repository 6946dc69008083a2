"""Many notes in one request: httpx gets slower with every request that is under way, and notes are small.

Notes that wait are sent together, at most BATCH_NOTES and BATCH_BYTES at a time. Nothing waits on purpose: while one
batch is under way, the next one gathers.
"""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from strandline.client import calls
from strandline.client.calls import Call, Clocked, clocked
from strandline.client.http import AsyncConnection
from strandline.client.retry import Patience
from strandline.core.note import Note
from strandline.errors import StrandlineError
from strandline.wire.streams import NoteAnswer
from writer_client.limits import BATCH_BYTES, BATCH_NOTES, BATCHES_AT_ONCE, CALLS_AT_ONCE

Results = tuple[NoteAnswer | StrandlineError, ...]


@dataclass(frozen=True, slots=True)
class Addressed:
    """A note, and the stream that it goes to."""

    stream: str
    note: Note

    @property
    def size_bytes(self) -> int:
        """At most what it takes in a request: names are ASCII, and numbers have at most 17 characters."""
        note = self.note
        keys = sum(2 * len(key) + 50 for key in (*note.times, *note.newest))
        return 120 + len(self.stream) + len(note.writer) + keys + sum(len(name) + 22 for name in note.position)


def count_for_batch(sizes_bytes: Sequence[int] | deque[int]) -> int:
    """How many of these fit into the next request; at least one."""
    total = count = 0
    for size_bytes in itertools.islice(sizes_bytes, BATCH_NOTES):
        total += size_bytes
        if count and total > BATCH_BYTES:
            break
        count += 1
    return count


def call_for(batch: Sequence[Addressed]) -> Call[Clocked[Results]]:
    """One request for a batch, and the clock in its answer. An error for all of them is raised."""
    if len(batch) == 1:
        return clocked(_single(batch[0]))
    if len({each.stream for each in batch}) == 1:
        return clocked(calls.notes(batch[0].stream, [each.note for each in batch]))
    return clocked(calls.notes_of_streams([(each.stream, each.note) for each in batch]))


def _single(each: Addressed) -> Call[Results]:
    return ((yield from calls.note(each.stream, each.note)),)


class AsyncNotes:
    """Sends the notes of all async writers that share a connection."""

    def __init__(self, connection: AsyncConnection, turn: asyncio.Semaphore | None = None) -> None:
        self._connection = connection
        self._waiting: deque[tuple[Addressed, asyncio.Future[Clocked[NoteAnswer]]]] = deque()
        self._senders: set[asyncio.Task[None]] = set()
        self._turn = turn if turn is not None else asyncio.Semaphore(CALLS_AT_ONCE)
        self._once: AsyncNotes | None = None

    @property
    def patience(self) -> Patience:
        return self._connection.patience

    @property
    def once(self) -> AsyncNotes:
        """The same with one attempt for each call, for those who repeat it themselves."""
        if self._once is None:
            connection = self._connection.with_patience(replace(self.patience, attempts=1))
            self._once = AsyncNotes(connection, self._turn)
        return self._once

    async def run(self, call: Call[Any]) -> Any:
        """Another call than a note, when it is its turn."""
        async with self._turn:
            return await self._connection.run(call)

    async def send(self, addressed: Addressed) -> Clocked[NoteAnswer]:
        """Sends a note, with others where there are any. Raises what it is answered with."""
        answered: asyncio.Future[Clocked[NoteAnswer]] = asyncio.get_running_loop().create_future()
        self._waiting.append((addressed, answered))
        if len(self._senders) < BATCHES_AT_ONCE:
            sender = asyncio.create_task(self._send_all())
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        return await answered

    async def _send_all(self) -> None:
        await asyncio.sleep(0)  # those who note in the same turn of the loop come along
        while self._waiting:
            count = count_for_batch([each.size_bytes for each, _ in self._waiting])
            batch = [self._waiting.popleft() for _ in range(count)]
            try:
                told = await self._connection.run(call_for([each for each, _ in batch]))
            except BaseException as error:
                for _, answered in batch:
                    if not answered.done():
                        _raise_in(answered, error)
                if not isinstance(error, Exception):
                    raise
                continue
            for (_, answered), result in zip(batch, told.value, strict=True):
                if answered.done():  # whoever waited was cancelled
                    continue
                if isinstance(result, StrandlineError):
                    answered.set_exception(result)
                else:
                    answered.set_result(Clocked(result, told.clock))


def _raise_in(answered: asyncio.Future[Clocked[NoteAnswer]], error: BaseException) -> None:
    if isinstance(error, asyncio.CancelledError):
        answered.cancel()
    else:
        answered.set_exception(error)


# By the connection's identity, which is its own for as long as its notes, which hold it, are there.
_notes: weakref.WeakValueDictionary[int, AsyncNotes] = weakref.WeakValueDictionary()


def notes_of(connection: AsyncConnection) -> AsyncNotes:
    """The one that all writers on a connection share, for as long as there is one."""
    found = _notes.get(id(connection))
    if found is None:
        found = _notes[id(connection)] = AsyncNotes(connection)
    return found
