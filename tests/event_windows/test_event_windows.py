"""Windows over event time: which there are, when they close, and that the order of events does not matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reader_client.event_windows import (
    WINDOW_EVENTS,
    Closed,
    EventWindows,
    Session,
    Sliding,
    TimeSpan,
    Tumbling,
    WindowKind,
)
from strandline.errors import InvalidConfig, QueueFull

TIMES = st.integers(-50, 50)
KINDS = (
    st.builds(Tumbling, st.integers(1, 20), st.integers(-5, 5))
    | st.builds(Sliding, st.integers(1, 20), st.integers(1, 12))
    | st.builds(Session, st.integers(1, 12))
)
EVENTS = st.lists(st.tuples(TIMES, st.sampled_from("ab")), max_size=30)  # time and key


def contents(closed: Sequence[Closed[int]]) -> Counter[object]:
    """Windows with their events, whatever the order."""
    return Counter((each.start, each.end, each.key, tuple(sorted(each.events))) for each in closed)


def naive(kind: WindowKind, events: list[tuple[int, str]]) -> Counter[object]:
    """All windows of all events, looked at together."""
    found: Counter[object] = Counter()
    for key in {key for _, key in events}:
        times = sorted(time for time, other in events if other == key)
        if isinstance(kind, Session):
            session: list[int] = []
            for time in [*times, None]:
                if session and (time is None or time - session[-1] >= kind.gap_ms):
                    found[session[0], session[-1] + kind.gap_ms, key, tuple(session)] += 1
                    session = []
                if time is not None:
                    session.append(time)
        else:
            for start in range(-100, 101):
                end = start + kind.size_ms
                begins = (
                    (start - kind.offset_ms) % kind.size_ms if isinstance(kind, Tumbling) else start % kind.every_ms
                )
                inside = tuple(time for time in times if start <= time < end)
                if not begins and inside:
                    found[start, end, key, inside] += 1
    return found


@given(KINDS, EVENTS)
def test_the_windows_are_those_that_a_look_at_all_events_finds(kind: WindowKind, events: list[tuple[int, str]]) -> None:
    windows = EventWindows[int](kind)
    assert all(windows.add(time, time, key) for time, key in events)
    assert contents(windows.finish()) == naive(kind, events)
    assert len(windows) == 0


@given(KINDS, EVENTS, st.randoms(use_true_random=False), st.lists(st.integers(0, 30), max_size=4))
def test_whatever_the_order_and_the_bounds_the_closed_windows_are_the_same(
    kind: WindowKind, events: list[tuple[int, str]], random: object, steps: list[int]
) -> None:
    """A bound is true: it is at most the least time still to come."""
    shuffled = sorted(events, key=lambda _: random.random())  # type: ignore[attr-defined]  # Hypothesis' Random
    windows, closed = EventWindows[int](kind), []
    for number, (time, key) in enumerate(shuffled):
        if number in steps:
            closed += windows.advance(min(time for time, _ in shuffled[number:]))
        assert windows.add(time, time, key)
    closed += windows.finish()
    assert contents(closed) == naive(kind, events)


@given(KINDS, EVENTS, TIMES)
def test_a_window_closes_when_the_bound_reaches_its_end_and_not_before(
    kind: WindowKind, events: list[tuple[int, str]], lower: int
) -> None:
    windows = EventWindows[int](kind)
    for time, key in events:
        windows.add(time, time, key)
    closed = windows.advance(lower)
    assert [each.end for each in closed] == sorted(each.end for each in closed)
    assert all(each.end <= lower for each in closed)
    assert all(each.end > lower for each in windows.finish())


@given(KINDS, TIMES, TIMES)
def test_an_event_is_late_where_all_of_its_windows_are_closed(kind: WindowKind, lower: int, time: int) -> None:
    windows = EventWindows[int](kind)
    windows.advance(lower)
    spans = kind.spans(time)
    assert windows.add(time, time) is (not spans or any(span.end > lower for span in spans))


@given(KINDS, EVENTS)
def test_an_event_read_again_counts_once_in_open_windows(kind: WindowKind, events: list[tuple[int, str]]) -> None:
    room = sum(len(kind.spans(time)) for time, _ in events)  # what is read again takes none
    windows = EventWindows[int](kind, capacity=max(1, room))
    for number, (time, key) in [*enumerate(events), *enumerate(events)]:
        windows.add(time, time, key, identity=number)
    assert contents(windows.finish()) == naive(kind, events)


@pytest.mark.parametrize(
    ("kind", "time", "spans"),
    [
        (Tumbling(10), 0, [(0, 10)]),
        (Tumbling(10), -1, [(-10, 0)]),
        (Tumbling(10, offset_ms=3), 12, [(3, 13)]),
        (Sliding(10, 5), 12, [(10, 20), (5, 15)]),
        (Sliding(3, 10), 5, []),
        (Session(4), 7, [(7, 11)]),
    ],
)
def test_a_time_lies_in_these_windows(kind: WindowKind, time: int, spans: list[tuple[int, int]]) -> None:
    assert kind.spans(time) == [TimeSpan(*each) for each in spans]


#   windows   0 ─── 10 ─── 20 ─── 30        b is there up to 10, c up to 25, d not at all
def test_a_window_is_without_the_writers_that_are_not_there_up_to_its_end() -> None:
    windows = EventWindows[int](Tumbling(10))
    for time in (5, 15, 25):
        windows.add(time, time)
    closed = windows.advance(30, {"c": 25, "b": 10})
    assert [(each.end, each.without, each.complete) for each in closed] == [
        (10, (), True), (20, ("b",), False), (30, ("b", "c"), False),
    ]  # fmt: skip
    windows.add(35, 35)
    windows.add(45, 45)
    assert [each.without for each in windows.advance(40, {"d": None})] == [("d",)]
    assert [each.complete for each in windows.finish()] == [True]


def test_a_size_that_is_none_is_refused() -> None:
    for make in (
        lambda: Tumbling(0),
        lambda: Tumbling(10, 1.5),  # type: ignore[arg-type]  # what is refused is the wrong type
        lambda: Sliding(5, 0),
        lambda: Sliding(0, 5),
        lambda: Sliding(5, 1.5),  # type: ignore[arg-type]  # what is refused is the wrong type
        lambda: Session(-1),
        lambda: Sliding(2**50, 1),
    ):
        with pytest.raises(InvalidConfig):
            make()


def test_an_event_of_two_merged_sessions_counts_once() -> None:
    windows = EventWindows[str](Session(5))
    windows.add(0, "a", identity=1)
    windows.add(8, "a", identity=1)
    windows.add(4, "b", identity=2)
    assert len(windows) == 2
    (closed,) = windows.finish()
    assert (closed.start, closed.end, sorted(closed.events), len(windows)) == (0, 13, ["a", "b"], 0)


def test_as_many_overlaps_and_as_few_events_as_are_allowed_are_taken() -> None:
    assert Sliding(WINDOW_EVENTS, 1).size_ms == WINDOW_EVENTS
    windows = EventWindows[str](Tumbling(10), capacity=1)
    assert windows.add(1, "a")
    with pytest.raises(QueueFull):
        windows.add(2, "b")


def test_a_time_that_is_none_is_refused_and_changes_nothing() -> None:
    windows: Any = EventWindows[str](Tumbling(10))
    with pytest.raises(InvalidConfig, match="time"):
        windows.add(1.5, "a")
    with pytest.raises(InvalidConfig, match="lower"):
        windows.advance(2.5)
    assert (len(windows), windows.add(1, "a")) == (0, True)
