"""What pages show of the past, from the store. Pages share what was read, and what takes long is read less often."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from controller.controller import Controller
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
    LAGS_STORED_MS,
    LAGS_WAIT_S,
    PAST_REFRESH_MS,
    SETTLED_MS,
    TOKENS_READ_MS,
)
from controller.dashboard.ranges import Range, moments_between
from controller.storage.journal import StoredEntry, Wanted
from controller.storage.tokens import StoredToken
from controller.wording import is_epoch
from strandline.wire.status import StreamStatus

T = TypeVar("T")
StreamEntry: TypeAlias = tuple[str, StoredEntry]  # an entry and its stream
_SPARSE: Final = 3  # with fewer points it is asked when the marks begin


class Marks(NamedTuple):
    """Marks of a range, or the time at some moments of it; `since` is where the range begins, and `begin` is when the
    first mark was made, where that is of interest."""

    moments: Sequence[MadeMark]
    sampled: bool
    since: int
    begin: int | None


@dataclass(slots=True)
class _Read:
    task: asyncio.Future[Any]
    until: int | None = None  # None while it is read


@dataclass(slots=True)
class _KnownJournal:
    last: Hashable
    reads_left: int = 3
    entries: Sequence[StoredEntry] = ()


@dataclass(slots=True)
class _Lags:
    """The lags of one range, by stream and moment; None where a stream had no mark, or times that are no dates."""

    by_stream: dict[str, dict[int, int | None]] = field(default_factory=dict)
    since: int = 0
    asked_at: int = 0
    reading: asyncio.Task[None] | None = None


class History:
    """Reads the past, and shares it."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._now = controller.clock.now
        self._read: dict[Hashable, _Read] = {}
        self._lags: dict[Hashable, _Lags] = {}
        self._journals: dict[Hashable, _KnownJournal] = {}

    async def marks(self, stream: str, key: str, over: Range) -> Marks:
        return await self._shared(
            ("marks", stream, key, over.key, over.is_chosen), lambda: self._marks(stream, key, over)
        )

    async def _marks(self, stream: str, key: str, over: Range) -> Marks:
        """All marks of the range, if they are few; else which time the stream had at moments that stay the same, so
        that the past looks the same whenever somebody looks."""
        reading, asked, now = self._controller.reading, [(stream, key)], self._now()
        since, begin = over.since(), None
        if since is None:
            begin = await reading.oldest_mark(asked)
            since = min(now - CHART_LEAST_MS, now if begin is None else begin)
        found, sampled = await reading.timeline(stream, key, since, CHART_POINTS), False
        if found is None:
            at = moments_between(since, min(now, over.until() + SETTLED_MS), CHART_POINTS)
            (times,) = await reading.times_at(asked, at)
            found = [(moment, time) for moment, time in zip(at, times, strict=True) if time is not None]
            sampled = True
        starts_late = bool(found) and found[0][0] - since > (over.until() - since) // 2
        if begin is None and (len(found) < _SPARSE or (starts_late and not over.is_chosen)):
            begin = await reading.oldest_mark(asked)
        return Marks(found, sampled, since, begin)

    async def lags(self, streams: Sequence[StreamStatus], over: Range) -> tuple[int, dict[str, list[Point]]]:
        """From when on, and by stream the lags that have been read until now; reading goes on if it takes long."""
        lags, now = self._lags.get(over.key), self._now()
        if lags is None or now - lags.asked_at > LAGS_STORED_MS:
            lags = self._lags[over.key] = _Lags()  # a stream may be another one of the same name by now
        lags.asked_at = now
        while len(self._lags) > HISTORY_SHARED:
            del self._lags[next(iter(self._lags))]
        if lags.reading is not None and lags.reading.done():
            done, lags.reading = lags.reading, None
            done.result()  # raises what went wrong
        if lags.reading is None:
            lags.reading = asyncio.create_task(self._read_lags(lags, streams, over), name="lag of all streams")
        await asyncio.wait([lags.reading], timeout=LAGS_WAIT_S)
        points = {
            name: [(at, lag) for at, lag in found.items() if lag is not None] for name, found in lags.by_stream.items()
        }
        return lags.since, points

    async def _read_lags(self, lags: _Lags, streams: Sequence[StreamStatus], over: Range) -> None:
        """Reads the moments that are new, of a few streams at a time."""
        reading, now = self._controller.reading, self._now()
        keys = {each.stream: list(each.keys)[:LAG_KEYS] for each in streams}
        since = over.since()
        if since is None:
            asked = [(name, key) for name, of_name in keys.items() for key in of_name]
            oldest = await self._shared("oldest", lambda: reading.oldest_mark(asked))
            since = min(now - CHART_LEAST_MS, now if oldest is None else oldest)
        lags.since = since
        moments = moments_between(since, min(now, over.until() + SETTLED_MS), LAG_POINTS)
        middle = moments[len(moments) // 2] if moments else 0
        shown = [name for name, found in lags.by_stream.items() if name in keys or next(reversed(found), 0) >= middle]
        lags.by_stream = {name: lags.by_stream[name] for name in shown}  # also what others may see, and no deleted ones
        by_news: dict[tuple[int, ...], list[str]] = {}
        for name in keys:
            known = lags.by_stream.get(name, {})
            by_news.setdefault(tuple(each for each in moments if each not in known), []).append(name)
        for news, names in by_news.items():
            for first in range(0, len(names) if news else 0, LAG_STREAMS_TOGETHER):
                together = names[first : first + LAG_STREAMS_TOGETHER]
                found = await reading.times_at([(name, key) for name in together for key in keys[name]], news)
                times = iter(found)
                for name in together:
                    of_news = _lags_at(news, [next(times) for _ in keys[name]])
                    known = lags.by_stream.get(name, {})
                    lags.by_stream[name] = {at: of_news.get(at, known.get(at)) for at in moments}

    async def journal(
        self, last: Hashable, name: str, limit: int, *, topics: Sequence[str] = (), writer: str | None = None
    ) -> Sequence[StoredEntry]:
        """The newest entries of a stream, oldest first. `last` says which is the newest one: until a later one comes,
        what was read is shared."""
        newest = self._controller.journals.newest_of_stream
        of = ("stream", name, limit, tuple(topics), writer)
        return await self._unless_known(of, last, lambda: newest(name, limit, topics=topics, writer=writer))

    async def journal_of_group(self, last: Hashable, name: str, limit: int) -> Sequence[StoredEntry]:
        """The same of a reader group."""
        newest = self._controller.journals.newest_of_group
        return await self._unless_known(("group", name, limit), last, lambda: newest(name, limit))

    async def _unless_known(
        self, of: Hashable, last: Hashable, read: Callable[[], Awaitable[Sequence[StoredEntry]]]
    ) -> Sequence[StoredEntry]:
        """What is known, until there is a later entry. That one may not be durable yet: it is looked for twice more."""
        known = self._journals.pop(of, None)
        if known is None or known.last != last:
            known = _KnownJournal(last)
        if known.reads_left:
            known.reads_left -= 1
            known.entries = await self._shared((of, last, known.reads_left), read)
        self._journals[of] = known
        while len(self._journals) > HISTORY_SHARED:
            del self._journals[next(iter(self._journals))]
        return known.entries

    async def search(self, wanted: Wanted, chosen: Hashable) -> Sequence[StreamEntry]:
        """The newest entries of all streams that fit; `chosen` is equal as long as the visitor's choice is."""
        find = self._controller.journals.of_all

        async def found() -> Sequence[StreamEntry]:
            return (await find(wanted, None, JOURNALS_READ)).entries

        return await self._shared(("search", chosen), found)

    async def tokens(self) -> Sequence[StoredToken]:
        tokens = self._controller.tokens
        return await self._shared(("tokens", tokens.state), tokens.stored, TOKENS_READ_MS)

    async def _shared(self, of: Hashable, read: Callable[[], Awaitable[T]], refresh_ms: int = PAST_REFRESH_MS) -> T:
        """What is read, once for all who ask for it while it is fresh."""
        known = self._read.get(of)
        if known is None or (known.until is not None and self._now() >= known.until):
            began = self._now()
            self._read.pop(of, None)
            known = self._read[of] = _Read(asyncio.ensure_future(read()))

            def over(task: asyncio.Future[Any], known: _Read = known) -> None:
                failed = task.cancelled() or task.exception() is not None
                now = self._now()
                known.until = began if failed else now + max(refresh_ms, HISTORY_REST * (now - began))

            known.task.add_done_callback(over)
            while len(self._read) > HISTORY_SHARED:
                del self._read[next(iter(self._read))]
        found: T = await asyncio.shield(known.task)
        return found


def _lags_at(moments: Sequence[int], of_keys: Sequence[Sequence[int | None]]) -> dict[int, int | None]:
    """By moment, how far the key that was furthest behind was behind the clock."""
    found: dict[int, int | None] = {}
    for place, at in enumerate(moments):
        times = [time for each in of_keys if (time := each[place]) is not None and is_epoch(time)]
        found[at] = at - min(times) if times else None
    return found
