"""A writer that has written nothing for long says idle by itself, and registers before it writes again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strandline.logs.sqlite import SqliteLog
from tests.writer_client.clocks import SOON, wait_for, wait_until_answered, wait_until_idle
from writer_client import AutomaticTime, Event


def to(segment: str, *values: bytes) -> list[Event]:
    return [Event(value, segment=segment) for value in values]


def test_a_writer_with_nothing_to_write_idles_and_later_registers(
    controller: Any, make_any: Any, make_writer: Any, late_log: Any, wire: Any
) -> None:
    stream = controller.stream()
    with make_any(stream, log=late_log, wire=wire, idle_after_ms=SOON) as writer:
        writer.note_time(100)
        writer.write(to("0", b"150"))  # and no note after it
        wait_until_idle(controller, stream)
        other = make_writer(stream, "w2")
        (mark,) = other.note_time(200, {"1": 7}).marks  # it holds no time, and is covered
        assert (mark.time, mark.cut, mark.complete) == (200, {"0": 1, "1": 7}, True)
        writer.write(to("0", b"210"))
        appended, registered = (
            max(at for at, line in enumerate(wire.happened) if line == wanted)
            for wanted in ("append", "PUT writers/w1")
        )
        idled = wire.happened.index("POST writers/w1/idle?epoch=1")
        assert idled < registered < appended
        assert writer.floors == {"": 200}
        writer.note_time(220)
    other.note_time(220, {"1": 7})
    assert [(mark.time, mark.cut) for mark in controller.marks(stream)][-1] == (220, {"0": 2, "1": 7})


def test_the_clock_rests_with_its_writer_and_goes_on_with_it(controller: Any, make_any: Any, late_log: Any) -> None:
    stream = controller.stream()
    automatic = AutomaticTime(period_ms=SOON, lag_ms=0)
    with make_any(stream, log=late_log, automatically_note_time=automatic, idle_after_ms=20) as writer:
        for number in range(1, 4):
            writer.write(to("0", b"x"))
            wait_until_idle(controller, stream)
            assert sum(controller.marks(stream)[-1].cut.values()) == number
        assert writer.status().stuck is None


def test_a_writer_with_an_open_transaction_does_not_go_idle(
    controller: Any, make_any: Any, tmp_path: Path, wire: Any
) -> None:
    stream = controller.stream()
    automatic = AutomaticTime(period_ms=SOON, lag_ms=0)
    with (
        SqliteLog.create(tmp_path / "log.db", 3) as log,
        make_any(stream, log=log, wire=wire, automatically_note_time=automatic, idle_after_ms=SOON) as writer,
    ):
        with writer.begin() as transaction:
            transaction.write(to("0", b"x"))
            sent = len(wire.lines)
            wait_for(lambda: len(wire.lines) > sent + 5)  # many periods
            assert not [line for line in wire.lines if "/idle" in line]
            transaction.commit()
        wait_until_idle(controller, stream)
    assert sum(controller.marks(stream)[-1].cut.values()) == 1


def test_a_writer_without_a_log_idles_until_its_next_note(controller: Any, make_any: Any, wire: Any) -> None:
    stream = controller.stream()
    writer = make_any(stream, wire=wire, idle_after_ms=SOON)
    for number in range(1, 4):
        writer.note_time(number * 100, {"0": number})
        wait_until_answered(writer)
        wait_until_idle(controller, stream)
    writer.close()
    assert wire.lines.count("PUT writers/w1") == 3
    assert [mark.time for mark in controller.marks(stream)] == [100, 200, 300]


def test_a_writer_that_has_never_noted_stays_until_it_has(controller: Any, make_any: Any, late_log: Any) -> None:
    """Nobody could tell by which time its events are read."""
    stream = controller.stream()
    with make_any(stream, log=late_log, idle_after_ms=SOON) as writer:
        writer.write(to("0", b"x"))
        late_log.flushes.clear()
        assert late_log.flushes.wait(30)  # it has tried
        assert controller.states(stream) == {"joined": 1}
        assert writer.status().stuck is None
        writer.note_time(100)
        wait_until_idle(controller, stream)


@pytest.mark.parametrize("fault", ["away", "lost"])
def test_going_idle_is_tried_again_where_the_controller_did_not_answer(
    controller: Any, make_any: Any, late_log: Any, wire: Any, fault: str
) -> None:
    stream = controller.stream()
    with make_any(stream, log=late_log, wire=wire, idle_after_ms=SOON) as writer:
        writer.register()
        writer.note_time(100)
        wait_until_answered(writer)
        wire.faults = [fault] * 3
        wait_until_idle(controller, stream)
        wire.faults = []
        writer.write(to("0", b"x"))
        writer.note_time(200)
    assert controller.marks(stream)[-1].cut == {"0": 1}
