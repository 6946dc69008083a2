"""What a reader writes to its program's log, so that a result that lacks something does not look exact."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from reader_client import EventReader, ReaderGroup, ReaderState, Tumbling
from strandline.logs import Event
from strandline.logs.errors import NotInLog
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader
from tests.reader_client.event_readers import QUICK, next_of, reading, time_of, until

OPTIONS: dict[str, Any] = {"time_domain": "event", "event_time": time_of, **QUICK}
NOON = 1_767_268_800_000


class Hours:
    """The monotonic clock, which a test moves ahead."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def __call__(self) -> float:
        return time.monotonic() * 1_000 + self.ahead_ms


def test_late_events_are_named_at_once_and_counted_once_a_minute_and_at_the_end(
    written: Any, event_reader: Callable[..., Any], lines: Callable[[], list[str]]
) -> None:
    world, clock = written(1), Hours()
    world.write(("0", 5))
    world.note(10)
    group = world.group()
    options = {**OPTIONS, "writer_of": lambda event: "dawdler", "now_ms": clock}
    reader = event_reader(world.controller.url, group, "r1", {world.stream: world.open()}, **options)
    until(reader, "W10")
    world.write(("0", 3))
    assert until(reader, 3) == [3]
    clock.ahead_ms += 1_000
    reader.read(1)
    first = (
        f"reader 'r1' of group {group!r}: 1 event was late, such as the one at {world.stream}/0, offset 1 of writer "
        "'dawdler', whose time 1970-01-01T00:00:00.003Z is below 1970-01-01T00:00:00.010Z: item.late flags them, and "
        "closed windows lack them"
    )
    assert lines() == [first]
    world.write(("0", 4), ("0", 6))
    until(reader, 6)
    clock.ahead_ms += 1_000
    reader.read(1)
    assert lines() == [first]
    clock.ahead_ms += 60_000
    reader.read(1)
    assert [each.split(", such")[0] for each in lines()[1:]] == [f"reader 'r1' of group {group!r}: 2 events were late"]
    world.write(("0", 7))
    until(reader, 7)
    reader.close()
    assert "1 event was late, such as the one at" in lines()[2] and "offset 4" in lines()[2]


def test_the_first_event_without_a_readable_time_and_one_without_any_are_named(
    written: Any, lines: Callable[[], list[str]]
) -> None:
    world = written(1)
    world.log.append([Event(b"7", segment="0"), Event(b"noon", segment="0")])
    world.log.flush()
    with reading(world, world.group(), **OPTIONS) as reader:
        until(reader, 7)
        for _ in range(2):
            with pytest.raises(ValueError, match="noon"):
                next_of(reader)
    (line,) = lines()
    assert f"the event at {world.stream}/0, offset 1 has no readable time (ValueError: invalid literal" in line
    with reading(world, world.group(), **{**OPTIONS, "event_time": lambda event: {}}) as reader:
        until(reader, 7)
    assert "offset 0 has no readable time (event_time gives it none)" in lines()[-1]


@pytest.mark.parametrize(
    ("scale", "looks"), [(1 / 1_000, "1767268800 looks like seconds"), (1_000, "looks like microseconds"), (1, None)]
)
def test_the_first_time_in_another_unit_than_the_marks_is_named(
    written: Any, lines: Callable[[], list[str]], scale: float, looks: str | None
) -> None:
    world = written(1)
    world.note(NOON)
    world.write(("0", int((NOON) * scale)), ("0", int((NOON + 5_000) * scale)))
    world.note(NOON + 10_000)
    with reading(world, world.group(), **OPTIONS) as reader:
        until(reader, f"W{NOON + 10_000}")
    found = [each for each in lines() if "looks like" in each]
    assert len(found) == (looks is not None)
    assert all(str(looks) in each and f"{world.stream}/0, offset 0" in each for each in found)


def test_a_group_that_has_read_all_says_so_once_and_how_to_read_again(
    written: Any, tmp_path: Path, lines: Callable[[], list[str]]
) -> None:
    world = written(1)
    world.write(("0", 3))
    world.note(10)
    world.seal()
    group = world.group()
    for found in ([3], []):
        assert lines() == []
        with reading(world, group, **OPTIONS) as reader:
            windows = reader.windows(Tumbling(10), state=tmp_path / "state")
            assert [int(event or b"") for each in windows for event in each.events] == found
    (line,) = lines()
    assert line.startswith(f"group {group!r} has read all of its streams") and "of another name" in line


