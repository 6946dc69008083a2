"""Hazelcast's keyed watermarks: its examples line by line, with a stream for each input and a reader group that merges.

`wm(n, m)` there is here: the writer of input n notes m, and the group reads it. In the timelines time runs to the
right; `.` is a call that makes nothing known, `i` idle, `e` an event.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tests.source_documents.stage import Stage, StagedGroup, StagedStream


class Input:
    """A stream with one writer, read to its end at once by the group that merges."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stream = stage.stream(name, segments=1, writer_timeout_ms=None)
        self.offset = 0

    def wm(self, merge: StagedGroup, value: int, key: str = "") -> int | None:
        """Brings a watermark to the group; returns what the group makes of that key then."""
        self.offset += 1
        self.stream.note_keys("w", {key: value}, {"0": self.offset})
        merge.read(self.stream.name, self.stream, {"0": self.offset})
        return merge.watermark(key)

    def idle(self) -> None:
        self.stream.idle("w")


def two(stage: Stage) -> tuple[Input, Input, StagedGroup]:
    first, second = Input(stage, "in0"), Input(stage, "in1")
    return first, second, stage.group(first.stream, second.stream)


def test_the_documents_example_of_two_inputs(stage: Stage) -> None:
    #   input 0   10      11      14
    #   input 1       12      13
    #   out       .   10  11  .   13
    zero, one, merge = two(stage)
    assert zero.wm(merge, 10) is None
    assert one.wm(merge, 12) == 10
    assert zero.wm(merge, 11) == 11
    assert one.wm(merge, 13) == 11  # no new output now as the minimum is still 11
    assert zero.wm(merge, 14) == 13


def test_an_idle_message_leaves_its_input_out_at_once(stage: Stage) -> None:
    #   input 0   10      i
    #   input 1       20      30
    #   out       .   10  20  30
    zero, one, merge = two(stage)
    zero.wm(merge, 10)
    assert one.wm(merge, 20) == 10
    zero.idle()
    assert merge.watermark() == 20
    assert one.wm(merge, 30) == 30


def test_any_new_watermark_or_event_brings_an_idle_input_back(stage: Stage) -> None:
    #   input 0   10      i           25            e (its writer registers before it appends)
    #   input 1       20      30           40              50
    #   out       .   10  20  30      30   30 …
    zero, one, merge = two(stage)
    zero.wm(merge, 10)
    one.wm(merge, 20)
    zero.idle()
    assert one.wm(merge, 30) == 30
    assert zero.wm(merge, 25) == 30  # it counts again, and what was told stands
    assert one.wm(merge, 40) == 30
    assert zero.wm(merge, 35) == 35
    zero.idle()
    assert merge.watermark() == 40

    zero.stream.register("w")

    assert one.wm(merge, 50) == 40 and merge.window()["idle"] == []


def test_watermarks_are_strictly_monotonic_whatever_the_inputs_do(stage: Stage) -> None:
    zero, one, merge = two(stage)
    told = [zero.wm(merge, 10), one.wm(merge, 12)]
    one.idle()
    told += [merge.watermark(), zero.wm(merge, 20)]
    zero.idle()
    told += [merge.watermark(), merge.watermark()]
    told += [one.wm(merge, 13), one.wm(merge, 21), zero.wm(merge, 22)]
    known = [time for time in told if time is not None]
    assert all(before <= after for before, after in pairwise(known))
    assert list(dict.fromkeys(known)) == [10, 20, 21]  # as emitted: each once, and rising


def test_two_watermarks_with_different_keys_in_one_stream_are_handled_independently(stage: Stage) -> None:
    """ "it can observe a newer WM instance with key=1, and later an older WM instance with key=2" """
    stream = stage.stream(segments=1)
    stream.note_keys("w", {"order_time": 100, "ship_time": 90}, {"0": 10})
    stream.note_keys("w", {"order_time": 110}, {"0": 20})
    stream.note_keys("w", {"ship_time": 95}, {"0": 30})
    assert stream.times("order_time") == [100, 110] and stream.times("ship_time") == [90, 95]
    assert stream.bounds({"0": 20}, "order_time") == (110, None)
    assert stream.bounds({"0": 20}, "ship_time") == (90, 95)
    assert stream.bounds({"0": 20}) == (None, None)  # nobody spoke of the default key


def test_different_keys_coalesce_as_separate_streams(stage: Stage) -> None:
    #   input 0   order 10             ship 5
    #   input 1             order 12            ship 3
    #   out       .         order 10   .        ship 3
    zero, one, merge = two(stage)
    assert zero.wm(merge, 10, "order") is None
    assert one.wm(merge, 12, "order") == 10
    assert zero.wm(merge, 5, "ship") is None
    assert one.wm(merge, 3, "ship") == 3
    assert merge.window()["watermarks"] == {"": None, "order": 10, "ship": 3}


def test_a_key_on_one_input_only_is_not_forwarded(stage: Stage) -> None:
    """ "coalescing will wait forever for a WM with the same key from the other side" """
    zero, one, merge = two(stage)
    for value in range(1, 6):
        assert zero.wm(merge, value, "order") is None
        assert one.wm(merge, value, "ship") is None


