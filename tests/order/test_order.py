"""Which segment comes next, and how far behind it all is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.chain import MarkChain
from strandline.core.cut import NOTHING, Cut
from strandline.core.mark import Mark
from strandline.core.order import Head, Lag, Orderer, lag, lags, order
from strandline.core.time_index import bound_at
from strandline.core.window import time_window

AT_11_55, AT_12_00, AT_12_01, AT_12_02 = 1155, 1200, 1201, 1202


def mark(seq: int, time: int, cut: Cut) -> Mark:
    return Mark(seq=seq, key="", time=time, upper=time, cut=cut, newest=None, excluded=(), created_at=0)


def group_watermark(bounds: Iterable[int | None]) -> int | None:
    """What the window of a group must be, by the words of PDP-26: the least bound of all segments, read or not."""
    known = list(bounds)
    return None if None in known else min((bound for bound in known if bound is not None), default=None)


def index_of(*entries: tuple[int, int]) -> Callable[[int], int | None]:
    """The bound at an offset, from entries of a time index."""
    return lambda offset: max((time for at, time in entries if at <= offset), default=None)


class TestTwoSegments:
    """The diagram of PDP-26, an event taking one offset.

    segment 1     11:55 │ A │ B │ 12:00 │ C │ D │ 12:02
    segment 2     11:55 │ A │ B │ C │ 12:01 │ …
    the group     W(11:55) 1A 2A 1B 2B 2C W(12:00) 1C 1D W(12:01) …
    """

    indexes = {  # noqa: RUF012  # read only
        "1": index_of((0, AT_11_55), (2, AT_12_00), (4, AT_12_02)),
        "2": index_of((0, AT_11_55), (3, AT_12_01), (9, AT_12_02)),
    }
    marks = (
        mark(1, AT_11_55, NOTHING),
        mark(2, AT_12_00, Cut({"1": 2, "2": 3})),
        mark(3, AT_12_01, Cut({"1": 4, "2": 3})),
        mark(4, AT_12_02, Cut({"1": 4, "2": 9})),
    )

    def bound(self, segment: str, offset: int) -> int | None:
        return self.indexes[segment](offset)

    def test_reading_furthest_behind_first_gives_the_events_in_that_very_order(self) -> None:
        events = {"1": "ABCD", "2": "ABC"}
        at = {"1": 0, "2": 0}
        orderer = Orderer(self.bound)
        seen = []
        while any(at[segment] < len(events[segment]) for segment in at):
            ready = [Head(segment, offset) for segment, offset in at.items() if offset < len(events[segment])]
            segment = orderer.next_segment(ready)
            assert segment is not None
            seen.append(segment + events[segment][at[segment]])
            at[segment] += 1
        assert seen == ["1A", "2A", "1B", "2B", "2C", "1C", "1D"]

    def test_marks_say_the_same_as_the_diagram(self) -> None:
        marks = MarkChain(self.marks)
        for position, watermark in [
            ({"1": 0, "2": 0}, AT_11_55),
            ({"1": 2, "2": 2}, AT_11_55),
            ({"1": 2, "2": 3}, AT_12_00),
            ({"1": 3, "2": 3}, AT_12_00),
            ({"1": 4, "2": 3}, AT_12_01),
        ]:
            assert time_window(marks, Cut(position), None).lower == watermark
            assert group_watermark(bound_at(marks, s, offset) for s, offset in position.items()) == watermark


@given(st.integers(0, 2**32))
def test_a_windows_lower_bound_is_its_segments_least_bound(seed: int) -> None:
    random = Random(seed)
    chain, cut = MarkChain(), NOTHING
    for seq in range(1, random.choice((1, 4, 100, 200))):
        cut = cut.join(Cut({str(n): cut.offset(str(n)) + random.choice((0, 0, 1, 30)) for n in range(4)}))
        chain.append(mark(seq, 10 * seq, cut))
    for _ in range(5):
        position = {str(n): max(0, int(cut.offset(str(n)) * random.random()) + random.randint(-1, 1)) for n in range(5)}
        bounds = [bound_at(chain, segment, offset) for segment, offset in position.items()]
        assert group_watermark(bounds) == time_window(chain, Cut(position), None).lower


def test_the_segment_furthest_behind_comes_first() -> None:
    times = {("a", 7): 300, ("b", 7): 100, ("c", 9): 200}
    assert order({"a": 7, "b": 7, "c": 9}, lambda *at: times[at]) == ["b", "c", "a"]


def test_segments_without_a_bound_come_first_and_ties_by_id() -> None:
    times = {"e": None, "d": -5, "c": None, "b": 0, "a": 0}
    assert order(dict.fromkeys(times, 1), lambda segment, _: times[segment]) == ["c", "e", "d", "a", "b"]


def test_a_transaction_is_one_point_in_time() -> None:
    # Another writer's mark lies within the transaction that fills 2 … 8 of segment "a".
    indexes = {"a": index_of((0, 10), (5, 50)), "b": index_of((0, 10), (3, 40))}
    orderer = Orderer(lambda segment, offset: indexes[segment](offset))
    assert orderer.next_segment([Head("a", 6), Head("b", 3)]) == "b"
    assert orderer.next_segment([Head("a", 6, since=2), Head("b", 3)]) == "a"


def test_nothing_of_the_same_time_comes_between_the_events_of_a_transaction() -> None:
    orderer = Orderer(lambda *_: 10)
    taken, a = [], 2
    for _ in range(8):
        head = Head("a", a, since=2 if 2 <= a < 6 else None)
        segment = orderer.next_segment([head, Head("b", 0)])
        assert segment is not None
        a += segment == "a"
        taken.append(segment)
    assert "".join(taken) in ("aaaababa", "aaaabbab", "aaaabaab")


def test_a_busy_segment_does_not_starve_the_others_while_no_mark_comes() -> None:
    orderer = Orderer(lambda *_: None)
    heads = [Head(segment, 0) for segment in "abc"]
    assert [orderer.next_segment(heads) for _ in range(7)] == [*"abcabca"]


def test_of_no_segments_none_is_next() -> None:
    assert Orderer(lambda *_: 1).next_segment([]) is None


def test_a_segment_that_was_given_up_has_its_turn_anew() -> None:
    orderer = Orderer(lambda *_: 1)
    heads = [Head("a", 0), Head("b", 0)]
    assert orderer.next_segment(heads) == "a"
    orderer.forget("a")
    assert orderer.next_segment(heads) == "a"


@pytest.mark.parametrize(("offset", "since"), [(-1, None), (3, 4), (3, -1)])
def test_a_head_that_cannot_be_is_refused(offset: int, since: int | None) -> None:
    with pytest.raises(ValueError, match=str(offset if since is None else since)):
        Head("a", offset, since)


def test_lag_is_the_time_to_the_clock_and_to_the_newest_mark() -> None:
    assert lag(100, newest=160, now=1_000) == Lag(lag_ms=900, behind_ms=60)
    assert lag(100, newest=None, now=1_000) == Lag(lag_ms=900, behind_ms=None)
    assert lag(None, newest=160, now=1_000) == Lag(lag_ms=None, behind_ms=None)


def test_each_segment_has_its_own_lag() -> None:
    times = {"a": 100, "b": None}
    found = lags({"a": 7, "b": 0}, lambda segment, _: times[segment], newest=160, now=1_000)
    assert found == {"a": Lag(900, 60), "b": Lag(None, None)}


def test_before_its_first_event_a_transaction_is_not_preferred() -> None:
    orderer = Orderer(lambda *_: 10)
    heads = [Head("a", 0, since=0), Head("b", 0)]
    assert [orderer.next_segment(heads) for _ in range(4)] == [*"abab"]
