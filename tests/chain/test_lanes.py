"""Rows of lanes compare as the cuts that they stand for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.core.cut import Cut
from strandline.core.packed_integers import Columns, offset_in, without_lane
from strandline.limits import OFFSET_BOUND

NAMES = [str(n) for n in range(5)]
CUTS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3) | st.integers(0, OFFSET_BOUND - 1)).map(Cut)


@given(CUTS, CUTS)
def test_rows_are_in_order_where_their_cuts_are(one: Cut, other: Cut) -> None:
    columns = Columns(NAMES)
    place, row = one.place_in(columns), other.place_in(columns).row
    assert place.passes(row) == other.le(one)
    assert place.is_within(row) == one.le(other)


@given(CUTS, CUTS)
def test_a_new_segment_changes_no_earlier_row(one: Cut, other: Cut) -> None:
    columns = Columns()
    assert one.place_in(columns).known == (not one)
    columns.add(one.offsets)
    row = one.place_in(columns).row
    columns.add(other.offsets)
    assert columns.offsets(row) == one.offsets
    place = one.place_in(columns)
    assert (place.row, place.known) == (row, True)
    for name, offset in one.items():
        lane = columns.lane(name)
        assert lane is not None
        assert offset_in(row, lane) == offset
        assert columns.offsets(without_lane(row, lane)) == one.without(name).offsets
    assert columns.lane("nowhere") is None
