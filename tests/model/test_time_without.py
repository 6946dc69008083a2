"""What a stream says of an exclusion or closing before it is done is what comes of it, whatever the history."""

from copy import deepcopy

import pytest

from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from strandline.errors import UnknownWriter
from tests.model.pair import Pair, Seeded

HOUR = 3_600_000


def check(stream: Stream, writer: str, now: int, *, closing: bool) -> int:
    """Compares what is said with what is done; returns in how many keys time went on."""
    said, done = stream.time_without(writer, closing=closing), deepcopy(stream)
    before = deepcopy(said)
    done.close(writer, None, now) if closing else done.exclude(writer, now)
    for key in said:
        done.evaluate(key, now)
    found = {key: mark.time for key, mark in done.last_marks.items()}
    assert {key: each.after for key, each in said.items()} == {key: found.get(key) for key in said}, (writer, closing)
    assert stream.time_without(writer, closing=closing) == before
    return sum(each.after != each.before for each in said.values())


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_what_is_said_of_excluding_or_closing_a_writer_is_what_comes_of_it(first: int) -> None:
    advances = 0
    for seed in range(first, first + 100):
        pair = Pair(Seeded(seed))
        for _ in range(40):
            pair.step()
            if pair.ingestion or pair.core.sealed:
                break
            stream, now = deepcopy(pair.core), max(pair.now, pair.core.clock)
            stream.advance(now)
            stream.advance(now)  # forgets writers that the first has passed
            for writer in list(stream.writers):
                for closing in (False, True):
                    advances += check(stream, writer, now, closing=closing)
    assert advances > 500


def stream_with(**times: int) -> Stream:
    config = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=None, min_writers=len(times))
    stream = Stream("s", config, SegmentGraph.equal_shares(1, 0), now=0)
    for writer, time in times.items():
        stream.note(Note(writer=writer, times={"": time}, position={"0": 1}), 0)
    return stream


def test_time_goes_to_the_next_slowest_writer_or_to_the_greatest_time_that_is_left() -> None:
    stream = stream_with(right=10, ahead=24 * HOUR)
    assert stream.time_without("right", closing=False) == {"": (10, 24 * HOUR)}
    assert stream.time_without("ahead", closing=False) == {"": (10, 10)}
    stream.idle("right", None, 0)
    assert stream.last_marks[""].time == 24 * HOUR  # a right writer that leaves by itself lets time leap, too
    with pytest.raises(UnknownWriter):
        stream.time_without("nobody", closing=True)


def test_a_closed_writer_that_was_ahead_still_makes_time_leap_and_an_excluded_one_does_not() -> None:
    stream = stream_with(right=10, ahead=24 * HOUR)
    stream.close("ahead", None, 0)
    assert stream.time_without("right", closing=True) == {"": (10, 24 * HOUR)}
    stream = stream_with(right=10, ahead=24 * HOUR)
    stream.exclude("ahead", 0)
    assert stream.time_without("right", closing=True) == {"": (10, 10)}
