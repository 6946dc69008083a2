"""Finds the segment of an event, in a log whose segments have ranges of [0, 1)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from strandline.core.segment import Segment
from strandline.errors import UnknownSegment
from strandline.logs import Event
from strandline.logs.errors import LogSealed, SegmentSealed
from strandline.logs.layout import key_place


class Route:
    """The routes to a log's segments as of one moment; `path` names the log in errors."""

    def __init__(self, path: str, segments: Iterable[Segment]) -> None:
        self._path = path
        self._finals: dict[str, int | None] = {}
        open_ranges: list[tuple[float, str]] = []
        for one in segments:
            self._finals[one.id] = one.final_offset
            if not one.sealed:
                open_ranges.append((one.low or 0.0, one.id))
        open_ranges.sort()
        self._lows = [low for low, _ in open_ranges]
        self._ids = [segment for _, segment in open_ranges]

    def segment(self, event: Event) -> str:
        """The segment of an event. Raises UnknownSegment, SegmentSealed, or LogSealed if no segment is open."""
        if event.segment is None:
            if not self._ids:
                raise LogSealed(path=self._path)
            return self._ids[bisect_right(self._lows, key_place(event.key or b"")) - 1]
        if event.segment not in self._finals:
            raise UnknownSegment.among(self._finals, event.segment)
        final = self._finals[event.segment]
        if final is not None:
            raise SegmentSealed(segment=event.segment, final_offset=final)
        return event.segment
