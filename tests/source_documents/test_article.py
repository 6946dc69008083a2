"""The article on Pravega's watermarks (PDP-33): its figures and edge cases, and what it says of writers and readers."""

from __future__ import annotations

from tests.source_documents.stage import Stage


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


def test_a_reader_without_a_segment_knows_that_time_goes_on(stage: Stage) -> None:
    stream = stage.stream()
    for time in range(1, 6):
        stream.note("w", time, {"0": time * 10, "1": time * 10})
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


def test_who_never_registers_or_notes_holds_nothing_back_and_who_registers_does(stage: Stage) -> None:
    #   w notes 1 at 7, and 2 at 9: in between, 0 has an event of somebody who is not known here
    stream = stage.stream()
    stream.note("w", 1, {"0": 7})
    stream.note("w", 2, {"0": 9})
    assert stream.bounds({"0": 9}) == (2, None)
    stage.controller.call("PUT", f"/v1/streams/{stream.name}/writers/v")
    stream.note("w", 3, {"0": 9})
    assert stream.bounds({"0": 9}) == (2, None)


def test_a_transaction_has_only_the_time_its_commit_gave(stage: Stage) -> None:
    #   commit(1)           commit()            commit(3)
    #   ──────────► 10      ──────────► 20      ──────────► 30      what was committed without a time waits for the
    stream = stage.stream(segments=1)  #                           next one, and keeps no reader from the first
    stream.note("w", 1, {"0": 10})
    assert stream.refused(422, writer="w", position={"0": 20})["code"] == "invalid_note"
    assert stream.bounds({"0": 20}) == (1, None)

    stream.note("w", 3, {"0": 30})

    assert stream.bounds({"0": 20}) == (1, 3)


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
