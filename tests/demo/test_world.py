"""The world is the same for a seed, loses nothing, and makes every note a true one."""

from hypothesis import given
from hypothesis import strategies as st

from strandline.demo.world import TICK_MS, WRITERS, DemoSettings, Happening, happenings, steps


@st.composite
def all_settings(draw: st.DrawFn) -> DemoSettings:
    duration_s = draw(st.integers(12, 40))
    outage_s = draw(st.integers(0, duration_s - 6))
    rate, seed = draw(st.integers(1, 40)), draw(st.integers(0, 2**31 - 1))
    return DemoSettings(duration_ms=duration_s * 1000, outage_ms=outage_s * 1000, rate=rate, seed=seed)


writers = st.sampled_from(WRITERS)


@given(all_settings(), writers)
def test_what_is_older_than_a_note_is_never_written_after_it(settings: DemoSettings, writer: str) -> None:
    noted = 0
    for step in steps(settings, writer):
        assert all(event.time_ms >= noted for event in step.events)
        if step.does == "write":
            assert step.noted_ms >= noted
            noted = step.noted_ms
    assert noted == settings.duration_ms


@given(all_settings(), writers)
def test_every_event_is_written_once_after_it_reached_its_writer(settings: DemoSettings, writer: str) -> None:
    written = [(event, step.at_ms) for step in steps(settings, writer) for event in step.events]
    assert sorted((event for event, _ in written), key=repr) == sorted(happenings(settings, writer), key=repr)
    assert all(event.reached_ms <= at_ms for event, at_ms in written)


@given(all_settings())
def test_the_offline_writer_is_silent_then_writes_its_backlog(settings: DemoSettings) -> None:
    todo = steps(settings, "offline")
    gone = [number for number, step in enumerate(todo) if step.does == "vanish"]
    assert len(gone) == (settings.outage_ms > 0)
    for back in (todo[number + 1] for number in gone):
        assert settings.outage_ms <= back.at_ms - settings.outage.start < settings.outage_ms + TICK_MS
        during = {each for each in happenings(settings, "offline") if each.reached_ms - 1 in settings.outage}
        assert during <= set(back.events)


#   0 s       6 s               21 s      30 s
#   R W W W W W rest ······ R   W W W W W leave
def test_the_idle_writer_says_so_and_registers_before_writing_again() -> None:
    rest = DemoSettings().rest
    todo = steps(DemoSettings(), "idle")
    number = [step.does for step in todo].index("rest")
    assert todo[number + 1].does == "register"
    assert max(event.time_ms for step in todo[:number] for event in step.events) < rest.start
    assert min(event.time_ms for step in todo[number:] for event in step.events) >= rest.stop > todo[number + 1].at_ms


def test_a_seed_is_the_same_world_and_another_seed_another_one() -> None:
    assert happenings(DemoSettings(), "slow")[0] == Happening(time_ms=2, device="slow-0", reached_ms=3_077)
    assert sum(len(happenings(DemoSettings(), writer)) for writer in WRITERS) == 21_000  # as the README has it
    for writer in WRITERS:
        assert happenings(DemoSettings(seed=2), writer) != happenings(DemoSettings(), writer)
