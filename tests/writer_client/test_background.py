"""Notes that are made in the background: what becomes of them, and who hears of it."""

from __future__ import annotations

import logging
import queue
from collections.abc import Iterator
from logging.handlers import QueueHandler
from pathlib import Path
from typing import Any

import pytest

from strandline.core.config import StreamConfig
from strandline.core.segment import NewSegment
from strandline.errors import (
    ControllerAway,
    Fenced,
    InvalidNote,
    PositionWentBack,
    TimeTooFarAhead,
    TimeWentBack,
    UnknownSegment,
)
from strandline.logs.sqlite import SqliteLog
from strandline.paced_log import OF_THE_PROCESS
from strandline.testing import Acknowledge, ScriptedLog
from writer_client import (
    Background,
    BackgroundWriter,
    Event,
    NoLog,
    NoteLate,
    NoteRefused,
    NotesMoving,
    NotesStuck,
    WriterClosed,
)
from writer_client.scale import scale_log

AWAY = ["away"] * 20_000  # for as long as a test likes
REFUSING = StreamConfig(mark_interval_ms=0)  # times too far ahead are refused


def to(segment: str, *values: bytes) -> list[Event]:
    return [Event(value, segment=segment) for value in values]


@pytest.fixture
def lines() -> Iterator[queue.Queue[logging.LogRecord]]:
    """What writers log."""
    found: queue.Queue[logging.LogRecord] = queue.Queue()
    handler = QueueHandler(found)
    OF_THE_PROCESS.refill()
    logging.getLogger("writer_client").addHandler(handler)
    yield found
    logging.getLogger("writer_client").removeHandler(handler)


@pytest.fixture
def reports() -> queue.Queue[Any]:
    """What a writer told its callback: `reports.get(timeout=30)` waits for the next."""
    return queue.Queue()


# -- on its way ------------------------------------------------------------------------------------------------


def test_a_note_arrives_without_anyone_waiting_for_it(controller: Any, make_background: Any, late_log: Any) -> None:
    stream = controller.stream()
    with make_background(stream, log=late_log) as writer:
        writer.write(to("0", b"a") + to("1", b"b"), newest=160)
        writer.note_time(100)
        assert writer.wait_until_answered()
        (mark,) = controller.marks(stream)
        assert (mark.time, mark.cut, mark.newest) == (100, {"0": 1, "1": 1}, 160)
        assert dict(writer.status().noted) == {"": 100}
    assert controller.states(stream) == {"active": 1}


def test_an_absent_controller_stops_no_notes_and_hears_them_later(
    controller: Any, make_background: Any, wire: Any, reports: Any, lines: queue.Queue[logging.LogRecord]
) -> None:
    stream = controller.stream()
    with make_background(stream, wire=wire, on_report=reports.put) as writer:
        writer.note_time(100, {"0": 1})
        assert writer.wait_until_answered()
        wire.faults = list(AWAY)
        writer.note_time(200, {"0": 2})
        stuck = reports.get(timeout=30)
        assert isinstance(stuck, NotesStuck) and isinstance(stuck.error, ControllerAway)
        for number in range(3, 200):
            writer.note_time(number * 100, {"0": number})
        assert 1 < writer.status().waiting <= 128
        assert "waits, and tries again" in lines.get(timeout=30).getMessage()
        wire.faults = []
        assert writer.wait_until_answered()
        assert isinstance(reports.get(timeout=30), NotesMoving)
        assert writer.status().stuck is None
        assert " are answered again after " in lines.get(timeout=30).getMessage()
    marks = controller.marks(stream)
    assert (marks[-1].time, marks[-1].cut) == (19_900, {"0": 199})
    assert len(marks) > 10  # older ones came along, and made marks with cuts of their own
    assert all(mark.cut["0"] * 100 >= mark.time for mark in marks)


# -- failed writes ---------------------------------------------------------------------------------------------


