"""What waiting writers do by themselves, beside the calls of whoever uses them; what all writers share is tested in
`test_automatic.py`, `test_resting.py` and `test_open_transactions.py`."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from strandline.client.retry import Patience
from strandline.logs.sqlite import SqliteLog
from tests.writer_client.clocks import SOON, Clock, mark_after, wait_for
from writer_client import (
    AutomaticTime,
    CommittedWithoutNote,
    Event,
)

EVENT = [Event(b"a", segment="0")]
IMPATIENT = Patience(first_pause_ms=1, pause_bound_ms=1, attempts=2)

pytestmark = pytest.mark.parametrize("make_any", ["waiting", "awaiting"], indirect=True)


def clock_of(now: int) -> tuple[Clock, AutomaticTime]:
    clock = Clock(now)
    return clock, AutomaticTime(period_ms=SOON, lag_ms=0, clock=clock)


def threads() -> int:
    """Those of writers: a connection's own, which notices an answer that is overdue, ends with the connection."""
    names = [thread.name for thread in threading.enumerate()]
    return sum(name.startswith("strandline-") and name != "strandline-overdue" for name in names)


def test_a_note_of_the_clock_that_takes_long_keeps_no_write_waiting(
    controller: Any, make_any: Any, late_log: Any
) -> None:
    stream, (_, automatic) = controller.stream(), clock_of(1_000)
    with make_any(stream, log=late_log, automatically_note_time=automatic) as writer:
        mark_after(controller, stream, 0)
        late_log.acknowledges.clear()
        late_log.flushes.clear()
        assert late_log.flushes.wait(30)
        for _ in range(10):
            writer.write(EVENT)
        assert late_log.flushes.is_set()  # still under way
        late_log.acknowledges.set()
    assert controller.states(stream) == {"active": 1}


@pytest.mark.parametrize("end", ["close", "release", "an exception"])
def test_nothing_goes_on_behind_a_writer_that_has_ended(
    controller: Any, make_any: Any, late_log: Any, wire: Any, end: str
) -> None:
    stream, (_, automatic) = controller.stream(), clock_of(1_000)
    before = threads()
    writer = make_any(stream, log=late_log, wire=wire, automatically_note_time=automatic, idle_after_ms=60_000)
    if end == "an exception":
        with pytest.raises(ZeroDivisionError), writer:
            mark_after(controller, stream, 0)
            raise ZeroDivisionError
    else:
        writer.register()
        mark_after(controller, stream, 0)
        getattr(writer, end)()
    wait_for(lambda: threads() <= before)
    assert controller.states(stream) == {"closed" if end == "close" else "active": 1}


def test_a_commits_unanswered_time_is_noted_by_the_writer(
    controller: Any, make_any: Any, tmp_path: Path, wire: Any
) -> None:
    stream, automatic = controller.stream(), AutomaticTime(period_ms=SOON, lag_ms=0, clock=Clock(1_000))
    with (
        SqliteLog.create(tmp_path / "log.db", 3) as log,
        make_any(stream, log=log, wire=wire, patience=IMPATIENT, automatically_note_time=automatic) as writer,
    ):
        mark_after(controller, stream, 0)
        with writer.begin() as transaction:
            transaction.write([Event(b"a", segment="0")])
            wire.faults = ["away"] * 1_000_000
            with pytest.raises(CommittedWithoutNote):
                transaction.commit(5_000)
        wire.faults = []
        wait_for(lambda: writer.status().noted.get("") == 5_000)
        assert mark_after(controller, stream, 1_000).cut == {"0": 1}
        with writer.begin() as transaction:
            transaction.write([Event(b"b", segment="0")])
            assert transaction.commit(6_000) is not None
        assert controller.marks(stream)[-1].cut == {"0": 2}
