"""Many notes in one request: httpx gets slower with every concurrent request, and notes are small.

Waiting notes are sent together, at most BATCH_NOTES and BATCH_BYTES at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from strandline.client import calls
from strandline.client.calls import Call, Clocked, clocked
from strandline.core.note import Note
from strandline.errors import StrandlineError
from strandline.limits import BODY_BYTES, NOTES_PER_REQUEST
from strandline.wire.streams import NoteAnswer

BATCH_NOTES: Final = NOTES_PER_REQUEST  # as many as a controller takes
BATCH_BYTES: Final = BODY_BYTES - 1_024  # the rest of the request takes less than the difference

Results = tuple[NoteAnswer | StrandlineError, ...]


@dataclass(frozen=True, slots=True)
class Addressed:
    """A note and its stream."""

    stream: str
    note: Note

    @property
    def size_bytes(self) -> int:
        """The greatest size of the note in a request: names are ASCII, and numbers have at most 17 characters."""
        note = self.note
        keys = sum(2 * len(key) + 50 for key in (*note.times, *note.newest))
        return 120 + len(self.stream) + len(note.writer) + keys + sum(len(name) + 22 for name in note.position)


def count_for_batch(sizes_bytes: Sequence[int]) -> int:
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
