"""How far the next batch goes, and how its work is divided. Pure functions over plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from strandline.core.segment import Segment


def plan_end(
    start: Mapping[str, int], ends: Mapping[str, int], segments: Sequence[Segment], budget: int | None
) -> dict[str, int]:
    """The positions at which the next batch ends: at most `budget` rows past `start`, no segment beyond `ends`.

    A segment is started only when all before it are read to their final offset: a position that names a
    successor says that its predecessors are done, and the controller would take our word for it.
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
    """Divides a budget of rows evenly; what one segment cannot use goes to the others. None: everything."""
    if budget is None:
        return dict(waiting)
    granted = {}
    remaining = budget
    # The least waiting first: each takes no more than an even part of what is left, so its rest goes on.
    for taken, (segment, rows) in enumerate(sorted(waiting.items(), key=lambda item: (item[1], item[0]))):
        granted[segment] = min(rows, remaining // (len(waiting) - taken))
        remaining -= granted[segment]
    return granted


def split(start: int, end: int, most: int) -> list[tuple[int, int]]:
    """The range as pieces of at most `most` rows and equal size, give or take one."""
    rows = end - start
    pieces = -(-rows // most)
    bounds = [start + rows * piece // pieces for piece in range(pieces)] + [end] if pieces else []
    return list(pairwise(bounds))
