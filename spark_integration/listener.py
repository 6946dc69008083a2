"""Listens to the queries of a session: with a listener of Spark's in a classic one, by asking through Spark Connect.

A client of Spark Connect hears events in a thread of pyspark's that hangs for ever when the last listener is taken away
while an event is on its way (SPARK-59623, open in 4.3), that keeps the process from ending as long as there is one, and
that drops every listener, with a warning, when the connection fails once. So there the queries are asked how far they
are, and a listener is told what Spark would have told it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from spark_integration.environment import is_classic
from strandline.limits import INQUIRY_CLOSE_MS, INQUIRY_PAUSE_MS, QUERY_IDLE_MS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)


class QueryListener(Protocol):
    """A listener that is told of the session's queries, until it is closed."""

    def follow(self, query: StreamingQuery) -> None:
        """Tells of this query too, though it may have ended before it was seen to run."""
        ...

    def close(self) -> None:
        """Tells no more."""
        ...


def listen(spark: SparkSession, listener: StreamingQueryListener) -> QueryListener:
    """Tells a listener of each batch of the session's queries; through Spark Connect of the last one each time it
    looks. Close it before the session stops."""
    return EventListener(spark, listener) if is_classic(spark) else PollingListener(spark, listener)


class EventListener:
    """Spark calls the listener."""

    def __init__(self, spark: SparkSession, listener: StreamingQueryListener) -> None:
        self._spark, self._listener = spark, listener
        spark.streams.addListener(listener)

    def follow(self, query: StreamingQuery) -> None:
        """Spark tells of it anyway."""

    def close(self) -> None:
        self._spark.streams.removeListener(self._listener)


@dataclass(slots=True)
class _Run:
    query: StreamingQuery
    told: tuple[int, str] | None = None  # the batch, and when it began
    told_at: float = field(default_factory=time.monotonic)


class PollingListener:
    """A thread asks the queries every `pause_ms`. It ends by itself when the session has stopped."""

    def __init__(
        self,
        spark: SparkSession,
        listener: StreamingQueryListener,
        *,
        pause_ms: int = INQUIRY_PAUSE_MS,
        idle_ms: int = QUERY_IDLE_MS,
    ) -> None:
        self._spark, self._listener = spark, listener
        self._pause_s, self._idle_s = pause_ms / 1000, idle_ms / 1000
        self._runs: Final[dict[str, _Run]] = {}
        self._adding = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="strandline asks queries", daemon=True)
        self._thread.start()

    def follow(self, query: StreamingQuery) -> None:
        with self._adding:
            self._runs.setdefault(str(query.runId), _Run(query))

    def close(self) -> None:
        self._closed.set()
        self._thread.join(INQUIRY_CLOSE_MS / 1000)

    def _go_on(self) -> None:
        while not self._closed.wait(self._pause_s):
            try:
                self._look()
            except Exception as error:  # gRPC's errors and pyspark's have no root in common
                if self._closed.is_set() or getattr(self._spark, "is_stopped", False):
                    return
                _log.warning("the session's queries cannot be asked how far they are; tried again: %s", error)
                self._closed.wait(self._idle_s)

    def _look(self) -> None:
        with self._adding:
            known = set(self._runs)
        active = list(self._spark.streams.active)
        for query in active:
            self.follow(query)
        with self._adding:
            ended = [self._runs.pop(run) for run in known - {str(query.runId) for query in active}]
            running = list(self._runs.values())
        for run in ended:
            self._ask(run)
            over = QueryTerminatedEvent(UUID(run.query.id), UUID(run.query.runId), None, None)
            self._tell(self._listener.onQueryTerminated, over)
        for run in running:
            self._ask(run)

    def _ask(self, run: _Run) -> None:
        progress = run.query.lastProgress
        now = time.monotonic()
        if progress is not None and (progress.batchId, progress.timestamp) != run.told:
            run.told, run.told_at = (progress.batchId, progress.timestamp), now
            self._tell(self._listener.onQueryProgress, QueryProgressEvent(progress))
        elif now - run.told_at > self._idle_s:
            run.told_at = now
            idle = QueryIdleEvent(UUID(run.query.id), UUID(run.query.runId), "")
            self._tell(self._listener.onQueryIdle, idle)

    def _tell(self, call: Callable[[Any], None], event: object) -> None:
        if self._closed.is_set():
            return
        try:
            call(event)
        except Exception:
            _log.exception("what a query reported could not be dealt with")
