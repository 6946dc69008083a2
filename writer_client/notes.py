"""Notes on their way: the queue of one writer, and how many of them go in one request.

httpx gets slower with every concurrent request, and notes are small: waiting ones are sent together.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Final

from strandline.client import calls
from strandline.client.calls import Call, Clocked, clocked
from strandline.core.note import Note
from strandline.errors import StrandlineError
from strandline.limits import BODY_BYTES, NOTES_PER_REQUEST
from strandline.wire.streams import NoteAnswer

WAITING_NOTES_PER_WRITER: Final = 64  # while the controller is away; beyond it, the later of each two notes is kept
BATCH_NOTES: Final = NOTES_PER_REQUEST  # as many as a controller takes
BATCH_BYTES: Final = BODY_BYTES - 1_024  # the rest of the request takes less than the difference

Results = tuple[NoteAnswer | StrandlineError, ...]


@dataclass(frozen=True, slots=True)
class Pending:
    """A note without its writer. `asks`: it repeats the last note to get the controller's clock. `may_be_done`: it was
    sent before, and the answer was lost. `awaited`: who waits for its answer."""

    times: Mapping[str, int]
    position: Mapping[str, int]
    newest: Mapping[str, int] = field(default_factory=dict)
    from_log: bool = False
    asks: bool = False
    may_be_done: bool = False
    awaited: tuple[Future[NoteAnswer], ...] = ()

    def without(self, keys: Collection[str]) -> Pending | None:
        """Returns the note without some keys; None if no key is left."""
        times = {key: time for key, time in self.times.items() if key not in keys}
        return replace(self, times=times) if times else None


class WaitingNotes:
    """A queue of at most WAITING_NOTES_PER_WRITER notes. Beyond that it merges every second note into the next one:
    cuts get looser, but stay correct."""

    __slots__ = ("_notes",)

    def __init__(self) -> None:
        self._notes: list[Pending] = []

    def add(self, pending: Pending) -> None:
        """Adds a newer note. It replaces the note before it if that has the same position."""
        notes = self._notes
        if notes and notes[-1].position == pending.position and not notes[-1].asks:
            notes[-1] = merged(notes[-1], pending)
        else:
            notes.append(pending)
            self._thin()

    def take(self) -> list[Pending]:
        """Removes and returns all notes, oldest first."""
        notes, self._notes = self._notes, []
        return notes

    def put_back(self, notes: list[Pending]) -> None:
        """Puts back notes that were taken and not answered, before all newer ones."""
        self._notes = notes + self._notes
        self._thin()

    def _thin(self) -> None:
        while len(self._notes) > WAITING_NOTES_PER_WRITER:
            notes = self._notes
            odd = len(notes) % 2
            self._notes = notes[:odd] + [merged(*notes[at : at + 2]) for at in range(odd, len(notes), 2)]

    def __iter__(self) -> Iterator[Pending]:
        return iter(self._notes)

    def __len__(self) -> int:
        return len(self._notes)


def merged(earlier: Pending, later: Pending) -> Pending:
    """Merges two notes into one that promises no more: their times, at the later position."""
    position = {**earlier.position, **later.position}
    for segment, offset in earlier.position.items():
        position[segment] = max(offset, position[segment])
    if position == later.position:
        newest = later.newest
    else:  # the later note's `newest` holds only below its own position
        both = earlier.newest.keys() & later.newest.keys()
        newest = {key: max(earlier.newest[key], later.newest[key]) for key in both}
    return Pending(
        times={**earlier.times, **later.times},
        position=position,
        newest=newest,
        from_log=later.from_log,
        asks=earlier.asks or later.asks,
        may_be_done=earlier.may_be_done or later.may_be_done,
        awaited=earlier.awaited + later.awaited,
    )


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
