"""What a reader group needs to know of its streams: it asks a question about each, and gets a view of each.

Groups ──StreamQuestion──► StreamViews ──► StreamView ──► windows.py

Before a group goes on without an idle stream, it asks once more, with how far (`goes_to`). If the stream is idle
still, it keeps that, and shows it to a writer that comes back (`Stream.let_pass`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, structs

from controller.clock import Clock
from controller.commit.loop import Locked
from controller.groups.membership import position_in
from controller.streams.loaded_stream import LoadedStream
from controller.streams.reads import Reads
from controller.streams.registry import Streams
from controller.streams.time_index import TimeIndexes
from strandline.core.cut import NOTHING, Cut
from strandline.core.note import DEFAULT_KEY
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from strandline.core.time_index import bound_at
from strandline.core.window import TimeWindow
from strandline.core.writer import WriterState

BOUNDS_AT_ONCE: Final = 64  # that are looked up before other tasks run
_AT_REST: Final = (WriterState.IDLE, WriterState.CLOSED)


class GroupStanding(StrEnum):
    """Whether a stream counts in a group's watermark, and if not, why."""

    COUNTED = "counted"
    IDLE = "idle"  # left out: the group has read all that was noted, and no writer is there that counts
    ENDED = "ended"  # left out: sealed and read to its end


class GroupPlace(Struct, frozen=True):
    """A group's place in a stream: its position, the window of each key there, and whether the stream counts. Where it
    is left out as idle, `set_aside` has the writers that an operator excluded: without them, the group's window is
    incomplete."""

    position: Mapping[str, int]
    windows: Mapping[str, TimeWindow]
    standing: GroupStanding
    set_aside: tuple[str, ...] = ()


class StreamQuestion(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a group asks about a stream. What is left out is not looked for."""

    identity: str | None = None  # of the stream that is meant: another one of its name is not looked at
    read: Mapping[str, int] | None = None  # how far each segment was read: asks for the group's place
    idle_timeout_ms: int | None = None  # the group's
    goes_to: Mapping[str, int] = {}  # by key, a watermark that the group will have if it leaves the stream out
    from_head: bool = False  # asks for the head as the start
    from_time: int | None = None  # asks for the start of reading from this time
    # By segment, an offset: asks for a lower bound of the times of the events from there on.
    bounds: Mapping[str, int] = {}
    exact_bounds: bool = False  # looks in the store for what is no longer in memory


class StreamView(Struct, frozen=True, kw_only=True):
    """A stream as it is in memory. `newest` is the time of the newest mark."""

    identity: str
    graph: SegmentGraph
    newest: int | None
    place: GroupPlace | None = None
    passed: Mapping[str, int] = {}  # by key, how far groups went on without it; its writers get it when they are back
    start: Cut | None = None
    bounds: Mapping[str, int | None] = {}


class StreamViews:
    """Where views of streams come from."""

    def __init__(self, streams: Streams, reading: Reads, indexing: TimeIndexes, clock: Clock) -> None:
        self._streams = streams
        self._reading = reading
        self._indexing = indexing
        self._clock = clock

    async def graphs(self, identities: Mapping[str, str]) -> Mapping[str, SegmentGraph]:
        """The graphs of streams with these identities. Raises what `ask` does."""
        return {stream: (await self._find(stream, each)).stream.graph for stream, each in identities.items()}

    async def _find(self, stream: str, identity: str | None) -> LoadedStream:
        loaded = await self._streams.get(stream)
        loaded.check_identity(identity)
        return loaded

    async def ask(self, questions: Mapping[str, StreamQuestion]) -> Mapping[str, StreamView]:
        """The answers by stream, in the order of the questions.

        Raises UnknownStream, StreamRecreated, what the store raises, and UnknownSegment or BeyondFinalOffset for a
        position that does not fit.
        """
        return {stream: await self._view(stream, question) for stream, question in questions.items()}

    async def _view(self, stream: str, question: StreamQuestion) -> StreamView:
        loaded = await self._find(stream, question.identity)
        windows: dict[str, TimeWindow] = {}
        position, frontier = NOTHING, dict[str, int]()
        if question.read is not None:
            position = position_in(loaded.stream.graph, question.read)
            frontier, keys = loaded.stream.graph.frontier(position), sorted(loaded.stream.keys | {DEFAULT_KEY})
            windows = {key: await self._reading.window(stream, key, frontier) for key in keys}
        start = await self._start(stream, question)
        bounds = await self._bounds(stream, question) if question.bounds else question.bounds
        loaded = await self._find(stream, question.identity)
        chain = loaded.chains.get(DEFAULT_KEY)
        newest = chain.last.time if chain is not None and chain.last is not None else None
        place = None
        if windows:
            place = GroupPlace(frontier, windows, GroupStanding.ENDED)
            if not windows[DEFAULT_KEY].end_of_stream:
                place = self._place(loaded, position, place, question)
            if place.standing is GroupStanding.IDLE and question.goes_to:
                place = await self._let_pass(stream, position, place, question)
                loaded = await self._find(stream, question.identity)
        return StreamView(
            identity=loaded.origin.identity,
            graph=loaded.stream.graph,
            newest=newest,
            place=place,
            passed=dict(loaded.stream.passed),
            start=start,
            bounds=bounds,
        )

    async def _let_pass(self, stream: str, position: Cut, place: GroupPlace, question: StreamQuestion) -> GroupPlace:
        """Its place under the lock. If it is idle still, the stream keeps how far the group goes on without it."""

        def step(loaded: LoadedStream, locked: Locked) -> GroupPlace:
            loaded.check_identity(question.identity)
            found = self._place(loaded, position, place, question)
            if found.standing is GroupStanding.IDLE and loaded.stream.let_pass(question.goes_to):
                locked.change(loaded)
            return found

        return await self._streams.cache.change(stream, step)

    async def _start(self, stream: str, question: StreamQuestion) -> Cut | None:
        if question.from_time is not None:
            return (await self._reading.at(stream, DEFAULT_KEY, question.from_time)).start
        return (await self._streams.get(stream)).stream.head if question.from_head else None

    async def _bounds(self, stream: str, question: StreamQuestion) -> Mapping[str, int | None]:
        found = dict[str, int | None]()
        for segment, offset in question.bounds.items():
            found[segment] = await self._bound(stream, segment, offset, exact=question.exact_bounds)
            if len(found) % BOUNDS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return found

    async def _bound(self, stream: str, segment: str, offset: int, *, exact: bool) -> int | None:
        """A lower bound of the times of all later events of a segment."""
        if not exact:
            chain = (await self._streams.get(stream)).chains.get(DEFAULT_KEY)
            return None if chain is None else bound_at(chain, segment, offset)
        entries, _ = await self._indexing.time_index(stream, segment, DEFAULT_KEY, offset, None, 1)
        return entries[0].time if entries and entries[0].offset <= offset else None

    def _place(self, loaded: LoadedStream, position: Cut, place: GroupPlace, question: StreamQuestion) -> GroupPlace:
        """The place in a stream that goes on: whether it counts in the watermark of a group at this position.

        It counts until the group has read all that is known of it: what its writers wrote before they left is not late.
        """
        stream = loaded.stream
        set_aside = self._absent(stream, question.idle_timeout_ms)
        if set_aside is None or not stream.is_read(position):
            return structs.replace(place, standing=GroupStanding.COUNTED, set_aside=())
        return structs.replace(place, standing=GroupStanding.IDLE, set_aside=tuple(sorted(set_aside)))

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
            elif any(state not in _AT_REST for state in states):
                return None
        return excluded