def test_a_failed_write_holds_notes_back_and_says_so(
    controller: Any, make_background: Any, late_log: Any, wire: Any, reports: Any
) -> None:
    stream = controller.stream()
    with make_background(stream, log=late_log, wire=wire, on_report=reports.put) as writer:
        writer.write(to("0", b"a"), newest=90)
        late_log.failure = ConnectionError("the log is gone")
        writer.note_time(100)
        stuck = reports.get(timeout=30)
        assert isinstance(stuck, NotesStuck) and stuck.failed_write
        late_log.failure = None
        writer.note_time(200)
        status = writer.status()
        assert (str(status.stuck), status.failed_write, status.waiting) == ("the log is gone", True, 1)
        with pytest.raises(ConnectionError):
            writer.close()
        assert "POST notes" not in wire.lines
        writer.write(to("0", b"a"), newest=90)
        writer.resume()
        assert writer.wait_until_answered()
        (mark,) = controller.marks(stream)
    assert (mark.time, mark.cut, mark.newest) == (200, {"0": 2}, None)  # the log may have what failed


def test_a_failed_write_also_holds_earlier_notes_back(
    controller: Any, make_background: Any, late_log: Any, reports: Any
) -> None:
    """A log may tell of an earlier append that failed when the next one is made."""
    stream = controller.stream()
    with make_background(stream, log=late_log, on_report=reports.put) as writer:
        late_log.acknowledges.clear()
        writer.write(to("0", b"a"))
        writer.note_time(100)
        assert late_log.flushes.wait(30)
        writer.note_time(200)  # waits for the next flush
        late_log.refusal = ConnectionError("an append has failed")
        with pytest.raises(ConnectionError):
            writer.write(to("0", b"b"))
        late_log.refusal = None
        assert reports.get(timeout=30).failed_write
        late_log.acknowledges.set()
        with pytest.raises(ConnectionError):
            writer.close()
        assert controller.marks(stream) == ()
        writer.resume()
    assert controller.marks(stream)[-1].time == 200


# -- refusals --------------------------------------------------------------------------------------------------


def test_a_refusal_reaches_the_callback_and_the_status(controller: Any, make_background: Any, reports: Any) -> None:
    with make_background(controller.stream(config=REFUSING), on_report=reports.put) as writer:
        writer.note_time(2**52, {"0": 1})
        refused = reports.get(timeout=30)
        assert isinstance(refused, NoteRefused) and isinstance(refused.error, TimeTooFarAhead)
        assert refused.times == {"": 2**52}
        assert (writer.status().refused, writer.status().refusals) == (refused.error, 1)
        writer.note_time(100, {"0": 1})  # what was refused does not bind what is noted next
        assert writer.wait_until_answered()
        assert (writer.status().refused, writer.status().refusals) == (None, 1)


def test_without_a_callback_a_refusal_is_raised_by_the_next_call(controller: Any, make_background: Any) -> None:
    with make_background(controller.stream(config=REFUSING)) as writer:
        writer.note_time(2**52, {"0": 1})
        assert writer.wait_until_answered()
        with pytest.raises(TimeTooFarAhead):
            writer.note_time(100, {"0": 1})
        writer.note_time(100, {"0": 1})


def test_a_fenced_writer_notes_and_appends_nothing_more(
    controller: Any, make_background: Any, make_writer: Any, late_log: Any, reports: Any
) -> None:
    stream = controller.stream()
    old = make_background(stream, log=late_log, on_report=reports.put)
    old.write(to("0", b"a"))
    make_writer(stream).register()
    old.note_time(100)
    assert isinstance(reports.get(timeout=30).error, Fenced)
    before = late_log.end_offsets()
    for use in (lambda: old.note_time(200), lambda: old.write(to("0", b"b")), old.close):
        with pytest.raises(Fenced):
            use()
    assert late_log.end_offsets() == before


