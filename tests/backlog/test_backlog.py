"""FLIP-328's specification, sentence by sentence, and the strategies that stand beside it."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.backlog import (
    AnyBacklog,
    BacklogDetector,
    BacklogStrategy,
    BacklogWatch,
    CallableStrategy,
    RemainingOffsetsStrategy,
)
from strandline.errors import InvalidConfig

THRESHOLD_MS = 1_000
NOW = 100_000


@pytest.mark.parametrize(("lag", "backlog"), [(999, False), (1_000, False), (1_001, True), (-5, False)])
def test_a_lag_above_the_threshold_is_backlog(lag: int, backlog: bool) -> None:
    detector = BacklogDetector(THRESHOLD_MS)
    assert detector.update(NOW - lag, NOW) is backlog
    assert detector.backlog is backlog


def test_not_in_backlog_persists_even_when_the_lag_surpasses_the_threshold_later() -> None:
    detector = BacklogDetector(THRESHOLD_MS)
    assert detector.update(0, NOW) is True
    assert detector.update(NOW, NOW) is False
    assert detector.update(NOW, NOW * 9) is False
    assert detector.update(None, NOW * 9) is False


def test_a_threshold_of_none_never_reports_backlog() -> None:
    detector = BacklogDetector(None)
    assert detector.backlog is False
    assert detector.update(None, NOW) is False
    assert detector.update(0, NOW) is False
    assert detector.went_idle() is False
    assert detector.woke(0, NOW) is False


@pytest.mark.parametrize(
    ("threshold", "shown"),
    [
        (0, "0"),
        (-1, "-1"),
        (1.5, "1.5"),
        ("1000", "'1000'"),
        (True, "true"),
        (float("inf"), "inf"),
        (2**53, str(2**53)),
    ],
)
def test_a_threshold_must_be_a_positive_whole_number(threshold: object, shown: str) -> None:
    with pytest.raises(InvalidConfig, match="threshold_ms") as refusal:
        BacklogDetector(threshold)  # type: ignore[arg-type]  # what is refused is the wrong type too
    assert f"cannot be {shown}: " in str(refusal.value)
    with pytest.raises(InvalidConfig, match="threshold_offsets"):
        RemainingOffsetsStrategy(threshold)  # type: ignore[arg-type]  # as above


def test_a_source_without_a_watermark_is_in_backlog() -> None:
    detector = BacklogDetector(THRESHOLD_MS)
    assert detector.backlog is True
    assert detector.update(None, NOW) is True
    assert detector.update(NOW, NOW) is False


@pytest.mark.parametrize(("lag", "backlog"), [(1_000, False), (1_001, True)])
def test_on_waking_the_current_watermark_is_checked_against_the_threshold(lag: int, backlog: bool) -> None:
    detector = BacklogDetector(THRESHOLD_MS)
    detector.update(0, NOW)
    detector.went_idle()
    assert detector.woke(NOW - lag, NOW) is backlog


def test_a_caught_up_source_is_checked_again_when_it_wakes() -> None:
    detector = BacklogDetector(THRESHOLD_MS)
    assert detector.update(NOW, NOW) is False
    detector.went_idle()
    assert detector.woke(NOW, NOW * 9) is True
    assert detector.update(NOW * 9, NOW * 9) is False
    assert detector.update(NOW * 9, NOW * 99) is False  # sticky again


@pytest.mark.parametrize("call", [BacklogDetector.update, BacklogDetector.woke])
def test_a_time_that_is_no_time_is_refused_and_changes_nothing(
    call: Callable[[BacklogDetector, object, object], bool],
) -> None:
    detector = BacklogDetector(THRESHOLD_MS)
    detector.update(NOW, NOW)
    detector.went_idle()
    with pytest.raises(InvalidConfig, match="now cannot be"):
        call(detector, 0, 1.5)
    with pytest.raises(InvalidConfig, match="watermark cannot be"):
        call(detector, "0", NOW)
    assert detector.backlog is False
    assert detector.woke(0, NOW) is True


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("update"), st.none() | st.integers(0, 3_000)),
        st.tuples(st.just("idle"), st.none()),
        st.tuples(st.just("woke"), st.none() | st.integers(0, 3_000)),
    ),
    max_size=30,
)


@given(STEPS)
def test_the_status_follows_from_the_lags_seen_since_the_last_waking(
    steps: list[tuple[str, int | None]],
) -> None:
    detector = BacklogDetector(THRESHOLD_MS)
    for length, (what, lag) in enumerate(steps, start=1):
        watermark = None if lag is None else NOW - lag
        match what:
            case "update":
                out = detector.update(watermark, NOW)
            case "woke":
                out = detector.woke(watermark, NOW)
            case _:
                out = detector.went_idle()
        seen = steps[:length]
        sleeps = [index for index, step in enumerate(seen) if step[0] == "idle"]
        wakes = [index for index, step in enumerate(seen) if step[0] == "woke"]
        asleep = bool(sleeps) and not any(wake > sleeps[-1] for wake in wakes)
        begun = next((wake for wake in wakes if wake > sleeps[-1]), 0) if sleeps else 0
        caught_up = any(seen_lag is not None and seen_lag <= THRESHOLD_MS for _, seen_lag in seen[begun:])
        assert out is detector.backlog is (not asleep and not caught_up)


@given(st.lists(st.booleans(), max_size=5))
def test_strategies_combine_by_or(statuses: list[bool]) -> None:
    strategies = [CallableStrategy(partial(bool, status)) for status in statuses]
    assert AnyBacklog(strategies).backlog is (True in statuses)


def test_a_combination_follows_its_parts_and_is_a_strategy_itself() -> None:
    lag, size = BacklogDetector(THRESHOLD_MS), RemainingOffsetsStrategy(10)
    asked: BacklogStrategy = CallableStrategy(lambda: night)
    night = False
    any_of_them = AnyBacklog([AnyBacklog([lag, size]), asked])
    lag.update(NOW, NOW)
    assert any_of_them.backlog is True  # what remains to be read is not known
    size.update(10)
    assert any_of_them.backlog is False
    size.update(11)
    assert any_of_them.backlog is True
    size.update(0)
    night = True
    assert any_of_them.backlog is True


def test_what_remains_is_looked_at_both_ways() -> None:
    size = RemainingOffsetsStrategy(10)
    statuses = [size.update(remaining) for remaining in (None, 11, 10, 0, 11, None)]
    assert statuses == [True, True, False, False, True, True]
    assert RemainingOffsetsStrategy(None).update(10**9) is False


def test_a_watch_tells_each_change_once_and_begins_out_of_backlog() -> None:
    size, told = RemainingOffsetsStrategy(10), list[bool]()
    watch = BacklogWatch([size], told.append)
    assert watch.backlog is False
    assert [watch.check(), watch.check()] == [True, True]  # what remains is not known yet
    size.update(10)
    assert [watch.check(), watch.check()] == [False, False]
    assert told == [True, False]


def test_a_change_counts_as_reported_where_the_callback_failed() -> None:
    size = RemainingOffsetsStrategy(10)
    assert BacklogWatch([size]).check() is True

    def fail(status: bool) -> None:
        raise OSError(f"cannot hear {status}")

    watch = BacklogWatch([size], fail)
    with pytest.raises(OSError, match="cannot hear True"):
        watch.check()
    assert watch.check() is True


def test_a_strategy_tells_its_threshold() -> None:
    assert (BacklogDetector(THRESHOLD_MS).threshold_ms, BacklogDetector(None).threshold_ms) == (THRESHOLD_MS, None)
    assert RemainingOffsetsStrategy(10).threshold_offsets == 10
