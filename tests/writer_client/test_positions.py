"""Notes of a writer that is bound to a log: they cover what was written, and no less."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.client.retry import ATTEMPTS_DEFAULT
from strandline.errors import OutcomeUnknown
from writer_client import Event, NoLog


def test_without_a_log_a_position_must_be_given(controller: Any, make_writer: Any) -> None:
    with make_writer(controller.stream()) as writer:
        with pytest.raises(NoLog):
            writer.note_time(100)
        with pytest.raises(NoLog, match=r"which write\(\) needs: create the writer with log="):
            writer.write([Event(b"x", segment="0")])
        writer.note_time(100, {})


def test_a_note_covers_earlier_writes_and_waits_for_their_acknowledgement(
    controller: Any, make_writer: Any, wire: Any, late_log: Any
) -> None:
    with make_writer(controller.stream(), log=late_log, wire=wire) as writer:
        assert writer.write([Event(b"a", segment="0"), Event(b"b", segment="1")]) == {}
        (mark,) = writer.note_time(100).marks
        assert mark.cut == {"0": 1, "1": 1}
    assert wire.happened[:4] == ["PUT writers/w1", "append", "flush", "POST notes"]


def test_a_failed_write_holds_closing_back(controller: Any, make_writer: Any, wire: Any, late_log: Any) -> None:
    stream = controller.stream()
    writer = make_writer(stream, log=late_log, wire=wire)
    with pytest.raises(ConnectionError), writer:
        writer.write([Event(b"a", segment="0")])
        writer.note_time(100)
        writer.write([Event(b"b", segment="0")])
        late_log.failure = ConnectionError("the log is gone")
    assert controller.states(stream) == {"active": 1}


def test_closing_notes_the_final_position_first(controller: Any, make_writer: Any, wire: Any, late_log: Any) -> None:
    stream = controller.stream()
    with make_writer(stream, log=late_log, wire=wire, leaving="close") as writer:
        writer.write([Event(b"a", segment="0")])
        writer.note_time(100)
        writer.write([Event(b"b", segment="2")])
    assert wire.lines[-2:] == ["POST notes", "DELETE writers/w1?epoch=1"]
    assert wire.requests[-2].body == {
        "writer": "w1",
        "time": 100,
        "position": {"0": 1, "2": 1},
        "epoch": 1,
    }
    with make_writer(stream, "w2") as other:
        (mark,) = other.note_time(200, {}).marks
    assert mark.cut == {"0": 1, "2": 1}
    assert mark.complete


def test_closing_notes_nothing_where_nothing_came_after_the_last_note(
    controller: Any, make_writer: Any, wire: Any, late_log: Any
) -> None:
    with make_writer(controller.stream(), log=late_log, wire=wire, leaving="close") as writer:
        writer.write([Event(b"a", segment="0")])
        writer.note_time(100)
    assert wire.lines == ["PUT writers/w1", "POST notes", "DELETE writers/w1?epoch=1"]


def test_without_a_log_the_final_position_can_be_given(controller: Any, make_writer: Any) -> None:
    stream = controller.stream()
    writer = make_writer(stream, keys=["", "ship_time"])
    writer.note_time({"": 100, "ship_time": 90}, {"0": 1})
    writer.close({"0": 3})
    with make_writer(stream, "w2") as other:
        assert other.note_time(200, {}).marks[-1].cut == {"0": 3}


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
