"""What is counted for operators: plain numbers where things happen, and nothing else. Who shows them reads them.

Counts begin at 0 with the process, and those of a stream stay when it has to be loaded again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Final

from controller.limits import METRICS_HOLDERS

OTHER: Final = "_other"  # no name begins like this: what has no label of its own is summed up under it


class Held:
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

    def end(self, now: int) -> None:
        self.count(now)
        self.holder = None


class StreamCounts:
    """Of one stream. Notes are counted when they are judged, marks when they are durable."""

    __slots__ = ("_holding", "held", "incomplete_marks", "late_notes", "name", "notes", "refusals")

    def __init__(self, name: str = "", holding: set[StreamCounts] | None = None) -> None:
        """`holding`: those in which someone holds time back, and some in which someone did."""
        self.name = name
        self._holding = holding if holding is not None else set()
        self.notes = 0
        self.late_notes = 0
        self.refusals: Counter[str] = Counter()  # by code
        self.incomplete_marks: Counter[str] = Counter()  # by key
        self.held: dict[str, Held] = {}  # by key

    def hold(self, key: str, writer: str | None, state: str, now: int) -> None:
        """Someone begins to hold time back; without a writer, too few have noted."""
        held = self.held.get(key)
        if held is None:
            held = self.held[key] = Held()
        held.begin(writer or "", state, now)
        self._holding.add(self)

    def let_go(self, key: str, now: int) -> None:
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