def test_idle_is_for_every_key_and_has_none_of_its_own(stage: Stage) -> None:
    #   input 0   order 10           i
    #   input 1             ship 10     ship 20
    #   out       .         .        ship 10    ship 20
    zero, one, merge = two(stage)
    zero.wm(merge, 10, "order")
    assert one.wm(merge, 10, "ship") is None
    zero.idle()
    assert merge.watermark("ship") == 10
    assert one.wm(merge, 20, "ship") == 20


class Join:
    """A join of two inputs whose output is a stream: it goes by each input's own time, and forwards both keys.

    It reads each input's un-coalesced windows, notes them for its output, and says idle when both inputs are.
    """

    def __init__(self, stage: Stage, name: str, *sources: Input) -> None:
        self.output = Input(stage, name)
        self.group = stage.group(*(source.stream for source in sources), name=f"join-{name}")
        self._noted: dict[str, int] = {}
        self._asleep = False

    def run(self, into: StagedGroup) -> None:
        """Takes in what its inputs have, and hands on what is new."""
        window = self.group.window()
        times = self._times(window)
        if len(window["idle"]) == len(window["streams"]):
            if not self._asleep:
                self.output.idle()
            self._asleep = True
            return
        self._asleep = False
        for key, time in times.items():
            if time > self._noted.get(key, -1):
                self._noted[key] = time
                self.output.wm(into, time, key)

    def own_time(self, source: Input, key: str) -> int | None:
        """How far one side has come, whatever the other one does: what of the other may be dropped goes by that."""
        found: int | None = self.group.of(source.stream)["keys"][key]["lower"]
        return found

    @staticmethod
    def _times(window: Any) -> dict[str, int]:
        sides = [side["keys"] for side in window["streams"].values()]
        return {key: of["lower"] for side in sides for key, of in side.items() if of["lower"] is not None}


def test_the_merge_tree_follows_scan3_while_both_join_sides_idle(stage: Stage) -> None:
    # -aggr
    # --merge                 scan1 has the key order, scan2 ship, scan3 both
    # ---join
    # ----scan1
    # ----scan2
    # ---scan3
    scan1, scan2, scan3 = (Input(stage, name) for name in ("scan1", "scan2", "scan3"))
    join = Join(stage, "join", scan1, scan2)
    aggr = stage.group(join.output.stream, scan3.stream, name="merge")

    scan1.wm(join.group, 10, "order")
    join.run(aggr)
    scan2.wm(join.group, 8, "ship")
    join.run(aggr)
    assert scan3.wm(aggr, 50, "order") == 10
    assert scan3.wm(aggr, 60, "ship") == 8

    scan1.idle()
    join.run(aggr)  # one side sleeps: the join does not
    assert scan3.wm(aggr, 70, "order") == 10

    scan2.idle()
    join.run(aggr)
    assert (aggr.watermark("order"), aggr.watermark("ship")) == (70, 60)
    assert scan3.wm(aggr, 80, "ship") == 80  # and aggr goes on to produce output

    # scan2 wakes with an old time: the merge stands where it is until scan2 has caught up
    scan2.wm(join.group, 20, "ship")
    join.run(aggr)
    assert aggr.watermark("ship") == 80
    assert scan3.wm(aggr, 90, "ship") == 80
    scan2.wm(join.group, 85, "ship")
    join.run(aggr)
    assert aggr.watermark("ship") == 85


def test_idleness_does_not_help_a_join_whose_one_side_stands_still(stage: Stage) -> None:
    # -joinOuter
    # --joinInner
    # ---scan1                keys: scan1 order, scan2 ship, scan3 bill
    # ---scan2
    # --scan3
    scan1, scan2, scan3 = (Input(stage, name) for name in ("scan1", "scan2", "scan3"))
    inner = Join(stage, "inner", scan1, scan2)
    outer = Join(stage, "outer", inner.output, scan3)
    sink = stage.group(outer.output.stream, name="sink")
    scan1.wm(inner.group, 10, "order")
    scan2.wm(inner.group, 8, "ship")
    inner.run(outer.group)
    scan1.idle()
    scan2.idle()
    inner.run(outer.group)

    for time in range(40, 100, 20):
        scan3.wm(outer.group, time, "bill")
        outer.run(sink)

    # scan3 keeps outer awake, and outer must keep all of scan3's data: inner's own times have not moved.
    assert outer.group.window()["idle"] == [inner.output.stream.name]
    assert (outer.own_time(inner.output, "order"), outer.own_time(inner.output, "ship")) == (10, 8)
    assert sink.watermark("bill") == 80 and outer.own_time(scan3, "bill") == 80

    scan3.idle()
    outer.run(sink)
    assert sink.window()["idle"] == [outer.output.stream.name]


def test_a_source_of_several_partitions_is_coalesced_before_the_join_sees_it(stage: Stage) -> None:
    #   orders, writer 0   10      14
    #   orders, writer 1       12
    #   to the join        .   10  12     ships are another side and hold nobody back
    orders: StagedStream = stage.stream("orders", min_writers=2)
    ships: StagedStream = stage.stream("ships")
    join = stage.group(orders, ships)
    seen = []
    for writer, value, segment in (("w0", 10, "0"), ("w1", 12, "1"), ("w0", 14, "0")):
        orders.note_keys(writer, {"order": value}, {segment: value})
        join.read("r", orders, {segment: value})
        seen.append(join.of(orders)["keys"].get("order", {"lower": None})["lower"])
    assert seen == [None, 10, 12]
    assert join.watermark("order") is None  # coalesced it would wait for ships, which has no such key
