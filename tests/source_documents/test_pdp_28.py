"""PDP-28, ordering across routing keys: the offset-to-time index, its tokens and search, and who is furthest behind."""

from __future__ import annotations

from tests.source_documents.stage import Stage, StagedStream


#   offset   0 ········ 10 ········ 20 ··········· 40        entries: (10, 100) (20, 200) (40, 300)
#   clock    │ ≥ ?      │ ≥ 100     │ ≥ 200        │ ≥ 300   nothing at or past an offset is older than its time
def test_offset_and_clock_pairs_are_kept_for_every_segment(stage: Stage) -> None:
    stream = stage.stream()
    for time, first, second in ((100, 10, 0), (200, 20, 7), (300, 40, 7)):
        stream.note("w", time, {"0": first, "1": second})

    assert stream.index("0") == ([(10, 100), (20, 200), (40, 300)], 3)
    assert stream.index("1") == ([(0, 100), (7, 300)], 3)  # of two clocks at one offset the later says more


def test_the_lag_is_a_time_for_every_segment_and_the_group(stage: Stage) -> None:
    """ "the getLag() function can return the data from the time index" """
    #   segment 0   ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ 1 000 … 3 000      the reader is at 2 000: time 200
    #   segment 1   ▓▓▓ 1 … 3                                   and here at 1: time 100
    stream = stage.stream()
    for n in (1, 2, 3):
        stream.note("w", 100 * n, {"0": 1_000 * n, "1": n})
    group = stage.group(stream)
    group.read("r", stream, {"0": 2_000, "1": 1})
    window = group.of(stream)
    assert window["behind_ms"] == 200  # by segment 1: the newest mark is at 300
    assert window["lag_ms"] == stage.now - 100 == group.window()["lag_ms"]
    here = {
        segment: stream.index(segment, from_offset=offset)[0][0][1] for segment, offset in window["position"].items()
    }
    assert here == {"0": 200, "1": 100}

    group.read("r", stream, {"1": 3})

    assert group.of(stream)["behind_ms"] == 100  # now it is segment 0 that is behind


def test_a_segment_says_what_time_data_appended_now_would_get(stage: Stage) -> None:
    def at_end(stream: StagedStream) -> dict[str, int | None]:
        return {each["id"]: each["time_at_end"] for each in stream.describe()["segments"]}

    noted = stage.stream(segments=2)
    assert at_end(noted) == {"0": None, "1": None}  # no mark says what lies in it
    noted.note("w", 1_000, {"0": 5})
    assert at_end(noted) == {"0": 1_000, "1": 1_000}
    assert noted.index("0") == ([(5, 1_000)], 1)
    noted.scale({"0": 5}, s2=(0.0, 0.5))
    assert at_end(noted) == {"0": None, "1": 1_000, "2": 1_000}  # nothing is appended to a sealed segment

    tailed = stage.stream("tailed", segments=1, time_domain="ingestion")
    tailed.tail({"0": 5})
    stage.pass_time(1_000)
    tailed.scale({"0": 5}, s1=(0.0, 1.0))
    assert at_end(tailed) == {"0": None, "1": stage.now}  # its creation, which no mark has passed
    tailed.seal()
    assert at_end(tailed) == {"0": None, "1": None}
