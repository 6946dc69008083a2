"""One watermark out of many, worked out from what each input has now."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.coalesce import combine, holder

INPUTS = ("a", "b", "c")
LOOKS = st.lists(
    st.tuples(st.fixed_dictionaries({name: st.integers(0, 5) for name in INPUTS}), st.sets(st.sampled_from(INPUTS))),
    max_size=20,
)


@pytest.mark.parametrize(
    ("bounds", "left_out", "held", "jump", "expected"),
    [
        ({"a": {"": 5}, "b": {"": 7}}, (), {}, False, ({"": 5}, {})),
        ({"a": {"": 5}, "b": {"": None}}, (), {}, False, ({"": None}, {})),
        ({"a": {"": 5}, "b": {"": 7}}, ("a",), {}, False, ({"": 7}, {"": 7})),
        ({"a": {"": 5}, "b": {"": 7}}, (), {"": 7}, False, ({"": 7}, {"": 7})),
        ({"a": {"": 8}, "b": {"": 7}}, (), {"": 7}, False, ({"": 7}, {})),
        ({"a": {"": 5}, "b": {"": 7}}, ("a", "b"), {}, False, ({"": 5}, {})),
        ({"a": {"": 5}, "b": {"": 7}}, ("a", "b"), {}, True, ({"": 7}, {"": 7})),
        ({"a": {"x": 5}, "b": {"y": 7}}, (), {}, False, ({"x": None, "y": None}, {})),
        ({}, (), {"": 3}, False, ({"": 3}, {"": 3})),
    ],
)
def test_the_watermark_is_the_least_counting_input_and_never_decreases(
    bounds: Mapping[str, Mapping[str, int | None]],
    left_out: tuple[str, ...],
    held: Mapping[str, int],
    jump: bool,
    expected: tuple[dict[str, int | None], dict[str, int]],
) -> None:
    assert combine(bounds, left_out, held, jump=jump) == expected


@given(LOOKS, st.booleans())
def test_a_watermark_never_goes_back_whoever_sleeps_or_wakes(
    looks: list[tuple[dict[str, int], set[str]]], jump: bool
) -> None:
    now, held, last = dict.fromkeys(INPUTS, 0), dict[str, int](), -1
    for steps, left_out in looks:
        now = {name: now[name] + step for name, step in steps.items()}
        watermarks, held = combine({name: {"": time} for name, time in now.items()}, left_out, held, jump=jump)
        watermark = watermarks[""]
        assert watermark is not None and watermark >= max(last, min(now.values()))
        last = watermark


@pytest.mark.parametrize(
    ("bounds", "left_out", "expected"),
    [
        ({"a": {"": 5}, "b": {"": 4}}, (), "b"),
        ({"a": {"": 5}, "b": {"": 4}}, ("b",), "a"),
        ({"b": {"": 5}, "a": {"": 5}}, (), "a"),
        ({"a": {"": 0}, "b": {}}, (), "b"),
        ({"a": {"": 5}}, ("a",), None),
    ],
)
def test_a_key_waits_for_the_least_of_the_inputs_that_count(
    bounds: Mapping[str, Mapping[str, int | None]], left_out: tuple[str, ...], expected: str | None
) -> None:
    assert holder(bounds, left_out, "") == expected
