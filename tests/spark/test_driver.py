"""What the driver sees: the plan that Spark makes of `exact_watermark`, and errors that say what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, functions

from spark_integration import exact_watermark
from spark_integration.errors import MarkDropped, WrongColumn
from spark_integration.watermark import WATERMARK_TAG

Read = Callable[..., DataFrame]

pytestmark = pytest.mark.spark


class TestPlan:
    def test_only_the_event_time_is_tagged_and_its_other_metadata_stays(self, read: Read) -> None:
        exact = exact_watermark(read().withMetadata("event_time", {"unit": "ms"}), event_time="event_time")
        assert exact.columns == ["key", "value", "segment", "offset", "appended_at", "event_time"]
        tagged = {field.name: field.metadata for field in exact.schema if field.metadata}
        assert tagged == {"event_time": {"unit": "ms", WATERMARK_TAG: 0}}

    def test_the_token_is_not_in_the_plan(self, read: Read, stream: Any, capsys: pytest.CaptureFixture[str]) -> None:
        df = read(token="not-for-the-plan")
        capsys.readouterr()
        df.explain(extended=True)
        plan = capsys.readouterr().out
        assert stream.url in plan
        assert "not-for-the-plan" not in plan


class TestColumns:
    def test_a_dropped_mark_is_an_error(self, read: Read) -> None:
        with pytest.raises(MarkDropped, match="event_time, key"):
            exact_watermark(read().select("event_time", "key"), event_time="event_time")

    @pytest.mark.parametrize(("column", "found"), [("when", "is not there"), ("value", "binary"), ("mark", "mark")])
    def test_an_event_time_that_is_none_is_an_error(self, read: Read, column: str, found: str) -> None:
        with pytest.raises(WrongColumn, match=found):
            exact_watermark(read(), event_time=column)

    def test_a_double_has_too_few_digits_for_nanoseconds(self, read: Read) -> None:
        with pytest.raises(WrongColumn, match="is of type double: nanoseconds of today need a bigint or a decimal"):
            exact_watermark(read().withColumn("ns", functions.lit(1.7e18)), event_time="ns", time_unit="ns")

    @pytest.mark.parametrize("name", ["time", "sale.at.time", "at.time"])
    def test_a_nested_event_time_is_refused_with_the_line_that_pulls_it_up(self, read: Read, name: str) -> None:
        nested = read().selectExpr("*", "struct(1 as shop, struct(event_time as time) as at) as sale")
        with pytest.raises(WrongColumn, match="is a field of another column: pull it up first") as refused:
            exact_watermark(nested, event_time=name)
        line = refused.value.wanted.partition(", with ")[2]
        assert line == 'df.withColumn("time", functions.col("sale.at.time"))'
        pulled_up = eval(line, {"df": nested, "functions": functions})
        assert exact_watermark(pulled_up, event_time="time").columns[-1] == "time"

    def test_a_time_without_a_zone_is_refused_with_the_line_that_converts_it(self, read: Read) -> None:
        without = read().withColumn("time", functions.col("event_time").cast("timestamp_ntz"))
        with pytest.raises(WrongColumn, match="is of type timestamp_ntz: convert it first") as refused:
            exact_watermark(without, event_time="time")
        line = refused.value.wanted.partition(", with ")[2].partition(", which ")[0]
        converted = eval(line, {"df": without, "functions": functions})
        assert exact_watermark(converted, event_time="time").columns[-1] == "time"


class TestErrors:
    def test_a_wrong_option_is_named_on_load(self, read: Read) -> None:
        with pytest.raises(AnalysisException, match=r"option maxRowsPerBatch .* cannot be 'lots'"):
            read(maxRowsPerBatch="lots")

    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            ({"stream": "nothing"}, "there is no stream 'nothing': create it"),
            ({"path": "/nowhere/orders.db"}, "there is no log at '/nowhere/orders.db'"),
            (
                {"controller": "http://127.0.0.1:9", "controllerWaitMs": 100},
                "the controller at http://127.0.0.1:9 gave no time window in .* check that it runs",
            ),
        ],
    )
    def test_what_is_wrong_reaches_the_driver_in_a_sentence_which_comes_first(
        self, read: Read, tmp_path: Path, options: dict[str, object], sentence: str
    ) -> None:
        writer = read(**options).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
        query = writer.start()
        with pytest.raises(StreamingQueryException, match=sentence) as failed:
            query.awaitTermination(60)
        for error in (failed.value, query.exception()):
            first, *others = str(error).splitlines()
            assert re.search(sentence, first)
            assert len([line for line in others if line.startswith("  File ")]) <= 6  # of Spark 4.0; later there are 5
