"""The page about SQL and Scala runs in Spark's own shell, where nothing of ours is registered."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from strandline.logs.sqlite import SqliteLog
from strandline.testing import InProcessController
from tests.readme.pages import blocks_of
from tests.spark_python import ready_spark_python
from writer_client import Event, Writer

PAGE = "docs/how-to/spark-sql-and-scala.md"
START_MS = 1_700_000_000_000
DEADLINE_S = 280
COUNTED = 'spark.read.parquet("counts").orderBy("start").selectExpr("unix_millis(start)", "events")'

pytestmark = [pytest.mark.spark, pytest.mark.full]


def shown(expression: str) -> str:
    return f'println("SAID " + {expression}.collect().mkString)\n'


def test_sql_and_scala_find_the_source_and_close_exact_windows(tmp_path: Path) -> None:
    log = SqliteLog.create(tmp_path / "orders.log", 1)
    with InProcessController() as controller:
        controller.create_stream("orders")
        url = controller.listen()
        with log, Writer(url, "orders", "till-1", log=log) as writer:
            writer.write([Event(b'{"time": %d}' % (START_MS + n), key=b"c") for n in (1, 2, 12_000, 20_001)])
            writer.note_time(START_MS + 20_001)
        script = ""
        for block in blocks_of(PAGE):
            text = block.text.replace("http://127.0.0.1:8433", url)
            text = text.replace("orders.log", str(tmp_path / "orders.log"))
            if block.language == "sql":
                create, select = (f'spark.sql("""{each}""")' for each in text.split(";") if each.strip())
                script += create + "\n" + shown(select)
            else:
                script += text + "\n"
        script += shown(COUNTED) + ":quit\n"
        shell = Path(pyspark.__file__).parent / "bin" / "spark-shell"
        settings = ("spark.ui.enabled=false", "spark.sql.shuffle.partitions=1", "spark.driver.bindAddress=127.0.0.1")
        command: list[str | Path] = [shell, "--master", "local[2]"]
        for setting in (*settings, "spark.driver.host=127.0.0.1"):
            command += ["--conf", setting]
        with ready_spark_python(tmp_path, sys.executable) as python:
            done = subprocess.run(
                command, input=script, cwd=tmp_path, env={**os.environ, "PYSPARK_PYTHON": python, "TERM": "dumb"},
                capture_output=True, text=True, check=False, timeout=DEADLINE_S,
            )  # fmt: skip
    said = re.findall(r"^(?:scala> )?SAID (.*)$", done.stdout, re.MULTILINE)
    assert said == ["[3]", f"[{START_MS},2][{START_MS + 10_000},1]"], done.stdout + done.stderr
