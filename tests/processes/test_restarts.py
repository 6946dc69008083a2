"""When processes are started again, and what their parent ends with."""

from __future__ import annotations

import pytest

from controller.limits import DEFAULT_LIMITS
from controller.restarts import KILL_AFTER_S, RESTART_PAUSE_S, RESTART_PAUSES_S, STEADY_PROCESS_S, Restarts
from controller.terminal import TAKEN_OVER_STATUS


def ready(count: int) -> Restarts:
    """So many processes that were all ready at 0."""
    restarts = Restarts(count)
    assert restarts.due(0) == list(range(1, count + 1))
    assert [restarts.ready(number, 0) for number in range(1, count + 1)] == [False] * (count - 1) + [True]
    return restarts


def test_all_are_started_at_once_and_once() -> None:
    restarts = Restarts(3)
    assert restarts.due(0) == [1, 2, 3]
    assert restarts.due(0) == [] and restarts.next_due() is None


def test_ready_is_told_once_when_the_last_one_is() -> None:
    restarts = ready(2)
    restarts.ended(1, 1, STEADY_PROCESS_S)
    restarts.due(STEADY_PROCESS_S)
    assert not restarts.ready(1, STEADY_PROCESS_S + 1)


@pytest.mark.parametrize("status", [1, 3])
def test_a_process_that_failed_is_started_again_whatever_its_status(status: int) -> None:
    restarts = ready(2)
    assert restarts.ended(2, status, STEADY_PROCESS_S) == 0
    assert restarts.due(STEADY_PROCESS_S) == [2] and not restarts.over


def test_a_process_that_does_not_last_is_started_after_longer_pauses() -> None:
    restarts, now, pauses = ready(1), 0.0, []
    for _ in range(8):
        pause = restarts.ended(1, 1, now)
        assert pause is not None and restarts.due(now + pause - 0.01) == []
        assert restarts.next_due() == now + pause
        now += pause
        assert restarts.due(now) == [1]
        pauses.append(pause)
    assert pauses[:3] == [RESTART_PAUSE_S, 2 * RESTART_PAUSE_S, 4 * RESTART_PAUSE_S]
    assert pauses[-1] == RESTART_PAUSES_S


def test_a_process_that_lasted_begins_with_no_pause_again() -> None:
    restarts = ready(1)
    for now in (0.0, 10.0):
        restarts.ended(1, 1, now)
        restarts.due(now + RESTART_PAUSES_S)
    restarts.ready(1, 50)
    assert restarts.ended(1, 1, 50 + STEADY_PROCESS_S) == 0


def test_a_process_that_was_drained_stays_away_and_its_parent_ends_with_the_last() -> None:
    restarts = ready(2)
    assert restarts.ended(1, 0, STEADY_PROCESS_S) is None
    assert restarts.due(10 * STEADY_PROCESS_S) == [] and not restarts.over
    assert restarts.ended(2, 0, STEADY_PROCESS_S) is None
    assert restarts.over and restarts.status == 0


def test_a_process_whose_name_was_taken_stays_away() -> None:
    restarts = ready(2)
    assert restarts.ended(1, TAKEN_OVER_STATUS, STEADY_PROCESS_S) is None
    assert restarts.due(10 * STEADY_PROCESS_S) == [] and not restarts.over
    assert restarts.ended(2, TAKEN_OVER_STATUS, STEADY_PROCESS_S) is None
    assert restarts.over and restarts.status == TAKEN_OVER_STATUS


def test_one_that_cannot_begin_ends_all() -> None:
    restarts = Restarts(2)
    restarts.due(0)
    restarts.ready(1, 1)
    assert restarts.ended(2, 1, 2) is None
    assert restarts.stopping
    restarts.ended(1, 0, 3)
    assert restarts.over and restarts.status == 1


def test_told_to_end_none_is_started_again_and_the_worst_counts() -> None:
    restarts = ready(3)
    restarts.ended(1, 1, 1)
    restarts.stop(2)
    assert restarts.due(100) == []
    assert restarts.ended(2, 0, 3) is restarts.ended(3, 3, 4) is None
    assert restarts.over and restarts.status == 3


def test_who_does_not_end_in_time_is_killed_once() -> None:
    restarts = ready(1)
    restarts.stop(10)
    restarts.stop(20)
    kill_at = restarts.next_due()
    assert kill_at == 10 + DEFAULT_LIMITS.drain_s + KILL_AFTER_S
    assert not restarts.overdue(kill_at - 1)
    assert [restarts.overdue(kill_at), restarts.overdue(kill_at)] == [True, False]
    assert restarts.next_due() is None
