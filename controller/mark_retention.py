"""Removes marks below the head of a stream, and marks older than its `mark_retention_ms`.

Seqs have no gaps, so the oldest marks are removed first. The newest mark at or below the head stays, and so does the
newest of all. The mark that an active reader group has passed last, and those after it, are not removed for their age.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from heapq import heappop, heappush
from typing import Final

from controller.clock import Clock
from controller.commit.journal import AdminAction, few
from controller.commit.store import Store, after_commit
from controller.groups.membership import position_in
from controller.groups.service import Groups
from controller.storage.groups import groups_that_read
from controller.storage.marks import MarksGone, StoredMarks
from controller.storage.session import StoreConnection
from controller.streams.loaded_stream import LoadedStream
from controller.streams.reads import Reads
from controller.streams.registry import Streams
from strandline.core.cut import Cut
from strandline.core.note import check_position
from strandline.core.segment import SegmentGraph
from strandline.errors import StrandlineError

RETENTION_CHECK_MS: Final = 10_000  # the least time between two checks of a stream
RETENTION_MARKS: Final = 10_000  # of a key, removed at once
RETENTION_STREAMS: Final = 100  # checked in one heartbeat


class Retention:
    """Removes marks that no reader can need, a bounded number at a time."""

    def __init__(self, streams: Streams, reading: Reads, groups: Groups, store: Store, clock: Clock) -> None:
        self._streams = streams
        self._reading = reading
        self._groups = groups
        self._store = store
        self._clock = clock
        self._due: list[tuple[int, str]] = []
        self._scheduled: set[str] = set()  # the streams in `_due`

    # -- below the head ------------------------------------------------------------------------------------------

    async def truncate(self, name: str, position: Mapping[str, int], by: str | None = None) -> tuple[Cut, SegmentGraph]:
        """Moves the head: the log no longer has what is below it. Returns the head, and the graph to show it with."""
        check_position(position)
        act = AdminAction("truncated", by, {"head": few(position)})
        head = await self._streams.change(name, lambda stream, now: stream.truncate(position, now), act)
        with after_commit():
            loaded, passed = await self._streams.get(name), dict[str, int]()
            for key in list(loaded.chains):
                seq = (await self._reading.sides(loaded, key, head)).seq
                loaded = await self._streams.get(name)
                if seq is not None:
                    passed[key] = seq
            if passed:

                def prune(loaded: LoadedStream, _: int) -> None:
                    for key, seq in passed.items():
                        loaded.prune(key, seq)

                await self._streams.alter(name, prune)
            return head, (await self._streams.get(name)).stream.graph

    # -- by age --------------------------------------------------------------------------------------------------

    async def run_due(self) -> None:
        """Checks the streams that are due."""
        now = self._clock.now()
        for loaded in self._streams.in_memory():
            if loaded.stream.config.mark_retention_ms is not None and loaded.name not in self._scheduled:
                self._schedule(loaded.name, now)
        turns = 0
        while self._due and self._due[0][0] <= now and turns < RETENTION_STREAMS:
            turns += 1
            _, name = heappop(self._due)
            self._scheduled.discard(name)
            next_check: int | None = now + RETENTION_CHECK_MS
            # The store is away or damaged, or the stream was deleted meanwhile: check it again later.
            with suppress(StrandlineError, MarksGone):
                next_check = await self._remove_old(name, now)
            if next_check is not None:
                self._schedule(name, next_check)

    def _schedule(self, name: str, until: int) -> None:
        self._scheduled.add(name)
        heappush(self._due, (until, name))

    async def _remove_old(self, name: str, now: int) -> int | None:
        """Removes old marks of a stream; returns when to check again, None if it is not loaded or keeps all marks."""
        moments = []
        loaded = self._streams.find_loaded(name)
        if loaded is None:
            return None
        for key in list(loaded.chains):
            retention = loaded.stream.config.mark_retention_ms
            if retention is None:
                return None
            first, last = loaded.oldest_seqs[key], loaded.chains[key].last_seq
            if first >= last:
                continue  # the newest stays
            most = min(last, first + RETENTION_MARKS)
            seq, created_at = await self._store.read(_first_young, name, key, now - retention, first, most)
            moments.append(max(created_at + retention + 1, now + RETENTION_CHECK_MS))
            if seq > first and (needed := await self._least_needed(name, key, now - retention)) is not None:
                seq = min(seq, needed)
            if self._streams.find_loaded(name) is not loaded:
                return now + RETENTION_CHECK_MS  # it was loaded again, or is another stream of this name
            if seq > first:
                loaded.prune(key, seq)
                self._streams.write_soon(loaded)
        return min(moments, default=now + RETENTION_CHECK_MS)

    async def _least_needed(self, name: str, key: str, since: int) -> int | None:
        """The seq of the oldest mark that bounds a group with a reader heard since then."""
        needed: int | None = None
        for group in await self._store.read(groups_that_read, name):
            loaded = await self._streams.get(name)
            progress = await self._groups.progress_in(group, name, loaded.origin.identity)
            if progress is None or progress[0] < since:
                continue
            read = progress[1]
            loaded = await self._streams.get(name)
            passed = (await self._reading.sides(loaded, key, position_in(loaded.stream.graph, read))).seq
            if passed is not None:
                needed = passed if needed is None else min(needed, passed)
        return needed


def _first_young(
    connection: StoreConnection, stream: str, key: str, since: int, first: int, last: int
) -> tuple[int, int]:
    """The seq and creation time of the first of these marks created since then, or else of the last one."""
    with connection.begin():
        marks = StoredMarks(connection, stream, key)
        low, high = first, last
        while low < high:  # creation times never decrease, so a binary search works
            middle = (low + high) // 2
            if marks.get(middle).created_at < since:
                low = middle + 1
            else:
                high = middle
        return low, marks.get(low).created_at
