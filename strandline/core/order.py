"""Chooses the segment to read next: the one furthest behind in time (PDP-28); and computes its lag.

A segment's place in time is the bound T of its next event: that event and every later one has time ≥ T. The least
bound of all segments is the group's watermark, and reading the segment that has it makes the watermark rise.

    segment 1    11:55 ─ A ─ B ─ 12:00 ─ C ─ D ─ 12:02        bounds, in the order in which a reader reaches them
    segment 2    11:55 ─ A ─ B ─ C ─ 12:01 ─ …
    watermark    11:55; 12:00 once 1B and 2C are read; 12:01 once 1D is

The order across segments is as fine as the marks are; the order of any two events is not guaranteed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

SegmentRef: TypeAlias = tuple[str, str]  # stream, segment: for readers of several streams
# For a segment and an offset: every event from there on has a time at or above the bound. None: not known.
Bound: TypeAlias = Callable[[str, int], int | None]
Named = TypeVar("Named", str, SegmentRef)


@dataclass(frozen=True, slots=True)
class Head:
    """A reader's place in one segment: the offset of its next event.

    `since` is set within a transaction, to the offset of its start. A whole transaction is one point in time.
    """

    segment: str
    offset: int
    since: int | None = None

    def __post_init__(self) -> None:
        if self.offset < 0:
            raise ValueError(f"the next offset of segment {self.segment!r} cannot be {self.offset}")
        if self.since is not None and not 0 <= self.since <= self.offset:
            raise ValueError(f"a transaction at {self.offset} cannot have begun at {self.since}")


@dataclass(frozen=True, slots=True)
class Lag:
    """A lag in time: `lag_ms` behind the clock (epoch times), `behind_ms` behind the newest mark."""

    lag_ms: int | None
    behind_ms: int | None


def order(positions: Mapping[Named, int], bound: Callable[[Named, int], int | None]) -> list[Named]:
    """The segments of a position (offset of the next event, by segment), the one furthest behind first.

    A segment is named by its id, or by stream and id. A segment without a bound comes before all others,
    because its next event may be older than any other; ties by name.
    """
    return sorted(positions, key=lambda segment: (_place(bound(segment, positions[segment])), segment))


def lag(lower: int | None, newest: int | None, now: int) -> Lag:
    """The lag of a lower bound, of a window or of one segment. `newest` is the time of the newest mark."""
    if lower is None:
        return Lag(None, None)
    return Lag(lag_ms=now - lower, behind_ms=None if newest is None else newest - lower)


def lags(positions: Mapping[str, int], bound: Bound, newest: int | None, now: int) -> dict[str, Lag]:
    """The lag of each segment of a position."""
    return {segment: lag(bound(segment, offset), newest, now) for segment, offset in positions.items()}


class Orderer:
    """Chooses, call after call, the segment from which a reader takes its next event.

    It chooses the segment furthest behind in time. Among equals it prefers the one within a transaction, so that no
    other event comes between its events; then the one chosen longest ago, so that a busy segment cannot starve the
    others while no mark comes; then by id.
    """

    def __init__(self, bound: Bound) -> None:
        self._bound = bound
        self._turn = 0
        self._turns: dict[str, int] = {}

    def next_segment(self, heads: Iterable[Head]) -> str | None:
        """The segment to read next, among those with an event ready; None if there is none."""
        chosen = min(heads, key=self._rank, default=None)
        if chosen is None:
            return None
        self._turn += 1
        self._turns[chosen.segment] = self._turn
        return chosen.segment

    def forget(self, segment: str) -> None:
        """Forgets a segment that was read to its end or released."""
        self._turns.pop(segment, None)

    def _rank(self, head: Head) -> tuple[tuple[bool, int], bool, int, str]:
        begun = head.since is not None and head.since < head.offset
        offset = head.offset if head.since is None else head.since
        place = _place(self._bound(head.segment, offset))
        return place, not begun, self._turns.get(head.segment, 0), head.segment


def _place(bound: int | None) -> tuple[bool, int]:
    return (False, 0) if bound is None else (True, bound)
