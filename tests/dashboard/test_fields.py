from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.dashboard.fields import read_positions
from controller.operators.wording import duration_text, read_duration


@pytest.mark.parametrize(
    ("text", "said"),
    [("0=3", "for each stream"), ("a: 0=3; a: 1=4", "a twice"), ("a: 0", "no position"), ("a:", "one segment")],
)
def test_what_are_no_positions_is_refused_in_words(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_positions(text)


@given(st.integers(0, 1 << 53))
def test_a_duration_is_read_as_what_it_was_written_from(milliseconds: int) -> None:
    assert read_duration(duration_text(milliseconds)) == milliseconds


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("15 min", 900_000),
        ("15min", 900_000),
        ("1.5 h", 5_400_000),
        ("1 h 30 min", 5_400_000),
        ("0", 0),
        ("2 Days", 172_800_000),
    ],
)
def test_durations_are_entered_as_people_write_them(text: str, milliseconds: int) -> None:
    assert read_duration(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["15", "1.5", "", "min", "-3 s", "5 fortnights", "3 s and more", "0.5 ms", "9" * 99 + " s"]
)
def test_what_is_no_duration_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        read_duration(text)
