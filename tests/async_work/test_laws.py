"""Asynchronous work: what holds for every history of items, watermarks and results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from hypothesis import given
from hypothesis import strategies as st

from reader_client.async_work import Completed, Ticket, Work
from strandline.core.coalesce import Watermark


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


def run(work: Work[int, str, Watermark], calls: list[Call]) -> list[Told]:
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
                steps.append(work.behind(key, Watermark(key, values[key])))
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
def test_ordered_work_emits_input_up_to_the_first_unfinished_item(capacity: int, calls: list[Call]) -> None:
    work: Work[int, str, Watermark] = Work(capacity, ordered=True)
    for told in run(work, calls):
        out = as_input(flat(told))
        assert [entry for entry in out if isinstance(entry, int)] == [
            entry for entry in ready(told) if isinstance(entry, int)
        ]
        assert newest(out) == newest(ready(told))


@given(capacities, calls)
def test_ordered_work_emits_one_last_watermark_per_key_between_items(capacity: int, calls: list[Call]) -> None:
    work: Work[int, str, Watermark] = Work(capacity, ordered=True)
    told = run(work, calls)
    if not told:
        return
    for step in told[-1].steps:
        assert as_input(step) == [entry for group in without_replaced(as_input(step)) for entry in group]
    out, due = without_replaced(as_input(flat(told[-1]))), without_replaced(ready(told[-1]))
    assert [set(group) for group in out] == [set(group) for group in due]


@given(capacities, calls)
def test_unordered_work_emits_results_at_once_and_watermarks_in_turn(capacity: int, calls: list[Call]) -> None:
    work: Work[int, str, Watermark] = Work(capacity, ordered=False)
    for told in run(work, calls):
        out = as_input(flat(told))
        assert [entry for entry in out if isinstance(entry, int)] == told.finished
        assert newest(out) == newest(ready(told))


@given(st.booleans(), capacities, calls)
def test_no_item_comes_out_after_a_watermark_that_it_came_before(
    ordered: bool, capacity: int, calls: list[Call]
) -> None:
    told = run(Work(capacity, ordered=ordered), calls)
    if not told:
        return
    out, sequence = as_input(flat(told[-1])), told[-1].sequence
    for at, entry in enumerate(out):
        if isinstance(entry, Watermark):
            before = {item for item in sequence[: sequence.index(entry)] if isinstance(item, int)}
            assert before <= set(out[:at])


@given(st.booleans(), capacities, calls)
def test_watermarks_rise_and_each_one_that_comes_out_went_in(ordered: bool, capacity: int, calls: list[Call]) -> None:
    told = run(Work(capacity, ordered=ordered), calls)
    last: dict[str, int] = {}
    for entry in flat(told[-1]) if told else []:
        if isinstance(entry, Watermark):
            assert entry in told[-1].sequence
            assert entry.value > last.get(entry.key, 0)
            last[entry.key] = entry.value


@given(st.booleans(), capacities, calls)
def test_each_item_comes_out_once_with_its_own_result(ordered: bool, capacity: int, calls: list[Call]) -> None:
    work: Work[int, str, Watermark] = Work(capacity, ordered=ordered)
    told = run(work, calls)
    results = [entry for entry in (flat(told[-1]) if told else []) if isinstance(entry, Completed)]
    assert all(entry.result == f"result of {entry.item}" for entry in results)
    assert len({entry.item for entry in results}) == len(results)
    submitted = [entry for entry in (told[-1].sequence if told else []) if isinstance(entry, int)]
    assert len(work) == len(submitted) - len(results)
    assert len(work) <= capacity
