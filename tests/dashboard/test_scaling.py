from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.dashboard.scaling import successors
from strandline.core.segment import NewSegment, SegmentGraph

pytestmark = pytest.mark.full


@given(st.integers(1, 30), st.data())
def test_successors_of_neighbours_are_a_scaling_that_the_core_takes(count: int, data: st.DataObject) -> None:
    segments = SegmentGraph.equal_shares(count, 0)
    first = data.draw(st.integers(0, count - 1))
    ending = {str(n): 5 for n in range(first, data.draw(st.integers(first, count - 1)) + 1)}
    new = successors(segments, ending, data.draw(st.integers(1, 40)), ())
    segments.scale(ending, new, 1)
    assert {each.id for each in new} <= {each.id for each in segments}


@pytest.mark.parametrize(
    ("ending", "number", "names", "said"),
    [
        (["9"], 1, [], "there is no segment 9"),
        (["0", "2"], 1, [], "lie between them"),
        (["0"], 2, ["a"], "1 names for 2 successors"),
    ],
)
def test_what_is_no_split_or_merge_is_refused(ending: list[str], number: int, names: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        successors(SegmentGraph.equal_shares(3, 0), ending, number, names)


def test_successors_in_an_open_stream_follow_all_that_end() -> None:
    segments = SegmentGraph(open=True)
    segments.name(["a", "b"], 0)
    assert successors(segments, ["a", "b"], 1, ["c"]) == [NewSegment(id="c", predecessors=("a", "b"))]
