"""The moments at which the past is looked at."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.dashboard.history import moments_between

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
