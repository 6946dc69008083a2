"""Time that is noted by the clock."""

from __future__ import annotations

import asyncio
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from strandline.client import calls
from strandline.core.config import StreamConfig, TimeDomain
from strandline.core.time_units import START
from strandline.errors import InvalidConfig
from tests.writer_client.clocks import SOON, Clock, mark_after, wait_for, wait_for_notes
from tests.writer_client.conftest import BlockedLog
from writer_client import AsyncWriter, AutomaticTime, Event, ManualNote, NotesStuck, TransactionUnderWay
from writer_client.automatic_notes import NOTE_PERIOD_DEFAULT_MS


def test_the_clock_is_noted_again_and_again_also_when_nothing_is_written(
    controller: Any, make_any: Any, late_log: Any
) -> None:
    stream, clock = controller.stream(), Clock(1_000)
    automatic = AutomaticTime(period_ms=SOON, lag_ms=10, clock=clock)
    with make_any(stream, log=late_log, keys=["", "other"], automatically_note_time=automatic) as writer:
        assert mark_after(controller, stream, 0).time == 990
        assert controller.run(calls.marks(stream, key="other", wait_ms=20_000)).marks[0].time == 990
        writer.write([Event(b"a", segment="0")])
        clock.now = 2_000
        mark = mark_after(controller, stream, 990)
        assert (mark.time, mark.cut) == (1_990, {"0": 1})
        clock.now = 1_500  # a clock that is set back notes nothing older
        clock.now = 3_000
        mark = mark_after(controller, stream, 1_990)
        assert (mark.time, mark.cut) == (2_990, {"0": 1})
    assert controller.states(stream) == {"active": 1}


def test_a_manual_note_is_an_error_while_time_is_noted_automatically(
    controller: Any, make_any: Any, late_log: Any
) -> None:
    writer = make_any(controller.stream(), log=late_log, automatically_note_time=True)
    with pytest.raises(ManualNote, match=f"every {NOTE_PERIOD_DEFAULT_MS} ms"):
        writer.note_time(100)


def test_no_time_beyond_an_event_that_is_held_back_is_noted(controller: Any, make_any: Any, late_log: Any) -> None:
    stream, clock, buffer = controller.stream(), Clock(1_000), [datetime(1970, 1, 1, 0, 0, 0, 400_700, tzinfo=UTC)]
    automatic = AutomaticTime(period_ms=SOON, lag_ms=10, clock=clock, oldest=lambda: min(buffer, default=None))
    with make_any(stream, log=late_log, automatically_note_time=automatic) as writer:
        assert mark_after(controller, stream, 0).time == 400
        writer.write([Event(b"400.7", segment="0")])
        clock.now = 2_000
        buffer.clear()
        mark = mark_after(controller, stream, 400)
        assert (mark.time, mark.cut) == (1_990, {"0": 1})
        buffer.append(START + timedelta(seconds=5))  # newer than what may be noted
        clock.now = 3_000
        assert mark_after(controller, stream, 1_990).time == 2_990


def test_time_waits_at_the_floor_for_a_writer_that_holds_back_what_is_older(
    controller: Any, make_any: Any, make_writer: Any, late_log: Any
) -> None:
    stream = controller.stream()
    other = make_writer(stream, "w0")
    other.note_time(1_000, {"1": 1})
    automatic = AutomaticTime(period_ms=SOON, lag_ms=0, clock=Clock(5_000), oldest=lambda: 400)
    with make_any(stream, log=late_log, automatically_note_time=automatic) as writer:
        wait_for(lambda: dict(writer.status().noted) == {"": 1_000})
        other.note_time(2_000, {"1": 2})
        assert [mark.time for mark in controller.marks(stream)] == [1_000]


def test_a_program_may_hold_its_own_lock_around_writes_and_in_the_function_for_what_is_held_back(
    controller: Any, make_any: Any, late_log: Any
) -> None:
    stream, clock, own, buffer = controller.stream(), Clock(1_000), threading.Lock(), [500]

    def oldest() -> int | None:
        with own:
            return min(buffer, default=None)

    def work() -> None:
        for time in (500, 1_500):
            with own:
                writer.write([Event(b"%d" % time, segment="0")])
                buffer.clear()
            clock.now += 1_000
            mark_after(controller, stream, clock.now - 1_001)

    automatic = AutomaticTime(period_ms=SOON, lag_ms=0, clock=clock, oldest=oldest)
    with make_any(stream, log=late_log, automatically_note_time=automatic) as writer:
        assert mark_after(controller, stream, 0).time == 500
        working = threading.Thread(target=work, daemon=True)
        working.start()
        working.join(30)
        assert not working.is_alive()
        assert mark_after(controller, stream, 2_999).cut == {"0": 2}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"domain": "ingestion", "oldest": lambda: None}, "oldest.*ingestion domain"),
        ({"domain": "processing"}, '"event" or "ingestion"'),
        ({"lag_ms": -1}, "lag_ms"),
        ({"oldest": 400}, "oldest cannot be 400: a function"),
    ],
)
def test_options_of_automatic_time_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        AutomaticTime(**options)


