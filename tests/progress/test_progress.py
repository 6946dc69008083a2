"""A reader's progress: every event once and in order within its segment, and a position below which all is done."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reader_client.progress import Adopted, News, Progress
from strandline.core.order import Bound, SegmentRef

A, B = ("s", "a"), ("s", "b")


@dataclass(frozen=True)
class Event:
    offset: int


def fed(*offsets: int, upto: int | None = None) -> Progress[Event]:
    """One segment with events at these offsets."""
    progress = Progress[Event]()
    progress.adopt({"s": {"a": 0}})
    end = upto if upto is not None else max(offsets, default=-1) + 1
    progress.feed(A, [Event(offset) for offset in offsets], end, end)
    return progress


def take(progress: Progress[Event]) -> Event:
    taken = progress.take()
    assert taken is not None
    return taken[1]


STEPS = st.lists(st.tuples(st.sampled_from(["feed", "take", "done", "back", "report"]), st.integers(0, 5)), max_size=60)


@given(STEPS, st.booleans())
def test_events_come_once_in_order_and_settled_positions_are_done(steps: list[tuple[str, int]], in_order: bool) -> None:
    progress = Progress[Event](lambda segment, offset: 0)
    progress.adopt({"s": {"a": 0, "b": 0}})
    there: dict[SegmentRef, int] = {A: 0, B: 0}
    holes: dict[SegmentRef, set[int]] = {A: set(), B: set()}
    given_out: dict[SegmentRef, list[int]] = {A: [], B: []}
    under_way: list[tuple[SegmentRef, Event]] = []
    read: dict[str, dict[str, int]] = {"s": {"a": 0, "b": 0}}
    settled: dict[str, dict[str, int]] = {"s": {"a": 0, "b": 0}}
    for what, number in steps:
        place = A if number % 2 else B
        match what:
            case "feed" if not progress.cursors[place].buffer:
                start, end = there[place], there[place] + number
                events = [Event(offset) for offset in range(start, end) if offset % 3]
                holes[place] |= {offset for offset in range(start, end) if not offset % 3}
                progress.feed(place, events, end, end)
                there[place] = end
            case "take":
                taken = progress.take()
                if taken is not None:
                    given_out[taken[0]].append(taken[1].offset)
                    under_way.append(taken)
            case "done" if under_way:
                done = under_way.pop(0 if in_order else number % len(under_way))
                progress.done(done[0], done[1].offset)
            case "back" if under_way and not in_order:
                last = under_way[-1]
                if last[1].offset == given_out[last[0]][-1]:
                    under_way.pop()
                    given_out[last[0]].pop()
                    progress.put_back(*last)
            case "report":
                news = progress.news()
                progress.reported(news)
                read["s"] |= news.positions.get("s", {})
                settled["s"] |= news.settled.get("s", {})
                assert (read, settled) == (progress.positions(), progress.settled())
                assert progress.news() == News({}, {})
        for each, offsets in given_out.items():
            assert offsets == [offset for offset in range(len(offsets) * 2) if offset % 3][: len(offsets)]
            position = progress.settled()["s"][each[1]]
            open_ones = {event.offset for other, event in under_way if other == each}
            for offset in range(position):
                assert offset in holes[each] or (offset in offsets and offset not in open_ones)
            for offset in range(progress.positions()["s"][each[1]]):
                assert offset in holes[each] or offset in offsets
            assert not offsets or progress.positions()["s"][each[1]] > offsets[-1]
            if not open_ones and not progress.cursors[each].buffer:
                assert position == progress.positions()["s"][each[1]] == there[each]


def test_settling_up_to_an_offset_is_being_done_with_all_below_it() -> None:
    progress = fed(0, 1, 2)
    take(progress), take(progress), take(progress)
    progress.settle(A, 2)
    progress.settle(B, 2)  # which it does not have
    assert (progress.positions(), progress.settled()) == ({"s": {"a": 3}}, {"s": {"a": 2}})


def test_offsets_without_an_event_are_passed() -> None:
    progress = fed(1, upto=5)
    assert take(progress) == Event(1)
    progress.done(A, 1)
    assert progress.positions() == {"s": {"a": 5}}
    assert fed(upto=4).positions() == fed(upto=4).settled() == {"s": {"a": 4}}


def test_what_was_put_back_comes_again() -> None:
    progress = fed(0, 1)
    first = take(progress)
    progress.put_back(A, first)
    assert (progress.positions(), take(progress)) == ({"s": {"a": 0}}, first)


def test_a_lost_segment_is_forgotten_and_a_kept_one_continues() -> None:
    progress = fed(0, 1, 2)
    take(progress)
    progress.done(A, 0)
    progress.adopt({"s": {"a": 0, "b": 7}})  # what the group heard last of a lies behind
    assert progress.positions() == {"s": {"a": 1, "b": 7}}
    assert take(progress) == Event(1)
    progress.adopt({"s": {"b": 7}})
    progress.done(A, 1)  # came too late, and harms nobody
    assert progress.positions() == {"s": {"b": 7}}
    progress.adopt({"s": {"a": 9, "b": 7}})
    assert progress.positions()["s"]["a"] == 9


def test_a_segment_lost_and_regained_between_two_calls_is_read_again() -> None:
    progress = fed(0, 1, 2)
    take(progress), take(progress)
    progress.settle(A, 2, held=True)
    progress.reported(progress.news())
    assert not progress.loses({"s": {"a": 2}})
    assert progress.loses({"s": {"a": 1}})
    assert progress.adopt({"s": {"a": 1}}) == Adopted({A: 1}, (A,))
    assert (progress.positions(), progress.settled()) == ({"s": {"a": 1}}, {"s": {"a": 1}})
    assert progress.take() is None  # what it had fetched was dropped with the segment


def test_a_segment_is_finished_when_all_of_it_is_read() -> None:
    progress = fed(0)
    assert progress.wanting() == []
    progress.end(A, 1)
    assert (progress.wanting(), progress.room(1)) == ([], 0)
    take(progress)
    assert progress.has_finished  # its successors wait for nobody's work
    assert progress.wanting() == []  # nothing of it is fetched, and there is nothing more
    progress.adopt({"s": {"a": 0, "b": 0}})
    assert progress.has_finished
    assert progress.wanting() == [B]
    progress.reported(progress.news())
    assert not progress.has_finished
    progress.done(A, 0)
    assert not progress.has_finished  # that it is settled, too, can wait for the next report
    assert progress.news() == News({"s": {"a": 1}}, {"s": {"a": 1}})


def test_a_segment_is_lost_unless_all_of_it_was_reported() -> None:
    progress = fed(0)
    assert not progress.loses({"s": {"a": 0, "b": 0}})
    assert progress.loses({"s": {"b": 0}})
    both = Progress[Event]()
    both.adopt({"s": {"a": 0, "b": 0}})
    assert both.loses({"s": {"a": 0}})
    progress.end(A, 1)
    take(progress)
    progress.reported(progress.news())
    assert progress.loses({})  # what was read of it is not settled
    progress.done(A, 0)
    assert progress.loses({})
    progress.reported(progress.news())
    assert not progress.loses({})


def test_a_reader_takes_its_share_and_gives_up_the_surplus() -> None:
    progress = Progress[Event]()
    progress.adopt({"s": {"a": 0, "b": 0, "c": 0, "d": 5}})
    progress.end(("s", "d"), 5)  # finished: it does not count
    progress.feed(A, [Event(0)], 1, 1)
    assert (progress.room(5), progress.room(2)) == (2, 0)
    assert progress.surplus(3) == []
    assert progress.surplus(1) == [B, ("s", "c")]  # not the one of which something is here


def test_no_segment_is_skipped_for_one_with_a_later_bound() -> None:
    """50 segments, each with 10 events of which every second one has a later bound."""
    bounds = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    names = [str(number) for number in range(50)]
    progress = Progress[Event](lambda segment, offset: bounds[offset])
    progress.adopt({"s": dict.fromkeys(names, 0)})
    for name in names:
        progress.feed(("s", name), [Event(offset) for offset in range(10)], 10, 10)
    taken = [progress.take() for _ in range(500)]
    found = [(place[1], event.offset) for each in taken if each is not None for place, event in [each]]
    assert len(set(found)) == 500
    assert [bounds[offset] for _, offset in found] == sorted(bounds * 50)
    assert len({name for name, _ in found[:100]}) == 50


def test_a_segment_with_more_events_starves_once_its_buffer_empties() -> None:
    progress = Progress[Event]()
    progress.adopt({"s": {"a": 0}})
    progress.feed(A, [Event(0)], 1, 9)
    assert not progress.starved
    take(progress)
    assert progress.starved
    progress.adopt({"s": {"a": 0, "b": 0}})
    assert progress.starved  # also where another has no more
    progress.feed(A, [], 9, 9)
    assert not progress.starved


def test_an_event_out_of_place_is_refused() -> None:
    progress = fed(0, 1)
    with pytest.raises(ValueError, match="an event at 1"):
        progress.feed(A, [Event(1)], 5, 5)
    for beyond in (5, 7):
        with pytest.raises(ValueError, match=f"an event at {beyond}"):
            progress.feed(A, [Event(beyond)], 5, 5)
    with pytest.raises(ValueError, match="an event at 3 is not in 4"):
        progress.feed(A, [Event(3), Event(3)], 5, 5)


def test_a_report_about_what_was_lost_meanwhile_is_of_no_matter() -> None:
    progress = fed(0)
    progress.done(A, take(progress).offset)
    told = {"s": {"a": 1, "b": 7}, "gone": {"0": 3}}
    progress.reported(News(told, told))
    assert (progress.news(), progress.positions()) == (News({}, {}), {"s": {"a": 1}})


def test_without_bounds_segments_take_turns() -> None:
    progress = Progress[Event]()
    progress.adopt({"s": {"a": 0, "b": 0}})
    for place in (A, B):
        progress.feed(place, [Event(0), Event(1)], 2, 2)
    taken = [progress.take() for _ in range(4)]
    assert [each[0][1] for each in taken if each is not None] == ["a", "b", "a", "b"]


def many(bound: Bound, events: int = 20) -> Progress[Event]:
    """Sixteen segments: one is taken from three times before all are looked at again."""
    progress = Progress[Event](bound)
    names = [f"{number:02}" for number in range(16)]
    progress.adopt({"s": dict.fromkeys([*names, "z"], 0)})
    for name in names:
        progress.feed(("s", name), [Event(offset) for offset in range(events)], events, events)
    return progress


def test_while_no_mark_comes_every_one_of_many_segments_has_its_turn() -> None:
    progress = many(lambda segment, offset: 0)
    taken = [progress.take() for _ in range(48)]
    assert len({each[0] for each in taken if each is not None}) == 16


def test_an_older_fetched_event_interrupts_the_segment_being_read() -> None:
    progress = many(lambda segment, offset: 3 if segment == "s/z" else 7)
    assert take(progress) == Event(0)
    progress.feed(("s", "z"), [Event(0)], 1, 1)
    taken = progress.take()
    assert taken is not None
    assert taken[0] == ("s", "z")


def test_a_segment_lost_while_being_read_is_not_continued() -> None:
    progress = many(lambda segment, offset: 0)
    first = progress.take()
    assert first is not None
    progress.drop([first[0]])
    then = progress.take()
    assert then is not None and then[0] != first[0]


def test_held_events_stay_unsettled_when_a_segment_is_adopted() -> None:
    progress = Progress[Event]()
    assert progress.adopt({"s": {"a": 2}}) == Adopted({A: 2}, ())
    progress.begin(A, 5, held=True)
    assert (progress.positions(), progress.settled()) == ({"s": {"a": 5}}, {"s": {"a": 4}})
    assert progress.news() == News({"s": {"a": 5}}, {"s": {"a": 4}})
    progress.feed(A, [Event(5)], 6, 6)
    take(progress)
    progress.settle(A, 6, held=True)
    assert progress.settled() == {"s": {"a": 5}}
    progress.settle(A, 6)
    assert progress.settled() == {"s": {"a": 6}}
    assert progress.adopt({"s": {"a": 9}}) == Adopted({A: 9}, (A,))  # others have read on
    assert progress.adopt({"s": {"b": 0}}) == Adopted({B: 0}, (A,))
