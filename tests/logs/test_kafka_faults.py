"""Brokers that die while a log is written: no position covers what was lost, and writing goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from strandline.errors import StrandlineError
from strandline.logs import Event, Position, StoredEvent
from strandline.logs.errors import LogFenced, LogUnavailable, LogUndecided, NotAcknowledged
from strandline.logs.kafka import KafkaLog
from strandline.logs.kafka_reader import KafkaLogReader
from strandline.logs.kafka_topic import NotedTopics, Topic
from tests.kafka import Kafka

pytestmark = pytest.mark.full

NUMBERS = count(1)
EACH = 20  # events an append

Offsets = dict[bytes, tuple[str, list[int]]]  # by value: where it stands


class Account:
    """Appends without a pause, and keeps what it was told: each value with the position that covers it."""

    def __init__(self, log: KafkaLog) -> None:
        self._log = log
        self._numbers = count(1)
        self._since: list[bytes] = []
        self.covered: list[tuple[list[bytes], Position]] = []
        self.handed_back: list[bytes] = []
        self.trouble: list[str] = []

    def step(self) -> None:
        """An append and a flush, as a note would do it; what is handed back is appended again."""
        events = [Event(b"%d" % number, key=b"%d" % (number % 17)) for number in islice(self._numbers, EACH)]
        while events or self._since:
            try:
                self._log.append(events)
                self._since += [event.value or b"" for event in events]
                events = []
                position = self._log.flush()
            except NotAcknowledged as error:
                self.trouble.append(error.code)
                events = list(error.events)
                lost = {event.value for event in error.events}
                self.handed_back += [value for value in self._since if value in lost]
                self._since = [value for value in self._since if value not in lost]
            except LogUnavailable as error:  # a transaction of which nothing was written
                self.trouble.append(error.code)
            else:
                self.covered.append((self._since, position))
                self._since = []

    def check(self, found: Offsets) -> None:
        """Everything covered is there, wholly below its position, and only what was handed back may stand twice."""
        assert self.covered
        for values, position in self.covered:
            for value in values:
                segment, offsets = found[value]
                assert max(offsets) < position[segment], f"{value!r} stands at {offsets}, the position is {position}"
                assert len(offsets) == 1 or value in self.handed_back


def stored(kafka: Kafka, topic: str) -> Offsets:
    kafka.wait_until_decided(topic)
    found: Offsets = {}
    with KafkaLogReader(kafka.servers, topic) as reader:
        for segment, end in reader.end_offsets().items():
            for row in reader.rows(segment, 0, end):
                found.setdefault(row.value or b"", (segment, []))[1].append(row.offset)
    return found


@pytest.fixture
def new_topic(three_brokers: Kafka) -> Callable[[], str]:
    def create() -> str:
        name = f"faults-{next(NUMBERS)}"
        three_brokers.create_topic(name, 3)
        return name

    return create


@pytest.fixture
def killed(three_brokers: Kafka) -> Iterator[Callable[[int], None]]:
    """Kills a broker; in the end it runs again."""
    numbers: list[int] = []

    def kill(number: int) -> None:
        three_brokers.kill(number)
        numbers.append(number)

    yield kill
    for number in numbers:
        three_brokers.start(number)


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
def test_a_killed_leader_loses_nothing_that_a_position_covers(
    three_brokers: Kafka, new_topic: Callable[[], str], killed: Callable[[int], None], transactional: bool
) -> None:
    topic, over = new_topic(), threading.Event()
    own_id = topic if transactional else None
    with KafkaLog.connect(three_brokers.servers, topic, transactional_id=own_id) as log:
        account = Account(log)

        def write() -> None:
            while not over.is_set():
                account.step()

        commit = threading.Thread(target=write)
        commit.start()
        try:
            dead = three_brokers.leader(topic, 0)
            killed(dead)
            while three_brokers.leader(topic, 0) in (dead, -1):
                assert commit.is_alive()
            steps = len(account.covered)
            while len(account.covered) < steps + 3:  # writing goes on
                assert commit.is_alive()
        finally:
            over.set()
            commit.join()
    account.check(stored(three_brokers, topic))


def test_a_new_process_waits_for_the_events_that_only_the_leader_has(three_brokers: Kafka) -> None:
    topic = f"faults-{next(NUMBERS)}"
    three_brokers.create_topic(topic, 1, copies=2, config={"min.insync.replicas": "2"})
    asked = Topic(topic, three_brokers.client)
    (follower,) = three_brokers.replicas(topic, 0) - {three_brokers.leader(topic, 0)}
    with KafkaLog.connect(three_brokers.servers, topic) as log:
        log.append([Event(b"acknowledged", segment="0")])
        assert log.flush() == {"0": 1}
        with ThreadPoolExecutor(1) as pool:
            three_brokers.kill(follower)
            try:
                log.append([Event(b"only the leader has it", segment="0")])
                while follower in three_brokers.replicas(topic, 0, in_sync=True):
                    time.sleep(0.05)
                assert asked.ends() == {"0": 1}
                ends = pool.submit(asked.ends_for_notes)
            finally:
                three_brokers.start(follower)
            assert ends.result() == {"0": 2}


class MayNotAsk(Topic):
    def _setting(self, name: str, timeout_s: float) -> str:
        raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))


def test_who_may_not_ask_how_many_replicas_are_needed_waits_for_all(
    three_brokers: Kafka, new_topic: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic()
    asked, reason = MayNotAsk(topic, three_brokers.client), ""
    three_brokers.kill(1)
    try:
        while 1 in three_brokers.replicas(topic, 0, in_sync=True):
            time.sleep(0.05)
        with monkeypatch.context() as impatient:
            impatient.setattr("strandline.logs.kafka_topic.KAFKA_ASK_MS", 0)
            while "has 2 in-sync replicas, and needs 3: without the right DescribeConfigs on the topic" not in reason:
                with pytest.raises(LogUnavailable) as caught:  # at first, that the broker does not answer
                    asked.ends_for_notes()
                reason = caught.value.reason
    finally:
        three_brokers.start(1)
    assert asked.ends_for_notes() == {"0": 0, "1": 0, "2": 0}


def test_positions_wait_while_a_follower_that_hangs_may_hide_events_given_up(
    three_brokers: Kafka, new_topic: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.logs.kafka.KAFKA_LAG_MS", 10_000)  # of brokers that miss another after two seconds
    topic = new_topic()
    settings = {"delivery.timeout.ms": 1000, "request.timeout.ms": 1000, "linger.ms": 0}
    with KafkaLog.connect(three_brokers.servers, topic, settings=settings) as log:
        Account(log).step()
        hanging = 1 + three_brokers.leader(topic, 0) % 3
        three_brokers.pause(hanging)
        try:
            log.append([Event(b"given up", segment="0")])
            began = time.monotonic()
            with pytest.raises(NotAcknowledged):
                log.flush()
        finally:
            three_brokers.resume(hanging)
        interrupted = Mock(side_effect=KeyboardInterrupt)
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr("strandline.logs.kafka_topic.time.sleep", interrupted)
            log.flush()
        with ThreadPoolExecutor(2) as pool:  # one does not pass while the other waits
            flushed = list(pool.map(lambda _: (log.flush(), time.monotonic()), range(2)))
    end = Topic(topic, three_brokers.client).ends()["0"]
    assert all(position["0"] == end and at >= began + 10 for position, at in flushed)


def test_a_topic_answers_soon_after_any_broker_died(
    three_brokers: Kafka, new_topic: Callable[[], str], killed: Callable[[int], None]
) -> None:
    """Also after the one that this client takes for the controller."""
    topic = new_topic()
    asked = [Topic(topic, three_brokers.client) for _ in range(8)]  # each is told of any of the brokers
    assert all(each.partitions() == [0, 1, 2] for each in asked)
    killed(1)
    for each in asked:
        assert each.ends() == {"0": 0, "1": 0, "2": 0}


def test_a_topic_answers_and_a_log_goes_on_while_a_broker_hangs(
    three_brokers: Kafka, new_topic: Callable[[], str]
) -> None:
    topic = new_topic()
    asked = [Topic(topic, three_brokers.client) for _ in range(6)]
    assert all(each.partitions() == [0, 1, 2] for each in asked)
    settings = {"delivery.timeout.ms": 30_000}  # less than librdkafka's own wait for a broker
    with KafkaLog.connect(three_brokers.servers, topic, settings=settings) as log, ThreadPoolExecutor(6) as pool:
        log.append([Event(b"before", segment="0")])
        log.flush()
        hanging = three_brokers.leader(topic, 0)
        three_brokers.pause(hanging)
        try:
            answers = [pool.submit(each.partitions) for each in asked]
            log.append([Event(b"meanwhile", segment="0")])
            assert log.flush() == {"0": 2}
            assert all(each.result() == [0, 1, 2] for each in answers)
        finally:
            three_brokers.resume(hanging)


def test_a_transaction_that_kafka_has_ended_is_not_the_end(new_kafka: Callable[..., Kafka]) -> None:
    """The broker was away for longer than `transaction.timeout.ms`, and has aborted it. Then it may also say that the
    producer is fenced."""
    broker = new_kafka(1, transaction_abort_timed_out_transaction_cleanup_interval_ms="200")
    broker.create_topic("ended", 1)
    appended: list[bytes] = []
    trouble: list[StrandlineError] = []
    over = threading.Event()
    with KafkaLog.connect(
        broker.servers, "ended", transactional_id="ended", settings={"transaction.timeout.ms": 1000}
    ) as log:

        def write() -> None:
            numbers = count(1)
            while not over.is_set():
                value = b"%d" % next(numbers)
                try:
                    log.append([Event(value, segment="0")])
                except LogFenced:
                    return
                except StrandlineError as error:
                    trouble.append(error)
                    time.sleep(0.1)
                else:
                    appended.append(value)

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            try:
                while len(appended) < 10:
                    assert not writing.done()
                broker.kill(1)
                time.sleep(3)  # longer than its transaction may take
                broker.start(1)
                before = len(appended)
                while len(appended) < before + 10 and not writing.done():
                    assert len(trouble) < 100, trouble[-1]
            finally:
                over.set()
            writing.result()
    found = stored(broker, "ended")
    assert all(len(found[value][1]) == 1 for value in appended)


def test_timed_out_events_are_returned_and_covered_if_they_arrived(kafka: Kafka) -> None:
    """A broker hangs until their time is over, and then takes what was sent to it."""
    kafka.create_topic("hanging", 2)
    settings = {
        "delivery.timeout.ms": 1000,
        "linger.ms": 0,
        "request.timeout.ms": 1000,
        "reconnect.backoff.max.ms": 100,
    }
    with KafkaLog.connect(kafka.servers, "hanging", settings=settings) as log:
        account = Account(log)
        account.step()
        before = log.positions()
        kafka.pause(1)
        try:
            log.append([Event(b"given up", key=b"%d" % n) for n in range(5)])
            with pytest.raises(NotAcknowledged) as caught:
                log.flush()
            assert [event.value for event in caught.value.events] == [b"given up"] * 5
            assert log.positions() == before
            log.append([Event(b"again", key=b"%d" % n) for n in range(5)])
            with pytest.raises(NotAcknowledged) as caught:
                log.flush()
        finally:
            kafka.resume(1)
        log.append(caught.value.events)
        account.step()
        after = log.flush()
    found: dict[str, list[StoredEvent]] = {}
    with KafkaLogReader(kafka.servers, "hanging") as reader:
        for segment, end in reader.end_offsets().items():
            found[segment] = list(reader.rows(segment, 0, end))
    assert all(row.offset < after[segment] for segment, rows in found.items() for row in rows)
    assert [row.value for rows in found.values() for row in rows].count(b"again") >= 5
    account.check(stored(kafka, "hanging"))


def test_a_commit_that_is_not_answered_is_undecided_until_it_is(kafka: Kafka) -> None:
    kafka.create_topic("undecided", 1)
    hanging = threading.Event()

    def hang(error: KafkaError | None, message: Message) -> None:
        """After the event is acknowledged, and before the commit is."""
        if message.value() == b"second":
            kafka.pause(1)
            hanging.set()

    with KafkaLog.connect(
        kafka.servers, "undecided", transactional_id="undecided", settings={"on_delivery": hang}, commit_timeout_ms=500
    ) as log:
        first = log.append([Event(b"first", segment="0")])
        try:
            with pytest.raises(LogUndecided, match="flush"):
                log.append([Event(b"second", segment="0")])
            assert hanging.is_set()
            assert log.positions() == first
            with pytest.raises(LogUndecided):
                log.flush()
        finally:
            kafka.resume(1)
        position = log.flush()
        third = log.append([Event(b"third", segment="0")])
    found = stored(kafka, "undecided")
    assert found.keys() == {b"first", b"second", b"third"}
    assert found[b"second"] == ("0", [position["0"] - 1])
    assert found[b"third"] == ("0", [third["0"] - 1])


def test_ends_of_many_topics_are_asked_at_once_and_what_one_lacks_is_its_own(
    three_brokers: Kafka, new_topic: Callable[[], str]
) -> None:
    needs_all, needs_two = f"{new_topic()}-all", new_topic()
    three_brokers.create_topic(needs_all, 1, config={"min.insync.replicas": "3"})
    asked = NotedTopics(three_brokers.client)
    assert asked.ends([needs_all, needs_two, "none"]) == {needs_all: {"0": 0}, needs_two: {"0": 0, "1": 0, "2": 0}}
    said: set[str] = set()
    three_brokers.kill(1)
    try:
        while not {"topic_missing", "has 2 in-sync replicas, and needs 3"} <= said:
            found = asked.ends([needs_all, needs_two, "none"])
            lacking, missing = found[needs_all], found.get("none")
            if isinstance(lacking, LogUnavailable):
                said.add(lacking.reason.partition("partition 0 ")[2])
            if isinstance(missing, StrandlineError):
                said.add(missing.code)
        while isinstance(asked.ends([needs_two])[needs_two], LogUnavailable):
            time.sleep(0.05)
    finally:
        three_brokers.start(1)
    while isinstance(again := asked.ends([needs_all])[needs_all], LogUnavailable):
        said.add(again.reason)
        time.sleep(0.05)
    assert again == {"0": 0} and "its followers fetch what they lacked" in said
