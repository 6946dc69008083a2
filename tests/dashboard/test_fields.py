from __future__ import annotations

import pytest

from controller.dashboard.fields import read_positions, read_start
from strandline.wire.groups import FromHead, FromPositions, FromTime


def test_a_start_is_the_head_a_time_or_positions() -> None:
    assert read_start("") is None
    assert read_start("head") == FromHead()
    assert read_start("2026-01-31T12:00:00Z") == FromTime(1_769_860_800_000)
    assert read_start("orders: 0=3,1=4; pay: 0=5") == FromPositions({"orders": {"0": 3, "1": 4}, "pay": {"0": 5}})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0=3", "for each stream"),
        ("a: 0=3; a: 1=4", "a twice"),
        ("a: 0", "no position"),
        ("a:", "one segment"),
    ],
)
def test_what_are_no_positions_is_refused_in_words(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_positions(text)
