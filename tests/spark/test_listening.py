"""What listeners hear: of real Spark in a classic session; over Spark Connect, whose part a script plays, by asking."""

from __future__ import annotations

import json
import math
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress

from spark_integration import exact_watermark
from spark_integration.listener import PollingListener, ReportListener, listen, progress_from

ID = "6a1b4a53-5d0a-4a2e-9f4f-0c6b6f3c8a11"
RUN = "0b9d5a0e-95ab-4b1c-8d3c-6d3a0a1f7c55"


def progress(batch: int) -> StreamingQueryProgress:
    return StreamingQueryProgress.fromJson(
        {
            "id": ID, "runId": RUN, "name": None, "timestamp": f"2023-11-14T22:13:{batch:02}.000Z", "batchId": batch,
            "batchDuration": 1, "durationMs": {}, "eventTime": {}, "stateOperators": [], "sources": [],
            "sink": {"description": "sink", "numOutputRows": 0, "metrics": {}}, "observedMetrics": {},
        }
    )  # fmt: skip


class ScriptedQuery:
    id, runId = ID, RUN  # noqa: N815  # Spark's name

    def __init__(self, progress: StreamingQueryProgress | None = None, failures: int = 0) -> None:
        self.progress, self.failures = progress, failures

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:  # noqa: N802  # Spark's name
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the server is away")
        return self.progress


class ScriptedSession:
    """A session, and its manager of queries, whose calls fail as often as `failures` says."""

    def __init__(self) -> None:
        self.streams, self.is_stopped, self.failures = self, False, 0
        self.queries: list[ScriptedQuery] = []

    @property
    def active(self) -> list[ScriptedQuery]:
        if self.is_stopped or self.failures:
            self.failures -= 1
            raise ConnectionError("the server is away")
        return list(self.queries)


class Heard(StreamingQueryListener):
    def __init__(self) -> None:
        self._said: queue.Queue[object] = queue.Queue()

    def next(self) -> object:
        return self._said.get(timeout=60)

    def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802  # Spark's name

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802  # Spark's name
        self._said.put(event.progress.batchId)
        if event.progress.batchId == 13:
            raise ValueError("an unlucky batch")

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802  # Spark's name
        self._said.put("idle" if event.id == UUID(ID) else event.id)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  # Spark's name
        self._said.put("over" if event.runId == UUID(RUN) else event.runId)


@pytest.fixture
def asked() -> Iterator[tuple[Any, Heard, Any]]:
    session, heard = ScriptedSession(), Heard()
    asking = PollingListener(session, heard, pause_ms=1, idle_ms=50)  # type: ignore[arg-type]  # a script plays it
    yield session, heard, asking
    asking.close()


def test_each_newest_batch_is_reported_once_then_idle_then_end(
    asked: tuple[Any, Heard, Any],
) -> None:
    session, heard, _ = asked
    query = ScriptedQuery(progress(4))
    session.queries = [query]
    assert heard.next() == 4
    assert heard.next() == "idle"
    query.progress = progress(5)
    while (said := heard.next()) == "idle":
        pass
    assert said == 5
    query.progress, query.failures, session.queries = progress(6), 1, []  # the last report is asked for again
    told = [said for said in iter(heard.next, "over") if said != "idle"]
    assert told == [6]


def test_an_ended_query_is_reported_when_it_is_followed(
    asked: tuple[Any, Heard, Any],
) -> None:
    _, heard, asking = asked
    asking.follow(ScriptedQuery(progress(2)))
    assert [heard.next(), heard.next()] == [2, "over"]


def test_polling_survives_failures_and_ends_with_the_session(
    asked: tuple[Any, Heard, Any], caplog: pytest.LogCaptureFixture
) -> None:
    session, heard, asking = asked
    session.failures, session.queries = 2, [ScriptedQuery(progress(13))]
    assert [heard.next(), heard.next()] == [13, "idle"]
    assert "is repeated: the server is away" in caplog.text
    assert "an unlucky batch" in caplog.text
    session.is_stopped = True
    asking._thread.join(60)
    assert not asking._thread.is_alive()


