"""`TimeWindows`, and `AsyncTimeWindows` for asyncio: the time window of a position."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar, Unpack

from reader_client.jobs import AnyConnection, AsyncClient, BlockingClient, Client, Job
from reader_client.mark_cache import CACHED_MARKS_DEFAULT, MarkCache
from reader_client.mark_follower import Follower, Following, FollowingTask, FollowingThread
from strandline.client import calls
from strandline.client.http import AsyncConnection, Connection, Reaching, monotonic_ms
from strandline.client.loop import remote
from strandline.client.time_wait import WAIT_UNTIL_DEFAULT_MS, OnWait, wait_until_there
from strandline.core.checks import check_whole
from strandline.core.note import DEFAULT_KEY, check_key
from strandline.core.time_units import Instant, milliseconds
from strandline.core.window import TimeWindow
from strandline.fork import OwningProcess
from strandline.names import check_name
from strandline.wire.streams import MarksAt, MarksPage, TimeIndexPage, WireMark

FOLLOWED_KEYS: Final = 16  # of one stream; windows of further keys take a call
STALE_AFTER_DEFAULT_MS: Final = 15_000  # how long cached marks are valid after the controller's last answer

AnyFollowing = TypeVar("AnyFollowing", FollowingThread, FollowingTask)


@dataclass(frozen=True, slots=True)
class PositionAt:
    """Where reading from a time begins. If not `exact`, events with time >= it may lie below the position."""

    position: Mapping[str, int]
    exact: bool


class _WithCache(Client[AnyConnection], Generic[AnyConnection, AnyFollowing]):
    """The followers, by key: the part that the sync and the async class share."""

    _follow: Callable[[Follower, AnyConnection], AnyFollowing]

    def __init__(
        self,
        controller: str | Sequence[str] | AnyConnection,
        stream: str,
        *,
        cached: bool = False,
        stale_after_ms: int = STALE_AFTER_DEFAULT_MS,
        keep_marks: int = CACHED_MARKS_DEFAULT,
        **reaching: Unpack[Reaching],
    ) -> None:
        """Creates the time windows of the stream `stream`.

        - `controller`: one or several URLs, see `Connection`, or a shared connection, which has its own token and stays
          open.
        - `cached`, `stale_after_ms`: see above.
        - `keep_marks`: how many marks of each key are cached, the newest ones; older positions take a call.
        - `token`, `token_file`, `ca_file`, `patience`: see `Connection`.
        """
        self._stream = check_name("stream", stream)
        self._cached = cached
        self._stale_after_ms = check_whole("stale_after_ms", stale_after_ms, least=1)
        self._keep_marks = check_whole("keep_marks", keep_marks, least=1)
        self._origin = OwningProcess(f"time windows of stream {stream!r}")
        self._followers: dict[str, Follower] = {}
        self._following: list[AnyFollowing] = []
        self._starting = threading.Lock()
        self._connect(controller, reaching)

    @property
    def following(self) -> Mapping[str, Following]:
        """The status of the cached marks, by key, for each key that was requested."""
        self._origin.check()
        return {key: follower.status for key, follower in self._followers.items()}

    def _cached_window(self, position: Mapping[str, int], key: str) -> TimeWindow | None:
        self._origin.check()
        follower = self._followers.get(key)
        return None if follower is None else follower.window(position)

    def _record_window(self, position: Mapping[str, int], key: str, window: TimeWindow) -> TimeWindow:
        """Records a window that a call returned: the cache returns no older one."""
        if (follower := self._followers.get(key)) is not None:
            follower.note_window(position, window)
        return window

    def _record_marks(self, key: str, *marks: WireMark | None) -> None:
        """Records marks that a call returned: the cache returns no older window."""
        times = [mark.time for mark in marks if mark is not None]
        if times and (follower := self._followers.get(key)) is not None:
            follower.note_mark(max(times))

    def _wants_follower(self, key: str) -> bool:
        return self._cached and key not in self._followers and len(self._followers) < FOLLOWED_KEYS

    def _follower(self, key: str) -> Follower:
        cache = MarkCache(key, keep_marks=self._keep_marks)
        follower = self._followers[key] = Follower(self._stream, key, cache, monotonic_ms, self._stale_after_ms)
        return follower

    # -- the jobs of both classes --------------------------------------------------------------------------------

    def _get_time_window(self, position: Mapping[str, int], key: str) -> Job[TimeWindow]:
        window = self._cached_window(position, key)
        if window is not None:
            return window
        if self._wants_follower(check_key(key)):
            with self._starting:
                if self._wants_follower(key):
                    self._following.append(self._follow(self._follower(key), self._connection))
        called = yield from remote(calls.time_window(self._stream, position, key=key))
        return self._record_window(position, key, called)

    def _position_at(self, time: Instant, key: str) -> Job[PositionAt]:
        found = yield from self._marks_at(milliseconds("time", time), key)
        return PositionAt(found.start, found.exact)

    def _marks(self, after: int, key: str, limit: int | None, wait_ms: int) -> Job[MarksPage]:
        page = yield from remote(calls.marks(self._stream, key=key, after=after, limit=limit, wait_ms=wait_ms))
        self._record_marks(key, *page.marks[-1:])
        return page

    def _marks_at(self, time: int, key: str) -> Job[MarksAt]:
        found = yield from remote(calls.marks_at(self._stream, time, key=key))
        self._record_marks(key, found.floor, found.ceiling)
        return found

    def _wait_until(
        self, time: Instant, key: str, timeout_ms: int, allow_incomplete: bool, on_wait: OnWait | None
    ) -> Job[MarksAt]:
        until = milliseconds("time", time, up=True)
        found = yield from wait_until_there(
            lambda wait_ms: calls.marks_at(
                self._stream, until, key=key, wait_ms=wait_ms, allow_incomplete=allow_incomplete
            ),
            stream=self._stream,
            key=key,
            time=until,
            timeout_ms=timeout_ms,
            allow_incomplete=allow_incomplete,
            on_wait=on_wait,
            now_ms=monotonic_ms,
        )
        self._record_marks(key, found.floor, found.ceiling)
        return found

    def _time_index(
        self, segment: str, from_offset: int, token: int | None, limit: int | None, key: str
    ) -> Job[TimeIndexPage]:
        call = calls.time_index(self._stream, segment, key=key, from_offset=from_offset, token=token, limit=limit)
        return (yield from remote(call))


class TimeWindows(_WithCache[Connection, FollowingThread], BlockingClient):
    """Time windows and marks of one stream. Threads may share an instance.

        with TimeWindows("http://127.0.0.1:8433", "orders") as windows:
            windows.get_time_window({"0": 120, "1": 80}).lower_at      # everything older has been read
            windows.wait_until(datetime(2026, 1, 2, tzinfo=UTC))       # until all of the first of January is there

    By default each window is one call to the controller. With `cached=True`, a thread fetches the marks of a key from
    its first window on, and a window takes microseconds: it is the controller's, as of the newest cached mark. If the
    cached marks cannot answer, or the controller was silent for `stale_after_ms`, the window is a call, which raises
    the error if there is one. `following` shows the status of the cache.
    """

    _follow = FollowingThread

    def get_time_window(self, position: Mapping[str, int], key: str = DEFAULT_KEY) -> TimeWindow:
        """Returns the time window of a position: all events below its `lower` have been read. A bound of None is
        unknown."""
        return self._run(self._get_time_window(position, key))

    def position_at(self, time: Instant, key: str = DEFAULT_KEY) -> PositionAt:
        """Returns where reading from a time begins: every event with time >= it lies at or past that position, if the
        answer is `exact`."""
        return self._run(self._position_at(time, key))

    def marks(self, *, after: int = 0, key: str = DEFAULT_KEY, limit: int | None = None, wait_ms: int = 0) -> MarksPage:
        """Returns the marks after a seq, oldest first. With `wait_ms` (at most 30 000) it waits for the next mark, and
        returns an empty page on timeout."""
        return self._run(self._marks(after, key, limit, wait_ms))

    def marks_at(self, time: Instant, key: str = DEFAULT_KEY) -> MarksAt:
        """Returns the marks around a time, and where reading from that time begins. It counts a datetime between two
        milliseconds as the later one, below which more has to be there; `position_at` as the earlier one."""
        return self._run(self._marks_at(milliseconds("time", time, up=True), key))

    def wait_until(
        self,
        time: Instant,
        key: str = DEFAULT_KEY,
        *,
        timeout_ms: int = WAIT_UNTIL_DEFAULT_MS,
        allow_incomplete: bool = False,
        on_wait: OnWait | None = None,
    ) -> MarksAt:
        """Waits until every event older than a time is there, and returns the marks around that time.

        Without `allow_incomplete`, a mark that leaves writers out is not enough. `on_wait` is called every ten seconds
        with what the controller answers meanwhile, which names the writer that holds time back, or with the error of a
        controller that is away. Raises TimeNotReached after `timeout_ms`, at most seven days.
        """
        return self._run(self._wait_until(time, key, timeout_ms, allow_incomplete, on_wait))

    def time_index(
        self,
        segment: str,
        *,
        from_offset: int = 0,
        token: int | None = None,
        limit: int | None = None,
        key: str = DEFAULT_KEY,
    ) -> TimeIndexPage:
        """Returns offsets and times within a segment: every event at or past an entry's offset has time >= the entry's.

        Begins with the entry at or below `from_offset`, or, with the `token` of an answer, after that answer's entries.
        """
        return self._run(self._time_index(segment, from_offset, token, limit, key))

    def close(self) -> None:
        """Stops the cache, and closes the connection unless it is shared. A poll under way ends in the background."""
        for thread in self._following:
            thread.stop()
        super().close()


class AsyncTimeWindows(_WithCache[AsyncConnection, FollowingTask], AsyncClient):
    """`TimeWindows` for asyncio."""

    _follow = FollowingTask

    async def get_time_window(self, position: Mapping[str, int], key: str = DEFAULT_KEY) -> TimeWindow:
        """See `TimeWindows.get_time_window`."""
        return await self._run(self._get_time_window(position, key))

    async def position_at(self, time: Instant, key: str = DEFAULT_KEY) -> PositionAt:
        """See `TimeWindows.position_at`."""
        return await self._run(self._position_at(time, key))

    async def marks(
        self, *, after: int = 0, key: str = DEFAULT_KEY, limit: int | None = None, wait_ms: int = 0
    ) -> MarksPage:
        """See `TimeWindows.marks`."""
        return await self._run(self._marks(after, key, limit, wait_ms))

    async def marks_at(self, time: Instant, key: str = DEFAULT_KEY) -> MarksAt:
        """See `TimeWindows.marks_at`."""
        return await self._run(self._marks_at(milliseconds("time", time, up=True), key))

    async def wait_until(
        self,
        time: Instant,
        key: str = DEFAULT_KEY,
        *,
        timeout_ms: int = WAIT_UNTIL_DEFAULT_MS,
        allow_incomplete: bool = False,
        on_wait: OnWait | None = None,
    ) -> MarksAt:
        """See `TimeWindows.wait_until`."""
        return await self._run(self._wait_until(time, key, timeout_ms, allow_incomplete, on_wait))

    async def time_index(
        self,
        segment: str,
        *,
        from_offset: int = 0,
        token: int | None = None,
        limit: int | None = None,
        key: str = DEFAULT_KEY,
    ) -> TimeIndexPage:
        """See `TimeWindows.time_index`."""
        return await self._run(self._time_index(segment, from_offset, token, limit, key))

    async def close(self) -> None:
        """Stops the cache, and closes the connection unless it is shared."""
        await asyncio.gather(*(task.stop() for task in self._following))
        await super().close()
