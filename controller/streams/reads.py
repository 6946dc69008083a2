"""Answers readers: marks, marks by time, windows. Only durable marks are ever shown."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.clock import Clock
from controller.commit.store import Store
from controller.storage.mark_history import MadeMark, oldest_mark, timeline, times_at
from controller.storage.marks import MarksGone, StoredMarks, light
from controller.storage.session import StoreConnection
from controller.streams.loaded_stream import LoadedStream
from controller.streams.registry import Streams
from strandline.core.aggregate import Holder
from strandline.core.chain import NO_SIDES, Sides, sides_among
from strandline.core.config import TimeDomain
from strandline.core.cut import Cut
from strandline.core.mark import Mark
from strandline.core.note import DEFAULT_KEY, check_key, position_cut
from strandline.core.segment import SegmentGraph
from strandline.core.window import TimeWindow, window_between
from strandline.errors import Refused, UnknownSeq
from strandline.wire.streams import MarksPage, WireMark, wire_mark

PORTION_MARKS: Final = 128  # in memory, of a page, taken at once
PAGE_OFFSETS: Final = 100_000  # of the marks of a page, which is encoded at once
REST_ANSWER_MS: Final = 1_000  # how often a waiting reader of a stream at rest gets its time


@dataclass(frozen=True, slots=True)
class MarksAround:
    """The marks around a time, the cut at which reading from that time begins, and what is said of that time.

    All of it is said of one mark: the ceiling, else the newest one, or the idle advance. The ceiling is the oldest mark
    at or after the time that leaves nobody out; where each leaves somebody out, the oldest.
    """

    time: int
    floor: Mark | None
    ceiling: Mark | None
    newest: Mark | None
    start: Cut
    exact: bool
    graph: SegmentGraph
    sealed: bool
    holds: Holder | None  # who holds time back in memory

    @property
    def _mark(self) -> Mark | None:
        return self.newest if self.ceiling is None else self.ceiling

    @property
    def there(self) -> bool:
        """Whether everything older than the time is there."""
        return self.sealed or (self._mark is not None and self._mark.time >= self.time)

    @property
    def complete(self) -> bool:
        """Whether it is there, of every writer."""
        return self.there and not self.excluded

    @property
    def reached(self) -> int | None:
        """The time to which the stream has come, without those `excluded`."""
        return None if self._mark is None else self._mark.time

    @property
    def excluded(self) -> tuple[str, ...]:
        return () if self._mark is None else self._mark.excluded

    @property
    def holder(self) -> Holder | None:
        """Who holds time back, unless it is there."""
        return None if self.there else self.holds


class Reads:
    """Answers readers of any stream."""

    def __init__(self, streams: Streams, store: Store, clock: Clock) -> None:
        self._streams = streams
        self._store = store
        self._clock = clock
        self.waiting = 0  # readers that wait for the next mark
        self.stopping: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def stop(self) -> None:
        """Ends all waits."""
        if not self.stopping.done():
            self.stopping.set_result(None)

    # -- versions ------------------------------------------------------------------------------------------------

    def version_of(self, stream: str) -> bytes | None:
        """What a caller sends with later calls, so that no controller shows it an older state; None where there is one
        controller."""
        loaded = self._streams.find_loaded(stream) if self._store.is_shared else None
        if loaded is None:
            return None
        return b"%s-%d" % (loaded.head.identity.encode(), loaded.head.version)

    async def catch_up(self, stream: str, seen: bytes | None) -> None:
        """Makes what is in memory of a stream at least as new as a version that a caller has seen. Raises
        StoreUnavailable. A store that lost commits may have none that is as new: then its own is the newest."""
        if seen is None or not self._store.is_shared:
            return
        identity, _, version = seen.rpartition(b"-")
        loaded = self._streams.find_loaded(stream)
        # That of another identity may have been deleted since, and the stream created again.
        if loaded is None or loaded.head.identity.encode() != identity or loaded.head.version < int(version):
            await self._streams.get(stream, now=True)

    # -- marks ---------------------------------------------------------------------------------------------------

    async def marks(self, stream: str, key: str, after: int, limit: int, wait_ms: int = 0) -> MarksPage:
        """The marks that follow a seq; without any, waits up to `wait_ms` for the next.

        Raises UnknownStream, or UnknownSeq for a seq that no mark has yet.
        """
        check_key(key)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        while True:
            loaded = await self._streams.get(stream)
            if after > newest_seq(loaded, key):
                loaded = await self._streams.get(stream, now=True)  # another controller may have made it
            newest = newest_seq(loaded, key)
            if after > newest:
                raise UnknownSeq(key=key, seq=after, newest=newest)
            page = await self._page(loaded, key, after, min(limit, marks_at_once(loaded)))
            left = deadline - loop.time()
            if page.marks or left <= 0 or self.stopping.done() or loaded.sealed:
                return page
            if loaded.discarded:
                continue
            if page.resting is not None:
                left = min(left, REST_ANSWER_MS / 1000)
            self.waiting += 1
            try:
                came = await self.wait(loaded.next_mark(key), left)
            finally:
                self.waiting -= 1
            if not came and page.resting is not None:
                deadline = loop.time()  # only time has moved: return it now

    async def _page(self, loaded: LoadedStream, key: str, after: int, limit: int) -> MarksPage:
        """The marks that there are now, those in memory in portions: other calls are served in between."""
        graph, identity, resting = loaded.stream.graph, loaded.origin.identity, self.resting_time(loaded, key)
        newest = newest_seq(loaded, key)
        marks: list[Mark] = []
        made: list[WireMark] = []
        while after < newest and (left := limit - len(made)) > 0:
            if made:
                await asyncio.sleep(0)
            is_loaded = after + 1 >= loaded.chains[key].first_seq  # what is not takes one read of the store
            found = await self.after(loaded, key, after, min(PORTION_MARKS, left) if is_loaded else left)
            marks = list(light([*marks, *(mark for mark in found if mark.seq <= newest)]))
            if len(marks) == len(made):
                break
            made += [wire_mark(mark, graph) for mark in marks[len(made) :]]
            after = made[-1].seq
        return MarksPage(tuple(made), identity, resting, more=after < newest)

    async def after(self, loaded: LoadedStream, key: str, after: int, limit: int) -> list[Mark]:
        """The marks that follow a seq, from memory or from the store, as far as they are `light`."""
        while (chain := loaded.chains.get(key)) is not None:
            if after + 1 >= chain.first_seq:
                return list(light(chain.after(after, limit)))
            first = max(after + 1, loaded.oldest_seqs[key])
            last = min(first + limit - 1, chain.last_seq)
            marks = await self._store.read(_between, loaded.name, key, first, last)
            if marks and marks[0].seq == first:
                return marks
            await self._streams.check_again(loaded, key, first)
            loaded = await self._again(loaded)
        return []

    async def wait(self, next_mark: asyncio.Future[None], seconds: float) -> bool:
        """Waits for the next mark; False if none came in time. True also when the controller stops."""
        done, _ = await asyncio.wait([next_mark, self.stopping], timeout=seconds, return_when="FIRST_COMPLETED")
        return bool(done)

    def resting_time(self, loaded: LoadedStream, key: str) -> int | None:
        """The present time of an ingestion stream at rest, else None."""
        mark = self._resting(loaded, key)
        return None if mark is None else mark.time

    def _resting(self, loaded: LoadedStream, key: str) -> Mark | None:
        """The mark of the idle advance, which only an ingestion stream can have."""
        if key != DEFAULT_KEY or loaded.stream.config.time_domain is not TimeDomain.INGESTION:
            return None
        return loaded.stream.resting(self._known_at(loaded))

    def _known_at(self, loaded: LoadedStream) -> int:
        """The moment as of which a stream is known. A reporter may have come back since at another controller, which
        then lets marks go on from what could be shown until that is known here (`Stream.rest_margin_ms`)."""
        now, known_at = self._clock.now(), loaded.compared_at
        if not self._store.is_shared or self._clock.by_hand or math.isinf(known_at):
            return now
        return now - round(max(0.0, asyncio.get_running_loop().time() - known_at) * 1000)

    async def at(
        self, stream: str, key: str, time: int, wait_ms: int = 0, *, allow_incomplete: bool = False
    ) -> MarksAround:
        """The marks around a time, and the cut from which reading misses nothing at or after that time.

        Waits up to `wait_ms` until everything older is there, of every writer unless `allow_incomplete`. The wait ends
        when the stream is sealed.
        """
        check_key(key)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        found = None
        while True:
            left = deadline - loop.time()
            loaded = await self._streams.get(stream)
            next_mark = loaded.next_mark(key)  # before the marks are read: one that is made meanwhile ends the wait
            newest = self._newest(loaded, key)
            is_over = left <= 0 or loaded.sealed or self.stopping.done()
            if found is None or is_over or (newest is not None and newest.time >= time):
                found = await self._around(loaded, key, time, newest)
                if is_over or found.complete or (found.there and allow_incomplete):
                    return found
            if loaded.stream.config.time_domain is TimeDomain.INGESTION:
                left = min(left, REST_ANSWER_MS / 1000)  # time may move without a mark
            self.waiting += 1
            try:
                await self.wait(next_mark, left)
            finally:
                self.waiting -= 1

    def _newest(self, loaded: LoadedStream, key: str) -> Mark | None:
        """The newest mark of a key, or its idle advance."""
        chain = loaded.chains.get(key)
        return self._resting(loaded, key) or (chain.last if chain is not None else None)

    async def _around(self, loaded: LoadedStream, key: str, time: int, newest: Mark | None) -> MarksAround:
        """The stored marks around a time. They are as new as what is known of the stream, or newer."""
        graph, head, sealed = loaded.stream.graph, loaded.stream.head, loaded.sealed
        holds = loaded.stream.held_by(key, self._clock.now())
        floor, ceiling, start = await self._store.read(_around, loaded.name, key, time)
        is_complete = newest is not None and newest.complete and newest.time >= time
        if ceiling is not None and not ceiling.complete and is_complete:
            ceiling = None  # the idle advance, which is no stored mark, leaves nobody out
        if start is not None:
            begins, exact = start.cut.join(head), True
        elif head or floor is None:
            begins, exact = head, True
        else:
            begins, exact = floor.cut, False
        return MarksAround(time, floor, ceiling, newest, begins, exact, graph, sealed, holds)

    async def timeline(self, stream: str, key: str, since: int, most: int) -> list[MadeMark] | None:
        """When the marks since a time were made, and their times, oldest first; None if they are more than `most`."""
        check_key(key)
        return await self._store.read(timeline, stream, key, since, most)

    async def times_at(self, stream: str, key: str, moments: Sequence[int]) -> list[int | None]:
        """Which time a key had at each of these moments, which rise; None before its oldest mark."""
        return await self._store.read(times_at, stream, key, moments)

    async def oldest_mark(self, stream: str, key: str) -> int | None:
        """When the oldest mark of a key was made that is kept."""
        return await self._store.read(oldest_mark, stream, key)

    async def _again(self, loaded: LoadedStream) -> LoadedStream:
        """A stream that may have been discarded meanwhile. Raises StreamRecreated if it is another one."""
        found = await self._streams.get(loaded.name)
        found.check_identity(loaded.origin.identity)
        return found

    # -- windows -------------------------------------------------------------------------------------------------

    async def window(self, stream: str, key: str, position: Mapping[str, int]) -> TimeWindow:
        """The window of a position."""
        return (await self.window_of(stream, key, position))[0]

    async def window_of(
        self, stream: str, key: str, position: Mapping[str, int], identity: str | None = None
    ) -> tuple[TimeWindow, str]:
        """The same, and the identity of the stream. Raises StreamRecreated if that is not the given one."""
        given = position_cut(position)
        check_key(key)
        loaded = await self._streams.get(stream)
        try:
            loaded.check_identity(identity)
            cut = loaded.stream.graph.closed(position, given)
        except Refused:  # another controller may have scaled it, or created it again
            loaded = await self._streams.get(stream, now=True)
            loaded.check_identity(identity)
            cut = loaded.stream.graph.closed(position, given)
        end, resting = self._ends(loaded, key)
        return window_between(await self.sides(loaded, key, cut), cut, end, resting), loaded.origin.identity

    def _ends(self, loaded: LoadedStream, key: str) -> tuple[Cut | None, Mark | None]:
        """What bounds windows besides marks: the cut above all events, and the mark of the idle advance."""
        return loaded.stream.graph.end if loaded.sealed else None, self._resting(loaded, key)

    async def sides(self, loaded: LoadedStream, key: str, position: Cut) -> Sides:
        """What the marks around a position say: from memory if it has them, else from the store."""
        while (chain := loaded.chains.get(key)) is not None:
            sides = chain.sides(position)
            first, last = loaded.oldest_seqs[key], chain.first_seq - 1
            if first > last or sides.seq is not None:
                return sides
            try:
                return await self._store.read(_older_sides, loaded.name, key, first, last, position, sides.upper)
            except MarksGone as gone:
                await self._streams.check_again(loaded, key, gone.seq)
                loaded = await self._again(loaded)
        return NO_SIDES


def newest_seq(loaded: LoadedStream, key: str) -> int:
    chain = loaded.chains.get(key)
    return chain.last_seq if chain is not None else 0


def marks_at_once(loaded: LoadedStream) -> int:
    """How many marks have PAGE_OFFSETS together, if each names all segments; one at least."""
    return max(1, PAGE_OFFSETS // max(1, len(loaded.stream.graph)))


def _between(connection: StoreConnection, stream: str, key: str, first: int, last: int) -> list[Mark]:
    with connection.begin():
        return StoredMarks(connection, stream, key).between(first, last)


def _around(
    connection: StoreConnection, stream: str, key: str, time: int
) -> tuple[Mark | None, Mark | None, Mark | None]:
    """The marks before and after a time, and the one from which to read."""
    with connection.begin():
        marks = StoredMarks(connection, stream, key)
        return *marks.around(time), marks.start(time)


def _older_sides(
    connection: StoreConnection, stream: str, key: str, first: int, last: int, position: Cut, upper: int | None
) -> Sides:
    """What the marks from `first` to `last` say around a position. Raises MarksGone if one of them is."""
    with connection.begin():
        return sides_among(StoredMarks(connection, stream, key).some, first, last, position, upper)
