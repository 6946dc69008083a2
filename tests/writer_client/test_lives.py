"""Writers come, are idle, and go."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from strandline.client.retry import ATTEMPTS_DEFAULT
from strandline.errors import Fenced, OutcomeUnknown, UnknownStream
from writer_client import Event, Writer, WriterClosed


def test_entering_registers_and_leaving_stays_counted_also_with_an_exception(controller: Any, make_writer: Any) -> None:
    stream = controller.stream()
    with make_writer(stream) as writer:
        assert controller.states(stream) == {"joined": 1}
        assert (writer.epoch, writer.floor) == (1, None)
        assert writer.clock is not None
    assert controller.states(stream) == {"joined": 1}
    writer = make_writer(stream)
    with pytest.raises(ZeroDivisionError), writer:
        writer.note_time(100, {"0": 5})
        raise ZeroDivisionError
    assert controller.states(stream) == {"active": 1}
    with pytest.raises(WriterClosed):
        writer.note_time(101, {"0": 5})


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
    with make_any(stream, "w2", leaving=leaving) as writer:
        writer.note_time(100, {"0": 1})
        writer.close()  # and it is left as it is
    assert controller.states(stream) == Counter([state, "closed"])


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
