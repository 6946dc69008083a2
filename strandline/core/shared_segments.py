"""Which writers have noted offsets in which segment: in a shared segment, a writer's notes can overtake another's."""

from __future__ import annotations

from collections.abc import Mapping

from strandline.core.cut import Cut
from strandline.core.segment import SegmentGraph
from strandline.core.writer import StreamWriter


class SharedSegments:
    """How many writers each segment has: those whose positions reach into it. And who it is, if it is one.

    Writers have numbers. A segment has the sum of the numbers of its writers: if it has one, that is this writer's. To
    keep the names of all would take several times the memory.
    """

    __slots__ = ("_counts", "_free", "_graph", "_names", "_sums", "shared")

    def __init__(self, graph: SegmentGraph) -> None:
        self._graph = graph
        self._names: list[str] = []  # of writers, by number
        self._free: list[int] = []  # numbers of writers that left
        self._counts: dict[str, int] = {}  # of its writers, by segment
        self._sums: dict[str, int] = {}  # of their numbers
        self.shared = 0  # how many segments have more than one writer

    def enter(self, writer: StreamWriter, before: Cut) -> set[str]:
        """Adds a writer to the segments that its position reaches, and did not before; returns the writers that were
        alone in one of them."""
        number = self._numbered(writer)
        counts, sums = self._counts, self._sums
        alone: set[str] = set()
        known = before.offsets
        for segment in writer.position.shape.names:
            if segment in known:
                continue
            count = counts.get(segment, 0)
            if count == 1:
                alone.add(self._names[sums[segment]])
                self.shared += 1
            counts[segment] = count + 1
            sums[segment] = sums.get(segment, 0) + number
        return alone

    def _numbered(self, writer: StreamWriter) -> int:
        """The writer's number: it gets one when it first has a position."""
        if writer.number is None and self._free:
            writer.number = self._free.pop()
            self._names[writer.number] = writer.name
        elif writer.number is None:
            writer.number = len(self._names)
            self._names.append(writer.name)
        return writer.number

    def leave(self, writer: StreamWriter) -> set[str]:
        """Removes a forgotten writer from its segments; returns the writers that are alone in one of them now."""
        counts, sums, number = self._counts, self._sums, writer.number
        alone: set[str] = set()
        if number is None:
            return alone  # it never noted a position
        for segment in writer.position.shape.names:
            counts[segment] -= 1
            sums[segment] -= number
            if counts[segment] == 1:
                alone.add(self._names[sums[segment]])
                self.shared -= 1
            elif not counts[segment]:
                del counts[segment], sums[segment]
        self._free.append(number)
        writer.number = None
        return alone

    def drop(self, segment: str) -> None:
        """Removes a segment that the log does not have."""
        self.shared -= self._counts.pop(segment, 0) > 1
        self._sums.pop(segment, None)

    def can_be_overtaken(self, position: Cut) -> bool:
        """Whether a writer with this position shares a segment in which it has not reached the end."""
        for segment in position.shape.names:
            if self._counts[segment] > 1:
                final = self._graph[segment].final_offset
                if final is None or final != position.offset(segment):
                    return True
        return False

    def is_alone(self, position: Cut, contributed: Cut, reached: Mapping[str, int]) -> bool:
        """Whether no note of a writer after its contribution, present or future, can cover anything below a cut,
        which has reached these offsets.

        This is so if its contribution covers the cut in every segment that its position reaches, and no other writer
        can raise the cut there: the writer is alone in the segment, or its contribution reaches the final offset.
        """
        covered = contributed.offsets.get
        for segment in position.shape.names:
            offset = covered(segment, 0)
            if reached.get(segment, 0) > offset:
                return False
            if self.shared and self._counts[segment] > 1 and self._graph[segment].final_offset != offset:
                return False
        return True
