"""Cuts: an offset for every segment of a stream. They form a lattice, not a line.

A cut is *closed*: if it reaches into a segment, it contains that segment's predecessors up to their final offsets
(`SegmentGraph.cut` ensures this). Then the order is the order of the offsets, segment by segment:

    a.le(b)      a lies wholly at or below b
    a.join(b)    the least cut at or above both: the greater offset everywhere
    a.meet(b)    the greatest cut at or below both: the lesser offset everywhere

For two cuts neither `a.le(b)` nor `b.le(a)` need hold; they are then incomparable, and `<` is not defined.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Mapping
from typing import Final


class Cut:
    """An offset for each segment; a segment at 0 is left out. Immutable; equal if the offsets are equal."""

    __slots__ = ("_offsets",)
    _offsets: dict[str, int]

    def __init__(self, offsets: Mapping[str, int]) -> None:
        """Takes closed offsets. Raises ValueError for a negative one. `SegmentGraph.cut` closes a position."""
        kept = {}
        for segment, offset in offsets.items():
            if offset < 0:
                raise ValueError(f"offset {offset} of segment {segment!r} is negative: 0 means nothing")
            if offset:
                kept[segment] = offset
        object.__setattr__(self, "_offsets", kept)

    @staticmethod
    def _trusted(offsets: dict[str, int]) -> Cut:
        """A fast constructor for a dict without zeros that no other object holds."""
        cut = object.__new__(Cut)
        object.__setattr__(cut, "_offsets", offsets)
        return cut

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a cut cannot be changed: {name}")

    def __reduce__(self) -> tuple[type[Cut], tuple[dict[str, int]]]:
        return Cut, (dict(self._offsets),)

    def offset(self, segment: str) -> int:
        """The offset in a segment, 0 if the cut does not reach into it."""
        return self._offsets.get(segment, 0)

    @property
    def offsets(self) -> Mapping[str, int]:
        """All offsets above 0, by segment: the cut's own, not a copy."""
        return self._offsets

    def items(self) -> ItemsView[str, int]:
        return self._offsets.items()

    def le(self, other: Cut) -> bool:
        """Whether this cut lies wholly at or below the other."""
        if self is other:
            return True
        there = other._offsets.get
        for segment, offset in self._offsets.items():  # noqa: SIM110  # a plain loop is faster, and every note runs it
            if offset > there(segment, 0):
                return False
        return True

    def incomparable(self, other: Cut) -> bool:
        return not self.le(other) and not other.le(self)

    def join(self, other: Cut) -> Cut:
        """The least cut at or above both."""
        ours = self._offsets
        here = ours.get
        more = {segment: offset for segment, offset in other._offsets.items() if offset > here(segment, 0)}
        if not more:
            return self
        return Cut._trusted(ours | more)

    def meet(self, other: Cut) -> Cut:
        """The greatest cut at or below both."""
        theirs = other._offsets
        return Cut._trusted(
            {segment: min(offset, theirs[segment]) for segment, offset in self._offsets.items() if segment in theirs}
        )

    def without(self, segment: str) -> Cut:
        """The cut without a segment that the log does not have."""
        return Cut._trusted({name: offset for name, offset in self._offsets.items() if name != segment})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cut) and self._offsets == other._offsets

    def __hash__(self) -> int:
        return hash(frozenset(self._offsets.items()))

    def __bool__(self) -> bool:
        """Whether anything lies below the cut."""
        return bool(self._offsets)

    def __len__(self) -> int:
        """How many segments it reaches into."""
        return len(self._offsets)

    def __repr__(self) -> str:
        inside = ", ".join(f"{segment}: {offset}" for segment, offset in sorted(self._offsets.items()))
        return f"Cut({{{inside}}})"


NOTHING: Final = Cut({})


def join_all(cuts: Iterable[Cut]) -> Cut:
    """The least cut at or above all of them; NOTHING for no cuts."""
    offsets: dict[str, int] = {}
    for cut in cuts:
        for segment, offset in cut.items():
            if offset > offsets.get(segment, 0):
                offsets[segment] = offset
    return Cut._trusted(offsets)
