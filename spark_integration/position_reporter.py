"""Reports the positions of queries with attached sources, after each batch, to their reader groups."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Final, Protocol

from pyspark.sql.streaming.listener import StreamingQueryListener

from spark_integration.group_reports import report
from spark_integration.offsets import MarkOffset, offset_of
from spark_integration.options import StreamAccess
from spark_integration.report_sender import ReportSender
from spark_integration.window_calls import ControllerWindows
from strandline.core.cut import Cut

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        SourceProgress,
        StreamingQueryProgress,
    )

    from reader_client.backlog import GroupBacklog

STANDS_S: Final = 10.0  # a bound that stands so long is looked into

_log = logging.getLogger(__name__)


class PositionReader(Protocol):
    """Reads the position of a source from its progress."""

    def __call__(self, source: SourceProgress, index: int) -> Mapping[str, int] | None:
        """Returns the position at the end of a finished batch: an empty one before the first event, None for another
        source. `index` counts from 0.

        If it knows several sources of a query, they must have the same description: it is one source, read twice.
        """
        ...


class KafkaPositions:
    """The positions of Spark's own Kafka connector: a partition is a segment."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def __call__(self, source: SourceProgress, index: int) -> Mapping[str, int] | None:
        return self._offsets(source.endOffset)

    def remaining(self, source: SourceProgress) -> int | None:
        """Returns how many offsets remained when the batch was planned; None if Spark does not report it."""
        read, ends = self._offsets(source.endOffset), self._offsets(source.latestOffset)
        if read is None or ends is None:
            return None
        return sum(max(0, end - read.get(segment, 0)) for segment, end in ends.items())

    def others(self, source: SourceProgress) -> set[str]:
        """Returns the other topics that the source reads."""
        return _by_topic(source.endOffset).keys() - {self._topic}

    def _offsets(self, text: str | None) -> Mapping[str, int] | None:
        return _by_topic(text).get(self._topic)


def _by_topic(text: str | None) -> dict[str, Mapping[str, int]]:
    """The offsets of Spark's own Kafka connector; none of another source."""
    try:
        offsets = json.loads(text or "")
    except ValueError:
        return {}
    if not isinstance(offsets, dict):
        return {}
    return {topic: each for topic, each in offsets.items() if isinstance(each, dict)}


@dataclass(frozen=True, slots=True)
class Attached:
    """A source whose positions are reported: the controller, the way to read them, and the backlog to update."""

    access: StreamAccess
    positions: PositionReader
    backlog: GroupBacklog | None = None


