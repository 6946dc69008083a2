"""Detects queries that would stall silently: those that lose their mark rows before `exact_watermark`, and those whose
events have no event time.

A mark row has the column `mark` and nulls. A step between the source and `exact_watermark` that drops rows with nulls
(a filter on another column, `dropna`, an inner join, a limit) drops it too: events are still counted, but no window
ever closes. A plan does not show for certain which rows a step drops. The progress report of a batch does: the source's
offset has the mark that it yielded, and the observation of `exact_watermark` has the mark that arrived.

An event time that is null in every row, as for a field with a mistyped name, closes no window either, because there is
none: the metrics count events, and as many that are unreadable.

The log also names what would be lost without a word: late rows, rows without an event time, and rows whose time is in
seconds or microseconds while the marks are in milliseconds.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self

from spark_integration.errors import InvalidOffset
from spark_integration.listener import ReportListener, watermark_of
from spark_integration.offsets import SourceOffset, offset_of
from spark_integration.releases import HAS_LIMITS, INSTALLED
from spark_integration.spark_settings import AVAILABLE_NOW
from strandline.core.incomplete import names
from strandline.core.time_units import SECONDS_END, text_of, unit_of
from strandline.paced_log import WARNINGS_PAUSE_MS

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryTerminatedEvent,
        SourceProgress,
        StreamingQueryProgress,
    )

# What exact_watermark observes, in this order.
METRICS: Final = ("events", "unreadable", "mark", "late", "backlog", "incomplete", "example")

REDEFINED: Final = "Redefining watermark is disallowed"  # Spark's words

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Run:
    """What is known of a current run."""

    query: str
    left_out: set[str] = field(default_factory=set)  # writers, by any of its marks
    late: dict[str, _Late] = field(default_factory=dict)  # by observation
    other_unit: dict[str, Example] = field(default_factory=dict)  # the first example of each observation
    newest: int | None = None  # mark
    is_ours: bool = False  # whether a source is
    at_mark: int | None = None  # where the last batch left the watermark, if a window that ends there is kept open
    marks: dict[str, int] = field(default_factory=dict)  # the last mark of each observation
    is_to_close: bool = False  # whether a batch brought a watermark by which windows are still to be closed


@dataclass(frozen=True, slots=True)
class Example:
    """An event that `exact_watermark` shows: its kind, where it is, and its time and floor, as far as there are."""

    kind: str
    place: str
    times: tuple[int, ...]

    @classmethod
    def parse(cls, text: str | None) -> Self | None:
        if text is None:
            return None
        kind, segment, offset, *times = text.split("\t")
        known = f"offset {offset} of segment {segment!r}" if offset != "?" else "one whose offset is not known"
        return cls(kind, known, tuple(map(int, times)))


@dataclass(slots=True)
class _Late:
    """Late events, or rows that Spark dropped, that the log does not have yet, and when it had the last line."""

    rows: int = 0
    text: str = ""
    logged_at: float | None = None


class MarkWatch(ReportListener):
    """Logs a warning, once for each run of a query, if a mark row did not arrive at `exact_watermark`, if no event of a
    batch has an event time, at the first event without one, and at the first with a time in another unit than the marks
    have. For late events, also of attached sources, it logs one at once, and then one a minute, with their number. On
    Spark 4.0 and 4.1, also one if a run ended before its last windows closed.

    `register` adds one to a classic session. With Spark Connect, start one yourself and close it before the session
    stops: `listening = listen(spark, MarkWatch())`, from `spark_integration.listener`.

    In a query with several `strandline` sources it checks only batches in which each of them yielded a mark: only then
    is a missing mark certainly lost.
    """

    def __init__(self, *, has_limits: bool = HAS_LIMITS, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._runs: dict[str, _Run] = {}
        self._closes_all = has_limits
        self._warned: set[tuple[str, str]] = set()  # current runs, and of what in each

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's name
        progress = event.progress
        for observation, mark in lost_marks(progress).items():
            self._warn_once(
                progress,
                f"lost {observation}",
                f"the source yielded mark {mark} in batch {progress.batchId}, but it did not arrive at exact_watermark "
                f"(observation {observation!r}), so the watermark does not move and windows do not close: a filter, "
                "join or limit before the call drops the mark row, whose other columns are null; put it after the call",
            )
        for observation, events in without_event_time(progress).items():
            self._warned.add((str(progress.runId), f"some {observation}"))
            self._warn_once(
                progress,
                f"unreadable {observation}",
                f"none of the {events} events of batch {progress.batchId} has an event time (observation "
                f"{observation!r}), so they are in no window: check the name and the type of that field in the schema "
                "against the events' values, and time_unit where they are numbers",
            )
        run = self._runs.setdefault(str(progress.runId), _Run(progress.name or str(progress.id)))
        self._check_rows(progress, run)
        self._check_late(progress, run)
        run.marks |= {name: mark for name, mark in arrived_marks(progress).items() if mark is not None}
        run.is_to_close = bool(
            run.marks and progress.stateOperators and min(run.marks.values()) - 1 > (watermark_of(progress) or 0)
        )

    def _check_rows(self, progress: StreamingQueryProgress, run: _Run) -> None:
        """Logs the first event without an event time, and the first with one in another unit than the marks have."""
        for observation, found in _observed(progress):
            run.newest = found["mark"] if found["mark"] is not None else run.newest
            example = Example.parse(found["example"])
            if example is not None and example.kind == "unreadable":
                self._warn_once(
                    progress,
                    f"some {observation}",
                    f"{found['unreadable']} of the {found['events']} events of batch {progress.batchId} have no event "
                    f"time, such as {example.place} (observation {observation!r}), so they are in no window. The "
                    "metric `unreadable` counts such events, and unreadable_to keeps them",
                )
            if example is not None and example.kind == "unit":
                run.other_unit.setdefault(observation, example)
        for observation, example in run.other_unit.items():
            unit = unit_of(example.times[0])
            if unit is not None and _is_of_today(run.newest):
                self._warn_once(
                    progress,
                    f"unit {observation}",
                    f"{example.place} has the event time {text_of(example.times[0])}, and the marks are at "
                    f"{text_of(run.newest or 0)}: as milliseconds it looks like {unit.word} (observation "
                    f"{observation!r}). time_unit has to be the unit of the events' numbers",
                )

    def _check_late(self, progress: StreamingQueryProgress, run: _Run) -> None:
        """Logs late events: those that `exact_watermark` counts, and those that Spark dropped in an attached query."""
        ends = [source.endOffset for source in progress.sources]
        marks = [offset.mark for end in ends if (offset := _offset(end) or offset_of(end)) is not None]
        run.is_ours = bool(marks)
        run.at_mark = _kept_open(progress, marks)
        run.left_out.update(*(_left_out(end) for end in ends))
        counted = False
        for observation, found in _observed(progress):
            counted = counted or found["late"] != 0
            if found["late"]:
                example, such = Example.parse(found["example"]), ""
                if example is not None and len(example.times) == 2 and example.times[0] < example.times[1]:
                    time, mark = map(text_of, example.times)
                    such = f", such as {example.place}, whose time {time} is below the mark {mark}"
                lost = "Spark drops those whose window is closed, unless late_to keeps them"
                text = f"events came late{such}: {lost} (observation {observation!r})"
                self._add_late(run, observation, found["late"], text)
        dropped = sum(each.numRowsDroppedByWatermark for each in progress.stateOperators)
        if dropped and not counted and any(offset_of(end) is not None for end in ends):
            at = text_of(watermark_of(progress) or 0)
            text = (
                f"rows came late, and Spark dropped them: their time, or the end of their window, is at or before the "
                f"watermark {at}. Before Spark counts, an aggregation makes the events of a group one row"
            )
            self._add_late(run, "attached", dropped, text)

    def _add_late(self, run: _Run, observation: str, rows: int, text: str) -> None:
        late = run.late.setdefault(observation, _Late())
        late.rows += rows
        late.text = late.text or text
        now = self._now()
        if late.logged_at is None or (now - late.logged_at) * 1000 >= WARNINGS_PAUSE_MS:
            self._log_late(run, late)
            late.logged_at = now

    def _log_late(self, run: _Run, late: _Late) -> None:
        whose = (
            f"Marks have left out {names(sorted(run.left_out))}, whose they may be"
            if run.left_out
            else "No mark of this run has left out a writer, so a writer broke its promise"
        )
        _log.warning("query %s: %d %s. %s", run.query, late.rows, late.text, whose)
        late.rows, late.text = 0, ""

    def _warn_once(self, progress: StreamingQueryProgress, what: str, text: str) -> None:
        run = str(progress.runId), what
        if run not in self._warned:
            self._warned.add(run)
            _log.warning("query %s: %s", progress.name or progress.id, text)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  # Spark's name
        """Logs once that a window which ends at the mark is still open."""
        run = self._runs.get(str(event.runId))
        said = str(event.runId), "only_windows"
        if run is not None and run.at_mark is not None and said not in self._warned:
            self._warned.add(said)
            _log.warning(
                "query %s: all is read up to the mark %s, and a window that ends exactly then closes with the next "
                "mark only. If nothing but tumbling or sliding windows follows, only_windows=True of read_events, "
                "exact_watermark or attach closes it with this one",
                run.query,
                text_of(run.at_mark),
            )

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's name
        ended = str(event.runId)
        run = self._runs.pop(ended, None)
        for late in [] if run is None else run.late.values():
            if run is not None and late.rows:
                self._log_late(run, late)
        if run is not None and run.is_ours and REDEFINED in (event.exception or ""):
            _log.error(
                "query %s: a watermark was set a second time: take out the withWatermark after read_events, "
                "exact_watermark or attach, which have set an exact one. Do not set allowMultiple to false, as Spark "
                "advises: the last windows would never close",
                run.query,
            )
        if run is not None and run.is_to_close and event.exception is None and not self._closes_all:
            _log.warning(
                "query %s: the run ended before its last windows were closed, which come with the next run: so Spark "
                "%s ends an availableNow run, unless %s is true",
                run.query,
                INSTALLED,
                AVAILABLE_NOW,
            )
        self._warned = {run for run in self._warned if run[0] != ended}


def lost_marks(progress: StreamingQueryProgress) -> dict[str, int]:
    """Returns the observations of `exact_watermark` that got no mark, with the greatest mark that was yielded."""
    yielded = [_yielded(source) for source in progress.sources if _offset(source.endOffset) is not None]
    marks = [mark for mark in yielded if mark is not None]
    if not marks or len(marks) < len(yielded):
        return {}
    return {name: max(marks) for name, mark in arrived_marks(progress).items() if mark is None}


def arrived_marks(progress: StreamingQueryProgress) -> dict[str, int | None]:
    """Returns the mark that arrived at each `exact_watermark`, by observation; None if there was none."""
    return {name: found["mark"] for name, found in _observed(progress)}


def without_event_time(progress: StreamingQueryProgress) -> dict[str, int]:
    """Returns the observations of `exact_watermark` in which no event has a time, with the number of events."""
    return {
        name: found["events"]
        for name, found in _observed(progress)
        if found["events"] and found["unreadable"] == found["events"]
    }


def _observed(progress: StreamingQueryProgress) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the observations of `exact_watermark`."""
    for name, metrics in progress.observedMetrics.items():
        found = metrics.asDict()
        if tuple(found) == METRICS:
            yield name, found


