"""Requests and answers that get lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strandline.client.retry import ATTEMPTS_DEFAULT
from strandline.errors import OutcomeUnknown, PositionWentBack, TimeWentBack
from strandline.logs.sqlite import SqliteLog
from writer_client import CommittedWithoutNote, Event

pytestmark = pytest.mark.full

ALL_LOST = ["lost"] * ATTEMPTS_DEFAULT  # of one call, after which it gives up


def test_a_registration_whose_outcome_is_unknown_fences_nobody(controller: Any, make_writer: Any, wire: Any) -> None:
    stream = controller.stream()
    writer = make_writer(stream, wire=wire)
    writer.register()
    wire.faults = list(ALL_LOST)
    with pytest.raises(OutcomeUnknown):
        writer.register()
    wire.faults = list(ALL_LOST)
    with pytest.raises(OutcomeUnknown):
        writer.note_time(100, {"0": 1})  # asks again what came of it
    writer.note_time(100, {"0": 1})
    assert writer.epoch == 2  # it was one registration all the time
    writer.close()
    assert [mark.time for mark in controller.marks(stream)] == [100]


def test_a_registration_that_arrives_again_much_later_fences_nobody(
    controller: Any, make_writer: Any, wire: Any
) -> None:
    stream = controller.stream()
    writer = make_writer(stream, wire=wire)
    writer.register()
    writer.note_time(100, {"0": 1})
    (request,) = [each for each in wire.requests if each.method == "PUT"]
    controller.run(sent_again(request))
    writer.note_time(200, {"0": 2})
    writer.close()


def sent_again(request: Any) -> Any:
    """A call that sends a request as it is."""
    response = yield request
    assert response.status == 200


@pytest.mark.parametrize("leave", ["idle", "close"])
def test_a_writer_that_may_have_left_registers_before_it_appends(
    controller: Any, make_writer: Any, late_log: Any, wire: Any, leave: str
) -> None:
    stream = controller.stream()
    writer = make_writer(stream, wire=wire, log=late_log)
    writer.write([Event(b"a", segment="0")])
    writer.note_time(100)
    wire.faults = list(ALL_LOST)
    with pytest.raises(OutcomeUnknown):
        getattr(writer, leave)()
    before = len(wire.happened)
    writer.write([Event(b"b", segment="0")])
    assert wire.happened[before:] == ["PUT writers/w1", "append"]
    writer.note_time(200)
    writer.close()
    assert [mark.cut for mark in controller.marks(stream)] == [{"0": 1}, {"0": 2}]


def test_a_writer_that_may_have_noted_leaves_with_that_time(
    controller: Any, make_writer: Any, late_log: Any, wire: Any
) -> None:
    stream = controller.stream()
    writer = make_writer(stream, wire=wire, log=late_log)
    writer.note_time(100)
    wire.faults = list(ALL_LOST)
    with pytest.raises(OutcomeUnknown):
        writer.note_time(200)
    writer.write([Event(b"a", segment="0")])
    writer.close()  # which notes where the log ends, and no time below what is stored
    assert [(mark.time, mark.cut) for mark in controller.marks(stream)] == [(100, {}), (200, {})]
    assert controller.states(stream) == {"closed": 1}


def test_a_commit_below_the_lowest_allowed_time_is_refused_beforehand(
    controller: Any, make_writer: Any, wire: Any, tmp_path: Path
) -> None:
    stream = controller.stream()
    with SqliteLog.create(tmp_path / "log", 3) as log:
        writer = make_writer(stream, wire=wire, log=log)
        writer.register()
        transaction = writer.begin()
        transaction.write([Event(b"a", segment="0")])
        wire.faults = list(ALL_LOST)
        with pytest.raises(CommittedWithoutNote):
            transaction.commit(200)
        with writer.begin() as transaction:
            transaction.write([Event(b"b", segment="0")])
            with pytest.raises(TimeWentBack):
                transaction.commit(150)
        assert log.end_offsets()["0"] == 1
        writer.close()
    assert [(mark.time, mark.cut) for mark in controller.marks(stream)] == [(200, {"0": 1})]


def test_a_writer_that_could_not_look_into_its_log_registers_again(
    controller: Any, make_writer: Any, late_log: Any, wire: Any
) -> None:
    """Only then does it know what an earlier process of its name has written."""

    class Unreadable:
        def end_offsets(self) -> dict[str, int]:
            raise ConnectionError("the log is away")

        def __getattr__(self, name: str) -> Any:
            return getattr(late_log, name)

    stream = controller.stream()
    late_log.append([Event(b"a", segment="0")])
    late_log.flush()
    late_log.forget_own()
    writer = make_writer(stream, wire=wire, log=Unreadable())
    with pytest.raises(ConnectionError):
        writer.register()
    del Unreadable.end_offsets
    writer.note_time(100)
    assert [mark.cut for mark in controller.marks(stream)] == [{"0": 1}]


# -- in the background -----------------------------------------------------------------------------------------


def test_a_position_below_the_last_one_is_raised_at_once(controller: Any, make_background: Any) -> None:
    with make_background(controller.stream()) as writer:
        writer.note_time(100, {"0": 5, "1": 1})
        with pytest.raises(PositionWentBack):
            writer.note_time(200, {"0": 4})
        writer.note_time(200, {"1": 1})
