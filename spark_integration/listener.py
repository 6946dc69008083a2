"""Listens to the queries of a session: a classic session with one Spark listener, Spark Connect by polling.

pyspark builds each report field by field, with some hundred calls to Java for each listener and each batch of each
query; with six queries its thread falls behind without bound. So a classic session has one listener from us. It takes
each event as JSON, parses it once, and passes it to all listeners of this package.

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
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID
from weakref import WeakKeyDictionary

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
from spark_integration.releases import HAS_LIMITS, INSTALLED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager

INQUIRY_PAUSE_MS: Final = 250  # between two checks of the queries of a Spark Connect session
INQUIRY_CLOSE_MS: Final = 5_000  # how long closing waits for the current check
QUERY_IDLE_MS: Final = 10_000  # without a batch; then a listener gets an idle event, as in Spark

_LISTENER_FAILED: Final = "a listener failed on a query's event"

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
    return _listener_of(spark).add(listener) if is_classic(spark) else PollingListener(spark, listener)


def progress_from(report: dict[str, Any]) -> StreamingQueryProgress:
    """Parses a batch's report from Spark's JSON. Spark omits a rate that is not a number: it is NaN here. Offsets
    become JSON again, which pyspark does itself only since 4.2."""
    for source in report["sources"]:
        for name in ("startOffset", "endOffset", "latestOffset"):
            if not isinstance(source[name], str):
                source[name] = json.dumps(source[name])
        source.setdefault("inputRowsPerSecond", math.nan)
        source.setdefault("processedRowsPerSecond", math.nan)
    return StreamingQueryProgress.fromJson(report)


class SessionListener(StreamingQueryListener):
    """Our one listener of a classic session, which calls all listeners of this package in order.

    It logs the error of a listener, and calls the others.
    """

    def __init__(self, queries: StreamingQueryManager) -> None:
        self._queries = queries
        self._changing = threading.Lock()
        self._listeners: tuple[StreamingQueryListener, ...] = ()  # replaced as a whole: Spark takes no lock
        self._java: Any = None

    def add(self, listener: StreamingQueryListener) -> EventListener:
        with self._changing:
            if not self._listeners:
                self._queries.addListener(self)
            self._listeners = (*self._listeners, listener)
        return EventListener(self, listener)

    def remove(self, listener: StreamingQueryListener) -> None:
        with self._changing:
            before, self._listeners = self._listeners, tuple(each for each in self._listeners if each is not listener)
            if before and not self._listeners:
                self._queries.removeListener(self)

    @property
    def _jlistener(self) -> Any:
        """The object that pyspark passes to Java. Without this attribute pyspark would use its slow way."""
        if self._java is None:
            from pyspark import SparkContext

            assert SparkContext._jvm is not None  # pyspark has used it before it reads this attribute
            self._java = SparkContext._jvm.PythonStreamingQueryListenerWrapper(_TextualEvents(self))
        return self._java

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        self._call(lambda each: each.onQueryStarted(event))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's name
        self._call(lambda each: each.onQueryProgress(event))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  # Spark's name
        self._call(lambda each: each.onQueryIdle(event))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's name
        self._call(lambda each: each.onQueryTerminated(event))

    def _call(self, call: Callable[[StreamingQueryListener], None]) -> None:
        for each in self._listeners:
            try:
                call(each)
            except Exception:
                _log.exception(_LISTENER_FAILED)


class _TextualEvents(JStreamingQueryListener):
    """The object that Java calls for each event. It takes the event as JSON."""

    def onQueryStarted(self, jevent: Any) -> None:  # noqa: N802  # Spark's name
        self.pylistener.onQueryStarted(QueryStartedEvent.fromJson(json.loads(jevent.json())))

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802  # Spark's name
        self.pylistener.onQueryProgress(QueryProgressEvent(progress_from(json.loads(jevent.json())["progress"])))

    def onQueryIdle(self, jevent: Any) -> None:  # noqa: N802  # Spark's name
        self.pylistener.onQueryIdle(QueryIdleEvent.fromJson(json.loads(jevent.json())))

    def onQueryTerminated(self, jevent: Any) -> None:  # noqa: N802  # Spark's name
        self.pylistener.onQueryTerminated(QueryTerminatedEvent.fromJson(json.loads(jevent.json())))


_LISTENERS: Final[WeakKeyDictionary[SparkSession, SessionListener]] = WeakKeyDictionary()
_FINDING: Final = threading.Lock()


def _listener_of(spark: SparkSession) -> SessionListener:
    with _FINDING:
        return _LISTENERS.setdefault(spark, SessionListener(spark.streams))


@dataclass(frozen=True, slots=True)
class EventListener:
    """The subscription of a listener to the session's `SessionListener`."""

    _session: SessionListener
    _listener: StreamingQueryListener

    def follow(self, query: StreamingQuery) -> None:
        """Does nothing: Spark reports all queries."""

    def close(self) -> None:
        self._session.remove(self._listener)


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
        if not HAS_LIMITS:  # such a client has no JSON of the offsets
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
        with self._adding:
            ended = [self._runs.pop(run) for run in known - {str(query.runId) for query in active}]
            running = list(self._runs.values())
        for run in ended:
            self._check(run)
            over = QueryTerminatedEvent(UUID(run.query.id), UUID(run.query.runId), None, None)
            self._call(self._listener.onQueryTerminated, over)
        for run in running:
            self._check(run)

    def _check(self, run: _Run) -> None:
        progress = run.query.lastProgress
        now = time.monotonic()
        if progress is not None and (progress.batchId, progress.timestamp) != run.reported:
            run.reported, run.reported_at = (progress.batchId, progress.timestamp), now
            self._call(self._listener.onQueryProgress, QueryProgressEvent(progress))
        elif now - run.reported_at > self._idle_s:
            run.reported_at = now
            idle = QueryIdleEvent(UUID(run.query.id), UUID(run.query.runId), "")
            self._call(self._listener.onQueryIdle, idle)

    def _call(self, call: Callable[[Any], None], event: object) -> None:
        if self._closed.is_set():
            return
        try:
            call(event)
        except Exception:
            _log.exception(_LISTENER_FAILED)
