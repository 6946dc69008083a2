"""PDP-28, ordering across routing keys: the offset-to-time index, its tokens and search, and who is furthest behind."""

from __future__ import annotations

from tests.source_documents.stage import Stage, StagedGroup, StagedStream


#   offset   0 ········ 10 ········ 20 ··········· 40        entries: (10, 100) (20, 200) (40, 300)
#   clock    │ ≥ ?      │ ≥ 100     │ ≥ 200        │ ≥ 300   nothing at or past an offset is older than its time
def test_offset_and_clock_pairs_are_kept_for_every_segment(stage: Stage) -> None:
    stream = stage.stream()
    for time, first, second in ((100, 10, 0), (200, 20, 7), (300, 40, 7)):
        stream.note("w", time, {"0": first, "1": second})

    assert stream.index("0") == ([(10, 100), (20, 200), (40, 300)], 3)
    assert stream.index("1") == ([(0, 100), (7, 300)], 3)  # of two clocks at one offset the later says more


def test_a_token_continues_the_index_where_the_last_read_ended(stage: Stage) -> None:
    stream = stage.stream(segments=1)
    for n in range(1, 8):
        stream.note("w", 10 * n, {"0": n})
    entries, token = stream.index("0", limit=3)
    assert (entries, token) == ([(1, 10), (2, 20), (3, 30)], 3)
    assert stream.index("0", token=token, limit=3) == ([(4, 40), (5, 50), (6, 60)], 6)
    assert stream.index("0", token=7) == ([], 7)

    stream.note("w", 80, {"0": 9})

    assert stream.index("0", token=7) == ([(9, 80)], 8)


def test_without_a_token_an_offset_above_0_is_searched_for(stage: Stage) -> None:
    """ "If the segment is 10MB in length and we are being asked to read at 8.5MB in, … pick one 85% of the way." """
    stream = stage.stream(segments=1)
    megabyte = 1 << 20
    notes = [{"writer": "w", "time": n, "position": {"0": n * megabyte // 100}} for n in range(1, 1001)]
    stage.controller.call("POST", f"{stream.path}/notes", {"notes": notes})

    at = 17 * megabyte // 2
    for offset, first in (
        (0, 1),
        (at, 850),
        (at - 1, 849),
        (at + 1, 850),
        (10 * megabyte, 1000),
        (99 * megabyte, 1000),
    ):
        entries, token = stream.index("0", from_offset=offset, limit=1)
        assert entries == [(first * megabyte // 100, first)], offset
        assert token == first


def test_the_search_is_right_where_data_came_in_bursts(stage: Stage) -> None:
    #   offset    1 2 3 … 50 │ 1 000 000 … 1 000 049        half of the entries lie in a millionth of the segment
    stream = stage.stream(segments=1)
    offsets = [*range(1, 51), *range(1_000_000, 1_000_050)]
    for time, offset in enumerate(offsets, 1):
        stream.note("w", time, {"0": offset})
    assert stream.index("0", from_offset=500_000, limit=2)[0] == [(50, 50), (1_000_000, 51)]
    assert stream.index("0", from_offset=1_000_031, limit=1)[0] == [(1_000_031, 82)]
    assert stream.index("0", from_offset=7, limit=1)[0] == [(7, 7)]


def test_the_values_rise_also_where_writers_clocks_differ(stage: Stage) -> None:
    """ "This value would be obtained from a monotonic clock … at approximately the same value across hosts." """
    #   a   100      130      150      169            time and offset are the same number here
    #   b       97       141      149      160        b begins late: nothing goes back for it
    stream = stage.stream(segments=1)
    for a, b in ((100, 97), (130, 141), (150, 149), (169, 160)):
        stream.note("a", a, {"0": a})
        stream.note("b", b, {"0": b})
    assert stream.index("0") == ([(100, 100), (141, 130), (150, 149), (169, 160)], 5)


def test_a_transaction_is_a_single_point_at_the_time_of_its_merge(stage: Stage) -> None:
    #   10 ──┬ merged at 500: 4 events, written over a long time ┬── 14        no entry lies between
    stream = stage.stream(segments=1)
    stream.note("w", 100, {"0": 10})
    stream.note("w", 500, {"0": 14})
    assert stream.index("0") == ([(10, 100), (14, 500)], 2)
    assert stream.index("0", from_offset=12)[0] == [(10, 100), (14, 500)]  # from within, it is as old as its beginning


def drifted(stage: Stage) -> tuple[StagedStream, StagedGroup]:
    """Segment 1 has little data and is old; segment 0 has much, all of it recent, and a reader is far into it."""
    #   segment 0   ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ 1 000 … 3 000      the reader is at 2 000: time 200
    #   segment 1   ▓▓▓ 1 … 3                                   and here at 1: time 100
    stream = stage.stream()
    for n in (1, 2, 3):
        stream.note("w", 100 * n, {"0": 1_000 * n, "1": n})
    group = stage.group(stream)
    group.read("r", stream, {"0": 2_000, "1": 1})
    return stream, group


def test_the_orderer_selects_the_segment_with_the_lowest_bound(stage: Stage) -> None:
    stream, group = drifted(stage)
    group.release("r", stream, {"0": 2_000, "1": 1})
    assert group.acquire("r", 1)[stream.name] == {"1": 1}


def test_read_in_the_order_of_the_index_no_segment_gets_far_ahead(stage: Stage) -> None:
    stream = stage.stream()
    for n in range(1, 21):
        stream.note("w", 10 * n, {"0": 100 * n, "1": n})
    bounds = {segment: dict(stream.index(segment)[0]) for segment in ("0", "1")}
    step, position = {"0": 100, "1": 1}, {"0": 0, "1": 0}
    apart = 0
    while position != {"0": 2_000, "1": 20}:
        times = {segment: bounds[segment].get(offset, 0) for segment, offset in position.items()}
        apart = max(apart, abs(times["0"] - times["1"]))
        behind = min(times, key=lambda segment: (times[segment], segment))
        position[behind] += step[behind]
    assert apart == 10  # never further than one step of the clock


def test_the_lag_is_a_time_for_every_segment_and_the_group(stage: Stage) -> None:
    """ "the getLag() function can return the data from the time index" """
    stream, group = drifted(stage)
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
