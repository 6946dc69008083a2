"""When a mark counts as lost: only in a batch to which every source of ours gave one."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)

from spark_integration.mark_watch import METRICS, MarkWatch, lost_marks, without_event_time
from spark_integration.offsets import MarkOffset

NOTHING: dict[str, Any] = {name: None if name == "example" else 0 for name in METRICS}
IDS = "6a1b4a53-5d0a-4a2e-9f4f-0c6b6f3c8a11"


def ours(start: tuple[int, int | None] | None, end: tuple[int, int | None]) -> dict[str, Any]:
    """A `strandline` source that went from (position, mark) to (position, mark)."""
    offsets = [
        None if at is None else json.dumps({"v": 1, "positions": {"0": at[0]}, "mark": at[1]}) for at in (start, end)
    ]
    return {"description": "ours", "startOffset": offsets[0], "endOffset": offsets[1], "latestOffset": None} | RATES


OPERATOR = {
    "operatorName": "stateStoreSave", "numRowsTotal": 1, "numRowsUpdated": 1, "numRowsRemoved": 0,
    "allUpdatesTimeMs": 0, "allRemovalsTimeMs": 0, "commitTimeMs": 0, "memoryUsedBytes": 0,
    "numRowsDroppedByWatermark": 0, "numShufflePartitions": 1, "numStateStoreInstances": 1, "customMetrics": {},
}  # fmt: skip
RATES = {"numInputRows": 1, "inputRowsPerSecond": 1.0, "processedRowsPerSecond": 1.0}
OTHER = {"description": "files", "startOffset": None, "endOffset": '{"logOffset":0}', "latestOffset": None} | RATES
FIRST = ours(None, (40, 15_000))
WITHOUT = ours(None, (40, None))
AT_REST = ours((40, 15_000), (40, 15_000))
NEXT = ours((40, 15_000), (50, 24_000))


def progress(sources: list[dict[str, Any]], **marks: int | None) -> StreamingQueryProgress:
    metrics: dict[str, Any] = {name: {**NOTHING, "mark": mark} for name, mark in marks.items()}
    return StreamingQueryProgress.fromJson(
        {
            "id": IDS, "runId": IDS, "name": None, "timestamp": "2023-11-14T22:13:20.000Z", "batchId": 7,
            "batchDuration": 1, "durationMs": {}, "eventTime": {}, "stateOperators": [], "sources": sources,
            "sink": {"description": "sink", "numOutputRows": 0, "metrics": {}},
            "observedMetrics": metrics | {"mine": {"rows": 1}},
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sources", "marks", "lost"),
    [
        ([FIRST], {"a": 15_000}, {}),
        ([FIRST], {"a": None}, {"a": 15_000}),
        ([WITHOUT], {"a": None}, {}),
        ([AT_REST], {"a": None}, {}),
        ([NEXT], {"a": None}, {"a": 24_000}),
        ([NEXT, OTHER], {"a": None}, {"a": 24_000}),
        ([OTHER], {"a": None}, {}),
        ([NEXT, FIRST], {"a": 24_000, "b": None}, {"b": 24_000}),
        ([NEXT, AT_REST], {"a": 24_000, "b": None}, {}),
        ([NEXT, WITHOUT], {"a": None, "b": None}, {}),
        ([NEXT], {}, {}),
    ],
)
def test_a_yielded_mark_that_no_observation_has_is_lost(
    sources: list[dict[str, Any]], marks: dict[str, int | None], lost: dict[str, int]
) -> None:
    assert lost_marks(progress(sources, **marks)) == lost


@pytest.mark.parametrize(
    ("events", "unreadable", "told"),
    [(5, 5, {"a": 5}), (5, 4, {}), (0, 0, {}), (None, None, {})],
    ids=["none has a time", "one has a time", "no event", "unknown"],
)
def test_a_batch_in_which_no_event_has_a_time_is_told(
    events: int | None, unreadable: int | None, told: dict[str, int]
) -> None:
    metrics = {**NOTHING, "events": events, "unreadable": unreadable}
    seen = {**json.loads(progress([FIRST]).json), "observedMetrics": {"a": metrics, "mine": {"rows": 1}}}
    assert without_event_time(StreamingQueryProgress.fromJson(seen)) == told


#   mark of the batch   10 s    -       20 s    -
#   its watermark       -       10 s    10 s    20 s        the run may end after each of them
@pytest.mark.parametrize(("batches", "warned"), [(1, True), (2, False), (3, True), (4, False)])
@pytest.mark.parametrize("has_limits", [True, False])
def test_a_run_that_ends_with_windows_to_close_says_so_where_spark_leaves_them(
    batches: int, warned: bool, has_limits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    watch = MarkWatch(has_limits=has_limits)
    for mark, watermark in [(10_000, 0), (None, 9_999), (20_000, 9_999), (None, 19_999)][:batches]:
        seen = json.loads(progress([NEXT if mark else AT_REST], a=mark).json) | {"stateOperators": [OPERATOR]}
        seen["eventTime"] = {"watermark": f"1970-01-01T00:00:{watermark / 1000:06.3f}Z"}
        watch.onQueryProgress(QueryProgressEvent(StreamingQueryProgress.fromJson(seen)))
    watch.onQueryTerminated(QueryTerminatedEvent(UUID(IDS), UUID(IDS), None, None))
    found = [each.getMessage() for each in caplog.records]
    assert len(found) == (warned and not has_limits)
    assert all("the run ended before its last windows were closed" in each for each in found)


TODAY = 1_772_366_400_000


class Watched:
    """A run of a query that is watched, on a clock that the test moves."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.now = 100.0
        self._watch, self._caplog = MarkWatch(has_limits=True, now=lambda: self.now), caplog

    def batch(self, without: tuple[str, ...] = (), dropped: int = 0, **metrics: Any) -> list[str]:
        """The new lines of the log."""
        end = {"v": 1, "positions": {"0": 50}, "mark": metrics.get("mark", TODAY), "without": list(without)}
        source = NEXT | {"endOffset": json.dumps(end)}
        seen = json.loads(progress([source]).json)
        seen["observedMetrics"] = {"a": {**NOTHING, "mark": TODAY, **metrics}} if metrics else {}
        seen["stateOperators"] = [OPERATOR | {"numRowsDroppedByWatermark": dropped}]
        self._watch.onQueryProgress(QueryProgressEvent(StreamingQueryProgress.fromJson(seen)))
        return self._lines()

    def attached(self, dropped: int, **metrics: Any) -> list[str]:
        """The new lines of the log about an attached source, beside one with these metrics."""
        end = MarkOffset(group="g", stream="s", source="orders", without=("b",)).to_json()
        seen = json.loads(progress([OTHER, OTHER | {"endOffset": json.dumps(end)}]).json) | {
            "stateOperators": [OPERATOR | {"numRowsDroppedByWatermark": dropped}],
            "eventTime": {"watermark": "2026-03-01T12:00:00.000Z"},
            "observedMetrics": {"a": {**NOTHING, **metrics}} if metrics else {},
        }
        self._watch.onQueryProgress(QueryProgressEvent(StreamingQueryProgress.fromJson(seen)))
        return self._lines()

    def end(self) -> list[str]:
        self._watch.onQueryTerminated(QueryTerminatedEvent(UUID(IDS), UUID(IDS), None, None))
        return self._lines()

    def _lines(self) -> list[str]:
        lines = [each.getMessage() for each in self._caplog.records]
        self._caplog.clear()
        return lines