def test_what_can_be_seen_to_be_wrong_is_raised_at_once(controller: Any, make_background: Any) -> None:
    with make_background(controller.stream()) as writer:
        writer.note_time(100, {"0": 1})
        for time, position, error in (
            (99, {"0": 1}, TimeWentBack),
            (1.5, {"0": 1}, InvalidNote),
            ({}, {"0": 1}, InvalidNote),
            (None, {"0": 1}, InvalidNote),
            ({"": None}, {"0": 1}, InvalidNote),
            (101, {"0": 0}, PositionWentBack),
            (101, {"0": -1}, InvalidNote),
            (101, None, NoLog),
        ):
            with pytest.raises(error):
                writer.note_time(time, position)
    with pytest.raises(WriterClosed):
        writer.note_time(101, {"0": 1})


def test_a_closed_background_takes_no_notes_and_no_writers(controller: Any) -> None:
    stream = controller.stream()
    with Background(controller.url) as background:
        writer = BackgroundWriter(background, stream, "w1")
    with pytest.raises(RuntimeError, match="the background is closed"):
        writer.note_time(100, {"0": 1})
    assert writer.status().waiting == 0
    with pytest.raises(RuntimeError, match="the background is closed"), writer:
        pass
    with pytest.raises(RuntimeError, match="the background is closed"):
        BackgroundWriter(background, stream, "w2")


def test_a_timed_out_writer_nobody_overtook_has_no_late_note(
    controller: Any, make_background: Any, make_writer: Any, reports: Any
) -> None:
    #  w1      100   200              400      w1 is let go after each note: nobody may hold time here
    #  quick               300   301
    #  floor         100              301      it had passed 100 itself, and what it wrote below 301 is late
    stream = controller.stream(config=StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=0))
    with make_background(stream, on_report=reports.put) as writer, make_writer(stream, "quick") as quick:
        for time in (100, 200):
            writer.note_time(time, {"0": time})
            assert writer.wait_until_answered()
            assert writer.status().floors == {}
        assert reports.empty()
        assert quick.note_time(300, {"1": 1}).floor == 200
        quick.note_time(301, {"1": 1})
        writer.note_time(400, {"0": 400})
        assert reports.get(timeout=30) == NoteLate({"": 400}, False, {"": 301})


