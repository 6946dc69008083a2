"""Fetches a bounded piece of each segment of a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from strandline.logs import LogReader, StoredEvent

READ_AHEAD_OFFSETS: Final = 4_096  # of one segment
READ_AHEAD_BYTES: Final = 4 * 1024 * 1024  # of events that were fetched and not returned yet


@dataclass(frozen=True, slots=True)
class Fetched:
    """A piece of a segment, up to an offset. The segment now ends at `end`; `final` is its final offset, if sealed."""

    segment: str
    events: list[StoredEvent]
    upto: int
    end: int
    final: int | None


def fetch(log: LogReader, wanted: Mapping[str, int]) -> list[Fetched]:
    """Returns the next piece of each of these segments, from these offsets on; none for segments that the log does not
    have (yet). Raises the log's errors."""
    finals = {each.id: each.final_offset for each in log.segments()}
    ends = log.end_offsets()  # after the finals, since a sealed segment cannot grow
    return [
        _piece(log, segment, start, ends[segment], finals.get(segment))
        for segment, start in wanted.items()
        if segment in ends
    ]


def _piece(log: LogReader, segment: str, start: int, end: int, final: int | None) -> Fetched:
    events, size = list[StoredEvent](), 0
    upto = min(end, start + READ_AHEAD_OFFSETS)
    if upto <= start:
        return Fetched(segment, events, start, end, final)
    for event in log.rows(segment, start, upto):
        events.append(event)
        size += len(event.value or b"") + len(event.key or b"")
        if size >= READ_AHEAD_BYTES:
            return Fetched(segment, events, event.offset + 1, end, final)
    return Fetched(segment, events, upto, end, final)