def test_a_writer_that_holds_events_back_does_not_go_idle_by_itself(make_any: Any, late_log: Any) -> None:
    automatic = AutomaticTime(oldest=lambda: None)
    with pytest.raises(InvalidConfig, match="idle_after_ms cannot be 500: left out with oldest"):
        make_any("stream", log=late_log, automatically_note_time=automatic, idle_after_ms=500)


@pytest.mark.parametrize("floor", [1_000, 0])
def test_a_clock_behind_the_floor_notes_nothing_before_reaching_it(
    controller: Any, make_any: Any, make_writer: Any, late_log: Any, wire: Any, floor: int
) -> None:
    stream, clock = controller.stream(), Clock(floor - 100)
    make_writer(stream, "w0").note_time(floor, {"1": 1})
    automatic = AutomaticTime(period_ms=SOON, lag_ms=0, clock=clock)
    with make_any(stream, log=late_log, wire=wire, automatically_note_time=automatic) as writer:
        writer.register()
        late_log.flushes.clear()
        assert late_log.flushes.wait(30)  # a period has passed
        assert "POST notes" not in wire.lines
        assert controller.states(stream) == {"active": 1, "joined": 1}
        clock.now = floor + 100
        wait_for(lambda: writer.status().noted)
        assert dict(writer.status().noted)[""] == floor + 100


def test_the_controllers_clock_is_read_before_the_position(
    controller: Any, make_any: Any, late_log: Any, wire: Any
) -> None:
    stream = controller.stream(config=StreamConfig(time_domain=TimeDomain.INGESTION, mark_interval_ms=0))
    automatic = AutomaticTime(period_ms=SOON, domain="ingestion")
    with make_any(stream, log=late_log, wire=wire, automatically_note_time=automatic) as writer:
        writer.write([Event(b"a", segment="0")])
        wait_for(lambda: [mark for mark in controller.marks(stream) if mark.cut])
        first = next(mark for mark in controller.marks(stream) if mark.cut)
        second = mark_after(controller, stream, first.time)
        assert (first.cut, second.cut) == ({"0": 1}, {"0": 1})
        assert first.time < second.time <= second.created_at
    # Registering shows the clock for the first note; each later one asks first, then reads its position, then notes.
    notes = [line for line in wire.happened if line in ("flush", "POST notes")]
    assert notes[:5] == ["flush", "POST notes", "POST notes", "flush", "POST notes"]
    bodies = [request.body for request in wire.requests if request.path.endswith("/notes")]
    assert bodies[1]["time"] == bodies[0]["time"] < bodies[2]["time"]


def test_the_clock_does_not_pass_a_write_that_is_under_way(controller: Any, make_any: Any, wire: Any) -> None:
    stream, clock, log = controller.stream(), Clock(1_000), BlockedLog(wire)
    automatic = AutomaticTime(period_ms=SOON, lag_ms=0, clock=clock)
    with make_any(stream, wire=wire, log=log, automatically_note_time=automatic) as writer:
        assert mark_after(controller, stream, 0).time == 1_000
        write = threading.Thread(target=writer.write, args=([Event(b"stamped 1500", segment="0")],))
        clock.now = 1_500
        write.start()
        assert log.appends.wait(30)
        clock.now = 2_000
        wait_for_notes(wire)
        assert [mark.time for mark in controller.marks(stream) if mark.time > 1_500] == []
        log.lets.set()
        assert mark_after(controller, stream, 1_500).cut == {"0": 1}
        write.join()


def test_the_clock_does_not_pass_an_async_write_that_waits_for_a_thread(
    controller: Any, late_log: Any, wire: Any
) -> None:
    stream, clock, lets = controller.stream(), Clock(1_000), threading.Event()
    automatic = AutomaticTime(period_ms=SOON, lag_ms=0, clock=clock)

    async def run() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        async with AsyncWriter(controller.url, stream, "w1", log=late_log, automatically_note_time=automatic) as writer:
            assert mark_after(controller, stream, 0).time == 1_000
            busy = asyncio.create_task(asyncio.to_thread(lets.wait, 30))
            write = asyncio.create_task(writer.write([Event(b"stamped 1000", segment="0")]))
            await asyncio.sleep(0)
            clock.now = 2_000
            flushes = wire.happened.count("flush")
            wait_for(lambda: wire.happened.count("flush") > flushes + 2)
            lets.set()
            await asyncio.gather(busy, write)
            assert mark_after(controller, stream, 1_000).cut == {"0": 1}

    asyncio.run(run())


def test_a_clock_that_fails_or_gives_no_whole_milliseconds_is_told_of_and_asked_again(
    controller: Any, make_any: Any, late_log: Any
) -> None:
    stream, given, reports = controller.stream(), list[Any](), list[Any]()

    def clock() -> Any:
        if isinstance(given[-1], Exception):
            raise given[-1]
        return given[-1]

    given.append(ZeroDivisionError("it stands still"))
    automatic = AutomaticTime(period_ms=SOON, lag_ms=0, clock=clock)
    with make_any(stream, log=late_log, on_report=reports.append, automatically_note_time=automatic) as writer:
        wait_for(lambda: "it stands still" in str(writer.status().stuck))
        given.append(1_000.5)
        wait_for(lambda: "1000.5" in str(writer.status().stuck))
        given.append(2_000)
        assert mark_after(controller, stream, 0).time == 2_000
        wait_for(lambda: writer.status().stuck is None)
    assert isinstance(reports[0].error, ZeroDivisionError)


