"""What a stream says of excluding, including or closing a writer is what comes of it, whatever the history."""

from copy import deepcopy
from random import Random

import pytest

from strandline.core.changes import Advance
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from strandline.errors import UnknownWriter
from tests.model.pair import Pair, Seeded

HOUR = 3_600_000


def check(stream: Stream, writer: str, now: int, what: str) -> int:
    """Compares what is said with what is done; returns in how many keys time went on."""

    def say() -> dict[str, Advance]:
        return (
            stream.time_with(writer, now) if what == "include" else stream.time_without(writer, closing=what == "close")
        )

    said, done = say(), deepcopy(stream)
    before = deepcopy(said)
    done.close(writer, None, now) if what == "close" else getattr(done, what)(writer, now)
    for key in said:
        done.evaluate(key, now)
    found = {key: mark.time for key, mark in done.last_marks.items()}
    assert {key: each.after for key, each in said.items()} == {key: found.get(key) for key in said}, (writer, what)
    assert say() == before
    return sum(each.after != each.before for each in said.values())


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.full) for first in range(50, 200, 50))])
def test_what_is_said_of_excluding_or_closing_a_writer_is_what_comes_of_it(first: int) -> None:
    advances = 0
    for seed in range(first, first + 50):
        pair = Pair(Seeded(Random(seed)))
        for _ in range(40):
            pair.step()
            if pair.ingestion or pair.core.sealed:
                break
            stream, now = deepcopy(pair.core), max(pair.now, pair.core.clock)
            stream.advance(now)
            stream.advance(now)  # forgets writers that the first has passed
            for writer in list(stream.writers):
                is_excluded = stream.writers[writer].excluded_at is not None
                for what in ("exclude", "close", *(["include"] if is_excluded else [])):
                    advances += check(stream, writer, now, what)
    assert advances > 250


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


def test_a_writer_that_is_ahead_lets_time_leap_when_it_is_included_after_the_right_one_was_excluded() -> None:
    stream = stream_with(right=10, ahead=24 * HOUR)
    stream.exclude("ahead", 0)
    assert stream.time_with("ahead", 0) == {"": (10, 10)}
    stream.exclude("right", 0)
    assert stream.time_with("ahead", 0) == {"": (10, 24 * HOUR)}
    assert stream.time_with("right", 0) == {"": (10, 10)}