def test_windows_that_go_on_without_their_state_say_so(
    written: Any, tmp_path: Path, lines: Callable[[], list[str]]
) -> None:
    world = written(1)
    world.write(("0", 1), ("0", 11), ("0", 12))
    world.note(13)
    group, times = world.group(), count(24, 20)

    def starts(state: str) -> list[int]:
        found = []
        time = next(times)
        with reading(world, group, **OPTIONS) as reader:
            for window in reader.windows(Tumbling(10), state=tmp_path / state):
                found.append(window.start)
                if window.end > 20 or len(found) == 2:
                    break
                world.write(("0", time), ("0", time + 7))
                world.note(time + 8)
        return found

    assert starts("state") == [0, 10]
    assert lines() == []
    assert starts("state")[0] == 10
    assert lines() == []
    state = tmp_path / "state"
    kept = ReaderState.read(state)
    state.unlink()
    starts("state")
    (line,) = lines()
    assert f"reader 'r1' of group {group!r} goes on at {world.stream}/0, offset" in line and "state file" in line
    assert kept is not None
    replace(kept, windows=None).write(state)
    starts("state")
    assert len(lines()) == 2 and "without a state from before" in lines()[1]


def test_windows_of_a_group_that_others_read_too_say_so(
    written: Any, tmp_path: Path, lines: Callable[[], list[str]]
) -> None:
    world = written(2)
    group = world.group()
    with reading(world, group, **OPTIONS) as first:
        first.windows(Tumbling(10), state=tmp_path / "first")
        first.read(1)
        assert lines() == []
        with reading(world, group, "r2", **OPTIONS) as second:
            second.windows(Tumbling(10), state=tmp_path / "second")
            while len(lines()) < 2:
                second.read(1)
                first.read(1)
    for name, line in zip(("r1", "r2"), sorted(lines()), strict=True):
        assert line.startswith(f"reader {name!r} of group {group!r}: others read this group too")


def test_a_log_that_ends_before_the_marks_is_named_after_ten_seconds(
    written: Any, tmp_path: Path, lines: Callable[[], list[str]]
) -> None:
    world, clock = written(1), Hours()
    world.write(("0", 3), ("0", 4), ("0", 12))
    world.note(13)
    other = SqliteLog.create(tmp_path / "other.log", 1)
    other.append([Event(b"3", segment="0")])
    options = {**OPTIONS, "now_ms": clock}
    logs = {world.stream: SqliteLogReader(tmp_path / "other.log")}
    with EventReader(world.controller.connection, world.group(), "r1", logs, **options) as reader:
        until(reader, 3)
        reader.read(30)
        assert lines() == []
        for _ in range(3):
            clock.ahead_ms += 10_000
            reader.read(30)
    (line,) = lines()
    assert f"the log of stream {world.stream!r} ends at 1 in segment '0', and the marks are at 3: is it the" in line


def test_a_reader_that_has_read_its_log_to_the_marks_or_further_waits_without_a_word(
    written: Any, lines: Callable[[], list[str]]
) -> None:
    world, clock = written(1), Hours()
    world.write(("0", 3), ("0", 4))
    world.note(5)
    world.write(("0", 6))
    with reading(world, world.group(), **OPTIONS, now_ms=clock) as reader:
        until(reader, 6)
        for _ in range(2):
            clock.ahead_ms += 10_000
            reader.read(30)
    assert lines() == []


def test_a_reader_behind_a_removed_head_is_shown_where_to_begin_and_begins_there(written: Any) -> None:
    world = written(1)
    world.write(*[("0", time) for time in range(6)])
    world.note(6)
    world.seal()
    assert isinstance(world.log, SqliteLog)
    world.log.truncate({"0": 4})
    group = world.group()
    there = {world.stream: {"0": 4}}
    with pytest.raises(NotInLog) as caught, reading(world, group, **OPTIONS) as reader:
        next_of(reader)
    assert f"{world.stream}/0 begins at 4 now" in str(caught.value)
    assert f"ReaderGroup(…, {group!r}).register('r1', {there!r})" in str(caught.value)
    with ReaderGroup(world.controller.connection, group) as asked:
        asked.register("r1", there)
    with reading(world, group, **OPTIONS) as reader:
        assert until(reader, 5)[-1] == 5 and reader.positions[world.stream] == {"0": 6}
