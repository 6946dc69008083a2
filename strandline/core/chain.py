"""The marks of one stream and key, oldest first, as plain columns: a list of cuts, and an array for each number.

    seq         7     8     9  …      the first one's is stored, the others count on from it
    cut         …     …     …         a row of lanes each (`strandline.core.packed_integers`)
    time      100   105   130         rises; `upper`, `newest` and `created_at` have arrays of their own
    excluded  (7: none) (9: w1)       who is left out rarely changes: only where it does is an entry

"At or below a position" is true of the first cuts only, and "at or above it" of the last ones only, because cuts never
go back. So both bounds of a window are found by bisection. A million marks of 16 segments take some 190 MiB.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Final, NamedTuple

from strandline.core.cut import Cut
from strandline.core.mark import Mark
from strandline.core.packed_integers import Columns, without_lane
from strandline.limits import TIME_BOUND_MS

NOT_KNOWN: Final = -TIME_BOUND_MS  # in the column of `newest`; every time is above it
PROBES: Final = 16  # marks that are read at once where a position is searched for in a store


class Sides(NamedTuple):
    """What the marks on either side of a position say: of the newest one passed its time, whether it is complete, and
    its seq; of the first one ahead its `upper`. Without one passed they are None, True and None."""

    lower: int | None
    complete: bool
    seq: int | None
    upper: int | None


NO_SIDES: Final = Sides(None, True, None, None)


class MarkChain:
    """The marks of one stream and key. `append` adds at the end, and pruning removes from the front.

    A mark is passed if its cut lies wholly at or below a position. The one ahead is the first that is not passed and
    whose cut lies wholly at or above the position.
    """

    def __init__(self, marks: Iterable[Mark] = ()) -> None:
        """Takes marks of one key, oldest first, without a gap in seq; the first may have any seq. Raises ValueError for
        others."""
        self._first_seq = 1
        self._columns = Columns()
        self._rows: list[int] = []
        self._times, self._uppers, self._newest, self._created = (array("q") for _ in range(4))
        self._excluded: list[tuple[int, tuple[str, ...]]] = []  # whom marks leave out, from a seq on
        self._last: Mark | None = None
        for mark in marks:
            self.append(mark)

    # -- appending and pruning -------------------------------------------------------------------------------

    def append(self, mark: Mark) -> None:
        """Adds the next mark.

        Raises ValueError, and changes nothing, if its seq is not the next one, its key is another, its time is not
        above the last mark's, or its cut goes back in a segment.
        """
        if self._last is None:
            self._first_seq = mark.seq
        else:
            check_follows(self._last, mark)
        place = mark.cut.place_in(self._columns)
        if not place.known:
            self._columns.add(mark.cut.offsets)
            place = mark.cut.place_in(self._columns)
        self._rows.append(place.row)
        self._times.append(mark.time)
        self._uppers.append(mark.upper)
        self._newest.append(NOT_KNOWN if mark.newest is None else mark.newest)
        self._created.append(mark.created_at)
        if mark.excluded != (self._excluded[-1][1] if self._excluded else ()):
            self._excluded.append((mark.seq, mark.excluded))
        self._last = mark

    def prune_before_seq(self, seq: int) -> int:
        """Drops the marks with a lesser seq, except the newest of all; returns their number."""
        count = max(0, min(seq - self._first_seq, len(self) - 1))
        for column in (self._rows, self._times, self._uppers, self._newest, self._created):
            del column[:count]
        self._first_seq += count
        del self._excluded[: max(0, self._changes_to(self._first_seq) - 1)]
        return count

    def drop_segment(self, segment: str) -> None:
        """Sets a segment's offset to 0 in every cut. Its empty lane stays, in case the segment is created later."""
        lane = self._columns.lane(segment)
        if lane is not None and self._last is not None:
            self._rows = [without_lane(row, lane) for row in self._rows]
            self._last = replace(self._last, cut=self._last.cut.without(segment))

    # -- by seq ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Mark]:
        return map(self.__getitem__, range(self._first_seq, self._first_seq + len(self)))

    def __getitem__(self, seq: int) -> Mark:
        """The mark with a seq; raises IndexError if the chain does not have it (any more, or yet)."""
        last, n = self._last, self._number(seq)
        assert last is not None
        newest = self._newest[n]
        return Mark(
            seq=seq,
            key=last.key,
            time=self._times[n],
            upper=self._uppers[n],
            cut=Cut(self._columns.offsets(self._rows[n])),
            newest=None if newest == NOT_KNOWN else newest,
            excluded=self._excluded_at(seq),
            created_at=self._created[n],
        )

    @property
    def first_seq(self) -> int:
        """The seq of the oldest mark; 1 in an empty chain."""
        return self._first_seq

    @property
    def last_seq(self) -> int:
        """The seq of the newest mark; `first_seq` - 1 in an empty chain."""
        return self._first_seq + len(self) - 1

    @property
    def last(self) -> Mark | None:
        """The newest mark."""
        return self._last

    def after(self, seq: int, limit: int) -> list[Mark]:
        """The marks after a seq, oldest first, at most `limit`."""
        first = max(seq + 1, self._first_seq)
        return [self[n] for n in range(first, min(first + limit, self.last_seq + 1))]

    def time_at(self, seq: int) -> int:
        """The time of a mark; raises IndexError if the chain does not have it."""
        return self._times[self._number(seq)]

    def offset_at(self, seq: int, segment: str) -> int:
        """The offset of a mark's cut in one segment; raises IndexError if the chain does not have the mark."""
        return self._columns.offset(self._rows[self._number(seq)], segment)

    # -- by position -----------------------------------------------------------------------------------------

    def sides(self, position: Cut) -> Sides:
        """What the marks on either side of a position say."""
        place = position.place_in(self._columns)
        passed = bisect_left(self._rows, True, key=lambda row: not place.passes(row))
        ahead = bisect_left(self._rows, True, passed, key=place.is_within) if place.known else len(self)
        upper = self._uppers[ahead] if ahead < len(self) else None
        if not passed:
            return Sides(None, True, None, upper)
        seq = self._first_seq + passed - 1
        return Sides(self._times[passed - 1], not self._excluded_at(seq), seq, upper)

    # -- columns ---------------------------------------------------------------------------------------------

    def _number(self, seq: int) -> int:
        n = seq - self._first_seq
        if not 0 <= n < len(self):
            here = f"{self._first_seq} to {self.last_seq}" if self._rows else "none"
            raise IndexError(f"there is no mark {seq} here, but {here}")
        return n

    def _changes_to(self, seq: int) -> int:
        """How many entries say who is left out up to a mark."""
        return bisect_right(self._excluded, seq, key=itemgetter(0))

    def _excluded_at(self, seq: int) -> tuple[str, ...]:
        changes = self._changes_to(seq)
        return self._excluded[changes - 1][1] if changes else ()


