"""Batches as they are planned and read, against a real log and the real controller, without Spark around them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import time_ns
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from spark_integration.errors import InvalidOffset, InvalidOption, UnsupportedLimit
from spark_integration.events import read_range
from spark_integration.offsets import END_OF_TIME_MS
from spark_integration.options import SourceOptions
from spark_integration.rows import SCHEMA, ReadPartition, SegmentRange
from spark_integration.source import PARTITION_ROWS, TASK_ROWS, StrandlineSource, StrandlineStreamReader
from strandline.client import calls
from strandline.core.backlog import CallableStrategy
from strandline.core.note import Note
from strandline.errors import StreamRecreated
from strandline.logs import LogReader
from strandline.logs.errors import LogUnavailable, NotInLog
from strandline.logs.places import KafkaTopic, SqliteFile
from strandline.logs.sqlite_reader import SqliteLogReader


@pytest.fixture
def options(stream: Any, event_log: Any) -> dict[str, str]:
    return {"controller": stream.url, "stream": stream.name, "path": str(event_log.path)}


@pytest.fixture
def reader(options: dict[str, str]) -> Any:
    reader = StrandlineSource(options).streamReader(SCHEMA)
    yield reader
    reader.stop()


def offset(positions: Mapping[str, int], mark: int | None) -> dict[str, Any]:
    return {"v": 1, "positions": dict(positions), "mark": mark}


def bare(planned: dict[str, Any]) -> dict[str, Any]:
    """An offset without the run that planned it, and the identity of the stream."""
    return {name: value for name, value in planned.items() if name not in ("run", "identity")}


def test_an_offset_holds_the_positions_and_the_mark_that_is_true_there(
    reader: StrandlineStreamReader, stream: Any, event_log: Any
) -> None:
    event_log.append("1", range(5))
    event_log.append("0", range(5))
    stream.mark(100, {"0": 2})
    stream.mark(200, {"0": 5, "1": 5})
    stream.mark(300, {"0": 6})
    start = reader.initialOffset()
    assert bare(start) == offset({}, None)
    assert bare(reader.latestOffset(start, ReadMaxRows(4))) == offset({"0": 2, "1": 2}, 100)
    assert bare(reader.latestOffset(start, ReadAllAvailable())) == offset({"0": 5, "1": 5}, 200)


def test_a_checkpoint_of_another_stream_is_refused(
    reader: StrandlineStreamReader, options: dict[str, str], stream: Any, event_log: Any
) -> None:
    event_log.append("0", [1])
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    stream.run(calls.delete_stream(stream.name))
    stream.run(calls.create_stream(stream.name, 3))
    again = StrandlineStreamReader(StrandlineSource(options)._settings)
    with pytest.raises(StreamRecreated, match="Begin anew in the present stream"):
        again.latestOffset(end, ReadAllAvailable())
    again.stop()
    stream.mark(300, {"0": 1})  # the log is as it was: a new checkpoint begins where the stream is to be read again
    anew = StrandlineStreamReader(StrandlineSource({**options, "startingPositions": '{"0": 0}'})._settings)
    assert bare(anew.latestOffset(anew.initialOffset(), ReadAllAvailable())) == offset({"0": 1}, 300)
    anew.stop()


def test_a_checkpoint_with_another_time_key_is_refused(
    reader: StrandlineStreamReader, options: dict[str, str], event_log: Any
) -> None:
    event_log.append("0", [1])
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    again = StrandlineStreamReader(StrandlineSource({**options, "timeKey": "shipped"})._settings)
    with pytest.raises(InvalidOffset, match="is of the time key '', not 'shipped': take a new checkpoint"):
        again.latestOffset(end, ReadAllAvailable())
    begun = again.latestOffset(again.initialOffset(), ReadAllAvailable())
    assert begun["key"] == "shipped" and again.latestOffset(begun, ReadAllAvailable()) == begun
    again.stop()


def test_nothing_new_gives_the_same_offset_to_the_letter(
    reader: StrandlineStreamReader, stream: Any, event_log: Any
) -> None:
    for segment in ("2", "0", "1"):
        event_log.append(segment, [1])
    stream.mark(50, {})
    first = json.dumps(reader.latestOffset(reader.initialOffset(), ReadAllAvailable()))
    assert json.dumps(reader.latestOffset(json.loads(first), ReadAllAvailable())) == first


def test_each_run_of_a_query_makes_one_batch_that_nothing_else_asks_for(
    reader: StrandlineStreamReader, options: dict[str, str], event_log: Any
) -> None:
    event_log.append("0", [1])
    last = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    for checkpoint in (last, bare(last)):  # one of an older version has no run
        again = StrandlineStreamReader(StrandlineSource(options)._settings)
        first = again.latestOffset(checkpoint, ReadAllAvailable())
        assert first != checkpoint and bare(first) == bare(checkpoint)
        assert again.latestOffset(first, ReadAllAvailable()) == first
        again.stop()


def test_a_mark_alone_makes_a_new_offset_and_never_decreases(reader: StrandlineStreamReader, stream: Any) -> None:
    stream.mark(50, {})
    assert bare(reader.latestOffset(offset({}, 40), ReadAllAvailable())) == offset({}, 50)
    assert bare(reader.latestOffset(offset({}, 60), ReadAllAvailable())) == offset({}, 60)


def test_the_sealed_end_is_the_end_of_time_in_sparks_feed(
    reader: StrandlineStreamReader, stream: Any, event_log: Any
) -> None:
    event_log.append("0", [1, 2])
    stream.seal(event_log.log.seal())
    assert bare(reader.latestOffset(offset({}, None), ReadMaxRows(1))) == offset({"0": 1}, None)
    assert bare(reader.latestOffset(offset({}, None), ReadMaxRows(2))) == offset({"0": 2}, END_OF_TIME_MS)


def test_reading_starts_where_it_is_told(options: dict[str, str], event_log: Any) -> None:
    event_log.append("0", range(9))
    reader = StrandlineStreamReader(StrandlineSource({**options, "startingPositions": '{"0": 7}'})._settings)
    start = reader.initialOffset()
    assert bare(start) == offset({"0": 7}, None)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert reader.partitions(start, end) == [ReadPartition((SegmentRange("0", 7, 9),))]
    reader.stop()


@dataclass(frozen=True, slots=True)
class FailingFile(SqliteFile):
    """A log that fails so many times when it is asked for its end."""

    failures: int

    def open_reader(self) -> LogReader:
        left = iter(range(self.failures))

        class Failing(SqliteLogReader):
            def end_offsets(self) -> dict[str, int]:
                if next(left, None) is not None:
                    raise LogUnavailable(path="orders", reason="Failed while waiting for controller")
                return super().end_offsets()

        return Failing(self.path)


def test_a_log_that_is_away_is_waited_for_and_named_after_the_deadline(options: dict[str, str], event_log: Any) -> None:
    def planned(failures: int, wait_ms: int) -> dict[str, Any]:
        settings = StrandlineSource({**options, "controllerWaitMs": str(wait_ms)})._settings
        reader = StrandlineStreamReader(replace(settings, place=FailingFile(options["path"], failures)))
        try:
            return bare(reader.latestOffset(offset({}, None), ReadAllAvailable()))
        finally:
            reader.stop()

    event_log.append("0", range(3))
    assert planned(1, 60_000) == offset({"0": 3}, None)
    said = r"orders.db' was asked for \d+ ms, see controllerWaitMs; the last error: .*Failed while waiting"
    with pytest.raises(LogUnavailable, match=said):
        planned(10, 1)


def test_what_retention_removed_is_told_with_the_first_offset_and_the_way_on(
    reader: StrandlineStreamReader, event_log: Any
) -> None:
    event_log.append("0", range(9))
    start = reader.initialOffset()
    event_log.log.truncate({"0": 5})
    (partition,) = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    said = f"'{event_log.path}' begins at 5 there, so .* a new checkpoint and `startingPositions` from 5 on"
    with pytest.raises(NotInLog, match=said):
        list(reader.read(partition))


def test_one_of_several_addresses_is_enough(options: dict[str, str], stream: Any, event_log: Any) -> None:
    event_log.append("0", [1, 2])
    stream.mark(50, {"0": 2})
    several = {**options, "controller": f"http://127.0.0.1:1, {stream.url}"}
    reader = StrandlineStreamReader(StrandlineSource(several)._settings)
    assert bare(reader.latestOffset(reader.initialOffset(), ReadAllAvailable())) == offset({"0": 2}, 50)
    reader.stop()
    asked = {"stream": stream.name, "path": str(event_log.path), "start": 0, "end": 50}
    assert read_range(controller=several["controller"].split(", "), **asked).end == {"0": 2}


def test_available_now_ends_where_log_and_mark_stood_at_first(
    reader: StrandlineStreamReader, stream: Any, event_log: Any
) -> None:
    event_log.append("0", range(25))
    stream.mark(10, {})
    reader.prepareForTriggerAvailableNow()
    at = reader.initialOffset()
    seen = []
    for time in range(11, 30):
        stream.mark(time, {})  # marks go on, and so does the writer
        event_log.append("0", [0])
        then = reader.latestOffset(at, ReadMaxRows(10))
        if then == at:
            break
        seen.append(bare(then))
        at = then
    assert seen == [offset({"0": 10}, 10), offset({"0": 20}, 10), offset({"0": 25}, 10)]


def test_the_default_limit_is_the_option(reader: StrandlineStreamReader, options: dict[str, str]) -> None:
    limited = StrandlineSource({**options, "maxrowsperbatch": "7"}).streamReader(SCHEMA)
    assert reader.getDefaultReadLimit() == ReadAllAvailable()
    assert limited.getDefaultReadLimit() == ReadMaxRows(7)


def test_a_limit_that_cannot_be_kept_is_an_error(reader: StrandlineStreamReader) -> None:
    with pytest.raises(UnsupportedLimit, match="ReadMinRows"):
        reader.latestOffset(offset({}, None), ReadMinRows(5))


def test_the_reported_end_is_the_logs(reader: StrandlineStreamReader, event_log: Any) -> None:
    event_log.append("2", [1, 2])
    assert reader.reportLatestOffset() == offset({"2": 2}, None)


def test_a_log_that_is_shorter_than_the_checkpoint_is_another_log(reader: StrandlineStreamReader) -> None:
    with pytest.raises(InvalidOffset, match="ends at 0 in '0'"):
        reader.latestOffset(offset({"0": 5}, None), ReadAllAvailable())


def test_a_beginning_that_the_log_does_not_have_names_the_option(options: dict[str, str]) -> None:
    source = StrandlineSource({**options, "startingpositions": '{"0": 7, "9": 1}'}).streamReader(SCHEMA)
    with pytest.raises(InvalidOffset, match=r"ends at 0 in '0', has no segment '9'; .*startingPositions"):
        source.latestOffset(source.initialOffset(), ReadAllAvailable())


#   no watermark yet    yes
#   over 20 remain             yes           yes
#   the caller says so                              yes
#   rows in the batch   10     30     5      30     20     5
def test_a_source_is_in_backlog_while_any_strategy_says_so(
    options: dict[str, str], stream: Any, event_log: Any
) -> None:
    said: list[bool] = [False]
    given = {
        **options, "maxRowsPerBatch": "5", "maxRowsPerBacklogBatch": "30", "backlogRemainingOffsets": "20",
        "spark.strandline.backlog.watermarkLagThreshold": "1 hour",
    }  # fmt: skip
    settings = SourceOptions.parse(given)
    reader = StrandlineStreamReader(settings, (CallableStrategy(lambda: said[-1]),))
    assert reader.getDefaultReadLimit() == ReadMaxRows(30)

    def next_batch(start: dict[str, Any]) -> tuple[dict[str, Any], int, bool]:
        end = reader.latestOffset(start, ReadMaxRows(30))
        rows = end["positions"].get("0", 0) - start["positions"].get("0", 0)
        return end, rows, end.get("backlog", False)

    event_log.append("0", range(10))
    stream.mark(4_000_000_000_000, {"0": 5})  # not behind the clock
    at, *first = next_batch(reader.initialOffset())
    assert first == [10, True]  # by lag: there is no watermark yet
    event_log.append("0", range(40))
    at, *many = next_batch(at)
    assert many == [30, True]  # by size
    at, *few = next_batch(at)
    assert few == [5, False]
    event_log.append("0", range(30))
    at, *again = next_batch(at)
    assert again == [30, True]  # by size once more
    event_log.append("0", range(15))
    said.append(True)
    at, *told = next_batch(at)
    assert told == [20, True]  # by the caller's word
    said.append(False)
    event_log.append("0", range(7))
    assert next_batch(at)[1:] == (5, False)
    reader.stop()


@pytest.mark.parametrize("trigger", ["any", "availableNow"])
def test_a_log_that_ends_before_the_marks_is_named_once(
    reader: StrandlineStreamReader,
    stream: Any,
    event_log: Any,
    trigger: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    event_log.append("0", [1, 2])
    stream.mark(50, {"0": 2})
    at = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    stream.mark(60, {"0": 3})
    if trigger == "any":
        at = reader.latestOffset(at, ReadAllAvailable())
        assert not caplog.records  # ten seconds have not passed
        monkeypatch.setattr("spark_integration.source.CHECKED_MS", 0)
    else:
        reader.prepareForTriggerAvailableNow()
    for _ in range(2):
        reader.latestOffset(at, ReadAllAvailable())
    (record,) = caplog.records
    assert f"the log of stream {stream.name!r} ends at 2 in segment '0', and the marks are at 3" in record.getMessage()


def test_a_log_that_has_all_that_the_marks_cover_is_not_named(
    reader: StrandlineStreamReader,
    stream: Any,
    event_log: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("spark_integration.source.CHECKED_MS", 0)
    event_log.append("0", [1, 2])
    stream.mark(50, {"0": 2})
    reader.prepareForTriggerAvailableNow()
    at = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert reader.latestOffset(at, ReadAllAvailable()) == at
    assert not caplog.records


#   lag         2 h    none    grows, with events and without   idle    grown, back
#   backlog     yes    no      no                               no      yes
@pytest.mark.parametrize("group", [None, "steady"])
def test_once_out_of_backlog_a_query_stays_out_until_its_stream_is_idle(
    options: dict[str, str], stream: Any, event_log: Any, group: str | None
) -> None:
    given = {**options, "spark.strandline.backlog.watermarkLagThreshold": "1 ms"} | ({"group": group} if group else {})
    reader = StrandlineStreamReader(SourceOptions.parse(given))
    written, at = 0, reader.initialOffset()

    def note(time_ms: int) -> None:
        stream.run(calls.note(stream.name, Note(writer="w", times={"": time_ms}, position={"0": written})))

    def backlog(events: int) -> bool:
        nonlocal at, written
        event_log.append("0", range(events))
        written += events
        at = reader.latestOffset(at, ReadAllAvailable())
        return "backlog" in reader.reportLatestOffset()

    def now() -> int:
        return time_ns() // 1_000_000

    note(now() - 7_200_000)
    assert backlog(events=1)
    ahead_ms = 250
    note(soon := now() + ahead_ms)
    while [backlog(events) for events in (0, 1)][-1]:
        assert now() > soon
        ahead_ms *= 2  # this machine is busy
        note(soon := now() + ahead_ms)
    while now() < soon + 5:
        assert not backlog(events=1)
        assert not backlog(events=0)
    assert not backlog(events=1)
    note(soon + 1)
    assert not backlog(events=0)
    stream.run(calls.idle(stream.name, "w"))
    assert not backlog(events=0)
    note(soon + 2)
    assert backlog(events=1)
    reader.stop()


@pytest.mark.parametrize(
    "stored",
    [
        {"v": 2, "positions": {}, "mark": None},
        {"positions": {}, "mark": None},
        {"v": 1, "positions": {"0": -1}, "mark": None},
        {"v": 1, "positions": {}, "mark": "soon"},
        {"v": 1, "positions": {}, "mark": None, "run": 2},
        {"v": 1, "mark": None},
        {"step": 3},
    ],
)
def test_an_offset_of_another_form_is_refused(reader: StrandlineStreamReader, stored: dict[str, Any]) -> None:
    with pytest.raises(InvalidOffset):
        reader.partitions(stored, offset({}, None))


class TestPartitions:
    def test_short_ranges_share_one_and_the_last_has_the_mark(self, reader: StrandlineStreamReader) -> None:
        start, end = offset({"0": 3, "1": 4}, 10), offset({"0": 8, "1": 4, "2": 1}, 20)
        ranges = (SegmentRange("0", 3, 8), SegmentRange("2", 0, 1))
        assert reader.partitions(start, end) == [ReadPartition(ranges, floor=10, mark=20)]
        end = offset({"0": 3 + TASK_ROWS, "1": 4, "2": 1}, 20)
        assert reader.partitions(start, end) == [
            ReadPartition((SegmentRange("0", 3, 3 + TASK_ROWS),), floor=10),
            ReadPartition((SegmentRange("2", 0, 1),), floor=10, mark=20),
        ]

    def test_a_long_range_is_divided(self, reader: StrandlineStreamReader) -> None:
        parts = reader.partitions(offset({}, None), offset({"0": 2 * PARTITION_ROWS + 1}, None))
        assert len(parts) == 3

    def test_every_batch_has_exactly_sparks_schema(self, reader: StrandlineStreamReader, event_log: Any) -> None:
        event_log.append("1", [5, 6])
        expected = to_arrow_schema(SCHEMA, timezone="UTC")
        event_log.append("2", [7])
        ranges = (SegmentRange("1", 0, 2), SegmentRange("2", 0, 1))
        events, more, mark = reader.read(ReadPartition(ranges, floor=7, mark=END_OF_TIME_MS))
        assert events.schema.equals(expected)
        assert more["segment"].to_pylist() == ["2"]
        assert mark.schema.equals(expected)
        assert events.select(["key", "value", "segment", "offset", "mark"]).to_pylist() == [
            {"key": b"k2", "value": b"5", "segment": "1", "offset": 0, "mark": None},
            {"key": b"k0", "value": b"6", "segment": "1", "offset": 1, "mark": None},
        ]
        assert events["floor"].cast(pa.int64()).to_pylist() == [7_000, 7_000]
        assert mark["floor"].null_count == 1
        assert mark["mark"].cast(pa.int64()).to_pylist() == [END_OF_TIME_MS * 1000]


class TestOptions:
    @pytest.mark.parametrize(
        ("change", "named"),
        [
            ({"controller": ""}, "controller"),
            ({"controller": "localhost:8433"}, "controller"),
            ({"controller": "http://a,b:8433"}, "controller"),
            ({"controller": "http://a,https://b"}, "controller"),
            ({"stream": ""}, "stream"),
            ({"path": ""}, "path"),
            ({"log": "paper"}, "log"),
            ({"startingPositions": "yesterday"}, "startingPositions"),
            ({"startingTime": "yesterday"}, "startingTime"),
            ({"startingTime": "5", "startingPositions": "head"}, "startingPositions"),
            ({"startingSlack": "5"}, "startingSlack"),
            ({"endingPositions": "soon"}, "endingPositions"),
            ({"maxEventTimeLag": "2 weeks"}, "maxEventTimeLag"),
            ({"spark.strandline.backlog.watermarkLagThreshold": "0"}, "spark.strandline"),
            ({"log": "kafka"}, "kafka.bootstrap.servers"),
            ({"startingPositions": '{"0": -1}'}, "startingPositions"),
            ({"startingPositions": '{"0": true}'}, "startingPositions"),
            ({"maxRowsPerBatch": "0"}, "maxRowsPerBatch"),
            ({"maxRowsPerBatch": "many"}, "maxRowsPerBatch"),
            ({"backlogRemainingOffsets": "0"}, "backlogRemainingOffsets"),
            ({"controllerWaitMs": "0"}, "controllerWaitMs"),
            ({"maxRowPerBatch": "5"}, "maxrowperbatch .*did you mean maxRowsPerBatch"),
            ({"startingTime": "10", "endingTime": "9"}, "endingTime"),
        ],
    )
    def test_a_wrong_option_is_named(self, options: dict[str, str], change: dict[str, str], named: str) -> None:
        with pytest.raises(InvalidOption, match=f"option {named}"):
            StrandlineSource({**options, **change})

    def test_a_token_file_replaces_the_option_and_the_environment(self, options: dict[str, str]) -> None:
        environment = {"STRANDLINE_TOKEN": "from-variable"}
        with_file = SourceOptions.parse({**options, "tokenFile": "t", "caFile": "c"}, environment).access
        assert (with_file.token, with_file.token_file, with_file.ca_file) == (None, "t", "c")
        assert SourceOptions.parse(options, environment).access.token == "from-variable"
        with pytest.raises(InvalidOption, match=r"option tokenFile .* give it or token, not both"):
            SourceOptions.parse({**options, "tokenFile": "t", "token": "x"})

    def test_a_token_in_a_wrong_option_is_not_repeated(self, options: dict[str, str]) -> None:
        with pytest.raises(InvalidOption, match=r"option tokne .*slt_…") as raised:
            StrandlineSource({**options, "tokne": "slt_" + "x" * 43})
        assert "xxx" not in str(raised.value)

    def test_secrets_show_in_no_representation(self, options: dict[str, str]) -> None:
        kafka = {"log": "kafka", "kafka.bootstrap.servers": "broker:9092", "kafka.sasl.password": "secret"}
        settings = StrandlineSource({**options, **kafka, "token": "secret"})._settings
        assert settings.access.token == "secret"
        client = {"bootstrap.servers": "broker:9092", "sasl.password": "secret"}
        assert settings.place == KafkaTopic(options["stream"], client)
        assert "secret" not in repr(settings)
