"""Hears how far a query with attached sources has read, batch by batch, and reports it to the query's reader group."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from pyspark.sql.streaming.listener import StreamingQueryListener

from spark_integration.following import report
from spark_integration.marks import MarkOffset, offset_of
from spark_integration.options import Asking
from spark_integration.outbox import Outbox
from spark_integration.windows import ControllerWindows

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        SourceProgress,
        StreamingQueryProgress,
    )

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
        try:
            offsets = json.loads(source.endOffset or "")
        except ValueError:
            return None
        of_topic = offsets.get(self._topic) if isinstance(offsets, dict) else None
        return of_topic if isinstance(of_topic, dict) else None


class PositionReporter(StreamingQueryListener):
    """Reports the end of each finished batch. One serves all attached sources of a session.

    What it cannot report now it tries again, so a controller that is away holds time back and nothing else.
    """

    def __init__(self) -> None:
        self._attached: dict[tuple[str, str], tuple[Asking, Positions]] = {}  # by stream, and source within a query
        self._windows: dict[Asking, ControllerWindows] = {}  # used in the outbox's thread only
        self._outbox = Outbox("strandline positions")

    def attach(self, asking: Asking, source: str, positions: Positions) -> None:
        """From now on queries that read this source are reported."""
        self._attached[asking.stream, source] = asking, positions

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
                self._put(marks, *found, progress)

    def _put(self, marks: MarkOffset, asking: Asking, positions: Positions, progress: StreamingQueryProgress) -> None:
        read = [positions(source, index) for index, source in enumerate(progress.sources)]
        known = [each for each in read if each is not None]
        if len(known) != 1:
            _log.error(
                "query %s: %d of its sources give positions of %r, and one is to: its watermark stands still",
                progress.name or progress.id, len(known), marks.source,
            )  # fmt: skip
            return
        self._outbox.put(marks.group, lambda: self._report(marks, asking, known[0]))

    def _report(self, marks: MarkOffset, asking: Asking, position: Mapping[str, int]) -> None:
        if asking not in self._windows:
            self._windows[asking] = ControllerWindows(asking)
        report(self._windows[asking], marks.group, marks.stream, marks.epoch, position)
