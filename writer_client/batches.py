"""Many notes in one request: httpx gets slower with every concurrent request, and notes are small.

Waiting notes are sent together, at most BATCH_NOTES and BATCH_BYTES at a time. No note is delayed for a batch: while
one batch is under way, the next one gathers.
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
    """A note and its stream: what a job yields to have it sent."""

    stream: str
    note: Note

    @property
    def size_bytes(self) -> int:
        """The greatest size of the note in a request: names are ASCII, and numbers have at most 17 characters."""
        note = self.note
        keys = sum(2 * len(key) + 50 for key in (*note.times, *note.newest))
        return 120 + len(self.stream) + len(note.writer) + keys + sum(len(name) + 22 for name in note.position)


def count_for_batch(sizes_bytes: Sequence[int] | deque[int]) -> int:
    """Returns how many of these notes fit into the next request; at least one."""
    total = count = 0
    for size_bytes in itertools.islice(sizes_bytes, BATCH_NOTES):
        total += size_bytes
        if count and total > BATCH_BYTES:
            break
        count += 1
    return count


def call_for(batch: Sequence[Addressed]) -> Call[Clocked[Results]]:
    """Returns one request for a batch; its answer has the controller's clock. Raises an error that concerns all."""
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
        """The same with one attempt for each call, for callers that repeat it themselves."""
        if self._once is None:
            connection = self._connection.with_patience(replace(self.patience, attempts=1))
            self._once = AsyncNotes(connection, self._turn)
        return self._once

    async def run(self, call: Call[Any]) -> Any:
        """Makes a call other than a note, when one of CALLS_AT_ONCE is free."""
        async with self._turn:
            return await self._connection.run(call)

    async def send(self, addressed: Addressed) -> Clocked[NoteAnswer]:
        """Sends a note, together with others that wait. Raises the controller's refusal."""
        answered: asyncio.Future[Clocked[NoteAnswer]] = asyncio.get_running_loop().create_future()
        self._waiting.append((addressed, answered))
        if len(self._senders) < BATCHES_AT_ONCE:
            sender = asyncio.create_task(self._send_all())
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        return await answered

    async def _send_all(self) -> None:
        await asyncio.sleep(0)  # gathers the notes of this turn of the loop
        while self._waiting:
            count = count_for_batch([each.size_bytes for each, _ in self._waiting])
            batch = [self._waiting.popleft() for _ in range(count)]
            try:
                answer = await self._connection.run(call_for([each for each, _ in batch]))
            except BaseException as error:
                for _, answered in batch:
                    if not answered.done():
                        _raise_in(answered, error)
                if not isinstance(error, Exception):
                    raise
                continue
            for (_, answered), result in zip(batch, answer.value, strict=True):
                if answered.done():  # the waiting caller was cancelled
                    continue
                if isinstance(result, StrandlineError):
                    answered.set_exception(result)
                else:
                    answered.set_result(Clocked(result, answer.clock))


def _raise_in(answered: asyncio.Future[Clocked[NoteAnswer]], error: BaseException) -> None:
    if isinstance(error, asyncio.CancelledError):
        answered.cancel()
    else:
        answered.set_exception(error)


# By the connection's id, which stays unique while its AsyncNotes lives and holds it.
_notes: weakref.WeakValueDictionary[int, AsyncNotes] = weakref.WeakValueDictionary()


def notes_of(connection: AsyncConnection) -> AsyncNotes:
    """Returns the AsyncNotes that all writers on a connection share, as long as there are any."""
    found = _notes.get(id(connection))
    if found is None:
        found = _notes[id(connection)] = AsyncNotes(connection)
    return found