class Kept(ReportListener):
    """Keeps what it is told, plainly, and fails afterwards where it is to."""

    def __init__(self, fails: bool = False) -> None:
        self._fails, self._over = fails, threading.Semaphore(0)
        self.events: list[tuple[str, dict[str, Any]]] = []

    def of(self, run: UUID) -> list[tuple[str, dict[str, Any]]]:
        """What was said of a run, when it is over."""
        assert self._over.acquire(timeout=120)
        return [(kind, said) for kind, said in self.events if said["runId"] == run]

    def _keep(self, kind: str, said: dict[str, Any]) -> None:
        self.events.append((kind, said))
        if kind == "terminated":
            self._over.release()
        if self._fails:
            raise ValueError("an unlucky listener")

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # Spark's name
        about = {"timestamp": event.timestamp, "jobTags": event.jobTags, "name": event.name}
        self._keep("started", {"id": event.id, "runId": event.runId, **about})

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802  # Spark's name
        self._keep("progress", plain(event.progress))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802  # Spark's name
        self._keep("idle", {"id": event.id, "runId": event.runId, "timestamp": event.timestamp})

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  # Spark's name
        about = {"exception": event.exception, "class": event.errorClassOnException}
        self._keep("terminated", {"id": event.id, "runId": event.runId, **about})


def plain(progress: StreamingQueryProgress) -> dict[str, Any]:
    """All that a report says but rates, which its JSON rounds. Offsets are read: there are two ways to write none."""
    rates = "inputRowsPerSecond", "processedRowsPerSecond"
    sources = [{name: said for name, said in source.items() if name not in rates} for source in progress.sources]
    for source in sources:
        for name in ("startOffset", "endOffset", "latestOffset"):
            source[name] = None if source[name] == "None" else json.loads(source[name])
    return {
        **{name: said for name, said in progress.items() if name not in rates},
        "id": progress.id,
        "runId": progress.runId,
        "sources": sources,
        "stateOperators": [dict(each) for each in progress.stateOperators],
        "sink": dict(progress.sink),
        "observedMetrics": {name: row.asDict() for name, row in progress.observedMetrics.items()},
    }


class Theirs(Kept):
    """A listener that pyspark calls in its own way."""

    _jlistener = StreamingQueryListener._jlistener


@pytest.fixture
def windows(read: Callable[..., DataFrame]) -> DataFrame:
    events = exact_watermark(read(), event_time="event_time")
    return events.groupBy(functions.window("event_time", "10 seconds")).count()


@pytest.mark.spark
def test_a_classic_session_hears_what_pyspark_reports_despite_failing_listeners(
    spark: SparkSession, stream: Any, event_log: Any, windows: DataFrame, running: Any, caplog: pytest.LogCaptureFixture
) -> None:
    theirs, failing, ours = Theirs(), Kept(fails=True), Kept()
    spark.streams.addListener(theirs)
    listenings = [listen(spark, each) for each in (failing, ours)]
    try:
        with running(windows) as run:
            event_log.append("0", range(0, 15_000, 1_000))
            stream.mark(12_000, {"0": 15})
            run.settle()
            event_log.append("1", [12_000, 31_000])
            stream.mark(30_000, {"0": 15, "1": 2})
            assert run.settle() == {0: 10, 10_000: 6}
        run_id = UUID(str(run.query.runId))
        told = theirs.of(run_id)
        assert ours.of(run_id) == told
        assert failing.of(run_id) == told
    finally:
        spark.streams.removeListener(theirs)
        for listening in listenings:
            listening.close()
    kinds = [kind for kind, _ in told]
    assert (kinds[0], kinds[-1]) == ("started", "terminated")
    batches = [said for kind, said in told if kind == "progress"]
    assert len(batches) > 2
    assert batches[0]["sources"][0]["startOffset"] is None
    assert batches[-1]["eventTime"]["watermark"] > "1970-01-01T00:00:29"
    assert caplog.text.count("a listener failed on a query's event") == len(told)


def test_a_rate_spark_leaves_out_is_not_a_number() -> None:
    source = {"description": "s", "startOffset": None, "endOffset": {"0": 1}, "latestOffset": None, "numInputRows": 0}
    read = progress_from({**json.loads(progress(3).json), "sources": [source]})
    assert math.isnan(read.sources[0].inputRowsPerSecond)
    assert math.isnan(read.processedRowsPerSecond)
    assert (read.batchId, json.loads(read.sources[0].endOffset)) == (3, {"0": 1})
