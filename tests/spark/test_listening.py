"""What a listener hears where queries are asked: over Spark Connect, whose part a script plays here."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress

from spark_integration.listener import PollingListener

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

    def __init__(self) -> None:
        self.lastProgress: StreamingQueryProgress | None = None  # Spark's name


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


def test_each_newest_batch_is_told_once_then_that_the_query_is_there_and_its_end_after_its_last_batch(
    asked: tuple[Any, Heard, Any],
) -> None:
    session, heard, _ = asked
    query = ScriptedQuery()
    query.lastProgress = progress(4)
    session.queries = [query]
    assert heard.next() == 4
    assert heard.next() == "idle"
    query.lastProgress = progress(5)
    while (said := heard.next()) == "idle":
        pass
    assert said == 5
    query.lastProgress, session.queries = progress(6), []
    told = [said for said in iter(heard.next, "over") if said != "idle"]
    assert told == [6]


def test_a_query_that_has_ended_before_anyone_looked_is_told_of_where_it_is_followed(
    asked: tuple[Any, Heard, Any],
) -> None:
    _, heard, asking = asked
    query = ScriptedQuery()
    query.lastProgress = progress(2)
    asking.follow(query)
    assert [heard.next(), heard.next()] == [2, "over"]


def test_it_goes_on_after_a_failure_of_the_server_or_of_the_listener_and_ends_with_the_session(
    asked: tuple[Any, Heard, Any], caplog: pytest.LogCaptureFixture
) -> None:
    session, heard, asking = asked
    query = ScriptedQuery()
    query.lastProgress = progress(13)
    session.failures, session.queries = 2, [query]
    assert [heard.next(), heard.next()] == [13, "idle"]
    assert "tried again: the server is away" in caplog.text
    assert "an unlucky batch" in caplog.text
    session.is_stopped = True
    asking._thread.join(60)
    assert not asking._thread.is_alive()
