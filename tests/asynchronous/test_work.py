"""The queues of asynchronous work: scenarios, then both promises against a model that keeps everything."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import assert_never

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.asynchronous import Completed, OrderedWork, Ticket, UnorderedWork, Work
from strandline.coalesce import Watermark
from strandline.errors import InvalidConfig, QueueFull, UnknownTicket, WatermarkWentBack

BOTH = pytest.mark.parametrize("kind", [OrderedWork, UnorderedWork])
Kind = type[OrderedWork[str, str]] | type[UnorderedWork[str, str]]


def done(*items: str) -> list[Completed[str, str]]:
    return [Completed(item, item.upper()) for item in items]


def wm(value: int, key: str = "") -> Watermark:
    return Watermark(key, value)


def test_ordered_results_come_out_in_the_order_of_submission_with_the_watermarks_between() -> None:
    #   in        e1  e2  W(10)  e3  W(20)
    #   results   e3: -          e1: e1        e2: e2 W(10) e3 W(20)
    work: OrderedWork[str, str] = OrderedWork(3)
    e1, e2 = work.submit("a"), work.submit("b")
    assert work.watermark("", 10) == []
    e3 = work.submit("c")
    assert work.watermark("", 20) == []
    assert work.complete(e3, "C") == []
    assert work.complete(e1, "A") == done("a")
    assert work.complete(e2, "B") == [*done("b"), wm(10), *done("c"), wm(20)]


def test_unordered_results_come_out_as_they_come_and_watermarks_wait_for_all_before_them() -> None:
    #   in        e1  e2  W(10)  e3  W(20)
    #   results   e3: e3         e1: e1        e2: e2 W(20)
    work: UnorderedWork[str, str] = UnorderedWork(3)
    e1, e2 = work.submit("a"), work.submit("b")
    assert work.watermark("", 10) == []
    e3 = work.submit("c")
    assert work.watermark("", 20) == []
    assert work.complete(e3, "C") == done("c")
    assert work.complete(e1, "A") == done("a")
    assert work.complete(e2, "B") == [*done("b"), wm(20)]


def test_unordered_watermarks_come_out_up_to_the_first_stretch_with_work_under_way() -> None:
    #   in        e1  order 1  e2  ship 1  e3  order 2
    #   results   e2: e2       e1: e1 order 1 ship 1      e3: e3 order 2
    work: UnorderedWork[str, str] = UnorderedWork(3)
    e1 = work.submit("a")
    work.watermark("order", 1)
    e2 = work.submit("b")
    work.watermark("ship", 1)
    e3 = work.submit("c")
    work.watermark("order", 2)
    assert work.complete(e2, "B") == done("b")
    assert work.complete(e1, "A") == [*done("a"), wm(1, "order"), wm(1, "ship")]
    assert work.complete(e3, "C") == [*done("c"), wm(2, "order")]


@BOTH
def test_a_watermark_with_nothing_before_it_comes_out_at_once(kind: Kind) -> None:
    work = kind(2)
    assert work.watermark("", 10) == [wm(10)]
    ticket = work.submit("a")
    assert work.complete(ticket, "A") == done("a")
    assert work.watermark("", 20) == [wm(20)]


@BOTH
def test_an_item_after_a_watermark_does_not_hold_it_back(kind: Kind) -> None:
    work = kind(2)
    e1 = work.submit("a")
    work.watermark("", 10)
    work.submit("b")
    assert work.complete(e1, "A") == [*done("a"), wm(10)]


@BOTH
def test_a_watermark_that_follows_one_of_the_same_key_takes_its_place(kind: Kind) -> None:
    work = kind(1)
    ticket = work.submit("a")
    work.watermark("order", 10)
    work.watermark("order", 20)
    assert work.complete(ticket, "A") == [*done("a"), wm(20, "order")]


@BOTH
def test_a_watermark_of_another_key_takes_no_ones_place(kind: Kind) -> None:
    work = kind(1)
    ticket = work.submit("a")
    work.watermark("order", 10)
    work.watermark("ship", 20)
    assert work.complete(ticket, "A") == [*done("a"), wm(10, "order"), wm(20, "ship")]


@BOTH
def test_keys_that_take_turns_behind_one_item_do_not_pile_up(kind: Kind) -> None:
    work = kind(1)
    ticket = work.submit("a")
    for value in range(500):
        work.watermark("order", value)
        work.watermark("ship", value)
    assert work.complete(ticket, "A") == [*done("a"), wm(499, "order"), wm(499, "ship")]


def test_ordered_an_item_between_keeps_both_watermarks() -> None:
    work: OrderedWork[str, str] = OrderedWork(2)
    e1 = work.submit("a")
    work.watermark("", 10)
    e2 = work.submit("b")
    work.watermark("", 20)
    work.complete(e2, "B")
    assert work.complete(e1, "A") == [*done("a"), wm(10), *done("b"), wm(20)]


@BOTH
def test_the_capacity_bounds_what_is_under_way_and_the_refusal_changes_nothing(kind: Kind) -> None:
    work = kind(2)
    assert work.capacity == 2
    e1 = work.submit("a")
    assert not work.full
    work.submit("b")
    assert work.full
    with pytest.raises(QueueFull) as refusal:
        work.submit("c")
    assert refusal.value.capacity == 2
    assert work.watermark("", 10) == []  # a watermark needs no room
    work.complete(e1, "A")
    assert not work.full
    assert work.submit("c").number == 2


def test_ordered_a_result_that_waits_for_its_turn_still_counts() -> None:
    work: OrderedWork[str, str] = OrderedWork(2)
    e1, e2 = work.submit("a"), work.submit("b")
    assert work.complete(e2, "B") == []
    assert (len(work), work.full) == (2, True)
    work.complete(e1, "A")
    assert len(work) == 0


def test_unordered_work_behind_a_stuck_item_takes_no_more_room_with_time() -> None:
    work: UnorderedWork[str, str] = UnorderedWork(2)
    stuck = work.submit("stuck")
    sizes = set()
    for value in range(1_000):
        ticket = work.submit("a")
        work.watermark("", value)
        work.complete(ticket, "A")
        sizes.add(len(pickle.dumps(work)) // 1_000)
    assert sizes == {0}  # within one kilobyte all along
    assert work.complete(stuck, "STUCK") == [*done("stuck"), wm(999)]


@pytest.mark.parametrize("before", range(12))
@pytest.mark.parametrize("after", range(12))
def test_unordered_each_item_that_stays_holds_just_the_watermarks_after_it(before: int, after: int) -> None:
    #   in    stuck  a W(1)  a W(2) …  slow  b W(101)  b W(102) …      every a and b is done at once
    work: UnorderedWork[str, str] = UnorderedWork(4)

    def pass_by(item: str, value: int) -> None:
        ticket = work.submit(item)
        work.watermark("", value)
        assert work.complete(ticket, item.upper()) == done(item)

    stuck = work.submit("stuck")
    for count in range(1, before + 1):
        pass_by("a", count)
    slow = work.submit("slow")
    for count in range(1, after + 1):
        pass_by("b", 100 + count)
    assert work.complete(stuck, "STUCK") == [*done("stuck"), *([wm(before)] if before else [])]
    assert work.complete(slow, "SLOW") == [*done("slow"), *([wm(100 + after)] if after else [])]


@BOTH
def test_a_ticket_is_completed_once(kind: Kind) -> None:
    work = kind(2)
    ticket, other = work.submit("a"), work.submit("b")
    work.complete(ticket, "A")
    for wrong in (ticket, Ticket(99)):
        with pytest.raises(UnknownTicket, match=str(wrong.number)) as refusal:
            work.complete(wrong, "A")
        assert str(pickle.loads(pickle.dumps(refusal.value))) == str(refusal.value)
    assert work.complete(other, "B") == done("b")


@BOTH
@pytest.mark.parametrize("value", [10, 9])
def test_a_watermark_that_does_not_rise_is_refused_and_changes_nothing(kind: Kind, value: int) -> None:
    work = kind(1)
    ticket = work.submit("a")
    work.watermark("order", 10)
    with pytest.raises(WatermarkWentBack):
        work.watermark("order", value)
    assert work.watermark("ship", value) == []
    assert work.complete(ticket, "A") == [*done("a"), wm(10, "order"), wm(value, "ship")]
    with pytest.raises(WatermarkWentBack):
        work.watermark("order", value)  # also when it has come out


@BOTH
@pytest.mark.parametrize("capacity", [0, -1, True, 1.0, None])
def test_a_capacity_that_is_not_a_whole_number_from_1_up_is_refused(kind: Kind, capacity: object) -> None:
    with pytest.raises(InvalidConfig, match="capacity"):
        kind(capacity)  # type: ignore[arg-type]  # what is refused is the wrong type too


@dataclass(frozen=True)
class Submit:
    pass


@dataclass(frozen=True)
class Pass:
    key: str
    step: int


@dataclass(frozen=True)
class Finish:
    which: int


Call = Submit | Pass | Finish
Output = Completed[int, str] | Watermark

calls = st.lists(
    st.one_of(
        st.just(Submit()),
        st.builds(Pass, st.sampled_from(["", "order", "ship"]), st.integers(1, 5)),
        st.builds(Finish, st.integers(0, 50)),
    ),
    max_size=80,
)


@dataclass
class Told:
    """All that went in, in order (an item by its number), what is finished, and what each call gave."""

    sequence: list[int | Watermark]
    finished: list[int]
    steps: list[list[Output]]


def run(work: Work[int, str], calls: list[Call]) -> list[Told]:
    """The history as it stood after each call."""
    told: list[Told] = []
    sequence: list[int | Watermark] = []
    finished: list[int] = []
    steps: list[list[Output]] = []
    tickets: dict[int, Ticket] = {}
    values: dict[str, int] = {}
    for call in calls:
        match call:
            case Submit():
                if work.full:
                    continue
                item = len(tickets)
                tickets[item] = work.submit(item)
                sequence.append(item)
                steps.append([])
            case Pass(key, step):
                values[key] = values.get(key, 0) + step
                sequence.append(Watermark(key, values[key]))
                steps.append(work.watermark(key, values[key]))
            case Finish(which):
                waiting = [item for item in tickets if item not in finished]
                if not waiting:
                    continue
                item = waiting[which % len(waiting)]
                finished.append(item)
                steps.append(work.complete(tickets[item], f"result of {item}"))
            case _:
                assert_never(call)
        told.append(Told(list(sequence), list(finished), list(steps)))
    return told


def ready(told: Told) -> list[int | Watermark]:
    """The input up to the first item under way: what an ordered queue may have let out."""
    out: list[int | Watermark] = []
    for entry in told.sequence:
        if isinstance(entry, int) and entry not in told.finished:
            break
        out.append(entry)
    return out


def newest(entries: list[int | Watermark] | list[Output]) -> dict[str, int]:
    return {entry.key: entry.value for entry in entries if isinstance(entry, Watermark)}


def without_replaced(entries: list[int | Watermark]) -> list[list[int | Watermark]]:
    """The items, and between them the last watermark of each key."""
    out: list[list[int | Watermark]] = [[]]
    for entry in entries:
        if isinstance(entry, int):
            out += [[entry], []]
        else:
            out[-1] = [kept for kept in out[-1] if isinstance(kept, Watermark) and kept.key != entry.key]
            out[-1].append(entry)
    return out


def flat(told: Told) -> list[Output]:
    return [output for step in told.steps for output in step]


def as_input(outputs: list[Output]) -> list[int | Watermark]:
    return [output if isinstance(output, Watermark) else output.item for output in outputs]


capacities = st.integers(1, 6)


@given(capacities, calls)
def test_ordered_work_lets_out_just_the_input_up_to_the_first_item_under_way(capacity: int, calls: list[Call]) -> None:
    work: OrderedWork[int, str] = OrderedWork(capacity)
    for told in run(work, calls):
        out = as_input(flat(told))
        assert [entry for entry in out if isinstance(entry, int)] == [
            entry for entry in ready(told) if isinstance(entry, int)
        ]
        assert newest(out) == newest(ready(told))


@given(capacities, calls)
def test_ordered_work_lets_out_one_watermark_of_a_key_between_two_items_and_it_is_the_last(
    capacity: int, calls: list[Call]
) -> None:
    work: OrderedWork[int, str] = OrderedWork(capacity)
    told = run(work, calls)
    if not told:
        return
    for step in told[-1].steps:
        assert as_input(step) == [entry for group in without_replaced(as_input(step)) for entry in group]
    out, due = without_replaced(as_input(flat(told[-1]))), without_replaced(ready(told[-1]))
    assert [set(group) for group in out] == [set(group) for group in due]


@given(capacities, calls)
def test_unordered_work_lets_out_a_result_at_once_and_a_watermark_when_all_before_it_is_done(
    capacity: int, calls: list[Call]
) -> None:
    work: UnorderedWork[int, str] = UnorderedWork(capacity)
    for told in run(work, calls):
        out = as_input(flat(told))
        assert [entry for entry in out if isinstance(entry, int)] == told.finished
        assert newest(out) == newest(ready(told))


@given(st.sampled_from([OrderedWork, UnorderedWork]), capacities, calls)
def test_no_item_comes_out_after_a_watermark_that_it_came_before(
    kind: type[Work[int, str]], capacity: int, calls: list[Call]
) -> None:
    told = run(kind(capacity), calls)
    if not told:
        return
    out, sequence = as_input(flat(told[-1])), told[-1].sequence
    for at, entry in enumerate(out):
        if isinstance(entry, Watermark):
            before = {item for item in sequence[: sequence.index(entry)] if isinstance(item, int)}
            assert before <= set(out[:at])


@given(st.sampled_from([OrderedWork, UnorderedWork]), capacities, calls)
def test_watermarks_rise_and_each_one_that_comes_out_went_in(
    kind: type[Work[int, str]], capacity: int, calls: list[Call]
) -> None:
    told = run(kind(capacity), calls)
    last: dict[str, int] = {}
    for entry in flat(told[-1]) if told else []:
        if isinstance(entry, Watermark):
            assert entry in told[-1].sequence
            assert entry.value > last.get(entry.key, 0)
            last[entry.key] = entry.value


@given(st.sampled_from([OrderedWork, UnorderedWork]), capacities, calls)
def test_each_item_comes_out_once_with_its_own_result(
    kind: type[Work[int, str]], capacity: int, calls: list[Call]
) -> None:
    work = kind(capacity)
    told = run(work, calls)
    results = [entry for entry in (flat(told[-1]) if told else []) if isinstance(entry, Completed)]
    assert all(entry.result == f"result of {entry.item}" for entry in results)
    assert len({entry.item for entry in results}) == len(results)
    submitted = [entry for entry in (told[-1].sequence if told else []) if isinstance(entry, int)]
    assert len(work) == len(submitted) - len(results)
    assert len(work) <= capacity
