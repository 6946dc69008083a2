"""Retention by time: what is older than a time goes from the log and from the stream, and nothing newer."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from strandline.client import calls
from strandline.core.config import StreamConfig, TimeDomain
from strandline.errors import UnknownSegment
from strandline.logs import Position
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader
from tests.served import AT_ONCE
from writer_client import Event, NewerBelow, Writer
from writer_client.retention import truncate_before


@pytest.fixture
def log(tmp_path: Path) -> Any:
    with SqliteLog.create(tmp_path / "orders.log", segments=1) as made:
        yield made


def written(controller: Any, log: SqliteLog, *, newest: bool, early: int | None = None) -> str:
    """A stream with events at 100, 200, … 900, each noted. One at `early` stands in place of the one at 300."""
    stream: str = controller.stream(segments=1)
    with Writer(controller.connection, stream, "w1", log=log) as writer:
        for at in range(100, 1_000, 100):
            own = early if early is not None and at == 300 else at
            writer.write([Event(b"%d" % own, segment="0")], newest=own if newest else None)
            writer.note_time(at)
    return stream


def head_of(controller: Any, stream: str) -> dict[str, int]:
    found: dict[str, int] = httpx.get(f"{controller.url}/v1/streams/{stream}").json()["head"]
    return found


def times_left(log: SqliteLog) -> list[int]:
    ends = log.end_offsets()
    with SqliteLogReader(log.path) as reader:
        begin = next(at for at in range(ends["0"]) if _is_there(reader, at))
        return [int(event.value or b"") for event in reader.rows("0", begin, ends["0"])]


def _is_there(reader: SqliteLogReader, offset: int) -> bool:
    try:
        return bool(list(reader.rows("0", offset, offset + 1)))
    except Exception:  # NotInLog, which other tests look at
        return False


class _Refusing:
    def truncate(self, head: Position) -> Position:
        raise UnknownSegment(segment="0", known=())


def test_truncation_removes_what_is_older_and_nothing_newer_also_after_an_interruption(
    controller: Any, log: SqliteLog
) -> None:
    stream = written(controller, log, newest=True)
    assert truncate_before(controller.connection, stream, log, 50) == {}  # before the first mark there is nothing
    with pytest.raises(UnknownSegment):
        truncate_before(controller.connection, stream, _Refusing(), 500)
    assert head_of(controller, stream) == {} and len(times_left(log)) == 9

    assert truncate_before(controller.connection, stream, log, 300) == {"0": 2}
    assert times_left(log) == [300, 400, 500, 600, 700, 800, 900]
    assert head_of(controller, stream) == {"0": 2}

    log.truncate({"0": 4})  # and there it ended
    for _ in range(2):
        assert truncate_before(controller.connection, stream, log, 500) == {"0": 4}
    assert times_left(log) == [500, 600, 700, 800, 900]
    assert head_of(controller, stream) == {"0": 4}


def test_an_event_that_was_written_ahead_of_its_note_stays(controller: Any, log: SqliteLog) -> None:
    stream = written(controller, log, newest=True, early=750)
    assert truncate_before(controller.connection, stream, log, 500) == {"0": 2}
    assert 750 in times_left(log)


def test_without_newest_it_is_refused_and_done_only_when_told_so(controller: Any, log: SqliteLog) -> None:
    stream = written(controller, log, newest=False)
    with pytest.raises(NewerBelow, match="newer_too"):
        truncate_before(controller.connection, stream, log, 500)
    assert len(times_left(log)) == 9 and head_of(controller, stream) == {}

    assert truncate_before(controller.connection, stream, log, 550, newer_too=True) == {"0": 5}
    assert times_left(log) == [600, 700, 800, 900]


def test_by_ingestion_time_what_had_come_before_goes_without_anybody_noting_newest(
    controller: Any, log: SqliteLog
) -> None:
    """A mark's own time would not do: what came between the clock and the look at the log's end lies below its cut."""
    config = StreamConfig(time_domain=TimeDomain.INGESTION, mark_interval_ms=0)
    stream = controller.stream(segments=1, config=config)
    appended: list[int] = []
    for _ in range(5):
        clock = controller.connection.run(calls.clocked(calls.describe(stream))).clock
        time.sleep(0.01)  # an event that is newer than the clock that was asked, and lies below the end
        log.append([Event(b"1", segment="0")])
        appended.append(clock)
        controller.run(calls.tail(stream, "tail", clock, log.end_offsets()))
        time.sleep(0.01)  # the next mark's time is above the moment at which this one was made
    marks = controller.marks(stream)
    third = next(mark for mark in marks if mark.cut["0"] == 3)

    assert truncate_before(controller.connection, stream, log, third.created_at) == {"0": 2}
    assert truncate_before(controller.connection, stream, log, third.created_at + 1) == {"0": 3}


def test_slices_leave_room_for_writers_and_remove_everything(
    controller: Any, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.logs.sqlite.TRUNCATE_ROWS", 2)
    stream = controller.stream(segments=1, config=AT_ONCE)
    with Writer(controller.connection, stream, "w1", log=log) as writer:
        writer.write([Event(b"%d" % at, segment="0") for at in range(9)], newest=8)
        writer.note_time(9)
    assert truncate_before(controller.connection, stream, log, 10) == {"0": 8}
    assert times_left(log) == [8]
