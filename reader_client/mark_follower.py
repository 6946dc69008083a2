"""Marks that follow the stream, fetched in the background: never frozen, and never silently out of date."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from reader_client.limits import (
    FOLLOW_FIRST_PAUSE_MS,
    FOLLOW_PAUSE_BOUND_MS,
    FOLLOW_WAIT_MS,
    FOLLOWER_STOP_S,
    MARKS_PER_PAGE,
    REST_WAIT_MS,
)
from reader_client.mark_cache import MarkCache
from reader_client.steps import Job, Pause, drive, drive_async
from strandline.client import calls
from strandline.client.backoff import backoff_ms
from strandline.client.http import AsyncConnection, Connection
from strandline.client.loop import remote
from strandline.core.window import TimeWindow
from strandline.errors import UnknownSeq


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """How the cached marks of one key are doing.

    `heard_ms_ago` is null before the first answer. `failures` counts those in a row, `last_error` is the last of them,
    null while all is well. `mark_seq` is the newest mark here. `over`: the stream is sealed, and all of it is here.
    """

    mark_seq: int | None
    caught_up: bool
    over: bool
    heard_ms_ago: float | None
    failures: int
    last_error: Exception | None


class Follower:
    """Keeps one cache up with its stream: `job` runs in a thread or a task, the rest anywhere."""

    def __init__(
        self, stream: str, key: str, cache: MarkCache, now_ms: Callable[[], float], stale_after_ms: int
    ) -> None:
        """Where nothing was heard for `stale_after_ms`, no window is told; it asks twice as often."""
        self._stream = stream
        self._stale_after_ms = stale_after_ms
        self._wait_ms = min(FOLLOW_WAIT_MS, stale_after_ms // 2)
        self._key = key
        self._cache = cache
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._heard_ms: float | None = None
        self._failures = 0
        self._last_error: Exception | None = None
        self.stopped = False

    def job(self) -> Job[None]:
        """Fetches marks until the stream is over or the follower is stopped. Whatever fails is tried again."""
        failures = 0
        while not self.stopped:
            try:
                yield from self._fetch()
            except Exception as error:  # it must not freeze, whatever went wrong: it is shown, and tried again
                if self.stopped:
                    return
                self._failed(error)
                failures += 1
                yield Pause(backoff_ms(failures, first_ms=FOLLOW_FIRST_PAUSE_MS, bound_ms=FOLLOW_PAUSE_BOUND_MS))
            else:
                failures = 0
                if self._cache.over:
                    return

    def _fetch(self) -> Job[None]:
        cache = self._cache
        if cache.graph is None:
            yield from self._describe()
        page = yield from remote(
            calls.marks(
                self._stream,
                key=self._key,
                after=cache.after,
                limit=MARKS_PER_PAGE,
                wait_ms=self._patience_ms(),
            )
        )
        if not cache.is_clear(page) or (not page.marks and cache.caught_up):
            yield from self._describe()
            if page.marks and page.marks[0].seq <= cache.after:
                return  # another stream of this name, whose description came in between
        with self._lock:  # at once: a reader who finds these marks finds that they are fresh
            cache.take(page)
            self._heard_ms = self._now_ms()
            self._failures, self._last_error = 0, None

    def _patience_ms(self) -> int:
        """How long a poll may wait: a stream that comes to rest, in the ingestion domain, does not end one."""
        if not self._cache.caught_up or self._cache.sealed:
            return 0
        return min(self._wait_ms, REST_WAIT_MS) if self._cache.is_ingestion else self._wait_ms

    def _describe(self) -> Job[None]:
        described = yield from remote(calls.describe(self._stream))
        with self._lock:
            self._cache.describe(described)

    def window(self, position: Mapping[str, int]) -> TimeWindow | None:
        """The window from the marks that are here; null where they may not be up to date, or do not tell it."""
        with self._lock:
            heard = self._heard_ms
            fresh = self._cache.over or (heard is not None and self._now_ms() - heard <= self._stale_after_ms)
            return self._cache.window(position) if fresh else None

    def tell_mark(self, time: int) -> None:
        """See `MarkCache.tell_mark`."""
        with self._lock:
            self._cache.tell_mark(time)

    def tell_window(self, position: Mapping[str, int], window: TimeWindow) -> None:
        """See `MarkCache.tell_window`."""
        with self._lock:
            self._cache.tell_window(position, window)

    @property
    def status(self) -> Following:
        with self._lock:
            heard = self._heard_ms
            return Following(
                mark_seq=self._cache.last_seq,
                caught_up=self._cache.caught_up,
                over=self._cache.over,
                heard_ms_ago=None if heard is None else self._now_ms() - heard,
                failures=self._failures,
                last_error=self._last_error,
            )

    def _failed(self, error: Exception) -> None:
        with self._lock:
            self._failures += 1
            self._last_error = error
            if isinstance(error, UnknownSeq | ValueError):
                self._cache.reset()  # these marks are none of this stream any more


class FollowingThread:
    """A follower in a thread of its own, which does not keep the process from ending."""

    def __init__(self, follower: Follower, connection: Connection) -> None:
        self.follower = follower
        self._wake = threading.Event()
        self._thread = threading.Thread(
            target=lambda: drive(follower.job(), connection, self._wake.wait), name="strandline-marks", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self.follower.stopped = True
        self._wake.set()


class FollowingTask:
    """A follower in a task of the running loop."""

    def __init__(self, follower: Follower, connection: AsyncConnection) -> None:
        self.follower = follower
        self._task = asyncio.create_task(drive_async(follower.job(), connection, asyncio.sleep))

    async def stop(self) -> None:
        self.follower.stopped = True
        self._task.cancel()
        await asyncio.wait([self._task], timeout=FOLLOWER_STOP_S)
