"""Notices a query whose mark rows are lost before `exact_watermark`, which would stall without a word.

A mark row has the column `mark` and nothing else. What stands between the source and `exact_watermark` and drops
rows with nulls (a filter on any other column, `dropna`, an inner join, a limit) drops it as well: every event is still
counted and no window ever closes. No plan shows for certain which rows a step drops. What a batch reports does: the
source's offset has the mark that it yielded, and the observation in `exact_watermark` the mark that arrived.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from spark_integration.errors import InvalidOffset
from spark_integration.offsets import SourceOffset

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
    """Logs a warning, once for each run of a query, where a mark row did not come to `exact_watermark`.

    `register` adds one to a classic session. With Spark Connect start one yourself, and close it before the session
    stops: `listening = listen(spark, MarkWatch())`, from `spark_integration.listener`.

    In a query with several `strandline` sources it looks at batches in which each of them yielded a mark: only then
    is one that is missing lost for certain.
    """

    def __init__(self) -> None:
        self._warned: set[tuple[str, str]] = set()  # the runs that are under way, and the observation in it

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        """Nothing to look at yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's name
        progress = event.progress
        for observation, mark in lost_marks(progress).items():
            run = str(progress.runId), observation
            if run not in self._warned:
                self._warned.add(run)
                _log.warning(
                    "query %s: the source yielded mark %d in batch %d and it did not come to exact_watermark "
                    "(observation %r), so the watermark stands still and windows do not close: a filter, join or "
                    "limit before the call takes the mark row away, whose other columns are null; put it after "
                    "the call",
                    progress.name or progress.id,
                    mark,
                    progress.batchId,
                    observation,
                )

    def onQueryIdle(self, event: object) -> None:  # noqa: N802  # Spark's name
        """A query at rest yields nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's name
        self._warned = {run for run in self._warned if run[0] != str(event.runId)}


def lost_marks(progress: StreamingQueryProgress) -> dict[str, int]:
    """The observations of `exact_watermark` that no mark came to, and the greatest mark that could have."""
    yielded = [_yielded(source) for source in progress.sources if _offset(source.endOffset) is not None]
    marks = [mark for mark in yielded if mark is not None]
    if not marks or len(marks) < len(yielded):
        return {}
    return {
        name: max(marks)
        for name, metrics in progress.observedMetrics.items()
        if tuple(metrics.asDict()) == METRICS and metrics["mark"] is None
    }


def _yielded(source: SourceProgress) -> int | None:
    """The mark row that a source yielded in a batch: none where it did not move, or has no mark yet."""
    end = _offset(source.endOffset)
    return None if end is None or end == _offset(source.startOffset) else end.mark


def _offset(text: str) -> SourceOffset | None:
    """An offset as a progress report has it; None for another source's, or where there is none."""
    try:
        return SourceOffset.from_json(json.loads(text))
    except (ValueError, InvalidOffset):
        return None
