"""The article on Pravega's watermarks (PDP-33): its figures and edge cases, and what it says of writers and readers."""

from __future__ import annotations

from tests.source_documents.stage import Stage, StagedStream


def test_figure_1_writers_set_event_time_the_controller_ingestion_time(stage: Stage) -> None:
    """ "It is on purpose; we do not want to constrain what the applications have as a time reference." """
    event, ingestion = stage.stream("event"), stage.stream("ingestion", time_domain="ingestion")

    assert event.note("w", -5, {"0": 1})["marks"][0]["time"] == -5  # a moment of 1969, read from a file
    report = ingestion.note("w", stage.now + 5_000, {"0": 1})  # whatever clock it keeps, ours is the one that counts
    assert report["marks"][0]["time"] == stage.now
    keyed = {"writer": "w", "times": {"order_time": 1}, "position": {}}
    assert ingestion.refused(409, **keyed)["code"] == "wrong_domain"


#   log         1  3  2  4  6  5  8  7  9        events 7 and 8 are out of order
#   noted             3     5     7     9        "all of mine older than this lies to the left"
#   read up to        ▲     ▲     ▲     ▲        there, and not one event earlier, such a window can close
def test_figure_2_a_window_closes_after_all_older_events(stage: Stage) -> None:
    log = [1, 3, 2, 4, 6, 5, 8, 7, 9]
    stream = stage.stream(segments=1)
    for position in range(1, len(log) + 1):
        stream.note("w", min(log[position:], default=10), {"0": position})

    lowers = [stream.window({"0": position})["lower"] for position in range(len(log) + 1)]

    assert lowers == [None, 2, 2, 4, 5, 5, 7, 7, 9, 10]
    for position, lower in enumerate(lowers):
        assert lower is None or all(event >= lower for event in log[position:])


#   w1 ──┐  segment 0 ─────┬──┐
#        ├►                ├──┼──► controller: marks, kept beside the segments and not in them
#   w2 ──┘  segment 1 ─────┴──┘         └──► readers: a time window at their position
def test_figure_4_time_flows_from_all_writers_through_marks_to_the_readers(stage: Stage) -> None:
    stream = stage.stream()
    group = stage.group(stream)
    stream.register("w2")  # there before w1 notes: time waits for both
    stream.note("w1", 100, {"0": 3})
    assert stream.marks() == [] and stream.holder()["writer"] == "w2"

    stream.note("w2", 90, {"1": 5})

    assert [(mark["time"], mark["cut"]) for mark in stream.marks()] == [(90, {"0": 3, "1": 5})]
    assert group.read("r", stream, {"0": 3, "1": 5})["window"]["watermarks"] == {"": 90}


#              time   segment 0   segment 1   segment 2
#   w1         100        10          20
#   w2         105                    25           5
#   w3         102        12                       3
#   mark       100        12          25           5      the least time, the greatest offsets
def test_figure_5_a_mark_has_least_time_and_greatest_offsets(stage: Stage) -> None:
    """One note from each writer, none made a mark before all had noted: the figure to the letter."""
    stream = stage.stream(segments=3, min_writers=3)
    assert stream.note("w1", 100, {"0": 10, "1": 20})["held_by"]["state"] == "min_writers"
    stream.note("w2", 105, {"1": 25, "2": 5})

    (mark,) = stream.note("w3", 102, {"0": 12, "2": 3})["marks"]

    assert (mark["time"], mark["upper"], mark["complete"]) == (100, 105, True)
    assert mark["cut"] == {"0": 12, "1": 25, "2": 5}
    assert stream.marks() == [mark]


def test_figure_5_differently_a_fast_writers_earlier_position_is_enough(stage: Stage) -> None:
    """See docs/decisions/0002: the cut takes each writer's earliest position that will do."""
    stream = stage.stream(min_writers=2)
    stream.note("fast", 100, {"0": 10})
    stream.note("fast", 200, {"0": 900})
    (mark,) = stream.note("slow", 90, {"1": 1})["marks"]
    assert (mark["time"], mark["cut"]) == (90, {"0": 10, "1": 1})  # the figure would say 900


def five_marks(stage: Stage) -> StagedStream:
    """Marks at times 1 to 5, each 10 offsets further in both segments."""
    stream = stage.stream()
    for time in range(1, 6):
        stream.note("w", time, {"0": time * 10, "1": time * 10})
    return stream


#   segment 0   ──┬──┬──┬──┬──┬──     one reader has read segment 0 to just before mark 5,
#   marks         1  2  3  4  5       the other one segment 1 to just after mark 2:
#   segment 1   ──┴──┴──┴──┴──┴──     the group's window is (2, 5)
def test_figure_6_a_group_between_marks_has_a_window(stage: Stage) -> None:
    stream = five_marks(stage)
    group = stage.group(stream)
    group.read("r1", stream, {"0": 45})
    group.read("r2", stream, {"1": 21})

    assert group.bounds(stream) == (2, 5)
    assert stream.bounds({"0": 45, "1": 21}) == (2, 5)  # whoever asks, group or not


