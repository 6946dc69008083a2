"""The cache of marks by itself: windows as a search over all marks finds them, whatever was asked before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reader_client.mark_cache import MARKS_PER_PAGE, MARKS_PER_PAGE_LEAST, MarkCache
from strandline.core.chain import MarkChain
from strandline.core.config import StreamConfig
from strandline.core.mark import Mark
from strandline.core.segment import Segment, SegmentGraph
from strandline.core.time_index import bound_at
from strandline.core.window import TimeWindow, time_window
from strandline.wire.streams import MarksPage, SegmentDescription, StreamDescription, WireMark

GRAPH = SegmentGraph.equal_shares(2, 0)


def wire(seq: int, cut: dict[str, int]) -> WireMark:
    return WireMark(
        seq=seq,
        key="",
        time=10 * seq,
        upper=10 * seq + 5,
        cut=cut,
        newest=None,
        complete=True,
        excluded=(),
        created_at=0,
    )


def described(latest: WireMark | None, *, sealed: bool = False, identity: str = "1") -> StreamDescription:
    return StreamDescription(
        identity=identity,
        config=StreamConfig(),
        segments=tuple(SegmentDescription(segment, None) for segment in GRAPH),
        sealed=sealed,
        head={},
        latest_marks={} if latest is None else {"": latest},
        writers={},
        held_by={},
    )


def filled(steps: list[tuple[int, int]], **given: Any) -> tuple[MarkCache, MarkChain]:
    """A cache, and a list, with marks whose cuts go on by these steps."""
    cache, listed, cut = MarkCache("", **given), MarkChain(), {"0": 0, "1": 0}
    marks = []
    for seq, (zero, one) in enumerate(steps, start=1):
        cut = {"0": cut["0"] + zero, "1": cut["1"] + one}
        marks.append(wire(seq, cut))
        known = {name: getattr(marks[-1], name) for name in Mark.__slots__}
        listed.append(Mark(**{**known, "cut": GRAPH.cut(cut)}))
    cache.describe(described(marks[-1] if marks else None))
    for begin in range(0, len(marks), 3):
        cache.take(MarksPage(tuple(marks[begin : begin + 3]), "1", more=begin + 3 < len(marks)))
    cache.take(MarksPage((), "1"))
    return cache, listed


STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12)
WALK = st.lists(st.tuples(st.integers(0, 1), st.integers(-3, 4)), max_size=40)


@given(STEPS, WALK)
def test_a_cached_window_equals_a_search_over_all_marks(
    steps: list[tuple[int, int]], walk: list[tuple[int, int]]
) -> None:
    cache, listed = filled(steps)
    position = {"0": 0, "1": 0}
    for which, by in walk:
        position[str(which)] = max(0, position[str(which)] + by)
        found = cache.window(position)
        assert found == time_window(listed, GRAPH.cut(position), None) or (found is None and not steps)
        for segment, offset in position.items():
            assert cache.bound(segment, offset) == bound_at(listed, segment, offset)


def test_an_upper_bound_from_a_call_is_not_withdrawn() -> None:
    cache, _ = filled([(2, 2)])
    cache.note_window({"0": 2, "1": 2}, TimeWindow(10, 25, True, False, 1))
    assert cache.window({"0": 2, "1": 2}) is None
    cache.take(MarksPage((wire(2, {"0": 2, "1": 4}),), "1"))
    assert cache.window({"0": 2, "1": 2}) == TimeWindow(10, 25, True, False, 1)
    assert cache.window({"0": 2, "1": 4}) == TimeWindow(20, None, True, False, 2)


def test_an_end_that_a_call_told_is_no_open_end_again() -> None:
    cache, _ = filled([(2, 2)])
    end = {"0": 2, "1": 2}
    assert cache.window(end) == TimeWindow(10, None, True, False, 1)
    cache.note_window(end, TimeWindow(10, None, True, True, 1))
    assert cache.window(end) is None
    cache.describe(described(wire(1, end), sealed=True))
    assert cache.window(end) is not None


def test_marks_that_are_forgotten_are_those_behind_every_segment() -> None:
    cache, listed = filled([(2, 2)] * 6)
    cache.forget_before({"0": 9, "1": 5})
    for segment, offset in (("0", 9), ("1", 5), ("1", 7)):
        assert cache.bound(segment, offset) == bound_at(listed, segment, offset)
    assert cache.window({"0": 9, "1": 5}) == TimeWindow(20, 55, True, False, 2)
    assert cache.window({"0": 1, "1": 1}) is None  # before the marks that are here


def test_more_existing_marks_are_wanted_beyond_the_last_one_cached() -> None:
    cache, _ = filled([(2, 2)] * 3)
    cache.bound("0", 99)
    assert not cache.wants_more  # all are here
    behind = MarkCache("")
    behind.describe(described(wire(9, {"0": 18, "1": 18})))
    behind.take(MarksPage((wire(1, {"0": 2, "1": 2}),), "1"))
    behind.bound("0", 1)
    assert not behind.wants_more
    behind.bound("0", 2)
    assert behind.wants_more and behind.window({"0": 2, "1": 2}) is None  # nothing is told that may be out of date


def test_where_marks_are_gone_the_cache_begins_anew_behind_them() -> None:
    cache, _ = filled([(2, 2)] * 3)
    cache.take(MarksPage((wire(7, {"0": 14, "1": 14}), wire(8, {"0": 16, "1": 16})), "1"))
    assert cache.window({"0": 14, "1": 15}) == TimeWindow(70, 85, True, False, 7)
    assert cache.window({"0": 6, "1": 6}) is None


def test_a_stream_that_was_made_anew_begins_from_nothing() -> None:
    cache, _ = filled([(2, 2)] * 3)
    old, new = MarksPage((), "1"), MarksPage((wire(4, {"0": 8, "1": 8}),), "2")
    assert cache.is_clear(old) and not cache.is_clear(new)
    cache.describe(described(wire(4, {"0": 8, "1": 8}), identity="2"))
    assert (cache.last_seq, cache.after, cache.window({"0": 6, "1": 6})) == (None, 0, None)
    assert not cache.is_clear(old) and cache.is_clear(new)


def test_a_sealed_stream_is_over_only_once_its_last_mark_is_here() -> None:
    cache, _ = filled([(2, 2)] * 3)
    cache.describe(described(wire(4, {"0": 8, "1": 8}), sealed=True))
    cache.take(MarksPage((), "1"))
    assert not cache.over
    cache.take(MarksPage((wire(4, {"0": 8, "1": 8}),), "1"))
    assert cache.over


def test_of_a_stream_with_many_segments_fewer_marks_are_requested_at_a_time() -> None:
    assert MarkCache("").page_marks == MARKS_PER_PAGE
    for segments, marks in ((1, MARKS_PER_PAGE), (64, 128), (10_000, MARKS_PER_PAGE_LEAST)):
        cache, named = MarkCache(""), [Segment(id=str(n), created_at=0) for n in range(segments)]
        cache.describe(replace(described(None), segments=tuple(SegmentDescription(each, None) for each in named)))
        assert cache.page_marks == marks


def test_a_page_that_ended_early_is_not_the_last() -> None:
    cache = MarkCache("")
    cache.describe(described(wire(1, {"0": 1})))

    cache.take(MarksPage((wire(1, {"0": 1}),), "1", more=True))
    assert not cache.caught_up

    cache.take(MarksPage((wire(2, {"0": 2}),), "1"))
    assert cache.caught_up
