"""Hazelcast's keyed watermarks: its examples line by line, with a stream for each input and a reader group that merges.

`wm(n, m)` there is here: the writer of input n notes m, and the group reads it. In the timelines time runs to the
right; `.` is a call that makes nothing known, `i` idle, `e` an event.
"""

from __future__ import annotations

from tests.source_documents.stage import Stage, StagedGroup


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
