"""The queues of asynchronous work: scenarios, then both promises against a model that keeps everything."""

from __future__ import annotations

import pickle
from itertools import product

import pytest

from reader_client.async_work import Completed, Ticket, Work
from strandline.core.coalesce import Watermark
from strandline.errors import InvalidConfig, QueueFull, UnknownTicket

BOTH = pytest.mark.parametrize("ordered", [True, False])


def done(*items: str) -> list[Completed[str, str]]:
    return [Completed(item, item.upper()) for item in items]


def wm(value: int, key: str = "") -> Watermark:
    return Watermark(key, value)


def test_ordered_results_and_watermarks_come_in_submission_order() -> None:
    #   in        e1  e2  W(10)  e3  W(20)
    #   results   e3: -          e1: e1        e2: e2 W(10) e3 W(20)
    work: Work[str, str, Watermark] = Work(3, ordered=True)
    e1, e2 = work.submit("a"), work.submit("b")
    assert work.behind("", wm(10)) == []
    e3 = work.submit("c")
    assert work.behind("", wm(20)) == []
    assert work.complete(e3, "C") == []
    assert work.complete(e1, "A") == done("a")
    assert work.complete(e2, "B") == [*done("b"), wm(10), *done("c"), wm(20)]


def test_unordered_results_come_at_once_and_watermarks_wait() -> None:
    #   in        e1  e2  W(10)  e3  W(20)
    #   results   e3: e3         e1: e1        e2: e2 W(20)
    work: Work[str, str, Watermark] = Work(3, ordered=False)
    e1, e2 = work.submit("a"), work.submit("b")
    assert work.behind("", wm(10)) == []
    e3 = work.submit("c")
    assert work.behind("", wm(20)) == []
    assert work.complete(e3, "C") == done("c")
    assert work.complete(e1, "A") == done("a")
    assert work.complete(e2, "B") == [*done("b"), wm(20)]


@BOTH
def test_the_capacity_bounds_what_is_under_way_and_the_refusal_changes_nothing(ordered: bool) -> None:
    work: Work[str, str, Watermark] = Work(2, ordered=ordered)
    e1 = work.submit("a")
    assert not work.full
    work.submit("b")
    assert work.full
    with pytest.raises(QueueFull) as refusal:
        work.submit("c")
    assert refusal.value.capacity == 2
    assert work.behind("", wm(10)) == []  # a watermark needs no room
    work.complete(e1, "A")
    assert not work.full
    assert work.submit("c").number == 2


def test_unordered_work_behind_a_stuck_item_takes_no_more_room_with_time() -> None:
    work: Work[str, str, Watermark] = Work(2, ordered=False)
    stuck = work.submit("stuck")
    sizes = set()
    for value in range(1_000):
        ticket = work.submit("a")
        work.behind("", wm(value))
        work.complete(ticket, "A")
        sizes.add(len(pickle.dumps(work)) // 1_000)
    assert sizes == {0}  # within one kilobyte all along
    assert work.complete(stuck, "STUCK") == [*done("stuck"), wm(999)]


def test_unordered_each_item_that_stays_holds_just_the_watermarks_after_it() -> None:
    #   in    stuck  a W(1)  a W(2) …  slow  b W(101)  b W(102) …      every a and b is done at once
    def pass_by(work: Work[str, str, Watermark], item: str, value: int) -> None:
        ticket = work.submit(item)
        work.behind("", wm(value))
        assert work.complete(ticket, item.upper()) == done(item)

    for before, after in product(range(12), repeat=2):
        work: Work[str, str, Watermark] = Work(4, ordered=False)
        stuck = work.submit("stuck")
        for count in range(1, before + 1):
            pass_by(work, "a", count)
        slow = work.submit("slow")
        for count in range(1, after + 1):
            pass_by(work, "b", 100 + count)
        assert work.complete(stuck, "STUCK") == [*done("stuck"), *([wm(before)] if before else [])]
        assert work.complete(slow, "SLOW") == [*done("slow"), *([wm(100 + after)] if after else [])]


@BOTH
def test_a_ticket_is_completed_once(ordered: bool) -> None:
    work: Work[str, str, Watermark] = Work(2, ordered=ordered)
    ticket, other = work.submit("a"), work.submit("b")
    work.complete(ticket, "A")
    for wrong in (ticket, Ticket(99)):
        with pytest.raises(UnknownTicket, match=str(wrong.number)) as refusal:
            work.complete(wrong, "A")
        assert str(pickle.loads(pickle.dumps(refusal.value))) == str(refusal.value)
    assert work.complete(other, "B") == done("b")


@BOTH
@pytest.mark.parametrize("capacity", [0, -1, True, 1.0, None])
def test_a_capacity_must_be_a_positive_whole_number(ordered: bool, capacity: object) -> None:
    with pytest.raises(InvalidConfig, match="capacity"):
        Work(capacity, ordered=ordered)  # type: ignore[arg-type]  # what is refused is the wrong type too


@BOTH
def test_the_newest_signal_of_a_subject_comes_at_its_own_place(ordered: bool) -> None:
    work: Work[str, str, Watermark] = Work(1, ordered=ordered)
    ticket = work.submit("a")
    for value, key in ((1, "order"), (2, "ship"), (3, "order")):
        work.behind(key, wm(value, key))
    assert work.complete(ticket, "A") == [*done("a"), wm(2, "ship"), wm(3, "order")]
