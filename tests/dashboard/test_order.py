from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.dashboard.tables import in_order

VALUES = st.lists(st.none() | st.integers() | st.floats(allow_nan=False) | st.text())


@given(VALUES, st.booleans())
def test_what_shows_nothing_comes_last_in_either_direction(values: list[object], descending: bool) -> None:
    found = in_order(values, lambda each: each, descending=descending)
    filled = [each for each in values if each is not None]
    assert None not in found[: len(filled)]
    assert found[len(filled) :] == [None] * (len(values) - len(filled))


@given(st.lists(st.tuples(st.none() | st.integers(0, 3), st.integers())))
def test_items_in_one_direction_are_those_in_the_other_direction(items: list[tuple[int | None, int]]) -> None:
    up, down = (in_order(items, lambda each: each[0], descending=each) for each in (False, True))
    assert [rank for rank, _ in up if rank is not None] == [rank for rank, _ in down if rank is not None][::-1]
    assert sorted(map(repr, up)) == sorted(map(repr, down)) == sorted(map(repr, items))
