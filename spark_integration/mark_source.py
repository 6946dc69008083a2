"""The data source `strandline-marks`: only mark rows, for a query that reads its events from another source.

The marks must stay behind the events. When a batch is finished, a listener reports the query's positions to a reader
group of the controller (`spark_integration.reports`). This source yields the lower bound of its stream in
that group, or the group's watermark while the stream is idle, less `maxEventTimeLag`. So it is one batch late and never
early.

Its offset in Spark's checkpoint:

    {"v": 1, "group": "sales-3f…", "stream": "orders", "source": "orders-8c1f…", "created_at": 1699999900000,
     "epoch": 2, "run": 2, "mark": 1700000000000, "identity": "8d1f20c94be07a35", "key": "", "without": []}

The group belongs to the checkpoint: a query with a new checkpoint gets a new group, or moves the named group back to
the head. `run` counts the starts of the query, and `epoch` is the run's registration with the group, which was created
at `created_at`. Each start makes a batch, even an empty one, so that the listener gets the query's positions. `source`
names the call of `attach`, and with it the other source, whose positions the listener reports. `identity` is that of
the stream: a checkpoint of an earlier one of the same name is refused, and so is one with another time key.

The checkpoint may be older than the group: a copy from a backup, or one beside which another query runs. So a run
trusts only what its own listener reported. It begins where the first batch of the run before ended, which is settled in
the group, if the checkpoint has that run's epoch, and so that batch. Otherwise it begins at the head, until its first
batch is reported. A later registration by another query ends this run (`GroupTaken`).

Marks could come as files that Spark's own source reads, which starts no Python. But an `availableNow` run fixes the
list of files when it begins, so that no window would close before its end.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructField, StructType, TimestampType

from spark_integration.errors import GroupTaken, InvalidOffset, InvalidOption, sentence_first
from spark_integration.offsets import END_OF_TIME_MS, WRITERS_NAMED, MarkOffset, begun, check_key, later
from spark_integration.options import (
    BACKLOG_THRESHOLD,
    StreamAccess,
    backlog_threshold,
    check_count,
    duration,
    in_lower_case,
    on_incomplete,
    required,
)
from spark_integration.releases import SupportsTriggerAvailableNow
from spark_integration.reports import GroupFollower, followed
from spark_integration.rows import MARK, column_of
from spark_integration.window_calls import WINDOW_FIRST_PAUSE_MS, ControllerWindows
from spark_integration.window_judge import WindowJudge
from strandline.client.backoff import backoff_ms
from strandline.core.event_time_lag import EventTimeLag
from strandline.core.incomplete import OnIncomplete
from strandline.core.window import TimeWindow
from strandline.errors import UnknownGroup
from strandline.names import check_name

if TYPE_CHECKING:
    import pyarrow as pa

    from strandline.wire.groups import GroupDescription, GroupMember
    from strandline.wire.shapes import Positions

REPORT_FIRST_PAUSE_MS: Final = 2  # between two looks for a report: most come some milliseconds after their batch
REPORT_WAIT_MS: Final = 10_000  # in an availableNow run: how long a batch waits for the report of the one before it

APPLICATION_CHARACTERS: Final = 80  # of its name, in that of a group

_log = logging.getLogger(__name__)
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")  # in a name

KNOWN: Final = (
    "controller", "token", "tokenFile", "caFile", "stream", "timeKey", "group", "source", "maxEventTimeLag",
    "onIncomplete", BACKLOG_THRESHOLD, "controllerWaitMs", "application",
)  # fmt: skip
_SCHEMA: Final = StructType([StructField(MARK, TimestampType())])


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkOptions:
    """The stream whose marks a query gets, for one of its sources. Plain data: it travels to Spark's processes."""

    access: StreamAccess
    source: str
    group: str | None = None
    application: str = "spark"  # the first part of the name of a new group, where none is given
    max_event_time_lag_ms: int = 0
    backlog_threshold_ms: int | None = None
    on_incomplete: OnIncomplete = OnIncomplete.GO_ON

    def __post_init__(self) -> None:
        check_count(BACKLOG_THRESHOLD, self.backlog_threshold_ms)
        if self.group is not None:
            check_name("group", self.group)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Reads Spark's options. Raises InvalidOption, which names the option and its valid values."""
        given = in_lower_case(options, KNOWN)
        return cls(
            access=StreamAccess.parse(given),
            source=required(given, "source", "the call of attach whose source these marks are for"),
            group=given.get("group") or None,
            application=_application(given),
            max_event_time_lag_ms=duration(given, "maxEventTimeLag"),
            backlog_threshold_ms=backlog_threshold(given),
            on_incomplete=on_incomplete(given),
        )


