"""The topics and the group of relays' histories over real Kafka.

A relay that hangs is given up when it has not consumed for a second, as one is that does not answer.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any, Final, cast
from unittest.mock import patch

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from strandline.errors import StrandlineError
from strandline.logs import Position
from strandline.logs.kafka_topic import NotedTopics, Topic
from tests.drawn import Draw, Suite
from tests.histories.history import Untrue
from tests.histories.relay_history import PARTITIONS, Gate, RelayHistory
from tests.kafka import Kafka
from tools.jars import fetched
from writer_client.relay.topic import READS

HUNG_MS: Final = 1_000
GIVEN_UP_S: Final = 30
HISTORIES: Final = count(1)
SILENT: Final = {"log_level": 0}
QUICK: Final = {
    "session.timeout.ms": HUNG_MS,
    "max.poll.interval.ms": HUNG_MS,
    "heartbeat.interval.ms": 100,
    "log_level": 0,
}


class RealKafka:
    """The topics of one history."""

    def __init__(self, kafka: Kafka) -> None:
        number = next(HISTORIES)
        self.kafka, self.notes, self.group = kafka, f"notes-{number}", f"relays-{number}"
        self.streams = (f"relayed-{number}-1", f"relayed-{number}-2")
        for topic in (self.notes, *self.streams):
            kafka.create_topic(topic, PARTITIONS)
        self.begin_to_produce()
        self.noted = NotedTopics(kafka.client)
        self.looking = Consumer({**kafka.client, **SILENT, "group.id": self.group, "enable.auto.commit": False})
        self.members: list[Any] = []
        self.lengths = [0] * PARTITIONS

    def ends(self, streams: Collection[str]) -> Mapping[str, Position | StrandlineError]:
        return self.noted.ends(streams)

    def append(self, stream: str, partition: int, value: bytes) -> None:
        self._produce(stream, partition, value)

    def _produce(self, topic: str, partition: int, value: bytes) -> int:
        found: list[tuple[KafkaError | None, Message]] = []
        self.producer.produce(topic, value, partition=partition, on_delivery=lambda *answer: found.append(answer))
        assert self.producer.flush(GIVEN_UP_S) == 0 and found[0][0] is None, found
        return cast(int, found[0][1].offset())

    def recreate(self, stream: str) -> None:
        self.kafka.recreate_topic(stream, PARTITIONS)
        self.begin_to_produce()  # the one before would go on with the old one

    def begin_to_produce(self) -> None:
        self.producer = Producer({**self.kafka.client, **SILENT, "acks": "all", "linger.ms": 0})

    def lose_end(self, stream: str, partition: int, count: int) -> bool:
        return False

    def send(self, partition: int, value: bytes) -> int:
        offset = self._produce(self.notes, partition, value)
        self.lengths[partition] = offset + 1
        return offset

    def sent(self) -> list[int]:
        return self.lengths

    def committed(self) -> list[int]:
        found = self.looking.committed([TopicPartition(self.notes, each) for each in range(PARTITIONS)], GIVEN_UP_S)
        return [max(0, each.offset) for each in found]

    def join(self, gate: Gate) -> tuple[Topic, Any]:
        settings = {**self.kafka.client, **SILENT, **READS, "group.id": self.group, **QUICK}
        member = Stepped(Consumer(settings), gate)
        self.members.append(member)
        return cast(Topic, SteppedTopic(self.notes, self.kafka.client, gate)), member

    def give_up(self, member: Any) -> None:
        deadline = time.monotonic() + GIVEN_UP_S
        while member.memberid() is not None and time.monotonic() < deadline:
            time.sleep(0.05)

    def end(self, member: Any) -> None:
        """The group finds it out by itself."""

    def end_all(self) -> None:
        for each in self.members:
            each.close()
        self.members.clear()

    def close(self) -> None:
        self.end_all()
        self.looking.close()


class SteppedTopic(Topic):
    def __init__(self, name: str, settings: Mapping[str, Any], gate: Gate) -> None:
        super().__init__(name, settings)
        self.gate = gate

    def known_ends(self, partitions: Iterable[int]) -> tuple[Position, str]:
        self.gate.wait("ends of notes")
        return super().known_ends(partitions)


class Stepped:
    """A consumer whose calls wait for their step."""

    def __init__(self, consumer: Consumer, gate: Gate) -> None:
        self.consumer, self.gate = consumer, gate

    def consume(self, count: int, timeout: float) -> Any:
        self.gate.wait("consume")
        return self.consumer.consume(count, timeout)

    def commit(self, **more: Any) -> Any:
        self.gate.wait("commit")
        return self.consumer.commit(**more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.consumer, name)


def over(kafka: Kafka) -> Suite:
    """Histories of relays over a broker."""

    def run(draw: Draw) -> None:
        real = RealKafka(kafka)
        RelayHistory(draw, real).run()
        real.close()

    return Suite("relays-kafka", run, Untrue)


@contextmanager
def over_a_broker() -> Iterator[Suite]:
    kafka = Kafka(fetched("kafka"), 1, group_min_session_timeout_ms=str(HUNG_MS))
    try:
        with patch("writer_client.relay.topic.TAKEN_WITHIN_S", 0.02):
            yield over(kafka)
    finally:
        kafka.remove()
