"""The watermark at a position under a policy for marks that leave writers out, and the log lines about them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from strandline.client.completeness import CompletenessReader
from strandline.client.loop import drive, local
from strandline.core.incomplete import UNNAMED, Completeness, OnIncomplete
from strandline.core.window import TimeWindow
from strandline.errors import WritersLeftOut

if TYPE_CHECKING:
    from spark_integration.window_calls import ControllerWindows

_log = logging.getLogger(__name__)


class WindowJudge:
    """Judges the windows of one stream and key. The bound that it gives depends on the window alone, so a batch that is
    planned again has the same one."""

    def __init__(self, windows: ControllerWindows, stream: str, policy: OnIncomplete) -> None:
        self._windows, self._stream, self._policy = windows, stream, policy
        self._logged = Completeness(stream, policy)
        self._at_bound, self._at_time = CompletenessReader(stream, policy), CompletenessReader(stream)

    def bound(self, window: TimeWindow) -> tuple[int | None, tuple[str, ...]]:
        """Returns the watermark at a window's position, and the writers that its mark leaves out. Logs a line when
        that begins or ceases. Raises WritersLeftOut under the policy `fail`."""
        if window.lower is None:
            return None, ()
        excluded = () if window.complete else self._excluded(window.mark_seq)
        for line in self._logged.lines(self._logged.pass_mark(window.lower, excluded, complete=window.complete)):
            _log.warning("%s", line)
        here = Completeness(self._stream, self._policy)
        if not window.complete and window.mark_seq is not None and self._policy is not OnIncomplete.GO_ON:
            here = self._upto(self._at_bound, window.mark_seq)
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
        return self._upto(self._at_time, 0 if floor is None else floor.seq).there

    def _upto(self, passed: CompletenessReader, seq: int) -> Completeness:
        steps = passed.upto(seq, lambda after, limit: local(lambda: self._windows.marks(after, limit=limit)))
        return drive(steps, lambda step: step.work())

    def _excluded(self, seq: int | None) -> tuple[str, ...]:
        marks = () if seq is None else self._windows.marks(seq - 1, limit=1)
        return marks[0].excluded if marks and marks[0].seq == seq else ()
