"""The laws of planning a batch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_integration.batches import plan_end, share, split
from strandline.core.segment import Segment

budgets = st.integers(0, 1000)
amounts = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 300))


@given(budgets, amounts)
def test_a_budget_is_used_up_or_everything_is_granted(budget: int, waiting: dict[str, int]) -> None:
    granted = share(budget, waiting)
    assert sum(granted.values()) == min(budget, sum(waiting.values()))


@given(budgets, amounts)
def test_no_segment_gets_less_than_an_even_part_unless_it_wants_less(budget: int, waiting: dict[str, int]) -> None:
    for segment, rows in share(budget, waiting).items():
        assert min(waiting[segment], budget // len(waiting)) <= rows <= waiting[segment]


@given(amounts)
def test_without_a_budget_everything_is_granted(waiting: dict[str, int]) -> None:
    assert share(None, waiting) == waiting


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(1, 500))
def test_pieces_cover_the_range_once_and_are_no_larger_than_asked(start: int, rows: int, most: int) -> None:
    pieces = split(start, start + rows, most)
    assert [offset for low, high in pieces for offset in range(low, high)] == list(range(start, start + rows))
    assert all(0 < high - low <= most for low, high in pieces)


# A history of scaling: 0 and 1 merge into 2, which splits into 3 and 4.
FINALS = {"0": 30, "1": 0, "2": 20, "3": None, "4": None}
SEGMENTS = [
    Segment(id=name, created_at=0, predecessors=before, final_offset=FINALS[name])
    for name, before in {"0": (), "1": (), "2": ("0", "1"), "3": ("2",), "4": ("2",)}.items()
]
ENDS = {"0": 30, "1": 0, "2": 20, "3": 25, "4": 15}


@given(st.lists(st.one_of(st.none(), st.integers(1, 60)), min_size=1, max_size=12))
def test_batches_go_forward_within_their_budget_and_in_the_order_of_scaling(
    budgets: list[int | None],
) -> None:
    at: dict[str, int] = {}
    for budget in budgets:
        end = plan_end(at, ENDS, SEGMENTS, budget)
        assert all(at.get(name, 0) <= end[name] <= ENDS[name] for name in ENDS)
        rows = sum(end.values()) - sum(at.values())
        assert rows == min(budget or 90, 90 - sum(at.values()))
        for segment in SEGMENTS:
            if end[segment.id] > 0:
                assert all(end[before] == FINALS[before] for before in segment.predecessors)
        at = end


def test_a_segment_whose_end_is_not_known_yet_is_left_for_later() -> None:
    assert plan_end({"0": 30}, {"0": 30, "1": 0}, SEGMENTS, None)["2"] == 0
