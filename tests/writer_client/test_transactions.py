"""Transactions: their time is noted once they are durable, and a crash in between is made up for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strandline.client import calls
from strandline.core.config import StreamConfig
from strandline.errors import ControllerAway, InvalidConfig, InvalidNote, TimeTooFarAhead, TimeWentBack, TooMany
from strandline.logs import Memo, Position
from strandline.logs.sqlite import SqliteLog
from tests.writer_client.clocks import wait_until_answered
from writer_client import BackgroundWriter, CommittedWithoutNote, Event

OpenLog = Callable[[], SqliteLog]
AWAY = ["away"] * 20_000  # for as long as a test likes


def to(segment: str, *values: bytes) -> list[Event]:
    return [Event(value, segment=segment) for value in values]


def test_a_commit_is_noted_with_the_position_behind_it(
    controller: Any, make_writer: Any, open_log: OpenLog, wire: Any
) -> None:
    with make_writer(controller.stream(), log=open_log(), wire=wire) as writer:
        with writer.begin() as transaction:
            transaction.write(to("0", b"a"))
            assert transaction.commit() is None
        with writer.begin() as transaction:
            transaction.write(to("0", b"b"))
            transaction.write(to("2", b"c"), newest=90)
            assert wire.lines == ["PUT writers/w1"]  # a commit without a time notes nothing, and holds nothing back
            answer = transaction.commit(100)
        assert wire.lines == ["PUT writers/w1", "POST notes"]
        assert [mark.cut for mark in answer.marks] == [{"0": 2, "2": 1}]


@pytest.mark.parametrize("end", ["abort", "leave"])
def test_an_abort_writes_and_notes_nothing(
    controller: Any, make_writer: Any, open_log: OpenLog, wire: Any, end: str
) -> None:
    log = open_log()
    with make_writer(controller.stream(), log=log, wire=wire, leaving="close") as writer:
        with writer.begin() as transaction:
            transaction.write(to("0", b"a"))
            if end == "abort":
                transaction.abort()
        assert log.end_offsets() == {"0": 0, "1": 0, "2": 0}
    assert wire.lines == ["PUT writers/w1", "DELETE writers/w1?epoch=1"]


def test_a_writer_that_went_idle_during_a_transaction_registers_before_it_commits(
    controller: Any, make_writer: Any, open_log: OpenLog, wire: Any
) -> None:
    stream = controller.stream()
    with make_writer(stream, log=open_log(), wire=wire) as writer:
        writer.note_time(50)
        with writer.begin() as transaction:
            transaction.write(to("0", b"a"))
            writer.idle()
            transaction.commit()
        assert wire.lines[-1] == "PUT writers/w1"
        assert controller.states(stream) == {"joined": 1}


def test_a_time_that_is_wrong_or_too_many_times_prevent_a_commit_which_can_be_made_without_them(
    controller: Any, make_writer: Any, open_log: OpenLog
) -> None:
    log, times = open_log(), {f"key_{number}": 1_700_000_000_000 for number in range(200)}
    wrong: list[tuple[Any, type[Exception], str]] = [
        (99, TimeWentBack, "99"),
        (1.5, InvalidNote, r"1\.5"),
        (2**53, InvalidNote, "time"),
        (times, TooMany, r"times of 200 keys, which the log keeps with a commit, .* limit of 4000"),
    ]
    with make_writer(controller.stream(), log=log) as writer:
        writer.note_time(100)
        for time, error, told in wrong:
            with writer.begin() as transaction:
                transaction.write(to("0", b"a"))
                with pytest.raises(error, match=told):
                    transaction.commit(time)
                assert log.end_offsets()["0"] == 0
        with writer.begin() as transaction:
            with pytest.raises(TooMany):
                transaction.commit(times)
            transaction.commit()
        writer.note_time(times)


def test_an_undelivered_note_is_no_failed_commit_and_goes_later(
    controller: Any, make_writer: Any, open_log: OpenLog, wire: Any
) -> None:
    log = open_log()
    stream = controller.stream()
    with make_writer(stream, log=log, wire=wire) as writer:
        with writer.begin() as transaction:
            transaction.write(to("0", b"a"))
            wire.faults = list(AWAY)
            with pytest.raises(CommittedWithoutNote, match="goes out with the next note") as raised:
                transaction.commit({"": 100, "ship_time": 90})
        assert isinstance(raised.value.__cause__, ControllerAway)
        assert not raised.value.refused
        assert log.end_offsets()["0"] == 1
        wire.faults = []
        writer.note_time(101)
    assert [mark.time for mark in controller.marks(stream)] == [101]
    assert [mark.time for mark in controller.marks(stream, "ship_time")] == [90]


def test_a_note_that_is_refused_does_not_go_out_again_nor_keeps_the_next_process_from_registering(
    controller: Any, make_writer: Any, open_log: OpenLog
) -> None:
    stream = controller.stream(config=StreamConfig(mark_interval_ms=0))
    writer = make_writer(stream, log=open_log())
    with writer.begin() as transaction:
        transaction.write(to("0", b"a"))
        with pytest.raises(CommittedWithoutNote) as raised:
            transaction.commit(2**52)
    assert isinstance(raised.value.__cause__, TimeTooFarAhead)
    assert raised.value.refused
    (mark,) = writer.note_time(100).marks
    assert (mark.time, mark.cut) == (100, {"0": 1})
    writer.release()
    with make_writer(stream, log=open_log()) as restarted:
        assert isinstance(restarted.repaired, TimeTooFarAhead)
        restarted.note_time(101)


def test_a_crash_between_commit_and_note_is_made_up_for_on_registering(
    controller: Any, make_any: Any, open_log: OpenLog, wire: Any
) -> None:
    stream = controller.stream()
    crashed = make_any(stream, log=open_log(), wire=wire)
    for time, faults in ((50, []), (None, []), (100, AWAY)):
        with crashed.begin() as transaction:
            transaction.write(to("0", b"a"))
            wire.faults = list(faults)
            if faults and not isinstance(crashed, BackgroundWriter):
                with pytest.raises(CommittedWithoutNote):
                    transaction.commit(time)
            else:
                transaction.commit(time)
        if not faults:
            wait_until_answered(crashed)
    crashed.release()  # as a process that dies does: the note never left
    assert [(mark.time, mark.cut) for mark in controller.marks(stream)] == [(50, {"0": 1})]

    for repaired in ([(100, {"0": 3})], None):  # what was noted before the next crash is not noted again
        restarted = make_any(stream, log=open_log())
        restarted.register()
        found = restarted.repaired
        assert repaired == (found and [(mark.time, mark.cut) for mark in found.marks])
        assert restarted.floors == {"": 100}
        restarted.release()
    assert [mark.time for mark in controller.marks(stream)] == [50, 100]


class BusyLog(SqliteLog):
    """An earlier process commits after each question to it."""

    life = ""

    def memo(self, name: str) -> str | None:
        memo = super().memo(name)
        self.commit()
        return memo

    def end_offsets(self) -> Position:
        ends = super().end_offsets()
        self.commit()
        return ends

    def commit(self) -> None:
        with self.begin() as transaction:
            transaction.write(to("0", b"a"))
            transaction.commit(Memo("w1", json.dumps({"life": self.life, "times": {"": 100}})))


def test_a_repair_covers_the_events_of_a_commit_that_comes_meanwhile(
    controller: Any, make_writer: Any, open_log: OpenLog, tmp_path: Path
) -> None:
    open_log()
    stream = controller.stream()
    with BusyLog(tmp_path / "log.db") as log:
        log.life = make_writer(stream).register().life
        log.commit()
        make_writer(stream, log=log).register()
    assert controller.marks(stream)[-1].cut == {"0": 2}


@pytest.mark.parametrize("memo", ['{"batch": 0, "digest": "x"}', "1", "text"])
def test_a_writer_named_like_another_owner_of_a_memo_is_refused(
    controller: Any, make_writer: Any, open_log: OpenLog, memo: str
) -> None:
    log = open_log()
    log.begin().commit(Memo("w1", memo))
    writer = make_writer(controller.stream(), log=log)
    for _ in range(2):
        with pytest.raises(InvalidConfig, match=r"the writer's name cannot be 'w1': .* a name of its own"):
            writer.write(to("0", b"a"))
    assert log.end_offsets()["0"] == 0


def test_no_mark_cuts_a_transaction_in_two(controller: Any, make_writer: Any, open_log: OpenLog) -> None:
    stream = controller.stream()
    ends = []
    first, second = make_writer(stream, "w1", log=open_log()), make_writer(stream, "w2", log=open_log())
    for number, writer in enumerate([first, second] * 4):
        with writer.begin() as transaction:
            for segment in ("0", "1"):
                transaction.write(to(segment, b"x") * (number + 1))
            transaction.commit(100 + number)
        ends.append(sum(range(number + 2)))
    marks = controller.run(calls.marks(stream, limit=100)).marks
    assert len(marks) > 3
    assert all(mark.cut["0"] == mark.cut["1"] and mark.cut["0"] in ends for mark in marks)
