"""Counts for operators: plain numbers, which the metrics and the dashboard read.

They start at 0 with the process, as Prometheus expects it. What was counted of a stream since it was made is in its
standing, to which each commit adds.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from typing import Final

from controller.streams.standing import NOTHING_COUNTED, Totals

METRICS_HOLDERS: Final = 10  # writers of each stream and key, named with the time they held; the others are summed up

OTHER: Final = "_other"  # sums up everything without a label of its own; no name may begin like this


class HeldTime:
    """How long writers held back one key's time: the worst by name, the others together.

    A writer that held time longer than the least named one replaces it, and the replaced writer's time is added to the
    others. So the others' time only grows, and so does each writer's while it is named.
    """

    __slots__ = ("_counted_until", "_most", "by_writer", "holder", "logged", "other_ms", "since", "state")

    def __init__(self, most: int = METRICS_HOLDERS) -> None:
        self.by_writer: dict[str, int] = {}
        self.other_ms = 0
        self.holder: str | None = None  # the present holder; empty if too few writers have noted
        self.state = ""
        self.since = 0
        self.logged = False  # whether the present holder was logged
        self._counted_until = 0
        self._most = most

    def begin(self, holder: str, state: str, now: int, since: int | None = None) -> None:
        """`since` is given where the holder is known from before this process."""
        self.holder, self.state, self.since = holder, state, now if since is None else since
        self._counted_until = now
        self.logged = False

    def count(self, now: int) -> None:
        """Adds the time that the present holder has held since the last call."""
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


class Tally:
    """What calls add to the counts of a stream, until the commit that stores it. If that fails, it is dropped with all
    else that was changed: the calls have failed, and come again."""

    __slots__ = ("late_notes", "notes", "refusals")

    def __init__(self) -> None:
        self.notes = 0
        self.late_notes = 0
        self.refusals: Counter[str] = Counter()  # by code

    @property
    def totals(self) -> Totals:
        return Totals(self.notes, self.late_notes, dict(self.refusals))


class StreamCounts:
    """The counts of one stream at this controller: of what is durable."""

    __slots__ = ("_holding", "held", "incomplete_marks", "name", "totals")

    def __init__(self, name: str = "", holding: set[StreamCounts] | None = None) -> None:
        """`holding` collects the counts of streams in which a writer holds time back, or did."""
        self.name = name
        self._holding = holding if holding is not None else set()
        self.totals = NOTHING_COUNTED
        self.incomplete_marks: Counter[str] = Counter()  # by key
        self.held: dict[str, HeldTime] = {}  # by key

    def hold(self, key: str, writer: str | None, state: str, now: int, since: int | None = None) -> None:
        """Records that a writer begins to hold time back, or has done so since an earlier moment; None means that too
        few writers have noted."""
        held = self.held.get(key)
        if held is None:
            held = self.held[key] = HeldTime()
        held.begin(writer or "", state, now, since)
        self._holding.add(self)

    def released(self, key: str, now: int) -> None:
        if key in self.held:
            self.held[key].end(now)

    def loaded(self) -> None:
        """Resets the holders after the stream was loaded from the store."""
        for held in self.held.values():
            held.holder = None
