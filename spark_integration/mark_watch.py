"""Detects queries that would stall silently: those that lose their mark rows before `exact_watermark`, and those whose
events have no event time.

A mark row has the column `mark` and nulls. A step between the source and `exact_watermark` that drops rows with nulls
(a filter on another column, `dropna`, an inner join, a limit) drops it too: events are still counted, but no window
ever closes. A plan does not show for certain which rows a step drops. The progress report of a batch does: the source's
offset has the mark that it yielded, and the observation of `exact_watermark` has the mark that arrived.

An event time that is null in every row, as for a field with a mistyped name, closes no window either, because there is
none: the metrics count events, and as many that are unreadable.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from spark_integration.errors import InvalidOffset
from spark_integration.offsets import SourceOffset
from spark_integration.progress import watermark_of
from spark_integration.releases import AVAILABLE_NOW, HAS_LIMITS, INSTALLED

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        SourceProgress,
        StreamingQueryProgress,
    )

METRICS: Final = ("events", "unreadable", "mark", "late", "backlog")  # what exact_watermark observes, in this order

_log = logging.getLogger(__name__)


class MarkWatch(StreamingQueryListener):
    """Logs a warning, once for each run of a query, if a mark row did not arrive at `exact_watermark`, and one if no
    event of a batch has an event time. On Spark 4.0 and 4.1, also if a run ended before its last windows closed.

    `register` adds one to a classic session. With Spark Connect, start one yourself and close it before the session
    stops: `listening = listen(spark, MarkWatch())`, from `spark_integration.listener`.

    In a query with several `strandline` sources it checks only batches in which each of them yielded a mark: only then
    is a missing mark certainly lost.
    """

    def __init__(self, *, has_limits: bool = HAS_LIMITS) -> None:
        self._closes_all = has_limits  # then Spark ends no `availableNow` run early
        self._warned: set[tuple[str, str]] = set()  # current runs, and of what in each
        self._marks: dict[str, dict[str, int]] = {}  # the last mark of each observation, by current run
        self._to_close: dict[str, str] = {}  # current runs that have windows to close, and what they are called

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        """Does nothing: there is no batch yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's name
        progress = event.progress
        for observation, mark in lost_marks(progress).items():
            self._warn_once(
                progress,
                f"lost {observation}",
                f"the source yielded mark {mark} in batch {progress.batchId}, but it did not arrive at exact_watermark "
                f"(observation {observation!r}), so the watermark does not move and windows do not close: a filter, "
                "join or limit before the call drops the mark row, whose other columns are null; put it after the call",
            )
        for observation, events in without_event_time(progress).items():
            self._warn_once(
                progress,
                f"unreadable {observation}",
                f"none of the {events} events of batch {progress.batchId} has an event time (observation "
                f"{observation!r}), so they are in no window: check the name and the type of that field in the schema "
                "against the events' values",
            )
        if not self._closes_all:
            self._check_open_windows(progress)

    def _warn_once(self, progress: StreamingQueryProgress, what: str, text: str) -> None:
        run = str(progress.runId), what
        if run not in self._warned:
            self._warned.add(run)
            _log.warning("query %s: %s", progress.name or progress.id, text)

    def _check_open_windows(self, progress: StreamingQueryProgress) -> None:
        """Records whether the last batch brought a watermark by which windows are still to be closed."""
        marks = self._marks.setdefault(str(progress.runId), {})
        marks |= {name: mark for name, mark in arrived_marks(progress).items() if mark is not None}
        if marks and progress.stateOperators and min(marks.values()) - 1 > (watermark_of(progress) or 0):
            self._to_close[str(progress.runId)] = progress.name or str(progress.id)
        else:
            self._to_close.pop(str(progress.runId), None)

    def onQueryIdle(self, event: object) -> None:  # noqa: N802  # Spark's name
        """Does nothing: an idle query yields no rows."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's name
        ended = str(event.runId)
        self._marks.pop(ended, None)
        query = self._to_close.pop(ended, None)
        if query is not None and event.exception is None:
            _log.warning(
                "query %s: the run ended before its last windows were closed, which come with the next run: so Spark "
                "%s ends an availableNow run, unless %s is true",
                query,
                INSTALLED,
                AVAILABLE_NOW,
            )
        self._warned = {run for run in self._warned if run[0] != ended}


def lost_marks(progress: StreamingQueryProgress) -> dict[str, int]:
    """Returns the observations of `exact_watermark` that got no mark, with the greatest mark that was yielded."""
    yielded = [_yielded(source) for source in progress.sources if _offset(source.endOffset) is not None]
    marks = [mark for mark in yielded if mark is not None]
    if not marks or len(marks) < len(yielded):
        return {}
    return {name: max(marks) for name, mark in arrived_marks(progress).items() if mark is None}


def arrived_marks(progress: StreamingQueryProgress) -> dict[str, int | None]:
    """Returns the mark that arrived at each `exact_watermark`, by observation; None if there was none."""
    return {
        name: metrics["mark"]
        for name, metrics in progress.observedMetrics.items()
        if tuple(metrics.asDict()) == METRICS
    }


def without_event_time(progress: StreamingQueryProgress) -> dict[str, int]:
    """Returns the observations of `exact_watermark` in which no event has a time, with the number of events."""
    return {
        name: metrics["events"]
        for name, metrics in progress.observedMetrics.items()
        if tuple(metrics.asDict()) == METRICS and metrics["events"] and metrics["unreadable"] == metrics["events"]
    }


def _yielded(source: SourceProgress) -> int | None:
    """Returns the mark that a source yielded in a batch; None if it did not move, or has no mark yet."""
    end = _offset(source.endOffset)
    return None if end is None or end == _offset(source.startOffset) else end.mark


def _offset(text: str) -> SourceOffset | None:
    """Parses an offset from a progress report; returns None for another source's, or without one."""
    try:
        return SourceOffset.from_json(json.loads(text))
    except (ValueError, InvalidOffset):
        return None
