"""Offsets and times within one segment (PDP-28), from the marks' offsets in that segment.

A mark (T, C) means that every event older than T lies below C. So in one segment every event at or past the cut's
offset has time ≥ T: this is the entry (C[segment], T). Of entries with the same offset the latest is the tightest.

    mark       1        2        3        4        5
    offset     0        0        40       40       85
    time       11:55    11:58    12:00    12:01    12:04
    entries             (0, 11:58)        (40, 12:01)  (85, 12:04)

A segment that is created later begins with the last mark before it. Its creation gives no tighter bound: a log may
have it before its stream does.

A *token* is a call's place among the marks: the seq of the last mark used, 0 for none. The next call goes on from
there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from strandline.limits import PAGE_DEFAULT_ENTRIES


@dataclass(frozen=True, slots=True, order=True)
class IndexEntry:
    """No event of the segment at or past `offset` is older than `time`."""

    offset: int
    time: int


class IndexedMarks(Protocol):
    """The marks of one stream and key, for a time index: a `MarkChain`, or what reads them from a store."""

    @property
    def first_seq(self) -> int: ...

    @property
    def last_seq(self) -> int: ...

    def time_at(self, seq: int) -> int: ...

    def offset_at(self, seq: int, segment: str) -> int: ...


def time_index(
    marks: IndexedMarks,
    segment: str,
    from_offset: int = 0,
    token: int | None = None,
    limit: int = PAGE_DEFAULT_ENTRIES,
) -> tuple[list[IndexEntry], int]:
    """The entries from an offset on, at most `limit`, rising in offset and time; and the token for the next call.

    The first entry is the one at or below `from_offset`, if there is one, found by a search; for offset 0 the
    entries begin with the first mark. With a token, `from_offset` is ignored. If marks were added since the last
    call, the next one may begin with the last offset again, at a later time.
    """
    if from_offset < 0 or limit < 1 or (token is not None and token < 0):
        raise ValueError(f"offset and token need 0 or more, limit 1 or more: {from_offset}, {token}, {limit}")
    first, last = marks.first_seq, marks.last_seq
    if token is None and from_offset > 0:
        count = marks_below(marks, segment, from_offset)
        seq = first + max(count - 1, 0)
    else:
        seq = max((token or 0) + 1, first)
    entries: list[IndexEntry] = []
    while seq <= last and len(entries) < limit:
        end = _end_of_run(marks, segment, seq)
        entries.append(IndexEntry(marks.offset_at(end, segment), marks.time_at(end)))
        seq = end + 1
    return entries, seq - 1


def bound_at(marks: IndexedMarks, segment: str, offset: int) -> int | None:
    """The time T such that every event of a segment at or past an offset has time ≥ T; None if no mark gives one."""
    count = marks_below(marks, segment, offset)
    return marks.time_at(marks.first_seq + count - 1) if count else None


def interpolation_search(offset_at: Callable[[int], int], count: int, offset: int) -> int:
    """The number of `count` rising offsets at or below `offset`.

    Guesses the place as if offsets grew evenly: for 8.5 of 10 MB, 85 % of the way. Evenly growing offsets take 4
    reads, for any count. Guessing ends after half the reads that bisection needs, and bisection does the rest. So a
    search takes at most 1.5 times the reads of bisection, and 4 more.
    """
    if count == 0:
        return 0
    low, high = 0, count - 1  # offset_at(low) <= offset < offset_at(high)
    high_offset = offset_at(high)
    if high_offset <= offset:
        return count
    if high == low:
        return 0
    low_offset = offset_at(low)
    if low_offset > offset:
        return 0
    guesses = count.bit_length() // 2 + 2
    while high - low > 1:
        if guesses:
            guesses -= 1
            guess = low + (offset - low_offset) * (high - low) // (high_offset - low_offset)
            middle = max(guess, low + 1)  # below `high`, since the offset is below its offset
        else:
            middle = (low + high) // 2
        found = offset_at(middle)
        if found <= offset:
            low, low_offset = middle, found
        else:
            high, high_offset = middle, found
    return high


def marks_below(marks: IndexedMarks, segment: str, offset: int) -> int:
    """How many marks have a cut at or below an offset in a segment."""
    first, count = marks.first_seq, marks.last_seq - marks.first_seq + 1
    return interpolation_search(lambda n: marks.offset_at(first + n, segment), count, offset)


def _end_of_run(marks: IndexedMarks, segment: str, seq: int) -> int:
    """The last mark with the same offset. A quiet segment may have a million, so the steps double."""
    offset, last = marks.offset_at(seq, segment), marks.last_seq
    step = 1
    while seq + step <= last and marks.offset_at(seq + step, segment) == offset:
        seq += step
        step *= 2
    beyond = range(seq + 1, min(seq + step, last + 1))
    return seq + bisect_left(beyond, True, key=lambda n: marks.offset_at(n, segment) != offset)
