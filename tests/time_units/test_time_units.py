"""Which unit a time looks like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.time_units import Unit, unit_of

FROM_S, UNTIL_S = 1_000_000_000, 4_102_444_800  # 2001 to 2100


@given(st.integers(FROM_S, UNTIL_S))
def test_a_moment_of_these_decades_is_known_by_its_unit(moment_s: int) -> None:
    powers = {Unit.SECONDS: 0, None: 3, Unit.MICROSECONDS: 6, Unit.NANOSECONDS: 9}
    assert {unit_of(moment_s * 10**power): power for power in powers.values()} == powers


@pytest.mark.parametrize("time", [0, 1, 999_999_999, 10**11, 10**14, -(10**9), -62_135_596_800_000])
def test_small_and_early_times_may_be_milliseconds(time: int) -> None:
    assert unit_of(time) is None


def test_times_look_like_a_unit_only_if_all_of_them_may_have_it() -> None:
    assert unit_of(0, 1_700_000_000) is Unit.SECONDS
    assert unit_of(1_700_000_000, 1_700_000_000_000) is None
    assert unit_of(1_700_000_000_000, 1_700_000_000_000_000) is None
    assert unit_of(1_700_000_000_000_000, 1_700_000_000_000_001) is Unit.MICROSECONDS


def test_a_unit_is_named_as_the_option_takes_it() -> None:
    assert [(f"{unit}", unit.word) for unit in Unit] == [
        ("s", "seconds"), ("ms", "milliseconds"), ("us", "microseconds"), ("ns", "nanoseconds")
    ]  # fmt: skip
