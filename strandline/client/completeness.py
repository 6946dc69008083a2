"""The completeness of a stream's marks up to any of them, in whatever order a reader asks for them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from strandline.core.incomplete import Completeness, OnIncomplete
from strandline.limits import PAGE_ENTRIES

if TYPE_CHECKING:
    from strandline.wire.streams import WireMark

Step = TypeVar("Step")
Value = TypeVar("Value")
# Any: what comes back for a step is between who reads and who drives the steps.
Steps: TypeAlias = Generator[Step, Any, Value]
ReadMarks: TypeAlias = "Callable[[int, int], Steps[Step, Iterable[WireMark]]]"  # those after a seq, at most so many


class _Passed(NamedTuple):
    """What counts of a mark; its cut may be large."""

    seq: int
    time: int
    excluded: tuple[str, ...]


class CompletenessReader:
    """Reads marks back to the last complete one, since what is before follows from that, or back to those it knows."""

    def __init__(
        self, stream: str, policy: OnIncomplete = OnIncomplete.GO_ON, *, page_marks: int = PAGE_ENTRIES
    ) -> None:
        self._stream, self._policy, self._page_marks = stream, policy, page_marks
        self._here, self._seq = self._new(), 0

    def _new(self) -> Completeness:
        return Completeness(self._stream, self._policy)

    def upto(self, seq: int, read: ReadMarks[Step]) -> Steps[Step, Completeness]:
        """Passes the marks up to this one. Where it is stopped by an error of `read`, it may be asked again."""
        if seq < self._seq:  # the reader went back
            self._here, self._seq = self._new(), 0
        passed: list[_Passed] = []
        top = seq
        while top > self._seq:
            after = max(self._seq, top - self._page_marks)
            marks = yield from _between(after, top, read)
            complete = [number for number, mark in enumerate(marks) if not mark.excluded]
            passed = marks[complete[-1] if complete else 0 :] + passed
            if complete or not marks or marks[0].seq > after + 1:  # or retention has removed the earlier ones
                self._here, self._seq = self._new(), 0
                break
            top = after
        for mark in passed:
            self._here.pass_mark(mark.time, mark.excluded)
        self._seq = seq
        return deepcopy(self._here)


def _between(after: int, last: int, read: ReadMarks[Step]) -> Steps[Step, list[_Passed]]:
    """The marks after a seq, up to the `last`, in as many pages as it takes."""
    marks: list[_Passed] = []
    while after < last:
        page = yield from read(after, last - after)
        found = [_Passed(mark.seq, mark.time, mark.excluded) for mark in page if mark.seq <= last]
        if not found:
            break
        marks += found
        after = found[-1].seq
    return marks
