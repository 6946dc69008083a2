from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.dashboard.limits import SEGMENT_BOXES, SEGMENT_PARTS, SEGMENTS_UNFOLDED
from controller.dashboard.segments import BOX_HEIGHT, BOX_WIDTH, segments_picture
from strandline.core.segment import NewSegment, Segment, SegmentGraph

pytestmark = pytest.mark.full


def halved(count: int, times: int) -> list[Segment]:
    """Segments of which the one with the least keys was split in two, so many times."""
    graph = SegmentGraph.equal_shares(count, 0)
    for number in range(times):
        ending = min((each for each in graph if not each.sealed), key=lambda each: each.low or 0.0)
        assert ending.low is not None and ending.high is not None
        middle = (ending.low + ending.high) / 2
        halves = [(ending.low, middle), (middle, ending.high)]
        new = [NewSegment(id=f"{number}-{half}", low=low, high=high) for half, (low, high) in enumerate(halves)]
        graph.scale({ending.id: 1}, new, 1)
    return list(graph)


def test_a_few_segments_are_drawn_one_by_one() -> None:
    shown = segments_picture(halved(2, 3))
    assert [each.name for each in shown.boxes] == ["0", "1", "0-0", "0-1", "1-0", "1-1", "2-0", "2-1"]
    assert len(shown.arrows) == 6 and shown.folded == 0


@pytest.mark.parametrize(("count", "times"), [(26, 1), (1_000, 1), (26, 40), (2, 500), (1, 45)])
def test_many_segments_fold_to_a_few_boxes_that_say_how_many_they_are(count: int, times: int) -> None:
    segments = halved(count, times)
    shown = segments_picture(segments)
    assert len(segments) > SEGMENTS_UNFOLDED and len(shown.boxes) <= 2 * SEGMENT_PARTS
    assert sum(len(each.segments) for each in shown.boxes) == len(segments)
    assert shown.folded == sum(len(each.segments) for each in shown.boxes if each.is_folded) > 0
    assert all(f"{len(each.segments):,} " in each.text for each in shown.boxes if each.is_folded)


@given(st.integers(1, 40), st.integers(0, 60), st.lists(st.integers(0, 99), max_size=8))
def test_whatever_is_unfolded_each_segment_is_in_one_box_and_no_arrow_leads_back(
    count: int, times: int, chosen: list[int]
) -> None:
    segments = halved(count, times)
    unfolded: list[str] = []
    shown = segments_picture(segments)
    for number in chosen:
        before, unfolded = shown, [*unfolded, shown.boxes[number % len(shown.boxes)].name]
        shown = segments_picture(segments, unfolded)
        assert len(before.boxes) <= len(shown.boxes) <= SEGMENT_BOXES
    assert sorted(each.id for box in shown.boxes for each in box.segments) == sorted(each.id for each in segments)
    assert all(before < after for before, after in shown.arrows)


def test_too_many_boxes_fold_again_beginning_with_the_first_that_was_unfolded() -> None:
    segments, unfolded = halved(1_000, 1), list[str]()
    for _ in range(SEGMENT_BOXES):
        shown = segments_picture(segments, unfolded)
        assert len(shown.boxes) <= SEGMENT_BOXES
        if unfolded and unfolded[0] in {each.name for each in shown.boxes}:
            break
        unfolded.append(max(shown.boxes, key=lambda each: len(each.segments)).name)
    else:
        pytest.fail("the first one never folded again")
    assert unfolded[0] not in {each.name for each in segments_picture(segments, unfolded[:1]).boxes}


def test_boxes_stand_apart_and_names_of_249_characters_fit_into_them() -> None:
    for segments in (halved(2, 8), [Segment(id=f"{'n' * 245}{number:04}", created_at=0) for number in range(100)]):
        places, _, wide, high = segments_picture(segments).drawn()
        assert len({(each.x, each.y) for each in places}) == len(places)
        assert all(each.x + BOX_WIDTH <= wide and each.y + BOX_HEIGHT <= high for each in places)
        assert max(len(line) for each in places for line in each.box.lines) < 33
