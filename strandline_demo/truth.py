"""What the windows should have been, as the log has it, and how a query's windows compare with that."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event as it stands in the log; both times in epoch milliseconds."""

    time_ms: int
    appended_ms: int


@dataclass(frozen=True, slots=True)
class Emission:
    """A window that a query emitted, and the moment at which its sink had it, in epoch milliseconds."""

    start_ms: int
    count: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRun:
    """What a query did. `watermark_ms` is its last watermark; `rows_dropped` is Spark's own count."""

    emissions: tuple[Emission, ...]
    watermark_ms: int
    rows_dropped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A query's run beside the truth.

    `open_at_end` windows are those that the last watermark did not reach, so that the query had no chance to
    emit them: neither wrong nor right. `missing` events are in the log, and in no window that was due.
    """

    events: int
    missing: int
    rows_dropped: int
    emitted: int
    wrong: int
    open_at_end: int
    median_delay_ms: int | None
    worst_delay_ms: int | None


def count_windows(times_ms: Iterable[int], width_ms: int) -> dict[int, int]:
    """How many events each tumbling window has, by its start; windows without any are left out."""
    return dict(Counter(time // width_ms * width_ms for time in times_ms))


def judge(events: Sequence[LoggedEvent], run: QueryRun, width_ms: int) -> Outcome:
    """Compares every window that was due or emitted with the truth.

    A window that was due and did not come is wrong, and so is one that came twice or from nowhere.
    """
    truth = count_windows((event.time_ms for event in events), width_ms)
    missing = missing_by_window(truth, run, width_ms)
    times_emitted = Counter(emission.start_ms for emission in run.emissions)
    wrong = {start for start, count in missing.items() if count}
    wrong |= {start for start, times in times_emitted.items() if times > 1}
    delays = [emission.at_ms - emission.start_ms - width_ms for emission in run.emissions]
    return Outcome(
        events=len(events),
        missing=sum(count for count in missing.values() if count > 0),
        rows_dropped=run.rows_dropped,
        emitted=len(run.emissions),
        wrong=len(wrong),
        open_at_end=len(truth.keys() - missing.keys()),
        median_delay_ms=round(statistics.median(delays)) if delays else None,
        worst_delay_ms=max(delays, default=None),
    )


def missing_by_window(truth: Mapping[int, int], run: QueryRun, width_ms: int) -> dict[int, int]:
    """For each window that was due or emitted, how many of its events were not counted.

    Below zero: counted too many.
    """
    counted: Counter[int] = Counter()
    for emission in run.emissions:
        counted[emission.start_ms] += emission.count
    due = {start for start in truth if start + width_ms <= run.watermark_ms}
    return {start: truth.get(start, 0) - counted[start] for start in sorted(due | counted.keys())}


def dropped_events(events: Sequence[LoggedEvent], run: QueryRun, width_ms: int) -> list[LoggedEvent]:
    """The very events that are missing: of each window those that were appended last.

    A window drops what comes after it has closed, and a query reads events in the order of their appends.
    """
    truth = count_windows((event.time_ms for event in events), width_ms)
    missing = missing_by_window(truth, run, width_ms)
    found: list[LoggedEvent] = []
    for event in sorted(events, key=lambda event: event.appended_ms, reverse=True):
        start = event.time_ms // width_ms * width_ms
        if missing.get(start, 0) > 0:
            missing[start] -= 1
            found.append(event)
    return found
