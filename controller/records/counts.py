"""Counts for operators: plain numbers, which the metrics and the dashboard read.

Counts of the process start at 0 with it. Those of a stream go on from what the store has. The metrics show what this
controller counted itself: a counter that goes back by a little would look like one that began again at 0.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Final

from controller.records.cadence import NO_CADENCE, Cadence
from controller.storage.stream_status import NOTHING_COUNTED, StoredCounts, Totals
from strandline.core.mark import Mark

COUNTED_WRITERS: Final = 10_000  # of a stream, with own counts of late notes and refusals; others are summed up
METRICS_HOLDERS: Final = 10  # writers of each stream and key, named with the time they held; the others are summed up

RATE_MS: Final = 60_000  # marks a second are counted over so long
RATE_MARKS: Final = 200  # or over so many
STORED_COUNTS_WRITERS: Final = 100  # writers of a stream whose counts the store keeps: those with the greatest

OTHER: Final = "_other"  # sums up everything without a label of its own; no name may begin like this


_NEVER_MADE: Final[deque[int]] = deque()


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


class StreamCounts:
    """The counts of one stream. Notes are counted when they are checked, marks when they are durable.

    Counts by writer are since the stream was made, as far as they were stored. Plain ones are since this controller
    serves it; `totals` adds what was counted before.
    """

    __slots__ = (
        "_earlier",
        "_holding",
        "_late_unwritten",
        "_refused_unwritten",
        "_written",
        "cadences",
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
        """`holding` collects the counts of streams in which a writer holds time back, or did."""
        self.name = name
        self._holding = holding if holding is not None else set()
        self._earlier = NOTHING_COUNTED.totals
        self._written = NOTHING_COUNTED.totals
        self._late_unwritten: Counter[str] = Counter()
        self._refused_unwritten: Counter[str] = Counter()
        self.notes = 0
        self.late_notes = 0
        self.refusals: Counter[str] = Counter()  # by code
        self.late_by_writer: Counter[str] = Counter()
        self.refused_by_writer: Counter[str] = Counter()
        self.made_at: dict[str, deque[int]] = {}  # by key, when the newest marks were made
        self.cadences: dict[str, Cadence] = {}  # by key
        self.incomplete_marks: Counter[str] = Counter()  # by key
        self.held: dict[str, HeldTime] = {}  # by key

    def resume(self, stored: StoredCounts) -> None:
        """Goes on from what the store has. What is counted here and not stored yet comes to that."""
        written, found = self._written, stored.totals
        self._earlier = Totals(
            notes=found.notes - written.notes,
            late_notes=found.late_notes - written.late_notes,
            refusals=Counter(found.refusals) - Counter(written.refusals),
            incomplete_marks=Counter(found.incomplete_marks) - Counter(written.incomplete_marks),
        )
        self.late_by_writer = Counter(stored.late_by_writer) + self._late_unwritten
        self.refused_by_writer = Counter(stored.refused_by_writer) + self._refused_unwritten

    def own(self) -> Totals:
        """What was counted here."""
        return Totals(self.notes, self.late_notes, Counter(self.refusals), Counter(self.incomplete_marks))

    def wrote(self, own: Totals, stored: StoredCounts) -> None:
        """What was counted here up to `own` is in the store."""
        self._written = own
        self._late_unwritten.clear()
        self._refused_unwritten.clear()
        self.resume(stored)

    @property
    def totals(self) -> Totals:
        """What was counted since the stream was made."""
        earlier = self._earlier
        return Totals(
            notes=earlier.notes + self.notes,
            late_notes=earlier.late_notes + self.late_notes,
            refusals=_sums(earlier.refusals, self.refusals),
            incomplete_marks=_sums(earlier.incomplete_marks, self.incomplete_marks),
        )

    def stored(self) -> StoredCounts:
        """What the store is to have."""
        return StoredCounts(self.totals, _greatest(self.late_by_writer), _greatest(self.refused_by_writer))

    def late(self, writer: str) -> None:
        self.late_notes += 1
        for counts in (self.late_by_writer, self._late_unwritten):
            _count_writer(counts, writer)

    def refuse(self, code: str, writer: str | None = None) -> None:
        """Counts a refused call. Refused notes have a `writer`."""
        self.refusals[code] += 1
        if writer is not None:
            for counts in (self.refused_by_writer, self._refused_unwritten):
                _count_writer(counts, writer)

    def made(self, key: str, marks: Iterable[Mark]) -> None:
        """Counts marks, oldest first."""
        made = self.made_at.get(key)
        if made is None:
            made = self.made_at[key] = deque(maxlen=RATE_MARKS)
            self.cadences[key] = Cadence()
        cadence = self.cadences[key]
        for mark in marks:
            made.append(mark.created_at)
            cadence.mark(mark.created_at, mark.excluded)

    def marks_per_second(self, key: str, now: int) -> float:
        """The rate over the last minute, or over the last RATE_MARKS marks if these came faster."""
        made = self.made_at.get(key, _NEVER_MADE)
        recent = len(made) - bisect_right(made, now - RATE_MS)
        all_count = recent == RATE_MARKS
        return recent * 1000 / (max(1, now - made[0]) if all_count else RATE_MS)

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

    def too_long_ms(self, key: str, timeout_ms: int | None) -> int:
        """For how long the time of a key may stand still."""
        return self.cadences.get(key, NO_CADENCE).too_long_ms(timeout_ms)

    def loaded(self) -> None:
        """Resets the holders after the stream was loaded from the store."""
        for held in self.held.values():
            held.holder = None


def _count_writer(counts: Counter[str], writer: str) -> None:
    counts[writer if writer in counts or len(counts) < COUNTED_WRITERS else OTHER] += 1


def _sums(earlier: Mapping[str, int], here: Counter[str]) -> Mapping[str, int]:
    return dict(here + Counter(earlier)) if earlier else dict(here)


def _greatest(by_writer: Counter[str]) -> Mapping[str, int]:
    """The writers with the greatest counts; the others are summed up."""
    if len(by_writer) <= STORED_COUNTS_WRITERS:
        return dict(by_writer)
    named = dict(by_writer.most_common(STORED_COUNTS_WRITERS))
    named[OTHER] = named.get(OTHER, 0) + by_writer.total() - sum(named.values())
    return named


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
    """The counts of the process."""

    def __init__(self) -> None:
        self.responses: Counter[int] = Counter()  # by status
        self.problems: Counter[str] = Counter()  # calls that were answered with a problem, by code
