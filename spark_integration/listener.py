"""Spark's reports of the batches of a session's queries, and the times in them.

In a classic session a listener of this package takes each event as JSON. pyspark's own way builds an event field by
field, with some hundred calls to Java for each listener and each batch of each query; with six queries its thread falls
behind without bound.

In a Spark Connect client, pyspark's event thread hangs for ever if the last listener is removed while an event is on
its way (SPARK-59623, open in 4.3). It also keeps the process from ending as long as there is a listener, and drops all
listeners, with a warning, when the connection fails once. So there a thread polls the queries, and calls listeners as
Spark would.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from spark_integration.errors import SparkMismatch
from spark_integration.offsets import END_OF_TIME_MS
from spark_integration.releases import HAS_LIMITS, INSTALLED
from strandline.core.time_units import milliseconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

INQUIRY_PAUSE_MS: Final = 250  # between two checks of the queries of a Spark Connect session
INQUIRY_CLOSE_MS: Final = 5_000  # how long closing waits for the current check
QUERY_IDLE_MS: Final = 10_000  # without a batch; then a listener gets an idle event, as in Spark
CYCLE_YEARS: Final = 400
CYCLE_MS: Final = 146_097 * 86_400_000  # of these years

_log = logging.getLogger(__name__)


class QueryListener(Protocol):
    """The subscription of a listener to a session's queries."""

    def follow(self, query: StreamingQuery) -> None:
        """Includes this query, even if it ends before the next poll."""
        ...

    def close(self) -> None:
        """Ends the subscription."""
        ...


def is_classic(spark: SparkSession) -> bool:
    """Whether this process is Spark's driver, not a Spark Connect client."""
    return hasattr(spark, "_jsparkSession")


def listen(spark: SparkSession, listener: StreamingQueryListener) -> QueryListener:
    """Calls a listener for each batch of the session's queries; with Spark Connect, for the last batch at each poll.
    Close the result before the session stops."""
    return EventListener(spark, listener) if is_classic(spark) else PollingListener(spark, listener)


class ReportListener(StreamingQueryListener):
    """A listener that takes events as JSON. It does nothing with those that a subclass leaves out."""

    _java: Any = None

    @property
    def _jlistener(self) -> Any:
        """The object that pyspark passes to Java. Without this attribute pyspark would use its slow way."""
        if self._java is None:
            from pyspark import SparkContext

            assert SparkContext._jvm is not None  # pyspark has used it before it reads this attribute
            self._java = SparkContext._jvm.PythonStreamingQueryListenerWrapper(_JsonEvents(self))
        return self._java

    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...  # noqa: N802  # Spark's name

    def onQueryProgress(self, event: QueryProgressEvent) -> None: ...  # noqa: N802  # Spark's name

    def onQueryIdle(self, event: QueryIdleEvent) -> None: ...  # noqa: N802  # Spark's name

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None: ...  # noqa: N802  # Spark's name


class _JsonEvents(JStreamingQueryListener):
    """The object that Java calls for each event."""

    def onQueryStarted(self, jevent: Any) -> None:  # noqa: N802  # Spark's name
        _call(self.pylistener.onQueryStarted, lambda: QueryStartedEvent.fromJson(json.loads(jevent.json())))

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802  # Spark's name
        _call(
            self.pylistener.onQueryProgress,
            lambda: QueryProgressEvent(progress_from(json.loads(jevent.json())["progress"])),
        )

    def onQueryIdle(self, jevent: Any) -> None:  # noqa: N802  # Spark's name
        _call(self.pylistener.onQueryIdle, lambda: QueryIdleEvent.fromJson(json.loads(jevent.json())))

    def onQueryTerminated(self, jevent: Any) -> None:  # noqa: N802  # Spark's name
        _call(self.pylistener.onQueryTerminated, lambda: QueryTerminatedEvent.fromJson(json.loads(jevent.json())))


def _call(call: Callable[[Any], None], event: Callable[[], object]) -> None:
    try:
        call(event())
    except Exception:
        _log.exception("a listener failed on a query's event")


