"""Writers against the real controller."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logs.sqlite import SqliteLog
from strandline.config import StreamConfig
from strandline.errors import (
    BeyondFinalOffset,
    Fenced,
    InvalidConfig,
    InvalidName,
    InvalidNote,
    PositionWentBack,
    StrandlineError,
    StreamSealed,
    TimeTooFarAhead,
    TimeWentBack,
    UnknownSegment,
    UnknownStream,
)
from strandline.protocol import calls
from strandline.protocol.attempts import Patience
from strandline.protocol.errors import ControllerAway
from strandline.protocol.transport import Connection
from strandline.segment import NewSegment
from writer_client import AsyncWriter, Event, NeverNoted, NoLog, Writer, WriterClosed


def states(controller: Any, stream: str) -> dict[str, int]:
    return dict(controller.describe(stream).writers)


# -- registering and closing -----------------------------------------------------------------------------------


def test_entering_registers_and_leaving_closes(controller: Any, make_writer: Any) -> None:
    stream = controller.stream()
    with make_writer(stream) as writer:
        assert states(controller, stream) == {"joined": 1}
        assert writer.epoch == 1
        assert writer.floor is None
        assert writer.clock is not None
    assert states(controller, stream) == {"closed": 1}


def test_a_writer_that_joins_a_running_stream_is_told_its_floors(controller: Any, make_writer: Any) -> None:
    stream = controller.stream()
    with make_writer(stream, "w1", keys=["", "ship_time"]) as first:
        first.note_time({"": 100, "ship_time": 90}, {"0": 5})
        second = make_writer(stream, "w2", keys=["", "ship_time"])
        second.register()
        assert second.floor == 100
        assert second.floors == {"": 100, "ship_time": 90}
        second.close()


def test_a_block_that_ends_with_an_exception_does_not_close_its_writer(controller: Any, make_writer: Any) -> None:
    stream = controller.stream()
    writer = make_writer(stream)
    with pytest.raises(ZeroDivisionError), writer:
        writer.note_time(100, {"0": 5})
        raise ZeroDivisionError
    assert states(controller, stream) == {"active": 1}
    with pytest.raises(WriterClosed):
        writer.note_time(101, {"0": 5})


def test_a_writer_that_cannot_register_says_why(controller: Any, make_writer: Any) -> None:
    with pytest.raises(UnknownStream), make_writer("nowhere"):
        raise AssertionError("the block must not be entered")


def test_closing_twice_is_once_and_a_closed_writer_is_not_used_again(
    controller: Any, make_writer: Any, wire: Any
) -> None:
    writer = make_writer(controller.stream(), wire=wire)
    writer.register()
    writer.close()
    writer.close()
    assert wire.lines == ["PUT writers/w1", "DELETE writers/w1?epoch=1"]
    for use in (writer.register, writer.idle, lambda: writer.note_time(1, {})):
        with pytest.raises(WriterClosed):
            use()


def test_a_new_registration_fences_the_one_before(controller: Any, make_writer: Any) -> None:
    stream = controller.stream()
    old, new = make_writer(stream), make_writer(stream)
    old.register()
    new.register()
    with pytest.raises(Fenced) as raised:
        old.note_time(100, {"0": 5})
    assert raised.value.values == {"name": "w1", "epoch": 1, "newest": 2}
    for use in (old.idle, old.close):
        with pytest.raises(Fenced):
            use()
    assert states(controller, stream) == {"joined": 1}


# -- noting ----------------------------------------------------------------------------------------------------


def test_a_note_is_answered_with_the_mark_that_it_brought(controller: Any, make_writer: Any) -> None:
    stream = controller.stream()
    with make_writer(stream) as writer:
        answer = writer.note_time(100, {"0": 5, "1": 7}, newest=180)
        (mark,) = answer.marks
        assert (mark.time, mark.cut, mark.newest, mark.seq) == (100, {"0": 5, "1": 7}, 180, 1)
        assert (answer.late, answer.floor, dict(answer.held_by)) == (False, None, {})
    assert controller.marks(stream) == (mark,)


def test_keyed_times_make_marks_of_their_own(controller: Any, make_writer: Any) -> None:
    stream = controller.stream()
    with make_writer(stream, keys=["order_time", "ship_time"]) as writer:
        answer = writer.note_time({"order_time": 100, "ship_time": 90}, {"0": 5}, newest={"ship_time": 95})
        assert {(mark.key, mark.time, mark.newest) for mark in answer.marks} == {
            ("order_time", 100, None),
            ("ship_time", 90, 95),
        }


def test_who_holds_time_back_is_told(controller: Any, make_writer: Any) -> None:
    stream = controller.stream()
    make_writer(stream, "slow").register()
    with make_writer(stream, "quick") as writer:
        holder = writer.note_time(100, {"0": 5}).held_by[""]
        assert (holder.writer, holder.state) == ("slow", "joined")


def test_a_writer_that_never_registered_does_so_before_its_first_note(
    controller: Any, make_writer: Any, wire: Any
) -> None:
    writer = make_writer(controller.stream(), wire=wire)
    writer.note_time(100, {"0": 5})
    writer.note_time(101, {"0": 6})
    assert wire.lines == ["PUT writers/w1", "POST notes", "POST notes"]
    assert [request.body["epoch"] for request in wire.requests[1:]] == [1, 1]


@pytest.mark.parametrize(
    ("time", "position", "error", "values"),
    [
        (99, {}, TimeWentBack, {"writer": "w1", "key": "", "time": 99, "stored_time": 100}),
        (
            101,
            {"0": 4},
            PositionWentBack,
            {"writer": "w1", "segment": "0", "offset": 4, "stored_offset": 5},
        ),
        (100, {"9": 4}, UnknownSegment, {"segment": "9", "known": ("0", "1", "2", "3")}),
        (100, {"1": 401}, BeyondFinalOffset, {"segment": "1", "offset": 401, "final_offset": 400}),
        (2**52, {}, TimeTooFarAhead, None),
        (2**53, {}, InvalidNote, None),
        (1.5, {}, InvalidNote, None),
        (100, {"0": -1}, InvalidNote, None),
        (100, {"a/b": 1}, InvalidName, {"what": "segment", "name": "a/b"}),
        ({}, {}, InvalidNote, None),
    ],
)
def test_a_refusal_is_the_typed_error_and_changes_nothing(
    controller: Any,
    make_writer: Any,
    time: Any,
    position: dict[str, int],
    error: type[StrandlineError],
    values: dict[str, Any] | None,
) -> None:
    stream = controller.stream(config=StreamConfig(mark_interval_ms=0))
    controller.run(calls.scale(stream, {"1": 400}, [NewSegment("3", 1 / 3, 2 / 3)]))
    with make_writer(stream) as writer:
        writer.note_time(100, {"0": 5})
        with pytest.raises(error) as raised:
            writer.note_time(time, position)
        assert values is None or raised.value.values == values
        (mark,) = writer.note_time(101, {"0": 6}).marks
        assert mark.cut == {"0": 6}


def test_a_sealed_stream_takes_no_notes(controller: Any, make_writer: Any) -> None:
    stream = controller.stream()
    writer = make_writer(stream)
    writer.note_time(100, {"0": 5})
    controller.run(calls.seal(stream, {"0": 9}))
    with pytest.raises(StreamSealed):
        writer.note_time(101, {"0": 6})


# -- positions from the log ------------------------------------------------------------------------------------


def test_without_a_log_a_position_must_be_given(controller: Any, make_writer: Any) -> None:
    with make_writer(controller.stream()) as writer:
        with pytest.raises(NoLog):
            writer.note_time(100)
        with pytest.raises(NoLog):
            writer.write([Event(b"x", segment="0")])
        writer.note_time(100, {})


def test_a_note_covers_what_was_written_before_it_and_leaves_when_that_is_acknowledged(
    controller: Any, make_writer: Any, wire: Any, late_log: Any
) -> None:
    with make_writer(controller.stream(), log=late_log, wire=wire) as writer:
        assert writer.write([Event(b"a", segment="0"), Event(b"b", segment="1")]) == {}
        (mark,) = writer.note_time(100).marks
        assert mark.cut == {"0": 1, "1": 1}
    assert wire.happened[:4] == ["PUT writers/w1", "append", "flush", "POST notes"]


@pytest.mark.parametrize(("events_before", "newest"), [(0, 180), (1, None)])
def test_newest_goes_out_only_where_the_writer_can_know_it(
    controller: Any, make_writer: Any, late_log: Any, events_before: int, newest: int | None
) -> None:
    late_log.append([Event(b"another writer's", segment="1")] * events_before)
    late_log.forget_own()
    with make_writer(controller.stream(), log=late_log) as writer:
        writer.write([Event(b"a", segment="0")])
        (mark,) = writer.note_time(100, newest=180).marks
        assert mark.newest == newest


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
    assert states(controller, stream) == {"active": 1}


def test_closing_notes_the_final_position_first(controller: Any, make_writer: Any, wire: Any, late_log: Any) -> None:
    stream = controller.stream()
    with make_writer(stream, log=late_log, wire=wire) as writer:
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
    with make_writer(controller.stream(), log=late_log, wire=wire) as writer:
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


def test_a_writer_that_has_written_and_never_noted_cannot_close_in_silence(
    controller: Any, make_writer: Any, late_log: Any
) -> None:
    stream = controller.stream()
    writer = make_writer(stream, log=late_log)
    with pytest.raises(NeverNoted, match="note a time first"), writer:
        writer.write([Event(b"a", segment="0")])
    assert states(controller, stream) == {"joined": 1}


def test_a_writer_that_never_noted_closes_at_its_floor_where_it_has_one(
    controller: Any, make_writer: Any, wire: Any, late_log: Any
) -> None:
    stream = controller.stream()
    with make_writer(stream, "w0") as first:
        first.note_time(100, {"1": 1})
    with make_writer(stream, log=late_log, wire=wire) as writer:
        writer.write([Event(b"a", segment="0")])
    assert wire.lines == ["PUT writers/w1", "POST notes", "DELETE writers/w1?epoch=2"]
    with make_writer(stream, "w2") as other:
        assert other.note_time(200, {}).marks[-1].cut == {"0": 1, "1": 1}


def test_a_writer_that_wrote_nothing_opens_and_closes_without_a_note(
    controller: Any, make_writer: Any, wire: Any, late_log: Any
) -> None:
    with make_writer(controller.stream(), log=late_log, wire=wire):
        pass
    assert wire.lines == ["PUT writers/w1", "DELETE writers/w1?epoch=1"]


def test_what_others_wrote_keeps_no_writer_from_closing(
    controller: Any, make_writer: Any, wire: Any, late_log: Any
) -> None:
    late_log.append([Event(b"another writer's", segment="0")])
    late_log.forget_own()
    with make_writer(controller.stream(), log=late_log, wire=wire):
        pass
    assert wire.lines == ["PUT writers/w1", "DELETE writers/w1?epoch=1"]


def test_what_an_earlier_process_wrote_and_never_noted_lies_below_the_first_note(
    controller: Any, make_writer: Any, tmp_path: Path
) -> None:
    stream = controller.stream()
    with SqliteLog.create(tmp_path / "log.db", 3) as log:
        crashed = make_writer(stream, log=log)
        crashed.write([Event(b"a", segment="0"), Event(b"b", segment="1")])
        crashed.note_time(100)
        crashed.write([Event(b"late", segment="2")])
        crashed.release()
    with SqliteLog(tmp_path / "log.db") as log, make_writer(stream, log=log) as restarted:
        assert restarted.floor == 100
        restarted.write([Event(b"c", segment="1")])
        (mark,) = restarted.note_time(200).marks
        assert mark.cut == {"0": 1, "1": 2, "2": 1}


# -- idle ------------------------------------------------------------------------------------------------------


def test_a_writer_back_from_idle_registers_before_it_appends(
    controller: Any, make_writer: Any, wire: Any, late_log: Any
) -> None:
    stream = controller.stream()
    with make_writer(stream, log=late_log, wire=wire) as writer:
        writer.write([Event(b"a", segment="0")])
        writer.note_time(100)
        writer.write([Event(b"b", segment="0")])
        writer.idle()
        assert states(controller, stream) == {"idle": 1}
        before = len(wire.happened)
        writer.write([Event(b"c", segment="0")])
        assert wire.happened[before:] == ["PUT writers/w1", "append"]
        assert states(controller, stream) == {"joined": 1}
        assert writer.epoch == 2
        assert writer.note_time(101).marks[-1].cut == {"0": 3}


def test_going_idle_notes_the_final_position_first(controller: Any, make_writer: Any, wire: Any, late_log: Any) -> None:
    with make_writer(controller.stream(), log=late_log, wire=wire) as writer:
        writer.write([Event(b"a", segment="0")])
        writer.note_time(100)
        writer.write([Event(b"b", segment="0")])
        writer.idle()
        assert wire.lines[-2:] == ["POST notes", "POST writers/w1/idle?epoch=1"]
        assert wire.requests[-2].body["position"] == {"0": 2}
        assert wire.requests[-2].body["time"] == 100


def test_going_idle_without_a_time_is_refused_while_something_was_written(
    controller: Any, make_writer: Any, late_log: Any
) -> None:
    stream = controller.stream()
    with make_writer(stream, log=late_log) as writer:
        writer.write([Event(b"a", segment="0")])
        with pytest.raises(NeverNoted):
            writer.idle()
        assert states(controller, stream) == {"joined": 1}
        writer.note_time(100)


# -- what gets lost --------------------------------------------------------------------------------------------


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    steps=st.lists(st.sampled_from(["write", "note", "idle", "register"]), min_size=1, max_size=8),
    faults=st.lists(st.sampled_from(["", "away", "lost", "lost"]), max_size=25),
)
def test_lost_requests_and_answers_change_no_mark(
    controller: Any, make_writer: Any, faulty_pair: Any, steps: list[str], faults: list[str]
) -> None:
    """The same story over a good wire and over a bad one: the marks are the same, but for when they were made."""

    def story(faults: list[str]) -> list[tuple[int, int, Any, bool]]:
        stream = controller.stream()
        wire, log = faulty_pair(faults)
        with make_writer(stream, log=log, wire=wire) as writer:
            writer.note_time(0)
            for time, step in enumerate(steps, start=1):
                match step:
                    case "write":
                        writer.write([Event(b"x", segment=str(time % 3))])
                    case "note":
                        writer.note_time(time * 10)
                    case "idle":
                        writer.idle()
                    case "register":
                        writer.register()
        return [(mark.time, mark.upper, mark.cut, mark.complete) for mark in controller.marks(stream)]

    assert story(faults) == story([])


def test_a_controller_that_is_away_is_told_from_one_that_refuses() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else can
        away = f"http://127.0.0.1:{bound.getsockname()[1]}"
        connection = Connection(away, patience=Patience(deadline_ms=20, first_pause_ms=5))
        with connection, pytest.raises(ControllerAway) as raised:
            Writer(connection, "orders", "w1").register()
        assert raised.value.controller == away


# -- making one ------------------------------------------------------------------------------------------------


def test_a_writer_makes_its_own_connection_from_an_address(controller: Any) -> None:
    stream = controller.stream()
    with Writer(controller.url, stream, "w1") as writer:
        writer.note_time(100, {"0": 1})

    async def run() -> None:
        async with AsyncWriter(controller.url, stream, "w2") as writer:
            await writer.note_time(101, {"0": 1})

    asyncio.run(run())
    assert states(controller, stream) == {"closed": 2}


def test_a_shared_connection_stays_open(controller: Any) -> None:
    stream = controller.stream()
    for name in ("w1", "w2"):
        with Writer(controller.connection, stream, name) as writer:
            writer.note_time(100, {"0": 1})
    assert states(controller, stream) == {"closed": 2}


@pytest.mark.parametrize("kind", [Writer, AsyncWriter])
def test_what_can_be_seen_to_be_wrong_is_told_at_once(kind: Any) -> None:
    with pytest.raises(InvalidConfig):
        kind("127.0.0.1:8433", "orders", "w1")
    with pytest.raises(InvalidName):
        kind("http://127.0.0.1:8433", "or/ders", "w1")
    with pytest.raises(InvalidName):
        kind("http://127.0.0.1:8433", "orders", "")
    with pytest.raises(InvalidName):
        kind("http://127.0.0.1:8433", "orders", "w1", keys=["order time"])
    with pytest.raises(InvalidConfig):
        kind("http://127.0.0.1:8433", "orders", "w1", token="a b")