def sides_among(
    read: Callable[[Sequence[int]], Iterable[Mark]], first: int, last: int, position: Cut, upper: int | None = None
) -> Sides:
    """What the marks from `first` to `last` say around a position, in a store that knows them by seq only.

    `read` gets some seqs and gives their marks; each call narrows the place by a factor of PROBES, so that a million
    marks take five calls. `upper` is that of the mark ahead among those that follow `last`.
    """
    passed: Mark | None = None
    low, high = first - 1, last + 1  # the last mark that is known to be passed, the first that is known not to be
    behind, ahead = low, high  # the same of "before the one ahead", never below `low`
    while low + 1 < high or behind + 1 < ahead:
        for mark in read(sorted({*_between(low, high), *_between(behind, ahead)})):
            if mark.cut.le(position):
                low, passed = mark.seq, mark
                behind = max(behind, low)
                continue
            high = min(high, mark.seq)
            if not position.le(mark.cut):
                behind = max(behind, mark.seq)
            elif mark.seq < ahead:
                ahead, upper = mark.seq, mark.upper
    if passed is None:
        return NO_SIDES._replace(upper=upper)
    return Sides(passed.time, passed.complete, passed.seq, upper)


def _between(low: int, high: int) -> range:
    """At most PROBES seqs between two others, evenly spread."""
    step = -(-(high - low) // (PROBES + 1))
    return range(low + step, high, step)


def check_follows(last: Mark, mark: Mark) -> None:
    """Raises ValueError if a mark cannot directly follow another."""
    if mark.seq != last.seq + 1:
        raise ValueError(f"mark {mark.seq} cannot follow mark {last.seq}: the next is {last.seq + 1}")
    if mark.key != last.key:
        raise ValueError(f"mark {mark.seq} is for key {mark.key!r}, the ones before it for {last.key!r}")
    if mark.time <= last.time:
        raise ValueError(f"the time of mark {mark.seq} is {mark.time}, which must be above {last.time}")
    if not last.cut.le(mark.cut):
        segment, least = next((name, offset) for name, offset in last.cut.items() if offset > mark.cut.offset(name))
        at = mark.cut.offset(segment)
        raise ValueError(f"the cut of mark {mark.seq} goes back in segment {segment!r}: {at} is below {least}")
