"""The watermark at a position under a policy for marks that leave writers out, and the log lines about them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from strandline.core.incomplete import UNNAMED, Completeness, OnIncomplete
from strandline.core.window import TimeWindow
from strandline.errors import WritersLeftOut
from strandline.limits import PAGE_ENTRIES

if TYPE_CHECKING:
    from spark_integration.window_calls import ControllerWindows
    from strandline.wire.streams import WireMark

_log = logging.getLogger(__name__)


class PassedMarks:
    """Judges the windows of one stream and key. The bound that it gives depends on the window alone, so a batch that is
    planned again has the same one."""

    def __init__(self, windows: ControllerWindows, stream: str, policy: OnIncomplete) -> None:
        self._windows, self._stream, self._policy = windows, stream, policy
        self._logged = Completeness(stream, policy)
        self._searched = 0  # the seq up to which the last complete mark is known: its seq, or 0, and its time
        self._complete_seq = 0
        self._complete_time: int | None = None
        self._followed, self._followed_seq = Completeness(stream), 0  # all marks up to this one

    def bound(self, window: TimeWindow) -> tuple[int | None, tuple[str, ...]]:
        """Returns the watermark at a window's position, and the writers that its mark leaves out. Logs a line when
        that begins or ceases. Raises WritersLeftOut under the policy `fail`."""
        if window.lower is None:
            return None, ()
        excluded = () if window.complete else self._excluded(window.mark_seq)
        for line in self._logged.lines(self._logged.pass_mark(window.lower, excluded, complete=window.complete)):
            _log.warning("%s", line)
        here = Completeness(self._stream, self._policy)
        if not window.complete and self._policy is not OnIncomplete.GO_ON:
            complete = self._last_complete(window.mark_seq)
            if complete is not None:
                here.pass_mark(complete)
        here.pass_mark(window.lower, excluded, complete=window.complete)
        return here.watermark, here.left_out

    def followed(self, bound: int | None, *, complete: bool) -> int | None:
        """Returns the watermark of the source's group, if the policy allows it. Raises WritersLeftOut."""
        if bound is None or complete or self._policy is OnIncomplete.GO_ON:
            return bound
        if self._policy is OnIncomplete.FAIL:
            raise WritersLeftOut(stream=self._stream, writers=f"{UNNAMED} of its group's", time=bound)
        return None

    def there(self, time: int) -> dict[str, int | None]:
        """Returns whom the last mark at or before a time leaves out, each with the time of the last one that did not;
        None where there was none, or where retention removed it."""
        floor = self._windows.marks_at(time).floor
        seq = 0 if floor is None else floor.seq
        if seq < self._followed_seq:
            self._followed, self._followed_seq = Completeness(self._stream), 0
        marks, top = list[tuple[int, tuple[str, ...]]](), seq
        while top > self._followed_seq:
            after = max(self._followed_seq, top - PAGE_ENTRIES)
            page = self._between(after, top)
            marks = [(mark.time, mark.excluded) for mark in page] + marks
            if not page or page[0].seq > after + 1 or any(mark.complete for mark in page):
                self._followed = Completeness(self._stream)
                break
            top = after
        for mark in marks:
            self._followed.pass_mark(*mark)
        self._followed_seq = seq
        return self._followed.there

    def _excluded(self, seq: int | None) -> tuple[str, ...]:
        marks = () if seq is None else self._windows.marks(seq - 1, limit=1)
        return marks[0].excluded if marks and marks[0].seq == seq else ()

    def _last_complete(self, seq: int | None) -> int | None:
        """Returns the time of the last complete mark up to `seq`; None if there is none, or retention removed it."""
        if seq is None:
            return None
        if seq < self._complete_seq:
            self._complete_seq, self._complete_time, self._searched = 0, None, 0
        top, known = seq, self._searched
        while top > known:
            after = max(known, top - PAGE_ENTRIES)
            marks = self._between(after, top)
            found = next((mark for mark in reversed(marks) if mark.complete), None)
            if found is not None:
                self._complete_seq, self._complete_time = found.seq, found.time
            if found is not None or not marks or marks[0].seq > after + 1:
                break
            top = after
        self._searched = max(known, seq)
        return self._complete_time

    def _between(self, after: int, last: int) -> list[WireMark]:
        """Returns the marks after a seq, up to the `last`, in as many pages as it takes."""
        marks: list[WireMark] = []
        while after < last:
            page = [mark for mark in self._windows.marks(after, limit=last - after) if mark.seq <= last]
            if not page:
                break
            marks += page
            after = page[-1].seq
        return marks