def test_edge_case_before_the_first_mark_there_is_no_lower_bound(stage: Stage) -> None:
    stream = five_marks(stage)
    group = stage.group(stream)
    assert group.bounds(stream) == (None, 1)

    group.read("r", stream, {"0": 9, "1": 50})

    assert group.bounds(stream) == (None, 5) and group.watermark() is None


def test_edge_case_past_the_last_mark_no_upper_bound_exists(stage: Stage) -> None:
    stream = five_marks(stage)
    group = stage.group(stream)

    group.read("r", stream, {"0": 70, "1": 99})  # it keeps up with events that nobody has noted yet
    assert group.bounds(stream) == (5, None)

    stream.note("w", 6, {"0": 80, "1": 99})
    assert group.bounds(stream) == (5, 6)


def test_edge_case_an_offline_readers_window_returns_to_processed_events(stage: Stage) -> None:
    stream = five_marks(stage)
    group = stage.group(stream)
    group.read("alive", stream, {"0": 50})
    group.read("dead", stream, {"1": 50})
    assert group.bounds(stream) == (5, None)

    window = group.offline("dead", stream, {"1": 19})

    assert window["streams"][stream.name]["lower"] == 1
    assert group.acquire("alive", 9)[stream.name] == {"0": 50, "1": 19}  # to be read once more, from there


def test_a_reader_without_a_segment_knows_that_time_goes_on(stage: Stage) -> None:
    stream = five_marks(stage)
    group = stage.group(stream)
    group.read("r1", stream, {"0": 10, "1": 10})
    assert group.look("spare")["window"]["watermarks"] == {"": 1}

    group.read("r1", stream, {"0": 40, "1": 40})

    told = group.look("spare")
    assert told["owned"] == {} and told["window"]["watermarks"] == {"": 4}


def test_time_advances_on_a_stream_without_any_events(stage: Stage) -> None:
    """ "it allows time to advance on a stream without any events": the same position, a later time."""
    stream = stage.stream()
    stream.note("w", 1, {"0": 7})
    stream.note("w", 2, {"0": 7})
    assert stream.bounds({"0": 7}) == (2, None)


def test_a_transaction_has_only_the_time_its_commit_gave(stage: Stage) -> None:
    #   commit(1)           commit()            commit(3)
    #   ──────────► 10      ──────────► 20      ──────────► 30      what was committed without a time waits for the
    stream = stage.stream(segments=1)  #                           next one, and keeps no reader from the first
    stream.note("w", 1, {"0": 10})
    assert stream.refused(422, writer="w", position={"0": 20})["code"] == "invalid_note"
    assert stream.bounds({"0": 20}) == (1, None)

    stream.note("w", 3, {"0": 30})

    assert stream.bounds({"0": 20}) == (1, 3)


def test_a_vanished_writer_is_named_and_excluded_after_its_timeout(stage: Stage) -> None:
    #   gone    10 ─────────────────────┐ 1 000 ms silent
    #   here    50 ───────────── 60 ────▼
    #   marks   10                      60, without gone
    stream = stage.stream(writer_timeout_ms=1_000, min_writers=2)
    stream.note("gone", 10, {"0": 1})
    stream.note("here", 50, {"1": 1})
    stage.pass_time(900)
    stream.note("here", 60, {"1": 2})
    assert stream.times() == [10]
    assert (stream.holder()["writer"], stream.holder()["released_in_ms"]) == ("gone", 100)

    stage.pass_time(100)

    mark = stream.marks()[-1]
    assert (mark["time"], mark["excluded"], mark["complete"]) == (60, ["gone"], False)


#   0 ── 12 ─┬─ 1 ── 4 ──┐
#            └─ 2 ── 5 ──┴─ 3      auto-scaling splits the stream, and merges it again
def test_time_goes_on_over_a_split_and_a_merge(stage: Stage) -> None:
    stream = stage.stream(segments=1)
    group = stage.group(stream)
    stream.note("w", 1, {"0": 10})
    stream.scale({"0": 12}, s1=(0.0, 0.5), s2=(0.5, 1.0))
    stream.note("w", 2, {"1": 3})
    stream.scale({"1": 4, "2": 5}, s3=(0.0, 1.0))
    stream.note("w", 3, {"3": 1})
    assert [mark["cut"] for mark in stream.marks()] == [{"0": 10}, {"1": 3}, {"3": 1}]

    reached = []
    for reader, position in (("a", {"0": 12}), ("a", {"1": 4}), ("b", {"2": 4}), ("b", {"2": 5}), ("a", {"3": 1})):
        group.read(reader, stream, position)
        reached.append(group.bounds(stream))

    # With segment 1 read to its end but 2 not yet, the group is past the second mark and not at the third.
    assert reached == [(1, 2), (2, 3), (2, 3), (2, 3), (3, None)]


def test_the_connector_emits_a_watermark_where_the_window_lets_it_advance(stage: Stage) -> None:
    """The Flink connector's loop: a window after each event, a watermark for every lower bound that is new."""
    stream = five_marks(stage)
    emitted: list[int] = []
    for offset in range(55):
        lower = stream.window({"0": offset, "1": offset})["lower"]
        if lower is not None and (not emitted or lower > emitted[-1]):
            emitted.append(lower)
    assert emitted == [1, 2, 3, 4, 5]
