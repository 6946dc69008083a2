"""`TimeWindows`, and `AsyncTimeWindows` for asyncio: position in, window out."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from reader_client.limits import CACHED_MARKS_DEFAULT, FOLLOWED_KEYS, STALE_AFTER_DEFAULT_MS
from reader_client.mark_cache import MarkCache
from reader_client.mark_follower import Follower, Following, FollowingTask, FollowingThread
from strandline.client import calls
from strandline.client.http import AsyncConnection, Connection, reach, reach_async
from strandline.core.checks import check_whole
from strandline.core.note import DEFAULT_KEY, check_key
from strandline.core.window import TimeWindow
from strandline.fork import OwningProcess
from strandline.names import check_name
from strandline.wire.streams import MarksAt, MarksPage, TimeIndexPage, WireMark


@dataclass(frozen=True, slots=True)
class PositionAt:
    """Where reading from a time begins. Not `exact`: something at or after the time may lie below it."""

    position: Mapping[str, int]
    exact: bool


class _Kept:
    """What both kinds have in common: the followers, by key."""

    def __init__(self, stream: str, cached: bool, stale_after_ms: int, keep_marks: int) -> None:
        self._stream = check_name("stream", stream)
        self._cached = cached
        self._stale_after_ms = check_whole("stale_after_ms", stale_after_ms, least=1)
        self._keep_marks = check_whole("keep_marks", keep_marks, least=1)
        self._origin = OwningProcess(f"time windows of stream {stream!r}")
        self._followers: dict[str, Follower] = {}

    @property
    def following(self) -> Mapping[str, Following]:
        """How the cached marks are doing, by key: of those that were asked for."""
        self._origin.check()
        return {key: follower.status for key, follower in self._followers.items()}

    def _kept_window(self, position: Mapping[str, int], key: str) -> TimeWindow | None:
        self._origin.check()
        follower = self._followers.get(key)
        return None if follower is None else follower.window(position)

    def _told_window(self, position: Mapping[str, int], key: str, window: TimeWindow) -> TimeWindow:
        """A window that a call told: those of the cache do not go back behind it."""
        if (follower := self._followers.get(key)) is not None:
            follower.tell_window(position, window)
        return window

    def _told_marks(self, key: str, *marks: WireMark | None) -> None:
        """Marks that a call told: the cache's windows do not go back behind them."""
        times = [mark.time for mark in marks if mark is not None]
        if times and (follower := self._followers.get(key)) is not None:
            follower.tell_mark(max(times))

    def _wants_follower(self, key: str) -> bool:
        return self._cached and key not in self._followers and len(self._followers) < FOLLOWED_KEYS

    def _follower(self, key: str) -> Follower:
        cache = MarkCache(key, keep_marks=self._keep_marks)
        follower = self._followers[key] = Follower(self._stream, key, cache, _monotonic_ms, self._stale_after_ms)
        return follower


