"""The world is the same for a seed, loses nothing, and makes every note an honest one."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_demo.errors import InvalidKnob
from strandline_demo.settings import AROUND_OUTAGE_MS, DemoSettings
from strandline_demo.world import (
    TICK_MS,
    Happening,
    Leave,
    Register,
    Rest,
    Role,
    Vanish,
    Write,
    happenings,
    steps,
    time_of,
    to_value,
)


@st.composite
def all_settings(draw: st.DrawFn) -> DemoSettings:
    duration_ms = draw(st.integers(12_000, 40_000))
    return DemoSettings(
        rate=draw(st.integers(1, 40)),
        skew_ms=draw(st.integers(0, 9_000)),
        outage_ms=draw(st.integers(0, duration_ms - AROUND_OUTAGE_MS)),
        duration_ms=duration_ms,
        seed=draw(st.integers(0, 2**31 - 1)),
    )


roles = st.sampled_from(Role)


def writes(settings: DemoSettings, role: Role) -> list[Write]:
    return [step for step in steps(settings, role) if isinstance(step, Write)]


@given(all_settings(), roles)
def test_what_is_older_than_a_note_is_never_written_after_it(settings: DemoSettings, role: Role) -> None:
    noted = -settings.duration_ms
    for write in writes(settings, role):
        assert all(event.time_ms >= noted for event in write.events)
        noted = write.noted_ms


@given(all_settings(), roles)
def test_everything_that_happens_is_written_once_and_not_before_it_reached_its_writer(
    settings: DemoSettings, role: Role
) -> None:
    written = [event for write in writes(settings, role) for event in write.events]
    assert sorted(written, key=repr) == sorted(happenings(settings, role), key=repr)
    assert all(event.reached_ms <= write.at_ms for write in writes(settings, role) for event in write.events)


@given(all_settings(), roles)
def test_moments_and_notes_go_forward_and_a_writer_registers_first_and_leaves_last(
    settings: DemoSettings, role: Role
) -> None:
    todo = steps(settings, role)
    assert all(one.at_ms <= other.at_ms for one, other in pairwise(todo))
    assert all(one.noted_ms <= other.noted_ms for one, other in pairwise(writes(settings, role)))
    assert isinstance(todo[0], Register)
    assert isinstance(todo[-1], Leave)
    assert writes(settings, role)[-1].noted_ms == settings.duration_ms


@given(all_settings())
def test_the_offline_writer_is_silent_for_as_long_as_its_outage_and_then_has_a_backlog(settings: DemoSettings) -> None:
    todo = steps(settings, Role.OFFLINE)
    gone = [number for number, step in enumerate(todo) if isinstance(step, Vanish)]
    if settings.outage_ms <= TICK_MS:
        assert len(gone) <= 1
        return
    (number,) = gone
    back = todo[number + 1]
    assert isinstance(back, Write)
    assert settings.outage_ms <= back.at_ms - settings.outage_from_ms < settings.outage_ms + TICK_MS
    during = [
        event
        for event in happenings(settings, Role.OFFLINE)
        if settings.outage_from_ms < event.reached_ms <= settings.outage_until_ms
    ]
    assert set(during) <= set(back.events)


#   settings  0 s       6 s               21 s      30 s
#   idle      R W W W W W rest ······ R   W W W W W leave
def test_the_idle_writer_says_so_after_all_that_it_has_and_registers_before_it_writes_again() -> None:
    settings = DemoSettings()
    todo = steps(settings, Role.IDLE)
    rest = next(number for number, step in enumerate(todo) if isinstance(step, Rest))
    assert isinstance(todo[rest + 1], Register)
    before = [event for step in todo[:rest] if isinstance(step, Write) for event in step.events]
    after = [event for step in todo[rest:] if isinstance(step, Write) for event in step.events]
    assert max(event.time_ms for event in before) < settings.rest_from_ms
    assert min(event.time_ms for event in after) >= settings.rest_until_ms > todo[rest + 1].at_ms
    assert before + after == [event for write in writes(settings, Role.IDLE) for event in write.events]


def test_the_slow_writer_s_events_are_as_old_as_its_skew_when_it_has_them() -> None:
    settings = DemoSettings(skew_ms=4_000)
    ages = [event.reached_ms - event.time_ms for event in happenings(settings, Role.SLOW)]
    assert 4_000 <= min(ages) < max(ages) < 4_200


def test_the_rate_is_what_each_writer_gets_a_second() -> None:
    settings = DemoSettings(rate=50)
    for role in (Role.STEADY, Role.SLOW, Role.OFFLINE):
        times = [event.time_ms for event in happenings(settings, role)]
        assert len(times) == 50 * 30
        assert 45 <= sum(10_000 <= time < 11_000 for time in times) <= 55


@given(all_settings(), roles)
def test_a_seed_is_the_same_world_and_another_seed_another_one(settings: DemoSettings, role: Role) -> None:
    same = DemoSettings(
        rate=settings.rate,
        skew_ms=settings.skew_ms,
        outage_ms=settings.outage_ms,
        duration_ms=settings.duration_ms,
        seed=settings.seed,
    )
    assert steps(same, role) == steps(settings, role)
    other = DemoSettings(duration_ms=12_000, outage_ms=0, seed=(settings.seed + 1) % 2**31)
    first = DemoSettings(duration_ms=12_000, outage_ms=0, seed=settings.seed)
    assert happenings(other, role) != happenings(first, role)


def test_the_time_of_an_event_is_in_its_value() -> None:
    assert time_of(to_value(Happening(250, "steady-1", 300), start_ms=1_700_000_000_000)) == 1_700_000_000_250


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("rate", 0),
        ("rate", 5_001),
        ("skew_ms", -1),
        ("delay_ms", 60_001),
        ("duration_ms", 11_999),
        ("outage_ms", 24_001),
        ("outage_ms", -1),
        ("seed", -1),
    ],
)
def test_a_knob_beyond_its_bounds_is_refused_by_name(knob: str, value: int) -> None:
    with pytest.raises(InvalidKnob, match=f"--{knob.removesuffix('_ms')} cannot be "):
        DemoSettings(**{knob: value})
