"""Where reading begins and ends, without Spark around it: exact, or it says why not."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from spark_integration import read_range
from spark_integration.errors import NotYetComplete
from spark_integration.read_ranges import IncompleteMark
from spark_integration.rows import SCHEMA, SegmentRange
from spark_integration.source import StrandlineSource
from strandline.client import calls
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import NewSegment
from strandline.logs.errors import NotInLog


@pytest.fixture
def options(stream: Any, event_log: Any) -> dict[str, str]:
    return {"controller": stream.url, "stream": stream.name, "path": str(event_log.path)}


def note(stream: Any, time: int, cut: dict[str, int], newest: int | None, writer: str = "script") -> None:
    stream.run(
        calls.note(
            stream.name,
            Note(writer=writer, times={"": time}, position=cut, newest={} if newest is None else {"": newest}),
        )
    )


def ranges(options: dict[str, str], **more: object) -> list[Any]:
    given = {**options, **{name: str(value) for name, value in more.items()}}
    tasks: Any = StrandlineSource(given).reader(SCHEMA).partitions()
    return [each for task in tasks for each in task.ranges]


def test_between_two_times_the_start_is_exact_where_newest_is_noted(
    options: dict[str, str], stream: Any, event_log: Any, caplog: pytest.LogCaptureFixture
) -> None:
    event_log.append("0", [100, 180, 210, 290, 350])
    note(stream, 200, {"0": 2}, 180)
    note(stream, 300, {"0": 4}, 290)
    note(stream, 400, {"0": 5}, 350)
    # Nothing below the first mark is newer than 180, and everything older than 290 lies below the second.
    assert ranges(options, startingTime=190, endingTime=290) == [SegmentRange("0", 2, 4)]
    assert ranges(options, startingTime=180, endingTime=301) == [SegmentRange("0", 0, 5)]
    assert ranges(options, startingTime=300) == [SegmentRange("0", 4, 5)]
    assert caplog.records == []


def test_an_unknown_start_is_the_head_or_slack_and_logged(
    options: dict[str, str], stream: Any, event_log: Any, caplog: pytest.LogCaptureFixture
) -> None:
    event_log.append("0", range(100, 600, 100))
    for offset, time in enumerate((200, 300, 400), start=1):
        note(stream, time, {"0": offset}, None)
    with caplog.at_level(logging.WARNING):
        assert ranges(options, startingTime=390) == [SegmentRange("0", 0, 5)]
        assert ranges(options, startingTime=390, startingSlack=50) == [SegmentRange("0", 2, 5)]
        assert ranges(options, startingTime=390, startingSlack="1 hour") == [SegmentRange("0", 0, 5)]
    head, slack, _ = (record.getMessage() for record in caplog.records)
    assert "reading starts at the head" in head
    assert "noted 340, and misses events written more than 50 ms ahead of their note" in slack


@pytest.mark.parametrize("more", [{}, {"startingSlack": "1 hour"}])
def test_without_newest_a_range_that_retention_cut_is_refused_or_in_doubt(
    options: dict[str, str], stream: Any, event_log: Any, more: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    event_log.append("0", range(40))
    for time in (10, 20, 30, 40):
        note(stream, time, {"0": time}, None)
    event_log.log.truncate({"0": 30})
    for start in (5, 15, 25):
        source = StrandlineSource({**options, **more, "startingTime": str(start)}).reader(SCHEMA)
        with pytest.raises(NotInLog):
            list(source.read(source.partitions()[0]))
    caplog.clear()
    assert ranges(options, startingTime=32, **more) == [SegmentRange("0", 30, 40)]
    assert "retention may have removed events of that time" in caplog.text


def test_slack_counts_from_what_was_noted_not_from_the_marks_time(
    options: dict[str, str], stream: Any, event_log: Any
) -> None:
    """A writer that notes seldom contributes a note far ahead of the mark: what is below its cut may be that new."""
    event_log.append("0", range(100, 600, 100))
    stream.run(calls.register(stream.name, "slow"))
    note(stream, 500, {"0": 5}, None)
    stream.run(calls.note(stream.name, Note(writer="slow", times={"": 150}, position={})))  # mark 150, upper 500
    assert ranges(options, startingTime=390, startingSlack=50) == [SegmentRange("0", 0, 5)]


def test_slack_counts_from_noted_time_under_another_writers_cut(
    options: dict[str, str], stream: Any, event_log: Any
) -> None:
    """The event of 85 lies below the mark at 40, whose cut is b's, and a had noted 90 for it."""
    event_log.append("0", [10, 10, 50, 85, 40])
    for writer in ("a", "b"):
        stream.run(calls.register(stream.name, writer))
    for writer, time, offset in (("a", 10, 1), ("b", 10, 2), ("a", 50, 3), ("a", 90, 4), ("b", 40, 5)):
        note(stream, time, {"0": offset}, None, writer)
    assert ranges(options, startingTime=80, startingSlack=10) == [SegmentRange("0", 2, 5)]


