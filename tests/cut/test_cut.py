"""Cuts are a lattice: the laws, each as a property over graphs that have been split and merged."""

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.cut import NOTHING, Cut, join_all

SEGMENTS = ["0", "1", "2", "3"]
cuts = st.dictionaries(st.sampled_from(SEGMENTS), st.integers(0, 5)).map(Cut)


@given(cuts)
def test_every_cut_lies_at_or_below_itself(a: Cut) -> None:
    assert a.le(a)


@given(cuts, cuts)
def test_two_cuts_at_or_below_each_other_are_equal(a: Cut, b: Cut) -> None:
    assert (a.le(b) and b.le(a)) == (a == b)


@given(cuts, cuts, cuts)
def test_at_or_below_carries_over(a: Cut, b: Cut, c: Cut) -> None:
    if a.le(b) and b.le(c):
        assert a.le(c)


@given(cuts, cuts, cuts)
def test_the_join_is_the_least_cut_at_or_above_both(a: Cut, b: Cut, c: Cut) -> None:
    join = a.join(b)
    assert a.le(join)
    assert b.le(join)
    if a.le(c) and b.le(c):
        assert join.le(c)


@given(cuts, cuts, cuts)
def test_the_meet_is_the_greatest_cut_at_or_below_both(a: Cut, b: Cut, c: Cut) -> None:
    meet = a.meet(b)
    assert meet.le(a)
    assert meet.le(b)
    if c.le(a) and c.le(b):
        assert c.le(meet)


@given(cuts, cuts)
def test_join_and_meet_do_not_care_for_order_and_absorb_each_other(a: Cut, b: Cut) -> None:
    assert a.join(b) == b.join(a)
    assert a.meet(b) == b.meet(a)
    assert a.join(a.meet(b)) == a
    assert a.meet(a.join(b)) == a


@given(cuts, cuts, cuts)
def test_join_and_meet_are_associative_and_distributive(a: Cut, b: Cut, c: Cut) -> None:
    assert a.join(b).join(c) == a.join(b.join(c))
    assert a.meet(b).meet(c) == a.meet(b.meet(c))
    assert a.meet(b.join(c)) == a.meet(b).join(a.meet(c))


@given(cuts, cuts)
def test_incomparable_is_neither_below_nor_above(a: Cut, b: Cut) -> None:
    assert (a.le(b) or b.le(a)) == (a.join(b) in (a, b))


@given(st.lists(cuts))
def test_the_join_of_many_is_the_join_of_two_at_a_time(many: list[Cut]) -> None:
    expected = NOTHING
    for cut in many:
        expected = expected.join(cut)
    assert join_all(many) == expected


@given(cuts)
def test_nothing_lies_below_every_cut(a: Cut) -> None:
    assert NOTHING.le(a)
    assert a.join(NOTHING) == a
    assert a.meet(NOTHING) == NOTHING
    assert bool(a) == (a != NOTHING)


@given(cuts, cuts)
def test_equal_cuts_hash_alike_and_survive_pickling(a: Cut, b: Cut) -> None:
    assert pickle.loads(pickle.dumps(a)) == a
    if a == b:
        assert hash(a) == hash(b)


def test_a_segment_at_nothing_is_as_good_as_left_out() -> None:
    assert Cut({"0": 0, "1": 3}) == Cut({"1": 3})
    assert len(Cut({"0": 0})) == 0


def test_cuts_have_no_line_to_stand_in() -> None:
    with pytest.raises(TypeError, match="not supported"):
        assert Cut({"0": 1}) < Cut({"0": 2})  # type: ignore[operator]  # that is the claim


def test_a_cut_cannot_be_changed_or_built_wrong() -> None:
    with pytest.raises(AttributeError, match="cannot be changed"):
        Cut({}).anything = 1
    with pytest.raises(ValueError, match="offset -1 of segment '0'"):
        Cut({"0": -1})


@pytest.mark.parametrize("offset", [1.5, "1"])
def test_what_is_no_whole_number_is_named(offset: Any) -> None:
    with pytest.raises(ValueError, match=f"offset {offset!r} of segment '1' is no whole number"):
        Cut({"0": 7, "1": offset})


def test_a_cut_without_a_segment_keeps_the_others() -> None:
    assert Cut({"0": 1, "1": 2}).without("0") == Cut({"1": 2})