@pytest.fixture
def watched(caplog: pytest.LogCaptureFixture) -> Watched:
    return Watched(caplog)


def test_late_events_have_a_line_at_once_then_one_a_minute_and_one_at_the_end(watched: Watched) -> None:
    late: dict[str, Any] = {"late": 3, "example": f"late\tseg-1\t17\t{TODAY - 9_000}\t{TODAY - 1_000}"}
    (line,) = watched.batch(**late)
    assert line == (
        f"query {IDS}: 3 events came late, such as offset 17 of segment 'seg-1', whose time 2026-03-01T11:59:51.000Z "
        "is below the mark 2026-03-01T11:59:59.000Z: Spark drops those whose window is closed, unless late_to keeps "
        "them (observation 'a'). No mark of this run has left out a writer, so a writer broke its promise"
    )
    watched.now += 59
    assert watched.batch(**late) == watched.batch(without=("b", "c"), late=4) == []
    watched.now += 1
    (line,) = watched.batch(**late)
    assert ": 10 events came late" in line and line.endswith("Marks have left out b, c, whose they may be")
    assert watched.batch(**late) == []
    (line,) = watched.end()
    assert ": 3 events came late" in line
    assert watched.end() == []


def test_what_spark_drops_of_an_attached_source_has_a_line_too(watched: Watched) -> None:
    assert watched.attached(0) == []
    (line,) = watched.attached(5)
    assert line == (
        f"query {IDS}: 5 rows came late, and Spark dropped them: their time, or the end of their window, is at or "
        "before the watermark 2026-03-01T12:00:00.000Z. Before Spark counts, an aggregation makes the events of a "
        "group one row. Marks have left out b, whose they may be"
    )
    assert watched.attached(2) == []


