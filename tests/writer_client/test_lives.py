"""Writers come, are idle, and go."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.client.retry import ATTEMPTS_DEFAULT
from strandline.errors import (
    Fenced,
    InvalidConfig,
    InvalidName,
    OutcomeUnknown,
    UnknownStream,
)
from writer_client import AsyncWriter, BackgroundWriter, Event, Writer, WriterClosed


def test_entering_registers_and_leaving_stays_counted(controller: Any, make_writer: Any) -> None:
    stream = controller.stream()
    with make_writer(stream) as writer:
        assert controller.states(stream) == {"joined": 1}
        assert writer.epoch == 1
        assert writer.floor is None
        assert writer.clock is not None
    assert controller.states(stream) == {"joined": 1}


@pytest.mark.parametrize(("leaving", "state"), [("stay", "active"), ("idle", "idle"), ("close", "closed")])
def test_leaving_does_what_its_argument_says_and_notes_the_end(
    controller: Any, make_any: Any, late_log: Any, wire: Any, leaving: str, state: str
) -> None:
    stream = controller.stream()
    with make_any(stream, log=late_log, wire=wire, leaving=leaving) as writer:
        writer.write([Event(b"a", segment="0")])
        writer.note_time(100)
        writer.write([Event(b"b", segment="0")])
    assert controller.states(stream) == {state: 1}
    (last,) = [each.body for each in wire.requests if each.body and "position" in each.body][-1:]
    assert (last["time"], last["position"]) == (100, {"0": 2})
    with pytest.raises(WriterClosed):
        writer.note_time(101)


@pytest.mark.parametrize(("leaving", "lost"), [("stay", False), ("idle", True), ("close", True)])
def test_a_job_that_returns_with_older_events_is_on_time_if_it_stayed(
    controller: Any, make_any: Any, make_writer: Any, leaving: str, lost: bool
) -> None:
    stream = controller.stream()
    other = make_writer(stream, "other")
    with make_any(stream, "hourly", leaving=leaving) as job:
        job.note_time(100, {"0": 1})
    other.note_time(500, {"1": 5})
    with make_any(stream, "hourly", leaving=leaving) as job:
        floors = job.register().floors
        job.note_time(200, {"0": 2})  # what it wrote since has times from 100 to 199
    assert floors == {"": 500 if lost else 100}
    assert controller.marks(stream)[-1].time == (500 if lost else 200)


@pytest.mark.parametrize("leaving", ["stay", "idle", "close"])
def test_a_writer_that_was_closed_in_its_block_is_left_as_it_is(controller: Any, make_any: Any, leaving: str) -> None:
    stream = controller.stream()
    with make_any(stream, leaving=leaving) as writer:
        writer.note_time(100, {"0": 1})
        writer.close()
    assert controller.states(stream) == {"closed": 1}


def test_a_block_that_ends_with_an_exception_does_not_close_its_writer(controller: Any, make_writer: Any) -> None:
    stream = controller.stream()
    writer = make_writer(stream)
    with pytest.raises(ZeroDivisionError), writer:
        writer.note_time(100, {"0": 5})
        raise ZeroDivisionError
    assert controller.states(stream) == {"active": 1}
    with pytest.raises(WriterClosed):
        writer.note_time(101, {"0": 5})


def test_a_writer_that_cannot_register_says_why(controller: Any, make_writer: Any) -> None:
    with pytest.raises(UnknownStream), make_writer("nowhere"):
        raise AssertionError("the block must not be entered")


def test_closing_twice_is_once_and_a_closed_writer_is_not_used_again(
    controller: Any, make_writer: Any, wire: Any
) -> None:
    writer = make_writer(controller.stream(), wire=wire)
    writer.register()
    writer.close()
    writer.close()
    assert wire.lines == ["PUT writers/w1", "DELETE writers/w1?epoch=1"]
    for use in (writer.register, writer.idle, lambda: writer.note_time(1, {})):
        with pytest.raises(WriterClosed):
            use()


def test_a_new_registration_fences_the_one_before(controller: Any, make_writer: Any) -> None:
    stream = controller.stream()
    old, new = make_writer(stream), make_writer(stream)
    old.register()
    new.register()
    with pytest.raises(Fenced) as raised:
        old.note_time(100, {"0": 5})
    assert raised.value.values == {"name": "w1", "epoch": 1, "newest": 2}
    for use in (old.idle, old.close):
        with pytest.raises(Fenced):
            use()
    assert controller.states(stream) == {"joined": 1}


def test_a_registration_whose_outcome_is_unknown_is_repeated_and_fences_nobody(
    controller: Any, make_writer: Any, wire: Any
) -> None:
    stream = controller.stream()
    writer = make_writer(stream, wire=wire)
    writer.register()
    wire.faults = ["lost"] * ATTEMPTS_DEFAULT
    with pytest.raises(OutcomeUnknown):
        writer.register()
    writer.note_time(100, {"0": 1})
    assert writer.epoch == 2  # it was one registration all the time


def test_a_shared_connection_stays_open(controller: Any) -> None:
    stream = controller.stream()
    for name in ("w1", "w2"):
        with Writer(controller.connection, stream, name) as writer:
            writer.note_time(100, {"0": 1})
    assert controller.states(stream) == {"active": 2}


@pytest.mark.parametrize("kind", [Writer, AsyncWriter, BackgroundWriter])
def test_another_way_of_leaving_is_refused_when_it_is_given(kind: Any) -> None:
    with pytest.raises(InvalidConfig, match="leaving cannot be 'closed'"):
        kind("http://127.0.0.1:8433", "orders", "w1", leaving="closed")


@pytest.mark.parametrize("kind", [Writer, AsyncWriter])
def test_what_can_be_seen_to_be_wrong_is_told_at_once(kind: Any) -> None:
    with pytest.raises(InvalidConfig):
        kind("127.0.0.1:8433", "orders", "w1")
    with pytest.raises(InvalidName):
        kind("http://127.0.0.1:8433", "or/ders", "w1")
    with pytest.raises(InvalidName):
        kind("http://127.0.0.1:8433", "orders", "")
    with pytest.raises(InvalidName):
        kind("http://127.0.0.1:8433", "orders", "w1", keys=["order time"])
    with pytest.raises(InvalidConfig):
        kind("http://127.0.0.1:8433", "orders", "w1", token="a b")
