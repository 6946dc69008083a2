"""FLIP-328, backlog by watermark lag: what a reader group says of itself, from its threshold and its watermark.

The group's backlog is what `RecordAttribute(backlog=…)` is there.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.source_documents.stage import Stage, StagedGroup, StagedStream

MINUTE = 60_000
DAY = 24 * 60 * MINUTE
THRESHOLD = 5 * MINUTE


def days_of_marks(stage: Stage, days: int) -> StagedStream:
    """A topic whose offset n is from n hours after the first event, `days` ago; its writer is alive."""
    stream = stage.stream(segments=1, writer_timeout_ms=None)
    first = stage.now - days * DAY
    notes = [{"writer": "w", "time": first + n * DAY // 24, "position": {"0": n}} for n in range(days * 24 + 1)]
    stage.controller.call("POST", f"{stream.path}/notes", {"notes": notes})
    return stream


def backlog(group: StagedGroup) -> bool:
    found: bool = group.window()["backlog"]
    return found


#   5 days ago ├────────── high throughput ──────────┤ now     threshold 5 min
#   backlog    true  true  true  …  true  true  true │ false   and it stays so
def test_a_job_days_behind_is_backlog_until_caught_up(stage: Stage) -> None:
    stream = days_of_marks(stage, 5)
    group = stage.group(stream, backlog_threshold_ms=THRESHOLD)

    statuses = [group.read("r", stream, {"0": 8 * n})["window"]["backlog"] for n in range(16)]

    assert statuses == [True] * 15 + [False]
    assert [before for before, after in pairwise(statuses) if before is not after] == [True]  # it changed once


def test_backlog_stays_over_even_if_the_lag_grows_again(stage: Stage) -> None:
    stream = days_of_marks(stage, 1)
    group = stage.group(stream, backlog_threshold_ms=THRESHOLD)
    group.read("r", stream, {"0": 24})
    assert not backlog(group)

    stage.pass_time(3 * THRESHOLD)

    assert group.window()["lag_ms"] == 3 * THRESHOLD and not backlog(group)


def test_lag_equal_to_the_threshold_is_no_backlog(stage: Stage) -> None:
    stream = stage.stream(segments=1)
    stream.note("w", stage.now - THRESHOLD - 1, {"0": 1})
    stream.note("w", stage.now - THRESHOLD, {"0": 2})
    group = stage.group(stream, backlog_threshold_ms=THRESHOLD)
    group.read("r", stream, {"0": 1})
    assert (group.window()["lag_ms"], backlog(group)) == (THRESHOLD + 1, True)
    group.read("r", stream, {"0": 2})
    assert (group.window()["lag_ms"], backlog(group)) == (THRESHOLD, False)


def test_the_default_is_null_and_then_nothing_is_backlog(stage: Stage) -> None:
    stream = days_of_marks(stage, 5)
    group = stage.group(stream)
    group.read("r", stream, {"0": 1})
    assert stage.controller.call("GET", group.path)["backlog_threshold_ms"] is None
    assert not backlog(group)


@pytest.mark.parametrize("threshold", [0, -1, 1.5, "5 min", True])
def test_a_threshold_that_is_not_null_must_be_greater_than_0(stage: Stage, threshold: object) -> None:
    stream = stage.stream()
    body = {"streams": [stream.name], "backlog_threshold_ms": threshold}
    problem = stage.controller.call("PUT", f"/v1/reader-groups/no-{stream.name}", body, expect=422)
    assert problem["code"] == "invalid_config" and "backlog_threshold_ms" in problem["detail"]


def test_a_source_without_a_watermark_is_in_backlog(stage: Stage) -> None:
    stream = stage.stream()
    group = stage.group(stream, backlog_threshold_ms=THRESHOLD)
    assert group.watermark() is None and backlog(group)


#   status    active          idle             active (a watermark of 2 h ago)      caught up
#   backlog   true            false            true                                 false
def test_an_idle_source_is_no_backlog_until_it_wakes_behind(stage: Stage) -> None:
    stream = stage.stream(segments=1, writer_timeout_ms=None)
    group = stage.group(stream, backlog_threshold_ms=THRESHOLD)
    stream.note("w", stage.now - DAY, {"0": 1})
    group.read("r", stream, {"0": 1})
    assert backlog(group)

    stream.idle("w")
    assert group.window()["idle"] == [stream.name] and not backlog(group)

    stream.note("w", stage.now - DAY // 12, {"0": 2})
    group.read("r", stream, {"0": 2})
    assert backlog(group)

    stream.note("w", stage.now, {"0": 3})
    group.read("r", stream, {"0": 3})
    assert not backlog(group)


def test_several_strategies_combine_by_or(stage: Stage) -> None:
    """Two groups on one stream, each with a threshold of its own, stand for two strategies."""
    stream = stage.stream(segments=1)
    stream.note("w", stage.now - THRESHOLD, {"0": 1})
    strict = stage.group(stream, name="strict", backlog_threshold_ms=THRESHOLD // 5)
    lenient = stage.group(stream, name="lenient", backlog_threshold_ms=THRESHOLD)
    for group in (strict, lenient):
        group.read("r", stream, {"0": 1})
    assert [backlog(strict), backlog(lenient)] == [True, False]
    assert any([backlog(strict), backlog(lenient)])
