"""A log that ends before the marks of its stream do."""

from __future__ import annotations

import pytest

from strandline.core.short_log import short_log


def test_the_line_names_the_first_segment_that_ends_before_a_mark() -> None:
    line = short_log("clicks", {"0": 5, "1": 2}, [{"0": 5}, {"0": 4, "1": 3, "2": 1}])
    assert line is not None
    assert line.startswith("the log of stream 'clicks' ends at 2 in segment '1', and the marks are at 3: is it the")
    assert short_log("clicks", {}, [{"2": 1}]) is not None


@pytest.mark.parametrize("cuts", [[], [{}], [{"0": 5}, {"1": 0}]])
def test_a_log_that_has_what_the_marks_cover_has_no_line(cuts: list[dict[str, int]]) -> None:
    assert short_log("clicks", {"0": 5}, cuts) is None
