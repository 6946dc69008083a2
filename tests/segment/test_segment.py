"""The graph of segments: what tiles, what follows what, and cuts to the wire and back."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.cut import Cut
from strandline.core.segment import NewSegment, Segment, SegmentGraph
from strandline.errors import (
    BeyondFinalOffset,
    InvalidConfig,
    InvalidName,
    InvalidScale,
    TooMany,
    UnknownSegment,
)
from strandline.limits import SEGMENTS_PER_STREAM


def new(name: str, low: float, high: float) -> NewSegment:
    return NewSegment(name, low, high)


def family() -> SegmentGraph:
    """Two segments; 0 is split into 2 and 3, then 3 and 1 are merged into 4.

    [0, .25)   0 ─┬─ 2
    [.25, .5)     └─ 3 ─┐
    [.5, 1)    1 ───────┴─ 4
    """
    graph = SegmentGraph.equal_shares(2, 0)
    graph.scale({"0": 10}, [new("2", 0.0, 0.25), new("3", 0.25, 0.5)], 1)
    graph.scale({"3": 0, "1": 7}, [new("4", 0.25, 1.0)], 2)
    return graph


@st.composite
def graphs(draw: st.DrawFn) -> SegmentGraph:
    """A graph after a few random splits and merges, with final offsets of 0 among them."""
    graph = SegmentGraph.equal_shares(draw(st.integers(1, 3)), 0)
    for step in range(draw(st.integers(0, 4))):
        live = sorted((each for each in graph if not each.sealed), key=lambda each: each.low or 0.0)
        at = draw(st.integers(0, len(live) - 1))
        if draw(st.booleans()) and at + 1 < len(live):
            chosen, (low, high) = live[at : at + 2], (live[at].low, live[at + 1].high)
            assert low is not None
            assert high is not None
            create = [new(f"m{step}", low, high)]
        else:
            chosen, (low, high) = [live[at]], (live[at].low, live[at].high)
            assert low is not None
            assert high is not None
            middle = (low + high) / 2
            create = [new(f"s{step}a", low, middle), new(f"s{step}b", middle, high)]
        graph.scale({each.id: draw(st.integers(0, 4)) for each in chosen}, create, step)
    return graph


@st.composite
def graphs_with_positions(draw: st.DrawFn, count: int = 1) -> tuple[SegmentGraph, list[dict[str, int]]]:
    graph = draw(graphs())
    offsets = {each.id: st.integers(0, 5 if each.final_offset is None else each.final_offset) for each in graph}
    names = st.sampled_from(sorted(offsets))
    return graph, [{name: draw(offsets[name]) for name in draw(st.sets(names))} for _ in range(count)]


@given(graphs_with_positions())
def test_a_cut_comes_back_from_the_wire_as_it_went(given_: tuple[SegmentGraph, list[dict[str, int]]]) -> None:
    graph, (position,) = given_
    cut = graph.cut(position)
    wire = graph.frontier(cut)
    assert graph.cut(wire) == cut
    assert graph.frontier(graph.cut(wire)) == wire


@given(graphs_with_positions())
def test_the_wire_form_names_nothing_at_zero_and_nothing_implied(
    given_: tuple[SegmentGraph, list[dict[str, int]]],
) -> None:
    graph, (position,) = given_
    wire = graph.frontier(graph.cut(position))
    assert all(offset > 0 for offset in wire.values())
    for name in wire:
        smaller = {other: offset for other, offset in wire.items() if other != name}
        assert graph.cut(smaller) != graph.cut(wire)


@given(graphs_with_positions())
def test_who_names_a_segment_has_passed_all_before_it(given_: tuple[SegmentGraph, list[dict[str, int]]]) -> None:
    graph, (position,) = given_
    cut = graph.cut(position)
    for name in position:
        for before in graph.ancestors([name]):
            assert cut.offset(before) == graph[before].final_offset


@given(graphs_with_positions(count=2))
def test_cuts_of_a_graph_stay_closed_under_join_and_meet(given_: tuple[SegmentGraph, list[dict[str, int]]]) -> None:
    graph, (first, second) = given_
    for cut in (graph.cut(first).join(graph.cut(second)), graph.cut(first).meet(graph.cut(second))):
        assert graph.cut(graph.frontier(cut)) == cut


@given(graphs())
def test_live_segments_tile_the_keys_whatever_was_scaled(graph: SegmentGraph) -> None:
    live = sorted((each.low, each.high) for each in graph if not each.sealed)
    assert live[0][0] == 0.0
    assert live[-1][1] == 1.0
    assert all(one[1] == other[0] for one, other in pairwise(live))


def test_a_far_successor_implies_everything_before_it_an_empty_segment_included() -> None:
    graph = family()
    assert graph.cut({"4": 1}) == Cut({"0": 10, "1": 7, "4": 1})
    assert graph.frontier(graph.cut({"4": 1, "2": 3})) == {"2": 3, "4": 1}


@pytest.mark.parametrize(("segments", "ends"), [(10, "8, 9"), (11, "8, 9, …"), (300, "8, 9, …")])
def test_a_refusal_shows_that_there_are_more_segments_than_it_names(segments: int, ends: str) -> None:
    with pytest.raises(UnknownSegment) as refused:
        SegmentGraph.equal_shares(segments, 0).cut({"x": 1})
    assert str(refused.value).endswith(f"'x'; it has 0, 1, 2, 3, 4, 5, 6, 7, {ends}")


def test_positions_that_cannot_be_are_refused() -> None:
    graph = family()
    with pytest.raises(UnknownSegment, match="no segment '9'; it has 0, 1, 2"):
        graph.cut({"9": 1})
    with pytest.raises(BeyondFinalOffset, match="offset 11 lies beyond segment '0', which is sealed at 10"):
        graph.cut({"0": 11})


def test_the_end_is_known_when_every_segment_has_one() -> None:
    graph = family()
    assert graph.end is None
    changed = graph.seal_all({"2": 3, "4": 5})
    assert [(each.id, each.final_offset) for each in changed] == [("2", 3), ("4", 5)]
    assert graph.end == graph.cut({"2": 3, "4": 5}) == Cut({"0": 10, "1": 7, "2": 3, "4": 5})


@pytest.mark.parametrize(
    ("seal", "create", "says"),
    [
        ({}, [], "no segment to seal"),
        ({"0": -1}, [new("2", 0.0, 0.5)], "final offset -1"),
        ({"0": 5}, [], "but .* was to be covered"),
        ({"0": 5}, [new("2", 0.0, 0.4)], "was to be covered"),
        ({"0": 5}, [new("2", 0.0, 0.6)], "was to be covered"),
        ({"0": 5}, [new("2", 0.0, 0.3), new("3", 0.2, 0.5)], "overlap at 0.2"),
        ({"0": 5}, [new("2", 0.0, 0.2), new("3", 0.3, 0.5)], "was to be covered"),
        ({"0": 5}, [new("2", 0.0, 0.25), new("2", 0.25, 0.5)], "'2': it is named twice"),
        ({"0": 5}, [new("1", 0.0, 0.5)], "'1': a segment with this id exists"),
        ({"0": 5}, [NewSegment("2")], "'2': it needs a key range"),
        ({"0": 5}, [new("2", 0.5, 0.0)], r"the key range \[0.5, 0.0\)"),
        ({"0": 5}, [new("2", 0.0, float("nan"))], "not a part of"),
        ({"done": 6}, [new("2", 0.0, 0.5)], "sealed already, at 5"),
    ],
)
def test_a_scaling_that_makes_no_sense_is_refused_and_changes_nothing(
    seal: dict[str, int], create: list[NewSegment], says: str
) -> None:
    graph = SegmentGraph.of_ranges([new("done", 0.0, 0.125), new("0", 0.125, 0.5), new("1", 0.5, 1.0)], 0)
    graph.scale({"done": 5, "0": 1}, [new("0a", 0.0, 0.5)], 0)
    graph = SegmentGraph.equal_shares(2, 0) if "done" not in seal else graph
    before = list(graph)
    with pytest.raises(InvalidScale, match=says):
        graph.scale(seal, create, 1)
    assert list(graph) == before


def test_scaling_an_unknown_segment_says_which() -> None:
    with pytest.raises(UnknownSegment, match="'7'"):
        SegmentGraph.equal_shares(1, 0).scale({"7": 1}, [new("2", 0.0, 1.0)], 1)


def test_segments_of_an_open_stream_come_into_being_when_named() -> None:
    graph = SegmentGraph(open=True)
    assert [each.id for each in graph.name(["p0", "p1"], 5)] == ["p0", "p1"]
    assert graph.name(["p1"], 6) == []
    assert graph["p0"].created_at == 5
    assert graph.cut({"p0": 3, "p7": 1}) == Cut({"p0": 3, "p7": 1})  # a reader may be ahead of every note


def test_in_an_open_stream_successors_name_their_predecessors() -> None:
    graph = SegmentGraph(open=True)
    graph.name(["a", "b"], 0)
    with pytest.raises(InvalidScale, match="names its predecessors"):
        graph.scale({"a": 5}, [NewSegment("c")], 1)
    with pytest.raises(InvalidScale, match="its predecessor 'b' is not sealed"):
        graph.scale({"a": 5}, [NewSegment("c", predecessors=("a", "b"))], 1)
    graph.scale({"a": 5, "b": 6}, [NewSegment("c", predecessors=("b", "a"))], 1)
    assert graph["c"].predecessors == ("a", "b")
    assert graph.cut({"c": 1}) == Cut({"a": 5, "b": 6, "c": 1})


def test_a_segment_absent_from_the_log_can_be_dropped() -> None:
    graph = SegmentGraph(open=True)
    graph.name(["a", "typo"], 0)
    graph.drop("typo")
    assert [each.id for each in graph] == ["a"]
    graph.scale({"a": 5}, [NewSegment("b", predecessors=("a",))], 1)
    with pytest.raises(InvalidScale, match="it has successors"):
        graph.drop("a")
    with pytest.raises(InvalidScale, match="only a segment of an open stream"):
        SegmentGraph.equal_shares(1, 0).drop("0")


def test_a_stream_has_a_bounded_number_of_segments() -> None:
    with pytest.raises(TooMany, match="65537 segments are more than the limit of 65536"):
        SegmentGraph.equal_shares(65_537, 0)
    with pytest.raises(InvalidConfig, match="segments cannot be 0"):
        SegmentGraph.equal_shares(0, 0)


@pytest.mark.parametrize("name", ["", "-a", ".a", "a b", "a/b", "ä", "a" * 250, "a\n"])
def test_a_segment_has_a_name_that_can_go_anywhere(name: str) -> None:
    with pytest.raises(InvalidName, match="segment name"):
        Segment(id=name, created_at=0)


@pytest.mark.parametrize("ranges", [[(0.0, 0.5)], [(0.0, 0.6), (0.5, 1.0)], [(0.1, 1.0)], []])
def test_original_ranges_tile_all_keys(ranges: list[Any]) -> None:
    with pytest.raises(InvalidScale):
        SegmentGraph.of_ranges([new(str(n), *each) for n, each in enumerate(ranges)], 0)


def test_without_key_ranges_nothing_can_be_tiled() -> None:
    for half in (NewSegment("0", low=0.0), NewSegment("0", high=1.0)):
        with pytest.raises(InvalidScale, match=r"'0'.*needs a key range"):
            SegmentGraph.of_ranges([half], 0)
    with pytest.raises(InvalidScale, match="is not a part of"):
        SegmentGraph.of_ranges([new("0", 0.0, 1.0), new("1", 0.5, 0.5)], 0)
    for half in (NewSegment("1", low=0.0), NewSegment("1", high=1.0)):
        with pytest.raises(InvalidScale, match=r"'1'.*needs a key range"):
            SegmentGraph.equal_shares(1, 0).scale({"0": 1}, [half], 1)
    for segment in (Segment(id="0", created_at=0, low=0.0), Segment(id="0", created_at=0, high=1.0)):
        with pytest.raises(InvalidScale, match=r"'0'.*has no key range"):
            SegmentGraph([segment]).scale({"0": 1}, [new("1", 0.0, 1.0)], 1)


def test_a_final_offset_is_one_that_can_be_written_down() -> None:
    assert Segment(id="0", created_at=0, final_offset=2**53 - 1).sealed
    for offset in (-1, 2**53):
        with pytest.raises(InvalidScale, match=f"the final offset {offset} "):
            Segment(id="0", created_at=0, final_offset=offset)


def test_a_new_segment_with_a_used_id_is_told_why() -> None:
    graph = SegmentGraph(open=True)
    graph.name(["a", "b"], 0)
    with pytest.raises(InvalidScale, match="a note named it before this call"):
        graph.scale({"a": 1}, [NewSegment("b", predecessors=("a",))], 0)
    with pytest.raises(InvalidScale, match="with this id exists: take a new id"):
        SegmentGraph.equal_shares(2, 0).scale({"0": 1}, [new("1", 0.0, 0.5)], 0)


def test_ranges_tile_in_any_order_under_unique_names() -> None:
    graph = SegmentGraph.of_ranges([new("a", 0.5, 1.0), new("b", 0.0, 0.5)], 0)
    assert [segment.id for segment in graph.scale({"a": 1, "b": 2}, [new("c", 0.0, 1.0)], 1)] == ["a", "b", "c"]
    assert graph["c"].predecessors == ("a", "b")
    with pytest.raises(InvalidScale, match="named twice"):
        SegmentGraph.of_ranges([new("a", 0.0, 0.5), new("a", 0.5, 1.0)], 0)
    for low, high in ((0.5, 1.5), (-0.5, 0.5), (float("nan"), 0.5), (0.5, float("nan")), (0.5, float("inf"))):
        with pytest.raises(InvalidScale, match="is not a part of"):
            Segment(id="a", created_at=0, low=low, high=high)


def test_a_stream_has_so_many_segments_and_no_more() -> None:
    graph = SegmentGraph(open=True)
    graph.name(map(str, range(SEGMENTS_PER_STREAM)), 0)
    for make in (
        lambda: graph.name(["one more"], 0),
        lambda: graph.scale({"0": 1}, [NewSegment("next", predecessors=("0",))], 0),
        lambda: SegmentGraph.of_ranges([new("0", 0.0, 1.0)] * (SEGMENTS_PER_STREAM + 1), 0),
    ):
        with pytest.raises(TooMany, match=f"segments.*{SEGMENTS_PER_STREAM}"):
            make()
    assert len(graph) == SEGMENTS_PER_STREAM


def test_a_scaling_is_the_same_only_where_all_of_it_is() -> None:
    graph = family()
    assert graph.scale({"0": 10}, [new("2", 0.0, 0.25), new("3", 0.25, 0.5)], 9) == []
    for seal, create in (
        ({"0": 10}, [new("2", 0.0, 0.3), new("3", 0.3, 0.5)]),
        ({"0": 10}, [new("5", 0.0, 0.25), new("6", 0.25, 0.5)]),
        ({"0": 11}, [new("2", 0.0, 0.25), new("3", 0.25, 0.5)]),
        ({"3": 0, "1": 8}, [new("4", 0.25, 1.0)]),
    ):
        with pytest.raises(InvalidScale, match="sealed already"):
            graph.scale(seal, create, 9)


def test_what_lies_before_a_segment_stays_known_when_others_come() -> None:
    graph = SegmentGraph(open=True)
    graph.name(["a"], 0)
    graph.scale({"a": 7}, [NewSegment("b", predecessors=("a",))], 0)
    graph.name(["c"], 0)
    assert "c" in graph and "d" not in graph
    assert graph.name(["c"], 9) == SegmentGraph.equal_shares(1, 0).name(["c"], 9) == []
    assert graph.cut({"b": 1, "c": 2}) == Cut({"a": 7, "b": 1, "c": 2})


def test_a_position_is_closed_alike_however_many_kinds_were_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strandline.core.segment.SHAPES_KNOWN_TO_GROW", 2)
    graph = SegmentGraph.equal_shares(4, 0)
    for _ in range(2):
        for name in "0123":
            assert graph.cut({name: 5}) == Cut({name: 5})
    with pytest.raises(UnknownSegment):
        graph.cut({"4": 5})
