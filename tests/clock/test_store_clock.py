"""The clock of a store between its readings."""

from __future__ import annotations

from dataclasses import dataclass

from controller.clock import STORE_CLOCK_KEPT_MS, Clock, StoreClock


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


def test_late_answers_do_not_set_the_clock_back_later_either() -> None:
    host = Host()
    clock = StoreClock(host)
    clock.follow(1_000)
    for late_ms in (0, 300):
        host.passed += STORE_CLOCK_KEPT_MS // 2
        clock.follow(1_000 + host.passed - late_ms)

    assert clock.wall() == 1_000 + host.passed


def test_a_store_whose_clock_was_set_back_is_followed_after_a_while() -> None:
    host = Host()
    clock = StoreClock(host)
    clock.follow(100_000)
    host.passed += STORE_CLOCK_KEPT_MS

    clock.follow(50_000)

    assert clock.wall() == 50_000
