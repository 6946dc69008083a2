"""Notes, what they cover, and what the controller answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from strandline.client import calls
from strandline.client.retry import ATTEMPTS_DEFAULT
from strandline.core.config import StreamConfig
from strandline.core.segment import NewSegment
from strandline.errors import (
    BeyondFinalOffset,
    InvalidName,
    InvalidNote,
    OutcomeUnknown,
    PositionWentBack,
    StrandlineError,
    TimeTooFarAhead,
    TimeWentBack,
    UnknownSegment,
)
from tests.writer_client.clocks import wait_until_answered
from writer_client import Event, NoLog

MOMENT_MS = 1_700_000_000_000
MOMENT = datetime.fromtimestamp(MOMENT_MS / 1_000, UTC)


def test_a_note_is_answered_with_the_mark_that_it_brought(controller: Any, make_writer: Any, wire: Any) -> None:
    stream = controller.stream()
    writer = make_writer(stream, wire=wire)  # which registers before its first note
    answer = writer.note_time(100, {"0": 5, "1": 7}, newest=180)
    (mark,) = answer.marks
    assert (mark.time, mark.cut, mark.newest, mark.seq) == (100, {"0": 5, "1": 7}, 180, 1)
    assert (answer.late, answer.floor, dict(answer.held_by)) == (False, None, {})
    assert controller.marks(stream) == (mark,)
    writer.note_time(101, {"0": 6})
    assert wire.lines == ["PUT writers/w1", "POST notes", "POST notes"]
    assert [request.body["epoch"] for request in wire.requests[1:]] == [1, 1]


REFUSALS: list[tuple[Any, dict[str, int], type[StrandlineError], dict[str, Any] | None]] = [
    (99, {}, TimeWentBack, {"writer": "w1", "key": "", "time": 99, "stored_time": 100}),
    (101, {"0": 4}, PositionWentBack, {"writer": "w1", "segment": "0", "offset": 4, "stored_offset": 5}),
    (100, {"9": 4}, UnknownSegment, {"segment": "9", "known": ("0", "1", "2", "3")}),
    (100, {"1": 401}, BeyondFinalOffset, {"segment": "1", "offset": 401, "final_offset": 400}),
    (2**52, {}, TimeTooFarAhead, None),
    (1.5, {}, InvalidNote, None),
    (None, {}, InvalidNote, None),
    (100, {"a/b": 1}, InvalidName, {"what": "segment", "name": "a/b"}),
]


def test_a_refusal_is_the_typed_error_and_changes_nothing(controller: Any, make_writer: Any) -> None:
    stream = controller.stream(config=StreamConfig(mark_interval_ms=0))
    controller.run(calls.scale(stream, {"1": 400}, [NewSegment("3", 1 / 3, 2 / 3)]))
    with make_writer(stream) as writer:
        writer.note_time(100, {"0": 5})
        for time, position, error, values in REFUSALS:
            with pytest.raises(error) as raised:
                writer.note_time(time, position)
            assert values is None or raised.value.values == values
        (mark,) = writer.note_time(101, {"0": 6}).marks
        assert mark.cut == {"0": 6}
    assert len(controller.marks(stream)) == 2


def test_times_may_be_datetimes(controller: Any, make_any: Any, late_log: Any) -> None:
    stream = controller.stream()
    with make_any(stream, log=late_log) as writer:
        writer.write([Event(b"x", segment="0")], newest=MOMENT - timedelta(microseconds=1_500))
        writer.note_time(MOMENT + timedelta(microseconds=900))
        writer.note_time({"ship": MOMENT})
        wait_until_answered(writer)
    assert [(mark.time, mark.newest) for mark in controller.marks(stream)] == [(MOMENT_MS, MOMENT_MS - 1)]
    assert [mark.time for mark in controller.marks(stream, "ship")] == [MOMENT_MS]


# -- positions, of a log and without one ---------------------------------------------------------------------------


def test_without_a_log_positions_must_be_given(controller: Any, make_writer: Any) -> None:
    stream = controller.stream()
    writer = make_writer(stream, keys=["", "ship_time"])
    with pytest.raises(NoLog):
        writer.note_time(100)
    with pytest.raises(NoLog, match=r"which write\(\) needs: create the writer with log="):
        writer.write([Event(b"x", segment="0")])
    writer.note_time({"": 100, "ship_time": 90}, {"0": 1})
    writer.close({"0": 3})
    with make_writer(stream, "w2") as other:
        assert other.note_time(200, {}).marks[-1].cut == {"0": 3}


def test_a_note_covers_earlier_writes_once_they_are_acknowledged_and_closing_notes_what_came_after_it(
    controller: Any, make_writer: Any, wire: Any, late_log: Any
) -> None:
    stream = controller.stream()
    with make_writer(stream, log=late_log, wire=wire, leaving="close") as writer:
        assert writer.write([Event(b"a", segment="0"), Event(b"b", segment="1")]) == {}
        (mark,) = writer.note_time(100).marks
        assert mark.cut == {"0": 1, "1": 1}
        assert wire.happened == ["PUT writers/w1", "append", "flush", "POST notes"]
        writer.write([Event(b"c", segment="2")])
    end = {"0": 1, "1": 1, "2": 1}
    assert wire.lines[2:] == ["POST notes", "DELETE writers/w1?epoch=1"]
    assert wire.requests[-2].body == {"writer": "w1", "time": 100, "position": end, "epoch": 1}
    with make_writer(stream, "w2", log=late_log, wire=wire, leaving="close") as other:
        (mark,) = other.note_time(200).marks
    assert (mark.cut, mark.complete) == (end, True)
    assert wire.lines[4:] == ["PUT writers/w2", "POST notes", "DELETE writers/w2?epoch=2"]  # nothing came after it


def test_a_failed_write_holds_closing_back(controller: Any, make_writer: Any, wire: Any, late_log: Any) -> None:
    stream = controller.stream()
    writer = make_writer(stream, log=late_log, wire=wire)
    with pytest.raises(ConnectionError), writer:
        writer.write([Event(b"a", segment="0")])
        writer.note_time(100)
        writer.write([Event(b"b", segment="0")])
        late_log.failure = ConnectionError("the log is gone")
    assert controller.states(stream) == {"active": 1}


def test_a_writer_that_may_have_noted_leaves_with_that_time(
    controller: Any, make_writer: Any, late_log: Any, wire: Any
) -> None:
    stream = controller.stream()
    writer = make_writer(stream, wire=wire, log=late_log)
    writer.note_time(100)
    wire.faults = ["lost"] * ATTEMPTS_DEFAULT
    with pytest.raises(OutcomeUnknown):
        writer.note_time(200)
    writer.write([Event(b"a", segment="0")])
    writer.close()  # which notes where the log ends, and no time below what is stored
    assert [(mark.time, mark.cut) for mark in controller.marks(stream)] == [(100, {}), (200, {})]
    assert controller.states(stream) == {"closed": 1}
