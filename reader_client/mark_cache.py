"""The marks of one stream and key, kept here as they follow the stream. No input or output.

A window comes from here where it would be the controller's: where the position lies below the last mark that is
here, or all marks are here. Where it might not be, `window` answers None, and the controller is to be asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from reader_client.limits import CACHED_MARKS_DEFAULT, MARKS_PER_PAGE
from strandline.core.config import TimeDomain
from strandline.core.cut import Cut
from strandline.core.mark import Mark
from strandline.core.segment import SegmentGraph
from strandline.core.time_index import interpolation_search
from strandline.core.window import ListedMarks, TimeWindow, window_between
from strandline.errors import BeyondFinalOffset, UnknownSegment
from strandline.wire.streams import MarksPage, StreamDescription, WireMark


class KeptMarks(Protocol):
    """`strandline.core.chain.MarkChain` where numpy is installed, else `ListedMarks`."""

    def __len__(self) -> int: ...

    def __getitem__(self, seq: int) -> Mark: ...

    @property
    def first_seq(self) -> int: ...

    @property
    def last_seq(self) -> int: ...

    def append(self, mark: Mark) -> None: ...

    def prune_before_seq(self, seq: int) -> int: ...

    def time_at(self, seq: int) -> int: ...

    def offset_at(self, seq: int, segment: str) -> int: ...

    def passed(self, position: Cut) -> Mark | None: ...

    def ahead(self, position: Cut) -> Mark | None: ...


def kept_marks(key: str, first_seq: int) -> KeptMarks:
    """Packed marks, the `marks` extra, where there are such; else a list."""
    try:
        from strandline.core.chain import MarkChain
    except ImportError:
        return ListedMarks()
    return MarkChain(key, first_seq)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """From `begin` up to `end` (null: on and on) a segment's bound is this."""

    begin: int
    end: int | None
    bound: int | None


class _Near:
    """The marks around the position that was asked for last. A reader moves on slowly: the next answer is mostly the
    same, and comparing a few cuts tells so in a tenth of the time of a search."""

    __slots__ = ("ahead", "before_ahead", "next", "passed")

    def __init__(self, marks: KeptMarks, position: Cut) -> None:
        self.passed = marks.passed(position)
        self.ahead = marks.ahead(position)
        self.next = _mark_at(marks, marks.first_seq if self.passed is None else self.passed.seq + 1)
        self.before_ahead = None if self.ahead is None else _mark_at(marks, self.ahead.seq - 1)

    def holds(self, position: Cut) -> bool:
        """Whether these are the marks around a position, too; false where that takes a search."""
        if self.passed is not None and not self.passed.cut.le(position):
            return False
        if self.next is not None and self.next.cut.le(position):
            return False
        if self.ahead is None:
            return self.next is None
        if not position.le(self.ahead.cut):
            return False
        if self.before_ahead is None or (self.next is not None and self.next.seq == self.ahead.seq):
            return True
        return not position.le(self.before_ahead.cut)


def _mark_at(marks: KeptMarks, seq: int) -> Mark | None:
    return marks[seq] if marks.first_seq <= seq <= marks.last_seq else None


