"""The Hazelcast document's own examples, line by line, and its merge and join trees.

In the timelines time runs to the right; `.` is a call that makes nothing known, `i` idle, `e` an event.
"""

import pytest

from strandline.core.coalesce import Coalescer, Idle, Join, Watermark
from strandline.errors import InvalidConfig


def wm(value: int, key: str = "") -> Watermark:
    return Watermark(key, value)


def test_the_partition_without_data_no_longer_holds_back_the_aggregation() -> None:
    # scan1 -> map1 --\
    #                  +--> aggr      scan1 sees no data; map1 passes on its idle
    # scan2 -> map2 --/
    map1, map2, aggr = Coalescer(["scan1"]), Coalescer(["scan2"]), Coalescer(["map1", "map2"])
    assert aggr.take("map2", map2.observe("scan2", 10)) == []
    assert aggr.take("map1", map1.idle("scan1")) == [wm(10)]
    assert aggr.take("map2", map2.observe("scan2", 20)) == [wm(20)]


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


def test_idleness_does_not_help_a_join_whose_one_side_stands_still() -> None:
    # -joinOuter
    # --joinInner
    # ---scan1                keys: scan1 order, scan2 ship, scan3 bill
    # ---scan2
    # --scan3
    inner, outer = Join("scan1", "scan2"), Join("inner", "scan3")
    outer.take("inner", inner.observe("scan1", 10, "order"))
    outer.take("inner", inner.observe("scan2", 8, "ship"))
    assert outer.observe("scan3", 30, "bill") == [wm(30, "bill")]

    assert outer.take("inner", inner.idle("scan1")) == []
    assert outer.take("inner", inner.idle("scan2")) == []  # inner sleeps; scan3 keeps outer awake
    for time in range(40, 100, 10):
        assert outer.observe("scan3", time, "bill") == [wm(time, "bill")]
    # What outer may drop of scan3 goes by the times of inner, and they have not moved.
    assert outer.time("inner", "order") == 10
    assert outer.time("inner", "ship") == 8
    assert not outer.is_idle

    assert outer.idle("scan3") == [Idle()]


def test_instances_of_one_join_side_are_coalesced_before_the_join() -> None:
    #   order, instance 0   10      14
    #   order, instance 1       12
    #   to the join         .   10  12     ship is another side and does not hold it back
    orders, join = Coalescer(2), Join("orders", "ships")
    assert join.take("orders", orders.observe(0, 10, "order")) == []
    assert join.take("orders", orders.observe(1, 12, "order")) == [wm(10, "order")]
    assert join.take("orders", orders.observe(0, 14, "order")) == [wm(12, "order")]
    assert join.time("orders", "order") == 12
    assert join.time("ships", "ship") is None


def test_a_key_of_both_join_sides_is_coalesced_without_decrease() -> None:
    #   left     at 10           at 12   at 20          done
    #   right            at 5            at 15   at 18
    #   out      10      .       .       15      18     .
    join = Join("left", "right")
    assert join.observe("left", 10, "at") == [wm(10, "at")]  # it is the left side's alone as far as anyone knows
    assert join.observe("right", 5, "at") == []
    assert join.observe("left", 12, "at") == []
    join.observe("left", 20, "at")
    assert join.observe("right", 15, "at") == [wm(15, "at")]
    assert join.observe("right", 18, "at") == [wm(18, "at")]
    assert join.done("left") == []
    assert join.idle("right") == [Idle()] and join.is_idle
    assert join.event("right") == [] and not join.is_idle


def test_a_join_has_two_inputs_or_more() -> None:
    with pytest.raises(InvalidConfig, match="two inputs"):
        Join("left")
