"""A cache of the marks of one stream and key, which follows the stream. No input or output.

`window` returns a window only if the controller would return the same: if the position lies below the last cached mark,
or all marks are cached. Otherwise it returns None, and the caller must call the controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from strandline.core.chain import MarkChain
from strandline.core.config import TimeDomain
from strandline.core.mark import Mark
from strandline.core.segment import SegmentGraph
from strandline.core.time_index import marks_below
from strandline.core.window import TimeWindow, time_window
from strandline.errors import BeyondFinalOffset, UnknownSegment
from strandline.wire.streams import MarksPage, StreamDescription, WireMark, mark_of

CACHED_MARKS_DEFAULT: Final = 100_000  # of one key; older positions take a call
MARKS_PER_PAGE: Final = 500  # requested at a time
OFFSETS_PER_PAGE: Final = 8_192  # in these marks: of a stream with many segments fewer are requested
MARKS_PER_PAGE_LEAST: Final = 16  # of a stream with however many segments


@dataclass(frozen=True, slots=True)
class _BoundedRange:
    """A segment's bound from `begin` up to `end` (None: without end)."""

    begin: int
    end: int | None
    bound: int | None


class MarkCache:
    """Takes descriptions of the stream and pages of marks; returns windows and bounds.

    `after` is the seq after which the next page begins. The cache keeps the newest `keep_marks` marks.
    """

    def __init__(
        self,
        key: str,
        *,
        keep_marks: int = CACHED_MARKS_DEFAULT,
        after: int | None = None,
    ) -> None:
        """`after` is the seq after which the cache begins; by default it fetches the newest `keep_marks` marks."""
        self._key = key
        self._keep_marks = keep_marks
        self._begin = after
        self._most_marks = MARKS_PER_PAGE
        self.reset()

    def reset(self) -> None:
        """Drops everything: the stream is another one, or its marks are gone."""
        self.graph: SegmentGraph | None = None
        self._identity: str | None = None  # of the stream that everything here is of
        self.sealed = False
        self.resting = False
        self.caught_up = False
        self.wants_more = False  # a bound beyond the last cached mark was requested, and there are more marks
        self.after = 0
        self._latest_seq = 0  # as of the last description
        self._marks = MarkChain()
        self.is_ingestion = False
        self._ranges: dict[str, _BoundedRange] = {}
        # From calls, whose marks may not be cached yet: the newest time, the end, and a position that a mark passed.
        self._called_time: int | None = None
        self._called_end = False
        self._called_position: dict[str, int] = {}

    @property
    def last_seq(self) -> int | None:
        """The seq of the newest cached mark, or None."""
        return self._marks.last_seq or None

    @property
    def newest_time(self) -> int | None:
        return None if self._marks.last is None else self._marks.last.time

    @property
    def page_marks(self) -> int:
        """How many marks to request at a time."""
        segments = len(self.graph) if self.graph is not None else 0
        most = max(MARKS_PER_PAGE_LEAST, min(MARKS_PER_PAGE, OFFSETS_PER_PAGE // max(1, segments)))
        return max(1, min(most, self._most_marks))

    def ask_for_less(self) -> None:
        """Halves the pages: the last one was too much for an answer."""
        self._most_marks = self.page_marks // 2

    @property
    def over(self) -> bool:
        """Whether all marks are cached, and no other can follow."""
        return self.sealed and self.caught_up

    def describe(self, described: StreamDescription) -> None:
        """Takes a description of the stream. Drops everything if the stream was created again under its name."""
        latest = described.latest_marks.get(self._key)
        if self._identity != described.identity:
            self.reset()
        first, self._identity = self.graph is None, described.identity
        self.graph = SegmentGraph(
            [each.segment for each in described.segments],
            open=any(each.segment.low is None for each in described.segments),
        )
        self._ranges.clear()
        self.is_ingestion = described.config.time_domain is TimeDomain.INGESTION
        self.sealed = described.sealed
        self._latest_seq = 0 if latest is None else latest.seq
        if first and latest is not None:
            self.after = max(0, latest.seq - self._keep_marks) if self._begin is None else self._begin

    def is_clear(self, page: MarksPage) -> bool:
        """Whether every segment of these marks is known; otherwise call `describe` before `take`."""
        graph = self.graph
        named = {segment for mark in page.marks for segment in mark.cut}
        return self.is_of(page) and graph is not None and all(segment in graph for segment in named)

    def is_of(self, page: MarksPage) -> bool:
        """Whether these marks are of the stream that was described, and not of another one of its name."""
        return page.identity == self._identity

    def take(self, page: MarksPage) -> None:
        """Adds the next page of marks. After a gap of marks that the controller has pruned, starts from the page."""
        self.resting = page.resting is not None
        for mark in map(self._mark, page.marks):
            if mark.seq != self._marks.last_seq + 1:
                self._marks = MarkChain()  # others are missing between
            self._marks.append(mark)
        self.after = max(self.after, self._marks.last_seq)
        self.caught_up = not page.more and self.after >= self._latest_seq
        self.wants_more = False
        if page.marks:
            self._ranges.clear()
            self._marks.prune_before_seq(self._marks.last_seq - self._keep_marks + 1)

    def forget_before(self, position: Mapping[str, int]) -> None:
        """Drops the marks that a reader at or past this position does not need."""
        if position:
            below = min(marks_below(self._marks, *each) for each in position.items())
            self._marks.prune_before_seq(self._marks.first_seq + below - 1)

    def note_mark(self, time: int) -> None:
        """Records that a call returned a mark of this time, which may not be cached yet."""
        self._called_time = time if self._called_time is None else max(self._called_time, time)

    def note_window(self, position: Mapping[str, int], window: TimeWindow) -> None:
        """Records that a call returned this window, whose marks may not be cached yet."""
        if window.lower is not None:
            self.note_mark(window.lower)
        self._called_end = self._called_end or window.end_of_stream
        if window.upper is not None:  # a mark covers the position
            for segment, offset in position.items():
                self._called_position[segment] = max(offset, self._called_position.get(segment, 0))

    def _covers_calls(self, graph: SegmentGraph) -> bool:
        """Whether the cache is as new as all answers to calls."""
        last = self._marks.last
        if last is None or (self._called_time is not None and last.time < self._called_time):
            return False
        if self._called_end and not self.sealed:
            return False
        if self._called_position:
            try:
                covered = graph.cut(self._called_position)
            except (BeyondFinalOffset, UnknownSegment):
                return False  # the description is older than the answer
            if covered == last.cut or not covered.le(last.cut):
                return False  # the mark of an upper has a cut beyond the position
        self._called_position.clear()  # the last cached mark never goes back
        return True

    def window(self, position: Mapping[str, int]) -> TimeWindow | None:
        """Returns the window of a position, or None if it takes a call to the controller.

        A window with an upper bound is final: no later mark changes it. A window without one is returned only if the
        cache is as new as all answers to calls, so that a reader's window never goes back.
        """
        if self.graph is None:
            return None
        if any(segment not in self.graph for segment in position):
            return None  # a successor, or a segment of an open stream, that is newer than the description
        cut = self.graph.cut(position)
        window = time_window(self._marks, cut, self.graph.end if self.sealed else None)
        if window.lower is None and self._marks.first_seq > 1:
            return None  # before the first cached mark
        if window.upper is None and (self.resting or not self.caught_up or not self._covers_calls(self.graph)):
            return None
        return window

    def bound(self, segment: str, offset: int) -> int | None:
        """Returns a bound: every event of the segment at or past the offset has time >= it. None if no cached mark has
        one."""
        found = self._ranges.get(segment)
        if found is None or offset < found.begin or (found.end is not None and offset >= found.end):
            found = self._ranges[segment] = self._range(segment, offset)
        self.wants_more = self.wants_more or (found.end is None and not self.caught_up)
        return found.bound

    def _range(self, segment: str, offset: int) -> _BoundedRange:
        marks = self._marks
        first, count = marks.first_seq, len(marks)
        below = marks_below(marks, segment, offset)
        return _BoundedRange(
            begin=marks.offset_at(first + below - 1, segment) if below else 0,
            end=marks.offset_at(first + below, segment) if below < count else None,
            bound=marks.time_at(first + below - 1) if below else None,
        )

    def _mark(self, wire: WireMark) -> Mark:
        if self.graph is None:
            raise ValueError(f"mark {wire.seq} arrived before the description of the stream")
        return mark_of(wire, self.graph)
