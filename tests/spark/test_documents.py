"""The code in docs/spark.md runs as it stands there, one block after the other, but for the addresses."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from logs.sqlite import SqliteLog
from spark_integration import detach
from strandline.protocol import calls
from tests.spark.conftest import AT_ONCE
from writer_client import Event, Writer

ROOT = Path(__file__).resolve().parents[2]
START_MS = 1_700_000_000_000

pytestmark = pytest.mark.spark


def test_the_blocks_of_the_page_about_spark_run(
    spark: SparkSession, spark_kafka_jars: Path, controller: Any, tmp_path: Path
) -> None:
    for stream in ("orders", "totals"):
        controller.connection.run(calls.create_stream(stream, 2, AT_ONCE))
        SqliteLog.create(tmp_path / f"{stream}.log", 2).close()
    with SqliteLog(tmp_path / "orders.log") as log:
        with Writer(controller.connection, "orders", "w", log=log) as writer:
            writer.write(
                [Event(b'{"time": %d, "customer": "c", "amount": 2.5}' % (START_MS + n), key=b"c") for n in (1, 2)]
            )
            writer.note_time(START_MS + 20_000)
        controller.connection.run(calls.seal("orders", log.seal()))
    text = (ROOT / "docs" / "spark.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    page = "".join(blocks).replace("http://127.0.0.1:8433", controller.url)
    page = re.sub(r'"(orders|totals)\.log"', rf'"{tmp_path}/\1.log"', page)
    page = page.replace('"job-1").start', f'"{tmp_path}/job-1").start')
    names: dict[str, Any] = {"spark": spark}
    environment = dict(os.environ)
    try:
        exec(compile(page, "docs/spark.md", "exec"), names)
        names["query"].processAllAvailable()
        names["query"].stop()
        notes = names["notes"]
        notes.hear(names["query"].lastProgress)
        assert notes.settle(60)
        notes.close()
        assert names["closed_day"].count() == 2
        assert (names["found"].beginning.doubt, names["found"].incomplete) == (None, ())
        assert controller.connection.run(calls.describe("totals")).sealed
        assert names["exact_sales"].isStreaming and names["events"].isStreaming and names["catching_up"].isStreaming
    finally:
        os.environ.clear()
        os.environ.update(environment)
        detach(spark)
        spark.conf.unset("spark.strandline.backlog.watermarkLagThreshold")
    with SqliteLog(tmp_path / "totals.log") as log:
        assert sum(log.end_offsets().values()) == 1
