"""PDP-26, ingestion watermarks: the controller's clock stamps progress, idle streams advance, bounds are exclusive."""

from __future__ import annotations

from typing import Any

import pytest

from tests.source_documents.stage import Stage, StagedStream

MINUTE = 60_000


def ingestion(stage: Stage, **settings: Any) -> StagedStream:
    return stage.stream(time_domain="ingestion", **settings)


def test_a_watermark_is_exclusive_for_what_comes_within_the_same_millisecond(stage: Stage) -> None:
    stream = ingestion(stage)
    stream.tail({"0": 1})
    stream.tail({"0": 4})  # three more events, stamped with the same clock
    assert stream.bounds({"0": 1}) == (stage.now, None)  # nothing older follows; these three are as old as that

    stage.pass_time(1)
    stream.tail({"0": 4})

    assert stream.bounds({"0": 3}) == (stage.now - 1, stage.now)
    assert stream.bounds({"0": 4}) == (stage.now, None)


def test_one_clock_counts_and_a_delayed_report_keeps_its_time(stage: Stage) -> None:
    #   clock     t ───────────────────── t + 500     the reporter read its clock at t, then the log's end,
    #   report    t, {0: 7}  ……delayed……► arrives     and the report was long on its way
    stream = ingestion(stage)
    before = stage.now
    stage.pass_time(500)
    (mark,) = stream.tail({"0": 7}, time=before)["marks"]
    assert (mark["time"], mark["cut"], mark["created_at"]) == (before, {"0": 7}, stage.now)
    repeated = stream.tail({"0": 7}, time=before)
    assert repeated["marks"] == []


@pytest.mark.parametrize("lag", [0, MINUTE])
def test_the_maximum_lag_is_a_setting(stage: Stage, lag: int) -> None:
    stream = ingestion(stage, idle_lag_ms=lag)
    stream.note("w", stage.now - 5, {"0": 5})
    stream.idle("w")
    stage.pass_time(2 * MINUTE)
    assert stream.bounds({"0": 5}) == (stage.now - lag, None)


def test_a_tail_read_moves_time_without_new_data_and_without_any_writer(stage: Stage) -> None:
    stream = ingestion(stage)
    stream.tail({"0": 5})
    stage.pass_time(1_000)
    stream.tail({"0": 5})
    assert stream.bounds({"0": 5}) == (stage.now, None)


def test_moving_a_segment_to_another_reader_takes_no_readers_watermark_back(stage: Stage) -> None:
    """ "…rebalance segment assignment, leading to major jumps (forward or backwards) in time" """
    stream = ingestion(stage)
    group = stage.group(stream)
    stream.tail({"0": 10, "1": 10})
    first = stage.now
    stage.pass_time(1_000)
    stream.tail({"0": 20, "1": 20})
    group.read("a", stream, {"0": 20})
    group.read("b", stream, {"1": 10})
    assert group.watermark() == first

    group.release("a", stream, {"0": 20})
    told = [group.watermark(), group.look("a")["window"]["watermarks"][""]]
    group.acquire("b", 9)
    told += [group.watermark(), group.look("a")["window"]["watermarks"][""]]

    assert told == [first] * 4
