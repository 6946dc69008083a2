"""`EventReader`, and `AsyncEventReader` for asyncio: the events of a group's segments, with watermarks in between."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack, overload

from reader_client.event_windows import Closed, WindowKind
from reader_client.items import EventItem, Item, ReaderState
from reader_client.jobs import AnyConnection, AsyncClient, BlockingClient, Client
from reader_client.options import LateEvents, Options, OptionsGiven
from reader_client.reader import ReaderJobs
from reader_client.windowing import File, KeyFunction, Value, Windowing, value_of
from strandline.client.http import AsyncConnection, Connection, Reaching, monotonic_ms
from strandline.core.checks import check_options
from strandline.core.note import DEFAULT_KEY
from strandline.core.order import Lag, SegmentRef
from strandline.errors import StrandlineError
from strandline.logs import LogReader
from strandline.wire.groups import GroupWindow
from strandline.wire.shapes import Positions

Kept = TypeVar("Kept")


class ReaderOptions(OptionsGiven, Reaching):
    """What an `EventReader` takes by name."""


class _Reading(Client[AnyConnection], Generic[AnyConnection]):
    """The reader's own state, and the group's as of the last report."""

    def __init__(
        self,
        controller: str | Sequence[str] | AnyConnection,
        group: str,
        reader: str,
        logs: Mapping[str, LogReader],
        *,
        state: ReaderState | None = None,
        now_ms: Callable[[], float] = monotonic_ms,
        **options: Unpack[ReaderOptions],
    ) -> None:
        """Creates the reader named `reader` of the group `group`. `controller` is one or several URLs, or a shared
        connection, which has its own token and stays open. For `token`, `token_file`, `ca_file` and `patience` see
        `Connection`, for the other options above."""
        check_options(options, ReaderOptions.__annotations__, type(self))
        given: dict[str, Any] = {**options}  # of two kinds, which are one to callers
        reaching: Any = {name: given.pop(name) for name in Reaching.__annotations__ if name in given}
        self._reading = ReaderJobs(group, reader, logs, Options(**given), state, now_ms)
        self._turns: threading.Lock | None = threading.Lock()  # of work beside an event loop
        self._connect(controller, reaching)

    @property
    def window(self) -> GroupWindow | None:
        """The group's time window at the last report; `get_time_window` requests the current one. It goes back if
        events are to be read again; watermark items never do."""
        return self._reading.window

    @property
    def positions(self) -> Positions:
        """How far this reader has read, in the segments that it owns. Bounds follow these positions."""
        return self._reading.positions

    @property
    def settled(self) -> Positions:
        """How far the events that it has read are processed. The next reader of these segments continues there."""
        return self._reading.settled

    def lags(self, now_ms: int) -> Mapping[str, Mapping[str, Lag]]:
        """Returns how far behind in time its segments are, by stream, at `now_ms` (epoch). See `ReaderGroup.lag` for
        the whole group."""
        return self._reading.lags(now_ms)

    @property
    def late(self) -> LateEvents:
        """How many late events it has read."""
        return self._reading.late

    @property
    def fenced(self) -> int:
        """How often other readers had taken its segments, because it was silent for too long."""
        return self._reading.fenced

    @property
    def end_of_stream(self) -> bool:
        """Whether all streams are sealed and the group has read them to their ends: every window can close."""
        return self._reading.at_end

    def save(self) -> ReaderState:
        """Returns the state that a later reader can continue from, with `state=`.

        Every event returned so far counts as processed, or lies in the open windows, which are part of the state. Store
        the state in one step with the results, then call `settle`.
        """
        return self._reading.save()

    def save_segments(self) -> Mapping[SegmentRef, ReaderState]:
        """Returns a state for each segment, from which its next reader continues, with `recall=`."""
        return self._reading.save_segments()

    def settle(self) -> None:
        """Settles what was saved last: call it once that is stored, for a reader with `windows`. The next report has
        it."""
        self._reading.settle()

    def done(self, item: EventItem) -> None:
        """Marks an event as processed, for a reader with `acknowledge`."""
        self._reading.done(item)

    def _begin_windows(
        self, kind: WindowKind, state: File, key: KeyFunction | None, value: Value, time_key: str
    ) -> Windowing:
        windowing = Windowing.begin(self._reading, kind, state, key, value, time_key)
        self._reading = windowing.reading
        return windowing


class EventReader(_Reading[Connection], BlockingClient):
    """Reads its share of a group's segments: events, with watermarks in between. Use it from one thread at a time.

        with EventReader(url, "billing", "reader-1", {"orders": log}, time_domain="event") as reader:
            for item in reader:
                ...                                 # item.event, or item.watermark: no older event follows

    Iteration ends when all streams are sealed and read. The watermark follows the events that the reader returns. An
    event is settled when the next item is requested or, with `acknowledge=True`, when `done` is called for it.

    Every `report_ms` the reader reports its positions, gets the group's time window, and acquires or releases segments
    so that all readers own about as many. A reader that requests no item for longer than the group's
    `reader_timeout_ms` loses its segments; other readers continue at its last settled positions.

    - `logs`: the log of each stream of the group. They stay open.
    - `time_domain`: "event" or "ingestion" yields watermark items between events, and while no events arrive.
    - `by_stream`: yields a separate watermark for each stream, and idle items, as a `Join` needs them. By default there
      is one watermark over all streams.
    - `on_incomplete`: what it does when marks leave writers out. "go_on", the default: watermarks and windows name
      them. "wait": its watermark stays at the last complete mark. "fail": `read` raises WritersLeftOut, unless a
      complete mark follows already.
    - `event_time`: a function from an event to its time, or its times by key. Events below their stream's lower bound
      are then flagged, and counted in `late`. This option, `time_unit`, `writer_of` and `max_event_time_lag_ms` may
      also be a mapping by stream, with exactly the streams of `logs`.
    - `time_unit`: "s", "ms", "us" or "ns": the numbers that `event_time` gives are in this unit, also with a fraction,
      and rounded down to the millisecond. By default they are whole milliseconds.
    - `on_late`: called with each late event, which is then not yielded.
    - `writer_of`: a function from an event to its writer's name, so that `late` counts by writer.
    - `max_event_time_lag_ms`: subtracted from each watermark, to go from ingestion to event time.
    - `ordered`: the next event comes from the segment that is furthest behind, by the marks of the time key
      `order_key`; otherwise from each segment in turn.
    - `backlog`: updated with every report.
    - `state`: a state from `save`. The reader takes over its segments from their owners.
    - `windows`: the open windows; add events with `part=item.place`. They are saved and loaded with the state, and
      `settle` settles what was read.
    - `recall`: a function from a stream and a segment to its saved state, for windows in a group of several readers.
      The reading thread calls it when this reader gets a segment.

    Its program's log, `reader_client`, names whom marks leave out, late events, events without a readable time or with
    one in another unit, and a log that ends before the marks.

    Raises WrongDomain, InvalidConfig, StateOfAnotherGroup, WritersLeftOut, the log's errors, and the errors of calls to
    the controller. The reader can continue after any of them.
    """

    def read(self, wait_ms: float | None = None) -> Item | None:
        """Returns the next item, or None after `wait_ms` (by default it waits for ever) or at the end of all streams,
        see `end_of_stream`."""
        return self._run(self._reading.read(wait_ms))

    def get_time_window(self) -> GroupWindow:
        """Returns the group's current time window, with all events that this reader has returned.

        Makes one call, a report of its positions. The event that was returned last counts as read, not yet as settled.
        """
        return self._run(self._reading.current_window())

    @overload
    def windows(
        self, kind: WindowKind, *, state: File, key: KeyFunction | None = None, time_key: str = DEFAULT_KEY
    ) -> Iterator[Closed[bytes | None]]: ...

    @overload
    def windows(
        self,
        kind: WindowKind,
        *,
        state: File,
        key: KeyFunction | None = None,
        value: Callable[[EventItem], Kept],
        time_key: str = DEFAULT_KEY,
    ) -> Iterator[Closed[Kept]]: ...

    def windows(
        self,
        kind: WindowKind,
        *,
        state: File,
        key: KeyFunction | None = None,
        value: Value = value_of,
        time_key: str = DEFAULT_KEY,
    ) -> Iterator[Closed[Any]]:
        """Returns the windows of the group's events, each once no older event follows: `window.start`, `end`, `key` and
        `events`; `complete`, and `without`, the writers that marks left out. Ends when all streams are sealed and read.

            with EventReader(url, "counting", "reader-1", {"orders": log}, …) as reader:
                for window in reader.windows(Tumbling(10_000), state="count.state"):
                    print(window.start_at, len(window.events))

        The file `state` keeps what was read and the open windows: a program that is killed goes on where it was. The
        windows that it was working on come again then, with the same events. With None nothing is kept, as in a test.
        `key` gives the key of an event's window, `value` what the window keeps of an event: its bytes, or other plain
        data. The reader has a `time_domain` and an `event_time`. `time_key` is the key of the time, and of the
        watermark. The reader is the only one of its group.

        Raises InvalidConfig for a reader that has begun to read, has windows or a state of its own, or no event time,
        for a file that cannot be written, or has windows of another kind or time key, and for an event without the
        `time_key`, which stays unsettled; QueueFull; and what `read` raises.
        """
        return self._closed(self._begin_windows(kind, state, key, value, time_key))

    def _closed(self, windowing: Windowing) -> Iterator[Closed[Any]]:
        self._run(self._reading.open())
        if windowing.closing is not None:
            yield from windowing.resume()
            windowing.settle()
        ended = False
        while not ended:
            item = self.read()
            windowing.prepare(item)
            yield from windowing.take(item)
            windowing.keep(item)
            ended = item is None

    def __iter__(self) -> Iterator[Item]:
        while (item := self.read()) is not None:
            yield item

    def close(self) -> None:
        """Reports its positions, releases its segments and leaves the group."""
        self._close(settle=True)

    def __enter__(self) -> Self:
        try:
            self._run(self._reading.open())
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """After an exception, the item that was returned last stays unsettled, and is read again."""
        if kind is None:
            self._close(settle=True)
            return
        with suppress(StrandlineError):
            self._close(settle=False)

    def _close(self, *, settle: bool) -> None:
        try:
            self._run(self._reading.close(settle=settle))
        finally:
            self._release()

    def _release(self) -> None:
        self._reading.closed = True
        self._leave()


class AsyncEventReader(_Reading[AsyncConnection], AsyncClient):
    """`EventReader` for asyncio. Use it from one task at a time. It reads the logs in other threads, one at a time."""

    async def read(self, wait_ms: float | None = None) -> Item | None:
        """See `EventReader.read`."""
        return await self._run(self._reading.read(wait_ms))

    async def get_time_window(self) -> GroupWindow:
        """See `EventReader.get_time_window`."""
        return await self._run(self._reading.current_window())

    @overload
    def windows(
        self, kind: WindowKind, *, state: File, key: KeyFunction | None = None, time_key: str = DEFAULT_KEY
    ) -> AsyncIterator[Closed[bytes | None]]: ...

    @overload
    def windows(
        self,
        kind: WindowKind,
        *,
        state: File,
        key: KeyFunction | None = None,
        value: Callable[[EventItem], Kept],
        time_key: str = DEFAULT_KEY,
    ) -> AsyncIterator[Closed[Kept]]: ...

    def windows(
        self,
        kind: WindowKind,
        *,
        state: File,
        key: KeyFunction | None = None,
        value: Value = value_of,
        time_key: str = DEFAULT_KEY,
    ) -> AsyncIterator[Closed[Any]]:
        """See `EventReader.windows`."""
        return self._closed(self._begin_windows(kind, state, key, value, time_key))

    async def _closed(self, windowing: Windowing) -> AsyncIterator[Closed[Any]]:
        await self._run(self._reading.open())
        if windowing.closing is not None:
            for window in windowing.resume():
                yield window
            await asyncio.to_thread(windowing.settle)
        ended = False
        while not ended:
            item = await self.read()
            await asyncio.to_thread(windowing.prepare, item)
            for window in windowing.take(item):
                yield window
            await asyncio.to_thread(windowing.keep, item)
            ended = item is None

    async def __aiter__(self) -> AsyncIterator[Item]:
        while (item := await self.read()) is not None:
            yield item

    async def close(self) -> None:
        """See `EventReader.close`."""
        await self._close(settle=True)

    async def __aenter__(self) -> Self:
        try:
            await self._run(self._reading.open())
        except BaseException:
            await self._release()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """See `EventReader.__exit__`."""
        if kind is None:
            await self._close(settle=True)
            return
        with suppress(StrandlineError):
            await self._close(settle=False)

    async def _close(self, *, settle: bool) -> None:
        try:
            await self._run(self._reading.close(settle=settle))
        finally:
            await self._release()

    async def _release(self) -> None:
        self._reading.closed = True
        await self._leave()