def test_a_callback_that_fails_keeps_no_note_from_going_out(
    controller: Any, make_background: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stream = controller.stream(config=REFUSING)

    def fail(report: object) -> None:
        raise ZeroDivisionError

    with make_background(stream, on_report=fail) as writer:
        writer.note_time(2**52, {"0": 1})
        assert writer.wait_until_answered()
        writer.note_time(100, {"0": 1})
        assert writer.wait_until_answered()
    assert "on_report of writer 'w1' failed" in caplog.text
    assert [mark.time for mark in controller.marks(stream)] == [100]


# -- lives -----------------------------------------------------------------------------------------------------


def test_a_writer_that_cannot_be_closed_says_what_its_notes_wait_for(
    controller: Any, make_background: Any, wire: Any, reports: Any
) -> None:
    writer = make_background(controller.stream(), wire=wire, on_report=reports.put)
    writer.register()
    wire.faults = list(AWAY)
    writer.note_time(100, {"0": 1})
    assert isinstance(reports.get(timeout=30), NotesStuck)
    with pytest.raises(ControllerAway):
        writer.close(timeout_ms=50)
    wire.faults = []
    writer.close()


def test_a_commit_is_noted_after_what_was_noted_before_it(controller: Any, make_background: Any, reports: Any) -> None:
    stream = controller.stream(1)
    log = ScriptedLog(1).writer(Acknowledge.BY_HAND)
    with make_background(stream, log=log, on_report=reports.put) as writer:
        writer.write(to("0", b"a"))
        writer.note_time(100)
        log.wait_for_flush()
        with writer.begin() as transaction:
            transaction.write(to("0", b"b"))
            transaction.commit(200)
        log.acknowledge()
        assert writer.wait_until_answered()
    assert reports.empty()
    assert controller.marks(stream)[-1].time == 200
    assert controller.marks(stream)[-1].cut == {"0": 2}


def test_a_commit_is_not_noted_while_a_write_that_failed_is_open(controller: Any, make_background: Any) -> None:
    """What failed is older, maybe, and comes again behind the commit."""
    stream = controller.stream(1)
    log = ScriptedLog(1).writer()
    with make_background(stream, log=log) as writer:
        log.refuse(ConnectionError("an append has failed"))
        with pytest.raises(ConnectionError):
            writer.write(to("0", b"a"))
        with writer.begin() as transaction:
            transaction.write(to("0", b"b"))
            transaction.commit(200)
        assert not writer.wait_until_answered(50)
        writer.write(to("0", b"a"))
        writer.resume()
        assert writer.wait_until_answered()
    assert [(mark.time, mark.cut) for mark in controller.marks(stream)] == [(200, {"0": 2})]


def test_a_position_that_is_given_overtakes_what_still_waits_for_the_log(
    controller: Any, make_background: Any, reports: Any
) -> None:
    stream = controller.stream(1)
    log = ScriptedLog(1).writer(Acknowledge.BY_HAND)
    with make_background(stream, log=log, on_report=reports.put) as writer:
        writer.write(to("0", b"a"))
        writer.note_time(100)
        log.wait_for_flush()
        writer.note_time(150)
        writer.note_time(200, {"0": 1})
        log.acknowledge()
        assert writer.wait_until_answered()
        assert writer.status().noted == {"": 200}
    assert reports.empty()
    assert [mark.time for mark in controller.marks(stream)] == [200]


# -- scaling ---------------------------------------------------------------------------------------------------


def test_a_writer_goes_on_by_key_over_a_split_and_a_merge(
    controller: Any, make_background: Any, tmp_path: Path
) -> None:
    stream = controller.stream(2)
    keys = [b"key-%d" % number for number in range(20)]
    with (
        SqliteLog.create(tmp_path / "log.db", 2) as log,
        SqliteLog(tmp_path / "log.db") as operator,
        make_background(stream, log=log) as writer,
    ):
        writer.write(Event(b"x", key=key) for key in keys)
        writer.note_time(100)
        halves = [NewSegment("2", 0.0, 0.25), NewSegment("3", 0.25, 0.5)]
        finals = scale_log(controller.connection, stream, operator, ["0"], halves)
        assert finals == scale_log(controller.connection, stream, operator, ["0"], halves)
        writer.write(Event(b"x", key=key) for key in keys)
        writer.note_time(200)
        finals |= scale_log(controller.connection, stream, operator, ["3", "1"], [NewSegment("4", 0.25, 1.0)])
        writer.write(Event(b"x", key=key) for key in keys)
        writer.note_time(300)
        assert writer.wait_until_answered()
        last = controller.marks(stream)[-1]
        ends = operator.end_offsets()
    assert last.time == 300
    assert last.cut == {segment: ends[segment] for segment in ("2", "4")}
    assert sum(ends.values()) == 60
    assert finals == {segment: ends[segment] for segment in ("0", "1", "3")}


def test_a_note_in_an_unknown_segment_waits_until_known(
    controller: Any, make_background: Any, tmp_path: Path, reports: Any
) -> None:
    stream = controller.stream(1)
    successors = [NewSegment("1", 0.0, 0.5), NewSegment("2", 0.5, 1.0)]
    with (
        SqliteLog.create(tmp_path / "log.db", 1) as log,
        make_background(stream, log=log, on_report=reports.put) as writer,
    ):
        log.scale(["0"], successors)
        writer.write([Event(b"x", key=b"k")])
        writer.note_time(100)
        assert isinstance(reports.get(timeout=30).error, UnknownSegment)
        writer.note_time(200)
        scale_log(controller.connection, stream, log, ["0"], successors)
        assert writer.wait_until_answered()
        assert isinstance(reports.get(timeout=30), NotesMoving)
        assert writer.status().refusals == 0
    assert controller.marks(stream)[-1].time == 200
