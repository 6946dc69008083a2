"""Hears how far a query with attached sources has read, batch by batch, and reports it to the query's reader group."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.sql.streaming.listener import StreamingQueryListener

from spark_integration.group_reports import report
from spark_integration.mark_source import MarkOffset, offset_of
from spark_integration.options import Asking
from spark_integration.report_sender import ReportSender
from spark_integration.window_calls import ControllerWindows

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        SourceProgress,
        StreamingQueryProgress,
    )

    from reader_client.backlog import GroupBacklog

_log = logging.getLogger(__name__)


class Positions(Protocol):
    """Reads the position of a source off its progress."""

    def __call__(self, source: SourceProgress, index: int) -> Mapping[str, int] | None:
        """The position at the end of a finished batch; None where that is another source. `index` counts from 0."""
        ...


class KafkaPositions:
    """The positions of Spark's own Kafka connector: a partition is a segment."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def __call__(self, source: SourceProgress, index: int) -> Mapping[str, int] | None:
        return self._offsets(source.endOffset)

    def remaining(self, source: SourceProgress) -> int | None:
        """How many offsets were still to be read when the batch was planned; None where Spark does not say it."""
        read, ends = self._offsets(source.endOffset), self._offsets(source.latestOffset)
        if read is None or ends is None:
            return None
        return sum(max(0, end - read.get(segment, 0)) for segment, end in ends.items())

    def _offsets(self, text: str | None) -> Mapping[str, int] | None:
        try:
            offsets = json.loads(text or "")
        except ValueError:
            return None
        of_topic = offsets.get(self._topic) if isinstance(offsets, dict) else None
        return of_topic if isinstance(of_topic, dict) else None


@dataclass(frozen=True, slots=True)
class Attached:
    """A source whose positions are reported: whom to tell, how to read them, and the backlog that is looked at then."""

    asking: Asking
    positions: Positions
    backlog: GroupBacklog | None = None


class PositionReporter(StreamingQueryListener):
    """Reports the end of each finished batch. One serves all attached sources of a session.

    What it cannot report now it tries again, so a controller that is away holds time back and nothing else.
    """

    def __init__(self) -> None:
        self._attached: dict[tuple[str, str], Attached] = {}  # by stream, and source within a query
        self._windows: dict[Asking, ControllerWindows] = {}  # used in the outbox's thread only
        self._outbox = ReportSender("strandline positions")

    def attach(self, source: str, attached: Attached) -> None:
        """From now on queries that read this source are reported."""
        self._attached[attached.asking.stream, source] = attached

    def settle(self, timeout_s: float) -> bool:
        """Waits until all that was heard is reported; whether it is."""
        return self._outbox.settle(timeout_s)

    def close(self) -> None:
        self._outbox.close()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        """Its first batch says where it stands."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's name
        self.hear(event.progress)

    def onQueryIdle(self, event: object) -> None:  # noqa: N802  # Spark's name
        """A query at rest has nothing to add."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's name
        """What it had read was reported with its last batch."""

    def hear(self, progress: StreamingQueryProgress) -> None:
        """Takes a finished batch to report."""
        for marks in filter(None, (offset_of(source.endOffset) for source in progress.sources)):
            found = self._attached.get((marks.stream, marks.source))
            if found is not None:
                self._put(marks, found, progress)

    def _put(self, marks: MarkOffset, attached: Attached, progress: StreamingQueryProgress) -> None:
        read = [(source, attached.positions(source, index)) for index, source in enumerate(progress.sources)]
        known = [(source, each) for source, each in read if each is not None]
        if len(known) != 1:
            _log.error(
                "query %s: %d of its sources give positions of %r, and one is to: its watermark stands still",
                progress.name or progress.id, len(known), marks.source,
            )  # fmt: skip
            return
        ((source, position),) = known
        remaining = attached.positions.remaining(source) if isinstance(attached.positions, KafkaPositions) else None
        self._outbox.put(marks.group, lambda: self._report(marks, attached, position, remaining))

    def _report(
        self, marks: MarkOffset, attached: Attached, position: Mapping[str, int], remaining: int | None
    ) -> None:
        asking = attached.asking
        if asking not in self._windows:
            self._windows[asking] = ControllerWindows(asking)
        window = report(self._windows[asking], marks.group, marks.stream, marks.epoch, position)
        if attached.backlog is not None:
            attached.backlog.update(window, remaining)
