"""The world is the same for a seed, and its idle writer says when it rests."""

import pytest

from strandline_demo.world import WRITERS, DemoSettings, Happening, happenings, steps


@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_older_than_a_note_is_never_written_after_it(writer: str) -> None:
    noted = 0
    for step in steps(DemoSettings(), writer):
        assert all(event.time_ms >= noted for event in step.events)
        noted = max(noted, step.noted_ms)
    assert noted == DemoSettings().duration_ms


#   0 s       6 s               21 s      30 s
#   R W W W W W rest ······ R   W W W W W leave
def test_the_idle_writer_says_so_and_registers_before_writing_again() -> None:
    rest = DemoSettings().rest
    todo = steps(DemoSettings(), "idle")
    number = [step.does for step in todo].index("rest")
    assert todo[number + 1].does == "register"
    assert max(event.time_ms for step in todo[:number] for event in step.events) < rest.start
    assert min(event.time_ms for step in todo[number:] for event in step.events) >= rest.stop > todo[number + 1].at_ms


def test_the_offline_writer_vanishes_once() -> None:
    assert [step.does for step in steps(DemoSettings(), "offline")].count("vanish") == 1


def test_a_seed_is_the_same_world_and_another_seed_another_one() -> None:
    assert happenings(DemoSettings(), "slow")[0] == Happening(time_ms=2, device="slow-0", reached_ms=3_077)
    assert sum(len(happenings(DemoSettings(), writer)) for writer in WRITERS) == 21_000  # as the README has it
    for writer in WRITERS:
        assert happenings(DemoSettings(seed=2), writer) != happenings(DemoSettings(), writer)
