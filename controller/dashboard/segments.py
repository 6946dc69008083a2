"""The splits and merges of segments as a picture that folds: of many segments, a box stands for several.

Segments that have ended are in the order of their generations and keys, open ones in the order of their keys. A box is
a part of one of these two rows. So arrows between boxes never lead back: a successor comes later than what it follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from controller.dashboard.limits import SEGMENT_BOXES, SEGMENT_NAME_CHARACTERS, SEGMENT_PARTS, SEGMENTS_UNFOLDED
from strandline.core.segment import Segment

BOX_WIDTH: Final = 210
BOX_HEIGHT: Final = 40
BOX_STEP: Final = 52  # from one box to the one below
BOX_GAP: Final = 48  # between two columns


@dataclass(frozen=True, slots=True)
class SegmentBox:
    """One segment, or several that are folded."""

    segments: Sequence[Segment]

    @property
    def name(self) -> str:
        """It is the same as long as its segments are."""
        first, last = self.segments[0].id, self.segments[-1].id
        return first if len(self.segments) == 1 else f"{first} … {last} ({len(self.segments)})"

    @property
    def is_folded(self) -> bool:
        return len(self.segments) > 1

    @property
    def text(self) -> str:
        """For people: which segments, and of several how many, and which keys."""
        first, last = self.segments[0], self.segments[-1]
        if not self.is_folded:
            return _short(first.id)
        lows = [each.low for each in self.segments if each.low is not None]
        highs = [each.high for each in self.segments if each.high is not None]
        keys = f", keys {min(lows):.4g} to {max(highs):.4g}" if lows and highs else ""
        state = "ended" if first.sealed else "open"
        return f"{_short(first.id)} … {_short(last.id)}: {len(self.segments):,} {state}{keys}"

    @property
    def lines(self) -> Sequence[str]:
        """The same in two lines that fit into a box."""
        if not self.is_folded:
            return (self.text,)
        first, last = (_short(each.id, SEGMENT_NAME_CHARACTERS // 2) for each in (self.segments[0], self.segments[-1]))
        return f"{first} … {last}", self.text.partition(": ")[2]

    @property
    def kind(self) -> str:
        return "done" if self.segments[0].sealed else "open"


class PlacedBox(NamedTuple):
    """Where a box is drawn."""

    x: int
    y: int
    box: SegmentBox


@dataclass(frozen=True, slots=True)
class SegmentsPicture:
    """Boxes, and which lead to which, by their places."""

    boxes: Sequence[SegmentBox]
    arrows: Sequence[tuple[int, int]]

    @property
    def folded(self) -> int:
        """How many segments are in boxes with others."""
        return sum(len(each.segments) for each in self.boxes if each.is_folded)

    def drawn(self) -> tuple[list[PlacedBox], list[str], int, int]:
        """Where each box is, the paths between them, and the width and the height of the picture: a column for each
        step of splits and merges."""
        columns: dict[int, int] = {}
        for before, after in sorted(self.arrows):
            columns[after] = max(columns.get(after, 0), columns.get(before, 0) + 1)
        rows: Counter[int] = Counter()
        places = []
        for number, box in enumerate(self.boxes):
            column = columns.get(number, 0)
            places.append(PlacedBox(column * (BOX_WIDTH + BOX_GAP), rows[column] * BOX_STEP, box))
            rows[column] += 1
        paths = []
        for before, after in self.arrows:
            x, y = places[before].x + BOX_WIDTH, places[before].y + BOX_HEIGHT // 2
            to_x, to_y = places[after].x, places[after].y + BOX_HEIGHT // 2
            paths.append(f"M{x} {y}C{x + BOX_GAP // 2} {y} {to_x - BOX_GAP // 2} {to_y} {to_x - 4} {to_y}")
        wide = max((each.x for each in places), default=0) + BOX_WIDTH
        return places, paths, wide, max(rows.values(), default=0) * BOX_STEP


def segments_picture(segments: Iterable[Segment], unfolded: Sequence[str] = ()) -> SegmentsPicture:
    """The picture of segments, each after its predecessors. `unfolded` are names of boxes that are shown as several; if
    that would be too many boxes, the first of these stay folded."""
    segments = list(segments)
    while True:
        boxes = _boxes(segments, unfolded)
        if len(boxes) <= SEGMENT_BOXES or not unfolded:
            break
        unfolded = unfolded[1:]
    place = {segment.id: number for number, box in enumerate(boxes) for segment in box.segments}
    arrows = {
        (place[before], place[each.id]): None
        for each in segments
        for before in each.predecessors
        if before in place and place[before] != place[each.id]
    }
    return SegmentsPicture(boxes, list(arrows))


def _boxes(segments: Sequence[Segment], unfolded: Collection[str]) -> list[SegmentBox]:
    if len(segments) <= SEGMENTS_UNFOLDED:
        return [SegmentBox([each]) for each in segments]
    generations = _generations(segments)
    ended = sorted((each for each in segments if each.sealed), key=lambda each: (generations[each.id], _low(each)))
    still_open = sorted((each for each in segments if not each.sealed), key=_low)
    return [
        *_cut(ended, lambda each: generations[each.id], unfolded),
        *_cut(still_open, lambda _: 0, unfolded),
    ]


def _cut(
    row: Sequence[Segment], generation: Callable[[Segment], int], unfolded: Collection[str]
) -> Iterator[SegmentBox]:
    """Some segments in a row as a few boxes."""
    if len(row) <= SEGMENT_PARTS:
        yield from (SegmentBox([each]) for each in row)
        return
    parts = [list(part) for _, part in groupby(row, generation)]
    if not 1 < len(parts) <= SEGMENT_PARTS:
        size = -(-len(row) // SEGMENT_PARTS)
        parts = [list(row[first : first + size]) for first in range(0, len(row), size)]
    for part in parts:
        box = SegmentBox(part)
        if box.is_folded and box.name in unfolded:
            yield from _cut(part, generation, unfolded)
        else:
            yield box


def _generations(segments: Sequence[Segment]) -> Mapping[str, int]:
    """How many segments precede each one, one after the other."""
    found: dict[str, int] = {}
    for each in segments:
        found[each.id] = max((found[name] + 1 for name in each.predecessors if name in found), default=0)
    return found


def _low(segment: Segment) -> float:
    return 0.0 if segment.low is None else segment.low


def _short(name: str, most: int = SEGMENT_NAME_CHARACTERS) -> str:
    if len(name) <= most:
        return name
    half = most // 2
    return f"{name[:half]}…{name[-half:]}"
