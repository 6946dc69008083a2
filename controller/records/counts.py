"""What is counted for operators: plain numbers where things happen, and nothing else. Who shows them reads them.

Counts begin at 0 with the process, and those of a stream stay when it has to be loaded again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Final

from controller.limits import COUNTED_WRITERS, METRICS_HOLDERS, RATE_MARKS, RATE_MS

OTHER: Final = "_other"  # no name begins like this: what has no label of its own is summed up under it


class HeldTime:
    """How long writers held back one key's time: the worst by name, the rest together.

    A writer that held for longer than the least of those named takes its place, whose time then goes to the rest. So
    the rest only ever grows, and so does every writer's time while it is named.
    """

    __slots__ = ("_counted_until", "_most", "by_writer", "holder", "other_ms", "since", "state", "told")

    def __init__(self, most: int = METRICS_HOLDERS) -> None:
        self.by_writer: dict[str, int] = {}
        self.other_ms = 0
        self.holder: str | None = None  # who holds now; empty where too few have noted
        self.state = ""
        self.since = 0
        self.told = False  # whether the log has it that the present holder holds time back
        self._counted_until = 0
        self._most = most

    def begin(self, holder: str, state: str, now: int) -> None:
        self.holder, self.state, self.since = holder, state, now
        self._counted_until = now
        self.told = False

    def count(self, now: int) -> None:
        """Counts what the present holder has held so far."""
        holder, passed = self.holder, now - self._counted_until
        if holder is None or passed <= 0:
            return
        self._counted_until = now
        if holder in self.by_writer:
            self.by_writer[holder] += passed
        elif len(self.by_writer) < self._most:
            self.by_writer[holder] = passed
        else:
            least = min(self.by_writer, key=lambda name: (self.by_writer[name], name))
            if now - self.since > self.by_writer[least]:
                self.other_ms += self.by_writer.pop(least)
                self.by_writer[holder] = passed
            else:
                self.other_ms += passed

    def counted(self, now: int) -> dict[str, int]:
        """How long each has held by now, the rest under OTHER. It changes nothing."""
        held = copy(self)
        held.by_writer = dict(self.by_writer)
        held.count(now)
        return {**held.by_writer, OTHER: held.other_ms}

    def end(self, now: int) -> None:
        self.count(now)
        self.holder = None


class StreamCounts:
    """Of one stream. Notes are counted when they are judged, marks when they are durable."""

    __slots__ = (
        "_holding",
        "held",
        "incomplete_marks",
        "late_by_writer",
        "late_notes",
        "made_at",
        "name",
        "notes",
        "refusals",
        "refused_by_writer",
    )

    def __init__(self, name: str = "", holding: set[StreamCounts] | None = None) -> None:
        """`holding`: those in which someone holds time back, and some in which someone did."""
        self.name = name
        self._holding = holding if holding is not None else set()
        self.notes = 0
        self.late_notes = 0
        self.refusals: Counter[str] = Counter()  # by code
        self.late_by_writer: Counter[str] = Counter()
        self.refused_by_writer: Counter[str] = Counter()
        self.made_at: dict[str, deque[int]] = {}  # by key, when the newest marks were made
        self.incomplete_marks: Counter[str] = Counter()  # by key
        self.held: dict[str, HeldTime] = {}  # by key

    def late(self, writer: str) -> None:
        self.late_notes += 1
        self._of_writer(self.late_by_writer, writer)

    def refuse(self, code: str, writer: str | None = None) -> None:
        """A call was refused; a note has a `writer`."""
        self.refusals[code] += 1
        if writer is not None:
            self._of_writer(self.refused_by_writer, writer)

    def _of_writer(self, counts: Counter[str], writer: str) -> None:
        counts[writer if writer in counts or len(counts) < COUNTED_WRITERS else OTHER] += 1

    def made(self, key: str, at: Iterable[int]) -> None:
        """Marks were made."""
        made = self.made_at.get(key)
        if made is None:
            made = self.made_at[key] = deque(maxlen=RATE_MARKS)
        made.extend(at)

    def marks_per_second(self, key: str, now: int) -> float:
        """Over the last minute, or over the last RATE_MARKS if these came faster."""
        made = list(self.made_at.get(key, ()))
        recent = len(made) - bisect_right(made, now - RATE_MS)
        all_count = recent == RATE_MARKS
        return recent * 1000 / (max(1, now - made[0]) if all_count else RATE_MS)

    def hold(self, key: str, writer: str | None, state: str, now: int) -> None:
        """Someone begins to hold time back; without a writer, too few have noted."""
        held = self.held.get(key)
        if held is None:
            held = self.held[key] = HeldTime()
        held.begin(writer or "", state, now)
        self._holding.add(self)

    def released(self, key: str, now: int) -> None:
        if key in self.held:
            self.held[key].end(now)

    def loaded(self) -> None:
        """The stream comes from the store: who held time back before that is not known any more."""
        for held in self.held.values():
            held.holder = None


class Distribution:
    """How many values lie at or below each bound, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Counts:
    """Of the process."""

    def __init__(self) -> None:
        self.responses: Counter[int] = Counter()  # by status
        self.problems: Counter[str] = Counter()  # calls that were answered with a problem, by code
