"""The clock follows its source forward at once, and goes on at half pace while the source is behind."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.clock import CLOCK_STEP_MS, LOOP_STALL_MS, Clock, ClockState

NOON = 1_700_000_000_000
SECOND, HOUR, DAY = 1_000, 3_600_000, 86_400_000
STEPS = st.one_of(st.just(0), st.integers(-CLOCK_STEP_MS, CLOCK_STEP_MS), st.integers(-2 * DAY, 2 * DAY))


class Source:
    """Two clocks of a host, of which somebody sets one."""

    def __init__(self) -> None:
        self.shown = NOON
        self.passed = 77

    def wall(self) -> int:
        return self.shown

    def monotonic(self) -> int:
        return self.passed

    def passes(self, milliseconds: int) -> None:
        self.shown += milliseconds
        self.passed += milliseconds


@given(st.lists(st.tuples(STEPS, st.integers(0, HOUR)), max_size=30), st.integers(0, HOUR))
def test_the_clock_shows_what_its_source_does_or_is_ahead_at_half_pace(
    history: list[tuple[int, int]], ahead: int
) -> None:
    source = Source()
    clock = Clock(source, NOON + ahead)
    for set_by, passed in history:
        before = clock.now()
        source.shown += set_by
        source.passes(passed)
        now = clock.now()
        slow = now - before in (passed // 2, (passed + 1) // 2)
        assert now == max(source.shown, before) or (now > source.shown and slow)


def test_a_pause_of_a_clock_that_is_watched_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    source = Source()
    clock = Clock(source)
    for clock.watched in (False, True):
        for passed in (LOOP_STALL_MS - 1, LOOP_STALL_MS):
            source.passes(passed)
            clock.now()
    assert caplog.messages == ["paused"]


def test_half_a_millisecond_is_not_lost_between_readings() -> None:
    source = Source()
    clock = Clock(source, NOON + HOUR)
    for _ in range(1_000):
        source.passes(1)
        clock.now()
    assert clock.now() == NOON + HOUR + 500


def test_a_clock_that_is_ahead_meets_its_source_after_twice_the_difference() -> None:
    source = Source()
    clock = Clock(source)
    source.shown -= HOUR
    source.passes(2 * HOUR - SECOND)
    assert clock.now() > source.shown
    source.passes(SECOND)
    assert clock.now() == source.shown


def test_the_state_is_ahead_from_five_seconds_until_both_meet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="strandline")
    source = Source()
    clock = Clock(source)
    states = []
    for set_by, passed in ((1 - CLOCK_STEP_MS, 0), (-1, 0), (0, 2 * CLOCK_STEP_MS - 2), (0, 2), (CLOCK_STEP_MS, 0)):
        source.shown += set_by
        source.passes(passed)
        clock.now()
        states.append((clock.state, clock.host_ahead_ms))
    assert states == [
        (ClockState.STEADY, 1 - CLOCK_STEP_MS),
        (ClockState.AHEAD, -CLOCK_STEP_MS),
        (ClockState.AHEAD, -1),
        (ClockState.STEADY, 0),
        (ClockState.STEADY, 0),
    ]
    assert [record.message for record in caplog.records] == ["clock_ahead", "clock_steady", "clock_followed"]
