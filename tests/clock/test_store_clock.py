"""The clock of a store between its readings."""

from __future__ import annotations

from dataclasses import dataclass

from controller.clock import Clock, StoreClock


@dataclass
class Host:
    passed: int = 0

    def wall(self) -> int:
        return 500_000 + self.passed

    def monotonic(self) -> int:
        return self.passed


def test_a_reading_takes_the_place_of_the_hosts_clock() -> None:
    host = Host()
    clock = StoreClock(host)

    clock.follow(1_000)
    host.passed += 5_000

    assert clock.wall() == 6_000


def test_a_reading_whose_answer_was_late_sets_no_clock_back() -> None:
    host = Host()
    source = StoreClock(host)
    source.follow(1_000)
    clock = Clock(source)
    host.passed += 5_000
    assert clock.now() == 6_000

    source.follow(1_000)  # its answer was on the way while the process was stopped
    assert clock.now() == 6_000

    host.passed += 100
    source.follow(6_100)
    assert clock.now() == 6_100
