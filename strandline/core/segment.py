"""Segments, and the graph of their successors, which scaling makes.

    0 [0, .5) ──sealed at 300──┐
                               ├──► 2 [0, 1)          a merge; a split is the same upside down
    1 [.5, 1) ──sealed at 400──┘

Unsealed segments tile [0, 1) at any time. An *open* stream has no key ranges: a segment is created when it is
first named (Kafka partitions, Kinesis shards), and a successor names its predecessors.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from typing import Final

from strandline.core.cut import Cut
from strandline.core.shape import Shape
from strandline.errors import BeyondFinalOffset, InvalidConfig, InvalidScale, TooMany, UnknownSegment
from strandline.limits import OFFSET_BOUND, SEGMENTS_PER_STREAM
from strandline.names import check_name

SHAPES_KNOWN_TO_GROW: Final = 1_024  # in the graph of a stream: those of positions that need no closing


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """An append-only sequence. `low` and `high` are its key range in a ranged stream. Sealed, it has a final offset."""

    id: str
    created_at: int
    low: float | None = None
    high: float | None = None
    predecessors: tuple[str, ...] = ()
    final_offset: int | None = None

    def __post_init__(self) -> None:
        check_name("segment", self.id)
        if self.low is not None and self.high is not None:
            check_range(self.id, self.low, self.high)
        if self.final_offset is not None:
            check_final(self.id, self.final_offset)

    @property
    def sealed(self) -> bool:
        return self.final_offset is not None


@dataclass(frozen=True, slots=True)
class NewSegment:
    """A segment to create: with a key range in a ranged stream, with predecessors in an open one."""

    id: str
    low: float | None = None
    high: float | None = None
    predecessors: tuple[str, ...] | None = None


def check_range(segment: str, low: float, high: float) -> None:
    if not 0.0 <= low < high <= 1.0:  # also true for NaN
        raise InvalidScale(segment=segment, reason=f"the key range [{low}, {high}) is not a part of [0, 1)")


def check_final(segment: str, offset: int) -> None:
    if not 0 <= offset < OFFSET_BOUND:
        raise InvalidScale(segment=segment, reason=f"the final offset {offset} is not in 0 … 2^53 - 1")


class SegmentGraph:
    """All segments of a stream, by id, in the order of creation. It turns positions into closed cuts, and back."""

    def __init__(self, segments: Iterable[Segment] = (), *, open: bool = False) -> None:
        self.open = open
        self._segments: dict[str, Segment] = {}
        self._scaled = False
        self._growing: set[Shape] = set()  # of positions that are cuts as they are, as long as the graph is the same
        for segment in segments:
            self._add(segment)

    @classmethod
    def equal_shares(cls, count: int, created_at: int) -> SegmentGraph:
        """`count` segments "0", "1", … with equal shares of [0, 1)."""
        if count < 1:
            raise InvalidConfig(name="segments", value=count, wanted='at least 1, a list of ranges, or "open"')
        _check_count(count)
        return cls(Segment(id=str(n), low=n / count, high=(n + 1) / count, created_at=created_at) for n in range(count))

    @classmethod
    def of_ranges(cls, ranges: Sequence[NewSegment], created_at: int) -> SegmentGraph:
        """Segments with given key ranges, which must tile [0, 1)."""
        _check_count(len(ranges))
        _check_distinct(ranges)
        _check_tiles(ranges, [(0.0, 1.0)])
        return cls(Segment(id=new.id, low=new.low, high=new.high, created_at=created_at) for new in ranges)

    # -- queries -------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments.values())

    def __len__(self) -> int:
        return len(self._segments)

    def __contains__(self, segment: str) -> bool:
        return segment in self._segments

    def __getitem__(self, segment: str) -> Segment:
        found = self._segments.get(segment)
        if found is None:
            raise UnknownSegment.among(self._segments, segment)
        return found

    def successors(self, segment: str) -> list[Segment]:
        return [other for other in self if segment in other.predecessors]

    def ancestors(self, segments: Iterable[str]) -> set[str]:
        """All direct and indirect predecessors of these segments."""
        found: set[str] = set()
        if not self._scaled:
            return found
        pending = [name for name in segments if name in self._segments]
        while pending:
            for name in self._segments[pending.pop()].predecessors:
                if name not in found:
                    found.add(name)
                    pending.append(name)
        return found

    # -- cuts ----------------------------------------------------------------------------------------------------

    def cut(self, position: Mapping[str, int]) -> Cut:
        """The closed cut of a position from a caller: a named segment implies all of its predecessors.

        Raises UnknownSegment (not in an open stream: its segment may not have been noted yet) and BeyondFinalOffset.
        """
        return self.closed(position, Cut(position))

    def closed(self, position: Mapping[str, int], given: Cut) -> Cut:
        """The same for a position that was made a cut, which is not closed. If the result is `given` itself, the stream
        has all of its segments."""
        if given.shape in self._growing and len(given.shape.names) == len(position):
            return given
        segments = self._segments
        offsets = {}
        for name, offset in position.items():
            segment = segments.get(name)
            if segment is None:
                if not self.open:
                    raise UnknownSegment.among(segments, name)
            elif segment.final_offset is not None and offset > segment.final_offset:
                raise BeyondFinalOffset(segment=name, offset=offset, final_offset=segment.final_offset)
            if offset:
                offsets[name] = offset
        for name in self.ancestors(position) if self._scaled else ():
            final = segments[name].final_offset
            if final:
                offsets[name] = final
        cut = Cut(offsets)
        if cut == given and self._grow(position):
            if len(self._growing) >= SHAPES_KNOWN_TO_GROW:
                self._growing.clear()
            self._growing.add(given.shape)
        return cut

    def _grow(self, names: Iterable[str]) -> bool:
        """Whether these segments exist, can grow, and imply no others: then a position that names them is a cut."""
        found = [self._segments.get(name) for name in names]
        return all(each is not None and not each.sealed and not each.predecessors for each in found)

    def frontier(self, cut: Cut) -> dict[str, int]:
        """The position of a cut, for callers: without the predecessors of its segments, and without segments at 0."""
        offsets = cut.offsets
        implied = self.ancestors(offsets)
        if not implied:
            return offsets
        return {segment: offset for segment, offset in offsets.items() if segment not in implied}

    @property
    def end(self) -> Cut | None:
        """The cut above all events; None until every segment has a final offset."""
        finals = {segment.id: segment.final_offset for segment in self}
        offsets = {name: final for name, final in finals.items() if final is not None}
        return Cut(offsets) if len(offsets) == len(finals) else None

    # -- changes -------------------------------------------------------------------------------------------------

    def name(self, segments: Iterable[str], created_at: int) -> list[Segment]:
        """Creates the segments of an open stream that do not exist yet; returns them."""
        if not self.open:
            return []
        missing = [name for name in segments if name not in self._segments]
        if not missing:
            return []
        _check_count(len(self._segments) + len(missing))
        new = [Segment(id=name, created_at=created_at) for name in missing]
        for segment in new:
            self._add(segment)
        return new

    def scale(self, seal: Mapping[str, int], create: Sequence[NewSegment], created_at: int) -> list[Segment]:
        """Seals segments and creates their successors; returns the changed segments, none if this was done before.

        Raises InvalidScale, UnknownSegment or TooMany, and then changes nothing.
        """
        _check_distinct(create)
        ranges = [] if self.open else sorted((*self._range(name), name) for name in seal)
        successors = [self._successor(new, seal, ranges, created_at) for new in create]
        if self._was_done(seal, successors):
            return []
        for name in seal:
            if self[name].sealed:
                final = self[name].final_offset
                raise InvalidScale(segment=name, reason=f"it is sealed already, at {final}")
        if not seal:
            raise InvalidScale(segment=None, reason="no segment to seal was named")
        for new in create:
            if new.id in self._segments:
                early = " (a note named it before this call)" if self.open else ""
                raise InvalidScale(segment=new.id, reason=f"a segment with this id exists{early}: take a new id")
        if not self.open:
            _check_tiles(create, [self._range(name) for name in seal])
        _check_count(len(self._segments) + len(successors))
        sealed = [replace(self._segments[name], final_offset=offset) for name, offset in seal.items()]
        for segment in sealed + successors:
            self._add(segment)
        return sealed + successors

    def seal_all(self, final: Mapping[str, int]) -> list[Segment]:
        """Seals every open segment at its final offset; returns these segments."""
        changed = [replace(segment, final_offset=final[segment.id]) for segment in self if not segment.sealed]
        for segment in changed:
            self._add(segment)
        return changed

    def drop(self, segment: str) -> None:
        """Removes a segment that the log does not have, in an open stream. Raises InvalidScale if it has successors."""
        found = self[segment]
        if not self.open:
            raise InvalidScale(segment=segment, reason="only a segment of an open stream can be dropped")
        if self.successors(segment):
            raise InvalidScale(segment=segment, reason="it has successors")
        del self._segments[found.id]
        self._growing.clear()

    def _add(self, segment: Segment) -> None:
        self._segments[segment.id] = segment
        self._growing.clear()
        self._scaled = self._scaled or bool(segment.predecessors)

    def _range(self, name: str) -> tuple[float, float]:
        segment = self[name]
        if segment.low is None or segment.high is None:
            raise InvalidScale(segment=name, reason="it has no key range")
        return segment.low, segment.high

    def _successor(
        self, new: NewSegment, seal: Mapping[str, int], ranges: Sequence[tuple[float, float, str]], created_at: int
    ) -> Segment:
        """The new segment with its predecessors: as named, or those of the sealed `ranges` that it overlaps."""
        if self.open:
            if new.predecessors is None:
                raise InvalidScale(segment=new.id, reason="in an open stream a successor names its predecessors")
            for name in new.predecessors:
                if name not in seal and not self[name].sealed:
                    raise InvalidScale(segment=new.id, reason=f"its predecessor {name!r} is not sealed")
            predecessors = tuple(sorted(set(new.predecessors)))
            return Segment(id=new.id, predecessors=predecessors, created_at=created_at)
        if new.low is None or new.high is None:
            raise InvalidScale(segment=new.id, reason="it needs a key range: low and high")
        first = bisect_right(ranges, new.low, key=itemgetter(1))  # the ranges do not overlap, so both ends are sorted
        end = bisect_left(ranges, new.high, key=itemgetter(0))
        before = [name for _, _, name in ranges[first:end]]
        return Segment(id=new.id, low=new.low, high=new.high, predecessors=tuple(sorted(before)), created_at=created_at)

    def _was_done(self, seal: Mapping[str, int], successors: Sequence[Segment]) -> bool:
        def same(segment: Segment) -> bool:
            found = self._segments.get(segment.id)
            return found is not None and replace(segment, created_at=0) == replace(
                found, created_at=0, final_offset=None
            )

        return (
            bool(seal)
            and all(self[name].final_offset == offset for name, offset in seal.items())
            and all(same(segment) for segment in successors)
        )


def _check_count(count: int) -> None:
    if count > SEGMENTS_PER_STREAM:
        raise TooMany(what="segments", count=count, limit=SEGMENTS_PER_STREAM)


def _check_distinct(segments: Sequence[NewSegment]) -> None:
    seen: set[str] = set()
    for segment in segments:
        if segment.id in seen:
            raise InvalidScale(segment=segment.id, reason="it is named twice")
        seen.add(segment.id)


def _check_tiles(segments: Sequence[NewSegment], whole: Sequence[tuple[float, float]]) -> None:
    """Raises InvalidScale unless the ranges cover exactly `whole`, without a gap or an overlap."""
    parts = []
    for segment in segments:
        if segment.low is None or segment.high is None:
            raise InvalidScale(segment=segment.id, reason="it needs a key range: low and high")
        check_range(segment.id, segment.low, segment.high)
        parts.append((segment.low, segment.high))
    ordered = sorted(parts)
    for (_, high), (low, _) in pairwise(ordered):
        if low < high:
            raise InvalidScale(segment=None, reason=f"the key ranges overlap at {low}")
    if _union(ordered) != _union(sorted(whole)):
        raise InvalidScale(
            segment=None,
            reason=f"the key ranges cover {_union(ordered)}, but {_union(sorted(whole))} was to be covered",
        )


def _union(ordered: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for low, high in ordered:
        if merged and merged[-1][1] >= low:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged
