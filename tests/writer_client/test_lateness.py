"""A writer whose events are late hears it at once: in its log, from its callback and in its status."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from time import time_ns
from typing import Any

import pytest

from strandline.client import calls
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from strandline.core.time_units import text_of
from strandline.errors import TimeTooFarAhead
from strandline.logs.sqlite import SqliteLog
from strandline.paced_log import OF_THE_PROCESS, WARNING_LINES, WARNINGS_PAUSE_MS, PacedLog, Room
from writer_client import Event, EventsLate, NoteLate, RegisteredLate
from writer_client.lateness import span


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    """The warnings of writers so far: `lines()`."""
    caplog.set_level(logging.WARNING, "writer_client")
    OF_THE_PROCESS.refill()
    return lambda: [record.getMessage() for record in caplog.records if record.name == "writer_client"]


def other_notes(controller: Any, stream: str, time: int) -> None:
    controller.run(calls.note(stream, Note(writer="other", times={"": time}, position={"1": 5})))


def test_a_job_that_closed_and_comes_back_is_told_what_it_has_missed(
    controller: Any, make_any: Any, lines: Any
) -> None:
    stream = controller.stream()
    with make_any(stream, "hourly", leaving="close") as job:
        job.note_time(100, {"0": 1})
    other_notes(controller, stream, 1_900_100)
    assert lines() == []
    job = make_any(stream, "hourly")
    job.register()
    job.note_time(2_000_000, {"0": 2})
    (line,) = lines()
    assert line.startswith(f"writer 'hourly' of stream {stream!r} is back, and time has gone on without it: ")
    assert "from its last note 1970-01-01T00:00:00.100Z to 1970-01-01T00:31:40.100Z, by 31 min 40 s" in line


def test_a_writer_whose_time_is_ahead_of_the_clock_is_told_once(controller: Any, make_any: Any, lines: Any) -> None:
    stream = controller.stream()
    in_two_hours = time_ns() // 1_000_000 + 7_200_000
    with make_any(stream, "sensor") as sensor:
        sensor.note_time(in_two_hours - 7_200_000, {"0": 1})
        assert lines() == []
        sensor.note_time(in_two_hours, {"0": 2})
        sensor.note_time(in_two_hours + 1, {"0": 3})
    (line,) = lines()
    assert line.startswith(f"writer 'sensor' of stream {stream!r} has noted {text_of(in_two_hours)}, ")
    assert "ahead of the controller's clock: the clock that it is from may be wrong" in line


def test_a_writer_whose_notes_are_refused_as_too_far_ahead_is_told_once(
    controller: Any, make_any: Any, lines: Any
) -> None:
    stream = controller.stream(config=StreamConfig(mark_interval_ms=0))
    now = time_ns() // 1_000_000_000 * 1_000
    with suppress(TimeTooFarAhead), make_any(stream, "sensor") as sensor:  # one in the background raises at its end
        sensor.note_time(now, {"0": 1})
        for number in range(3):
            with suppress(TimeTooFarAhead):
                sensor.note_time(now + 7_200_000 + number, {"0": 2})
    (line,) = lines()
    assert line.startswith(
        f"notes of writer 'sensor' of stream {stream!r} are refused: {text_of(now + 7_200_000)[:-5]}"
    )
    assert "ahead of the controller's clock, beyond the stream's max_ahead_ms of 300000" in line


def test_a_job_that_stayed_is_told_nothing(controller: Any, make_any: Any, lines: Any) -> None:
    stream = controller.stream()
    other_notes(controller, stream, 50)
    for time in (100, 200):
        with make_any(stream, "hourly") as job:
            job.note_time(time, {"0": time})
        other_notes(controller, stream, 500 + time)
    assert lines() == []


def test_a_write_and_a_note_below_the_floor_are_told_with_both_times_when_they_happen(
    controller: Any, make_any: Any, late_log: Any, lines: Any
) -> None:
    stream = controller.stream()
    other_notes(controller, stream, 5_000)
    writer = make_any(stream, "old", log=late_log)
    writer.write([Event(b"a", segment="0")], newest=6_000)
    assert lines() == []
    writer.write([Event(b"b", segment="0"), Event(b"c", segment="0")], newest=2_500)
    (line,) = lines()
    old = f"writer 'old' of stream {stream!r} "
    assert (
        old
        + "has written 2 late events: the newest is of 1970-01-01T00:00:02.500Z, 2.5 s below 1970-01-01T00:00:05.000Z"
        in line
    )
    writer.note_time(200)
    getattr(writer, "wait_until_answered", bool)()
    assert (
        old + "is late: it noted 1970-01-01T00:00:00.200Z, 4.8 s below the time of the marks, 1970-01-01T00:00:05.000Z"
        in lines()[-1]
    )
    assert len(lines()) == 2
    status = writer.status()
    assert (status.late_events, status.late, dict(status.floors)) == (2, True, {"": 5_000})


def test_a_write_older_than_the_writers_own_note_is_told(
    controller: Any, make_any: Any, late_log: Any, lines: Any
) -> None:
    writer = make_any(controller.stream(), log=late_log)
    writer.write([Event(b"a", segment="0")], newest=900)
    writer.note_time(1_000)
    writer.write([Event(b"b", segment="0")], newest=999)
    assert [
        "has written 1 late event: the newest is of 1970-01-01T00:00:00.999Z, 1 ms below" in line for line in lines()
    ] == [True]


def test_a_transaction_of_late_events_is_told_with_its_commit(
    controller: Any, make_any: Any, tmp_path: Path, lines: Any
) -> None:
    stream = controller.stream()
    other_notes(controller, stream, 5_000)
    writer = make_any(stream, "old", log=SqliteLog.create(tmp_path / "log", 3))
    with writer.begin() as transaction:
        transaction.write([Event(b"a", segment="0")], newest=1_000)
        assert lines() == []
        transaction.commit()
    assert ["4.0 s below 1970" in line for line in lines()] == [True]


def test_the_callback_gets_what_the_log_has(controller: Any, make_background: Any, late_log: Any) -> None:
    stream, reports = controller.stream(), list[Any]()
    with make_background(stream, "hourly", leaving="close") as job:
        job.note_time(100, {"0": 1})
    other_notes(controller, stream, 500)
    writer = make_background(stream, "hourly", log=late_log, on_report=reports.append)
    writer.write([Event(b"a", segment="0")], newest=300)
    writer.note_time(400)
    assert writer.wait_until_answered()
    assert reports == [
        RegisteredLate({"": 100}, {"": 500}),
        EventsLate(1, {"": 300}, {"": 500}),
        NoteLate({"": 400}, True, {"": 500}),
    ]


def test_a_registration_says_what_an_earlier_process_noted_even_if_it_closed() -> None:
    stream = Stream("s", StreamConfig(mark_interval_ms=0), SegmentGraph.equal_shares(1, created_at=0), now=0)
    assert stream.register("w", None, now=0, registration="a").noted == {}
    stream.note(Note(writer="w", times={"": 100}, position={"0": 1}, epoch=1), 1)
    assert stream.register("w", None, now=2).noted == {"": 100}
    stream.close("w", 2, 3)
    first = stream.register("w", None, now=4, registration="b")
    assert (first.noted, stream.register("w", None, now=5, registration="b")) == ({"": 100}, first)


def test_warnings_of_one_kind_come_once_a_minute_and_are_counted(lines: Any) -> None:
    now = 0.0
    log = PacedLog("writer_client", lambda: now, Room())
    for number in range(5):
        log.warn("a", f"a{number}")
    log.warn("b", "b")
    now = WARNINGS_PAUSE_MS / 1000
    log.warn("a", "a5")
    assert lines() == ["a0", "b", "a5 (4 more such warnings were left out)"]


def test_ten_thousand_late_writers_are_told_in_few_lines(lines: Any) -> None:
    now, room = 0.0, Room()
    logs = [PacedLog("writer_client", lambda: now, room) for _ in range(10_000)]
    for each in logs:
        each.warn("a", "late")
    assert len(lines()) == WARNING_LINES
    now = WARNINGS_PAUSE_MS / 1000 / WARNING_LINES
    logs[-1].warn("a", "late")
    assert lines()[WARNING_LINES:] == ["late (1 more such warnings were left out)"]


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [(999, "999 ms"), (1_500, "1.5 s"), (60_000, "1 min 0 s"), (3_599_000, "59 min 59 s"), (90_000_000, "25 h 0 min")],
)
def test_a_length_of_time_is_told_in_two_units(span_ms: int, text: str) -> None:
    assert span(span_ms) == text


def test_a_writer_that_notes_seconds_is_warned_once(controller: Any, make_any: Any, lines: Any) -> None:
    with make_any(controller.stream(), "w1") as writer:
        for second in range(3):
            writer.note_time(1_700_000_000 + second, {"0": 1})
    (line,) = [line for line in lines() if "looks like" in line]
    assert line.startswith("writer 'w1' of stream ") and "has noted 170000000" in line
    assert line.endswith("seconds: times that are dates have to be in milliseconds, as int(time.time() * 1000)")
