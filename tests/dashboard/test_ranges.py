"""The moments at which the past is looked at."""

from __future__ import annotations

from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.dashboard.limits import RANGE_LEAST_MS
from controller.dashboard.ranges import moments_between, read_span, written

pytestmark = pytest.mark.full

NOW = 1_700_000_000_000


@given(st.integers(60_000, 10**11), st.integers(0, 10**8), st.integers(10, 300))
def test_moments_stay_the_same_while_time_goes_on(span: int, later: int, most: int) -> None:
    first, second = (moments_between(now - span, now, most) for now in (NOW, NOW + later))
    for moments, now in ((first, NOW), (second, NOW + later)):
        assert 0 < len(moments) <= most + 1 and now - span < moments[0] and moments[-1] < now
        assert len({after - before for before, after in pairwise(moments)}) <= 1
    both = [each for each in first if each >= second[0]]
    assert second[: len(both)] == both


@given(st.integers(0, NOW // 1000 - 1), st.integers(1, 10**6), st.sampled_from(["UTC", "Asia/Kolkata", "America/Lima"]))
def test_a_range_is_read_as_it_was_written(since: int, seconds: int, name: str) -> None:
    zone, (begin, end) = ZoneInfo(name), (since * 1000, (since + seconds) * 1000)
    found = read_span(written(begin, zone), written(end, zone), zone, NOW)
    assert found == (begin, max(end, begin + RANGE_LEAST_MS))


@pytest.mark.parametrize(
    ("since", "until", "said"),
    [
        ("", "2020-01-01T00:00:00Z", "a date and a time of day"),
        ("2020-01-01T00:00:00Z", "yesterday", "a date and a time of day"),
        ("2020-01-02T00:00:00Z", "2020-01-01T00:00:00Z", "before the other"),
        ("2099-01-01T00:00:00Z", "2099-01-02T00:00:00Z", "has been"),
        ("0001-01-01T00:00:00Z", "2020-01-01T00:00:00Z", "has been"),
        ("2020-01-01T00:00:00Z", "9999-12-31T23:59:00-14:00", "a date and a time of day"),
    ],
)
def test_what_is_no_range_is_refused_in_words(since: str, until: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_span(since, until, ZoneInfo("UTC"), NOW)