class PositionReporter(StreamingQueryListener):
    """Reports the end of each finished batch, for all attached sources of a session.

    It repeats failed reports. While the controller is away, the watermark waits, and queries go on.
    """

    def __init__(self) -> None:
        self._attached: dict[str, Attached] = {}  # by what their mark offsets name as `source`
        self._windows: dict[StreamAccess, ControllerWindows] = {}  # used in the outbox's thread only
        # By group and stream, in that thread: its bound, and when it moved or was looked into.
        self._bounds: dict[tuple[str, str], tuple[int | None, float]] = {}
        self._warned: set[tuple[str, str]] = set()  # the run of a query, and what the log says of it
        self._outbox = ReportSender("strandline positions")

    def attach(self, source: str, attached: Attached) -> None:
        """Reports queries whose mark offsets name this source from now on."""
        self._attached[source] = attached

    def settle(self, timeout_s: float) -> bool:
        """Waits until every finished batch is reported. Returns False on timeout."""
        return self._outbox.settle(timeout_s)

    def close(self) -> None:
        self._outbox.close()
        for windows in list(self._windows.values()):  # the thread may be about to add one
            windows.close()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        """Does nothing: the first batch has the position."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's name
        self.handle_progress(event.progress)

    def onQueryIdle(self, event: object) -> None:  # noqa: N802  # Spark's name
        """Does nothing: an idle query has no new position."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's name
        """Forgets what the log says of this run: the last batch reported its position."""
        self._warned = {run for run in list(self._warned) if run[0] != str(event.runId)}

    def handle_progress(self, progress: StreamingQueryProgress) -> None:
        """Reports a finished batch. The source that Spark plans first is reported last: it may wait for that, and then
        see all of its group."""
        for source in reversed(progress.sources):
            marks, before = offset_of(source.endOffset), offset_of(source.startOffset)
            if marks is None:
                continue
            found = self._attached.get(marks.source)
            if found is not None:
                self._put(marks, found, progress, is_first=before is None or before.epoch != marks.epoch)

    def _put(self, marks: MarkOffset, attached: Attached, progress: StreamingQueryProgress, *, is_first: bool) -> None:
        read = [(source, attached.positions(source, index)) for index, source in enumerate(progress.sources)]
        known = [(source, each) for source, each in read if each is not None]
        names = sorted({source.description for source, _ in known})
        if len(names) != 1:
            found = f"{' and '.join(names)} give" if names else "none of its sources gives"
            text = f"{found} positions of {marks.source!r}, but exactly one source must"
            self._warn_once(progress, f"{text}: its watermark does not move")
            return
        # A query may read one source several times, and each time it is somewhere else.
        position = reduce(Cut.meet, (Cut(each) for _, each in known)).offsets
        remaining = partitions = None
        if isinstance(attached.positions, KafkaPositions):
            others = {topic for source, _ in known for topic in attached.positions.others(source)}
            if others:
                self._warn_once(
                    progress,
                    f"{names[0]} reads {', '.join(sorted(others))} as well, which stream {marks.stream!r} does not "
                    "cover: its watermark does not move; load and attach each topic by itself, with its own stream, "
                    "and unite the results",
                )
                return
            counts = [attached.positions.remaining(source) for source, _ in known]
            remaining = max((count for count in counts if count is not None), default=None)
            partitions = set.intersection(*(set(each) for _, each in known))  # a position leaves out what is at 0
        self._outbox.put(
            (marks.group, marks.stream),
            lambda: self._report(marks, attached, position, remaining, partitions, progress, is_first=is_first),
        )

    def _report(
        self,
        marks: MarkOffset,
        attached: Attached,
        position: Mapping[str, int],
        remaining: int | None,
        partitions: Set[str] | None,
        progress: StreamingQueryProgress,
        *,
        is_first: bool,
    ) -> None:
        """Reports a position. That of a run's first batch is settled: the next run begins there."""
        access = attached.access
        if access not in self._windows:
            # It asks once: the sender repeats a report, and sends those of other queries in between.
            self._windows[access] = ControllerWindows(replace(access, wait_ms=1))
        settled = position if is_first else {}
        window = report(self._windows[access], marks.group, marks.stream, marks.epoch, position, settled)
        if attached.backlog is not None:
            attached.backlog.update(window, remaining)
        if partitions is not None:
            subject, own = (marks.group, marks.stream), window.streams.get(marks.stream)
            bound = None if own is None or access.time_key not in own.keys else own.keys[access.time_key].lower
            known, now = self._bounds.get(subject), time.monotonic()
            if known is not None and known[0] == bound:
                if now - known[1] < STANDS_S:
                    return
                self._check_partitions(access, partitions, progress)
            self._bounds[subject] = bound, now

    def _check_partitions(self, access: StreamAccess, partitions: Set[str], progress: StreamingQueryProgress) -> None:
        """Logs a warning if the query does not read partitions that lie below the newest mark."""
        mark = self._windows[access].describe().latest_marks.get(access.time_key)
        missing = [] if mark is None else sorted(name for name, at in mark.cut.items() if at and name not in partitions)
        if missing:
            self._warn_once(
                progress,
                f"the marks of stream {access.stream!r} cover partitions that it does not read ({', '.join(missing)}): "
                "its watermark does not move; subscribe to the topic, or assign all of its partitions",
            )

    def _warn_once(self, progress: StreamingQueryProgress, text: str) -> None:
        run = str(progress.runId), text
        if run not in self._warned:
            self._warned.add(run)
            _log.warning("query %s: %s", progress.name or progress.id, text)
