"""What a window claims is true, and both ways to find it agree with a naive one, on streams that split and merge.

The model here knows nothing of cuts: a position is the set of all events below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from strandline.core.chain import MarkChain, sides_among
from strandline.core.cut import NOTHING
from strandline.core.mark import Mark
from strandline.core.segment import NewSegment, SegmentGraph
from strandline.core.window import TimeWindow, time_window, window_between

Slot = tuple[str, int]  # a segment, and the place of an event in it


@dataclass
class History:
    """A stream as it came to be, every event of it, and honest marks."""

    graph: SegmentGraph
    times: dict[Slot, int] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)

    @property
    def last_time(self) -> int:
        return self.marks[-1].time if self.marks else 0

    def written(self, segment: str) -> int:
        return sum(name == segment for name, _ in self.times)

    def position(self, draw: st.DrawFn) -> dict[str, int]:
        """A position off the wire: any offset in some of the segments."""
        named = draw(st.sets(st.sampled_from([segment.id for segment in self.graph])))
        return {segment: draw(st.integers(0, self.written(segment))) for segment in sorted(named)}

    def below(self, position: dict[str, int]) -> set[Slot]:
        """The events below a position; whoever names a segment has read all that comes before it."""
        found = {(segment, n) for segment, offset in position.items() for n in range(offset)}
        for segment in position:
            for before in self.graph[segment].predecessors:
                found |= self.below({before: self.written(before)})
        return found


@st.composite
def histories(draw: st.DrawFn) -> History:
    history = History(SegmentGraph.equal_shares(draw(st.integers(1, 3)), created_at=0))
    for _ in range(draw(st.integers(0, 14))):
        live = [segment for segment in history.graph if not segment.sealed]
        match draw(st.sampled_from(("write", "write", "mark", "mark", "split", "merge"))):
            case "write":
                segment = draw(st.sampled_from(live)).id
                for n in range(draw(st.integers(1, 3))):
                    del n
                    time = history.last_time + draw(st.integers(0, 6))
                    history.times[segment, history.written(segment)] = time
            case "mark":
                history.marks.append(draw(honest_marks(history)))
            case "split":
                old = draw(st.sampled_from(live))
                scale(history, [old.id], 2)
            case _:
                first = draw(st.integers(0, len(live) - 1))
                ordered = sorted(live, key=lambda segment: segment.low or 0.0)
                scale(history, [segment.id for segment in ordered[first : first + 2]], 1)
    return history


@st.composite
def honest_marks(draw: st.DrawFn, history: History) -> Mark:
    """The next mark: its cut holds all that is older than its time, and perhaps more."""
    last = history.marks[-1] if history.marks else None
    time = history.last_time + draw(st.integers(1, 4))
    cut = last.cut if last is not None else NOTHING
    for (segment, n), event_time in history.times.items():
        if event_time < time:
            cut = cut.join(history.graph.cut({segment: n + 1}))
    cut = cut.join(history.graph.cut(history.position(draw)))
    return Mark(
        seq=len(history.marks) + 1,
        key="",
        time=time,
        upper=max(time + draw(st.integers(0, 3)), last.upper if last is not None else time),
        cut=cut,
        newest=None,
        excluded=draw(st.sampled_from(((), ("w1",)))),
        created_at=0,
    )


def scale(history: History, segments: list[str], parts: int) -> None:
    low = min(history.graph[segment].low or 0.0 for segment in segments)
    high = max(history.graph[segment].high or 1.0 for segment in segments)
    step = (high - low) / parts
    edges = [low + n * step for n in range(parts)] + [high]
    create = [NewSegment(str(len(history.graph) + n), edges[n], edges[n + 1]) for n in range(parts)]
    history.graph.scale({segment: history.written(segment) for segment in segments}, create, created_at=0)


def naive_window(history: History, position: dict[str, int]) -> TimeWindow:
    read = history.below(position)
    cuts = [history.below(history.graph.frontier(mark.cut)) for mark in history.marks]
    passed = [mark for mark, cut in zip(history.marks, cuts, strict=True) if cut <= read]
    ahead = [mark for mark, cut in zip(history.marks, cuts, strict=True) if read <= cut and mark not in passed]
    return TimeWindow(
        lower=passed[-1].time if passed else None,
        upper=ahead[0].upper if ahead else None,
        complete=passed[-1].complete if passed else True,
        mark_seq=passed[-1].seq if passed else None,
    )


@given(histories(), st.data())
def test_binary_search_finds_the_same_window_as_a_full_search(history: History, data: st.DataObject) -> None:
    chain, by_seq = MarkChain(history.marks), {mark.seq: mark for mark in history.marks}

    def read(seqs: Sequence[int]) -> list[Mark]:
        return [by_seq[seq] for seq in seqs]

    for _ in range(5):
        position = data.draw(st.composite(lambda draw: history.position(draw))())
        expected = naive_window(history, position)
        assert time_window(chain, history.graph.cut(position), None) == expected
        cut = history.graph.cut(position)
        assert window_between(sides_among(read, 1, len(by_seq), cut), cut, None) == expected


@given(histories(), st.data())
def test_everything_older_than_lower_has_been_read(history: History, data: st.DataObject) -> None:
    position = data.draw(st.composite(lambda draw: history.position(draw))())
    lower = time_window(MarkChain(history.marks), history.graph.cut(position), None).lower
    if lower is not None:
        unread = history.times.keys() - history.below(position)
        assert all(history.times[slot] >= lower for slot in unread)