def _application(given: Mapping[str, str]) -> str:
    """The name of the application, as far as it can be part of a name here."""
    return _NO_NAME.sub("-", given.get("application", "")).strip("-._")[:APPLICATION_CHARACTERS] or "spark"


class MarkSource(DataSource):
    """`format("strandline-marks")`, which `attach` uses."""

    @sentence_first
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._settings = MarkOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        return "strandline-marks"

    def schema(self) -> StructType:
        return _SCHEMA

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802  # Spark's name
        return MarkReader(self._settings)


class MarkReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches of one row, and hands the rows to Spark with the plan: no Python on an executor yields them.
    Spark's names; see `pyspark.sql.datasource`."""

    def __init__(self, options: MarkOptions) -> None:
        self._options = options
        self._last: tuple[Positions, int | None] | None = None  # the group's positions and the mark, as read last
        self._awaits_reports = False  # in an availableNow run
        self._last_seen_at = 0  # when this run last called the group
        self._initial: dict[str, Any] | None = None  # Spark requests it several times

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._options,)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Returns the offset before the first batch, with the given group or a new one."""
        if self._initial is None:
            options = self._options
            group = options.group if options.group is not None else f"{options.application}-{uuid4().hex[:12]}"
            begin = MarkOffset(group=group, stream=options.access.stream, source=options.source)
            self._initial = begin.to_json()
        return self._initial

    @sentence_first
    def read(self, start: dict[str, Any]) -> tuple[Iterator[pa.RecordBatch], dict[str, Any]]:
        """Returns the rows of the next batch, and its offset, which has the group's bound."""
        begin = MarkOffset.from_json(start)
        stream = self._options.access.stream
        if begin.stream != stream:
            raise InvalidOffset(offset=start, wanted=f"this query reads {stream!r}: take a new checkpoint")
        check_key(begin, self._options.access.time_key)
        end = self._next(begin).to_json()
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[pa.RecordBatch]:  # noqa: N802  # Spark's name
        """Returns the mark row of a batch, in an iterator that can be copied, as Spark does it. Spark calls this itself
        only for a batch that runs again after a restart."""
        import pyarrow as pa

        mark = MarkOffset.from_json(end).mark
        if mark is None or start == end:
            return iter(())
        return iter((pa.RecordBatch.from_arrays([column_of(mark, 1)], names=[MARK]),))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Makes each later read wait for the report of the batch before it. So the run closes all windows that are
        complete at its end. It ends, since the mark moves only with the positions."""
        self._awaits_reports = True

    def _next(self, begin: MarkOffset) -> MarkOffset:
        end, last = replace(begin, source=self._options.source), self._last
        if last is None:
            end = self._register(begin, end)
        elif self._awaits_reports:
            self._await_report(begin)
        positions, mark, without = self._positions_and_mark(begin.group)
        self._last = positions, mark
        if (positions, mark) != last:
            self._check(end)  # after the question: so it was this run's position
        if self._awaits_reports and last is not None and positions == last[0]:
            return end
        return replace(end, mark=later(begin.mark, mark), without=without[:WRITERS_NAMED])

    def _register(self, begin: MarkOffset, end: MarkOffset) -> MarkOffset:
        """Registers this run with the group, at positions that the checkpoint certainly has."""
        windows, threshold_ms = self._windows, self._options.backlog_threshold_ms
        _, identity = windows.window_of({}, begin.identity)
        before = _registered(begin, self._describe(begin.group))
        follower = GroupFollower(windows, begin.group, begin.stream, backlog_threshold_ms=threshold_ms)
        epoch = follower.register({} if before is None else before.settled.get(begin.stream, {}))
        found = self._describe(begin.group)
        created_at = None if found is None else found.created_at
        key = self._options.access.time_key
        end = replace(end, created_at=created_at, epoch=epoch, run=begin.run + 1, identity=identity, key=key)
        self._last_seen_at = self._check(end).last_heard_at
        return end

    def _check(self, offset: MarkOffset) -> GroupMember:
        """Returns this run's registration. Raises GroupTaken if it has ended."""
        found = _registered(offset, self._describe(offset.group))
        if found is None:
            raise GroupTaken(group=offset.group, stream=offset.stream, epoch=offset.epoch)
        return found

    def _describe(self, group: str) -> GroupDescription | None:
        from strandline.client import group_calls

        try:
            return self._windows.ask(lambda: group_calls.describe_group(group))
        except UnknownGroup:
            return None

    def _await_report(self, begin: MarkOffset) -> None:
        """Waits until the listener has reported the last batch, at most REPORT_WAIT_MS."""
        windows, started_ms, looks = self._windows, self._windows.now_ms(), 0
        while windows.now_ms() - started_ms < REPORT_WAIT_MS:
            seen_at = self._check(begin).last_heard_at
            if seen_at > self._last_seen_at:
                self._last_seen_at = seen_at
                return
            looks += 1
            windows.pause(backoff_ms(looks, first_ms=REPORT_FIRST_PAUSE_MS, bound_ms=WINDOW_FIRST_PAUSE_MS))
        self._awaits_reports = False
        _log.warning(
            "group %s: nobody reported the last batch in %d ms, so windows that it completed close in the next run",
            begin.group,
            REPORT_WAIT_MS,
        )

    @cached_property
    def _windows(self) -> ControllerWindows:  # until the process ends: Spark does not stop this reader
        return ControllerWindows(self._options.access)

    @cached_property
    def _marks(self) -> WindowJudge:
        return WindowJudge(self._windows, self._options.access.stream, self._options.on_incomplete)

    def _positions_and_mark(self, group: str) -> tuple[Positions, int | None, tuple[str, ...]]:
        """Returns the group's positions, the mark there, and whom it leaves out."""
        from strandline.client import group_calls

        access = self._options.access
        window = self._windows.ask(lambda: group_calls.group_window(group))
        own = window.streams.get(access.stream)
        if own is None:
            raise InvalidOption(
                name="group",
                value=group,
                wanted=f"it no longer reads {access.stream!r}; start the query again to add it",
            )
        positions = {stream: each.position for stream, each in window.streams.items()}
        if own.end_of_stream:
            return positions, END_OF_TIME_MS, ()
        by_key, marks = own.keys.get(access.time_key), self._marks
        passed = TimeWindow(None, None) if by_key is None else TimeWindow(by_key.lower, None, by_key.complete)
        if not passed.complete:
            passed = self._windows.time_window(begun(own.position))  # which has the mark's number
        bound, without = marks.bound(passed)
        others = marks.followed(followed(window, access.stream, access.time_key), complete=window.complete)
        bound = EventTimeLag(self._options.max_event_time_lag_ms).apply(later(bound, others))
        return positions, bound, without


def _registered(offset: MarkOffset, group: GroupDescription | None) -> GroupMember | None:
    """Returns the registration of the run that planned this offset, or None if it has ended."""
    if group is None or group.created_at != offset.created_at:
        return None
    return next((each for each in group.readers if each.epoch == offset.epoch), None)
