"""Plans the end of the next batch, and divides its work. Pure functions over plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from spark_integration.rows import SegmentRange
from strandline.core.segment import Segment


def plan_end(
    start: Mapping[str, int], ends: Mapping[str, int], segments: Sequence[Segment], budget: int | None
) -> dict[str, int]:
    """Returns the positions at which the next batch ends: at most `budget` rows past `start`, no segment beyond `ends`.

    A segment is started only when its predecessors are read to their final offsets: to the controller, a position that
    names a successor means that its predecessors are read.
    """
    planned = {segment.id: start.get(segment.id, 0) for segment in segments}
    finals = {segment.id: segment.final_offset for segment in segments}
    remaining = budget
    while True:
        waiting = {
            segment.id: ends[segment.id] - planned[segment.id]
            for segment in segments
            if segment.id in ends
            and ends[segment.id] > planned[segment.id]
            and all(planned.get(before) == finals.get(before) for before in segment.predecessors)
        }
        if not waiting or remaining == 0:
            return planned
        granted = share(remaining, waiting)
        for segment_id, rows in granted.items():
            planned[segment_id] += rows
        if remaining is not None:
            remaining -= sum(granted.values())


def share(budget: int | None, waiting: Mapping[str, int]) -> dict[str, int]:
    """Divides a budget of rows evenly among segments; others get what one cannot use. None: no limit."""
    if budget is None:
        return dict(waiting)
    granted = {}
    remaining = budget
    # The segment with the fewest rows first: each takes at most an even part of the rest, so later ones get more.
    for taken, (segment, rows) in enumerate(sorted(waiting.items(), key=lambda item: (item[1], item[0]))):
        granted[segment] = min(rows, remaining // (len(waiting) - taken))
        remaining -= granted[segment]
    return granted


def split(start: int, end: int, most: int) -> list[tuple[int, int]]:
    """Splits a range into pieces of at most `most` rows, whose sizes differ by at most one."""
    rows = end - start
    pieces = -(-rows // most)
    bounds = [start + rows * piece // pieces for piece in range(pieces)] + [end] if pieces else []
    return list(pairwise(bounds))


def gather(ranges: Iterable[SegmentRange], least: int) -> list[tuple[SegmentRange, ...]]:
    """Puts ranges together, in their order, until each group but the last has at least so many rows."""
    groups, group, rows = list[tuple[SegmentRange, ...]](), list[SegmentRange](), 0
    for each in ranges:
        group.append(each)
        rows += each.end - each.start
        if rows >= least:
            groups.append(tuple(group))
            group, rows = [], 0
    return [*groups, tuple(group)] if group else groups
