"""How positions and times get from a query to the controller: files counted, groups followed, errands done."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable

from reader_client import ReaderGroup
from spark_integration import reports
from spark_integration.durations import duration_ms, time_ms, time_us
from spark_integration.errors import GroupTaken, InvalidOffset, InvalidOption
from spark_integration.listener import CYCLE_MS, epoch_ms, watermark_of
from spark_integration.mark_source import MarkOptions, MarkReader
from spark_integration.offsets import END_OF_TIME_MS, MarkOffset
from spark_integration.options import BACKLOG_THRESHOLD, StreamAccess
from spark_integration.positions import FilePositions, KafkaPositions
from spark_integration.reports import Attached, GroupFollower, PositionReporter, ReportSender, report
from spark_integration.rows import SCHEMA
from spark_integration.source import StrandlineSource
from spark_integration.window_calls import ControllerWindows
from strandline.client import calls
from strandline.client.group_calls import delete_group
from strandline.client.http import Seams
from strandline.core.segment import NewSegment
from strandline.errors import Fenced, StoreUnavailable, StreamRecreated
from strandline.names import check_name


def source(offset: object, description: str = "FileStreamSource[file:/in]") -> Any:
    return SimpleNamespace(endOffset=json.dumps(offset), description=description)


class TestFiles:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "sources" / "1"
        folder.mkdir(parents=True)
        return folder

    def batch(self, folder: Path, name: str, *files: str) -> None:
        lines = [json.dumps({"path": f"file:///in/{file}", "timestamp": 1, "batchId": 0}) for file in files]
        (folder / name).write_text("\n".join(["v1", *lines]))

    def test_a_position_ends_at_the_first_file_that_is_missing(self, folder: Path, tmp_path: Path) -> None:
        positions = FilePositions(tmp_path)
        self.batch(folder, "0", "a-0.json", "a-2.json", "b-x-000.csv.gz", "readme")
        assert positions(source({"logOffset": 0}), 1) == {"a": 1, "b-x": 1}
        self.batch(folder, "1", "a-1.json")
        assert positions(source({"logOffset": 1}), 1) == {"a": 3, "b-x": 1}
        assert positions(source({"logOffset": 1}), 1) == {"a": 3, "b-x": 1}

    def test_a_restart_begins_with_the_last_compaction(self, folder: Path, tmp_path: Path) -> None:
        self.batch(folder, "9.compact", *(f"a-{number}.json" for number in range(10)))
        self.batch(folder, "10", "a-10.json")
        assert FilePositions(tmp_path)(source({"logOffset": 10}), 1) == {"a": 11}
        (folder / "9.compact").unlink()
        with pytest.raises(InvalidOffset, match="check the path"):
            FilePositions(tmp_path)(source({"logOffset": 10}), 1)

    @pytest.mark.parametrize("name", ["0", "0.compact"])
    def test_a_new_checkpoint_in_the_same_folder_begins_anew(self, name: str, folder: Path, tmp_path: Path) -> None:
        positions = FilePositions(tmp_path)
        self.batch(folder, name, "a-0.json", "a-1.json", "a-2.json")
        assert positions(source({"logOffset": 0}), 1) == {"a": 3}
        (folder / name).rename(tmp_path / "earlier")
        self.batch(folder, name, "a-0.json")
        assert positions(source({"logOffset": 0}), 1) == {"a": 1}

    def test_each_source_of_a_query_is_followed_by_itself(self, folder: Path, tmp_path: Path) -> None:
        positions = FilePositions(tmp_path)
        self.batch(folder, "0", "a-0.json", "a-1.json")
        self.batch(folder, "1", "a-2.json")
        assert positions(source({"logOffset": 1}), 1) == {"a": 3}
        folder.with_name("2").mkdir()
        self.batch(folder.with_name("2"), "0", "a-0.json")
        assert positions(source({"logOffset": 0}), 2) == {"a": 1}
        assert positions(source({"logOffset": 1}), 1) == {"a": 3}

    def test_of_several_folders_the_streams_own_is_named(self, folder: Path, tmp_path: Path) -> None:
        self.batch(folder, "0", "a-0.json")
        for name in ("in", "/data/in", Path("data/in/")):
            positions = FilePositions(tmp_path, folder=name)
            assert positions(source({"logOffset": 0}, "FileStreamSource[file:/data/in]"), 1) == {"a": 1}
            assert positions(source({"logOffset": 0}, "FileStreamSource[file:/data/begin]"), 0) is None

    def test_a_folder_that_had_no_file_yet_is_at_its_beginning(self, tmp_path: Path) -> None:
        assert FilePositions(tmp_path)(source(None), 0) == {}
        assert FilePositions(tmp_path, folder="orders")(source(None), 0) is None

    def test_another_sources_offset_is_none_of_its_business(self, tmp_path: Path) -> None:
        for offset in ({"orders": {"0": 5}}, 7, None):
            assert FilePositions(tmp_path)(source(offset, "Kafka[orders]"), 0) is None
        assert KafkaPositions("orders")(source({"orders": {"0": 5}}), 0) == {"0": 5}
        assert KafkaPositions("orders")(source({"logOffset": 5}), 0) is None

    def test_what_remains_of_a_topic_is_what_spark_says_of_its_end(self) -> None:
        def remaining(read: object, end: object) -> int | None:
            progress: Any = SimpleNamespace(endOffset=json.dumps(read), latestOffset=json.dumps(end))
            return KafkaPositions("orders").remaining(progress)

        assert remaining({"orders": {"0": 5}}, {"orders": {"0": 8, "1": 4}}) == 7
        assert remaining({"orders": {"0": 5}}, None) is None
        assert remaining({"others": {"0": 5}}, {"others": {"0": 8}}) is None


class TestReporter:
    """What the listener makes of a progress report with several sources."""

    def handle_progress(
        self, stream: Any, *sources: tuple[str, dict[str, int]], others: Sequence[str] = ()
    ) -> dict[str, int]:
        """Reports two batches of a query, whose sources read other topics as well; returns where its group stands
        then."""
        access = StreamAccess(controller=stream.url, stream=stream.name)
        epoch = GroupFollower(ControllerWindows(access), "twice", stream.name).register({})
        marks = json.dumps(MarkOffset(group="twice", stream=stream.name, source="orders", epoch=epoch).to_json())
        read = [
            SimpleNamespace(
                description=name,
                startOffset=None,
                endOffset=json.dumps({"orders": at, **{each: {"0": 9} for each in others}}),
                latestOffset=None,
            )
            for name, at in sources
        ]
        reporter = PositionReporter()
        reporter.attach("orders", Attached(access, KafkaPositions("orders")))
        theirs = SimpleNamespace(description="marks", startOffset=None, endOffset=marks)
        progress: Any = SimpleNamespace(name="job", id="7", runId="8", sources=[*read, theirs])
        for _ in range(2):
            reporter.handle_progress(progress)
            assert reporter.settle(60)
        reporter.close()
        with ReaderGroup(stream.controller.connection, "twice") as group:
            return dict(group.get_time_window().streams[stream.name].position)

    def test_a_source_that_is_read_twice_stands_where_both_have_read(
        self, stream: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        one, other = ("Kafka[orders]", {"0": 5, "1": 2}), ("Kafka[orders]", {"0": 3, "1": 4, "2": 6})
        assert self.handle_progress(stream, one, other) == {"0": 3, "1": 2}
        assert not caplog.records

    def test_different_sources_of_one_stream_are_named_and_move_nothing(
        self, stream: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert self.handle_progress(stream, ("Kafka[orders]", {"0": 5}), ("Kafka[orders, bills]", {"0": 5})) == {}
        assert "query job: Kafka[orders, bills] and Kafka[orders] give positions of 'orders'" in caplog.text
        assert self.handle_progress(stream) == {}
        assert "query job: none of its sources gives positions of 'orders'" in caplog.text

    def test_other_topics_of_a_source_are_named_once_and_move_nothing(
        self, stream: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        read = ("Kafka[orders, bills, sales]", {"0": 5})
        assert self.handle_progress(stream, read, others=("sales", "bills")) == {}
        [line] = caplog.messages
        assert "query job: Kafka[orders, bills, sales] reads bills, sales as well, which stream" in line

    def test_partitions_that_the_marks_cover_and_nobody_reads_are_named_once(
        self, stream: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reports, "STANDS_S", 0.0)
        some, every = {"0": 5}, {"0": 5, "1": 0, "2": 0}
        stream.mark(500, {"0": 5})
        self.handle_progress(stream, ("Kafka[orders]", some))
        stream.mark(600, {"0": 7, "1": 4})
        self.handle_progress(stream, ("Kafka[orders]", every))  # it has not read them yet
        assert not caplog.records
        self.handle_progress(stream, ("Kafka[orders]", some))
        [line] = caplog.messages
        assert "cover partitions that it does not read (1): its watermark does not move" in line

    def report_one(self, reporter: PositionReporter, stream: Any, segment: str, update: Any = None) -> None:
        """Reports the first batch of a query of its own; `update` is called when its report is sent."""
        access = StreamAccess(controller=stream.url, stream=stream.name, wait_ms=300_000)
        epoch = GroupFollower(ControllerWindows(access), stream.name, stream.name).register({})
        backlog: Any = SimpleNamespace(update=update)
        reporter.attach(stream.name, Attached(access, KafkaPositions("orders"), backlog if update else None))
        offset = MarkOffset(group=stream.name, stream=stream.name, source=stream.name, epoch=epoch)
        ends = {"Kafka[orders]": {"orders": {segment: 5}}, "marks": offset.to_json()}
        sources = [
            SimpleNamespace(description=name, startOffset=None, endOffset=json.dumps(end), latestOffset=None)
            for name, end in ends.items()
        ]
        progress: Any = SimpleNamespace(name="job", id="7", runId="8", sources=sources)
        reporter.handle_progress(progress)

    def test_a_report_that_cannot_be_sent_holds_up_no_other_query(self, controller: Any) -> None:
        reporter, reported = PositionReporter(), threading.Event()
        for segment in ("unknown", "0"):
            self.report_one(reporter, controller.stream(), segment, lambda *_: reported.set())
        assert reported.wait(60)
        reporter.close()

    def test_the_reports_of_two_queries_wait_side_by_side(self, controller: Any) -> None:
        reporter, sending, go_on = PositionReporter(), threading.Event(), threading.Event()

        def hold(*_: object) -> None:
            sending.set()
            go_on.wait(60)

        self.report_one(reporter, controller.stream(), "0", hold)
        assert sending.wait(60)
        streams = [controller.stream(), controller.stream()]
        for stream in streams:
            self.report_one(reporter, stream, "0")
        go_on.set()
        assert reporter.settle(60)
        reporter.close()
        for stream in streams:
            with ReaderGroup(stream.controller.connection, stream.name) as group:
                assert group.get_time_window().streams[stream.name].position == {"0": 5}


class TestGroups:
    def group(self, stream: Any, name: str) -> Any:
        with ReaderGroup(stream.controller.connection, name) as group:
            return group.get_time_window().streams[stream.name]

    def follower(self, stream: Any, name: str) -> GroupFollower:
        return GroupFollower(
            ControllerWindows(StreamAccess(controller=stream.url, stream=stream.name)), name, stream.name
        )

    def test_the_query_that_registered_last_speaks_and_may_begin_further_back(self, stream: Any) -> None:
        first, second = self.follower(stream, "same"), self.follower(stream, "same")
        first.report({"0": 5, "1": 0})
        first.report({"0": 7, "1": 2})
        assert self.group(stream, "same").position == {"0": 7, "1": 2}
        second.report({"0": 3})
        assert self.group(stream, "same").position == {"0": 3}
        with pytest.raises(Fenced):
            first.report({"0": 8, "1": 2})

    def test_going_back_before_a_split_marks_nothing_as_read(self, stream: Any) -> None:
        follower = self.follower(stream, "split")
        stream.scale({"0": 8}, [NewSegment("3", 0.0, 1 / 6), NewSegment("4", 1 / 6, 1 / 3)])
        follower.report({"0": 8, "3": 2})
        assert self.group(stream, "split").position == {"3": 2}
        self.follower(stream, "split").report({"0": 4})
        assert self.group(stream, "split").position == {"0": 4}

    def test_the_source_reports_what_is_finished_and_subtracts_the_event_time_lag(
        self, stream: Any, event_log: Any
    ) -> None:
        options = {"controller": stream.url, "stream": stream.name, "path": str(event_log.path)}
        reader = StrandlineSource({**options, "group": "g", "maxEventTimeLag": "300 ms"}).streamReader(SCHEMA)
        event_log.append("0", range(4))
        stream.mark(1_000, {"0": 4})
        planned = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        assert planned["mark"] == 700
        assert self.group(stream, "g").position == {}
        assert reader.latestOffset(planned, ReadAllAvailable()) == planned
        assert self.group(stream, "g").position == {"0": 4}
        reader.stop()

    def test_a_sources_group_begins_with_its_threshold_and_follows_changes(self, stream: Any, event_log: Any) -> None:
        def reader(**more: str) -> Any:
            given = {"controller": stream.url, "stream": stream.name, "path": str(event_log.path), "group": "changed"}
            options = {**given, "maxRowsPerBatch": "3", "maxRowsPerBacklogBatch": "9", **more}
            return StrandlineSource(options).streamReader(SCHEMA)

        def batch(reader: Any, start: dict[str, Any]) -> tuple[dict[str, Any], bool]:
            end = reader.latestOffset(start, reader.getDefaultReadLimit())
            return end, end.get("backlog", False)

        event_log.append("0", range(100))
        stream.mark(1_000, {"0": 1})  # of the year 1970
        with ReaderGroup(stream.controller.connection, "changed") as group:
            first = reader()
            at, late = batch(first, first.initialOffset())
            assert (at["positions"], late, group.describe().backlog_threshold_ms) == ({"0": 3}, False, None)
            group.change(backlog_threshold_ms=5_000, reader_timeout_ms=1)  # while the query runs
            at, late = batch(first, at)
            assert (at["positions"], late) == ({"0": 12}, True)
            group.change(backlog_threshold_ms=None)
            at, late = batch(first, at)
            assert (at["positions"], late) == ({"0": 15}, False)
            first.stop()
            again = reader(**{BACKLOG_THRESHOLD: "1 hour"})  # started again, with another threshold
            at, late = batch(again, at)
            assert (at["positions"], late, group.describe().backlog_threshold_ms) == ({"0": 24}, True, 3_600_000)
            again.stop()

    def marks(self, stream: Any) -> MarkReader:
        access = StreamAccess(controller=stream.url, stream=stream.name)
        return MarkReader(MarkOptions(access=access, group=stream.name, source="orders"))

    def next_of(self, reader: MarkReader, start: dict[str, Any]) -> dict[str, Any]:
        _, end = reader.read(start)
        return end

    def handle_progress(
        self, stream: Any, marks: dict[str, Any], positions: dict[str, int], *, first: bool = False
    ) -> None:
        """Reports a batch, as the listener does."""
        windows = ControllerWindows(StreamAccess(controller=stream.url, stream=stream.name))
        report(windows, marks["group"], stream.name, marks["epoch"], positions, None if first else {})

    def test_a_new_checkpoint_starts_marks_again_an_old_one_continues(self, stream: Any) -> None:
        first = self.marks(stream)
        begun = self.next_of(first, first.initialOffset())
        assert (begun["run"], begun["mark"]) == (1, None)
        stream.mark(500, {"0": 5})
        self.handle_progress(stream, begun, {"0": 5}, first=True)
        told = self.next_of(first, begun)
        assert told["mark"] == 500
        stream.mark(600, {"0": 5})  # while no query runs
        assert self.next_of(self.marks(stream), told) == {**told, "run": 2, "epoch": begun["epoch"] + 1, "mark": 600}
        assert self.group(stream, stream.name).position == {"0": 5}
        again = self.marks(stream)
        assert self.next_of(again, self.next_of(again, again.initialOffset()))["mark"] is None
        with pytest.raises(InvalidOffset, match="take a new checkpoint"):
            self.next_of(self.marks(stream), {**told, "stream": "another"})
        with pytest.raises(InvalidOffset, match="is of the time key 'shipped', not ''"):
            self.next_of(self.marks(stream), {**told, "key": "shipped"})

    #   batches of run 1    |··· first ···|··· second ···|
    #   the group is at     0             5              9
    #   run 2 begins at                   5, also from a copy that was made after the first batch
    def test_a_run_begins_with_the_mark_at_the_end_of_the_last_runs_first_batch(self, stream: Any) -> None:
        first = self.marks(stream)
        begun = self.next_of(first, first.initialOffset())
        self.handle_progress(stream, begun, {"0": 5}, first=True)
        self.handle_progress(stream, begun, {"0": 9})
        stream.mark(500, {"0": 5})
        stream.mark(900, {"0": 9})
        second = self.marks(stream)
        again = self.next_of(second, begun)
        assert again["mark"] == 500
        self.handle_progress(stream, again, {"0": 7}, first=True)
        assert self.next_of(second, again) == again
        # A copy that has none of the last run's batches keeps its own mark until it is reported.
        restored = self.marks(stream)
        assert self.next_of(restored, {**begun, "mark": 200})["mark"] == 200

    def test_an_available_now_run_waits_for_the_report_of_its_last_batch(self, stream: Any) -> None:
        access = StreamAccess(controller=stream.url, stream=stream.name)
        reader = self.marks(stream)
        seams = Seams(sleep=lambda _: self.handle_progress(stream, begun, {"0": 5}))  # while the reader waits
        reader._windows = ControllerWindows(access, seams=seams)
        reader.prepareForTriggerAvailableNow()
        begun = self.next_of(reader, reader.initialOffset())
        stream.mark(500, {"0": 5})
        assert self.next_of(reader, begun)["mark"] == 500

    def test_a_group_that_was_created_again_says_nothing_of_an_older_checkpoint(self, stream: Any) -> None:
        first, other = self.marks(stream), self.marks(stream)
        begun = self.next_of(first, first.initialOffset())
        stream.run(delete_group(stream.name))
        taken = self.next_of(other, other.initialOffset())
        assert taken["epoch"] > begun["epoch"]
        self.handle_progress(stream, taken, {"0": 5}, first=True)
        stream.mark(500, {"0": 5})
        with pytest.raises(GroupTaken):
            first.read(begun)
        assert self.next_of(self.marks(stream), begun)["mark"] is None

    def test_a_checkpoint_of_an_earlier_stream_of_that_name_is_refused(self, stream: Any) -> None:
        first = self.marks(stream)
        stream.mark(500, {"0": 5})
        begun = self.next_of(first, first.initialOffset())
        self.handle_progress(stream, begun, {"0": 5}, first=True)
        told = self.next_of(first, begun)
        assert told["mark"] == 500
        stream.run(delete_group(stream.name))
        stream.run(calls.delete_stream(stream.name))
        stream.run(calls.create_stream(stream.name, 1))
        with pytest.raises(StreamRecreated, match="deleted and created again"):
            self.next_of(self.marks(stream), told)

    def test_a_query_ends_when_another_one_registers_with_its_group(self, stream: Any) -> None:
        first, copy = self.marks(stream), self.marks(stream)
        begun = self.next_of(first, first.initialOffset())
        stream.mark(500, {"0": 5})
        other = self.next_of(copy, begun)
        self.handle_progress(stream, other, {"0": 5}, first=True)
        with pytest.raises(GroupTaken, match=r"registration 1 .* has ended.* start this query again"):
            first.read(begun)
        assert self.next_of(copy, other)["mark"] == 500


class TestOutbox:
    def test_the_newest_report_of_each_subject_is_sent_despite_failures(self) -> None:
        outbox, done, gate, failures = ReportSender("test"), list[str](), threading.Event(), [1, 2]

        def send(text: str) -> None:
            gate.wait(60)
            if text == "newest" and failures:
                failures.pop()
                raise StoreUnavailable(reason="away")
            done.append(text)

        outbox.put("first", lambda: send("under way"))
        for text in ("old", "newer", "newest"):
            outbox.put("second", lambda text=text: send(text))  # type: ignore[misc]  # bound now
        gate.set()
        assert outbox.settle(60)
        assert sorted(done) == ["newest", "under way"]
        outbox.close()

    def test_a_refused_report_is_logged_and_delays_nothing(self, stream: Any, caplog: pytest.LogCaptureFixture) -> None:
        outbox, done = ReportSender("test"), list[str]()
        outbox.put("a", lambda: stream.run(calls.describe("nothing")))
        outbox.put("b", lambda: done.append("b"))
        assert outbox.settle(60)
        assert done == ["b"]
        assert [record.getMessage() for record in caplog.records if "refused" in record.getMessage()] != []
        outbox.close()


@given(
    st.integers(0, 10**9),
    st.sampled_from([("", 1), ("ms", 1), (" seconds", 1000), ("m", 60_000), (" Hours", 3_600_000)]),
)
def test_a_duration_is_a_number_and_a_unit(number: int, unit: tuple[str, int]) -> None:
    assert duration_ms("x", f"{number}{unit[0]}") == number * unit[1]


@pytest.mark.parametrize("text", ["", "-5", "5 weeks", "1.5 s", "soon", "9" * 20])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="option x "):
        duration_ms("x", text)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("0", 0),
        ("-1500", -1500),
        ("1970-01-01T00:00:01.250Z", 1250),
        ("1970-01-01 01:00:00+01:00", 0),
        ("1969-12-31T23:59:59.999", -1),
    ],
)
def test_a_time_is_milliseconds_or_a_moment(text: str, time: int) -> None:
    assert time_ms("x", text) == time


def test_a_time_between_two_milliseconds_goes_to_the_one_that_is_meant() -> None:
    moment = "1970-01-01T00:00:00.001500Z"
    assert (time_ms("x", moment), time_ms("x", moment, up=True), time_us("x", moment)) == (1, 2, 1_500)


@given(st.integers(-62_135_596_800_000, END_OF_TIME_MS))
def test_a_time_of_spark_is_understood_whatever_its_year(time: int) -> None:
    cycles = max(0, time // CYCLE_MS - 15)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time - cycles * CYCLE_MS)
    year = moment.year + 400 * cycles
    text = f"{'+' if year > 9999 else ''}{year:04}{moment.strftime('-%m-%dT%H:%M:%S')}.{moment.microsecond // 1000:03}Z"
    assert epoch_ms(text) == time


def test_only_the_end_of_a_stream_is_the_end_of_time() -> None:
    def watermark(text: str) -> int | None:
        progress: Any = SimpleNamespace(eventTime={"watermark": text})
        return watermark_of(progress)

    assert watermark("+287396-10-12T08:59:00.990Z") == watermark("+287396-10-12T08:59:00.991Z") == END_OF_TIME_MS
    assert watermark("+11000-01-01T00:00:00.000Z") == 284_959_296_000_000


@pytest.mark.parametrize(
    ("application", "begins"),
    [("Sales report, daily", "Sales-report-daily-"), ("sales", "sales-"), ("", "spark-"), ("…", "spark-")],
)
def test_the_group_of_an_attached_query_is_named_after_the_application(application: str, begins: str) -> None:
    options = {"controller": "http://127.0.0.1:1", "stream": "sales", "source": "sales-1", "application": application}

    first, second = (MarkReader(MarkOptions.parse(options)).initialOffset()["group"] for _ in range(2))

    assert first.startswith(begins) and check_name("group", first) and first != second
