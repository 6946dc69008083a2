"""Windows that are saved and loaded: a crash anywhere changes no window, and a part can be handed over."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reader_client.event_windows import Closed, EventWindows, Session, Sliding, Tumbling, WindowKind
from strandline.core.plain import from_plain, to_plain
from strandline.errors import InvalidConfig, QueueFull
from tests.event_windows.test_event_windows import EVENTS, KINDS, contents

# What a reader is given: an event of a part, with its time, or the least time of what follows.
PARTS = ("s/0", "s/1")
Step = tuple[str, int] | None


def through_json(saved: Any) -> Any:
    return json.loads(json.dumps(saved))


def bounds_of(times: Sequence[int]) -> list[int | None]:
    """After each event, the least time of those that follow."""
    return [min(times[index + 1 :], default=None) for index in range(len(times))]


@given(KINDS, EVENTS, st.data())
def test_saved_and_loaded_windows_close_as_if_never_interrupted(
    kind: WindowKind, events: list[tuple[int, str]], data: st.DataObject
) -> None:
    plain, saved = EventWindows[int](kind), EventWindows[int](kind)
    expected, found = list[Closed[int]](), list[Closed[int]]()
    after = bounds_of([time for time, _ in events])
    for index, (time, key) in enumerate(events):
        for windows, closed in ((plain, expected), (saved, found)):
            assert windows.add(time, time, key, part=index % 2)
            closed += windows.advance(after[index])
        if data.draw(st.booleans()):
            for windows in (plain, saved):
                windows.reopen(index % 2)
        if data.draw(st.booleans()):
            again = EventWindows[int](kind)
            again.load(through_json(saved.save()))
            assert len(again) == len(saved)
            saved = again
    expected += plain.finish()
    found += saved.finish()
    assert contents(found) == contents(expected)


@given(
    st.builds(Tumbling, st.integers(1, 20), st.integers(-5, 5))
    | st.builds(Sliding, st.integers(1, 20), st.integers(1, 12)),
    st.lists(st.tuples(st.integers(-50, 50), st.sampled_from(PARTS), st.booleans(), st.booleans()), max_size=30),
    st.integers(0, 30),
)
def test_what_a_dead_reader_had_open_is_in_each_window_once(
    kind: WindowKind, events: list[tuple[int, str, bool, bool]], dies_after: int
) -> None:
    """Two readers have a part each, and hear of the same bounds, each when it does. One dies, and the other goes on
    with its part from what was saved last. What the dead one told since then is not known to anybody."""
    after = bounds_of([time for time, *_ in events])
    readers = {part: EventWindows[int](kind) for part in PARTS}
    kept: dict[str, Any] = dict.fromkeys(PARTS)
    told, told_since = list[Closed[int]](), dict[str, list[Closed[int]]]({part: [] for part in PARTS})
    unsaved = dict[str, list[int]]({part: [] for part in PARTS})

    def save(part: str) -> None:
        told.extend(told_since.pop(part, []))
        told_since[part], unsaved[part] = [], []
        kept[part] = through_json(readers[part].save_parts([part])[part])

    for index, (time, part, hears, saves) in enumerate(events[:dies_after]):
        assert readers[part].add(time, time, part=part)
        unsaved[part].append(time)
        for each in PARTS:
            if hears or each == PARTS[1]:  # the first one hears of some bounds only
                told_since[each] += readers[each].advance(after[index])
            if saves or each == PARTS[1]:
                save(each)
    dead, alive = PARTS
    readers[alive].load(kept[dead], [dead])
    for time in unsaved[dead]:  # read again, after those of the others: no bound above them is told before
        assert readers[alive].add(time, time, part=dead)
    for index, (time, part, *_) in enumerate(events[dies_after:], dies_after):
        assert readers[alive].add(time, time, part=part)
        told_since[alive] += readers[alive].advance(after[index])
    told += told_since[alive] + readers[alive].finish()

    found = Counter((each.start, each.end, time) for each in told for time in each.events)
    expected = Counter((span.start, span.end, time) for time, *_ in events for span in kind.spans(time))
    assert found == expected


def test_a_loaded_part_behind_the_others_still_takes_its_events() -> None:
    #   part 0, dead     1  2          up to 5    saved with the bound 0
    #   part 1                  12     bound 10: [0, 10) is closed
    ahead, behind = EventWindows[int](Tumbling(10)), EventWindows[int](Tumbling(10))
    behind.add(1, 1, part="0"), behind.advance(0), behind.add(2, 2, part="0")
    ahead.add(3, 3, part="1"), ahead.add(12, 12, part="1")
    assert [each.events for each in ahead.advance(10)] == [(3,)]

    ahead.load(through_json(behind.save()), ["0"])

    assert ahead.add(5, 5, part="0") and not ahead.add(5, 5, part="1")
    assert ahead.advance(10) == []
    assert [(each.start, each.events) for each in ahead.advance(20)] == [(0, (1, 2, 5)), (10, (12,))]
    assert not ahead.add(5, 5, part="0")


def test_a_part_that_has_come_further_stays_closed_under_an_earlier_bound() -> None:
    saved = EventWindows[int](Tumbling(10))
    saved.add(25, 25, part="0"), saved.advance(20)
    windows = EventWindows[int](Tumbling(10))
    windows.load(saved.save_parts(["0"])["0"], ["0"])
    assert windows.advance(12) == []
    assert not windows.add(15, 15, part="0") and windows.add(15, 15, part="1")
    assert [each.events for each in windows.advance(30)] == [(15,), (25,)]


def test_a_part_another_reader_has_is_skipped_until_loaded() -> None:
    windows = EventWindows[int](Session(5))
    for time, part in ((1, "0"), (4, "1"), (8, "0"), (11, "1")):
        windows.add(time, time, "k", part=part)
    windows.drop("1")
    assert windows.add(12, 12, "k", part="1")  # it was under way
    assert len(windows) == 2
    assert [(each.start, each.end, each.events) for each in windows.finish()] == [(1, 6, (1,)), (8, 13, (8,))]
    windows.load(None, ["1"])
    assert windows.add(14, 14, "k", part="1") and len(windows) == 1


def test_dropping_a_part_leaves_the_events_of_others_in_their_windows() -> None:
    windows = EventWindows[int](Sliding(10, 5))
    windows.add(7, 7, part="0"), windows.add(8, 8, None, part="1"), windows.add(8, 80, b"key", part="0")
    windows.drop("0")
    assert len(windows) == 2
    assert [(each.start, each.key, each.events) for each in windows.finish()] == [(0, None, (8,)), (5, None, (8,))]


def test_an_event_with_an_identity_counts_once_also_after_loading() -> None:
    windows, again = EventWindows[bytes](Tumbling(10)), EventWindows[bytes](Tumbling(10))
    windows.add(1, b"\xff", b"key", identity=("s", "0", 7))
    again.load(through_json(windows.save()))
    again.add(1, b"\xff", b"key", identity=("s", "0", 7))
    assert again.finish() == [Closed(0, 10, b"key", (b"\xff",))]


def test_events_of_other_types_are_saved_as_they_are_encoded() -> None:
    plain = EventWindows[complex](Tumbling(10))
    plain.add(1, 1 + 2j)
    with pytest.raises(InvalidConfig, match="only strings, bytes, numbers"):
        plain.save()
    windows, again = [EventWindows[complex](Tumbling(10), encode=str, decode=complex) for _ in range(2)]
    windows.add(1, 1 + 2j)
    again.load(through_json(windows.save()))
    assert again.finish()[0].events == (1 + 2j,)


def test_an_unfit_state_is_refused_and_changes_nothing() -> None:
    full = EventWindows[int](Tumbling(10))
    full.advance(1)
    full.add(1, 1), full.add(2, 2)
    small = EventWindows[int](Tumbling(10), capacity=1)
    with pytest.raises(QueueFull):
        small.load(full.save())
    small.add(-5, -5)  # which is late only by the bound of the refused state
    for wrong in ({}, {"lower": None, "lowers": [], "events": [[1]]}, {"lower": "x", "lowers": [], "events": []}):
        with pytest.raises(InvalidConfig):
            small.load(wrong)
    with pytest.raises(InvalidConfig):
        small.load({"lower": None, "lowers": [[["a", "list"], None]], "events": []})
    wider = EventWindows[int](Tumbling(60))
    wider.add(0, 0)
    with pytest.raises(InvalidConfig, match=r"kind cannot be Tumbling\(size_ms=60.*Tumbling\(size_ms=10"):
        wider.load(full.save())  # [0, 60) would come without what was in [0, 10)
    assert [each.events for each in wider.finish()] == [(0,)]
    assert [each.events for each in small.finish()] == [(-5,)]


@pytest.mark.parametrize("wrong", [10, Tumbling, None])
def test_what_is_no_kind_of_window_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(InvalidConfig, match=r"kind cannot be .*: Tumbling"):
        EventWindows(wrong)


def test_a_state_takes_the_room_of_the_events_that_it_replaces() -> None:
    windows = EventWindows[int](Tumbling(10), capacity=3)
    windows.add(1, 1, part="1"), windows.add(2, 2, part="1"), windows.add(3, 3, part="2")
    windows.load(windows.save(), ["1"])
    assert [each.events for each in windows.finish()] == [(3, 1, 2)]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(VALUES)
def test_plain_data_comes_back_as_it_was(value: Any) -> None:
    assert from_plain(through_json(to_plain(value))) == value


@pytest.mark.parametrize("wrong", [{}, {"bytes": "!"}, {"tuple": 5}, {"bytes": "", "tuple": []}, {1: 2}])
def test_what_is_no_plain_data_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_plain(wrong)


def test_a_reopened_part_takes_older_events_until_the_next_bound() -> None:
    windows = EventWindows[int](Tumbling(10))
    windows.add(12, 12, part="1"), windows.add(13, 13, part="2")
    windows.advance(10)
    windows.reopen("1")
    assert windows.add(5, 5, part="1") and not windows.add(5, 5, part="2")
    saved = windows.save_parts(["1"])["1"]
    assert [time for _, time, *_ in saved["events"]] == [12, 5]
    assert [each.events for each in windows.advance(11)] == [(5,)]
    assert not windows.add(5, 5, part="1")


def test_windows_closed_before_a_reopening_stay_closed_for_saved_events() -> None:
    #   0    5 7  10   15    an event at 7, the bound 10: [0, 10) is closed; another comes after the reopening
    windows, again = EventWindows[int](Sliding(10, 5)), EventWindows[int](Sliding(10, 5))
    windows.add(7, 7, part="1")
    assert [each.start for each in windows.advance(10)] == [0]
    windows.reopen("1")
    assert windows.add(8, 8, part="1")
    windows.reopen("1")
    again.load(through_json(windows.save()))
    again.load(through_json(again.save_parts(["1"])["1"]), ["1"])
    found = again.finish()
    assert [(each.start, each.events) for each in found] == [(0, (8,)), (5, (7, 8))]
    assert found == windows.finish()
