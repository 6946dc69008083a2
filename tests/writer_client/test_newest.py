"""The greatest event time below a position: said where it is known, and nowhere else."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.client import calls
from strandline.errors import InvalidConfig, InvalidName, InvalidNote
from strandline.logs.sqlite import SqliteLog
from writer_client import Event
from writer_client.newest_time import NewestTime

APPENDS = st.lists(st.tuples(st.booleans(), st.integers(1, 3), st.none() | st.integers(0, 50)), max_size=12)


@given(appends=APPENDS)
def test_newest_is_said_only_for_ones_own_timed_writes(
    appends: list[tuple[bool, int, int | None]],
) -> None:
    newest, end = NewestTime(), 0
    for own, count, time in appends:
        end += count
        if own:
            newest.add(count, {} if time is None else {"": time})
    times = [time for own, _, time in appends if own and time is not None]
    known = bool(appends) and len(times) == len(appends)
    assert newest.below({"0": end // 2, "1": end - end // 2}) == ({"": max(times)} if known else {})


@given(appends=st.lists(st.dictionaries(st.sampled_from(["", "a", "b"]), st.integers(0, 9)), min_size=1))
def test_each_key_is_known_by_itself(appends: list[dict[str, int]]) -> None:
    newest = NewestTime()
    for times in appends:
        newest.add(1, times)
    everywhere = set.intersection(*(set(times) for times in appends))
    assert newest.below({"0": len(appends)}) == {key: max(times[key] for times in appends) for key in everywhere}


def test_reading_from_a_time_is_exact_where_writes_give_times(
    controller: Any, make_writer: Any, tmp_path: Path
) -> None:
    stream = controller.stream()
    with SqliteLog.create(tmp_path / "log.db", 3) as log, make_writer(stream, log=log) as writer:
        for time in (100, 200, 300):
            # Written ahead of its note: who starts at the last mark below 350 would miss it, but for `newest`.
            writer.write([Event(b"x", segment="0")], newest=time + 60)
            writer.note_time(time)
        assert [mark.newest for mark in controller.marks(stream)] == [160, 260, 360]
        found = controller.run(calls.marks_at(stream, 320))
        assert (found.start, found.exact) == ({"0": 2}, True)


@pytest.mark.parametrize("spoiler", ["another writer", "a write without a time", "events that were there before"])
def test_what_the_writer_cannot_know_it_leaves_out(
    controller: Any, make_writer: Any, tmp_path: Path, spoiler: str
) -> None:
    stream = controller.stream()
    with SqliteLog.create(tmp_path / "log.db", 3) as log, SqliteLog(tmp_path / "log.db") as other:
        if spoiler == "events that were there before":
            other.append([Event(b"y", segment="1")])
        with make_writer(stream, log=log) as writer:
            if spoiler == "another writer":
                other.append([Event(b"y", segment="0")])
            writer.write([Event(b"x", segment="0")], newest=None if spoiler == "a write without a time" else 160)
            (mark,) = writer.note_time(100).marks
            assert mark.newest is None


def test_newest_that_is_given_holds_for_ones_own_events_only(controller: Any, make_writer: Any, late_log: Any) -> None:
    late_log.append([Event(b"another writer's", segment="0")])
    late_log.forget_own()
    with make_writer(controller.stream(), log=late_log) as writer:
        writer.write([Event(b"x", segment="0")])
        (mark,) = writer.note_time(100, newest=180).marks
        assert mark.newest is None


def test_after_a_write_that_failed_nothing_is_known(controller: Any, make_writer: Any, late_log: Any) -> None:
    with make_writer(controller.stream(), log=late_log) as writer:
        writer.write([Event(b"x", segment="0")], newest=160)
        late_log.failure = ConnectionError("the log is gone")
        with pytest.raises(ConnectionError):
            writer.note_time(100)
        late_log.failure = None
        (mark,) = writer.note_time(100).marks
        assert mark.newest is None


def test_newest_in_a_note_covers_only_writes_until_then(controller: Any, make_background: Any, late_log: Any) -> None:
    stream = controller.stream()
    with make_background(stream, log=late_log) as writer:
        late_log.acknowledges.clear()
        writer.write([Event(b"x", segment="0")])
        writer.note_time(100)
        assert late_log.flushes.wait(30)
        writer.note_time(200, newest=250)
        writer.write([Event(b"newer", segment="0")])  # and the position of the note before will cover it
        late_log.acknowledges.set()
        assert writer.wait_until_answered()
        writer.note_time(300, newest=350)
        assert writer.wait_until_answered()
    assert [(mark.time, mark.newest) for mark in controller.marks(stream)][-2:] == [(200, None), (300, 350)]


@pytest.mark.parametrize(
    ("newest", "error"),
    [
        (1_700_000_000_000.5, InvalidNote),
        (datetime(2026, 1, 1), InvalidConfig),  # noqa: DTZ001  # that is the mistake
        ({"no key": 160}, InvalidName),
    ],
)
def test_a_write_whose_newest_is_no_time_writes_nothing(
    controller: Any, make_any: Any, tmp_path: Path, newest: Any, error: type[Exception]
) -> None:
    stream, events = controller.stream(), [Event(b"x", segment="0")]
    with SqliteLog.create(tmp_path / "log.db", 3) as log, make_any(stream, log=log) as writer:
        with pytest.raises(error):
            writer.write(events, newest=newest)
        with writer.begin() as transaction:
            with pytest.raises(error):
                transaction.write(events, newest=newest)
            transaction.commit()
        assert log.end_offsets()["0"] == 0
        assert not writer.status().failed_write
        writer.write(events, newest=160)
        writer.note_time(100)
    assert [mark.newest for mark in controller.marks(stream)] == [160]
