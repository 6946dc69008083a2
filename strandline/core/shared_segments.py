"""Which writers have noted offsets in which segment: in a shared segment, a writer's notes can overtake another's."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.core.cut import Cut
from strandline.core.segment import SegmentGraph


class SharedSegments:
    """The writers of each segment: those whose positions reach into it."""

    __slots__ = ("_graph", "_shared", "_writers")

    def __init__(self, graph: SegmentGraph) -> None:
        self._graph = graph
        self._writers: dict[str, set[str]] = {}
        self._shared = 0  # how many segments have more than one writer

    def enter(self, name: str, segments: Iterable[str]) -> set[str]:
        """Adds a writer to the segments that it reaches; returns the writers that were alone in one of them."""
        alone: set[str] = set()
        for segment in segments:
            writers = self._writers.setdefault(segment, set())
            if name in writers:
                continue
            if len(writers) == 1:
                alone |= writers
                self._shared += 1
            writers.add(name)
        return alone

    def leave(self, name: str, segments: Iterable[str]) -> set[str]:
        """Removes a forgotten writer from its segments; returns the writers that are alone in one of them now."""
        alone: set[str] = set()
        for segment in segments:
            writers = self._writers[segment]
            writers.remove(name)
            if len(writers) == 1:
                alone |= writers
                self._shared -= 1
            elif not writers:
                del self._writers[segment]
        return alone

    def drop(self, segment: str) -> None:
        """Removes a segment that the log does not have."""
        writers = self._writers.pop(segment, ())
        self._shared -= len(writers) > 1

    @property
    def some(self) -> bool:
        """Whether some segment has more than one writer."""
        return self._shared > 0

    def can_be_overtaken(self, position: Cut) -> bool:
        """Whether a writer with this position shares a segment in which it has not reached the end."""
        if self._shared:
            for segment, offset in position.items():
                if len(self._writers[segment]) > 1 and self._graph[segment].final_offset != offset:
                    return True
        return False

    def is_alone(self, position: Cut, contributed: Cut, cut: Cut) -> bool:
        """Whether no note of a writer after its contribution, present or future, can cover anything below a cut.

        This is so if its contribution covers the cut in every segment that its position reaches, and no other writer
        can raise the cut there: the writer is alone in the segment, or its contribution reaches the final offset.
        """
        reached, covered = cut.offsets, contributed.offsets.get
        for segment in position.offsets:
            offset = covered(segment, 0)
            if reached.get(segment, 0) > offset:
                return False
            if self._shared and len(self._writers[segment]) > 1 and self._graph[segment].final_offset != offset:
                return False
        return True
