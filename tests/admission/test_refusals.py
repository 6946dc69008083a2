"""What refuses a note: each reason, the order in which they are looked at, and that nothing changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import NewSegment, SegmentGraph
from strandline.core.stream import Stream
from strandline.errors import (
    BeyondFinalOffset,
    Fenced,
    InvalidConfig,
    InvalidName,
    InvalidNote,
    PositionWentBack,
    StrandlineError,
    StreamSealed,
    TimeTooFarAhead,
    TimeWentBack,
    TooMany,
    UnknownSegment,
    WrongDomain,
)

NOW = 1_000
FINE = Note(writer="w", times={"": 100}, position={"0": 10}, epoch=1)


def stream(**config: Any) -> Stream:
    """Writer w is at time 100, offset 10 of segment 0, with epoch 1; segment 9 ended at 5, in 10."""
    settings: dict[str, Any] = {"mark_interval_ms": 0, "max_ahead_ms": 500, **config}
    ranges = [NewSegment("0", 0.0, 0.5), NewSegment("9", 0.5, 1.0)]
    made = Stream("s", StreamConfig(**settings), SegmentGraph.of_ranges(ranges, 0), now=0)
    made.scale({"9": 5}, [NewSegment("10", 0.5, 1.0)], 0)
    made.register("w", None, NOW)
    made.note(FINE, NOW)
    made.drain()
    return made


# Each wrong in one way; the later in this list, the later it is looked at.
WRONG: list[tuple[type[StrandlineError], dict[str, Any]]] = [
    (Fenced, {"epoch": 7}),
    (UnknownSegment, {"position": {"8": 1}}),
    (BeyondFinalOffset, {"position": {"9": 6}}),
    (TimeWentBack, {"times": {"": 99}}),
    (TimeTooFarAhead, {"times": {"": NOW + 501}}),
    (PositionWentBack, {"position": {"0": 9}}),
]


@pytest.mark.parametrize(("kind", "change"), WRONG)
def test_a_note_with_one_fault_is_refused_and_changes_nothing(
    kind: type[StrandlineError], change: dict[str, Any]
) -> None:
    made = stream()
    with pytest.raises(kind):
        made.note(replace(FINE, **change), NOW)
    assert not made.drain()
    made.note(replace(FINE, times={"": 100 + 1}), NOW)


def test_a_time_as_far_ahead_as_is_allowed_is_taken() -> None:
    assert stream().note(replace(FINE, times={"": NOW + 500}), NOW).marks[0].time == NOW + 500


@pytest.mark.parametrize("first", range(len(WRONG)))
@pytest.mark.parametrize("second", range(len(WRONG)))
def test_of_two_faults_the_earlier_one_is_told(first: int, second: int) -> None:
    (kind, change), (_, other) = WRONG[first], WRONG[second]
    if first >= second or ("times" in change and "times" in other):
        return
    both = {**other, **change}
    if "position" in change and "position" in other:
        both["position"] = {**change["position"], **other["position"]}
    with pytest.raises(kind):
        stream().note(replace(FINE, **both), NOW)


def test_a_sealed_stream_refuses_before_anything_else_is_looked_at() -> None:
    made = stream()
    made.seal({}, NOW)
    made.drain()
    with pytest.raises(StreamSealed, match="stream 's' is sealed"):
        made.note(replace(FINE, epoch=7, position={"8": 1}), NOW)
    assert not made.drain()


def test_the_words_name_the_value_and_what_would_be_right() -> None:
    made = stream()
    with pytest.raises(TimeWentBack, match="'w' noted 99, but has noted 100 before: note 100 or later"):
        made.note(replace(FINE, times={"": 99}), NOW)
    with pytest.raises(PositionWentBack, match="gave offset 9 in segment '0', but has given 10 before"):
        made.note(replace(FINE, position={"0": 9}), NOW)
    with pytest.raises(TimeTooFarAhead, match=r"501 ms ahead of the clock .* max_ahead_ms = 500"):
        made.note(replace(FINE, times={"": 1_501}), NOW)
    with pytest.raises(Fenced, match="epoch 7, but the newest is 1"):
        made.note(replace(FINE, epoch=7), NOW)


def test_closing_ends_the_epoch_and_closing_again_is_harmless() -> None:
    made = stream()
    made.close("w", 1, NOW)
    assert made.close("w", 1, NOW) == []
    with pytest.raises(Fenced, match="that registration has ended"):
        made.note(replace(FINE, times={"": 101}), NOW)
    assert made.note(replace(FINE, times={"": 50}, position={"0": 2}, epoch=None), NOW).late


def test_ingestion_time_has_no_keys_and_event_time_no_tail() -> None:
    with pytest.raises(WrongDomain, match="ingestion time domain, which has no times by key"):
        stream(time_domain="ingestion").note(replace(FINE, times={"k": 100}), NOW)
    with pytest.raises(WrongDomain, match="event time domain, which has no tail reports"):
        stream().note(replace(FINE, writer="tail", epoch=None), NOW, tail=True)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (InvalidName, {"writer": ""}),
        (InvalidName, {"writer": "a b"}),
        (InvalidName, {"position": {"/": 1}}),
        (InvalidName, {"times": {"a b": 1}}),
        (InvalidName, {"newest": {"a b": 1}}),
        (InvalidNote, {"times": {"": 2**53}}),
        (InvalidNote, {"times": {"": -(2**53)}}),
        (InvalidNote, {"times": {"": True}}),
        (InvalidNote, {"times": {"": 1.0}}),
        (InvalidNote, {"newest": {"": 2**53}}),
        (InvalidNote, {"position": ["0"]}),
        (InvalidNote, {"position": {"0": -1}}),
        (InvalidNote, {"position": {"0": 2**53}}),
        (InvalidNote, {"position": {"0": False}}),
        (InvalidNote, {"position": {"0": 7, "1": "7"}}),
        (InvalidNote, {"position": {"0": 2**70}}),
        (InvalidName, {"position": {7: 7}}),
        (InvalidName, {"position": {"0": 7, 7: 7}}),
        (InvalidNote, {"epoch": 0}),
        (InvalidNote, {"epoch": True}),
        (InvalidNote, {"epoch": 2**53}),
        (TooMany, {"times": {f"k{n}": 1 for n in range(257)}}),
        (TooMany, {"position": {f"s{n}": 1 for n in range(65_537)}}),
    ],
)
def test_a_note_cannot_be_built_wrong(kind: type[StrandlineError], values: dict[str, Any]) -> None:
    with pytest.raises(kind):
        replace(FINE, **values)


def test_a_setting_that_cannot_change_is_refused_by_name() -> None:
    made = stream()
    for settings in ({"time_domain": "ingestion"}, {"colour": 1}):
        with pytest.raises(InvalidConfig, match=f"{next(iter(settings))} .*clock_skew_ms, forget_after_ms"):
            made.configure(settings, NOW)
    assert not made.drain()


def test_as_many_keys_as_are_allowed_can_be_noted_at_once() -> None:
    assert len(replace(FINE, times={f"k{n}": 1 for n in range(256)}).times) == 256


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((each, -1) for each in ("writer_timeout_ms", "mark_interval_ms", "max_ahead_ms", "mark_retention_ms")),
        *((each, -1) for each in ("idle_lag_ms", "clock_skew_ms", "forget_after_ms")),
        ("min_writers", 0),
        ("late_writers", "wait"),
        ("time_domain", "both"),
        ("forget_after_ms", None),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidConfig, match=name):
        StreamConfig(**{name: value})


def test_a_setting_that_is_too_great_is_refused_with_the_greatest() -> None:
    with pytest.raises(InvalidConfig, match=r"^idle_lag_ms cannot be 9007199254740992: .* to 2\^53 - 1"):
        StreamConfig(idle_lag_ms=2**53)
    assert StreamConfig(idle_lag_ms=2**53 - 1).idle_lag_ms == 2**53 - 1


def test_a_writer_needs_a_name_that_can_be_one() -> None:
    made = stream()
    with pytest.raises(InvalidName, match="a b"):
        made.register("a b", None, NOW)
    assert not made.drain()
