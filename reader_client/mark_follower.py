"""Keeps cached marks up to date in the background. A stale cache returns no windows, and shows its error."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from reader_client.jobs import Job, drive, drive_async
from reader_client.mark_cache import MarkCache
from strandline.client import calls
from strandline.client.backoff import backoff_ms
from strandline.client.http import AsyncConnection, Connection
from strandline.client.loop import remote
from strandline.client.retry import Pause
from strandline.core.window import TimeWindow
from strandline.errors import AnswerTooLarge, UnknownSeq, UnknownStream

FOLLOW_WAIT_MS: Final = 5_000  # one long poll
REST_WAIT_MS: Final = 1_000  # the same for a stream in the ingestion domain
FOLLOW_FIRST_PAUSE_MS: Final = 50  # after the first failure, then twice as long each time
FOLLOW_PAUSE_BOUND_MS: Final = 2_000  # the longest of these pauses
FOLLOWER_STOP_S: Final = 2  # how long closing waits for the follower


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """The status of the cached marks of one key.

    - `mark_seq`: the newest cached mark.
    - `caught_up`: whether the cache had all marks at the controller's last answer.
    - `over`: whether the stream is sealed, and all its marks are cached.
    - `answered_ms_ago`: the time since the controller's last answer; None before the first.
    - `failures`: the number of failures in a row; `last_error` is the last of them, None after a success.
    """

    mark_seq: int | None
    caught_up: bool
    over: bool
    answered_ms_ago: float | None
    failures: int
    last_error: Exception | None


class Follower:
    """Keeps one cache up to date with its stream: `job` runs in a thread or a task, the rest in any thread."""

    def __init__(
        self, stream: str, key: str, cache: MarkCache, now_ms: Callable[[], float], stale_after_ms: int
    ) -> None:
        """If the controller is silent for `stale_after_ms`, there are no windows; polls are at most half as long."""
        self._stream = stream
        self._stale_after_ms = stale_after_ms
        self._wait_ms = min(FOLLOW_WAIT_MS, stale_after_ms // 2)
        self._key = key
        self._cache = cache
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._answered_ms: float | None = None
        self._failures = 0
        self._last_error: Exception | None = None
        self.stopped = False

    def job(self) -> Job[None]:
        """Fetches marks until the stream is over or the follower is stopped. Repeats every failed call."""
        while not self.stopped:
            try:
                yield from self._fetch()
            except Exception as error:  # no error may stop the follower: it is shown, and the call repeated
                if self.stopped:
                    return
                self._failed(error)
                yield Pause(backoff_ms(self._failures, first_ms=FOLLOW_FIRST_PAUSE_MS, bound_ms=FOLLOW_PAUSE_BOUND_MS))
            else:
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
                limit=cache.page_marks,
                wait_ms=self._poll_wait_ms(),
            )
        )
        if not cache.is_clear(page) or (not page.marks and cache.caught_up):
            yield from self._describe()
            if not cache.is_of(page) or (page.marks and page.marks[0].seq <= cache.after):
                return  # the stream was created again before its description was fetched, or after it
        with self._lock:  # in one step, so that a reader never finds these marks stale
            cache.take(page)
            self._answered_ms = self._now_ms()
            self._failures, self._last_error = 0, None

    def _poll_wait_ms(self) -> int:
        """Returns how long a poll may wait. It is shorter in the ingestion domain: an idle stream does not end a
        poll."""
        if not self._cache.caught_up or self._cache.sealed:
            return 0
        return min(self._wait_ms, REST_WAIT_MS) if self._cache.is_ingestion else self._wait_ms

    def _describe(self) -> Job[None]:
        described = yield from remote(calls.describe(self._stream))
        with self._lock:
            self._cache.describe(described)

    def window(self, position: Mapping[str, int]) -> TimeWindow | None:
        """Returns the window from the cached marks; None if they may be stale, or do not contain it."""
        with self._lock:
            answered = self._answered_ms
            fresh = self._cache.over or (answered is not None and self._now_ms() - answered <= self._stale_after_ms)
            return self._cache.window(position) if fresh else None

    def note_mark(self, time: int) -> None:
        """See `MarkCache.note_mark`."""
        with self._lock:
            self._cache.note_mark(time)

    def note_window(self, position: Mapping[str, int], window: TimeWindow) -> None:
        """See `MarkCache.note_window`."""
        with self._lock:
            self._cache.note_window(position, window)

    @property
    def status(self) -> Following:
        with self._lock:
            answered = self._answered_ms
            return Following(
                mark_seq=self._cache.last_seq,
                caught_up=self._cache.caught_up,
                over=self._cache.over,
                answered_ms_ago=None if answered is None else self._now_ms() - answered,
                failures=self._failures,
                last_error=self._last_error,
            )

    def _failed(self, error: Exception) -> None:
        with self._lock:
            self._failures += 1
            self._last_error = error
            if isinstance(error, UnknownStream | UnknownSeq | ValueError):
                self._cache.reset()  # the marks are of a stream that is gone
            elif isinstance(error, AnswerTooLarge):
                self._cache.ask_for_less()


class FollowingThread:
    """A follower in a daemon thread of its own."""

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
        self._task = asyncio.create_task(drive_async(follower.job(), connection))

    async def stop(self) -> None:
        self.follower.stopped = True
        self._task.cancel()
        await asyncio.wait([self._task], timeout=FOLLOWER_STOP_S)
