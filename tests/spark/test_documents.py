"""The pages with a Spark job in them do what they show, and print what they say, in the session that tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from spark_integration import detach
from strandline.client import calls
from strandline.logs.sqlite import SqliteLog
from tests.readme.pages import Stranger
from tests.served import Outside, served
from tests.spark.conftest import AT_ONCE
from writer_client import Event, Writer

START_MS = 1_700_000_000_000
LOGS = ("orders", "totals", "returns")
JOBS = ("job-1", "job-2")

pytestmark = [pytest.mark.spark, pytest.mark.full]


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    """A controller of these tests alone: a page lists all of its streams."""
    with served(tmp_path_factory.mktemp("documents") / "store.db") as connection:
        yield Outside(connection)


@pytest.fixture
def stranger(spark: SparkSession, controller: Any, tmp_path: Path) -> Iterator[Callable[..., Stranger]]:
    """Begins in a folder of its own. Spark's processes are in another one, so that paths are whole here."""
    replaced = {f'"{name}.log"': f'"{tmp_path}/{name}.log"' for name in LOGS}
    replaced |= {f'"checkpointLocation", "{job}"': f'"checkpointLocation", "{tmp_path}/{job}"' for job in JOBS}
    replaced |= {"spark.stop()": ""}  # it is not theirs alone
    begun = []

    def begin(**options: Any) -> Stranger:
        begun.append(Stranger(tmp_path, replaced=replaced, names={"spark": spark}, **options))
        return begun[-1]

    yield begin
    for stream in (*LOGS, "clicks", "orders-2025"):
        httpx.delete(f"{controller.url}/v1/streams/{stream}")
    detach(spark)


def test_the_page_about_spark_shows_jobs_that_run(
    stranger: Callable[..., Stranger], spark: SparkSession, spark_kafka_jars: Path, controller: Any, tmp_path: Path
) -> None:
    for stream in LOGS:
        controller.connection.run(calls.create_stream(stream, 2, AT_ONCE))
        SqliteLog.create(tmp_path / f"{stream}.log", 2).close()
    controller.connection.run(calls.create_stream("clicks", 2, AT_ONCE))  # its events are in a topic
    with SqliteLog(tmp_path / "orders.log") as log:
        with Writer(controller.connection, "orders", "w", log=log) as writer:
            writer.write(
                [Event(b'{"time": %d, "customer": "c", "amount": 2.5}' % (START_MS + n), key=b"c") for n in (1, 2)]
            )
            writer.note_time(START_MS + 20_000)
        controller.connection.run(calls.seal("orders", log.seal()))
    try:
        with stranger(controller=controller.url) as walking:
            walking.walk("docs/spark.md")
            names = walking.names
            assert names["closed_day"].count() == 2
            assert names["left_out"].count() == 0
            assert (names["found"].beginning.doubt, names["found"].incomplete) == (None, ())
            for name in ("totals", "exact_sales", "per_minute", "events", "catching_up", "both"):
                assert names[name].isStreaming
    finally:
        spark.conf.unset("spark.strandline.backlog.watermarkLagThreshold")


@pytest.mark.parametrize("page", ["chained-jobs", "backfill"])
def test_a_task_for_spark_can_be_done_as_its_page_says(
    stranger: Callable[..., Stranger], controller: Any, page: str
) -> None:
    with stranger(controller=controller.url) as walking:
        walking.walk(f"docs/how-to/{page}.md")


def test_the_quickstart_gets_the_same_windows_in_python_and_in_spark(stranger: Callable[..., Stranger]) -> None:
    with stranger() as walking:
        walking.walk("docs/quickstart.md")
