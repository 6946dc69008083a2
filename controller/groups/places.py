"""A reader group's place in each of its streams: what it reads there, and whether the stream counts in its window.

Before a group goes on without an idle stream, it asks once more, with how far (`goes_to`). If the stream is idle
still, it keeps that, and shows it to a writer that comes back (`Stream.let_pass`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from controller.clock import Clock
from controller.commit.loop import Locked
from controller.groups.membership import StreamStart, position_in
from controller.streams.loaded_stream import LoadedStream
from controller.streams.reads import Reads
from controller.streams.registry import Streams
from controller.streams.time_index import TimeIndexes
from strandline.core.cut import Cut
from strandline.core.note import DEFAULT_KEY, NO_TIMES
from strandline.core.rest import LEFT_BY_THEMSELVES
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from strandline.core.time_index import bound_at
from strandline.core.window import TimeWindow
from strandline.core.writer import WriterState
from strandline.wire.groups import FromHead, FromPositions, FromTime, Start

BOUNDS_AT_ONCE: Final = 64  # that are looked up before other tasks run


class GroupStanding(StrEnum):
    """Whether a stream counts in a group's watermark, and if not, why."""

    COUNTED = "counted"
    IDLE = "idle"  # left out: the group has read all that was noted, and no writer is there that counts
    ENDED = "ended"  # left out: sealed and read to its end


class StreamRead(NamedTuple):
    """How far a group has read each segment of a stream."""

    identity: str
    offsets: Mapping[str, int]
    idle_timeout_ms: int | None  # the group's


class GroupPlace(NamedTuple):
    """A group's place in a stream: its position, the window of each key there, and whether the stream counts.

    `newest` is the time of the newest mark; `passed` is how far groups went on without the stream, by key. Where it is
    left out as idle, `set_aside` has the writers that an operator excluded: without them, the group's window is
    incomplete.
    """

    position: Mapping[str, int]
    windows: Mapping[str, TimeWindow]
    newest: int | None
    standing: GroupStanding
    set_aside: tuple[str, ...]
    passed: Mapping[str, int]


class Places:
    """Finds the places of groups in streams. It raises UnknownStream, StreamRecreated, what the store raises, and
    UnknownSegment or BeyondFinalOffset for a position that does not fit."""

    def __init__(self, streams: Streams, reading: Reads, indexing: TimeIndexes, clock: Clock) -> None:
        self._streams = streams
        self._reading = reading
        self._indexing = indexing
        self._clock = clock

    async def find(self, stream: str, identity: str | None) -> LoadedStream:
        loaded = await self._streams.get(stream)
        loaded.check_identity(identity)
        return loaded

    async def graphs(self, identities: Mapping[str, str]) -> Mapping[str, SegmentGraph]:
        """The graphs of streams with these identities."""
        return {stream: (await self.find(stream, each)).stream.graph for stream, each in identities.items()}

    async def start(self, stream: str, start: Start) -> StreamStart:
        """Where a group begins in a stream."""
        found = (await self._reading.at(stream, DEFAULT_KEY, start.time)).start if isinstance(start, FromTime) else None
        loaded = await self._streams.get(stream)
        match start:
            case FromPositions():
                found = loaded.stream.graph.cut(start.positions.get(stream, {}))
            case FromHead():
                found = loaded.stream.head
        assert found is not None
        return StreamStart(found, loaded.origin.identity)

    async def place(self, stream: str, read: StreamRead, goes_to: Mapping[str, int] = NO_TIMES) -> GroupPlace:
        """The place of a group that has read so far. If the stream is left out, the group `goes_to` these watermarks,
        by key."""
        loaded = await self.find(stream, read.identity)
        position = position_in(loaded.stream.graph, read.offsets)
        frontier, keys = loaded.stream.graph.frontier(position), sorted(loaded.stream.keys | {DEFAULT_KEY})
        windows = {key: await self._reading.window(stream, key, frontier) for key in keys}

        def found(loaded: LoadedStream) -> GroupPlace:
            standing, set_aside = GroupStanding.ENDED, tuple[str, ...]()
            if not windows[DEFAULT_KEY].end_of_stream:
                standing, set_aside = self._standing(loaded.stream, position, read.idle_timeout_ms)
            return GroupPlace(frontier, windows, _newest(loaded), standing, set_aside, dict(loaded.stream.passed))

        def let_pass(loaded: LoadedStream, locked: Locked) -> GroupPlace:
            """Under the lock. If the stream is idle still, it keeps how far the group goes on without it."""
            loaded.check_identity(read.identity)
            place = found(loaded)
            if place.standing is GroupStanding.IDLE and loaded.stream.let_pass(goes_to):
                locked.change(loaded)
            return place._replace(passed=dict(loaded.stream.passed))

        place = found(await self.find(stream, read.identity))
        if goes_to and place.standing is GroupStanding.IDLE:
            place = await self._streams.cache.change(stream, let_pass)
        return place

    async def bounds(
        self, stream: str, identity: str | None, offsets: Mapping[str, int], *, exact: bool
    ) -> tuple[int | None, Mapping[str, int | None]]:
        """The time of the newest mark; and by segment, a lower bound of the times of all events from an offset on.
        `exact` looks in the store for what is no longer in memory."""
        found = dict[str, int | None]()
        for segment, offset in offsets.items():
            found[segment] = await self._bound(stream, segment, offset, exact=exact)
            if len(found) % BOUNDS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return _newest(await self.find(stream, identity)), found

    async def _bound(self, stream: str, segment: str, offset: int, *, exact: bool) -> int | None:
        if not exact:
            chain = (await self._streams.get(stream)).chains.get(DEFAULT_KEY)
            return None if chain is None else bound_at(chain, segment, offset)
        entries, _ = await self._indexing.time_index(stream, segment, DEFAULT_KEY, offset, None, 1)
        return entries[0].time if entries and entries[0].offset <= offset else None

    def _standing(
        self, stream: Stream, position: Cut, idle_timeout_ms: int | None
    ) -> tuple[GroupStanding, tuple[str, ...]]:
        """Whether a stream that goes on counts for a group at this position, and whom it lacks if not.

        It counts until the group has read all that is known of it: what its writers wrote before they left is not late.
        """
        set_aside = self._absent(stream, idle_timeout_ms)
        if set_aside is None or not stream.is_read(position):
            return GroupStanding.COUNTED, ()
        return GroupStanding.IDLE, tuple(sorted(set_aside))

    def _absent(self, stream: Stream, idle_timeout_ms: int | None) -> list[str] | None:
        """The excluded writers of a stream whose other writers have left, or are silent for too long; None if somebody
        is there."""
        writers, forgotten = stream.writers.values(), stream.remainders.values()
        if idle_timeout_ms is not None and (writers or forgotten):
            now = self._clock.now()
            silent_ms = [stream.silent_ms(each, now) for each in writers]
            silent_ms += [stream.silent_ms(each, now) for each in forgotten]
            if min(silent_ms) >= idle_timeout_ms:
                return [each.name for each in writers if each.excluded_at is not None and not each.closed]
        if not writers and not any(each.closed for each in forgotten):
            return None
        excluded = []
        for writer in writers:
            states = stream.states(writer).values()
            if WriterState.EXCLUDED in states:
                excluded.append(writer.name)
            elif any(state not in LEFT_BY_THEMSELVES for state in states):
                return None
        return excluded


def _newest(loaded: LoadedStream) -> int | None:
    """The time of the newest mark."""
    chain = loaded.chains.get(DEFAULT_KEY)
    return chain.last.time if chain is not None and chain.last is not None else None
