"""The Hazelcast document's own examples, line by line, and its merge and join trees.

In the timelines time runs to the right; `.` is a call that makes nothing known, `i` idle, `e` an event.
"""

import pytest

from strandline.core.coalesce import Coalescer, Join, Watermark
from strandline.errors import InvalidConfig


def wm(value: int, key: str = "") -> Watermark:
    return Watermark(key, value)


def test_the_merge_tree_follows_scan3_while_both_join_sides_idle() -> None:
    # -aggr
    # --merge                 scan1 has the key order, scan2 ship, scan3 both
    # ---join
    # ----scan1
    # ----scan2
    # ---scan3
    join, merge = Join("scan1", "scan2"), Coalescer(["join", "scan3"])

    assert merge.take("join", join.observe("scan1", 10, "order")) == []
    assert merge.take("join", join.observe("scan2", 8, "ship")) == []
    assert merge.observe("scan3", 50, "order") == [wm(10, "order")]
    assert merge.observe("scan3", 60, "ship") == [wm(8, "ship")]

    assert merge.take("join", join.idle("scan1")) == []  # one side sleeps: the join does not
    assert merge.observe("scan3", 70, "order") == []
    assert merge.take("join", join.idle("scan2")) == [wm(70, "order"), wm(60, "ship")]
    assert merge.observe("scan3", 80, "ship") == [wm(80, "ship")]

    # scan2 wakes with an old time: the merge stands where it is until scan2 has caught up
    assert merge.take("join", join.observe("scan2", 20, "ship")) == []
    assert merge.observe("scan3", 90, "ship") == []
    assert merge.take("join", join.observe("scan2", 85, "ship")) == [wm(85, "ship")]
    assert (join.time("scan1", "order"), join.time("scan2", "ship")) == (10, 85)


def test_a_join_has_two_inputs_or_more() -> None:
    with pytest.raises(InvalidConfig, match="two inputs"):
        Join("left")