def test_writes_before_the_clocks_first_note_are_noted_on_leaving(
    controller: Any, make_any: Any, late_log: Any
) -> None:
    stream, is_set = controller.stream(), threading.Event()

    def clock() -> int:
        if not is_set.is_set():
            raise ZeroDivisionError
        return 1_000

    automatic, reports = AutomaticTime(period_ms=600_000, lag_ms=0, clock=clock), list[Any]()
    with make_any(stream, log=late_log, on_report=reports.append, automatically_note_time=automatic) as writer:
        writer.write([Event(b"a", segment="0")])
        wait_for(lambda: reports)  # the clock has failed, and the next period is far
        is_set.set()
    assert [(mark.time, mark.cut) for mark in controller.marks(stream)] == [(1_000, {"0": 1})]


class Positions:
    """An application that keeps its own count of what it has written; what it raises it raises once."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.position: Any = {"0": 0}
        self.failures: list[Exception] = []

    def __call__(self) -> Any:
        if self.failures:
            raise self.failures.pop(0)
        return self.position


@pytest.mark.parametrize("domain", ["event", "ingestion"])
def test_without_a_log_the_application_tells_the_positions(
    controller: Any, make_any: Any, wire: Any, domain: Any
) -> None:
    config = StreamConfig(time_domain=TimeDomain(domain), mark_interval_ms=0)
    stream, clock = controller.stream(config=config), Clock(1_000)
    positions = Positions(clock)
    automatic = AutomaticTime(period_ms=SOON, lag_ms=0, clock=clock, domain=domain, position=positions)
    with make_any(stream, wire=wire, automatically_note_time=automatic):
        first = mark_after(controller, stream, 0)
        positions.position = {"0": 1}
        clock.now = 2_000
        wait_for(lambda: controller.marks(stream)[-1].cut == {"0": 1})
        assert controller.marks(stream)[-1].time > first.time
        positions.position = {"0": 1, "1": 7}  # and the last of it is noted on leaving
    notes = [each for request in wire.requests if request.body for each in request.body.get("notes", [request.body])]
    assert {"0": 1, "1": 7} in [note["position"] for note in notes if "position" in note]
    assert controller.states(stream) == {"active": 1}


@pytest.mark.parametrize("failure", [ConnectionError("away"), TransactionUnderWay(call="position()")])
def test_without_a_position_nothing_is_noted_until_one_comes(
    controller: Any, make_any: Any, failure: Exception
) -> None:
    stream, clock = controller.stream(), Clock(1_000)
    positions, reports = Positions(clock), list[Any]()
    automatic = AutomaticTime(period_ms=SOON, lag_ms=0, clock=clock, position=positions)
    with make_any(stream, on_report=reports.append, automatically_note_time=automatic):
        assert mark_after(controller, stream, 0).time == 1_000
        positions.failures = [failure] * 3
        positions.position = {"0": 1}
        clock.now = 2_000
        assert mark_after(controller, stream, 1_000).cut == {"0": 1}
        wait_for(lambda: len(reports) % 2 == 0)
    stuck = [report.error for report in reports if isinstance(report, NotesStuck)]
    assert set(stuck) == (set() if isinstance(failure, TransactionUnderWay) else {failure})


def test_what_is_no_position_is_told_of_and_not_noted(controller: Any, make_any: Any) -> None:
    stream, clock = controller.stream(), Clock(1_000)
    positions = Positions(clock)
    automatic = AutomaticTime(period_ms=SOON, lag_ms=0, clock=clock, position=positions)
    positions.position, told = None, set[str]()
    with make_any(stream, automatically_note_time=automatic) as writer:
        for wrong in (None, {"0": -1}, {"0": "1"}, {"a/b": 1}):
            positions.position = wrong
            wait_for(lambda: writer.status().stuck is not None and str(writer.status().stuck) not in told)
            told.add(str(writer.status().stuck))
            assert controller.marks(stream) == ()
        positions.position = {"0": 1}
        assert mark_after(controller, stream, 0).cut == {"0": 1}


def test_a_clock_that_ticks_all_the_time_keeps_nobody_from_leaving(
    controller: Any, make_any: Any, late_log: Any
) -> None:
    stream = controller.stream()
    ticking = itertools.count(1_000)
    automatic = AutomaticTime(period_ms=1, lag_ms=0, clock=ticking.__next__)
    with make_any(stream, log=late_log, automatically_note_time=automatic) as writer:
        mark_after(controller, stream, 1_000)
        writer.idle()
        writer.write([Event(b"a", segment="0")])
        mark_after(controller, stream, controller.marks(stream)[-1].time)
    assert controller.states(stream) == {"active": 1}
