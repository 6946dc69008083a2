"""The clock of a store between its readings: an answer that came late does not set it back."""

from __future__ import annotations

from dataclasses import dataclass

from controller.clock import STORE_CLOCK_KEPT_MS, StoreClock


@dataclass
class Host:
    passed: int = 0

    def wall(self) -> int:
        return 500_000 + self.passed

    def monotonic(self) -> int:
        return self.passed


def test_the_first_reading_takes_the_place_of_the_hosts_clock() -> None:
    host = Host()
    clock = StoreClock(host)

    clock.follow(1_000)

    assert clock.wall() == 1_000


def test_a_reading_whose_answer_was_late_does_not_set_the_clock_back() -> None:
    host = Host()
    clock = StoreClock(host)
    clock.follow(1_000)
    host.passed += 5_000

    clock.follow(1_000)  # its answer was on the way while the process was stopped

    assert clock.wall() == 6_000


def test_a_store_whose_clock_was_set_back_is_followed_after_a_while() -> None:
    host = Host()
    clock = StoreClock(host)
    clock.follow(100_000)
    host.passed += STORE_CLOCK_KEPT_MS

    clock.follow(50_000)

    assert clock.wall() == 50_000


def test_late_answers_do_not_set_the_clock_back_later_either() -> None:
    host = Host()
    clock = StoreClock(host)
    clock.follow(1_000)
    for late_ms in (0, 300):
        host.passed += STORE_CLOCK_KEPT_MS // 2
        clock.follow(1_000 + host.passed - late_ms)

    assert clock.wall() == 1_000 + host.passed