def _kept_open(progress: StreamingQueryProgress, marks: list[int | None]) -> int | None:
    """Returns the watermark's mark, if windows may end there (at a whole second), the query has only windows, some of
    them open, and the watermark stays 1 ms below the mark."""
    known = [mark for mark in marks if mark is not None]
    operators = progress.stateOperators
    if not known or len(known) < len(marks) or not operators:
        return None
    only_windows = all(each.operatorName == "stateStoreSave" for each in operators)
    is_open = any(each.numRowsTotal for each in operators)
    below = watermark_of(progress) == min(known) - 1
    return min(known) if only_windows and is_open and below and min(known) % 1_000 == 0 else None


def _is_of_today(mark: int | None) -> bool:
    """Whether a mark is in milliseconds of these decades, so that times in seconds or microseconds are far from it."""
    return mark is not None and mark >= SECONDS_END and unit_of(mark) is None


def _left_out(offset: str) -> tuple[str, ...]:
    """Returns the writers that the mark of an offset of ours leaves out."""
    found = _offset(offset) or offset_of(offset)
    return () if found is None else found.without


def _yielded(source: SourceProgress) -> int | None:
    """Returns the mark that a source yielded in a batch; None if it did not move, or has no mark yet."""
    end = _offset(source.endOffset)
    return None if end is None or end == _offset(source.startOffset) else end.mark


def _offset(text: str) -> SourceOffset | None:
    """Parses an offset from a progress report; returns None for another source's, or without one."""
    try:
        return SourceOffset.from_json(json.loads(text))
    except (ValueError, InvalidOffset):
        return None
