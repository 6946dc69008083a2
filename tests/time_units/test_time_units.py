"""Which unit a time looks like."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.time_units import Unit, milliseconds, unit_of
from strandline.errors import InvalidConfig

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


@given(st.integers(-(10**13), 10**13), st.sampled_from(list(Unit)))
def test_a_number_in_any_unit_lies_on_the_same_side_of_each_mark_as_its_millisecond(number: int, unit: Unit) -> None:
    exact = Fraction(number) * Fraction(10) ** {"s": 3, "ms": 0, "us": -3, "ns": -6}[unit]
    found = unit.milliseconds(number)
    assert all((found >= mark) == (exact >= mark) for mark in range(found - 1, found + 3))


@given(st.integers(-(10**13), 10**13))
def test_milliseconds_written_as_a_fraction_of_seconds_are_read_back(time: int) -> None:
    assert Unit.SECONDS.milliseconds(time / 1_000) == time  # of which int(seconds * 1000) makes others: 1.001, 1000
    assert Unit.SECONDS.milliseconds(Decimal(time) / 1_000 + Decimal("0.0009999")) == time


def test_the_precision_of_a_programs_decimals_does_not_round_a_time() -> None:
    with localcontext(Context(prec=6)):
        assert Unit.SECONDS.milliseconds(1767268800.25) == 1767268800250
    assert Unit.SECONDS.milliseconds(Decimal("1767268800." + "0009" * 8)) == 1767268800000
    assert Unit.NANOSECONDS.milliseconds(Decimal("-1e-999999999")) == -1


@pytest.mark.parametrize("number", ["nan", "sNaN", "-inf", "1e999999", "-1e999999999999999999"])
def test_a_number_without_a_value_or_without_an_end_is_no_time(number: str) -> None:
    with pytest.raises(OverflowError):
        Unit.SECONDS.milliseconds(Decimal(number))


@pytest.mark.parametrize("given", ["2026-03-01T12:00:00Z", 1796021319.172, Decimal("1.5")])
def test_a_text_or_a_fraction_is_refused_with_what_makes_a_time_of_it(given: Any) -> None:
    with pytest.raises(InvalidConfig, match=r"datetime\.fromisoformat\(|int\(seconds \* 1000\)"):
        milliseconds("time", given)
