"""Notes of a writer that is bound to a log: they cover what was written, and no less."""

from __future__ import annotations

from typing import Any

import pytest

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


def test_a_failed_write_holds_the_note_back(controller: Any, make_writer: Any, wire: Any, late_log: Any) -> None:
    with make_writer(controller.stream(), log=late_log, wire=wire) as writer:
        writer.write([Event(b"a", segment="0")])
        late_log.failure = ConnectionError("the log is gone")
        with pytest.raises(ConnectionError):
            writer.note_time(100)
        assert wire.lines == ["PUT writers/w1"]
        late_log.failure = None
        (mark,) = writer.note_time(100).marks
        assert mark.cut == {"0": 1}


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


def test_a_writer_that_has_no_time_to_note_notes_its_position_before_it_closes(
    controller: Any, make_writer: Any, late_log: Any
) -> None:
    stream = controller.stream()
    with make_writer(stream, log=late_log, leaving="close") as writer:
        writer.write([Event(b"a", segment="0")])
    with make_writer(stream, "w2") as other:
        assert other.note_time(200, {}).marks[-1].cut == {"0": 1}


def test_a_writer_that_never_noted_closes_at_its_floor(
    controller: Any, make_writer: Any, wire: Any, late_log: Any
) -> None:
    stream = controller.stream()
    with make_writer(stream, "w0", leaving="close") as first:
        first.note_time(100, {"1": 1})
    with make_writer(stream, log=late_log, wire=wire, leaving="close") as writer:
        writer.write([Event(b"a", segment="0")])
    assert wire.lines == ["PUT writers/w1", "POST notes", "DELETE writers/w1?epoch=2"]
    with make_writer(stream, "w2") as other:
        assert other.note_time(200, {}).marks[-1].cut == {"0": 1, "1": 1}


def test_a_writer_that_wrote_nothing_opens_and_closes_without_a_note(
    controller: Any, make_writer: Any, wire: Any, late_log: Any
) -> None:
    with make_writer(controller.stream(), log=late_log, wire=wire, leaving="close"):
        pass
    assert wire.lines == ["PUT writers/w1", "DELETE writers/w1?epoch=1"]


def test_what_others_wrote_keeps_no_writer_from_closing(
    controller: Any, make_writer: Any, wire: Any, late_log: Any
) -> None:
    late_log.append([Event(b"another writer's", segment="0")])
    late_log.forget_own()
    with make_writer(controller.stream(), log=late_log, wire=wire, leaving="close"):
        pass
    assert wire.lines == ["PUT writers/w1", "POST notes", "DELETE writers/w1?epoch=1"]