def test_what_spark_drops_of_an_attached_source_beside_another_one_has_a_line_too(watched: Watched) -> None:
    (line,) = watched.attached(5, late=5)  # those of the other one, which has counted them
    assert ": 5 events came late" in line
    (line,) = watched.attached(2, late=0)
    assert ": 2 rows came late, and Spark dropped them" in line


def test_the_first_event_without_a_time_is_named_once(watched: Watched) -> None:
    (line,) = watched.batch(events=60, unreadable=3, example="unreadable\t0\t41")
    assert "3 of the 60 events of batch 7 have no event time, such as offset 41 of segment '0'" in line
    assert watched.batch(events=60, unreadable=3, example="unreadable\t0\t51") == []
    (line,) = watched.batch(events=3, unreadable=3, example="unreadable\t0\t61")
    assert "none of the 3 events" in line


@pytest.mark.parametrize(
    ("time", "unit"), [(TODAY // 1_000, "seconds"), (TODAY * 1_000, "microseconds"), (TODAY - 10**9, None)]
)
def test_the_first_time_in_another_unit_than_the_marks_is_named_once(
    watched: Watched, time: int, unit: str | None
) -> None:
    example: dict[str, Any] = {"example": f"unit\t?\t?\t{time}"} if unit else {}
    assert watched.batch(mark=None, **example) == []  # nothing to compare it with
    lines = watched.batch(late=0)
    assert len(lines) == (unit is not None)
    assert all(f"as milliseconds it looks like {unit} (" in each for each in lines)
    assert watched.batch(**example) == []


def test_marks_that_are_no_times_of_today_say_nothing_about_units(watched: Watched) -> None:
    assert watched.batch(mark=5_000, example=f"unit\t0\t1\t{TODAY // 1_000}\t{TODAY}") == []


@pytest.mark.parametrize(
    ("mark", "below", "operator", "said"),
    [
        (15_000, 1, {}, True),
        (15_000, 0, {}, False),  # only_windows
        (15_000, 5_001, {}, False),  # the batch that closes windows is still to come
        (15_001, 1, {}, False),
        (15_000, 1, {"operatorName": "symmetricHashJoin"}, False),
        (15_000, 1, {"numRowsTotal": 0}, False),
    ],
    ids=["open", "only_windows", "not closed yet", "no round time", "a join", "no window"],
)
@pytest.mark.parametrize("attached", [True, False])
def test_an_idle_query_with_a_window_that_ends_at_the_mark_names_the_option_once(
    mark: int, below: int, operator: dict[str, Any], said: bool, attached: bool, caplog: pytest.LogCaptureFixture
) -> None:
    watch, idle = MarkWatch(), QueryIdleEvent(UUID(IDS), UUID(IDS), "")
    source = ours((40, 15_000), (50, mark))
    if attached:
        offset = MarkOffset(group="g", stream="s", source="orders", mark=mark)
        source = OTHER | {"endOffset": json.dumps(offset.to_json())}
    seen = json.loads(progress([source]).json) | {"stateOperators": [OPERATOR | operator]}
    seen["eventTime"] = {"watermark": f"1970-01-01T00:00:{(mark - below) / 1000:06.3f}Z"}
    watch.onQueryIdle(idle)
    watch.onQueryProgress(QueryProgressEvent(StreamingQueryProgress.fromJson(seen)))
    watch.onQueryIdle(idle)
    watch.onQueryIdle(idle)
    lines = [each.getMessage() for each in caplog.records]
    assert ["only_windows=True of read_events" in each for each in lines] == [True] * said
