"""While a transaction is open no note passes its events: by hand it is refused, by the clock it waits below them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from reader_client import TimeWindows
from strandline.core.config import StreamConfig, TimeDomain
from strandline.logs import Log
from strandline.logs.kafka import KafkaLog, TrackedProducer
from strandline.logs.sqlite import SqliteLog
from strandline.testing import Acknowledge, ScriptedLog
from tests.kafka import Kafka
from tests.writer_client.clocks import SOON, Clock, wait_for, wait_for_notes
from writer_client import AutomaticTime, Event, TransactionUnderWay, Writer

NUMBERS = count(1)
INGESTION = StreamConfig(time_domain=TimeDomain.INGESTION, mark_interval_ms=0)


def to(segment: str, *values: bytes) -> list[Event]:
    return [Event(value, segment=segment) for value in values]


@pytest.fixture(params=["sqlite", "scripted", "on flush", "kafka"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    """A log with transactions, of every kind; its segment "0" is there."""
    made: Log
    match request.param:
        case "sqlite":
            made = SqliteLog.create(tmp_path / "log.db", 3)
        case "scripted":
            made = ScriptedLog(3).writer()
        case "on flush":
            made = ScriptedLog(3).writer(Acknowledge.ON_FLUSH)
        case _:
            kafka: Kafka = request.getfixturevalue("kafka")
            topic = f"open-{next(NUMBERS)}"
            kafka.create_topic(topic, 3)
            made = KafkaLog.connect(kafka.servers, topic, transactional_id=topic)
    yield made
    made.close()


def marks(controller: Any, stream: str) -> list[tuple[int, int]]:
    """Time, and how far the cut reaches."""
    return [(mark.time, sum(mark.cut.values())) for mark in controller.marks(stream)]


def wait_until_noted(writer: Any, time: int) -> None:
    wait_for(lambda: writer.status().noted.get("") == time)


def wait_until_cut(controller: Any, stream: str, reach: int) -> None:
    wait_for(lambda: marks(controller, stream)[-1][1] == reach)


# -- by hand -------------------------------------------------------------------------------------------------------


def test_a_note_by_hand_is_refused_while_a_transaction_is_open(
    controller: Any, make_any: Any, log: Log, wire: Any
) -> None:
    stream, reports = controller.stream(3), list[Any]()
    writer = make_any(stream, log=log, wire=wire, on_report=reports.append)
    with writer.begin() as transaction:
        transaction.write(to("0", b"100"))
        for position in ({}, {"position": {"0": 5}}):
            with pytest.raises(TransactionUnderWay, match=r"note_time\(\) has to wait .* commit or abort it first"):
                writer.note_time(200, **position)
        assert "POST notes" not in wire.lines
        transaction.commit(200)
    with writer.begin() as transaction:
        transaction.write(to("0", b"aborted"))
    writer.note_time(300)
    writer.close()
    with TimeWindows(controller.url, stream) as windows:
        assert windows.get_time_window({}).lower is None  # what lies unread is not passed
    end = sum(log.positions().values())
    assert marks(controller, stream)[-1] == (300, end)
    assert end >= 1
    assert reports == []


def test_a_time_is_not_committed_while_another_transaction_is_open(
    controller: Any, make_writer: Any, tmp_path: Path
) -> None:
    stream = controller.stream(3)
    log = SqliteLog.create(tmp_path / "log.db", 3)
    with make_writer(stream, log=log) as writer:
        first, second = writer.begin(), writer.begin()
        first.write(to("0", b"100"))
        second.write(to("0", b"150"))
        with pytest.raises(TransactionUnderWay, match="commit\\(\\) with a time"):
            second.commit(200)
        assert log.end_offsets()["0"] == 0
        second.commit()
        first.commit(200)
    assert marks(controller, stream) == [(200, 2)]
    log.close()


def test_a_note_waits_for_a_transaction_that_was_begun_at_the_log(
    controller: Any, make_writer: Any, make_background: Any, log: Log
) -> None:
    stream = controller.stream(3)
    writers = [make_writer(stream, "w1", log=log), make_background(stream, "w2", log=log)]
    for writer in writers:
        writer.register()
    transaction = log.begin()
    transaction.write(to("0", b"100"))
    for writer in writers:
        with pytest.raises(TransactionUnderWay, match=r"note_time\(\) has to wait"):
            writer.note_time(200)
        with writer.begin() as own, pytest.raises(TransactionUnderWay, match="commit\\(\\) with a time"):
            own.commit(200)
    transaction.commit()
    for writer in writers:
        writer.note_time(200)
        writer.close()
    assert marks(controller, stream) == [(200, sum(log.positions().values()))]


def test_a_transaction_that_nobody_holds_any_more_keeps_no_note_back(
    controller: Any, make_writer: Any, tmp_path: Path
) -> None:
    stream = controller.stream(3)
    with SqliteLog.create(tmp_path / "log.db", 3) as log, make_writer(stream, log=log) as writer:
        writer.begin()  # nobody can commit it
        gc.collect()  # an error of before, which has a traceback, may lead back to it
        writer.note_time(100)
    assert marks(controller, stream) == [(100, 0)]


def test_what_is_written_beside_a_transaction_is_covered_by_its_note(controller: Any, make_writer: Any) -> None:
    stream = controller.stream(3)
    log = ScriptedLog(3).writer(Acknowledge.ON_FLUSH)
    with make_writer(stream, log=log) as writer, writer.begin() as transaction:
        writer.write(to("1", b"90"))  # under way until somebody flushes
        transaction.write(to("0", b"95"))
        transaction.commit(100)
    assert [mark.cut for mark in controller.marks(stream)] == [{"0": 1, "1": 1}]


# -- by the clock --------------------------------------------------------------------------------------------------


def test_the_clock_does_not_pass_an_open_transaction(controller: Any, make_any: Any, log: Log, wire: Any) -> None:
    stream, clock = controller.stream(3), Clock(1_000)
    reports: list[Any] = []
    automatic = AutomaticTime(period_ms=SOON, lag_ms=10, clock=clock)
    with make_any(stream, log=log, wire=wire, on_report=reports.append, automatically_note_time=automatic) as writer:
        wait_for(lambda: 990 in writer.status().noted.values())
        for now in (2_000, 3_000):
            before = marks(controller, stream)[-1]
            with writer.begin() as transaction:
                transaction.write(to("0", b"%d" % now))
                clock.now = now
                wait_for_notes(wire)
                assert marks(controller, stream)[-1] == before
                assert not writer.status().failed_write and writer.status().stuck is None
                transaction.commit()
            wait_until_noted(writer, now - 10)
            assert marks(controller, stream)[-1] == (now - 10, sum(log.positions().values()))
        with writer.begin() as transaction:
            transaction.write(to("0", b"aborted"))
            clock.now = 4_000
        wait_for(lambda: writer.status().noted[""] == 3_990)
    assert reports == []


@pytest.mark.parametrize("domain", ["event", "ingestion"])
def test_consecutive_transactions_do_not_stop_the_clock(
    controller: Any, make_any: Any, tmp_path: Path, wire: Any, domain: Any
) -> None:
    stream = controller.stream(3, config=INGESTION if domain == "ingestion" else StreamConfig(mark_interval_ms=0))
    automatic = AutomaticTime(period_ms=SOON, lag_ms=0, domain=domain)
    with (
        SqliteLog.create(tmp_path / "log.db", 3) as log,
        make_any(stream, log=log, wire=wire, automatically_note_time=automatic) as writer,
    ):
        wait_for(lambda: writer.status().noted)
        transaction = writer.begin()
        for number in range(1, 6):
            transaction.write(to("0", b"x"))
            wait_for_notes(wire)
            transaction.commit()
            transaction = writer.begin()
            wait_until_cut(controller, stream, number)
        transaction.abort()


@pytest.mark.parametrize("domain", ["event", "ingestion"])
def test_a_commit_may_say_a_time_beside_the_clock(controller: Any, make_any: Any, tmp_path: Path, domain: Any) -> None:
    config = INGESTION if domain == "ingestion" else StreamConfig(mark_interval_ms=0, max_ahead_ms=None)
    stream, clock = controller.stream(3, config=config), Clock(1_000)
    reports: list[Any] = []
    automatic = AutomaticTime(period_ms=SOON, lag_ms=0, domain=domain, clock=clock)
    with (
        SqliteLog.create(tmp_path / "log.db", 3) as log,
        make_any(stream, log=log, on_report=reports.append, automatically_note_time=automatic) as writer,
    ):
        wait_for(lambda: writer.status().noted)
        for number, said in enumerate((500, 5_000), start=1):
            with writer.begin() as transaction:
                transaction.write(to("0", b"%d" % said))
                transaction.commit(said)
            if domain == "event" and said == 5_000:
                wait_for(lambda: writer.status().noted[""] == 5_000)
                assert marks(controller, stream)[-1] == (5_000, 2)
            else:
                clock.now += 1
                wait_until_cut(controller, stream, number)
    assert reports == []


# -- a producer's own transactions ---------------------------------------------------------------------------------


@pytest.fixture
def producer(kafka: Kafka) -> Iterator[tuple[TrackedProducer, str]]:
    topic = f"tracked-{next(NUMBERS)}"
    kafka.create_topic(topic, 3)
    tracked = TrackedProducer({**kafka.client, "transactional.id": topic})
    tracked.init_transactions()
    yield tracked, topic
    tracked.log(topic).close()


def test_notes_by_hand_wait_for_a_tracked_producers_transaction(
    controller: Any, make_background: Any, producer: tuple[TrackedProducer, str]
) -> None:
    tracked, topic = producer
    stream = controller.stream(3)
    log = tracked.log(topic)
    writers = [Writer(controller.url, stream, "w1", log=log), make_background(stream, "w2", log=log)]
    for writer in writers:
        writer.register()
    for number in range(1, 4):
        tracked.begin_transaction()
        tracked.produce(topic, b"%d" % number, partition=0)
        tracked.flush()
        for writer in writers:
            with pytest.raises(TransactionUnderWay):
                writer.note_time(number * 100)
        tracked.commit_transaction()
        for writer in writers:
            writer.note_time(number * 100)
        # The next transaction is open by the time at which the note in the background asks for its position.
    tracked.begin_transaction()
    tracked.produce(topic, b"open", partition=0)
    tracked.flush()  # a transaction that is aborted while its first event is on its way can fail
    assert writers[1].wait_until_answered()
    assert marks(controller, stream)[-1] == (300, log.positions()["0"])
    tracked.abort_transaction()
    for writer in writers:
        writer.close()


def test_the_clock_waits_for_a_tracked_producers_transaction(
    controller: Any, make_any: Any, producer: tuple[TrackedProducer, str], wire: Any
) -> None:
    tracked, topic = producer
    stream, clock = controller.stream(3), Clock(1_000)
    reports: list[Any] = []
    automatic = AutomaticTime(period_ms=SOON, lag_ms=0, clock=clock)
    with make_any(
        stream, log=tracked.log(topic), wire=wire, on_report=reports.append, automatically_note_time=automatic
    ) as writer:
        wait_for(lambda: writer.status().noted)
        tracked.begin_transaction()
        tracked.produce(topic, b"x", partition=0)
        clock.now = 2_000
        wait_for_notes(wire)
        assert marks(controller, stream) == [(1_000, 0)]
        tracked.commit_transaction()
        wait_for(lambda: writer.status().noted[""] == 2_000)
        assert marks(controller, stream)[-1] == (2_000, 1)
    assert reports == []
