"""`EventReader`, and `AsyncEventReader` for asyncio: the events of a group's segments, with watermarks in between."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self, Unpack

from reader_client.items import EventItem, Item, ReaderState
from reader_client.options import LateEvents, Options, OptionsGiven
from reader_client.reader import ReaderJobs
from reader_client.steps import drive, drive_async
from strandline.client.http import AsyncConnection, Connection, reach, reach_async
from strandline.core.order import Lag, SegmentRef
from strandline.errors import StrandlineError
from strandline.logs import LogReader
from strandline.wire.groups import GroupWindow, Positions


def _monotonic_ms() -> float:
    return time.monotonic() * 1000


class _Known:
    """What a reader knows by itself, and of the group as of its last report."""

    _reading: ReaderJobs

    @property
    def window(self) -> GroupWindow | None:
        """Where the group stood at the last report; `get_time_window` asks where it stands now. It goes back where
        events are to be read again; watermark items do not."""
        return self._reading.window

    @property
    def positions(self) -> Positions:
        """How far this reader has read, in the segments that it owns. Bounds follow it."""
        return self._reading.positions

    @property
    def settled(self) -> Positions:
        """How far what it has read was dealt with. Whoever reads these segments next goes on from there."""
        return self._reading.settled

    def lags(self, now_ms: int) -> Mapping[str, Mapping[str, Lag]]:
        """How far behind in time its segments are, by stream, where it is `now_ms` (epoch). For the whole group, see
        `ReaderGroup.lag`."""
        return self._reading.lags(now_ms)

    @property
    def late(self) -> LateEvents:
        """The late events that it has read."""
        return self._reading.late

    @property
    def fenced(self) -> int:
        """How often it found that others had taken its segments, because it was silent for too long."""
        return self._reading.fenced

    @property
    def end_of_stream(self) -> bool:
        """Whether all streams are sealed, and the group has read all of them: every window can close."""
        return self._reading.at_end

    def save(self) -> ReaderState:
        """What a reader can go on from later: `state=`. All that was handed out so far counts as dealt with, or lies in
        the open windows, which are part of the state. Keep it in one step with the results, then call `settle`."""
        return self._reading.save()

    def save_segments(self) -> Mapping[SegmentRef, ReaderState]:
        """The same for each segment by itself, so that whoever reads it next goes on from it: `recall=`."""
        return self._reading.save_segments()

    def settle(self) -> None:
        """What was saved last is kept; for a reader with `windows`. The group hears of it with the next report."""
        self._reading.settle()

    def done(self, item: EventItem) -> None:
        """The event has been dealt with; for a reader with `acknowledge`."""
        self._reading.done(item)


class EventReader(_Known):
    """Reads a share of a group's segments, with others who share them. For one thread at a time.

    Iterating yields events until all streams are sealed and read. What was handed out is read, and time moves by it. It
    is settled once the next item is asked for; with `acknowledge`, once `done` was called for it. Every `report_ms` the
    reader tells how far it has read, hears where the group stands, and takes or gives up segments, so that all readers
    have about as many. Who asks for no item for longer than the group's `reader_timeout_ms` loses its segments; others
    go on from what it reported as settled.

    - `logs`: for each stream of the group, where its events are. They stay open.
    - `time_domain`: "event" or "ingestion", and watermark items come between the events, also while none come.
    - `by_stream`: watermark items are those of each stream by itself, and idle items say which stream sleeps, as a
      `Join` needs them. Without it there is one watermark over all streams.
    - `event_time`: from an event to its time, or its times by key. Events older than their stream's lower bound are
      then flagged, counted in `late` (by writer, where `writer_of` tells), and with `on_late` go there instead.
    - `max_event_time_lag_ms`: taken off each watermark, to go from ingestion to event time.
    - `ordered`: the next event is from the segment that is furthest behind by the marks of the time key `order_key`,
      else from each in turn.
    - `backlog`: is kept up to date with every report.
    - `state`: what `save` gave. The segments in it are taken over, whoever has them.
    - `windows`: the open windows, into which events go with `part=item.place`. They are saved and loaded with the
      state, and what is read is settled by `settle`.
    - `recall`: from a stream and a segment to what was kept of it, for windows of a group with several readers. It is
      called, in the thread that reads, when a segment comes to this reader.

    Raises WrongDomain, InvalidConfig, the log's errors, and what calls to the controller raise. After an error of these
    the reader goes on where it was.
    """

    def __init__(
        self,
        controller: str | Connection,
        group: str,
        reader: str,
        logs: Mapping[str, LogReader],
        *,
        token: str | None = None,
        token_file: str | None = None,
        ca_file: str | None = None,
        state: ReaderState | None = None,
        now_ms: Callable[[], float] = _monotonic_ms,
        **options: Unpack[OptionsGiven],
    ) -> None:
        """`controller` is a URL, or a connection that is shared, which brings its own token and stays open; what is not
        given of the token and the files comes from the environment, see `Connection`."""
        self._reading = ReaderJobs(group, reader, logs, Options(**options), state, now_ms)
        self._connection, self._leave = reach(controller, token=token, token_file=token_file, ca_file=ca_file)

    def read(self, wait_ms: float | None = None) -> Item | None:
        """The next item; waits for it at most so long, or for ever. None where none came; `end_of_stream` tells whether
        none will."""
        return drive(self._reading.read(wait_ms), self._connection, time.sleep)

    def get_time_window(self) -> GroupWindow:
        """Where the group stands now, with everything that this reader has handed out.

        It reports how far it has read, so it costs a call; what was handed out last is read then, and not yet settled.
        """
        return drive(self._reading.look(), self._connection, time.sleep)

    def __iter__(self) -> Iterator[Item]:
        while (item := self.read()) is not None:
            yield item

    def close(self) -> None:
        """Tells how far it has read, gives its segments up for others, and leaves the group."""
        self._close(settle=True)

    def __enter__(self) -> Self:
        try:
            drive(self._reading.open(), self._connection, time.sleep)
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """After an exception, the item that was handed out last is read again by someone."""
        if kind is None:
            self._close(settle=True)
            return
        with suppress(StrandlineError):
            self._close(settle=False)

    def _close(self, *, settle: bool) -> None:
        try:
            drive(self._reading.close(settle=settle), self._connection, time.sleep)
        finally:
            self._release()

    def _release(self) -> None:
        self._reading.closed = True
        self._leave()


class AsyncEventReader(_Known):
    """`EventReader` for asyncio, for one task at a time. The logs are read in other threads, one at a time."""

    def __init__(
        self,
        controller: str | AsyncConnection,
        group: str,
        reader: str,
        logs: Mapping[str, LogReader],
        *,
        token: str | None = None,
        token_file: str | None = None,
        ca_file: str | None = None,
        state: ReaderState | None = None,
        now_ms: Callable[[], float] = _monotonic_ms,
        **options: Unpack[OptionsGiven],
    ) -> None:
        """See `EventReader`."""
        self._reading = ReaderJobs(group, reader, logs, Options(**options), state, now_ms)
        self._connection, self._leave = reach_async(controller, token=token, token_file=token_file, ca_file=ca_file)
        self._turns = threading.Lock()

    async def read(self, wait_ms: float | None = None) -> Item | None:
        """See `EventReader.read`."""
        return await drive_async(self._reading.read(wait_ms), self._connection, asyncio.sleep, self._turns)

    async def get_time_window(self) -> GroupWindow:
        """See `EventReader.get_time_window`."""
        return await drive_async(self._reading.look(), self._connection, asyncio.sleep, self._turns)

    async def __aiter__(self) -> AsyncIterator[Item]:
        while (item := await self.read()) is not None:
            yield item

    async def close(self) -> None:
        """See `EventReader.close`."""
        await self._close(settle=True)

    async def __aenter__(self) -> Self:
        try:
            await drive_async(self._reading.open(), self._connection, asyncio.sleep, self._turns)
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
            await drive_async(self._reading.close(settle=settle), self._connection, asyncio.sleep, self._turns)
        finally:
            await self._release()

    async def _release(self) -> None:
        self._reading.closed = True
        await self._leave()
