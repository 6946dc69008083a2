"""The data source `strandline-marks`: only mark rows, for a query that reads its events from another source.

The marks must stay behind the events. When a batch is finished, a listener reports the query's positions to a reader
group of the controller (`spark_integration.position_reporter`). This source yields the lower bound of that group, less
`maxEventTimeLag`. So it is one batch late and never early.

Its offset in Spark's checkpoint:

    {"v": 1, "group": "spark-3f…", "stream": "orders", "epoch": 1, "source": "orders", "run": 2,
     "mark": 1700000000000}

The group belongs to the checkpoint: a query with a new checkpoint gets a new group, or moves the named group back to
the head. `run` counts the starts of the query. Each start registers with the group again, and its `epoch` fences
reports of earlier runs, so that positions of another checkpoint's query do not count. Each start makes a batch, even an
empty one, so that the listener gets the query's positions. This batch brings the mark at the end of the run before, so
that runs of one batch close windows as well. `source` names the other source, whose positions the listener reports.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructField, StructType, TimestampType

from spark_integration.errors import InvalidOffset, InvalidOption
from spark_integration.group_reports import GroupFollower
from spark_integration.offsets import END_OF_TIME_MS
from spark_integration.options import BACKLOG_THRESHOLD, Asking, backlog_threshold, check_count, duration, required
from spark_integration.releases import SupportsTriggerAvailableNow
from spark_integration.rows import MARK, column_of
from spark_integration.window_calls import ControllerWindows
from strandline.core.event_time_lag import EventTimeLag
from strandline.names import check_name

if TYPE_CHECKING:
    import pyarrow as pa

VERSION: Final = 1
KNOWN: Final = (
    "controller", "token", "tokenFile", "caFile", "stream", "timeKey", "group", "source", "maxEventTimeLag",
    BACKLOG_THRESHOLD, "controllerWaitMs",
)  # fmt: skip
_SCHEMA: Final = StructType([StructField(MARK, TimestampType())])


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkOffset:
    """The mark of a query, with its group and registration."""

    group: str
    stream: str
    source: str
    epoch: int = 0
    run: int = 0
    mark: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {"v": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Reads an offset from a checkpoint, or a progress report. Raises InvalidOffset."""
        names = {"v", *(field.name for field in fields(cls))}
        if not (isinstance(value, dict) and value.keys() == names):
            raise InvalidOffset(offset=value, wanted=f"it has {', '.join(sorted(names))}")
        if value["v"] != VERSION:
            raise InvalidOffset(offset=value, wanted=f"this release knows version {VERSION}")
        return cls(**{name: given for name, given in value.items() if name != "v"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkOptions:
    """The stream whose marks a query gets, for one of its sources. Plain data: it travels to Spark's processes."""

    asking: Asking
    source: str
    group: str | None = None
    max_event_time_lag_ms: int = 0
    backlog_threshold_ms: int | None = None

    def __post_init__(self) -> None:
        check_count(BACKLOG_THRESHOLD, self.backlog_threshold_ms)
        if self.group is not None:
            check_name("group", self.group)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Reads Spark's options. Raises InvalidOption, which names the option and its valid values."""
        given = {name.lower(): value for name, value in options.items()}
        known = {name.lower() for name in KNOWN}
        for name, value in given.items():
            if name not in known:
                raise InvalidOption(name=name, value=value, wanted=f"known are {', '.join(KNOWN)}")
        return cls(
            asking=Asking.parse(given),
            source=required(given, "source", "the topic or source whose events these marks are for"),
            group=given.get("group") or None,
            max_event_time_lag_ms=duration(given, "maxEventTimeLag"),
            backlog_threshold_ms=backlog_threshold(given),
        )


class MarkSource(DataSource):
    """`format("strandline-marks")`, which `attach` uses."""

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
    """Plans batches of one row, and hands the rows to Spark with the plan: no Python on an executor yields them
    (decision 0098). Spark's names; see `pyspark.sql.datasource`."""

    def __init__(self, options: MarkOptions) -> None:
        self._options = options
        self._open_windows: ControllerWindows | None = None  # until the process ends: Spark does not stop this reader
        self._begun = False  # whether this run has had its first batch
        self._initial: dict[str, Any] | None = None  # Spark requests it several times

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._options,)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Returns the offset before the first batch, with the given group or a new one."""
        if self._initial is None:
            options = self._options
            group = options.group if options.group is not None else f"spark-{uuid4().hex}"
            begin = MarkOffset(group=group, stream=options.asking.stream, source=options.source)
            self._initial = begin.to_json()
        return self._initial

    def read(self, start: dict[str, Any]) -> tuple[Iterator[pa.RecordBatch], dict[str, Any]]:
        """Returns the rows of the next batch, and its offset, which has the group's bound."""
        begin = MarkOffset.from_json(start)
        stream = self._options.asking.stream
        if begin.stream != stream:
            raise InvalidOffset(offset=start, wanted=f"this query reads {stream!r}: take a new checkpoint")
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
        """Does nothing: the bound stops with the events that this run reads, so the run ends."""

    def _next(self, begin: MarkOffset) -> MarkOffset:
        end = replace(begin, source=self._options.source)
        if not self._begun:
            threshold_ms = self._options.backlog_threshold_ms
            follower = GroupFollower(self._windows(), begin.group, begin.stream, backlog_threshold_ms=threshold_ms)
            end = replace(end, epoch=follower.register(None if begin.run else {}), run=begin.run + 1)
            self._begun = True
        known = [mark for mark in (begin.mark, self._bound(begin.group)) if mark is not None]
        return replace(end, mark=max(known, default=None))

    def _windows(self) -> ControllerWindows:
        if self._open_windows is None:
            self._open_windows = ControllerWindows(self._options.asking)
        return self._open_windows

    def _bound(self, group: str) -> int | None:
        from strandline.client import group_calls

        asking = self._options.asking
        window = self._windows().ask(lambda: group_calls.group_window(group)).streams.get(asking.stream)
        if window is None:
            raise InvalidOption(
                name="group",
                value=group,
                wanted=f"it no longer reads {asking.stream!r}; start the query again to add it",
            )
        if window.end_of_stream:
            return END_OF_TIME_MS
        by_key = window.keys.get(asking.time_key)
        return EventTimeLag(self._options.max_event_time_lag_ms).apply(None if by_key is None else by_key.lower)


def offset_of(text: str | None) -> MarkOffset | None:
    """Parses a marks offset from a progress report; returns None for another source's."""
    try:
        return MarkOffset.from_json(json.loads(text or ""))
    except (ValueError, InvalidOffset):
        return None
