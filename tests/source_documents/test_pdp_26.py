"""PDP-26, ingestion watermarks: the controller's clock stamps progress, idle streams advance, bounds are exclusive."""

from __future__ import annotations

from typing import Any

import pytest

from reader_client.ordering_buffer import EventTimeOrdering, Timed
from strandline.core.event_time_lag import EventTimeLag
from tests.source_documents.stage import Stage, StagedStream

MINUTE = 60_000
MAX_WATERMARK_LAG = 10_000  # "Suggested default value: 10 seconds."


def ingestion(stage: Stage, **settings: Any) -> StagedStream:
    return stage.stream(time_domain="ingestion", **settings)


#              │ W = 11:55   │ W = 12:00              │ W = 12:02
#   segment 1  ▼ A     B     ▼     C            D     ▼
#   segment 2    A     B  C              ▲ W = 12:01
#                         ┃ the reader is here: 1 at O=2, 2 at O=3
#   reader     W(11:55) 1A 2A 1B 2B 2C W(12:00) ┃ 1C 1D W(12:01) …
def test_the_diagram_of_two_segments_and_a_reader_between_their_watermarks(stage: Stage) -> None:
    stream = ingestion(stage)
    group = stage.group(stream)
    start = stage.now
    ends = {0: {}, 5: {"0": 2, "1": 2}, 6: {"0": 2, "1": 3}, 7: {"0": 4, "1": 3}}
    at = {}
    for minute, position in ends.items():
        stage.pass_time(start + minute * MINUTE - stage.now)
        at[minute] = stage.now
        stream.tail(position)

    reached = []
    for position in ({}, {"0": 1}, {"1": 1}, {"0": 2}, {"1": 2}, {"1": 3}, {"0": 3}, {"0": 4}):
        group.read("r", stream, position)
        reached.append(group.of(stream)["lower"])

    five, six, seven = at[5], at[6], at[7]
    #                   W(…)     1A     2A     1B    2B    2C   1C   1D
    assert reached == [at[0], at[0], at[0], at[0], five, six, six, seven]
    assert stream.bounds({"0": 2, "1": 2}) == (five, six)  # no event of either segment is older than this
    assert group.window()["watermarks"] == {"": seven}


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


#   writes     │││ │  │       idle ┊                              ┊ woken
#   watermark  ▲▲▲ ▲  ▲  ─ ─ ─ ─ ─ ┊ · · · · clock − 10 s · · · ► ┊ ▲ ▲
def test_an_idle_stream_follows_the_clock_until_a_write(stage: Stage) -> None:
    stream = ingestion(stage)
    group = stage.group(stream)
    stream.note("w", stage.now, {"0": 5})
    group.read("r", stream, {"0": 5})
    stream.idle("w")

    stage.pass_time(60_000)
    rest = stage.now - MAX_WATERMARK_LAG

    assert stream.bounds({"0": 5}) == (rest, None)
    assert group.watermark() == rest and group.window()["idle"] == [stream.name]
    assert len(stream.marks()) == 1  # not a row was written for it
    stream.note("w", stage.now, {"0": 6})
    told, noted = stream.times()[1:]
    assert rest <= told <= rest + 3_000  # first what readers were told, by controllers that have not heard of it too
    assert noted == stage.now
    assert stream.bounds({"0": 5}) == (told, stage.now)


def test_a_waiting_read_ends_although_only_time_has_moved(stage: Stage) -> None:
    """ "SegmentRead may be returned with a zero length to communicate a watermark without associated data." """
    stream = ingestion(stage)
    stream.note("w", stage.now, {"0": 5})
    stream.idle("w")
    stage.pass_time(30_000)

    answer = stage.controller.call("GET", f"{stream.path}/marks?after=1&wait_ms=20")

    assert (answer["marks"], answer["resting"]) == ([], stage.now - MAX_WATERMARK_LAG)


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


def test_a_sealed_stream_ends_at_its_watermark_not_the_clock(stage: Stage) -> None:
    """The prototype "synthesizes … a watermark value of Long.MAX_VALUE. Improve the behavior"."""
    stream = ingestion(stage)
    stream.note("w", stage.now, {"0": 5})
    last = stage.now
    stream.seal()
    stage.pass_time(MINUTE)
    window = stream.window({"0": 5})
    assert (window["lower"], window["upper"], window["end_of_stream"]) == (last, None, True)


def test_a_new_segment_begins_with_its_creation_time(stage: Stage) -> None:
    stream = ingestion(stage, segments=1)
    stream.tail({"0": 5})
    stage.pass_time(1_000)
    stream.scale({"0": 5}, s1=(0.0, 1.0))
    assert stream.index("1") == ([(0, stage.now)], 1)


def test_a_transaction_is_one_append_at_its_merge(stage: Stage) -> None:
    #   open ─── 40 s ───► merge: its events 5…9 come to be all at once, and with the time of the merge
    stream = ingestion(stage, segments=1)
    stream.tail({"0": 5})
    opened = stage.now
    stage.pass_time(40_000)
    stream.tail({"0": 5})  # right before
    stage.pass_time(1)
    stream.tail({"0": 9})  # right after
    entries, _ = stream.index("0")
    assert entries == [(5, opened + 40_000), (9, stage.now)]


def test_the_segment_with_the_oldest_data_is_given_out_first(stage: Stage) -> None:
    """ "Sort the unassigned readers by watermark (ascending) to prioritize the oldest stream data." """
    stream = ingestion(stage)
    group = stage.group(stream)
    stream.tail({"0": 10, "1": 900})
    stage.pass_time(1_000)
    stream.tail({"0": 20, "1": 950})
    group.read("r", stream, {"0": 20, "1": 940})
    group.release("r", stream, {"0": 20, "1": 940})
    assert group.acquire("r", 1)[stream.name] == {"1": 940}


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


def test_at_12_00_five_minutes_of_lag_mean_11_55(stage: Stage) -> None:
    stream = ingestion(stage)
    stream.tail({"0": 5})
    assert EventTimeLag(5 * MINUTE).apply(stream.window({"0": 5})["lower"]) == stage.now - 5 * MINUTE


#   W 0                      W +17 592                  W +45 668          of the trace, from its first watermark on
#   in    B +41 549  A +10 516  C −17 446
#   out                      C late: dropped   A        B
def test_the_trace_of_an_on_time_an_early_and_a_late_event(stage: Stage) -> None:
    """The output of EventTimeITCase, its numbers kept; watermarks are the windows of a tailed stream, less a lag."""
    first = 1510626708681
    stream, lag = ingestion(stage, segments=1), EventTimeLag(MINUTE)
    ordering: EventTimeOrdering[str] = EventTimeOrdering(10)
    base = stage.now - MINUTE - first  # what has to be added to the trace's times here

    def advance(to: int, position: int) -> list[Timed[str]]:
        stage.pass_time(base + to + MINUTE - stage.now)
        stream.tail({"0": position})
        return ordering.advance(lag.apply(stream.window({"0": position})["lower"]))

    assert advance(first, 0) == []
    assert ordering.add(base + 1510626750230, "B") is True
    assert ordering.add(base + 1510626719197, "A") is True
    assert ordering.add(base + 1510626691235, "C") is False
    assert advance(1510626726273, 3) == [Timed(base + 1510626719197, "A")]
    assert advance(1510626754349, 3) == [Timed(base + 1510626750230, "B")]
