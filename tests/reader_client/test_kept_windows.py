"""Windows that are kept with a reader's state: in one process, step by step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reader_client import (
    EventItem,
    EventReader,
    EventWindows,
    ReaderGroup,
    ReaderState,
    StateOfAnotherGroup,
    Tumbling,
    WatermarkItem,
)
from strandline.client import calls
from strandline.core.note import Note
from strandline.core.segment import NewSegment
from strandline.errors import InvalidConfig, StreamRecreated
from tests.reader_client.event_readers import QUICK, WAIT_S, Stepping, lose, reading, time_of, until
from tests.served import AT_ONCE


def take(reader: Any, windows: EventWindows[Any], count: int) -> list[Any]:
    """Reads so many events into windows; returns the watermarks that came between them."""
    watermarks, left = [], count
    while left:
        item = reader.read(WAIT_S * 1_000)
        if isinstance(item, EventItem):
            windows.add(item.time or 0, item.time or 0, part=item.place)
            left -= 1
        else:
            watermarks.append(item.watermark)
    return watermarks


def watermark(reader: Any, wanted: int) -> None:
    """Reads up to a watermark, with no event before it."""
    while (item := reader.read(WAIT_S * 1_000)).watermark != wanted:
        assert item.is_watermark


def options(windows: EventWindows[Any], **others: Any) -> dict[str, Any]:
    return {"time_domain": "event", "event_time": time_of, "windows": windows, **others}


def ten(written: Any, segments: int = 1) -> Any:
    written = written(segments)
    written.write(*[("0", time) for time in range(7)])
    written.note(7)
    return written


def test_a_reader_begins_with_the_windows_that_were_open(
    written_anywhere: Any, event_reader: Callable[..., Any], tmp_path: Path
) -> None:
    written, file = ten(written_anywhere), tmp_path / "state"
    group, logs = written.group(), {written.stream: written.open()}
    assert ReaderState.read(file) is None
    windows = EventWindows[int](Tumbling(10))
    first = event_reader(written.controller.url, group, "r1", logs, **options(windows), **QUICK)
    assert take(first, windows, 7) == []
    watermark(first, 7)
    windows.advance(7)
    assert first.settled == {written.stream: {"0": 0}}
    first.save().write(file)
    first.settle()
    assert first.settled == {written.stream: {"0": 7}}
    written.write(("0", 7))
    take(first, windows, 1)  # and its process is killed: nobody closes it

    written.write(("0", 8), ("0", 9), ("0", 11))
    written.note(11)
    state, windows = ReaderState.read(file), EventWindows[int](Tumbling(10))
    assert state is not None and state.settled == {written.stream: {"0": 6}}
    second = event_reader(written.controller.url, group, "r1", logs, **options(windows, state=state), **QUICK)
    take(second, windows, 4)
    watermark(second, 11)
    assert [each.events for each in windows.advance(11)] == [tuple(range(10))]
    second.close()


def test_a_stream_that_was_sealed_before_anyone_read_it_ends_although_its_log_does_not_know(written: Any) -> None:
    written, windows = ten(written), EventWindows[int](Tumbling(5))
    written.controller.run(calls.seal(written.stream, written.log.end_offsets()))
    with reading(written, written.group(), **options(windows)) as reader:
        take(reader, windows, 7)
        watermark(reader, 7)
        assert [each.events for each in windows.advance(7)] == [tuple(range(5))]
        reader.save()
        reader.settle()
        assert reader.read(WAIT_S * 1_000) is None


def test_another_reader_continues_from_what_was_saved_without_repeats(written: Any) -> None:
    written = ten(written)
    group, one, two = (
        written.group(reader_timeout_ms=600_000),
        EventWindows[int](Tumbling(10)),
        EventWindows[int](Tumbling(10)),
    )
    with reading(written, group, **options(one), report_ms=1) as hung:
        take(hung, one, 3)
        hung.save()
        hung.settle()
        take(hung, one, 4)
        hung.get_time_window()
        lose(written, group, "r1")
        with reading(written, group, "r2", **options(two), report_ms=1) as other:
            take(other, two, 4)
            hung.get_time_window()  # it finds that it has lost the segment
            assert one.add(6, 6, part=(written.stream, "0"))  # an event that it was about to add is not its own
            assert [each.events for each in one.finish()] == [(0, 1, 2)]
            assert [each.events for each in two.finish()] == [(3, 4, 5, 6)]


def kept_by_segment() -> tuple[dict[Any, ReaderState], Callable[[str, str], ReaderState | None]]:
    table: dict[Any, ReaderState] = {}
    return table, lambda stream, segment: table.get((stream, segment))


def test_a_segments_state_survives_until_its_windows_close(
    written: Any,
) -> None:
    #    0 ── 3 ─┐
    #            ├─ 2      0 is read to its end by r1, which dies: its events lie in a window that is open
    #    1 ── 0 ─┘
    written = written(2)
    table, recall = kept_by_segment()
    written.write(("0", 1), ("0", 2), ("0", 3))
    written.scale(["0", "1"], [NewSegment("2", 0.0, 1.0)])
    written.write(("2", 4), ("2", 5))
    group, one, two = written.group(), EventWindows[int](Tumbling(10)), EventWindows[int](Tumbling(10))
    logs = {written.stream: written.open()}
    dead = EventReader(written.controller.connection, group, "r1", logs, **options(one, recall=recall), **QUICK)
    take(dead, one, 4)
    table |= dead.save_segments()
    dead.settle()
    assert dead.settled[written.stream]["0"] == 2
    dead.get_time_window()
    dead.close()  # what is not settled goes to others

    with reading(written, group, "r2", **options(two, recall=recall)) as alive:
        take(alive, two, 1)
        written.note(20)
        watermark(alive, 20)
        assert [each.events for each in two.advance(20)] == [(1, 2, 3, 4, 5)]
        table |= alive.save_segments()
        alive.settle()
        alive.get_time_window()
        assert alive.settled == {written.stream: {"2": 2}}  # 0 is over now
    assert not [state for state in table.values() if state.windows and state.windows["events"]]


def test_a_state_that_lies_before_what_is_settled_is_refused(written: Any) -> None:
    written = ten(written)
    group, windows = written.group(), EventWindows[int](Tumbling(10))
    with reading(written, group) as reader:
        for _ in range(6):
            reader.read(WAIT_S * 1_000)
    old = ReaderState({written.stream: {"0": 2}}, {})
    with (
        pytest.raises(InvalidConfig, match="6 or later"),
        reading(written, group, **options(windows, recall=lambda stream, segment: old)),
    ):
        pass
    other = ReaderState({written.stream: {"1": 2}}, {})
    with (
        pytest.raises(InvalidConfig, match="the state of"),
        reading(written, group, **options(windows, recall=lambda stream, segment: other)),
    ):
        pass


def test_watermarks_that_were_not_handed_out_wait_for_what_is_read_again(written: Any) -> None:
    """A reader hears of a time, and before it is handed out another one dies, whose events are read again."""
    written = written(2)
    written.write(("0", 1), ("1", 2))
    written.note(10)
    group = written.group(reader_timeout_ms=600_000)
    one, two = EventWindows[int](Tumbling(10)), EventWindows[int](Tumbling(10))
    with (
        Stepping(written, group, "r1", **options(one)) as dead,
        Stepping(written, group, "r2", **options(two)) as alive,
    ):
        while [sum(map(len, each.positions.values())) for each in (dead, alive)] != [1, 1]:
            for each, windows in ((dead, one), (alive, two)):
                item = each.read()
                if isinstance(item, EventItem):
                    windows.add(item.time or 0, item.time or 0, part=item.place)
        while len(one) + len(two) < 2:
            for each, windows in ((dead, one), (alive, two)):
                item = each.read()
                if isinstance(item, EventItem):
                    windows.add(item.time or 0, item.time or 0, part=item.place)
        dead.get_time_window()
        assert alive.get_time_window().lower == 10  # it has the watermark in its queue
        lost = dict(dead.positions[written.stream])
        with ReaderGroup(written.controller.connection, group) as asked:
            assert asked.offline("r1", {written.stream: dict.fromkeys(lost, 0)}).lower is None
        assert alive.get_time_window().lower is None
        items = [alive.read() for _ in range(20)]
        told = [item.time if isinstance(item, EventItem) else item.watermark for item in items if item is not None]
        assert told[-1] == 10 and set(told[:-1]) <= {1, 2} and len(told) >= 2


def test_what_does_not_go_together_is_refused(written: Any) -> None:
    written = ten(written)
    with pytest.raises(InvalidConfig, match="windows"), reading(written, written.group(), recall=lambda *_: None):
        pass
    with reading(written, written.group()) as reader:
        for call in (reader.settle, reader.save_segments):
            with pytest.raises(InvalidConfig, match="windows"):
                call()
    begins = '{"positions": {}, "watermarks": {}, '
    wrong_fields = (
        *('"windows": 5', '"windows": {}', '"windows": {"events": 5}', '"windows": {"events": [[{"bytes": "?"}]]}'),
        *('"identities": 5', '"identities": {"s": 5}', f'"windows": {"[" * 100_000}', '"more": 5'),
    )
    for wrong in (*(f"{begins}{field}}}" for field in wrong_fields), None, 5):
        with pytest.raises(InvalidConfig, match="state cannot be"):
            ReaderState.from_json(wrong)  # type: ignore[arg-type]  # what is refused is the wrong type too


def test_a_state_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "state"
    state = ReaderState({"s": {"0": 5}}, {"": 3})
    state.write(file)
    replace(state, watermarks={"": 4}).write(file)
    again = ReaderState.read(str(file))
    assert again == ReaderState({"s": {"0": 5}}, {"": 4})
    assert [each.name for each in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize(
    "content",
    [
        b"{", b"{}", b"[]", b"\xff\xfe", b'{"positions": 5, "watermarks": {}}', b'{"positions": {}, "watermarks": 1}',
        b'{"positions": {"s": {"0": -1}}, "watermarks": {}}',
    ],
)  # fmt: skip
def test_a_damaged_state_file_is_named_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "state"
    file.write_bytes(content)
    with pytest.raises(InvalidConfig) as raised:
        ReaderState.read(file)
    said = str(raised.value)
    assert said.startswith(f"the state in {str(file)!r} cannot be {content!r}: ")
    assert "Restore the file; or remove it" in said and "__init__" not in said and "\"b'" not in said


@pytest.mark.parametrize("closes", [True, False])
def test_a_reader_further_ahead_takes_over_unsettled_events(written: Any, closes: bool) -> None:
    #   r1   0 1 2, kept    (W10: closes [0, 10))  kept           5 6         W20
    #   r2               3 4, kept    5 6                   dies
    written = ten(written)
    name, one, two = written.group(), EventWindows[int](Tumbling(10)), EventWindows[int](Tumbling(10))
    with (
        ReaderGroup(written.controller.connection, name) as group,
        reading(written, name, **options(one), report_ms=1) as first,
    ):
        take(first, one, 3)
        first.save()
        first.settle()
        first.get_time_window()
        group.offline("r1", {})
        with reading(written, name, "r2", **options(two), report_ms=1) as second:
            take(second, two, 2)
            second.save()
            second.settle()
            take(second, two, 2)
            written.note(10 if closes else 8)
            second.get_time_window()
            watermark(first, 10 if closes else 8)
            assert [each.events for each in one.advance(10 if closes else 8)] == [(0, 1, 2)] * closes
            first.save()
            first.settle()
            group.offline("r2", {})

            take(first, one, 2)
            written.note(20)
            watermark(first, 20)
            assert [each.events for each in one.advance(20)] == [(5, 6) if closes else (0, 1, 2, 5, 6)]


@pytest.mark.parametrize("recall", [None, lambda *_: None])
def test_a_segment_without_a_kept_state_opens_no_window_that_its_group_has_passed(written: Any, recall: Any) -> None:
    written = ten(written)
    group, one, two = written.group(), EventWindows[int](Tumbling(10)), EventWindows[int](Tumbling(10))
    with reading(written, group, **options(one), report_ms=1) as first:
        take(first, one, 7)
        written.note(10)
        watermark(first, 10)
        assert [each.events for each in one.advance(10)] == [tuple(range(7))]
        first.save()
        first.settle()
    written.write(("0", 8), ("0", 12))  # the first one breaks the promise of the mark at 10
    with reading(written, group, "r2", **options(two, recall=recall), report_ms=1) as second:
        take(second, two, 2)
        assert second.late.total == 1
        written.note(20)
        watermark(second, 20)
        assert [(each.start, each.events) for each in two.advance(20)] == [(10, (12,))]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_stream_that_is_read_again_has_each_event_once_in_a_window(written: Any, restarts: bool) -> None:
    one, other = written(1), written(1)
    name, logs = f"again-{one.stream}", {one.stream: one.open(), other.stream: other.open()}
    for world, time in ((one, 1), (other, 2)):
        world.write(("0", time))
        world.note(5)
    with ReaderGroup(one.controller.connection, name) as group, ExitStack() as opened:
        group.create([one.stream, other.stream], reader_timeout_ms=None)

        def begin(windows: EventWindows[int], state: ReaderState | None) -> EventReader:
            how = options(windows, state=state, **QUICK)
            return opened.enter_context(EventReader(one.controller.connection, name, "r1", logs, **how))

        windows = EventWindows[int](Tumbling(10))
        reader = begin(windows, None)
        take(reader, windows, 2)
        watermark(reader, 5)
        saved = reader.save()
        reader.settle()
        group.change(streams=[one.stream])
        reader.get_time_window()
        if restarts:
            saved, windows = reader.save(), EventWindows[int](Tumbling(10))
            reader.close()
            reader = begin(windows, saved)
        group.change(streams=[one.stream, other.stream])
        for world in (one, other):
            world.note(10)
        while not isinstance(item := reader.read(WAIT_S * 1_000), WatermarkItem) or item.watermark != 10:
            if isinstance(item, EventItem):
                windows.add(item.time or 0, item.time or 0, part=item.place)
        assert [sorted(each.events) for each in windows.advance(10)] == [[1, 2]]


def test_windows_over_another_key_begin_a_new_segment_at_their_own_bound(written: Any) -> None:
    written, windows = written(1), EventWindows[int](Tumbling(10))
    group, logs = written.group(), {written.stream: written.open()}

    def note(time: int, of_key: int) -> None:
        times = {"": time, "k": of_key}
        written.controller.run(
            calls.note(written.stream, Note(writer="w1", times=times, position=written.log.end_offsets()))
        )

    def times(event: Any) -> dict[str, int]:
        return {"": 1_000 + time_of(event), "k": time_of(event)}

    written.write(("0", 5))
    note(1_005, 5)
    how = options(windows, event_time=times, report_ms=1)
    with EventReader(written.controller.connection, group, "r1", logs, **how) as reader:
        until(reader, "W1005")
        written.scale(["0"], [NewSegment("1", 0, 0.5), NewSegment("2", 0.5, 1)])
        written.write(("1", 7))
        note(1_007, 7)
        item = reader.read(WAIT_S * 1_000)
        while item is not None and not item.is_event:
            item = reader.read(WAIT_S * 1_000)
        assert isinstance(item, EventItem) and not item.is_late
        assert windows.add(item.times["k"], item.times["k"], part=item.place)


def test_acknowledging_when_windows_close_holds_no_time_and_loses_nothing(written: Any) -> None:
    written = ten(written)
    group, windows = written.group(), EventWindows[EventItem](Tumbling(10))
    written.write(("0", 12), ("0", 7), ("0", 8), ("0", 9), ("0", 13))
    written.note(15)
    how: dict[str, Any] = {"time_domain": "event", "event_time": time_of, "acknowledge": True}
    with reading(written, group, **how) as reader:
        closed, told = list[Any](), 0
        while not closed:
            item = reader.read(WAIT_S * 1_000)
            if isinstance(item, EventItem):
                windows.add(item.time or 0, item)
            elif item is not None:
                assert item.watermark is not None
                closed, told = windows.advance(item.watermark), item.watermark
        assert ([each.time for each in closed[0].events], told) == ([*range(7), 7, 8, 9], 15)
        for each in closed[0].events:
            reader.done(each)
        assert reader.settled == {written.stream: {"0": 7}}  # the event at 12 lies in a window that is open
    again = EventWindows[int](Tumbling(10))
    assert again.advance(told) == []  # what was told up to there is kept with the results
    with reading(written, group, "r2", **how) as reader:
        counted = {time: again.add(time, time) for time in until(reader, 13) if isinstance(time, int)}
    assert counted == {12: True, 7: False, 8: False, 9: False, 13: True}
    assert [each.events for each in again.finish()] == [(12, 13)]


def test_a_state_of_another_group_or_of_a_stream_that_was_created_again_is_refused(written: Any) -> None:
    written, windows = ten(written), EventWindows[int](Tumbling(10))
    group, other = written.group(), written.group()
    with reading(written, group, **options(windows)) as reader:
        take(reader, windows, 7)
        state = ReaderState.from_json(reader.save().to_json())
    with pytest.raises(InvalidConfig, match="events of open windows"), reading(written, group, state=state):
        pass

    def refused(error: type[Exception], told: str) -> None:
        for again in ({"state": state}, {"recall": lambda stream, segment: state}):
            anew: EventWindows[int] = EventWindows(Tumbling(10))
            with pytest.raises(error, match=told), reading(written, other, **options(anew, **again)):
                pass

    refused(StateOfAnotherGroup, f"of group '{group}'.* of group '{other}'")
    written.controller.run(calls.delete_stream(written.stream))
    written.controller.run(calls.create_stream(written.stream, 1, AT_ONCE))
    other = written.group()
    refused(StreamRecreated, "Begin anew in the present stream")
