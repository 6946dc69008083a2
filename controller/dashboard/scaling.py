"""The successors of segments that are split or merged from a page: equal shares of the keys of those that end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import count, islice, pairwise

from strandline.core.segment import NewSegment, Segment


def successors(
    segments: Iterable[Segment], ending: Collection[str], number: int, names: Sequence[str]
) -> list[NewSegment]:
    """So many successors of the segments that end, in the order of their keys. Without `names` they get the next free
    numbers. In an open stream, which has no keys, each follows all that end.

    Raises ValueError for what is no split or merge.
    """
    known = {each.id: each for each in segments}
    missing = [each for each in ending if each not in known]
    if missing:
        raise ValueError(f"there is no segment {missing[0]}: the stream has {', '.join(sorted(known)[:20])}")
    ended = [each for each in ending if known[each].sealed]
    if ended:
        raise ValueError(f"{ended[0]} has ended already, at {known[ended[0]].final_offset}")
    named = list(names) or list(islice((str(each) for each in count() if str(each) not in known), number))
    if len(named) != number:
        raise ValueError(f"{len(named)} names for {number} successors")
    ranges = sorted((low, high) for each in ending if (low := known[each].low) is not None
                    and (high := known[each].high) is not None)  # fmt: skip
    if not ranges:
        return [NewSegment(id=name, predecessors=tuple(ending)) for name in named]
    for (_, high), (low, _) in pairwise(ranges):
        if low != high:
            raise ValueError(f"the keys from {high:.4g} to {low:.4g} lie between them: scale neighbours together")
    low, high = ranges[0][0], ranges[-1][1]
    bounds = [low, *(low + (high - low) * each / number for each in range(1, number)), high]
    return [NewSegment(id=name, low=a, high=b) for name, (a, b) in zip(named, pairwise(bounds), strict=True)]