class MarkCache:
    """Takes descriptions of the stream and pages of marks in; tells windows and bounds.

    `after` is the seq after which the next page begins. Past `keep_marks`, the oldest marks go.
    """

    def __init__(
        self,
        key: str,
        *,
        keep_marks: int = CACHED_MARKS_DEFAULT,
        after: int | None = None,
        new_marks: Callable[[str, int], KeptMarks] = kept_marks,
    ) -> None:
        """`after` is the seq after which it begins; without it the newest `keep_marks` marks are fetched."""
        self._key = key
        self._new_marks = new_marks
        self._keep_marks = keep_marks
        self._begin = after
        self.reset()

    def reset(self) -> None:
        """Forgets everything: the stream is another one, or its marks are gone."""
        self.graph: SegmentGraph | None = None
        self.sealed = False
        self.resting = False
        self.caught_up = False
        self.wants_more = False  # a bound was asked for past the last mark that is here, and there are more
        self.after = 0
        self._latest_seq = 0  # when it was described last
        self._marks: KeptMarks | None = None
        self._last: Mark | None = None
        self.is_ingestion = False
        self._stretches: dict[str, _Stretch] = {}
        self._near: _Near | None = None
        self._told_time: int | None = None  # the newest that a call told, which may not be here yet; also the next two
        self._told_end = False
        self._told_position: dict[str, int] = {}  # a mark reaches past all of it

    @property
    def last_seq(self) -> int | None:
        """The seq of the newest mark that is here; null without any."""
        return None if self._last is None else self._last.seq

    @property
    def newest_time(self) -> int | None:
        return None if self._last is None else self._last.time

    @property
    def over(self) -> bool:
        """Whether all marks are here, and no other can come."""
        return self.sealed and self.caught_up

    def describe(self, described: StreamDescription) -> None:
        """What the stream looks like now. A stream that was made again under its name begins from nothing."""
        latest = described.latest_marks.get(self._key)
        if self._last is not None and _is_another(self._last, latest):
            self.reset()
        first = self.graph is None
        self.graph = SegmentGraph(
            [each.segment for each in described.segments],
            open=any(each.segment.low is None for each in described.segments),
        )
        self._stretches.clear()
        self.is_ingestion = described.config.time_domain is TimeDomain.INGESTION
        self.sealed = described.sealed
        self._latest_seq = 0 if latest is None else latest.seq
        if first and latest is not None:
            self.after = max(0, latest.seq - self._keep_marks) if self._begin is None else self._begin

    def is_clear(self, page: MarksPage) -> bool:
        """Whether every segment of these marks is known here; else `describe` must come first."""
        graph = self.graph
        return graph is not None and all(segment in graph for mark in page.marks for segment in mark.cut)

    def take(self, page: MarksPage) -> None:
        """Adds the marks that follow. Where some are gone, pruned at the controller, it begins again behind them."""
        self.resting = page.resting is not None
        for wire in page.marks:
            mark = self._mark(wire)
            if self._marks is None or self._last is None or mark.seq != self._last.seq + 1:
                self._marks = self._new_marks(self._key, mark.seq)
            self._marks.append(mark)
            self._last = mark
            self.after = mark.seq
        self.caught_up = len(page.marks) < MARKS_PER_PAGE and self.after >= self._latest_seq
        self.wants_more = False
        if page.marks and self._marks is not None:
            self._stretches.clear()
            self._near = None
            self._marks.prune_before_seq(self._marks.last_seq - self._keep_marks + 1)

    def forget_before(self, position: Mapping[str, int]) -> None:
        """Drops the marks that say nothing any more to who has come so far in these segments."""
        if self._marks is not None and position:
            below = min(self._count_below(self._marks, *each) for each in position.items())
            self._marks.prune_before_seq(self._marks.first_seq + below - 1)
            self._near = None

    def tell_mark(self, time: int) -> None:
        """A call told the reader a mark of this time, which may not be here yet."""
        self._told_time = time if self._told_time is None else max(self._told_time, time)

    def tell_window(self, position: Mapping[str, int], window: TimeWindow) -> None:
        """A call told the reader this window, whose marks may not be here yet."""
        if window.lower is not None:
            self.tell_mark(window.lower)
        self._told_end = self._told_end or window.end_of_stream
        if window.upper is not None:  # a mark reaches past the position
            for segment, offset in position.items():
                self._told_position[segment] = max(offset, self._told_position.get(segment, 0))

    def _has_told(self, graph: SegmentGraph) -> bool:
        """Whether all that calls told the reader is here too."""
        last = self._last
        if last is None or (self._told_time is not None and last.time < self._told_time):
            return False
        if self._told_end and not self.sealed:
            return False
        if self._told_position:
            try:
                covered = graph.cut(self._told_position)
            except (BeyondFinalOffset, UnknownSegment):
                return False  # a description that is older than what was told
            if covered == last.cut or not covered.le(last.cut):
                return False  # a mark that gives an upper reaches further than the position
        self._told_position.clear()  # the last mark here only moves on
        return True

    def window(self, position: Mapping[str, int]) -> TimeWindow | None:
        """The window at a position; None where it takes a call to the controller.

        A window with an upper is final: no later mark changes it. One without is told only where the marks here are as
        new as all that calls told, so that a reader's window never goes back.
        """
        if self.graph is None or self._marks is None:
            return None
        if any(segment not in self.graph for segment in position):
            return None  # a successor, or a segment of an open stream, that came since
        cut = self.graph.cut(position)
        near = self._near
        if near is None or not near.holds(cut):
            near = self._near = _Near(self._marks, cut)
        window = window_between(near.passed, near.ahead, cut, self.graph.end if self.sealed else None)
        if window.lower is None and self._marks.first_seq > 1:
            return None  # before the first mark that is here
        if window.upper is None and (self.resting or not self.caught_up or not self._has_told(self.graph)):
            return None
        return window

    def bound(self, segment: str, offset: int) -> int | None:
        """Nothing of a segment at or past an offset is older than this; null where no mark that is here says so."""
        stretch = self._stretches.get(segment)
        if stretch is None or offset < stretch.begin or (stretch.end is not None and offset >= stretch.end):
            stretch = self._stretches[segment] = self._stretch(segment, offset)
        self.wants_more = self.wants_more or (stretch.end is None and not self.caught_up)
        return stretch.bound

    def _stretch(self, segment: str, offset: int) -> _Stretch:
        marks, created_at = self._marks, None
        if self.is_ingestion and self.graph is not None and segment in self.graph:
            created_at = self.graph[segment].created_at  # nothing in it can be older
        if marks is None:
            return _Stretch(0, None, created_at)
        first, count = marks.first_seq, len(marks)
        below = self._count_below(marks, segment, offset)
        known = [created_at] if created_at is not None else []
        known += [marks.time_at(first + below - 1)] if below else []
        return _Stretch(
            begin=marks.offset_at(first + below - 1, segment) if below else 0,
            end=marks.offset_at(first + below, segment) if below < count else None,
            bound=max(known, default=None),
        )

    @staticmethod
    def _count_below(marks: KeptMarks, segment: str, offset: int) -> int:
        """How many marks reach no further into a segment than an offset."""
        first = marks.first_seq
        return interpolation_search(lambda n: marks.offset_at(first + n, segment), len(marks), offset)[0]

    def _mark(self, wire: WireMark) -> Mark:
        if self.graph is None:
            raise ValueError(f"mark {wire.seq} came before the stream was described")
        return Mark(
            seq=wire.seq,
            key=wire.key,
            time=wire.time,
            upper=wire.upper,
            cut=self.graph.cut(wire.cut),
            newest=wire.newest,
            excluded=wire.excluded,
            created_at=wire.created_at,
        )


def _is_another(last: Mark, latest: WireMark | None) -> bool:
    """Whether the newest mark that is here can not be one of the stream whose newest mark is this."""
    if latest is None or latest.seq < last.seq:
        return True
    return latest.seq == last.seq and latest.time != last.time
