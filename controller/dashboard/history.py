"""What pages show of the past, from the store. Pages share what was read, and what takes long is read less often."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from controller.dashboard.charts import MadeMark, Point
from controller.dashboard.limits import (
    CHART_LEAST_MS,
    CHART_POINTS,
    HISTORY_REST,
    HISTORY_SHARED,
    JOURNALS_READ,
    LAG_KEYS,
    LAG_POINTS,
    LAG_STREAMS_TOGETHER,
    LAGS_WAIT_S,
    PAST_REFRESH_MS,
    SETTLED_MS,
)
from controller.dashboard.ranges import Range, moments_between
from controller.lifecycle import Controller
from controller.operators.memo import Memo
from controller.storage.journal import StoredEntry, Wanted
from controller.storage.tokens import StoredToken
from strandline.core.time_units import is_epoch
from strandline.wire.status import StreamStatus

StreamEntry: TypeAlias = tuple[str, StoredEntry]  # an entry and its stream
_SPARSE: Final = 3  # with fewer points it is asked when the marks begin


class Marks(NamedTuple):
    """Marks of a range, or the time at some moments of it; `since` is where the range begins, and `begin` is when the
    first mark was made, where that is of interest."""

    moments: Sequence[MadeMark]
    sampled: bool
    since: int
    begin: int | None


class Lags(NamedTuple):
    """From when on, and the lags of each stream at some moments: none where it had no mark, or times that are no
    dates."""

    since: int
    by_stream: Mapping[str, Sequence[Point]]


class History:
    """Reads the past, and shares it."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._now = controller.clock.now
        self._shared = Memo(
            controller.clock, least_ms=PAST_REFRESH_MS, rest=HISTORY_REST, longest_ms=math.inf, most=HISTORY_SHARED
        ).get
        self._lags: dict[Hashable, Lags] = {}

    async def marks(self, stream: str, key: str, over: Range) -> Marks:
        return await self._shared(
            ("marks", stream, key, over.key, over.is_chosen), lambda: self._marks(stream, key, over)
        )

    async def _marks(self, stream: str, key: str, over: Range) -> Marks:
        """All marks of the range, if they are few; else which time the stream had at moments that stay the same, so
        that the past looks the same whenever somebody looks."""
        reading, asked, now = self._controller.reading, [(stream, key)], self._now()
        since, begin = await self._since(over, asked)
        found, sampled = await reading.timeline(stream, key, since, CHART_POINTS), False
        if found is None:
            at = moments_between(since, min(now, over.until + SETTLED_MS), CHART_POINTS)
            (times,) = await reading.times_at(asked, at)
            found = [(moment, time) for moment, time in zip(at, times, strict=True) if time is not None]
            sampled = True
        starts_late = bool(found) and found[0][0] - since > (over.until - since) // 2
        if begin is None and (len(found) < _SPARSE or (starts_late and not over.is_chosen)):
            begin = await reading.oldest_mark(asked)
        return Marks(found, sampled, since, begin)

    async def _since(self, over: Range, asked: Sequence[tuple[str, str]]) -> tuple[int, int | None]:
        """From when on a range is, and, where it is all that is kept, when the first mark was made."""
        if over.since is not None:
            return over.since, None
        begin, now = await self._controller.reading.oldest_mark(asked), self._now()
        return min(now - CHART_LEAST_MS, now if begin is None else begin), begin

    async def lags(self, streams: Sequence[StreamStatus], over: Range) -> Lags | None:
        """The lags of all streams, as they were read last where reading them takes long; None the first time."""
        reading = asyncio.create_task(self._shared(("lags", over.key), lambda: self._read_lags(streams, over)))
        done, _ = await asyncio.wait([reading], timeout=LAGS_WAIT_S)
        if not done:
            reading.cancel()  # the wait for it: what others share goes on
            return self._lags.get(over.key)
        found = self._lags[over.key] = reading.result()
        while len(self._lags) > HISTORY_SHARED:
            del self._lags[next(iter(self._lags))]
        return found

    async def _read_lags(self, streams: Sequence[StreamStatus], over: Range) -> Lags:
        """Reads a few streams at a time."""
        reading, now = self._controller.reading, self._now()
        keys = {each.stream: list(each.keys)[:LAG_KEYS] for each in streams}
        since, _ = await self._since(over, [(name, key) for name, of_name in keys.items() for key in of_name])
        moments = moments_between(since, min(now, over.until + SETTLED_MS), LAG_POINTS)
        found: dict[str, Sequence[Point]] = {}
        for first in range(0, len(streams), LAG_STREAMS_TOGETHER):
            together = list(keys)[first : first + LAG_STREAMS_TOGETHER]
            times = iter(await reading.times_at([(name, key) for name in together for key in keys[name]], moments))
            for name in together:
                found[name] = _lags_at(moments, [next(times) for _ in keys[name]])
        return Lags(since, found)

    async def journal(
        self, last: Hashable, name: str, limit: int, *, topics: Sequence[str] = (), writer: str | None = None
    ) -> Sequence[StoredEntry]:
        """The newest entries of a stream, oldest first. `last` says which is the newest one: a later one is read at
        once."""
        newest = self._controller.journals.newest_of_stream
        of = ("stream", name, limit, tuple(topics), writer, last)
        return await self._shared(of, lambda: newest(name, limit, topics=topics, writer=writer))

    async def journal_of_group(self, last: Hashable, name: str, limit: int) -> Sequence[StoredEntry]:
        """The same of a reader group."""
        newest = self._controller.journals.newest_of_group
        return await self._shared(("group", name, limit, last), lambda: newest(name, limit))

    async def search(self, wanted: Wanted, chosen: Hashable) -> Sequence[StreamEntry]:
        """The newest entries of all streams that fit; `chosen` is equal as long as the visitor's choice is."""
        find = self._controller.journals.of_all

        async def found() -> Sequence[StreamEntry]:
            return (await find(wanted, None, JOURNALS_READ)).entries

        return await self._shared(("search", chosen), found)

    async def tokens(self) -> Sequence[StoredToken]:
        tokens = self._controller.tokens
        return await self._shared(("tokens", tokens.stamp), tokens.stored)


def _lags_at(moments: Sequence[int], of_keys: Sequence[Sequence[int | None]]) -> list[Point]:
    """How far the key that was furthest behind was behind the clock."""
    found = []
    for place, at in enumerate(moments):
        times = [time for each in of_keys if (time := each[place]) is not None and is_epoch(time)]
        if times:
            found.append((at, at - min(times)))
    return found