@dataclass(frozen=True, slots=True)
class EventListener:
    """The subscription of a listener to a classic session, by Spark's events."""

    _spark: SparkSession
    _listener: StreamingQueryListener

    def __post_init__(self) -> None:
        self._spark.streams.addListener(self._listener)

    def follow(self, query: StreamingQuery) -> None:
        """Does nothing: Spark reports all queries."""

    def close(self) -> None:
        self._spark.streams.removeListener(self._listener)


@dataclass(slots=True)
class _Run:
    query: StreamingQuery
    reported: tuple[int, str] | None = None  # the batch, and when it began
    reported_at: float = field(default_factory=time.monotonic)


class PollingListener:
    """Polls the queries every `pause_ms` in a thread, which ends when the session has stopped."""

    def __init__(
        self,
        spark: SparkSession,
        listener: StreamingQueryListener,
        *,
        pause_ms: int = INQUIRY_PAUSE_MS,
        idle_ms: int = QUERY_IDLE_MS,
    ) -> None:
        if not HAS_LIMITS:  # pyspark has no JSON of the offsets there
            raise SparkMismatch(installed=INSTALLED, works="4.2 or newer in a Spark Connect client")
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
                self._poll()
            except Exception as error:  # gRPC's and pyspark's errors have no common root
                if self._closed.is_set() or getattr(self._spark, "is_stopped", False):
                    return
                _log.warning("polling the session's queries failed and is repeated: %s", error)
                self._closed.wait(self._idle_s)

    def _poll(self) -> None:
        with self._adding:
            known = set(self._runs)
        active = list(self._spark.streams.active)
        for query in active:
            self.follow(query)
        ended = known - {str(query.runId) for query in active}
        with self._adding:
            runs = dict(self._runs)
        for run_id, run in runs.items():
            if run_id not in ended:
                self._check(run)
        for run_id in ended:  # it is forgotten when its last report has been passed on: asking may fail
            run = runs[run_id]
            self._check(run)
            over = QueryTerminatedEvent(UUID(run.query.id), UUID(run.query.runId), None, None)
            self._pass(self._listener.onQueryTerminated, over)
            with self._adding:
                del self._runs[run_id]

    def _check(self, run: _Run) -> None:
        progress = run.query.lastProgress
        now = time.monotonic()
        if progress is not None and (progress.batchId, progress.timestamp) != run.reported:
            run.reported, run.reported_at = (progress.batchId, progress.timestamp), now
            self._pass(self._listener.onQueryProgress, QueryProgressEvent(progress))
        elif now - run.reported_at > self._idle_s:
            run.reported_at = now
            self._pass(self._listener.onQueryIdle, QueryIdleEvent(UUID(run.query.id), UUID(run.query.runId), ""))

    def _pass(self, call: Callable[[Any], None], event: object) -> None:
        if not self._closed.is_set():
            _call(call, lambda: event)


def progress_from(report: dict[str, Any]) -> StreamingQueryProgress:
    """Parses a batch's report from Spark's JSON. Spark omits a rate that is not a number: it is NaN here."""
    for source in report["sources"]:
        source.setdefault("inputRowsPerSecond", math.nan)
        source.setdefault("processedRowsPerSecond", math.nan)
        for name in ("startOffset", "endOffset", "latestOffset"):
            if not isinstance(source[name], str):  # before 4.2 pyspark leaves them parsed
                source[name] = json.dumps(source[name])
    return StreamingQueryProgress.fromJson(report)


def epoch_ms(text: str) -> int:
    """Parses Spark's form of a time; returns epoch milliseconds."""
    cycles = 0
    if text.startswith("+"):  # a year of more than four digits, which no datetime has; the calendar repeats
        year, rest = text[1:].split("-", 1)
        cycles = int(year) // CYCLE_YEARS - 1
        text = f"{int(year) - cycles * CYCLE_YEARS:04}-{rest}"
    return milliseconds("a time of Spark", datetime.fromisoformat(text)) + cycles * CYCLE_MS


def watermark_of(progress: StreamingQueryProgress) -> int | None:
    """Returns the watermark of a batch; None while there is none (for Spark that is 1970)."""
    text = progress.eventTime.get("watermark")
    time = 0 if text is None else epoch_ms(text)
    if time == END_OF_TIME_MS - 1:  # less the delay that a mark row may have
        return END_OF_TIME_MS
    return time if time > 0 else None
