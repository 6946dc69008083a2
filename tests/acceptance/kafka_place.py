"""Three real brokers as a place for the story: instead of a split, one is killed and partitions are added; instead of a
merge, it comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from strandline.logs import Event, Memo
from strandline.logs.kafka import KafkaLog
from strandline.logs.kafka_reader import KafkaLogReader
from tests.acceptance.story import Pace, Scaling
from tests.kafka import Kafka

# A partition gets another leader in two seconds: nobody is lost who only waits for that.
PACE = Pace(writer_timeout_ms=3_000, away_ms=1_000, patience_ms=60_000)
PARTITIONS = 3
MORE_PARTITIONS = 5


def open_log(servers: str, topic: str, writer: str, kind: str) -> KafkaLog:
    # New partitions are looked for often, and a broker that comes back is found at once.
    settings = {"topic.metadata.refresh.interval.ms": 500, "reconnect.backoff.max.ms": 200}
    transactional_id = f"{topic}-{writer}" if kind == "transactions" else None
    return KafkaLog.connect(servers, topic, transactional_id=transactional_id, settings=settings)


def warm_up(servers: str, topic: str) -> None:
    """The first transaction and the first memo of a cluster: its coordinators have to be made and loaded for them."""
    with open_log(servers, topic, "warm-up", "transactions") as log, log.begin() as transaction:
        transaction.write([Event(b"", key=b"")])
        transaction.commit(Memo("warm-up", ""))


@dataclass
class KafkaPlace:
    kafka: Kafka
    topic: str
    opener: str = "tests.acceptance.kafka_place:open_log"
    segments: Literal["open"] = "open"
    killed: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kafka.create_topic("warm-up", 1)
        warm_up(self.kafka.servers, "warm-up")
        self.kafka.create_topic(self.topic, PARTITIONS)

    @property
    def options(self) -> dict[str, Any]:
        return {"servers": self.kafka.servers, "topic": self.topic}

    def reader(self) -> KafkaLogReader:
        return KafkaLogReader(self.kafka.servers, self.topic)

    def split(self) -> Scaling | None:
        """Partitions are added, and the broker that leads the first one is killed, under writers that go on."""
        self.kafka.add_partitions(self.topic, MORE_PARTITIONS)
        self.killed.append(self.kafka.leader(self.topic, 0))
        self.kafka.kill(self.killed[-1])
        return None

    def merge(self) -> Scaling | None:
        self.kafka.start(self.killed[-1])
        return None
