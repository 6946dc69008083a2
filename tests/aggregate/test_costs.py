"""What calls cost, in calls of functions, however many writers there are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from tests.counting import counted

FEW, MANY = 20, 2_000


def idle_stream(writers: int) -> Stream:
    """Everyone noted, and said idle then."""
    config = StreamConfig(writer_timeout_ms=None, mark_interval_ms=0, max_ahead_ms=None)
    stream = Stream("s", config, SegmentGraph.equal_shares(1, 0), now=0)
    for number in range(writers):
        stream.note(Note(writer=f"w{number}", times={"": number}, position={"0": number}), 0)
    for number in range(writers):
        stream.idle(f"w{number}", None, 0)
    stream.evaluate("", 0)
    return stream


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda stream: stream.idle("w3", None, 0), id="idle"),
        pytest.param(lambda stream: stream.next_wake(), id="next_wake"),
        pytest.param(lambda stream: stream.held_by("", 0), id="held_by"),
    ],
)
def test_with_everyone_idle_a_call_costs_the_same_however_many_they_are(call: Callable[[Stream], object]) -> None:
    def cost(writers: int) -> int:
        stream = idle_stream(writers)
        return counted(lambda: call(stream))

    assert cost(MANY) <= cost(FEW) + 10


def noting_stream(writers: int, spread: int) -> Stream:
    """Everyone noted three times, and a mark was made after the first; the times of each round differ by `spread`."""
    stream = Stream("s", StreamConfig(mark_interval_ms=None, max_ahead_ms=None), SegmentGraph.equal_shares(4, 0), now=0)
    for turn in range(3):
        for number in range(writers):
            time, offset = 1_000 * turn + number % spread, writers * turn + number
            stream.note(Note(writer=f"w{number}", times={"": time}, position={str(number % 4): offset}), 0)
        if turn == 0:
            stream.evaluate("", 0)
    return stream


@pytest.mark.parametrize("spread", [1, 7, 1_000])
def test_a_mark_after_everyone_noted_hardly_depends_on_their_number(spread: int) -> None:
    def cost(writers: int) -> int:
        stream = noting_stream(writers, spread)
        return counted(lambda: stream.evaluate("", 0))

    assert cost(4 * MANY) < MANY


def test_a_mark_looks_at_few_writers_where_one_noted() -> None:
    stream = noting_stream(MANY, 1)
    stream.evaluate("", 0)
    stream.evaluate("", 0)
    for number in range(MANY):
        stream.note(Note(writer=f"w{number}", times={"": 5_000 + number}, position={"0": 10**6 + number}), 0)
    stream.evaluate("", 0)
    stream.note(Note(writer="w0", times={"": 9_000}, position={"0": 10**7}), 0)
    assert counted(lambda: stream.evaluate("", 0)) < 100