class TimeWindows(_Kept):
    """The time windows and the marks of one stream. Threads may share one.

    By itself every window is one call. `cached`, the marks of a key follow the stream in the background from the
    first window on, and a window costs microseconds. It is the controller's as of the last mark that is here. Where
    the marks here cannot tell it, or nothing was heard from the controller for `stale_after_ms`, it takes a call, which
    raises what is wrong; `following` shows how it goes.
    """

    def __init__(
        self,
        controller: str | Connection,
        stream: str,
        *,
        token: str | None = None,
        token_file: str | None = None,
        ca_file: str | None = None,
        cached: bool = False,
        stale_after_ms: int = STALE_AFTER_DEFAULT_MS,
        keep_marks: int = CACHED_MARKS_DEFAULT,
    ) -> None:
        """`controller` is a URL, or a connection that is shared, which brings its own token and stays open; what is not
        given of the token and the files comes from the environment, see `Connection`. Of each key the newest
        `keep_marks` marks are kept; older positions take a call."""
        super().__init__(stream, cached, stale_after_ms, keep_marks)
        self._connection, self._leave = reach(controller, token=token, token_file=token_file, ca_file=ca_file)
        self._threads: list[FollowingThread] = []
        self._starting = threading.Lock()

    def get_time_window(self, position: Mapping[str, int], key: str = DEFAULT_KEY) -> TimeWindow:
        """Where a position stands: everything older than its `lower` has been read. Null bounds are not known."""
        window = self._kept_window(position, key)
        if window is not None:
            return window
        if self._wants_follower(check_key(key)):
            with self._starting:
                if self._wants_follower(key):
                    self._threads.append(FollowingThread(self._follower(key), self._connection))
        called = self._connection.run(calls.time_window(self._stream, position, key=key))
        return self._told_window(position, key, called)

    def position_at(self, time: int, key: str = DEFAULT_KEY) -> PositionAt:
        """Where reading from a time begins, so that nothing at or after it is missed."""
        return _position_at(self.marks_at(time, key))

    def marks(self, *, after: int = 0, key: str = DEFAULT_KEY, limit: int | None = None, wait_ms: int = 0) -> MarksPage:
        """The marks after a seq, oldest first. With `wait_ms` (at most 30 000) it waits for the next one, and comes
        back without any where none is made in that time."""
        page = self._connection.run(calls.marks(self._stream, key=key, after=after, limit=limit, wait_ms=wait_ms))
        self._told_marks(key, *page.marks[-1:])
        return page

    def marks_at(self, time: int, key: str = DEFAULT_KEY) -> MarksAt:
        """The marks around a time, and where reading from that time begins."""
        found = self._connection.run(calls.marks_at(self._stream, time, key=key))
        self._told_marks(key, found.floor, found.ceiling)
        return found

    def time_index(
        self,
        segment: str,
        *,
        from_offset: int = 0,
        token: int | None = None,
        limit: int | None = None,
        key: str = DEFAULT_KEY,
    ) -> TimeIndexPage:
        """Offset and time within a segment: no event at or past an entry's offset is older than its time.

        Begins at the entry at or below `from_offset`; with the `token` of an answer, where that one left off.
        """
        call = calls.time_index(self._stream, segment, key=key, from_offset=from_offset, token=token, limit=limit)
        return self._connection.run(call)

    def close(self) -> None:
        """Ends the following, and lets go of the connection, unless it is shared. A poll that is under way comes to its
        end in the background."""
        for thread in self._threads:
            thread.stop()
        self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncTimeWindows(_Kept):
    """`TimeWindows` for asyncio."""

    def __init__(
        self,
        controller: str | AsyncConnection,
        stream: str,
        *,
        token: str | None = None,
        token_file: str | None = None,
        ca_file: str | None = None,
        cached: bool = False,
        stale_after_ms: int = STALE_AFTER_DEFAULT_MS,
        keep_marks: int = CACHED_MARKS_DEFAULT,
    ) -> None:
        """See `TimeWindows`."""
        super().__init__(stream, cached, stale_after_ms, keep_marks)
        self._connection, self._leave = reach_async(controller, token=token, token_file=token_file, ca_file=ca_file)
        self._tasks: list[FollowingTask] = []

    async def get_time_window(self, position: Mapping[str, int], key: str = DEFAULT_KEY) -> TimeWindow:
        """See `TimeWindows.get_time_window`."""
        window = self._kept_window(position, key)
        if window is not None:
            return window
        if self._wants_follower(check_key(key)):
            self._tasks.append(FollowingTask(self._follower(key), self._connection))
        called = await self._connection.run(calls.time_window(self._stream, position, key=key))
        return self._told_window(position, key, called)

    async def position_at(self, time: int, key: str = DEFAULT_KEY) -> PositionAt:
        """See `TimeWindows.position_at`."""
        return _position_at(await self.marks_at(time, key))

    async def marks(
        self, *, after: int = 0, key: str = DEFAULT_KEY, limit: int | None = None, wait_ms: int = 0
    ) -> MarksPage:
        """See `TimeWindows.marks`."""
        page = await self._connection.run(calls.marks(self._stream, key=key, after=after, limit=limit, wait_ms=wait_ms))
        self._told_marks(key, *page.marks[-1:])
        return page

    async def marks_at(self, time: int, key: str = DEFAULT_KEY) -> MarksAt:
        """See `TimeWindows.marks_at`."""
        found = await self._connection.run(calls.marks_at(self._stream, time, key=key))
        self._told_marks(key, found.floor, found.ceiling)
        return found

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
        call = calls.time_index(self._stream, segment, key=key, from_offset=from_offset, token=token, limit=limit)
        return await self._connection.run(call)

    async def close(self) -> None:
        """Ends the following, and lets go of the connection, unless it is shared."""
        await asyncio.gather(*(task.stop() for task in self._tasks))
        await self._leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _position_at(found: MarksAt) -> PositionAt:
    return PositionAt(found.start, found.exact)


def _monotonic_ms() -> float:
    return time.monotonic() * 1000
