"""The clock goes on whatever the host's wall clock does, follows it within bounds, and never goes back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.core.clock import (
    CLOCK_CONFIRM_MS,
    CLOCK_NEAR_SLEW_PART,
    CLOCK_SLEW_PART,
    CLOCK_STEP_BOUND_MS,
    CLOCK_STEP_MS,
    ClockState,
    SteadyClock,
)

NOON = 1_700_000_000_000
SECOND, HOUR = 1_000, 3_600_000
STEPS = st.one_of(
    st.just(0),
    st.integers(-CLOCK_STEP_MS, CLOCK_STEP_MS),
    st.integers(-2 * CLOCK_STEP_BOUND_MS, 2 * CLOCK_STEP_BOUND_MS),
)


class Host:
    """A host whose wall clock somebody sets, and a clock that looks at it each second."""

    def __init__(self, start: int = NOON) -> None:
        self.wall = NOON
        self.monotonic = 77
        self.clock = SteadyClock(start, self.monotonic)

    def set(self, by_ms: int) -> None:
        self.wall += by_ms

    def passes(self, milliseconds: int) -> int:
        """Returns by how much the clock has stepped."""
        self.wall += milliseconds
        self.monotonic += milliseconds
        return self.clock.refresh(self.wall, self.monotonic)

    def run(self, milliseconds: int) -> int:
        return sum(self.passes(SECOND) for _ in range(milliseconds // SECOND))

    @property
    def now(self) -> int:
        return self.clock.read(self.monotonic)

    @property
    def ahead(self) -> int:
        """How far the clock is ahead of the wall clock."""
        return self.now - self.wall


@given(st.lists(st.tuples(STEPS, st.integers(0, 3 * CLOCK_CONFIRM_MS)), max_size=30), st.integers(0, HOUR))
def test_the_clock_goes_on_steadily_except_for_confirmed_steps(history: list[tuple[int, int]], floor: int) -> None:
    host = Host(NOON + floor)
    ahead_for = 0  # how long the wall clock has been ahead by a step, as far as anybody can have seen
    for set_by, passed in history:
        host.set(set_by)
        before = host.now
        ahead_for = ahead_for + passed if host.wall - before >= CLOCK_STEP_MS else 0
        step = host.passes(passed)
        went = host.now - before - step
        assert -passed // CLOCK_NEAR_SLEW_PART <= went - passed <= passed // CLOCK_SLEW_PART
        assert step >= 0
        if step:
            assert CLOCK_STEP_MS <= step <= CLOCK_STEP_BOUND_MS and ahead_for >= CLOCK_CONFIRM_MS
            assert host.ahead == 0


@given(st.integers(-CLOCK_STEP_MS, CLOCK_STEP_MS - 1))
def test_a_small_step_is_followed_without_a_step_and_nobody_is_told(by_ms: int) -> None:
    host = Host()
    host.set(by_ms)
    host.passes(0)
    assert host.clock.state is (ClockState.AHEAD if by_ms == -CLOCK_STEP_MS else ClockState.STEADY)
    assert host.run((CLOCK_SLEW_PART + 1) * CLOCK_STEP_MS) == 0
    assert host.ahead == 0
    assert host.clock.state is ClockState.STEADY


def test_a_jump_that_comes_back_within_the_minute_changes_nothing() -> None:
    host = Host()
    host.set(HOUR)
    host.run(CLOCK_CONFIRM_MS - SECOND)
    assert (host.now, host.clock.state, host.clock.host_ahead_ms) == (host.wall - HOUR, ClockState.BEHIND, HOUR)
    host.set(-HOUR)
    assert host.run(CLOCK_CONFIRM_MS) == 0
    assert (host.ahead, host.clock.state) == (0, ClockState.STEADY)


def test_a_lasting_jump_is_followed_and_a_change_waits_again() -> None:
    host = Host()
    host.set(HOUR)
    host.run(CLOCK_CONFIRM_MS // 2)
    host.set(HOUR)
    assert host.run(CLOCK_CONFIRM_MS) == 0
    assert host.run(SECOND) == 2 * HOUR
    assert (host.ahead, host.clock.state) == (0, ClockState.STEADY)


def test_a_jump_beyond_the_bound_is_not_followed_however_long_it_lasts() -> None:
    host = Host()
    host.set(CLOCK_STEP_BOUND_MS + 1)
    assert host.run(3 * CLOCK_CONFIRM_MS) == 0
    assert host.clock.state is ClockState.BEHIND
    host.set(-2)
    assert host.run(SECOND) == CLOCK_STEP_BOUND_MS - 1
    assert (host.ahead, host.clock.state) == (0, ClockState.STEADY)


def test_the_clock_slows_until_the_wall_clock_catches_up() -> None:
    host = Host()
    host.set(-HOUR)
    host.passes(SECOND)
    for _ in range(100):
        before = host.now
        host.passes(SECOND)
        assert host.now - before == SECOND - SECOND // CLOCK_SLEW_PART
    assert host.clock.state is ClockState.AHEAD
    host.run(CLOCK_SLEW_PART * HOUR)
    assert (host.ahead, host.clock.state) == (0, ClockState.STEADY)


def test_a_clock_starting_two_seconds_ahead_soon_meets_its_host() -> None:
    host = Host(NOON + 2 * SECOND)
    assert host.run(4 * SECOND) == 0
    assert host.ahead > 0  # before the first look it could not know
    host.run(SECOND)
    assert host.ahead == 0


def test_between_two_looks_it_reads_the_monotonic_clock_alone() -> None:
    host = Host()
    host.set(HOUR)
    host.monotonic += 700
    assert host.now == NOON + 700
