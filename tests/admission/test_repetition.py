"""A request that is sent again is done, and nothing of it is refused; what really goes back is refused as ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.config import StreamConfig, TimeDomain
from strandline.core.cut import Cut
from strandline.core.note import Note
from strandline.core.segment import NewSegment, SegmentGraph
from strandline.core.stream import Stream
from strandline.errors import PositionWentBack, Refused, TimeWentBack

NOW = 1_000
KEYS = ("", "a", "b")
SEGMENTS = ("0", "1", "2")


def stream(**config: Any) -> Stream:
    settings: dict[str, Any] = {"mark_interval_ms": 0, "max_ahead_ms": None, "writer_timeout_ms": None, **config}
    return Stream("s", StreamConfig(**settings), SegmentGraph.equal_shares(3, 0), now=0)


def note(time: int | dict[str, int], position: dict[str, int], writer: str = "w", epoch: int | None = None) -> Note:
    return Note(writer=writer, times={"": time} if isinstance(time, int) else time, position=position, epoch=epoch)


def send(made: Stream, notes: Sequence[Note], now: int = NOW) -> list[str]:
    """A request with these notes of one writer, and what becomes of each: "taken", "done" before, or the refusal."""
    results = []
    done: set[int] | None = None
    for place, each in enumerate(notes):
        try:
            made.note(each, now)
        except (TimeWentBack, PositionWentBack) as error:
            done = made.done_before(notes, now) if done is None else done
            results.append("done" if place in done else error.code)
        except Refused as error:
            results.append(error.code)
        else:
            results.append("taken")
    return results


def state(made: Stream) -> tuple[Any, ...]:
    writer = made.writers["w"]
    times = {key: (each.time, each.phase, list(each.history)) for key, each in writer.key_states.items()}
    return times, dict(writer.noted.items()), writer.position, dict(made.last_marks)


@st.composite
def rising(draw: st.DrawFn, keys: Sequence[str] = KEYS) -> list[Note]:
    """Notes of one writer, each at or above the ones before it in every key and segment."""
    times, offsets, notes = dict.fromkeys(keys, 0), dict.fromkeys(SEGMENTS, 0), []
    for _ in range(draw(st.integers(1, 8))):
        for key in draw(st.sets(st.sampled_from(keys), min_size=1)):
            times[key] += draw(st.integers(0, 2))
        for segment in draw(st.sets(st.sampled_from(SEGMENTS))):
            offsets[segment] += draw(st.integers(0, 2))
        said = draw(st.sets(st.sampled_from(keys), min_size=1))
        named = draw(st.sets(st.sampled_from(SEGMENTS)))
        notes.append(note({key: times[key] for key in said}, {segment: offsets[segment] for segment in named}))
    return notes


@given(notes=rising(), first=st.integers(0, 8))
def test_a_request_sent_again_is_done_and_changes_nothing(notes: list[Note], first: int) -> None:
    made = stream()
    for each in notes[:first]:
        made.note(each, NOW)
    request = notes[first:] or notes[-1:]
    assert set(send(made, request)) == {"taken"}
    before = state(made)
    assert set(send(made, request)) <= {"taken", "done"}
    assert state(made) == before


@given(notes=rising(), done=st.integers(1, 8))
def test_what_is_new_may_come_along_with_what_is_sent_again(notes: list[Note], done: int) -> None:
    """Of a request that had come a part of the way, too."""
    made, straight = stream(), stream()
    send(made, notes[:done])
    send(straight, notes)
    assert set(send(made, notes)) <= {"taken", "done"}
    assert state(made) == state(straight)


@given(notes=rising(keys=("",)), clocks=st.lists(st.integers(16, 30), min_size=3, max_size=3))
def test_the_same_goes_for_times_of_the_ingestion_domain(notes: list[Note], clocks: list[int]) -> None:
    """Which are times that the clock has shown."""
    made = stream(time_domain=TimeDomain.INGESTION, clock_skew_ms=3)
    first, second, third = sorted(clocks)
    assert set(send(made, notes, first)) == {"taken"}
    for now in (second, third):
        assert set(send(made, notes, now)) <= {"taken", "done"}


@given(notes=rising(), later=st.integers(1, 3))
def test_one_note_alone_that_goes_back_is_refused_whatever_was_done(notes: list[Note], later: int) -> None:
    made = stream()
    send(made, notes)
    highest = {key: key_state.time or 0 for key, key_state in made.writers["w"].key_states.items()}
    back = note({key: time - later for key, time in highest.items()}, {})
    assert send(made, [back]) == ["time_went_back"]


@pytest.mark.parametrize(
    ("request_", "results"),
    [
        # stored is 100@10
        ([note(50, {"0": 10}), note(101, {"0": 10})], ["time_went_back", "taken"]),  # what follows it is new
        ([note(50, {"0": 11}), note(100, {"0": 10})], ["time_went_back", "taken"]),  # it names more than is stored
        ([note(50, {"1": 0}), note(100, {"0": 10})], ["done", "taken"]),
        ([note(50, {"1": 3}), note(100, {"0": 10})], ["time_went_back", "taken"]),
        ([note(100, {"0": 9}), note(100, {"0": 10})], ["done", "taken"]),
        ([note(100, {"0": 10}), note(50, {"0": 10})], ["taken", "time_went_back"]),  # below one before it
        ([note(100, {"0": 10}), note(100, {"0": 9})], ["taken", "position_went_back"]),
        ([note(50, {"0": 5}), note(40, {"0": 6}), note(100, {"0": 10})], ["done", "time_went_back", "taken"]),
        ([note(50, {"0": 5}), note(60, {"9": 6}), note(100, {"0": 10})], ["done", "unknown_segment", "taken"]),
        ([note(50, {"0": 5}, epoch=7), note(100, {"0": 10})], ["fenced", "taken"]),
        ([note({"": 50, "a": 1}, {"0": 5}), note(100, {"0": 10})], ["time_went_back", "taken"]),  # `a` is new
    ],
)
def test_what_shows_no_sign_of_having_been_done_is_refused(request_: list[Note], results: list[str]) -> None:
    made = stream()
    made.note(note(100, {"0": 10}), NOW)
    assert send(made, request_) == results


def test_a_writer_that_nobody_knows_has_done_nothing() -> None:
    made = stream()
    assert made.done_before([note(1, {}), note(2, {})], NOW) == set()
    assert made.noted_by("w") is None


def test_a_stream_tells_what_a_writer_noted_last() -> None:
    made = stream()
    for each in (note(100, {"0": 10}), note({"": 110, "a": 1}, {"1": 5})):
        made.note(each, NOW)
    assert made.noted_by("w") == (Cut({"0": 10, "1": 5}), {"": 110, "a": 1})


def test_a_request_over_a_split_is_known_again() -> None:
    made = stream()
    made.scale({"0": 4}, [NewSegment("3", 0.0, 1 / 6), NewSegment("4", 1 / 6, 1 / 3)], NOW)
    request = [note(10, {"0": 3}), note(20, {"0": 4, "3": 1}), note(30, {"4": 2})]
    assert send(made, request) == ["taken"] * 3
    assert send(made, request) == ["done", "done", "taken"]
