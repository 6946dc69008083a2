"""Marks that leave writers out: what a reader's windows say of it, and what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reader_client import EventReader, ReaderGroup, ReaderState, Tumbling, WatermarkItem
from strandline.client import calls
from strandline.core.note import Note
from strandline.errors import WritersLeftOut
from tests.reader_client.event_readers import QUICK, next_of, read, reading, time_of, until
from tests.served import AT_ONCE

OPTIONS: dict[str, Any] = {"time_domain": "event", "event_time": time_of, **QUICK}
TWO_WRITERS = replace(AT_ONCE, min_writers=2)


def shown(window: Any) -> tuple[int, list[int], tuple[str, ...]]:
    return window.start, sorted(int(each) for each in window.events), window.without


#   a     3          12          21       31
#   b        5                     15        32          15 was written while b was excluded, or before it noted again
#   marks          10        20 -b       30
def begun(written: Any) -> Any:
    """A stream of the writers a and b, whose first mark is complete."""
    world = written(2, TWO_WRITERS)
    world.write(("0", 3), ("1", 5))
    world.note(10, "a")
    world.note(10, "b")
    return world


def goes_on_without_b(world: Any) -> None:
    world.controller.run(calls.exclude(world.stream, "b"))
    world.write(("0", 12))
    world.note(20, "a")


def b_is_back(world: Any) -> None:
    world.write(("1", 15))
    world.controller.run(calls.include(world.stream, "b"))
    world.note(20, "b")
    world.write(("0", 31), ("1", 32))
    world.note(30, "b")
    world.note(30, "a")


def test_a_window_and_the_log_once_name_the_writers_that_marks_up_to_its_end_left_out(
    written: Any, lines: Callable[[], list[str]]
) -> None:
    world = begun(written)
    with reading(world, world.group(), **OPTIONS) as reader:
        windows = reader.windows(Tumbling(10), state=None)
        first = next(windows)
        assert (shown(first), first.complete, lines()) == ((0, [3, 5], ()), True, [])
        goes_on_without_b(world)
        second = next(windows)
        assert (shown(second), second.complete) == ((10, [12], ("b",)), False)
        began = (
            f"stream {world.stream!r}: marks leave out b from 1970-01-01T00:00:00.020Z on: windows that close now may "
            "lack what they wrote at 1970-01-01T00:00:00.010Z or later"
        )
        assert lines() == [began]
        b_is_back(world)
        world.write(("0", 41))
        world.note(40, "b")
        world.note(40, "a")
        world.seal()
        assert [shown(each) for each in windows] == [(30, [31, 32], ()), (40, [41], ())]
    ceased = f"stream {world.stream!r}: marks leave out b no longer, from 1970-01-01T00:00:00.0"
    assert [each.startswith(ceased) for each in lines() if "marks" in each] == [False, True]


def up_to(reader: Any, watermark: int) -> list[object]:
    """What comes until the group, whatever its reader does, has come to this watermark, and once more after that."""
    items: list[object] = []
    while reader.window is None or reader.window.watermarks != {"": watermark}:
        items += read(reader, 20)
    return items + read(reader, 50)


def test_a_reader_that_waits_stays_at_the_last_complete_mark_also_after_a_restart_and_in_a_replay(
    written: Any, event_reader: Callable[..., Any]
) -> None:
    world = begun(written)
    group, logs = world.group(), {world.stream: world.open()}
    waiting = {**OPTIONS, "on_incomplete": "wait"}
    first = event_reader(world.controller.url, group, "r1", logs, **waiting)
    assert until(first, "W10")[-1] == "W10"
    goes_on_without_b(world)
    assert up_to(first, 20) == [12]
    state = ReaderState.from_json(first.save().to_json())
    first.close()
    again = event_reader(world.controller.url, group, "r1", logs, state=state, **waiting)
    assert up_to(again, 20) == []
    replay = event_reader(world.controller.url, world.group(), "r1", logs, **waiting)
    assert [each for each in up_to(replay, 20) if isinstance(each, str)] == ["W10"]
    b_is_back(world)
    for reader in (again, replay):
        items = until(reader, "W30")
        assert (15 in items, reader.late.total) == (True, 0)
        reader.close()


def test_a_reader_that_is_to_fail_names_the_writers_and_loses_nothing(written: Any, tmp_path: Path) -> None:
    world = begun(written)
    group, failing = world.group(), {**OPTIONS, "on_incomplete": "fail"}
    with reading(world, group, **failing) as reader:
        windows = reader.windows(Tumbling(10), state=tmp_path / "state")
        assert shown(next(windows)) == (0, [3, 5], ())
        goes_on_without_b(world)
        with pytest.raises(WritersLeftOut, match=r"mark 20 of stream .* leaves out b, and the last complete is 10"):
            next(windows)
    b_is_back(world)
    world.seal()
    with reading(world, group, **failing) as reader:
        found = [shown(each) for each in reader.windows(Tumbling(10), state=tmp_path / "state")]
    assert found == [(10, [12, 15], ()), (30, [31, 32], ())]


#   key ""   a 10        20          whoever has nothing to do with a key is left out of none of its marks
#   key k    b 10  b excluded  a 20
def test_a_watermark_names_whom_the_marks_of_its_own_key_leave_out(written: Any) -> None:
    world = written(1)

    def note(writer: str, **times: int) -> None:
        keyed = {key.strip("_"): time for key, time in times.items()}
        world.controller.run(calls.note(world.stream, Note(writer=writer, times=keyed, position={"0": 1})))

    world.write(("0", 3))
    note("a", _=10, k=10)
    note("b", k=10)
    world.controller.run(calls.exclude(world.stream, "b"))
    note("a", _=20, k=20)
    with reading(world, world.group(), time_domain="event") as reader:
        found: dict[tuple[str, int], bool] = {}
        while not {("", 20), ("k", 20)} <= found.keys():
            item = next_of(reader)
            if isinstance(item, WatermarkItem):
                found[item.key, item.watermark] = item.complete
    assert (found["", 20], found["k", 20]) == (True, False)


#   one     10        20                    stream one goes on
#   other   10 (b)    b excluded, a idle    the group leaves stream other out, though nobody knows what b wrote
@pytest.mark.parametrize("policy", ["go_on", "fail"])
def test_a_stream_that_is_set_aside_counts_as_one_whose_marks_leave_a_writer_out(written: Any, policy: str) -> None:
    one, other = written(1), written(1, TWO_WRITERS)
    for world, writers in ((one, "a"), (other, "ab")):
        world.write(("0", 3))
        for writer in writers:
            world.note(10, writer)
    with ReaderGroup(one.controller.connection, f"aside-{one.stream}-{policy}") as group:
        group.create([one.stream, other.stream])
    logs = {one.stream: one.open(), other.stream: other.open()}
    with EventReader(
        one.controller.connection, f"aside-{one.stream}-{policy}", "r1", logs, **OPTIONS, on_incomplete=policy
    ) as reader:
        until(reader, "W10")
        one.controller.run(calls.exclude(other.stream, "b"))
        one.controller.run(calls.idle(other.stream, "a"))
        one.note(20, "a")
        if policy == "fail":
            with pytest.raises(WritersLeftOut, match=f"mark 20 of stream '{other.stream}' leaves out b"):
                until(reader, "W20")
        else:
            item = next_of(reader)
            assert isinstance(item, WatermarkItem)
            assert (item.watermark, item.complete, item.left_out) == (20, False, {"b": 10})


#   one     10       20    30      the group goes on to 20 without b; then b is back, and the stream has to pass 20
#   other   10 (b)   ── left out ──   30
@pytest.mark.parametrize("has_bound", [True, False])
def test_whom_a_group_went_on_without_is_named_until_the_stream_has_passed_that(written: Any, has_bound: bool) -> None:
    one, other = written(1), written(1, TWO_WRITERS)
    one.write(("0", 3))
    one.note(10, "a")
    for writer in "ab" if has_bound else "b":
        other.note(10, writer)
    name, logs = f"back-{one.stream}", {one.stream: one.open(), other.stream: other.open()}
    with ReaderGroup(one.controller.connection, name) as group:
        group.create([one.stream, other.stream])
    with EventReader(one.controller.connection, name, "r1", logs, **OPTIONS) as reader:
        one.controller.run(calls.exclude(other.stream, "b"))
        if has_bound:
            until(reader, "W10")
            one.controller.run(calls.idle(other.stream, "a"))
        one.note(20, "a")
        while (item := next_of(reader)).watermark != 20:
            assert item.is_event or not has_bound
        assert item.left_out == {"b": 10 if has_bound else None}
        one.controller.run(calls.include(other.stream, "b"))
        window = reader.get_time_window()
        aside = window.streams[other.stream].set_aside
        assert (window.complete, aside and aside.writers) == (False, ("b",)), "the watermark was told without it"
        for world in (one, other):
            for writer in "ab":
                world.note(30, writer)
        assert next_of(reader).left_out == {}
        window = reader.get_time_window()
        assert (window.complete, window.streams[other.stream].set_aside) == (True, None)
