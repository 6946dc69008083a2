"""The data source `strandline`: the events of a log, and in a stream the watermark at the end of each batch.

A batch of a stream has event rows, whose mark is null, and one *mark row*, whose mark is set. `exact_watermark` turns
the marks into Spark's watermark. `spark_integration.rows` describes the columns.

Spark creates the reader in several Python processes: one on the driver plans for the life of the query, and one for
each batch serialises the reader for the executors. So a reader holds only its options until it plans.

Each event row has the mark at the end of the batch before it, in the column `floor`. A DataFrame cannot ask for that
mark, and only by it a query can find which row is late.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar
from uuid import uuid4

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from spark_integration.batches import gather, plan_end, split
from spark_integration.errors import InvalidOffset, InvalidOption, UnsupportedLimit, sentence_first
from spark_integration.left_out import LEFT_OUT_SCHEMA, LeftOutFile, LeftOutReader
from spark_integration.offsets import END_OF_TIME_MS, SourceOffset, begun, check_key, later
from spark_integration.options import LEFT_OUT, LeftOutOptions, SourceOptions
from spark_integration.read_ranges import begin, find_range
from spark_integration.releases import HAS_LIMITS, ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from spark_integration.reports import GroupFollower, followed
from spark_integration.rows import SCHEMA, ReadPartition, SegmentRange, read_partition, status_of
from spark_integration.window_calls import WINDOW_FIRST_PAUSE_MS, WINDOW_PAUSE_BOUND_MS, ControllerWindows
from spark_integration.window_judge import WindowJudge
from strandline.core.backlog import AnyBacklog, BacklogDetector, BacklogStrategy, RemainingOffsetsStrategy
from strandline.core.event_time_lag import EventTimeLag
from strandline.core.short_log import CHECKED_MS, short_log
from strandline.core.writer import WriterState
from strandline.logs.errors import LogUnavailable

if TYPE_CHECKING:
    import pyarrow as pa

    from strandline.logs import LogReader
    from strandline.wire.groups import GroupWindow
    from strandline.wire.shapes import Positions

PARTITION_ROWS: Final = 1_000_000  # a longer range is split, so that catching up uses every core
TASK_ROWS: Final = 50_000  # shorter ranges share a task: to begin one takes as long as to read ten thousand rows

_log = logging.getLogger(__name__)

Value = TypeVar("Value")


class StrandlineSource(DataSource):
    """`format("strandline")`, for streaming and batch reads. `options.OPTIONS` describes its options."""

    job: ClassVar[Mapping[str, str]] = {}  # the session's settings; options override them
    strategies: ClassVar[tuple[BacklogStrategy, ...]] = ()  # the caller's, see `register`

    @sentence_first
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        given = {**self.job, **options}
        self._left_out = LeftOutOptions.of(given)
        if self._left_out is None:
            self._settings = SourceOptions.parse(given)

    @classmethod
    def name(cls) -> str:
        return "strandline"

    def schema(self) -> StructType:
        return SCHEMA if self._left_out is None else LEFT_OUT_SCHEMA

    @sentence_first
    def reader(self, schema: StructType) -> DataSourceReader:
        if self._left_out is not None:
            return LeftOutReader(self._left_out)
        if self._settings.left_out_to is not None:
            raise InvalidOption(name="leftOutTo", value=self._settings.left_out_to, wanted="it is for spark.readStream")
        return StrandlineReader(self._settings)

    @sentence_first
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        if self._left_out is not None:
            raise InvalidOption(name="read", value=LEFT_OUT, wanted="it is for spark.read; leftOutTo is for a stream")
        reader = StrandlineStreamReader(self._settings, self.strategies)
        return reader if HAS_LIMITS else ReaderWithoutStarts(reader)


class StrandlineReader(DataSourceReader):
    """Reads once, from one position to another. The columns mark and floor are null."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    @sentence_first
    def partitions(self) -> list[InputPartition]:
        found = find_range(self._options)
        for remark in found.remarks():
            _log.warning("stream %s: %s", self._options.access.stream, remark)
        return list(_partitions(found.beginning.positions, found.end, None))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with sentence_first:
            yield from read_partition(self._options.place, partition)


class StrandlineStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches and reads them. Spark's names; see `pyspark.sql.datasource`."""

    def __init__(self, options: SourceOptions, strategies: tuple[BacklogStrategy, ...] = ()) -> None:
        self._options = options
        self._run = uuid4().hex[:8]
        self._by_lag = BacklogDetector(options.backlog_threshold_ms)  # without a group, which has a status of its own
        self._behind = self._by_lag.backlog
        self._by_size = RemainingOffsetsStrategy(options.backlog_remaining_offsets)
        self._strategies = strategies
        self._target: SourceOffset | None = None  # set for availableNow: where to stop
        self._read: Positions | None = None  # the group's positions when its watermark was last followed
        self._log_checked_at = 0.0  # or when the last batch was planned
        self._log_is_short = False  # and named

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._options,)

    # -- planning, on the driver -----------------------------------------------------------------------------

    @sentence_first
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        beginning = begin(self._options, self._log, self._windows)
        for remark in (beginning.doubt, beginning.widened):
            if remark is not None:
                _log.warning("stream %s: %s", self._options.access.stream, remark)
        return SourceOffset(beginning.positions, run=self._run).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """Returns the limit that Spark passes with each batch: if a backlog is possible, the backlog's limit."""
        options, usual = self._options, self._options.max_rows_per_batch
        if options.backlog_threshold_ms or options.backlog_remaining_offsets or self._strategies:
            return ReadMaxRows(options.max_rows_per_backlog_batch)
        if usual is None:
            return ReadAllAvailable()
        # Spark calls this once, and an operator may set the group's threshold later.
        return ReadMaxRows(usual if options.group is None else max(usual, options.max_rows_per_backlog_batch))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Returns the end of the next batch, or `start` if neither data nor the mark moved since this run's last batch.

        Spark calls it when the batch that ended at `start` is finished, so it also reports `start` to the group.
        """
        return self.end_of_batch(start, start, limit)

    @sentence_first
    def end_of_batch(self, start: dict[str, Any], processed: dict[str, Any] | None, limit: ReadLimit) -> dict[str, Any]:
        """The same, where what is processed may be another offset."""
        begin, key = SourceOffset.from_json(start), self._options.access.time_key
        check_key(begin, key)
        settled = {} if processed is None else SourceOffset.from_json(processed).positions
        follower = None if processed is None else self._follower
        group = None if follower is None else follower.report(settled)
        segments = self._ask_log(lambda log: log.segments())
        ends = self._ends(begin)
        if self._target is not None:
            ends = {segment: min(end, self._target.position(segment)) for segment, end in ends.items()}
        # A segment that was created between the two reads of the log is left for a later batch.
        backlog = self._in_backlog(begin, ends, group)
        planned = plan_end(begin.positions, ends, segments, self._rows(limit, backlog))
        mark, without, identity = self._bound(planned, begin.identity)
        if self._target is not None:  # the mark may move for ever, but this run must end
            mark = None if mark is None or self._target.mark is None else min(mark, self._target.mark)
        if follower is not None and group is not None and len(group.streams) > 1:
            # Every source reports what it plans: an `availableNow` run ends with the first plan that brings nothing
            # new, and has to see the positions of its last batch by then.
            window = follower.report(planned, {name: settled[name] for name in planned.keys() & settled.keys()})
            mark = later(mark, self._followed(window))
        end = SourceOffset(planned, later(begin.mark, mark), backlog, self._run, identity, key, without)
        if end.run == begin.run and end.mark == begin.mark and not _moved(begin, planned):
            if planned == ends and self._windows.now_ms() - self._log_checked_at >= CHECKED_MS:
                self._check_log_ends()
            return start  # a change of the backlog alone needs no batch
        self._log_checked_at = self._windows.now_ms()
        return end.to_json()

    def _followed(self, window: GroupWindow) -> int | None:
        """Returns the watermark of the group that other sources of the query share, if it leaves this stream out.

        In an `availableNow` run it moves only with the positions, since the run must end.
        """
        access = self._options.access
        bound = followed(window, access.stream, access.time_key)
        bound = self._marks.followed(bound, complete=window.complete)
        read = {stream: each.position for stream, each in window.streams.items()}
        if bound is None or (self._target is not None and read == self._read):
            return None
        self._read = read
        return EventTimeLag(self._options.max_event_time_lag_ms).apply(bound)

    @sentence_first
    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Returns where the log ends, without the mark there: only progress reports use it."""
        return SourceOffset(self._ask_log(lambda log: log.end_offsets()), backlog=self._backlog()).to_json()

    @sentence_first
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        ends = self._ask_log(lambda log: log.end_offsets())
        self._check_log_ends()
        planned = plan_end({}, ends, self._ask_log(lambda log: log.segments()), None)
        self._target = SourceOffset(planned, self._bound(planned, None)[0])

    @sentence_first
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begin, until = SourceOffset.from_json(start), SourceOffset.from_json(end)
        if begin == until:
            return []
        work = _partitions(begin.positions, until.positions, begin.mark)
        if until.mark is None:
            return list(work)
        *others, last = work or [ReadPartition(floor=begin.mark)]
        status, left_out = status_of(until.backlog, len(until.without)), self._left_out(begin, until)
        return [*others, replace(last, mark=until.mark, status=status, left_out=left_out)]

    def stop(self) -> None:
        for opened in (vars(self).get("_log"), vars(self).get("_windows")):
            if opened is not None:
                opened.close()

    # -- reading, on the executors ---------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one partition, as Arrow batches of exactly Spark's schema."""
        with sentence_first:
            yield from read_partition(self._options.place, partition)

    # -- inside ----------------------------------------------------------------------------------------------

    @cached_property
    def _log(self) -> LogReader:
        return self._options.place.open_reader()

    @cached_property
    def _windows(self) -> ControllerWindows:
        return ControllerWindows(self._options.access)

    @cached_property
    def _marks(self) -> WindowJudge:
        return WindowJudge(self._windows, self._options.access.stream, self._options.on_incomplete)

    @cached_property
    def _follower(self) -> GroupFollower | None:
        options, threshold_ms = self._options, self._options.backlog_threshold_ms
        if options.group is None:
            return None
        return GroupFollower(self._windows, options.group, options.access.stream, backlog_threshold_ms=threshold_ms)

    def _ask_log(self, ask: Callable[[LogReader], Value]) -> Value:
        """Asks the log until it answers, for `controllerWaitMs`. Raises LogUnavailable after that."""
        windows, options = self._windows, self._options
        started_ms = windows.now_ms()
        while True:
            try:
                return ask(self._log)
            except LogUnavailable as error:
                waited_ms = windows.now_ms() - started_ms
                if waited_ms >= options.access.wait_ms:
                    by = f"{options.place} was asked for {waited_ms:.0f} ms, see controllerWaitMs; the last error"
                    raise LogUnavailable(path=error.path, reason=f"{by}: {error.reason}") from error
            windows.pause(WINDOW_PAUSE_BOUND_MS)

    def _ends(self, begin: SourceOffset) -> Mapping[str, int]:
        """Returns where the log ends. Raises InvalidOffset if that is before the checkpoint: then it is another log.
        Where a log's end is not seen at once it waits first."""
        windows, options = self._windows, self._options
        started_ms = windows.now_ms()
        while True:
            ends = self._ask_log(lambda log: log.end_offsets())
            missing = {name: offset for name, offset in begin.positions.items() if offset > ends.get(name, 0)}
            if not missing:
                return ends
            if options.place.ends_at_once or windows.now_ms() - started_ms > options.access.wait_ms:
                found = ", ".join(
                    f"ends at {ends[name]} in {name!r}" if name in ends else f"has no segment {name!r}"
                    for name in missing
                )
                raise InvalidOffset(
                    offset=missing,
                    wanted=f"the log at {options.place} {found}; go on with the log that this query began with, or "
                    "with a new checkpoint, and give a new query `startingPositions` that the log has",
                )
            windows.pause(WINDOW_FIRST_PAUSE_MS)

    def _check_log_ends(self) -> None:
        """Names a log that ends before the marks do, once."""
        self._log_checked_at = self._windows.now_ms()
        if self._log_is_short:
            return
        marks = self._windows.describe().latest_marks.values()
        ends = self._ask_log(lambda log: log.end_offsets())  # afterwards, so that a new mark does not look too far
        line = short_log(self._options.access.stream, ends, [mark.cut for mark in marks])
        if line is not None:
            self._log_is_short = True
            _log.warning("%s", line)

    def _left_out(self, begin: SourceOffset, until: SourceOffset) -> LeftOutFile | None:
        """Returns what the file of `leftOutTo` has to have with a batch; None if nothing can have changed."""
        options, access = self._options, self._options.access
        is_first = begin.mark is None or begin.run != until.run
        if options.left_out_to is None or not (is_first or begin.without or until.without):
            return None
        lag, there = EventTimeLag(options.max_event_time_lag_ms), dict[str, int | None]()
        if until.without and until.mark is not None:
            there = self._marks.there(until.mark + options.max_event_time_lag_ms)
        there = {writer: lag.apply(since) for writer, since in there.items()}
        return LeftOutFile(options.left_out_to, access.stream, access.time_key, begin.mark, there)

    def _in_backlog(self, begin: SourceOffset, ends: Mapping[str, int], group: GroupWindow | None) -> bool:
        """Whether the job is in backlog. By lag it goes by its group, if it has one. Once out of backlog it stays out
        until its stream is idle and read to its end."""
        remaining = sum(max(0, end - begin.position(segment)) for segment, end in ends.items())
        self._by_size.update(remaining)
        if group is not None:
            self._behind = group.backlog
        elif self._by_lag.threshold_ms is not None and remaining == 0 and _at_rest(self._windows.describe().writers):
            self._behind = self._by_lag.went_idle()
        else:
            self._behind = self._by_lag.woke(begin.mark, time.time_ns() // 1_000_000)
        return self._backlog()

    def _backlog(self) -> bool:
        return self._behind or AnyBacklog((self._by_size, *self._strategies)).backlog

    def _rows(self, limit: ReadLimit, backlog: bool) -> int | None:
        """Returns the row limit of the next batch: Spark's, or a smaller one if the job is not in backlog."""
        asked, usual = _budget(limit), self._options.max_rows_per_batch
        if asked is None or usual is None or backlog:
            return asked
        return min(asked, usual)

    def _bound(self, positions: Mapping[str, int], identity: str | None) -> tuple[int | None, tuple[str, ...], str]:
        """Returns the greatest possible watermark when exactly these positions are read, the writers that the last mark
        there leaves out, and the stream's identity. Raises StreamRecreated if that is not the one that the query began
        with, and WritersLeftOut."""
        window, present = self._windows.window_of(begun(positions), identity)
        if window.end_of_stream:
            return END_OF_TIME_MS, (), present
        bound, without = self._marks.bound(window)
        return EventTimeLag(self._options.max_event_time_lag_ms).apply(bound), without, present


class ReaderWithoutStarts(DataSourceStreamReader):
    """A reader for Spark before 4.2, which gives `latestOffset` neither a start nor a limit. So a batch begins where
    the last one ended, and has no limit.

    For an `availableNow` run Spark asks before it shows where the query stands, and again before it reads.
    """

    def __init__(self, reader: StrandlineStreamReader) -> None:
        self._reader = reader
        self._last: dict[str, Any] | None = None  # where the batch ended that Spark planned last
        self._shown: dict[str, Any] | None = None  # where the batch ended that Spark read last

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._reader,)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        return self._reader.initialOffset()

    def latestOffset(self, *_: Any) -> dict[str, Any]:  # noqa: N802  # Spark's name
        start = self._last or self.initialOffset()
        self._last = self._reader.end_of_batch(start, self._shown, ReadAllAvailable())
        return self._last

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self._last = self._last or end  # a query that starts again shows its last batch here first
        self._shown = end
        return self._reader.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reader.read(partition)

    def stop(self) -> None:
        self._reader.stop()


def _partitions(start: Mapping[str, int], end: Mapping[str, int], floor: int | None) -> list[ReadPartition]:
    ranges = (
        SegmentRange(segment, low, high)
        for segment, offset in end.items()
        for low, high in split(start.get(segment, 0), max(offset, start.get(segment, 0)), PARTITION_ROWS)
    )
    return [ReadPartition(group, floor) for group in gather(ranges, TASK_ROWS)]


def _at_rest(writers: Mapping[str, int]) -> bool:
    """Whether a stream has writers, and none of them goes on."""
    states = {state for state, count in writers.items() if count}
    return bool(states) and states <= {WriterState.IDLE, WriterState.CLOSED, WriterState.EXCLUDED}


def _moved(begin: SourceOffset, planned: Mapping[str, int]) -> bool:
    return any(offset != begin.position(segment) for segment, offset in planned.items())


def _budget(limit: ReadLimit) -> int | None:
    match limit:
        case ReadAllAvailable():
            return None
        case ReadMaxRows(rows):
            return rows
        case other:
            raise UnsupportedLimit(limit=repr(other))
