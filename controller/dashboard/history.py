"""What pages show of the past, from the store. Pages share what was read, and what takes long is read less often."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import partial
from typing import NamedTuple

from controller.dashboard.charts import MadeMark, round_step
from controller.dashboard.limits import (
    CHART_LEAST_MS,
    CHART_POINTS,
    HISTORY_REST,
    HISTORY_SHARED,
    PAST_REFRESH_MS,
    SETTLED_MS,
)
from controller.lifecycle import Controller
from controller.operators.memo import Memo
from controller.storage.journal import JournalTable, journal_entries
from controller.storage.tokens import StoredToken
from strandline.wire.journal import JournalEntry


class Marks(NamedTuple):
    """Marks made from `since` on, or the time at some moments."""

    moments: Sequence[MadeMark]
    sampled: bool
    since: int


class History:
    """Reads the past, and shares it."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._now = controller.clock.now
        self._shared = Memo(
            controller.clock, least_ms=PAST_REFRESH_MS, rest=HISTORY_REST, longest_ms=math.inf, most=HISTORY_SHARED
        ).get

    async def marks(self, stream: str, key: str, size_ms: int) -> Marks:
        return await self._shared(("marks", stream, key, size_ms), lambda: self._marks(stream, key, size_ms))

    async def _marks(self, stream: str, key: str, size_ms: int) -> Marks:
        """All marks of the last time of this size, if they are few; else which time the stream had at moments that stay
        the same, so that the past looks the same whenever somebody looks. It begins with the first mark that is kept:
        a young stream fills its charts."""
        reading, now = self._controller.reading, self._now()
        begin = await reading.oldest_mark(stream, key)
        since = max(now - size_ms, 0 if begin is None else min(begin, now - CHART_LEAST_MS))
        found = await reading.timeline(stream, key, since, CHART_POINTS)
        if found is not None:
            return Marks(found, False, since)
        at = moments_between(since, now, CHART_POINTS)
        times = await reading.times_at(stream, key, at)
        return Marks([(moment, time) for moment, time in zip(at, times, strict=True) if time is not None], True, since)

    async def journal(
        self,
        of: JournalTable,
        name: str,
        limit: int,
        last: Hashable,
        *,
        topics: Sequence[str] = (),
        writer: str | None = None,
    ) -> Sequence[JournalEntry]:
        """The newest entries of a stream or group, oldest first. `last` says which is the newest one: a later one is
        read at once."""
        read = partial(self._controller.store.read, journal_entries, of, name, limit, topics=topics, writer=writer)
        return await self._shared((of, name, limit, topics, writer, last), read)

    async def tokens(self) -> Sequence[StoredToken]:
        tokens = self._controller.tokens
        return await self._shared(("tokens", tokens.stamp), tokens.stored)


def moments_between(since: int, now: int, most: int) -> list[int]:
    """At most so many moments after `since` and up to almost now, at equal distances. They are the same whenever they
    are asked for, as long as the distance is: what was drawn does not change when it is drawn again."""
    now -= SETTLED_MS
    width = max(1_000, round_step(now - since, most))
    return list(range(now - now % width, since, -width))[:most][::-1]
