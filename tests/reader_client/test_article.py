"""The article's figures and its three edge cases (PDP-33), and PDP-26's diagram, end to end: notes, a log of each kind,
the controller, a group's readers.

`tests/source_documents` has the same for the core alone.
"""

from __future__ import annotations

from typing import Any

import pytest

from reader_client import EventItem, EventReader, EventWindows, ReaderGroup, Tumbling
from reader_client.event_windows import Closed
from reader_client.items import Item
from strandline.client import calls
from strandline.core.note import Note
from strandline.logs import Event


def note(written: Any, time: int, position: dict[str, int], writer: str = "w") -> None:
    written.controller.run(calls.note(written.stream, Note(writer=writer, times={"": time}, position=position)))


class Stepping(EventReader):
    """Reports with every read: its clock goes on by a second before each, and stands still meanwhile."""

    def __init__(self, written: Any, group: str, name: str = "r1", **options: Any) -> None:
        self._now = 0
        logs = {written.stream: written.open()}
        super().__init__(written.controller.connection, group, name, logs, now_ms=lambda: self._now, **options)

    def read(self, wait_ms: float | None = 0) -> Item | None:
        self._now += 1_000
        return super().read(0)


def take(reader: Stepping) -> Item:
    for _ in range(1_000):
        item = reader.read()
        if item is not None:
            return item
    raise AssertionError("nothing came")


def read(reader: Stepping, count: int) -> None:
    """Reads so many events, and asks for one more: by then they count as read, and are reported."""
    for _ in range(count + 1):
        take(reader)


def bounds(written: Any, group: str) -> tuple[int | None, int | None]:
    with ReaderGroup(written.controller.connection, group) as asked:
        window = asked.get_time_window().streams[written.stream]
        return window.lower, window.upper


def test_figure_2_a_window_closes_only_with_the_watermark(
    written_anywhere: Any,
) -> None:
    """Event 8 comes before event 7: the window up to 8 is open when the first one past its end is read."""
    written = written_anywhere(1)
    windows, closed = EventWindows[int](Tumbling(4)), list[Closed[int]]()
    for times, noted in [((4, 5, 6, 8, 7), 8), ((9, 11), 10)]:
        written.write(*[("0", time) for time in times])
        written.note(noted)
    with Stepping(
        written, written.group(), time_domain="event", event_time=lambda event: int(event.value or b"")
    ) as reader:
        while len(closed) < 1:
            item = take(reader)
            if isinstance(item, EventItem):
                assert windows.add(item.time or 0, item.time or 0)
            else:
                closed += windows.advance(item.watermark)
    assert [(each.start, each.end, each.events) for each in closed] == [(4, 8, (4, 5, 6, 7))]


def test_figure_5_a_reader_past_the_mark_misses_nothing_older(written_anywhere: Any) -> None:
    """Three writers note (100, 0:2 1:4), (105, 1:5 2:1) and (102, 0:3): the mark is (100, 0:3 1:5 2:1)."""
    written = written_anywhere(3)
    written.controller.run(calls.ask("PATCH", f"/v1/streams/{written.stream}", lambda *_: None, {"min_writers": 3}))
    written.write(*[("0", 90)] * 3, *[("1", 91)] * 5, ("2", 92))
    for writer, time, position in [
        ("w1", 100, {"0": 2, "1": 4}),
        ("w2", 105, {"1": 5, "2": 1}),
        ("w3", 102, {"0": 3}),
    ]:
        note(written, time, position, writer)
    group = written.group()
    with Stepping(written, group, time_domain="event") as reader:
        events = [take(reader) for _ in range(9)]
        assert all(item.is_event for item in events)
        assert bounds(written, group) == (None, 105)  # the last one is not dealt with yet
        assert take(reader).watermark == 100
        assert bounds(written, group) == (100, None)


def test_figure_6_and_the_edge_cases(written_anywhere: Any) -> None:
    written = written_anywhere(2)
    group = written.group()
    with Stepping(written, group) as one, Stepping(written, group, "r2") as two:
        while [sum(map(len, each.positions.values())) for each in (one, two)] != [1, 1]:
            assert one.read() is two.read() is None
        ahead, behind = (one, two) if "0" in one.positions[written.stream] else (two, one)
        for time in range(1, 6):
            written.write(*[("0", time)] * 2, *[("1", time)] * 2)
            written.note(time)

        # Before the first mark: no lower bound.
        assert bounds(written, group) == (None, 1)

        #   segment 0   ──┬──┬──┬──┬──┬──     9 of 10: past mark 4, not past mark 5
        #   marks         1  2  3  4  5
        #   segment 1   ──┴──┴──┴──┴──┴──     5 of 10: past mark 2, not past mark 3
        read(ahead, 9)
        read(behind, 5)
        assert bounds(written, group) == (2, 5)

        # A reader is dead, and its events are to be processed again: the window goes back, and the events come again.
        with ReaderGroup(written.controller.connection, group) as asked:
            window = asked.offline("r1" if behind is one else "r2", {written.stream: {"1": 2}})
        assert window.streams[written.stream].lower == 1
        read(behind, 3)  # from the second mark's first event on, again
        assert bounds(written, group) == (2, 5)

    # Past the last mark: no upper bound, and the lower one lags until the next mark is made.
    with Stepping(written, group) as reader:
        written.write(("0", 5), ("1", 5))
        while reader.positions.get(written.stream) != {"0": 11, "1": 11}:
            reader.read()
        reader.read()
        assert bounds(written, group) == (5, None)
        written.note(6)
        assert bounds(written, group) == (6, None)


@pytest.mark.parametrize("ordered", [True, False])
def test_the_diagram_of_ingestion_watermarks(written_anywhere: Any, ordered: bool) -> None:
    """Segment 1: A B │12:00│ C D │12:02│, segment 2: A B C │12:01│ …

    The group: W(11:55) 1A 2A 1B 2B 2C W(12:00) 1C 1D W(12:01).
    """
    written = written_anywhere(3)

    def append(*names: str) -> None:
        written.log.append([Event(name.encode(), segment=name[0]) for name in names])
        written.log.flush()

    note(written, 1155, {})
    append("1A", "1B", "2A", "2B", "2C")
    note(written, 1200, {"1": 2, "2": 3})
    append("1C", "1D")
    note(written, 1201, {"1": 4, "2": 3})
    with Stepping(written, written.group(), time_domain="event", ordered=ordered) as reader:
        items = [take(reader) for _ in range(10)]
    told = [(item.event.value or b"").decode() if isinstance(item, EventItem) else item.watermark for item in items]
    if ordered:
        assert told == [1155, "1A", "2A", "1B", "2B", "2C", 1200, "1C", "1D", 1201]
    else:
        assert [each for each in told if isinstance(each, int)] == [1155, 1200, 1201]
        assert told.index(1200) > max(map(told.index, ("1A", "1B", "2A", "2B", "2C")))
        assert told[-1] == 1201
