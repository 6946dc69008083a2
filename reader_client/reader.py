"""The jobs of an `EventReader`, which the sync and the async class run (see `jobs.py`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias

from reader_client.backlog import remaining_offsets
from reader_client.errors import ReaderClosed, StateOfAnotherGroup
from reader_client.event_windows import EventWindows, LeftOut, Saved
from reader_client.fetch import Fetched, fetch
from reader_client.items import EventItem, IdleItem, Item, ReaderState, ReadingDomain, WatermarkItem
from reader_client.jobs import Job
from reader_client.options import LateEvents, Options, by_stream, event_milliseconds
from reader_client.passed_marks import NOBODY, Judged, PassedMarks
from reader_client.progress import News, Progress, no_order
from reader_client.reader_log import ReaderLog
from reader_client.stream_order import StreamOrder
from strandline.client import calls, group_calls
from strandline.client.http import new_registration
from strandline.client.loop import local, remote
from strandline.client.retry import Pause
from strandline.core.event_time_lag import EventTimeLag
from strandline.core.incomplete import OnIncomplete
from strandline.core.note import DEFAULT_KEY, check_key
from strandline.core.order import Lag, SegmentRef
from strandline.core.short_log import CHECKED_MS, short_log
from strandline.errors import (
    Fenced,
    InvalidConfig,
    OutcomeUnknown,
    PositionWentBack,
    StreamRecreated,
    UnknownReader,
    WrongDomain,
)
from strandline.fork import OwningProcess
from strandline.logs import LogReader, StoredEvent
from strandline.logs.errors import NotInLog
from strandline.names import check_name
from strandline.wire.groups import GroupWindow, ReaderAnswer
from strandline.wire.shapes import Positions

POLL_FIRST_MS: Final = 5  # between the first two polls of a log without new events, then twice as long each time
POLL_BOUND_MS: Final = 100  # the longest of these pauses

WatermarkName: TypeAlias = tuple[str | None, str]  # the stream, or None for all streams, and the time key


class ReaderJobs:
    """One reader of a group. It runs one job at a time."""

    def __init__(
        self,
        group: str,
        reader: str,
        logs: Mapping[str, LogReader],
        options: Options,
        state: ReaderState | None,
        now_ms: Callable[[], float],
    ) -> None:
        self.group = check_name("group", group)
        self.reader = check_name("reader", reader)
        given: object = logs
        if not isinstance(given, Mapping) or not all(hasattr(log, "rows") for log in given.values()):
            wanted = 'an open log for each stream, such as {"orders": SqliteLogReader("orders.log")}'
            raise InvalidConfig(name="logs", value=logs, wanted=wanted)
        kept: object = state
        if not isinstance(kept, ReaderState | None):
            wanted = 'a ReaderState, as ReaderState.read("count.state") gives one from a file'
            raise InvalidConfig(name="state", value=kept, wanted=wanted)
        if kept is not None and options.windows is None and _has_events(kept):
            wanted = (
                "that of a reader without windows: it has events of open windows, which would not come again. Create "
                "the reader with windows, or leave them out by dataclasses.replace(state, windows=None)"
            )
            raise InvalidConfig(name="state", value="…", wanted=wanted)
        self.window: GroupWindow | None = None
        self.late = LateEvents()
        self.fenced = 0
        self.closed = False
        self._has_read = False
        self._is_only = False  # whether its windows need all of the group's events
        self.time_key: str | None = None  # of the times of its windows, where that is known
        self._logs = logs
        self.options = options
        self._state = self._settled_state = state
        self._saved_state = state
        self._saved_segments = dict[SegmentRef, ReaderState]()
        self._left_at = dict[SegmentRef, int]()  # up to where lost segments were read whose events are in open windows
        self._now_ms = now_ms
        self._identities = dict[str, str]()  # of the streams
        self._epoch: int | None = None
        self._orders = {stream: StreamOrder(stream, options.order_key) for stream in logs}
        self._progress: Progress[StoredEvent] = Progress(self._bound if options.ordered else no_order)
        lags = by_stream("max_event_time_lag_ms", options.max_event_time_lag_ms, logs)
        self._lags = {stream: EventTimeLag(lag) for stream, lag in lags.items()}
        self._greatest_lag = EventTimeLag(max(lags.values(), default=0))
        self._event_time = by_stream("event_time", options.event_time, logs)
        self._time_unit = by_stream("time_unit", options.time_unit, logs)
        self._writer_of = by_stream("writer_of", options.writer_of, logs)
        self._log = ReaderLog(group, reader, now_ms)
        self._marks = PassedMarks(OnIncomplete(options.on_incomplete), self._log.paced)
        self._judged: Judged | None = None  # the group's window as this reader goes by it
        self._latest = dict[tuple[str, str], int | None]()  # below which an event is late, by stream and key
        self._waiting: deque[WatermarkItem | IdleItem] = deque()
        self._queued = _watermarks(state)
        self._returned = dict(self._queued)
        self._idle: dict[str, bool] = {}  # streams that were reported idle, and whether as ended
        self._given: tuple[SegmentRef, int] | None = None
        if options.windows is not None and state is not None and state.windows is not None:
            options.windows.load(state.windows)
        self._report_at = self._fetch_at = 0.0
        self._log_checked_at = now_ms()
        self._pause_ms: float = POLL_FIRST_MS
        self._origin = OwningProcess(f"reader {reader!r} of group {group!r}")

    def from_state(self, windows: EventWindows[Any], state: ReaderState | None, time_key: str) -> ReaderJobs:
        """This reader with windows over times of a key, going on from a state. Raises InvalidConfig if it has read
        something, or has windows or a state already."""
        given = self.options
        if self._has_read or given.windows is not None or self._state is not None:
            wanted = "called once, before anything is read, of a reader without windows or a state"
            raise InvalidConfig(name="windows()", value="…", wanted=wanted)
        options = replace(given, windows=windows)
        after = ReaderJobs(self.group, self.reader, self._logs, options, state, self._now_ms)
        after._log, after._marks = self._log, self._marks  # no line comes twice
        after._is_only, after.time_key = True, time_key
        return after

    # -- jobs ----------------------------------------------------------------------------------------------------

    def open(self) -> Job[None]:
        """Registers, at the positions of the given state, and acquires its share of the segments.

        Raises StreamRecreated if the state is of an earlier stream of the same name."""
        self._check_open()
        described = yield from remote(group_calls.describe_group(self.group))
        self._check_logs(described.streams)
        timeout = described.reader_timeout_ms
        if timeout is not None and timeout <= self.options.report_ms:
            wanted = f"less than the group's reader_timeout_ms, {timeout}"
            raise InvalidConfig(name="report_ms", value=self.options.report_ms, wanted=wanted)
        heads = dict[str, Mapping[str, int]]()
        for stream in described.streams:
            found = yield from remote(calls.describe(stream))
            self._identities[stream], heads[stream] = found.identity, found.head
            domain = found.config.time_domain
            if self.options.time_domain not in (ReadingDomain.PROCESSING, domain):
                asked = f"watermarks of the {self.options.time_domain} time domain"
                raise WrongDomain(stream=stream, time_domain=domain, call=asked)
        if self._state is not None:
            self._check_identities(self._state)
        positions = self._state.positions if self._state is not None else {}
        answer = yield from remote(group_calls.register_reader(self.group, self.reader, positions, new_registration()))
        yield from self._take_and_balance(answer)
        others = [each for each in described.readers if each.reader != self.reader]
        if self._is_only and any(each.owned for each in others):
            self._log.shared()
        has_none = self._state is None or self._state.windows is None  # of the events in open windows
        lacks_state = self.options.windows is not None and has_none and self.options.recall is None
        if lacks_state and not others and described.start == "head":  # another reader may have it
            read = {name: each.position for name, each in answer.window.streams.items() if not each.end_of_stream}
            self._log.check_state(read, heads)
        if self.at_end and not self.options.windows:  # none, or no events in open ones
            self._log.all_read()

    def read(self, wait_ms: float | None) -> Job[Item | None]:
        """Returns the next item; None on timeout, or at the end of the streams."""
        self._origin.check()
        self._check_open()
        self._has_read = True
        self._settle()
        if self._epoch is None:
            yield from self.open()
        deadline = None if wait_ms is None else self._now_ms() + wait_ms
        while True:
            if self._waiting:
                item = self._waiting.popleft()
                if isinstance(item, WatermarkItem):
                    self._returned[item.stream, item.key] = item.watermark
                return item
            if self._now_ms() >= self._report_at or self._progress.has_finished:
                yield from self._report()
                continue
            yield from self._fill()
            yield from self._order(needed=True)
            found = self._next_event()
            now = self._now_ms()
            if found is not None:
                self._log_checked_at = now
                return found
            if self.at_end or (deadline is not None and now >= deadline):
                return None
            if now - self._log_checked_at >= CHECKED_MS:
                self._log_checked_at = now
                yield from self._check_log_ends()
            until = min(self._report_at, now + POLL_BOUND_MS if deadline is None else deadline)
            if self._progress.wanting():
                until = min(until, self._fetch_at)
            yield Pause(max(1.0, until - now))

    def current_window(self) -> Job[GroupWindow]:
        """Returns the group's current window, with all events that this reader has returned."""
        self._origin.check()
        self._check_open()
        if self._epoch is None:
            yield from self.open()
        yield from self._report(balance=False)
        assert self.window is not None, "every answer to a report has one"
        return self.window

    def close(self, *, settle: bool) -> Job[None]:
        """Reports its positions, releases its segments and leaves the group. Without `settle`, the item that was
        returned last stays unsettled."""
        if self.closed:
            return
        self.closed = True
        if self._epoch is None:
            return
        if settle:
            self._settle()
        self._write_late(ends=True)
        try:
            yield from self._send_report(self._epoch, self._progress.news())
            yield from remote(group_calls.offline(self.group, self.reader, {}))
        except (Fenced, PositionWentBack, UnknownReader):
            return  # it has lost its segments already

    def save(self) -> ReaderState:
        """Returns a state to continue from; every returned event counts as processed, or lies in the windows."""
        self._settle()
        windows = self.options.windows
        if windows is None:
            return self._state_of(self._progress.settled(), None)
        self._saved_state = self._state_of(self._progress.positions(), windows.save())
        return self._saved_state

    def remember(self) -> None:
        """Goes on from here, should it lose segments and get them back: the closed windows are handed out now."""
        self._settled_state = self.save()

    def _state_of(self, positions: Positions, windows: Saved | None) -> ReaderState:
        by_stream: dict[str, dict[str, int]] = {}
        for (stream, key), watermark in self._returned.items():
            if stream is not None:
                by_stream.setdefault(stream, {})[key] = watermark
        watermarks = {key: watermark for (stream, key), watermark in self._returned.items() if stream is None}
        return ReaderState(positions, watermarks, windows, by_stream, dict(self._identities), self.group)

    def _check_identities(self, state: ReaderState) -> None:
        for stream, identity in state.identities.items():
            present = self._identities.get(stream, identity)
            if identity != present:
                raise StreamRecreated(stream=stream, identity=identity, present=present)
        if state.group is not None and state.group != self.group:
            raise StateOfAnotherGroup(group=self.group, found=state.group)

    def save_segments(self) -> dict[SegmentRef, ReaderState]:
        """Returns a state for each segment."""
        windows = self._windows("save_segments")
        places = {(stream, segment): at for stream, each in self.positions.items() for segment, at in each.items()}
        saved = windows.save_parts(places)
        self._saved_segments = {
            place: self._state_of({place[0]: {place[1]: at}}, saved[place]) for place, at in places.items()
        }
        return self._saved_segments

    def settle(self) -> None:
        """Settles the state that was saved last."""
        self._windows("settle")
        if self.options.recall is None:
            self._settled_state = self._saved_state
            for stream, position in ({} if self._settled_state is None else self._settled_state.positions).items():
                for segment, offset in position.items():
                    self._progress.settle((stream, segment), offset)
            return
        for place, state in self._saved_segments.items():
            self._progress.settle(place, _offset(state, place), held=_has_events(state))

    def done(self, item: EventItem) -> None:
        self._progress.done((item.stream, item.event.segment), item.event.offset)

    @property
    def positions(self) -> Positions:
        return self._progress.positions()

    @property
    def settled(self) -> Positions:
        return self._progress.settled()

    def lags(self, now: int) -> dict[str, dict[str, Lag]]:
        return {stream: self._orders[stream].lags(each, now) for stream, each in self._progress.positions().items()}

    @property
    def at_end(self) -> bool:
        """Whether all streams are sealed, and the group has read them to their ends."""
        streams = self.window.streams.values() if self.window is not None else ()
        return bool(streams) and all(each.end_of_stream for each in streams)

    # -- events --------------------------------------------------------------------------------------------------

    def _fill(self) -> Job[None]:
        """Fetches events of segments that have none fetched; after an empty fetch, only when a pause is over."""
        wanting = self._progress.wanting()
        if not wanting or (self._now_ms() < self._fetch_at and not self._progress.starved):
            return
        found = False
        for stream, log in self._logs.items():
            wanted = {place[1]: self._progress.cursors[place].fetched for place in wanting if place[0] == stream}
            if wanted:
                for piece in (yield from self._fetch(stream, log, wanted)):
                    found = found or piece.upto > wanted[piece.segment]
                    self._progress.feed((stream, piece.segment), piece.events, piece.upto, piece.end)
                    if piece.final is not None:
                        self._progress.end((stream, piece.segment), piece.final)
        self._pause_ms = POLL_FIRST_MS if found else min(2 * self._pause_ms, POLL_BOUND_MS)
        self._fetch_at = self._now_ms() + self._pause_ms

    def _fetch(self, stream: str, log: LogReader, wanted: Mapping[str, int]) -> Job[list[Fetched]]:
        try:
            return (yield from local(partial(fetch, log, wanted)))
        except NotInLog as error:
            if error.first is None:
                raise
            there = {stream: {error.segment: error.first}}
            wanted_instead = (
                f"{stream}/{error.segment} begins at {error.first} now. To go on there, without what was removed, move "
                f"the group once, ReaderGroup(…, {self.group!r}).register({self.reader!r}, {there!r}), remove this "
                "reader's saved state if it has one, and start the reader again"
            )
            raise NotInLog(**{**error.values, "wanted": wanted_instead}) from None

    def _check_log_ends(self) -> Job[None]:
        """Names a log that has ended where marks have not."""
        for stream, each in {} if self.window is None else self.window.streams.items():
            if each.upper is not None:  # a mark is ahead
                described = yield from remote(calls.describe(stream))
                ends = yield from local(self._logs[stream].end_offsets)
                line = short_log(stream, ends, [mark.cut for mark in described.latest_marks.values()])
                if line is not None:
                    self._log.short_log(stream, line)

    def _next_event(self) -> EventItem | None:
        """Returns the next event that is not for `on_late`."""
        while (taken := self._progress.take()) is not None:
            place, event = taken
            try:
                item = self._item(place[0], event)
                if item.is_late:
                    self._count_late(item)
                    if self.options.on_late is not None:
                        self.options.on_late(item)
                        self._progress.done(place, event.offset)
                        continue
            except BaseException:
                self._progress.put_back(place, event)
                raise
            self._idle.pop(place[0], None)
            if not self.options.acknowledge and self.options.windows is None:
                self._given = place, event.offset
            return item
        return None

    def _count_late(self, item: EventItem) -> None:
        writer_of = self._writer_of[item.stream]
        writer = None if writer_of is None else writer_of(item.event)
        self.late.count(writer)
        below = [self._latest_bound(item.stream, key) for key in item.late]
        self._log.late(item, max(bound for bound in below if bound is not None), writer)

    def _write_late(self, *, ends: bool = False) -> None:
        self._log.write_late(passed_on=self.options.on_late is not None, ends=ends)

    def _item(self, stream: str, event: StoredEvent) -> EventItem:
        event_time = self._event_time[stream]
        if event_time is None and self.options.time_domain != ReadingDomain.INGESTION:
            return EventItem(stream, event, {})
        try:
            times = event.appended_at if event_time is None else event_time(event)
            given = times if isinstance(times, Mapping) else {DEFAULT_KEY: times}
            unit = None if event_time is None else self._time_unit[stream]
            by_key = {check_key(key): event_milliseconds(time, unit) for key, time in given.items()}
        except Exception as error:
            self._log.unreadable(stream, event, error)
            raise
        if not by_key:
            self._log.unreadable(stream, event, None)
        window = None if self.window is None else self.window.streams.get(stream)
        self._log.check_unit(stream, event, by_key, None if window is None else window.lower)
        return EventItem(
            stream, event, by_key, tuple([key for key in by_key if self._is_late(stream, key, by_key[key])])
        )

    def _is_late(self, stream: str, key: str, time: int) -> bool:
        """Whether this time is below the bound of the event's stream or the watermark of all streams."""
        bound = self._latest_bound(stream, key)
        return bound is not None and time < bound

    def _latest_bound(self, stream: str, key: str) -> int | None:
        """The greater one of the stream's bound and, without `by_stream`, the watermark of all streams."""
        if self._judged is None:
            return None
        if (stream, key) not in self._latest:
            window = self._judged.window
            bounds = [self._own_bound(window, stream, key)]
            if not self.options.by_stream:
                bounds.append(self._passed(key))
            self._latest[stream, key] = max((bound for bound in bounds if bound is not None), default=None)
        return self._latest[stream, key]

    def _passed(self, key: str) -> int | None:
        """The watermark of all streams, below which windows are closed. The only reader of a group closed those below
        each that it has returned, also where the group went back since."""
        passed = [None if self._judged is None else self._all_bound(self._judged.window, key)]
        if self._is_only:
            passed.append(self._returned.get((None, key)))
        return max((bound for bound in passed if bound is not None), default=None)

    def _closed_before(self, stream: str) -> int | None:
        """The time up to which windows are closed for a segment of a stream that is new here: of its own watermark with
        `by_stream`. Where the key of the windows' times is not known, it is the least of all keys."""
        window = None if self._judged is None else self._judged.window
        keys = [self.time_key] if self.time_key is not None else [] if window is None else list(window.watermarks)
        if window is not None and self.options.by_stream:
            bounds = [self._own_bound(window, stream, key) for key in keys]
        else:
            bounds = [self._passed(key) for key in keys]
        known = [bound for bound in bounds if bound is not None]
        return min(known) if known and len(known) == len(bounds) else None

    def _own_bound(self, window: GroupWindow, stream: str, key: str) -> int | None:
        keys = window.streams[stream].keys if stream in window.streams else {}
        return self._lags[stream].apply(keys[key].lower) if key in keys else None

    def _all_bound(self, window: GroupWindow, key: str) -> int | None:
        """The watermark of all streams: the least of those that are not idle, each less its own lag. While a group
        holds its watermark above these, no stream takes off more than the greatest lag."""
        counted = [self._own_bound(window, stream, key) for stream in window.streams if stream not in window.idle]
        known = [bound for bound in counted if bound is not None]
        least = min(known) if known and len(known) == len(counted) else None
        held = self._greatest_lag.apply(window.watermarks.get(key))
        return held if least is None or held is None else max(held, least)

    def _settle(self) -> None:
        """Settles the item that was returned last."""
        if self._given is not None:
            self._progress.done(*self._given)
            self._given = None

    def _bound(self, name: str, offset: int) -> int | None:
        stream, _, segment = name.partition("/")
        return self._orders[stream].bound(segment, offset)

    # -- the group -----------------------------------------------------------------------------------------------

    def _report(self, *, balance: bool = True) -> Job[None]:
        """Reports its positions, and takes the answer: with `balance`, acquires or releases segments by its share."""
        if self._epoch is None:
            raise ReaderClosed(reader=self.reader)
        self._write_late()
        news = self._progress.news()
        try:
            answer = yield from self._send_report(self._epoch, news)
            self._progress.reported(news)
        except (Fenced, PositionWentBack, InvalidConfig):
            # It was silent for too long, and others continue; or the group no longer reads one of these streams.
            # If another process has its name, this raises Fenced as well.
            answer = yield from remote(group_calls.report(self.group, self.reader, self._epoch, {}))
        except UnknownReader:  # `offline` removed it, or it was silent for a day
            answer = yield from remote(group_calls.register_reader(self.group, self.reader, {}, new_registration()))
        if balance:
            yield from self._take_and_balance(answer)
        else:
            yield from self._take_answer(answer)

    def _send_report(self, epoch: int, news: News) -> Job[ReaderAnswer]:
        settled = None if news.settled == news.positions else news.settled
        return (yield from remote(group_calls.report(self.group, self.reader, epoch, news.positions, settled)))

    def _take_and_balance(self, answer: ReaderAnswer) -> Job[None]:
        """Takes an answer, and acquires or releases segments by the share in it."""
        yield from self._take_answer(answer)
        try:
            yield from self._balance(answer)
        except (Fenced, PositionWentBack, UnknownReader):
            return  # it lost segments since the answer: the next report, due at once, updates them
        yield from self._order(needed=False)
        yield from self._update_backlog()
        self._report_at = self._now_ms() + self.options.report_ms

    def _balance(self, answer: ReaderAnswer) -> Job[None]:
        room = min(answer.free, self._progress.room(answer.share))
        surplus = self._progress.surplus(answer.share)
        if room:
            try:
                found = yield from remote(group_calls.acquire(self.group, self.reader, answer.epoch, room))
            except OutcomeUnknown:
                found = yield from remote(group_calls.report(self.group, self.reader, answer.epoch, {}))
            yield from self._take_answer(found)
        elif surplus:
            if self._is_only:
                self._log.shared()
            news = self._progress.news_of(surplus)
            left = yield from remote(
                group_calls.release(self.group, self.reader, answer.epoch, news.positions, news.settled)
            )
            self._progress.drop(surplus)
            for place in surplus:
                self._lose(place)
            yield from self._take_answer(left)

    def _take_answer(self, answer: ReaderAnswer) -> Job[None]:
        """Takes an answer: the owned segments, and the group's window with its watermarks. Raises WritersLeftOut."""
        self._check_logs(answer.window.streams)
        self._epoch = answer.epoch
        self._drop_queued(answer.window)
        if self.options.follows_time:  # before segments begin: windows below its bound are closed there
            self._judged = yield from self._marks.judge(answer.window)
            self._latest.clear()
            self._drop_queued(self._judged.window)
        self.fenced += self._progress.loses(answer.owned)
        adopted = self._progress.adopt(answer.owned)
        for place in adopted.lost:
            if place[0] in answer.window.streams:
                self._lose(place)
            elif self.options.windows is not None:  # should the group read the stream again, its events come again
                self.options.windows.drop(place)
        for place, offset in adopted.new.items():
            self._begin(place, offset)
        for name, each in answer.window.streams.items():
            if each.end_of_stream:  # the log need not have it that the stream was sealed
                for segment, offset in answer.owned.get(name, {}).items():
                    self._progress.end((name, segment), offset)
        self.window = answer.window
        judged = self._judged
        if judged is None or self.options.time_domain == ReadingDomain.PROCESSING:
            return
        for (stream, key), value in sorted(self._bounds(judged.window).items(), key=repr):
            before = self._queued.get((stream, key))
            if before is None or value > before:
                self._queued[stream, key] = value
                self._waiting.append(WatermarkItem(value, key, stream, self._left_out(judged, stream, key)))
                if stream is not None:
                    self._idle.pop(stream, None)
        if self.options.by_stream:
            self._queue_idle(judged.window)

    def _left_out(self, judged: Judged, stream: str | None, key: str) -> LeftOut:
        """Whom the bound of a stream leaves out, or of all streams, and until when in event time."""
        found: dict[str, int | None] = {}
        for (name, of_key), writers in judged.left_out.items():
            if of_key == key and stream in (None, name):
                for writer, time in writers.items():
                    there = self._lags[name].apply(time)
                    known = found.get(writer, there)
                    found[writer] = None if there is None or known is None else min(there, known)
        return found or NOBODY

    def _bounds(self, window: GroupWindow) -> dict[WatermarkName, int]:
        """Returns the watermarks to yield: of each stream with `by_stream`, otherwise of all together."""
        names: list[WatermarkName] = [(None, key) for key in window.watermarks]
        if self.options.by_stream:
            names = [(stream, key) for stream, each in window.streams.items() for key in each.keys]
        bounds = {name: self._bound_of(window, name) for name in names}
        return {name: value for name, value in bounds.items() if value is not None}

    def _bound_of(self, window: GroupWindow, name: WatermarkName) -> int | None:
        stream, key = name
        if stream is None:
            return self._all_bound(window, key)
        return self._own_bound(window, stream, key)

    def _queue_idle(self, window: GroupWindow) -> None:
        """Queues an idle item for each stream that became idle, or ended, since its last item."""
        self._idle = {stream: ended for stream, ended in self._idle.items() if stream in window.idle}
        for stream in window.idle:
            ended = window.streams[stream].end_of_stream
            if self._idle.get(stream) != ended:
                self._idle[stream] = ended
                self._waiting.append(IdleItem(stream, ended))

    # -- windows -------------------------------------------------------------------------------------------------

    def _windows(self, call: str) -> EventWindows[Any]:
        if self.options.windows is None:
            raise InvalidConfig(name="windows", value=None, wanted=f"create the reader with windows to call {call}()")
        return self.options.windows

    def _lose(self, place: SegmentRef) -> None:
        """Drops a segment's unsettled events: another reader takes it over, from the settled position."""
        windows, state = self.options.windows, self._settled_state
        if windows is None:
            return
        if self.options.recall is None and state is not None:
            windows.load(state.windows, [place])  # its stored state stays with this reader
            windows.pass_over(place)
            if (offset := _position_in(state, place)) is not None:
                self._left_at[place] = offset
        else:
            windows.drop(place)

    def _begin(self, place: SegmentRef, settled: int) -> None:
        """Continues a segment that this reader has acquired, from its stored state. Without one, no window opens there
        that the group's watermark has passed: what is older is late, whoever had the segment before."""
        windows, recall, state = self.options.windows, self.options.recall, self._settled_state
        if windows is None:
            return
        if recall is not None:
            state = recall(*place)
            if state is not None:
                self._check_identities(state)
                self._go_on(place, settled, state)
        saved = None if state is None else state.windows
        windows.load(saved, [place])
        known = None if state is None else _position_in(state, place)
        known = self._left_at.pop(place, None) if known is None else known
        if saved is None or known is None or known < settled:  # if less: others read on, and their open windows come
            windows.reopen(place, self._closed_before(place[0]))
        if recall is None and known is not None and known > settled:  # the state was not reported to the group
            self._progress.begin(place, known, held=False)

    def _go_on(self, place: SegmentRef, settled: int, state: ReaderState) -> None:
        """Goes on in a segment from the state that was kept of it."""
        offset = _offset(state, place)
        if offset < settled:
            wanted = f"{settled} or later, since earlier events are settled and not read again"
            raise InvalidConfig(name=f"the kept state of {place[0]}/{place[1]}", value=offset, wanted=wanted)
        self._progress.begin(place, offset, held=_has_events(state))

    def _drop_queued(self, window: GroupWindow) -> None:
        """Drops watermarks that were not returned yet and are beyond the group's: segments went back to their settled
        positions, and events that are read again may be older."""
        state = deque[WatermarkItem | IdleItem]()
        queued = dict(self._returned)
        for item in self._waiting:
            if isinstance(item, IdleItem):
                if item.stream in window.idle:
                    state.append(item)
                continue
            reached = self._bound_of(window, (item.stream, item.key))
            if reached is not None and item.watermark <= reached:
                state.append(item)
                queued[item.stream, item.key] = item.watermark
        self._waiting, self._queued = state, queued

    def _order(self, *, needed: bool) -> Job[None]:
        """Fetches marks for the order of segments: with `needed`, only if the order needs them now."""
        if not self.options.ordered or self.window is None:
            return
        for stream, order in self._orders.items():
            if order.wants_more or not needed:
                position = self._progress.positions().get(stream, {})
                if position:
                    yield from order.catch_up(position, self.window.streams[stream].position)

    def _update_backlog(self) -> Job[None]:
        backlog = self.options.backlog
        if backlog is not None and self.window is not None:
            window, remaining = self.window, None
            if backlog.counts_offsets:
                remaining = yield from local(lambda: remaining_offsets(window, self._logs))
            backlog.update(window, remaining)

    def _check_logs(self, streams: Iterable[str]) -> None:
        """Raises InvalidConfig for a stream of the group without a log. Streams may be added at any time."""
        missing = [stream for stream in streams if stream not in self._logs]
        if missing:
            raise InvalidConfig(name="logs", value=list(self._logs), wanted=f"a log for each stream, also {missing}")

    def _check_open(self) -> None:
        if self.closed:
            raise ReaderClosed(reader=self.reader)


def _watermarks(state: ReaderState | None) -> dict[WatermarkName, int]:
    """Returns the watermarks that were returned before the state was saved."""
    if state is None:
        return {}
    given: dict[WatermarkName, int] = {(None, key): watermark for key, watermark in state.watermarks.items()}
    return given | {(stream, key): at for stream, keys in state.by_stream.items() for key, at in keys.items()}


def _position_in(state: ReaderState, place: SegmentRef) -> int | None:
    """Returns a state's position in a segment, or None."""
    return state.positions.get(place[0], {}).get(place[1])


def _offset(state: ReaderState, place: SegmentRef) -> int:
    """Returns the position in a segment's own state. Raises InvalidConfig if it has none."""
    offset = _position_in(state, place)
    if offset is None:
        wanted = f"the state of {place[0]}/{place[1]}"
        raise InvalidConfig(name="the recalled state", value=dict(state.positions), wanted=wanted)
    return offset


def _has_events(state: ReaderState) -> bool:
    return state.windows is not None and bool(state.windows["events"])