def test_an_incomplete_end_time_is_refused_or_waited_for(options: dict[str, str], stream: Any, event_log: Any) -> None:
    event_log.append("0", [100, 250])
    stream.run(calls.register(stream.name, "late riser"[:4]))
    note(stream, 300, {"0": 2}, None)
    stream.run(calls.note(stream.name, Note(writer="late", times={"": 200}, position={})))
    with pytest.raises(NotYetComplete, match=r"not complete up to 250: its marks have reached 200, and late holds"):
        ranges(options, endingTime=250)
    with pytest.raises(NotYetComplete, match=r"this read waited \d{3} ms"):
        ranges(options, endingTime=250, endingWait="120 ms")
    assert ranges(options, endingTime=200) == [SegmentRange("0", 0, 2)]
    stream.seal(event_log.log.seal())
    assert ranges(options, endingTime=250) == [SegmentRange("0", 0, 2)]


def test_an_incomplete_mark_on_the_way_is_told(
    controller: Any, event_log: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stream = controller.stream(StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=0))
    event_log.append("0", [100, 250])
    stream.run(calls.note(stream.name, Note(writer="lost", times={"": 100}, position={"0": 1})))
    note(stream, 200, {"0": 1}, 100)
    note(stream, 300, {"0": 2}, 250)
    options = {"controller": stream.url, "stream": stream.name, "path": str(event_log.path)}
    found = read_range(**options, start=0, end=300)
    assert found.incomplete == tuple(IncompleteMark(time=time, excluded=("lost",)) for time in (200, 300))
    with caplog.at_level(logging.WARNING):
        ranges(options, endingTime=300)
    assert "2 of the marks in the range are incomplete, the first at 200: they exclude lost" in caplog.text


def test_a_cut_after_a_scaling_starts_and_ends_reads_exactly(
    options: dict[str, str], stream: Any, event_log: Any
) -> None:
    event_log.append("0", range(8))
    halves = [NewSegment("3", 0.0, 1 / 6), NewSegment("4", 1 / 6, 1 / 3)]
    stream.scale(event_log.log.scale(["0"], halves), halves)
    event_log.append("3", range(4))
    event_log.append("4", range(4))
    assert ranges(options, startingPositions='{"0": 6}', endingPositions='{"3": 1}') == [
        SegmentRange("0", 6, 8),
        SegmentRange("3", 0, 1),
    ]
    assert ranges(options, startingPositions='{"3": 3}') == [
        SegmentRange("3", 3, 4),
        SegmentRange("4", 0, 4),
    ]
    reader = StrandlineSource({**options, "startingPositions": '{"3": 3}'}).streamReader(SCHEMA)
    assert reader.initialOffset()["positions"] == {"0": 8, "3": 3}
    reader.stop()


def test_a_stream_read_starts_at_a_time_as_well(options: dict[str, str], stream: Any, event_log: Any) -> None:
    event_log.append("0", [100, 210])
    note(stream, 200, {"0": 1}, 100)
    reader = StrandlineSource({**options, "startingTime": "1970-01-01T00:00:00.150Z"}).streamReader(SCHEMA)
    assert reader.initialOffset()["positions"] == {"0": 1}
    reader.stop()
