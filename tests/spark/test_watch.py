"""When a mark counts as lost: only in a batch to which every source of ours gave one."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent, StreamingQueryProgress

from spark_integration.mark_watch import METRICS, MarkWatch, lost_marks, without_event_time

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
    metrics: dict[str, Any] = {name: {**dict.fromkeys(METRICS, 0), "mark": mark} for name, mark in marks.items()}
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
    metrics = {**dict.fromkeys(METRICS, 0), "events": events, "unreadable": unreadable}
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
