"""PDP-26: event time out of ingestion time, and its trace of an on-time, an early and a late event."""

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reader_client.ordering_buffer import EventTimeOrdering, Timed
from strandline.core.event_time_lag import EventTimeLag
from strandline.errors import InvalidConfig, QueueFull, WatermarkWentBack

MINUTE_MS = 60_000
TWELVE = 12 * 60 * MINUTE_MS


def test_at_12_00_a_lag_of_five_minutes_gives_11_55() -> None:
    assert EventTimeLag(5 * MINUTE_MS).apply(TWELVE) == TWELVE - 5 * MINUTE_MS


def test_no_watermark_stays_none() -> None:
    assert EventTimeLag(5).apply(None) is None


def test_a_lag_reaches_no_further_back_than_time_does() -> None:
    assert EventTimeLag(2**53 - 1).apply(-5) == 1 - 2**53


@pytest.mark.parametrize("lag", [-1, 1.5, True, "5", None])
def test_a_lag_must_be_a_whole_number(lag: object) -> None:
    with pytest.raises(InvalidConfig, match="max_event_time_lag_ms"):
        EventTimeLag(lag)  # type: ignore[arg-type]  # what is refused is the wrong type too


@pytest.mark.parametrize("watermark", [1.5, "5", True, 2**53])
def test_a_watermark_that_is_no_time_is_refused(watermark: object) -> None:
    with pytest.raises(InvalidConfig, match="watermark"):
        EventTimeLag(5).apply(watermark)  # type: ignore[arg-type]  # what is refused is the wrong type too


def test_pdp_26s_trace_is_ordered_and_shows_late_events() -> None:
    #   watermark   …08681                                …26273     …54349
    #   in                  …50230 B  …19197 A  …91235 C
    #                       (early)   (on time) (late)
    #   out                                     C late    A          B
    ordering: EventTimeOrdering[str] = EventTimeOrdering(10)
    assert ordering.advance(1510626708681) == []
    assert ordering.add(1510626750230, "B") is True
    assert ordering.add(1510626719197, "A") is True
    assert ordering.add(1510626691235, "C") is False
    assert ordering.advance(1510626726273) == [Timed(1510626719197, "A")]
    assert ordering.advance(1510626754349) == [Timed(1510626750230, "B")]
    assert len(ordering) == 0


def test_an_event_at_the_watermark_waits_for_the_next_one() -> None:
    ordering: EventTimeOrdering[str] = EventTimeOrdering(10)
    ordering.advance(100)
    assert ordering.add(100, "a") is True
    assert ordering.advance(100) == []
    assert ordering.advance(101) == [Timed(100, "a")]


def test_no_watermark_does_not_undo_an_earlier_one() -> None:
    ordering: EventTimeOrdering[str] = EventTimeOrdering(10)
    ordering.advance(100)
    ordering.advance(None)
    assert ordering.add(99, "a") is False


def test_a_watermark_that_went_back_is_refused_and_changes_nothing() -> None:
    ordering: EventTimeOrdering[str] = EventTimeOrdering(10)
    ordering.add(150, "a")
    ordering.advance(100)
    with pytest.raises(WatermarkWentBack):
        ordering.advance(99)
    assert ordering.watermark == 100
    assert ordering.add(99, "b") is False


def test_capacity_bounds_held_events_and_late_ones_need_none() -> None:
    ordering: EventTimeOrdering[str] = EventTimeOrdering(1)
    ordering.advance(100)
    ordering.add(150, "a")
    assert ordering.full
    with pytest.raises(QueueFull):
        ordering.add(160, "b")
    assert ordering.add(99, "c") is False
    assert ordering.advance(200) == [Timed(150, "a")]
    assert not ordering.full


@pytest.mark.parametrize("capacity", [0, -1, True, 1.0])
def test_a_capacity_must_be_a_positive_whole_number(capacity: object) -> None:
    with pytest.raises(InvalidConfig, match="capacity"):
        EventTimeOrdering(capacity)  # type: ignore[arg-type]  # what is refused is the wrong type too


@pytest.mark.parametrize("time", [1.5, None, 2**53])
def test_an_event_at_no_time_is_refused(time: object) -> None:
    with pytest.raises(InvalidConfig, match="time cannot be"):
        EventTimeOrdering[str](1).add(time, "a")  # type: ignore[arg-type]  # what is refused is the wrong type too


def test_events_that_cannot_be_compared_keep_their_order_at_one_time() -> None:
    ordering: EventTimeOrdering[object] = EventTimeOrdering(10)
    events = [object() for _ in range(5)]
    for event in events:
        ordering.add(7, event)
    assert [timed.event for timed in ordering.finish()] == events


def test_values_survive_pickling() -> None:
    kept = [Timed(5, "a"), EventTimeLag(5)]
    assert pickle.loads(pickle.dumps(kept)) == kept


@given(st.lists(st.tuples(st.sampled_from(["add", "advance"]), st.integers(-30, 30)), max_size=60))
def test_what_comes_out_is_what_came_in_time_oldest_first(steps: list[tuple[str, int]]) -> None:
    ordering: EventTimeOrdering[int] = EventTimeOrdering(100)
    kept: list[Timed[int]] = []
    out: list[Timed[int]] = []
    watermark: int | None = None
    for arrival, (what, time) in enumerate(steps):
        if what == "add":
            in_time = watermark is None or time >= watermark
            assert ordering.add(time, arrival) is in_time
            if in_time:
                kept.append(Timed(time, arrival))
        else:
            watermark = time if watermark is None else max(watermark, time)
            out += ordering.advance(watermark)
            assert sorted(out, key=lambda timed: timed.event) == [timed for timed in kept if timed.time < watermark]
    out += ordering.finish()
    assert out == sorted(kept, key=lambda timed: timed.time)


def test_a_watermark_that_is_no_time_is_refused_and_releases_nothing() -> None:
    ordering: Any = EventTimeOrdering[str](3)
    ordering.add(1, "a")
    with pytest.raises(InvalidConfig, match="watermark"):
        ordering.advance(2.5)
    assert (len(ordering), ordering.watermark) == (1, None)
