"""The log on Kafka keeps the contract of logs: on a real broker, with transactions and without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import pytest

from strandline.logs import Log
from strandline.logs.kafka import KafkaLog
from strandline.logs.kafka_reader import KafkaLogReader
from tests.kafka import Kafka

pytest.register_assert_rewrite("strandline.logs.contract")

from strandline.logs.contract import AppendContract, TransactionContract, TruncationContract  # noqa: E402  # only what is imported after that line is rewritten

NUMBERS = count(1)


@dataclass
class KafkaUnderTest:
    kafka: Kafka
    topic: str
    transactional: bool
    opened: list[KafkaLog] = field(default_factory=list)

    def writer(self) -> Log:
        own_id = f"{self.topic}-{len(self.opened)}" if self.transactional else None
        log = KafkaLog.connect(self.kafka.servers, self.topic, transactional_id=own_id)
        self.opened.append(log)
        return log

    def reader(self) -> KafkaLogReader:
        self.kafka.wait_until_decided(self.topic)
        return KafkaLogReader(self.kafka.servers, self.topic)


def _under_test(kafka: Kafka, *, transactional: bool) -> Iterator[KafkaUnderTest]:
    topic = f"contract-{next(NUMBERS)}"
    kafka.create_topic(topic, 3)
    under_test = KafkaUnderTest(kafka, topic, transactional)
    yield under_test
    for log in under_test.opened:
        log.close()


class TestKafkaLog(AppendContract, TruncationContract):
    @pytest.fixture
    def log_under_test(self, kafka: Kafka) -> Iterator[KafkaUnderTest]:
        yield from _under_test(kafka, transactional=False)


class TestTransactionalKafkaLog(TransactionContract):
    @pytest.fixture
    def log_under_test(self, kafka: Kafka) -> Iterator[KafkaUnderTest]:
        yield from _under_test(kafka, transactional=True)
