"""Pravega's watermarking: its known faults, as far as they concern how marks come about, do not happen here.

Numbers are those of its issues; "P" are the two steps of its aggregation that were run again.
"""

from __future__ import annotations

from tests.source_documents.stage import Stage, StagedStream


def test_6510_an_empty_segment_keeps_no_reader_from_its_bound(stage: Stage) -> None:
    stream = stage.stream()
    stream.note("a", 100, {"0": 5, "1": 0})
    assert stream.bounds({"0": 5}) == (100, None)


def test_4195_the_timeout_is_not_ignored(stage: Stage) -> None:
    #   a      10 ───────────────── 1 000 ms silent: let go
    #   b      20 ────────── 30 (after 999 ms)
    #   mark   10                   30
    stream = stage.stream(writer_timeout_ms=1_000, min_writers=2)
    stream.note("a", 10, {})
    stream.note("b", 20, {})
    stage.pass_time(999)
    stream.note("b", 30, {})
    assert stream.times() == [10] and stream.holder()["released_in_ms"] == 1

    stage.pass_time(1)

    assert stream.times() == [10, 30]


def test_4225_no_mark_is_made_twice_and_none_is_left_out(stage: Stage) -> None:
    stream = stage.stream()
    for time in range(10, 60, 10):
        stream.note("a", time, {})
        stream.note("a", time, {})
    assert [(mark["seq"], mark["time"]) for mark in stream.marks()] == [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50)]


def test_a_writer_far_ahead_drops_nobody_when_it_is_alone(stage: Stage) -> None:
    stream = stage.stream()
    stream.note("far", 10**15, {})
    answer = stream.note("a", 100, {})
    assert (answer["late"], answer["floor"]) == (True, 10**15)
    assert stream.holder()["writer"] == "a"


def test_silence_counts_from_a_writers_last_note(stage: Stage) -> None:
    stream = stage.stream(writer_timeout_ms=1_000)
    stream.note("ahead", 500, {})
    stream.note("b", 10, {})
    stage.pass_time(1_000)
    stream.note("b", 600, {})
    mark = stream.marks()[-1]
    assert (stream.state("ahead"), mark["time"], mark["excluded"]) == ("timed_out", 600, ["ahead"])


def test_a_returning_writer_does_not_bring_marks_to_a_stop_unnoticed(stage: Stage) -> None:
    #   a   10 ──────────────── timed out ── 15: it is told, and named ───── let go again
    #   b   10 ── 20 ── 30 ────────────────────────────────────────── 40 ──► 40
    stream = stage.stream(writer_timeout_ms=1_000)
    stream.note("a", 10, {})
    stream.note("b", 10, {})
    for time in (20, 30):
        stage.pass_time(600)
        stream.note("b", time, {})
    answer = stream.note("a", 15, {})
    assert (answer["late"], answer["floor"], stream.holder()["writer"]) == (True, 30, "a")
    stage.pass_time(600)
    stream.note("b", 40, {})
    stage.pass_time(400)
    assert stream.times()[-1] == 40


#   0 [0, .5) ── 200 ── 250 ─┬─ 2 [0, .5)      the last mark is at (200, 300); then 0 and 1 are sealed further on,
#   1 [.5, 1) ── 300 ── 400 ─┴─ 3 [.5, 1)      and 2 and 3 follow: 2 what 0 held, 3 what 1 did
def scaled_both(stage: Stage) -> StagedStream:
    stream = stage.stream(min_writers=2)
    stream.note("a", 1, {"0": 200})
    stream.note("b", 1, {"1": 300})
    stream.scale({"0": 250, "1": 400}, s2=(0.0, 0.5), s3=(0.5, 1.0))
    return stream


def test_a_gap_is_filled_from_its_predecessor_not_its_successor(stage: Stage) -> None:
    """Pravega's first pass would give {2: 0, 3: 10}, which asks for all of segment 0."""
    stream = scaled_both(stage)
    stream.note("a", 5, {"3": 10})
    stream.note("b", 5, {"1": 400})
    mark = stream.marks()[-1]
    assert (mark["time"], mark["cut"]) == (5, {"0": 200, "3": 10})
    assert stream.bounds({"0": 200, "3": 10}) == (5, None)


def test_p_who_names_a_successor_has_passed_all_that_it_follows(stage: Stage) -> None:
    """The PDP's {1: 7, 2: 9} with 2 = [0, .6) over both: {2: 9}; segment 3 is at 0 and so left out."""
    stream = stage.stream()
    stream.scale({"0": 50, "1": 70}, s2=(0.0, 0.6), s3=(0.6, 1.0))
    (mark,) = stream.note("a", 1, {"1": 7, "2": 9})["marks"]
    assert mark["cut"] == {"2": 9}
    assert stream.bounds({"0": 50, "1": 70, "2": 8}) == (None, 1)
    assert stream.bounds({"2": 9}) == (1, None)


def test_one_finished_side_of_a_merge_stops_no_group(stage: Stage) -> None:
    #   0 ── 10 ─┐
    #            ├─ 2 ── 5      Pravega's reader leaves 0 and cannot begin 2 before 1 is read as well
    #   1 ── 20 ─┘
    stream = stage.stream()
    group = stage.group(stream)
    stream.note("w", 1, {"0": 10, "1": 10})
    stream.scale({"0": 10, "1": 20}, s2=(0.0, 1.0))
    stream.note("w", 2, {"2": 5})
    group.read("one", stream, {"0": 10})
    group.read("two", stream, {"1": 10})
    assert group.acquire("one", 9)[stream.name] == {"0": 10}  # 2 is not to be had yet
    assert group.bounds(stream) == (1, 2)

    group.read("two", stream, {"1": 20})

    assert group.acquire("one", 9)[stream.name] == {"0": 10, "2": 0}
    group.read("one", stream, {"2": 5})
    assert group.bounds(stream) == (2, None)
