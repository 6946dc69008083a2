"""Cuts are the same whatever shapes they have, and however many shapes there are."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.cut import Cut, join_all
from strandline.core.packed_integers import Columns
from strandline.core.shape import SHAPE_NAMES_REMEMBERED, SHAPES, Shape, shape_of
from strandline.limits import OFFSET_BOUND

NAMES = [str(number) for number in range(12)]
OFFSETS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3) | st.integers(0, OFFSET_BOUND - 1))


def with_own_shape(cut: Cut) -> Cut:
    """An equal cut whose shape nobody shares."""
    return Cut.of_row(Shape(cut.shape.names), cut.row)


@given(OFFSETS, OFFSETS)
def test_cuts_compare_and_join_alike_with_shapes_of_their_own(one: dict[str, int], other: dict[str, int]) -> None:
    a, b = Cut(one), Cut(other)
    below = all(offset <= other.get(name, 0) for name, offset in one.items())
    assert a.le(b) == with_own_shape(a).le(b) == below
    joined = {name: max(one.get(name, 0), other.get(name, 0)) for name in {*one, *other}}
    assert a.join(b) == with_own_shape(a).join(b) == join_all([a, b]) == join_all([with_own_shape(a), b]) == Cut(joined)
    assert with_own_shape(a) == a and hash(with_own_shape(a)) == hash(a)


@given(OFFSETS)
def test_the_order_in_which_segments_are_named_makes_no_difference(offsets: dict[str, int]) -> None:
    backwards = Cut(dict(reversed(offsets.items())))
    assert backwards.shape is Cut(offsets).shape
    assert backwards == Cut(offsets)
    assert backwards.offsets == {name: offset for name, offset in offsets.items() if offset}


@given(OFFSETS, st.permutations(NAMES))
def test_a_cut_has_the_same_place_in_whatever_lanes(offsets: dict[str, int], order: list[str]) -> None:
    cut = Cut(offsets)
    for columns in (Columns(order), Columns(cut.offsets), Columns(order[:6])):
        for _ in range(2):  # the second time it knows the segments
            place = cut.place_in(columns)
            inside = {name: offset for name, offset in cut.items() if name in columns.names}
            assert columns.offsets(place.row) == inside
            assert place.above == place.row | place.tops
            assert place.known == (inside == cut.offsets)


def test_a_shape_is_the_same_after_pickling() -> None:
    shape = shape_of(("b", "a"))
    assert pickle.loads(pickle.dumps(shape)) is shape


def test_shapes_are_forgotten_when_there_are_too_many_and_cuts_keep_theirs() -> None:
    before = Cut({"0": 3, "1": 4})
    wide = tuple(f"s{number}" for number in range(1_000))
    for number in range(SHAPE_NAMES_REMEMBERED // len(wide) + 2):
        shape_of((*wide, f"t{number}"))
    assert SHAPES.names <= SHAPE_NAMES_REMEMBERED
    after = Cut({"0": 3, "1": 5})
    assert before.shape is not after.shape
    assert before.le(after) and not after.le(before)
    assert before.join(after) == after


def test_offsets_that_have_no_lane_are_refused() -> None:
    with pytest.raises(ValueError, match="of segment '1' is too large: it has to be below 2\\^63"):
        Cut({"0": 1, "1": 2**63})
    assert Cut({"0": 2**63 - 1}).offset("0") == 2**63 - 1
