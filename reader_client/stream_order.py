"""The bounds by which a reader orders its segments, from the marks around its position, fetched as it reads."""

from __future__ import annotations

from collections.abc import Mapping

from reader_client.jobs import Job
from reader_client.mark_cache import MarkCache
from strandline.client import calls
from strandline.client.loop import remote
from strandline.core.order import Lag, lags
from strandline.errors import UnknownSeq


class StreamOrder:
    """The marks of one stream and key, from the last passed one to some beyond the reader's position."""

    def __init__(self, stream: str, key: str) -> None:
        self._stream = stream
        self._key = key
        self._cache: MarkCache | None = None

    def bound(self, segment: str, offset: int) -> int | None:
        """See `MarkCache.bound`."""
        return None if self._cache is None else self._cache.bound(segment, offset)

    def lags(self, position: Mapping[str, int], now: int) -> dict[str, Lag]:
        """Returns how far behind each segment of a position is, by the fetched marks."""
        newest = None if self._cache is None else self._cache.newest_time
        return lags(position, self.bound, newest, now)

    @property
    def wants_more(self) -> bool:
        """Whether the order needs marks that are not fetched yet."""
        return self._cache is not None and self._cache.wants_more

    def catch_up(self, position: Mapping[str, int], group: Mapping[str, int]) -> Job[None]:
        """Fetches a page of marks, if needed. `position` is the reader's own; `group` is that of all readers, before
        which marks are not needed."""
        if self._cache is None:
            window = yield from remote(calls.time_window(self._stream, group, key=self._key))
            self._cache = MarkCache(self._key, after=max(0, (window.mark_seq or 1) - 1))
        cache = self._cache
        try:
            if cache.graph is None or cache.caught_up or cache.wants_more:
                yield from self._fetch(cache)
        except UnknownSeq:
            self._cache = None  # the stream was created again; the next report starts from its first mark
            return
        cache.forget_before(position)

    def _fetch(self, cache: MarkCache) -> Job[None]:
        if cache.graph is None:
            cache.describe((yield from remote(calls.describe(self._stream))))
        page = yield from remote(calls.marks(self._stream, key=self._key, after=cache.after, limit=cache.page_marks))
        if not cache.is_clear(page):
            cache.describe((yield from remote(calls.describe(self._stream))))
        cache.take(page)
